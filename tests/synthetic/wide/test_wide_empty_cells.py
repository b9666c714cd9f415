"""Empty cells of tables of two columns: they are found where one column tells the other, and none is made elsewhere."""

import numpy as np
import pytest

from duckdp.synthetic.tree.make import empty_cells, estimates
from duckdp.synthetic.tree.make.empty_cells import without_empty_cells
from duckdp.synthetic.tree.make.estimates import estimate_pair

NOISE = 0.0015  # of the rows, in each cell
ROWS = 20_000


def told(rng: np.random.Generator) -> np.ndarray:
    """24 values, each of which has one of six others, or rarely a second one."""
    own = 1 / np.arange(1, 25) ** 0.8
    table = np.zeros((24, 6))
    table[np.arange(24), rng.integers(0, 6, 24)] = 0.9 * own
    table[np.arange(24), rng.integers(0, 6, 24)] += 0.1 * own
    return table / own.sum()


def apart(rng: np.random.Generator) -> np.ndarray:
    return np.outer(rng.dirichlet(np.ones(12)), rng.dirichlet(np.ones(8)))


def heap(rng: np.random.Generator) -> np.ndarray:
    """Two numbers that are correlated by a half: no cell is empty, far ones hold few rows."""
    x, y = np.meshgrid(np.linspace(-2, 2, 10), np.linspace(-2, 2, 10))
    r = rng.uniform(0.4, 0.6)
    table = np.exp(-(x**2 - 2 * r * x * y + y**2) / 2 / (1 - r**2))
    return table / table.sum()


def error(law, estimate) -> float:
    """Average total variation of ten estimates."""
    rng, found = np.random.default_rng(7), []
    for _ in range(10):
        table = law(rng)
        noisy = ROWS * (table + NOISE * rng.standard_normal(table.shape))
        made = estimate(noisy, ROWS * NOISE, ROWS, table.sum(axis=1), table.sum(axis=0))
        assert np.abs(made.sum(axis=0) - table.sum(axis=0)).sum() < 0.002  # rows are scaled last
        found.append(float(np.abs(made - table).sum()) / 2)
    return float(np.mean(found))


@pytest.fixture
def before(monkeypatch):
    """Estimates that cut at 0 alone: the broken twin of what follows."""

    def estimate(*given):
        with monkeypatch.context() as patch:
            patch.setattr(estimates, "without_empty_cells", lambda table, expected, _: np.maximum(table, 0.0))
            return estimate_pair(*given)

    return estimate


def test_a_column_that_tells_another_has_empty_cells(before):
    assert error(told, estimate_pair) < 0.75 * error(told, before)


@pytest.mark.parametrize("law", [apart, heap])
def test_columns_that_do_not_lose_nothing(law, before):
    assert error(law, estimate_pair) < 1.03 * error(law, before)


def test_a_rule_that_empties_too_much_is_noticed(before, monkeypatch):
    def greedy(table, expected, noise):
        return np.where(table < 1.5 * expected, 0.0, table)

    monkeypatch.setattr(estimates, "without_empty_cells", greedy)
    assert error(heap, estimate_pair) > 1.03 * error(heap, before)


def test_without_noise_a_table_stays_as_it_is():
    table = np.array([[0.5, -0.0], [0.1, 0.4]])
    assert np.array_equal(without_empty_cells(table, np.full((2, 2), 0.25), 0.0), table)
    assert np.array_equal(without_empty_cells(table, np.zeros((2, 2)), 0.1), table)


def test_a_cell_that_may_be_noise_gives_way_and_one_that_stands_out_does_not():
    expected = np.full((8, 8), 1 / 64)
    signs = (-1.0) ** np.add.outer(np.arange(8), np.arange(8))
    table = np.where(np.eye(8) > 0, 1 / 8, 0.002 * signs)  # seven cells of eight are noise
    found = without_empty_cells(table, expected, 0.002)
    assert found[~np.eye(8, dtype=bool)].max() < 0.0005
    assert np.allclose(np.diag(found), 1 / 8)


def test_a_table_of_many_cells_is_looked_at_in_parts(monkeypatch):
    rng = np.random.default_rng(3)
    table = told(rng)
    noisy = table + NOISE * rng.standard_normal(table.shape)
    expected = np.outer(table.sum(axis=1), table.sum(axis=0))
    whole = without_empty_cells(noisy, expected, NOISE)
    monkeypatch.setattr(empty_cells, "_FITTED", 100)
    monkeypatch.setattr(empty_cells, "_TOGETHER", 50)
    assert np.abs(without_empty_cells(noisy, expected, NOISE) - whole).sum() < 0.1 * np.abs(noisy - table).sum()


@pytest.mark.parametrize("rows", [20, 35, 50, 110, 240])
def test_few_rows_that_stand_out_of_the_noise_are_kept(rows: int):
    """The corner of a table of two booleans: no grid of ratios rounds it, however far below half of them it is."""
    table, half, rng = (
        np.array([[rows, ROWS / 2 - rows], [ROWS / 2 - rows, rows]]),
        np.full(2, 0.5),
        np.random.default_rng(4),
    )
    found = [estimate_pair(table + 5 * rng.standard_normal((2, 2)), 5.0, ROWS, half, half)[0, 0] for _ in range(50)]
    assert abs(ROWS * float(np.mean(found)) - rows) < 3
    assert max(abs(ROWS * x - rows) for x in found) < 20


def test_cells_that_weights_are_fitted_to_are_of_all_columns():
    """A stride that divides the columns would see some of them alone."""
    for columns in (256, 400):
        some = empty_cells._spread(columns * 512, 4096)
        assert len(set((some % columns).tolist())) == columns
        assert len(set((some // columns).tolist())) == 512

"""The bench's way from rows to rows is the product's: types, domains and relation come back."""

import numpy as np
import pytest

from duckdp.bench.tables_path import Path

COLUMNS, SHARES = 6, (0.5, 0.3, 0.2)


def people(n=3000):
    rng = np.random.default_rng(6)
    unit = rng.uniform(-0.5, 0.5, (n, COLUMNS))
    unit[:, 1:4] = 2.0 * (rng.choice(3, n, p=SHARES)[:, None] == np.arange(3)) - 1
    unit[:, 5] = np.where(unit[:, 4] + 0.2 * unit[:, 0] > 0.1, 1.0, -1.0)
    return unit


@pytest.mark.parametrize("method", ["auto", "psi"])
def test_rows_come_back_as_rows(method):
    unit = people()
    made = Path(unit=unit, label=True, groups=((1, 2, 3),), rows=500, method=method).make("20")
    assert made.shape == (500, COLUMNS)
    assert set(made[:, 5].tolist()) == {-1.0, 1.0}
    assert (made[:, 1:4].sum(axis=1) == -1).all()
    assert np.abs(made.mean(axis=0) - unit.mean(axis=0)).max() < (0.05 if method == "auto" else 0.3)


def test_a_target_is_the_label():
    unit = people()
    made = Path(unit=unit, label=True, rows=500).make("5", target=Path(unit=unit, label=True).label_name)
    assert np.corrcoef(made[:, 4], made[:, 5])[0, 1] > 0.4
    made[:, 5] = np.random.default_rng(0).permutation(made[:, 5])
    assert abs(np.corrcoef(made[:, 4], made[:, 5])[0, 1]) < 0.3

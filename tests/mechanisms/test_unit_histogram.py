"""Histograms of units: one unit moves one bin by one; intervals cover; the estimate of what is lost."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from fractions import Fraction

import duckdb
import pytest

from duckdp.compiler.per_unit import plan_per_unit
from duckdp.core.noise import laplace_scale
from duckdp.core.types import NANO, PICO
from duckdp.errors import DuckDPError
from duckdp.mechanisms.unit_histogram import ENDS, UnitHistogram
from tests.smooth.tables import column, connect, table

PEOPLE = table(
    column("x", 0.0, 10.0),
    column("g", None, None, "VARCHAR", domain=("a", "b", None)),
    column("n", None, None, "VARCHAR"),
    column("c", None, None, "VARCHAR", domain=("a", "b"), other="b"),
    unit_key="pid",
    max_rows=1,
)
Row = tuple[int | None, float, str | None]


@pytest.mark.parametrize("epsilon_nano", [1000, 10**6, NANO // 3, NANO, 7 * NANO])
def test_it_costs_rho_too(epsilon_nano: int) -> None:
    """One unit moves one bin by one: Laplace noise of scale 1 / epsilon is epsilon-DP, and epsilon^2 / 2 of zCDP."""
    made = UnitHistogram(epsilon_nano)
    assert Fraction(made.loss.rho_pico, PICO) >= Fraction(epsilon_nano, NANO) ** 2 / 2
    assert made.loss.rho_pico - 1 < PICO * Fraction(epsilon_nano, NANO) ** 2 / 2
    assert (made.loss.epsilon_nano, made.loss.delta_atto, made.loss.delta_zcdp_atto) == (epsilon_nano, 0, 0)
    assert Fraction(made.noise.scale) * Fraction(epsilon_nano, NANO) >= 1


@pytest.fixture
def con() -> Iterator[duckdb.DuckDBPyConnection]:
    with connect() as opened:
        yield opened


def bins(con: duckdb.DuckDBPyConnection, rows: list[Row], keys: str | None = None) -> list[int]:
    """Exact bins from the printed query; a key reads the same column under three declarations."""
    task = plan_per_unit(PEOPLE, keys, None, epsilon_nano=NANO)
    con.execute("CREATE OR REPLACE TABLE t (pid INTEGER, x DOUBLE, g VARCHAR, n VARCHAR, c VARCHAR)")
    for pid, x, g in rows:
        con.execute("INSERT INTO t VALUES ($1, $2, $3, $3, $3)", [pid, x, g])
    query, found = task.query(7), [0] * (len(ENDS) + 1)
    for place, units in con.execute(query.sql, list(query.parameters)).fetchall():
        found[place] = units
    return found


def test_bins_are_of_units_by_their_rows(con: duckdb.DuckDBPyConnection) -> None:
    rows: list[Row] = [(u, 1.0, "a") for u, n in enumerate((1, 1, 2, 3, 5, 6, 11)) for _ in range(n)] + [
        (None, 1.0, "a")
    ]
    assert bins(con, rows)[:6] == [2, 1, 2, 1, 1, 0]
    assert bins(con, []) == [0] * (len(ENDS) + 1)


@pytest.mark.parametrize(("keys", "groups"), [("g", 3), ("n", 4), ("c", 2), ("g, floor(x)", 5), ("c, x > 1", 3)])
def test_groups_are_those_of_a_group_by(con: duckdb.DuckDBPyConnection, keys: str, groups: int) -> None:
    rows: list[Row] = [
        (1, 0.0, "a"),
        (1, 0.5, "a"),
        (1, 3.0, "a"),
        (1, 3.0, "b"),
        (1, 4.0, None),
        (1, 4.0, "zz"),
        (1, 5.0, "b"),
    ]
    wanted = [0] * (len(ENDS) + 1)
    wanted[sum(end < groups for end in ENDS)] = 1
    assert bins(con, rows, keys) == wanted


@pytest.mark.parametrize("keys", [None, "g", "n", "c, floor(x)"])
def test_a_unit_moves_one_bin_by_one(con: duckdb.DuckDBPyConnection, keys: str | None) -> None:
    """All tables of two units with up to two rows each, and a third one of up to three: brute force."""
    values: list[Row] = [(0, 0.0, "a"), (0, 3.0, None), (0, 0.0, "zz")]
    choices = [list(c) for n in range(3) for c in itertools.combinations_with_replacement(values, n)]
    moved = set()
    for first, more in itertools.product(choices, [*choices, [values[0]] * 3]):
        others = [(1, x, g) for _, x, g in first] + [(2, 0.0, "b")]
        before, after = bins(con, others, keys), bins(con, [*others, *((9, x, g) for _, x, g in more)], keys)
        change = [b - a for a, b in zip(before, after, strict=True)]
        moved.add(sum(map(abs, change)))
        assert min(change) >= 0
    assert moved == {0, 1}


def test_a_histogram_of_rows_is_caught(con: duckdb.DuckDBPyConnection) -> None:
    """The twin: a unit adds its rows to a bin, not itself."""
    bins(con, [(9, 0.0, "a")] * 3)
    query = plan_per_unit(PEOPLE, None, None, epsilon_nano=NANO).query(7)
    twin = query.sql.replace("AS bin, system.main.count_star()", "AS bin, sum(u.c)")
    assert twin != query.sql
    assert con.execute(query.sql).fetchall() == [(2, 1)]
    assert con.execute(twin).fetchall() == [(2, 3)]


def test_noise_is_that_of_one_unit() -> None:
    law = UnitHistogram(NANO // 2)
    assert law.noise.scale == laplace_scale(Fraction(1, 2), 1) == 2.0
    assert law.loss.epsilon_nano == NANO // 2
    counts = [5000, 300, 200, *[0] * (len(ENDS) - 2)]
    hits = sum(abs(sum(law.release(counts)[1:]) - 500) <= law.half_width(len(ENDS)) for _ in range(2000))
    assert hits >= 0.95 * 2000 - 6 * (2000 * 0.05 * 0.95) ** 0.5
    assert hits <= 0.96 * 2000 + 6 * (2000 * 0.05 * 0.95) ** 0.5  # half the noise would cover all


def test_what_is_lost_is_estimated_from_clear_bins() -> None:
    law = UnitHistogram(NANO)
    noisy = [1000, 500, 0, 100, 3, *[-2] * (len(ENDS) - 4)]  # 1, 2, 6 to 10 rows; three units are not clear
    rows = 1000 + 500 * 2 + 100 * 8
    assert law.lost(noisy)[:4] == pytest.approx([(500 + 100 * 7) / rows, 100 * 6 / rows, 100 * 3 / rows, 0])
    assert law.lost([0] * (len(ENDS) + 1)) == [None] * len(ENDS)


@pytest.mark.parametrize(
    ("keys", "code"),
    [
        ("", "Q"),
        ("*", "Q302"),
        ("x", "Q303"),
        ("1", "Q"),
        ("sum(x)", "Q301"),
        ("pid", "Q301"),
        ("g; SELECT 1", "Q102"),
        ("g FROM t", "Q101"),
        ("g AS h", "Q"),
        ("nope", "Q207"),
        ("g, g", "Q201"),
        ("(SELECT 1)", "Q"),
        ("'a'", "Q303"),
    ],
)
def test_keys_are_those_of_a_group_by_or_refused(keys: str, code: str) -> None:
    with pytest.raises(DuckDPError, match=rf"^{code}"):
        plan_per_unit(PEOPLE, keys, None, epsilon_nano=NANO)


def test_rows_as_units_have_nothing_to_ask() -> None:
    with pytest.raises(DuckDPError, match=r"^P107.*no unit_key"):
        plan_per_unit(table(column("x", 0.0, 1.0)), None, None, epsilon_nano=NANO)

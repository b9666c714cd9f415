"""Which rows of a unit count: each with the same chance, a function of the unit's own rows, and where it is used."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction

import duckdb
import pytest

from duckdp.bench.measure import read_rows
from duckdp.compiler.emit import emit
from duckdp.compiler.printing import UNIT, print_chosen
from duckdp.compiler.quantile import plan_quantile
from duckdp.core.task import Stages
from duckdp.core.types import NANO, Neighbours
from duckdp.synthetic.stored import read_synthesis
from tests.gate import plan_for
from tests.smooth.tables import column, connect, table
from tests.synthetic.plans import plan_wide

UNITS, EACH = 2000, 10  # one row of ten is sick and costs 90, the others 10
DATA = f"""CREATE TABLE t AS SELECT (i // {EACH})::INTEGER AS k, i % {EACH} = 0 AS sick,
    CASE WHEN i % {EACH} = 0 THEN 90.0 ELSE 10.0 END::DOUBLE AS cost FROM range({UNITS * EACH}) r(i)"""
ROWS = f'(SELECT k AS {UNIT}, sick AS s, cost AS c FROM "t")'
SPEC = (column("cost", 0.0, 100.0, nullable=False), column("sick", None, None, "BOOLEAN", nullable=False))


def _by_values(most: int) -> str:
    """The twin: equal rows hash alike, and one of the distinct rows is drawn."""
    order = f"hash({UNIT}, s, c, 7::UBIGINT), s, c"
    place = f"row_number() OVER (PARTITION BY {UNIT} ORDER BY {order}) AS place"
    return f"(SELECT s, c FROM (SELECT *, {place} FROM {ROWS} AS r) WHERE place <= {most})"


@pytest.mark.parametrize("most", [1, 3])
def test_every_row_has_the_same_chance(most: int) -> None:
    with connect() as con:
        con.execute(DATA)
        for salt in (0, 7, 2**63 + 5):
            chosen = print_chosen(ROWS, ["s", "c"], salt, most)
            share, count = con.execute(f"SELECT avg(s::INTEGER), count(*) FROM {chosen}").fetchone() or ()
            assert count == UNITS * most
            assert share == pytest.approx(0.1, abs=0.043 / most**0.5)  # six deviations
        twin = con.execute(f"SELECT avg(s::INTEGER) FROM {_by_values(1)}").fetchone() or ()
        assert twin[0] == pytest.approx(0.5, abs=0.07)


def test_every_row_of_one_unit_has_the_same_chance_over_the_salts() -> None:
    salts = [k * 0x9E3779B97F4A7C15 % 2**64 for k in range(300)]
    mended, once = Counter[int](), Counter[int]()
    with connect() as con:
        con.execute(f"CREATE TABLE u AS SELECT 1 AS {UNIT}, i AS x FROM range(5) r(i)")
        for salt in salts:
            sql = print_chosen("(FROM u)", ["x"], salt, 1)
            mended.update(x for _, x in con.execute(sql).fetchall())
            twin = sql.replace("system.main.hash(system.main.hash(", "(system.main.hash(")
            once.update(x for _, x in con.execute(twin).fetchall())
    assert mended.total() == once.total() == 300
    spread = 6 * (300 * 0.2 * 0.8) ** 0.5
    assert all(abs(mended[x] - 60) < spread for x in range(5))
    assert any(abs(once[x] - 60) > 2 * spread for x in range(5))


def test_every_group_of_one_unit_has_the_same_chance_over_the_salts() -> None:
    many = table(column("g", None, None, "VARCHAR", domain=tuple("abcde")), unit_key="pid", max_rows=1, max_groups=1)
    plan = plan_for("SELECT g, count(*) FROM t GROUP BY g", many)
    mended, once = Counter[int](), Counter[int]()
    with connect() as con:
        con.execute("CREATE TABLE t AS SELECT 9 AS pid, unnest(['a', 'b', 'c', 'd', 'e']) AS g")
        for k in range(300):
            query = emit(plan, k * 0x9E3779B97F4A7C15 % 2**64)
            mended.update(row[0] for row in con.execute(query.sql, list(query.parameters)).fetchall() if row[1])
            twin = query.sql.replace("system.main.hash(system.main.hash(", "(system.main.hash(")
            once.update(row[0] for row in con.execute(twin, list(query.parameters)).fetchall() if row[1])
    assert mended.total() == once.total() == 300
    spread = 6 * (300 * 0.2 * 0.8) ** 0.5
    assert all(abs(mended[g] - 60) < spread for g in range(1, 6))
    assert any(abs(once[g] - 60) > 2 * spread for g in range(1, 6))


def test_the_choice_is_that_of_the_units_own_rows() -> None:
    chosen = print_chosen(ROWS, ["c", "s"], 7, 2)
    sql = f"SELECT {UNIT}, list(c ORDER BY c) FROM {print_chosen(ROWS, ['c'], 7, 2)} GROUP BY ALL ORDER BY 1"
    found = []
    for order in ("k, cost", "k DESC, cost DESC", "hash(k, cost, sick)", "random()"):
        for threads in (1, 2):
            with duckdb.connect(":memory:", config={"threads": threads}) as con:
                con.execute(f"{DATA.replace('CREATE TABLE t AS', 'CREATE TABLE t AS FROM (')}) ORDER BY {order}")
                found.append((con.execute(sql).fetchall(), con.execute(f"FROM {chosen} ORDER BY ALL").fetchall()))
                con.execute("DELETE FROM t WHERE k = 5")
                fewer = con.execute(sql).fetchall()
                assert fewer == [row for row in found[0][0] if row[0] != 5]  # nobody else's rows changed
    assert all(f == found[0] for f in found)


def test_columns_may_have_any_name() -> None:
    names = ['"unit"', '"copy"', '"draw"', '"edge"', '"n"', '"c1"', '"__Unit2"']
    with connect() as con:
        items = ", ".join(f"(i * {k + 3}) % 5 AS {name}" for k, name in enumerate(names))
        con.execute(f"CREATE TABLE t AS SELECT i % 50 AS {UNIT}, {items} FROM range(2000) r(i)")
        found = con.execute(f"FROM {print_chosen('t', names, 3, 1)}")
        assert [d[0] for d in found.description or []] == [UNIT, *(name.strip('"') for name in names)]
        rows = found.fetchall()
        assert len(rows) == 50
        assert set(rows) <= set(con.execute("FROM t").fetchall())


@pytest.mark.parametrize("method", ["tree", "moments"])
def test_a_synthetic_table_has_the_shares_of_rows(method: str) -> None:
    task = plan_wide(
        table(*SPEC, unit_key="k", expected_rows=UNITS),
        None,
        epsilon_nano=50 * NANO,
        delta_atto=0,
        neighbours=Neighbours.ADD_REMOVE,
        rows=4000,
        method=method,
        target=None,
    )
    with connect() as con:
        con.execute(DATA)
        made = read_synthesis(task.work(7)(Stages(lambda q: read_rows(con, q))))
    assert made.columns["sick"].astype(float).mean() == pytest.approx(0.1, abs=0.06)  # 0.5 by distinct rows
    assert made.columns["cost"].astype(float).mean() == pytest.approx(18, abs=6)  # 50 by distinct rows


def test_a_quantile_takes_each_row_of_a_unit_alike() -> None:
    task = plan_quantile(
        table(*SPEC, unit_key="k", max_rows=1),
        "cost",
        None,
        epsilon_nano=50 * NANO,
        delta_atto=0,
        quantile=Fraction(7, 10),
        neighbours=Neighbours.ADD_REMOVE,
    )
    with connect() as con:
        con.execute(DATA)
        query = task.query(7)
        ((cell, _),) = read_rows(con, query)
        twin = con.execute(f"SELECT quantile_disc(c, 0.7) FROM {_by_values(1)}").fetchone()
    assert cell / task.quantile.grid_cells == pytest.approx(0.1)
    assert twin == (90.0,)

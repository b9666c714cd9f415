"""Every private read is a sum (of rows: a union) over units of what each unit's own rows give, whatever the hash.

That is what "removing a unit moves nothing of another's" means (unit-local relations), in a form that any tie broken by
place fails: a table of one unit has another layout than the whole. Collisions are forced: the hash in the printed SQL
keeps one bit, or none. Rows are shuffled and read by one thread and by two.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction
from functools import cache
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from duckdp.bench.measure import read_rows
from duckdp.compiler.bounds import plan_bounds
from duckdp.compiler.emit import emit
from duckdp.compiler.per_unit import plan_per_unit
from duckdp.compiler.printing import UNIT, Parameters, print_chosen
from duckdp.compiler.quantile import plan_quantile
from duckdp.core.reads import Gather, PrivateQuery
from duckdp.core.types import NANO, Neighbours
from duckdp.mechanisms.smooth_sensitivity import SmoothQuantile
from duckdp.smooth.buy.summary_task import plan_summary
from duckdp.smooth.buy.wishes import Wishes
from duckdp.synthetic.tree.bins import make_bins
from duckdp.synthetic.tree.buy.bin_sql import print_code
from duckdp.synthetic.unit.buy.reading import UnitReader
from tests.gate import plan_for
from tests.smooth.tables import column, table
from tests.synthetic.plans import plan_wide

HASH = "system.main.hash("
HASHES = {"64 bits": HASH, "one bit": f"1::UBIGINT & {HASH}", "constant": f"0::UBIGINT & {HASH}"}
PEOPLE = table(
    column("x", 0.0, 10.0),
    column("y", -1.0, 1.0),
    column("n", None, None, "VARCHAR"),
    column("g", None, None, "VARCHAR", domain=("a", "b", "c")),
    column("f", None, None, "BOOLEAN"),
    unit_key="pid",
    max_rows=2,
    max_groups=1,
)
STATEMENTS = [
    "SELECT count(*), sum(x), avg(y) FROM t",
    "SELECT g, count(*), sum(y) FROM t GROUP BY g",
    "SELECT n, count(*), count(DISTINCT pid) FROM t GROUP BY n",
    "SELECT n, f, avg(x), count(*) FROM t WHERE x > 1 GROUP BY n, f",
    "SELECT floor(x), count(*) FROM t GROUP BY 1",
]
TYPES = (pa.int32(), pa.float64(), pa.float64(), pa.string(), pa.string(), pa.bool_())
Row = tuple[Any, ...]
Read = Callable[[Sequence[Row], str], Counter[Any]]


def rows_of(rng: random.Random, units: int = 6) -> list[Row]:
    """(pid, x, y, n, g, f): few values, so that a unit has equal rows, rows equal but for one column, and NULLs."""
    return [
        (
            rng.choice([None, *range(units)]),
            rng.choice([None, 0.0, -0.0, 3.0, 3.5, 9.0, 1e9, float("nan")]),
            rng.choice([-1.0, 0.25, 7.0]),
            rng.choice(["a", "b", "c", None]),
            rng.choice(["a", "b", "zz", None]),
            rng.choice([True, False, None]),
        )
        for _ in range(rng.randint(8, 40))
    ]


@cache
def _instance(threads: int) -> duckdb.DuckDBPyConnection:
    return duckdb.connect(":memory:", config={"threads": threads})


def _opened(rows: Sequence[Row]) -> duckdb.DuckDBPyConnection:
    """The rows as a table, in their order; with one thread or two."""
    con = _instance(1 + len(rows) % 2)
    frame = pa.table(
        [pa.array(values, kind) for values, kind in zip(zip(*rows, strict=True), TYPES, strict=True)],
        names=["pid", "x", "y", "n", "g", "f"],
    )
    con.register("frame", frame)
    con.execute("CREATE OR REPLACE TABLE t AS FROM frame")
    return con


def _fetch(rows: Sequence[Row], query: PrivateQuery, hashing: str, twin: Callable[[str], str] = str) -> list[Row]:
    sql = twin(query.sql).replace(HASH, HASHES[hashing])
    return _opened(rows).execute(sql, list(query.parameters)).fetchall()


def _selected(text: str, twin: Callable[[str], str] = str) -> Read:
    plan = plan_for(text, PEOPLE)
    width = len(plan.query.keys)

    def read(rows: Sequence[Row], hashing: str) -> Counter[Any]:
        found: Counter[Any] = Counter()
        for row in _fetch(rows, emit(plan, 7), hashing, twin):
            for j, cell in enumerate(row[width:]):
                found[row[:width], j] += int(cell)
        return found

    return read


def _relation(sql: str, parameters: Sequence[Any] = ()) -> Read:
    query = PrivateQuery(sql=f"SELECT r.* FROM {sql} AS r", parameters=tuple(parameters), rows=None, parts=Gather())
    return lambda rows, hashing: Counter(map(_plain, _fetch(rows, query, hashing)))


def _plain(row: Row) -> Row:
    """Without the sign of zero; NaN, which Python never finds equal, by its name."""
    return tuple(str(v + 0.0) if isinstance(v, float) else v for v in row)


def _quantile(monkeypatch: pytest.MonkeyPatch) -> Read:
    task = plan_quantile(
        PEOPLE, "x", None, epsilon_nano=NANO, delta_atto=0, quantile=Fraction(1, 2), neighbours=Neighbours.ADD_REMOVE
    )
    with monkeypatch.context() as patched:
        patched.setattr(SmoothQuantile, "sql", lambda self, relation: relation)
        query = task.query(7)
    return _relation(query.sql, query.parameters)


def _wide(method: str) -> Read:
    task = plan_wide(
        PEOPLE,
        ["x", "y", "g", "f"],
        epsilon_nano=NANO,
        delta_atto=0,
        neighbours=Neighbours.ADD_REMOVE,
        rows=10,
        method=method,
        target=None,
    )
    parameters = Parameters()
    codes = {}
    if method == "tree":
        codes = {f"c{i}": print_code(b, parameters) for i, b in enumerate(make_bins(task.units, 4))}
    reader = UnitReader(table=PEOPLE, units=task.units, expected_rows=1000, salt=7, read=lambda _: ())
    return _relation(reader.relation(parameters, codes), parameters.values)


def _summary(path: str) -> Read:
    names = ["g", "f"] if path == "cells" else ["x", "y"]  # cells of units hold one value each
    wishes = Wishes(degree=4, path=path)
    task = plan_summary(PEOPLE, names, epsilon_nano=NANO, neighbours=Neighbours.ADD_REMOVE, wishes=wishes)

    def read(rows: Sequence[Row], _: str) -> Counter[Any]:
        return Counter(dict(enumerate(task.moments.collect(read_rows(_opened(rows), task.query(7))))))

    return read


def apart(read: Read, rows: Sequence[Row], hashing: str, rng: random.Random) -> int:
    """By how much the whole differs from its units, at most in one place."""
    units = sorted({row[0] for row in rows if row[0] is not None})
    whole = read(rng.sample(rows, len(rows)), hashing)
    parts: Counter[Any] = Counter()
    for unit in units:
        parts.update(read(rng.sample([r for r in rows if r[0] == unit], sum(r[0] == unit for r in rows)), hashing))
    return max((abs(whole[key] - parts[key]) for key in {*whole, *parts}), default=0)


def _worst(read: Read, hashings: Iterable[str], tables: int, seed: int = 0) -> int:
    rng = random.Random(seed)
    return max(apart(read, rows_of(rng), hashing, rng) for hashing in hashings for _ in range(tables))


@pytest.mark.parametrize("text", STATEMENTS)
def test_a_select_adds_up_over_units(text: str) -> None:
    assert _worst(_selected(text), HASHES, 4) == 0


def test_a_quantiles_rows_are_those_of_its_units(monkeypatch: pytest.MonkeyPatch) -> None:
    assert _worst(_quantile(monkeypatch), HASHES, 6) == 0


@pytest.mark.parametrize("method", ["moments", "tree"])
def test_the_rows_of_a_synthetic_table_are_those_of_its_units(method: str) -> None:
    assert _worst(_wide(method), HASHES, 6) == 0


def test_bounds_and_histograms_of_units_add_up() -> None:
    query = plan_bounds(PEOPLE, "x", None, epsilon_nano=NANO, neighbours=Neighbours.ADD_REMOVE).query(7)
    assert _worst(_relation(f"({query.sql})", query.parameters), HASHES, 4) == 0
    for keys in (None, "g", "n, f"):
        histogram = plan_per_unit(PEOPLE, keys, None, epsilon_nano=NANO).query(7)

        def read(rows: Sequence[Row], hashing: str, query: PrivateQuery = histogram) -> Counter[Any]:
            return Counter(dict(_fetch(rows, query, hashing)))  # units by bin

        assert _worst(read, HASHES, 3) == 0


@pytest.mark.parametrize("most", [1, 2, 7])
def test_chosen_rows_are_those_of_their_units(most: int) -> None:
    scan = f"(SELECT pid AS {UNIT}, x, n, g FROM t WHERE pid IS NOT NULL)"
    assert _worst(_relation(print_chosen(scan, ["x", "n", "g"], 7, most)), HASHES, 8) == 0


@pytest.mark.parametrize("path", ["sums", "cells", "blocks"])
def test_a_summary_adds_up_over_units(path: str) -> None:
    """It chooses no rows; its totals are rounded once, so each unit's too: half a step each."""
    assert _worst(_summary(path), ["64 bits"], 4) <= (0 if path == "sums" else 4)


# ---- twins that the same search must catch ---------------------------------------------------------------------------


def _by_place(most: int, draw: str) -> str:
    """Rows numbered by a hash alone."""
    place = f"row_number() OVER (PARTITION BY {UNIT} ORDER BY {draw}) AS place"
    scan = f"(SELECT pid AS {UNIT}, rowid AS __row, x, n, g FROM t WHERE pid IS NOT NULL)"
    return f"(SELECT {UNIT}, x, n, g FROM (SELECT *, {place} FROM {scan} AS r) WHERE place <= {most})"


def test_an_order_by_the_hash_alone_is_caught() -> None:
    twin = _by_place(2, f"{HASH}{UNIT}, x, n, g, 7::UBIGINT)")
    assert _worst(_relation(twin), ["one bit"], 8) > 0
    assert _worst(_relation(twin), ["constant"], 8) > 0


def test_a_hash_of_the_place_is_caught() -> None:
    assert _worst(_relation(_by_place(1, f"{HASH}{UNIT}, __row, 7::UBIGINT)")), ["64 bits"], 8) > 0


def test_groups_in_the_order_of_the_hash_alone_are_caught() -> None:
    def twin(sql: str) -> str:
        changed = sql.replace("AS UBIGINT))), k0) AS place", "AS UBIGINT)))) AS place")
        assert changed != sql
        return changed

    assert _worst(_selected(STATEMENTS[2], twin), ["constant"], 12) > 0

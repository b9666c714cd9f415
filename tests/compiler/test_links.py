"""Links carry a unit to tables that have none: locality of their scans and joins, sensitivities, meaning, and twins."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from typing import Any

import duckdb
import pytest

from duckdp.catalog.link import Link
from duckdp.catalog.table import Table, load_table
from duckdp.compiler import printing
from duckdp.compiler.emit import emit
from duckdp.compiler.plan import Plan
from duckdp.compiler.printing import Parameters, print_rows
from duckdp.compiler.relations import joined
from duckdp.compiler.relations.implied import without_unit
from duckdp.compiler.relations.relation import Relation
from duckdp.errors import QueryError
from duckdp.vault.linking import carrier
from tests.compiler.test_sensitivity import worst
from tests.gate import column, exact_answer, exact_cells, exact_rows
from tests.relational import plan_of, relations_of

STAYS = {"sid": "INTEGER", "pid": "INTEGER", "ward": "INTEGER"}
DOSES = {"did": "INTEGER", "sid": "INTEGER", "mg": "INTEGER"}
NOTES = {"did": "INTEGER", "words": "INTEGER"}
SCHEMA = {"stays": STAYS, "doses": DOSES, "notes": NOTES}
Data = dict[str, list[tuple[int | None, ...]]]


def _table(name: str, **given: Any) -> Table:
    columns = tuple(column(n, t, lower=0, upper=9) for n, t in SCHEMA[name].items() if n in ("ward", "mg", "words"))
    keys = tuple(column(n, t) for n, t in SCHEMA[name].items() if n in ("sid", "did"))
    figures = {"row_cap": 1000, "unit_key": "pid", "unit_type": "INTEGER", "max_rows": 2, "max_groups": 2}
    return Table(name=name, relation=("memory", "main", name), columns=(*columns, *keys), **(figures | given))


def _tables(**given: Any) -> dict[str, Table]:
    stays = _table("stays", unique=("sid",), null_units=(0,), **given)
    link = Link(column="sid", type="INTEGER", key="sid", parent=carrier(stays))
    doses = _table("doses", unique=("did",), link=link, **given)
    notes = _table("notes", link=Link(column="did", type="INTEGER", key="did", parent=carrier(doses)), **given)
    return {"stays": stays, "doses": doses, "notes": notes}


USUAL, WIDE = _tables(), _tables(max_rows=999, max_groups=99)


def random_data(rng: random.Random, *, shared: bool = False) -> Data:
    """NULL and nameless units, orphans, rows that name nothing; with shared keys, which the owner's check refuses."""
    stays = [(i, rng.choice([None, 0, 1, 1, 2, 3]), rng.choice([None, 1, 2])) for i in range(1, 10)]
    stays += [(1, 3, 4), (1, 2, 4)] if shared else []
    stays.append((None, 1, 5))
    doses = [(i, rng.choice([None, *range(1, 13)]), rng.randint(0, 9)) for i in range(1, 20)]
    notes = [(rng.choice([None, *range(1, 24)]), rng.randint(0, 9)) for _ in range(25)]
    return {"stays": stays, "doses": doses, "notes": notes}


def load(con: duckdb.DuckDBPyConnection, data: Data, rng: random.Random) -> None:
    for name, schema in SCHEMA.items():
        con.execute(f"CREATE OR REPLACE TABLE memory.main.{name} ({', '.join(f'{n} {t}' for n, t in schema.items())})")
        rows = list(data[name])
        rng.shuffle(rows)
        if rows:
            con.executemany(f"INSERT INTO memory.main.{name} VALUES ({', '.join('?' * len(schema))})", rows)


def _without(data: Data, unit: int, *, children: bool) -> Data:
    """The neighbour: the rows of a unit are gone; with them, or as orphans that stay, those that are linked to them."""
    stays = [r for r in data["stays"] if r[1] != unit]
    gone = {r[0] for r in data["stays"] if r[1] == unit} - {None}
    doses = [r for r in data["doses"] if not children or r[1] not in gone]
    lost = {r[0] for r in data["doses"]} - {r[0] for r in doses}
    notes = [r for r in data["notes"] if r[0] not in lost]
    return {"stays": stays, "doses": doses, "notes": notes}


def _rows(con: duckdb.DuckDBPyConnection, table: Table, salt: int) -> Counter[Any]:
    parameters = Parameters(key=salt)
    sql = print_rows(table, table.columns, parameters, unit=True)
    names = ", ".join(["__unit", *(f'"{c.name}"' for c in table.columns)])
    rows = con.execute(f"SELECT {names} FROM {sql} AS r", parameters.values).fetchall()
    return Counter((row[0], *(repr(v) for v in row[1:])) for row in rows)


def broken(
    con: duckdb.DuckDBPyConnection, plan: Plan, seed: int, *, tries: int = 2, shared: bool = False
) -> str | None:
    """What a scan or relation of a plan does that it must not, or None."""
    rng = random.Random(seed)
    found = [*relations_of(plan.query.table), *plan.query.table.bases]
    for _ in range(tries):
        data, salt = random_data(rng, shared=shared), rng.randrange(2**64)
        load(con, data, rng)
        whole = [_rows(con, r, salt) for r in found]
        cells = exact_cells(plan, exact_rows(plan, con, salt))
        for unit in (1, 2):
            for children in (True, False):
                load(con, _without(data, unit, children=children), rng)
                for relation, before in zip(found, whole, strict=True):
                    if any(row[0] in (None, 0) for row in before):
                        return "a row has no unit"
                    kept = Counter({row: n for row, n in before.items() if row[0] != unit})
                    if _rows(con, relation, salt) != kept:
                        return "a unit changes what another has"
                    of = Counter(row[0] for row in before.elements())
                    most = relation.rows if isinstance(relation, Relation) else None
                    if most is not None and any(n > most for n in of.values()):
                        return "a unit has more rows than is claimed"
                after = exact_cells(plan, exact_rows(plan, con, salt))
                if max(0, *worst(plan, cells, after)) > 1:
                    return "cells move by more than is claimed"
    return None


JOINED = [
    "SELECT count(*), count(DISTINCT pid) FROM doses",
    "SELECT ward, count(*), sum(mg) FROM doses d JOIN stays s ON d.sid = s.sid GROUP BY ward",
    "SELECT count(*), sum(mg) FROM stays s LEFT JOIN doses d ON d.sid = s.sid AND mg > 2",
    "SELECT count(*), sum(ward) FROM doses d LEFT JOIN stays s USING (sid)",
    "SELECT count(*) FROM stays s FULL JOIN doses d ON d.sid = s.sid",
    "SELECT count(*), sum(words) FROM stays s, doses d, notes n WHERE s.sid = d.sid AND n.did = d.did AND ward = 1",
    "SELECT sum(words) FROM notes n JOIN doses d USING (did) JOIN stays s ON s.sid = d.sid WHERE mg > 1",
    "SELECT count(*) FROM stays s WHERE EXISTS (SELECT 1 FROM doses d WHERE d.sid = s.sid AND mg > 5)",
    "SELECT count(*) FROM stays s WHERE NOT EXISTS (SELECT 1 FROM doses d WHERE d.sid = s.sid)",
    "SELECT count(*) FROM stays s ANTI JOIN doses d ON s.sid = d.sid",
    "SELECT count(*) FROM doses a JOIN doses b ON a.sid = b.sid AND a.did < b.did",
    "SELECT n, count(*) FROM (SELECT pid, count(*) AS n FROM notes GROUP BY pid) GROUP BY n",
    "SELECT count(*) FROM (SELECT sid AS s, mg FROM doses WHERE mg > 1) d JOIN stays t ON d.s = t.sid",
    "SELECT count(*), sum(mg), sum(n) FROM (SELECT pid, count(*) AS n FROM notes GROUP BY pid) p JOIN stays s "
    "ON s.pid = p.pid JOIN doses d ON d.sid = s.sid",
    "SELECT count(*), sum(mg) FROM doses d JOIN (SELECT pid, count(*) AS n FROM stays GROUP BY pid) p ON d.pid = p.pid "
    "RIGHT JOIN stays s ON s.sid = d.sid",
]


def reference(con: duckdb.DuckDBPyConnection, text: str) -> list[tuple[Any, ...]]:
    """DuckDB's own answer, on the rows that count and with their unit."""
    con.execute("CREATE SCHEMA IF NOT EXISTS reference")
    con.execute("CREATE OR REPLACE VIEW reference.stays AS FROM main.stays WHERE pid <> 0")
    own = "JOIN reference.stays s ON s.sid = d.sid"
    con.execute(f"CREATE OR REPLACE VIEW reference.doses AS SELECT d.*, s.pid FROM main.doses d {own}")
    chain = "JOIN reference.doses s ON s.did = d.did"
    con.execute(f"CREATE OR REPLACE VIEW reference.notes AS SELECT d.*, s.pid FROM main.notes d {chain}")
    con.execute("SET schema = 'reference'")
    try:
        return con.execute(text).fetchall()
    finally:
        con.execute("SET schema = 'main'")


@pytest.mark.parametrize("text", JOINED)
def test_links_are_local_and_mean_the_text(con: duckdb.DuckDBPyConnection, text: str) -> None:
    assert broken(con, plan_of(text, USUAL), 1) is None
    rng = random.Random(2)
    for _ in range(3):
        load(con, random_data(rng), rng)
        columns = exact_answer(plan := plan_of(text, WIDE), con)
        found = {row[0]: row for row in zip(*(c.values for c in columns), strict=True)}
        own = {row[0]: row for row in reference(con, text)}
        if not plan.query.keys:
            found, own = {0: next(iter(found.values()))}, {0: next(iter(own.values()))}
        for key, row in own.items():
            wanted = pytest.approx([float(v or 0) for v in row], abs=1e-3)
            assert key is None or [float(v or 0) for v in found[key]] == wanted


def test_a_key_that_two_units_share_is_not_local(con: duckdb.DuckDBPyConnection) -> None:
    """Why it is compared with the rows: the scan would give one unit's rows to another."""
    assert broken(con, plan_of(JOINED[0], USUAL), 1, shared=True) is not None


def _orphans(patch: pytest.MonkeyPatch) -> None:
    honest = printing._rows_that_count

    def kept(*given: Any) -> str:
        return (
            honest(*given)
            .replace(" JOIN (SELECT base", " LEFT JOIN (SELECT base")
            .replace("owner.__unit IS NOT NULL", "TRUE")
        )

    patch.setattr(printing, "_rows_that_count", kept)


def _nameless(patch: pytest.MonkeyPatch) -> None:
    honest = printing._rows_that_count
    patch.setattr(printing, "_rows_that_count", lambda *given: honest(*given).replace("NOT IN", "<> ALL ([7]) OR 0 IN"))


@pytest.mark.parametrize(
    ("text", "breaks"),
    [(JOINED[0], _orphans), (JOINED[0], _nameless)],
)
def test_a_broken_link_is_caught(
    con: duckdb.DuckDBPyConnection, monkeypatch: pytest.MonkeyPatch, text: str, breaks: Any
) -> None:
    breaks(monkeypatch)
    assert broken(con, plan_of(text, USUAL), 3, tries=12) is not None


@pytest.mark.parametrize(
    "text",
    [
        "SELECT count(*) FROM stays s JOIN doses d ON s.ward = d.mg",
        "SELECT count(*) FROM stays s JOIN doses d ON s.sid = d.did",
        "SELECT count(*) FROM stays s JOIN doses d ON s.sid = d.sid OR s.ward = 1",
        "SELECT count(*) FROM stays s JOIN doses d ON s.sid = d.sid + 0",
        "SELECT count(*) FROM stays s JOIN doses d ON s.sid IS NOT DISTINCT FROM d.sid",
        "SELECT count(*) FROM stays s JOIN (SELECT mg AS sid FROM doses) d ON s.sid = d.sid",
        "SELECT count(*) FROM stays s JOIN (SELECT sid + 1 AS sid FROM doses) d USING (sid)",
        "SELECT count(*) FROM stays s WHERE EXISTS (SELECT 1 FROM doses d WHERE d.did = s.sid)",
        "SELECT count(*) FROM stays s, doses d WHERE s.sid = d.sid OR ward = 1",
    ],
)
def test_only_what_the_key_names_is_joined(text: str) -> None:
    with pytest.raises(QueryError) as caught:
        plan_of(text, USUAL)
    assert caught.value.code == "Q204"


def test_figures_of_links() -> None:
    """A child's row meets one row of its parent, so there are no more of them than children; no row is left out."""
    known = {**_tables(max_rows=3), "stays": replace(_tables()["stays"], max_rows=2)}
    known["homes"] = replace(known["stays"], name="homes", unique=(), max_rows=1)
    known["twos"] = replace(known["homes"], name="twos", max_rows=2)
    for text, counted in (
        ("doses d JOIN stays s ON s.sid = d.sid", 3),
        ("doses d LEFT JOIN stays s ON s.sid = d.sid", 3),
        ("stays s LEFT JOIN doses d ON s.sid = d.sid", 5),
        ("doses d FULL JOIN stays s ON s.sid = d.sid", 5),
        ("stays s JOIN doses d USING (sid) JOIN notes n USING (did)", 3),
        ("doses a JOIN doses b ON a.sid = b.sid", 9),
        ("homes h JOIN stays s ON s.pid = h.pid JOIN doses d ON d.sid = s.sid", 3),  # in any order
        ("stays s JOIN homes h ON s.pid = h.pid JOIN doses d ON d.sid = s.sid", 3),
        ("stays s JOIN doses d ON d.sid = s.sid JOIN homes h ON h.pid = s.pid", 3),
        ("stays s JOIN twos h ON s.pid = h.pid JOIN doses d ON d.sid = s.sid", 12),  # two rows repeat each stay
    ):
        found = plan_of(f"SELECT count(*) FROM {text}", known).query.table
        assert isinstance(found, Relation) and found.max_rows == counted, text
    per = "(SELECT pid, count(*) AS n FROM stays GROUP BY pid) p"  # one row of a unit repeats none of the other side
    found = plan_of(f"SELECT sum(n) FROM {per} JOIN stays s ON s.pid = p.pid JOIN doses d USING (sid)", known)
    assert isinstance(found.query.table, Relation)
    assert found.query.table.max_rows == 3 and "joined" not in str(found.query.table.node.notes())
    one = {"stays": replace(known["stays"], unique=("sid", "pid")), "doses": known["doses"]}
    found = plan_of("SELECT count(*) FROM stays a JOIN stays b USING (pid)", one).query.table
    assert isinstance(found, Relation) and found.rows == 1


def test_a_linked_declaration_is_read_as_it_was_stored() -> None:
    for table in USUAL.values():
        assert load_table(table.declaration) == table


def _looked_up(text: str, known: dict[str, Table]) -> int:
    """How many times a statement's SQL joins the owners of a linked table."""
    return emit(plan_of(text, known), 7).sql.count("AS owner ON")


def test_units_that_a_link_implies_are_not_looked_up() -> None:
    assert [_looked_up(text, USUAL) for text in JOINED] == [1, 0, 0, 1, 1, 0, 1, 0, 0, 0, 2, 2, 0, 2, 1]
    wide = USUAL | {"doses": _with_type(USUAL["doses"], "sid", "BIGINT")}  # of which DOUBLE keeps not all apart
    assert _looked_up(JOINED[1], wide) == 1
    bounded = USUAL | {"doses": _bounded(USUAL["doses"], "sid")}
    assert _looked_up(JOINED[1], bounded) == 1


def _with_type(table: Table, name: str, kind: str) -> Table:
    return replace(table, columns=tuple(replace(c, type=kind) if c.name == name else c for c in table.columns))


def _bounded(table: Table, name: str) -> Table:
    return replace(
        table, columns=tuple(replace(c, lower=0.0, upper=1.0) if c.name == name else c for c in table.columns)
    )


def test_units_that_are_left_out_where_nothing_implies_them_are_caught(
    con: duckdb.DuckDBPyConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The broken twin: any join of a linked table is taken for one on its link."""
    text = "SELECT count(*), sum(mg) FROM stays s JOIN doses d ON d.did = s.sid AND d.pid = s.pid"
    assert broken(con, plan_of(text, USUAL), 1) is None
    monkeypatch.setattr(joined, "names_owner", lambda linked, *_: without_unit(linked) is not None)
    assert broken(con, plan_of(text, USUAL), 3, tries=12) is not None

"""Attacks on what relates rows to people: by kinds, each refused; and what is answered says the same of any data.

Of kinds that are no refusals (errors, costs and notes as oracles) the statements run over neighbouring data sets.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

import duckdp
from duckdp.errors import DuckDPError
from tests.adversary.grammar import plans_of
from tests.adversary.test_language import REFUSED as OF_LANGUAGE
from tests.compiler.test_links import USUAL as LINKED
from tests.gate import clinic
from tests.relational import tables

WORLD = tables() | LINKED | {"clinic": clinic(unit_key=None)}

_SAME = " AND ".join(f"v0.pid = v{i}.pid" for i in range(1, 40))
_OFTEN = " AND ".join(f"EXISTS (SELECT 1 FROM labs l WHERE l.pid = v.pid AND l.day > {i})" for i in range(40))
KINDS: dict[str, str] = {
    "a unit smuggled through a join": """
SELECT v.pid, count(*) FROM visits v JOIN labs l ON v.pid = l.pid GROUP BY v.pid
SELECT l.pid AS day, count(*) FROM visits v JOIN labs l USING (pid) GROUP BY 1
SELECT d.rate, v.pid, count(*) FROM visits v JOIN days d ON v.day = d.day GROUP BY ALL
SELECT x, count(*) FROM (SELECT pid + 0 AS x FROM visits) GROUP BY x
SELECT x, count(*) FROM (SELECT v.pid AS x, l.level FROM visits v JOIN labs l ON v.pid = l.pid) GROUP BY x
SELECT x, count(*) FROM (SELECT pid AS x FROM visits UNION ALL SELECT pid FROM labs) GROUP BY x
SELECT sum(l.pid) FROM visits v JOIN labs l ON v.pid = l.pid
SELECT count(*) FROM visits v JOIN days d ON v.pid = d.day
SELECT count(*) FROM visits v JOIN days d ON v.pid BETWEEN d.day AND d.day + 1
SELECT count(*) FROM visits WHERE pid = 3
SELECT count(*) FROM visits WHERE pid IN (1, 2, 3)
SELECT count(*) FROM visits WHERE pid IN (SELECT day FROM days)
SELECT count(*) FROM visits v WHERE EXISTS (SELECT 1 FROM days d WHERE d.day = v.pid)
SELECT avg(CASE WHEN pid = 3 THEN cost END) FROM visits
SELECT count(*) FILTER (WHERE pid = 3) FROM visits
SELECT min(cost) FROM visits ORDER BY max(pid)
SELECT dept FROM visits GROUP BY dept HAVING max(pid) = 3
""",
    "joins that pair two people": """
SELECT count(*) FROM visits v JOIN labs l ON v.day = l.day
SELECT count(*) FROM visits v JOIN labs l ON v.pid = l.pid OR v.day = l.day
SELECT count(*) FROM visits v JOIN labs l ON NOT v.pid = l.pid
SELECT count(*) FROM visits v JOIN labs l ON v.pid <> l.pid
SELECT count(*) FROM visits v JOIN labs l ON v.pid < l.pid
SELECT count(*) FROM visits v JOIN labs l ON v.pid IS NOT DISTINCT FROM l.pid
SELECT count(*) FROM visits v JOIN labs l ON CASE WHEN v.paid THEN v.pid = l.pid ELSE TRUE END
SELECT count(*) FROM visits v JOIN labs l ON v.pid + 0 = l.pid
SELECT count(*) FROM visits v JOIN labs l ON CAST(v.pid AS VARCHAR) = CAST(l.pid AS VARCHAR)
SELECT count(*) FROM visits v JOIN labs l ON coalesce(v.pid, 1) = l.pid
SELECT count(*) FROM visits v, labs l
SELECT count(*) FROM visits v CROSS JOIN labs l
SELECT count(*) FROM visits v NATURAL JOIN labs l
SELECT count(*) FROM visits v POSITIONAL JOIN labs l
SELECT count(*) FROM visits v ASOF JOIN labs l ON v.day >= l.day
SELECT count(*) FROM visits v JOIN labs l USING (day)
SELECT count(*) FROM visits a JOIN visits b ON a.cost = b.cost
SELECT count(*) FROM visits a JOIN visits b ON a.day = b.day AND a.dept = b.dept
SELECT count(*) FROM visits v LEFT JOIN labs l ON v.day = l.day WHERE v.pid = l.pid
SELECT count(*) FROM visits v FULL JOIN labs l ON TRUE WHERE v.pid = l.pid
SELECT count(*) FROM clinic a JOIN clinic b ON a.age = b.age
""",
    "rows of one person that decide about another's": """
SELECT count(*) FROM visits WHERE day IN (SELECT day FROM labs)
SELECT count(*) FROM visits WHERE day NOT IN (SELECT day FROM labs)
SELECT count(*) FROM visits WHERE EXISTS (SELECT 1 FROM labs WHERE labs.day = visits.day)
SELECT count(*) FROM visits WHERE NOT EXISTS (SELECT 1 FROM labs WHERE level > 3)
SELECT count(*) FROM visits WHERE cost > (SELECT avg(cost) FROM visits)
SELECT count(*) FROM visits WHERE cost = (SELECT max(cost) FROM visits)
SELECT count(*) FROM (SELECT dept FROM visits GROUP BY dept)
SELECT count(*) FROM (SELECT DISTINCT dept FROM visits)
SELECT avg(cost) FROM (SELECT cost FROM visits ORDER BY cost LIMIT 3)
SELECT avg(cost) FROM (SELECT cost FROM visits OFFSET 1)
SELECT avg(r) FROM (SELECT rank() OVER (ORDER BY cost) AS r FROM visits)
SELECT avg(r) FROM (SELECT pid, percent_rank() OVER (PARTITION BY dept ORDER BY cost) AS r FROM visits)
SELECT count(*) FROM days d LEFT JOIN visits v ON d.day = v.day
SELECT count(*) FROM days d LEFT JOIN visits v ON d.day = v.day WHERE v.cost IS NULL
SELECT d.label FROM days d SEMI JOIN visits v ON d.day = v.day
SELECT count(*) FROM days WHERE day IN (SELECT day FROM visits)
SELECT label FROM days d WHERE NOT EXISTS (SELECT 1 FROM visits v WHERE v.day = d.day)
SELECT day FROM days EXCEPT SELECT day FROM visits
SELECT day FROM days INTERSECT SELECT day FROM visits
SELECT (SELECT cost FROM visits v WHERE v.day = d.day LIMIT 1) FROM days d
""",
    "tests of others' rows, as columns": """
SELECT count(*) FROM visits v WHERE paid OR EXISTS (SELECT 1 FROM labs l WHERE l.day = v.day)
SELECT count(*) FROM visits v WHERE paid OR EXISTS (SELECT 1 FROM labs l WHERE l.pid = v.pid OR l.ok)
SELECT count(*) FROM visits v WHERE paid OR EXISTS (SELECT 1 FROM labs l WHERE l.pid = v.pid AND l.pid = 3)
SELECT count(*) FROM visits v WHERE paid OR EXISTS (SELECT 1 FROM labs l WHERE NOT l.pid <> v.pid)
SELECT count(*) FROM visits v WHERE NOT (day IN (SELECT day FROM labs) AND paid)
SELECT count(*) FILTER (WHERE EXISTS (SELECT 1 FROM labs WHERE ok)) FROM visits
SELECT EXISTS (SELECT 1 FROM labs l WHERE l.day = v.day) AS e, count(*) FROM visits v GROUP BY e
SELECT EXISTS (SELECT 1 FROM labs l WHERE l.pid = v.pid) FROM visits v
SELECT count(*) FROM visits v WHERE day IN (SELECT pid FROM labs l WHERE l.pid = v.pid)
SELECT count(*) FROM visits v WHERE (pid, 3) IN (SELECT pid, pid AS p FROM labs)
SELECT count(*) FROM visits v WHERE (pid, day) IN (SELECT day, pid FROM labs)
SELECT count(*) FROM visits v WHERE (day, dept) NOT IN (SELECT day, dept FROM labs)
SELECT count(*) FROM visits v WHERE (pid + 0, day) IN (SELECT pid, day FROM labs)
SELECT count(*) FROM visits v WHERE (pid, day) IN (VALUES (3, 1))
SELECT sum(CASE WHEN pid IN (SELECT day FROM labs) THEN 1 END) FROM visits
SELECT avg(x) FROM (SELECT sum(day) OVER w AS x FROM visits WINDOW w AS (ORDER BY day))
SELECT avg(x) FROM (SELECT lag(day IGNORE NULLS) OVER (PARTITION BY dept ORDER BY day) AS x FROM visits)
SELECT avg(x) FROM (SELECT sum(day) OVER (ORDER BY day RANGE BETWEEN 1 PRECEDING AND 1 FOLLOWING) AS x FROM visits)
SELECT avg(x) FROM (SELECT sum(day) OVER (PARTITION BY pid ORDER BY day RANGE cost PRECEDING) AS x FROM visits)
SELECT count(*) FROM visits v WHERE paid OR "__dp_found_1"
""",
    "links": """
SELECT count(*) FROM doses d JOIN notes n ON d.did = n.words
SELECT count(*) FROM doses d JOIN stays s ON s.sid = d.did
SELECT count(*) FROM doses d JOIN stays s ON s.sid = d.sid + 0
SELECT count(*) FROM doses d JOIN stays s ON s.ward = d.mg
SELECT pid, count(*) FROM notes GROUP BY pid
SELECT count(*) FROM doses WHERE sid NOT IN (SELECT sid FROM stays)
SELECT count(*) FROM notes n, doses d, stays s WHERE n.did = d.did AND s.ward = 1
SELECT count(*) FROM doses d JOIN visits v ON d.sid = v.day
SELECT count(*) FROM doses WHERE rowid = 1
""",
    "public tables that are the analyst's": """
SELECT count(*) FROM visits v JOIN (VALUES (1), (2)) AS t(pid) ON v.pid = t.pid
SELECT count(*) FROM visits v JOIN range(100000000) AS r(day) ON v.day = r.day
SELECT count(*) FROM visits v JOIN read_csv('/etc/passwd') AS r ON TRUE
SELECT count(*) FROM visits v JOIN mine ON v.day = mine.day
SELECT count(*) FROM visits v JOIN (SELECT day, count(*) AS n FROM visits GROUP BY day) a ON v.day = a.day
WITH days AS (SELECT day FROM mine) SELECT count(*) FROM visits v JOIN days ON v.day = days.day
WITH visits AS (SELECT 1 AS pid) SELECT * FROM labs WHERE pid IN (SELECT pid FROM visits)
SELECT count(*) FROM other.visits
SELECT count(*) FROM information_schema.tables, visits
""",
    "post-processing that reads a private name": """
SELECT n, (SELECT cost FROM visits LIMIT 1) FROM (SELECT count(*) AS n FROM visits) AS t
SELECT * FROM (SELECT count(*) AS n FROM visits) AS t, visits
SELECT * FROM (SELECT count(*) AS n FROM visits) AS t JOIN labs ON t.n = labs.pid
SELECT n FROM (SELECT count(*) AS n FROM visits) AS t WHERE n IN (SELECT pid FROM visits)
SELECT n FROM (SELECT count(*) AS n FROM visits) AS t ORDER BY (SELECT cost FROM visits)
SELECT * FROM (SELECT count(*) AS n FROM visits) AS t, query('FROM visits')
SELECT * FROM (SELECT count(*) AS n FROM visits) AS t, dp_query('SELECT count(*) FROM visits', epsilon := 9)
SELECT * FROM (SELECT count(*) AS n FROM visits) AS t, LATERAL (SELECT * FROM visits LIMIT t.n)
WITH a AS (SELECT count(*) AS n FROM visits), b AS (SELECT * FROM visits) SELECT * FROM a, b
SELECT "__dp_c1" FROM (SELECT count(*) AS n FROM visits) AS t
FROM (SELECT dept, count(*) AS n FROM visits GROUP BY dept) AS t UNION ALL SELECT dept, pid FROM visits
""",
    "size": f"""
SELECT count(*) FROM visits WHERE day IN ({", ".join(map(str, range(5000)))})
SELECT count(*) FROM visits WHERE {" OR ".join(f"day = {i}" for i in range(4000))}
SELECT count(*) FROM visits WHERE {"(" * 400}day > 1{")" * 400}
SELECT {"abs(" * 300}sum(cost){")" * 300} FROM visits
SELECT count(*) FROM {"(SELECT * FROM " * 60}visits{")" * 60}
SELECT count(*) FROM {", ".join(f"visits v{i}" for i in range(40))} WHERE {_SAME}
SELECT count(*) FROM visits v WHERE {_OFTEN}
SELECT {", ".join(f"sum(cost * {i})" for i in range(500))} FROM visits
SELECT count(*) FROM visits WHERE dept LIKE '{"%a" * 2000}'
""",
}
ATTACKS = [(kind, text) for kind, texts in KINDS.items() for text in texts.strip().split("\n")]
AT_LEAST = 120  # attacks of language


@pytest.mark.parametrize(("kind", "text"), ATTACKS, ids=[f"{k} {i}" for i, (k, _) in enumerate(ATTACKS)])
def test_it_is_refused(kind: str, text: str) -> None:
    written_again = (text, f"WITH q AS ({text}) SELECT * FROM q", f"SELECT * FROM ({text}) AS q")
    for written in written_again[: 1 if kind == "size" else None]:
        with pytest.raises(DuckDPError) as caught:
            plans_of(written, WORLD, [])
        assert caught.value.code[0] == "Q", written


def test_there_are_enough() -> None:
    of_language = OF_LANGUAGE.strip().split("\n")
    texts = [text for _, text in ATTACKS] + of_language + [text for text, _ in ORACLES]
    assert len(set(texts)) == len(texts) >= AT_LEAST
    assert min(len(texts.strip().split("\n")) for texts in KINDS.values()) >= 8


# ---- errors, costs and notes as oracles

#: Statements that are answered, and a value of the column cost that a naive engine would tell by failing, or by a note.
ORACLES: list[tuple[str, float]] = [
    ("SELECT sum(1 / (cost - 7)) FROM visits", 7.0),
    ("SELECT sum(CASE WHEN cost = 7 THEN 1 / 0 ELSE cost END) FROM visits", 7.0),
    ("SELECT avg(sqrt(greatest(cost - 7, 0))) FROM visits", 7.0),
    ("SELECT sum(cost * 1e300) FROM visits", 20.0),
    ("SELECT sum(cost) FROM visits", math.nan),
    ("SELECT avg(cost) FROM visits", math.inf),
    ("SELECT max(cost) FROM visits", math.nan),
    ("SELECT count(*) FROM visits WHERE cost > 7", math.nan),
    ("SELECT dept, avg(cost) FROM visits GROUP BY dept", -math.inf),
    ("SELECT count(*) FROM visits WHERE CAST(cost AS INTEGER) = 7", 1e300),
    ("SELECT count(DISTINCT cost > 7) FROM visits", math.nan),
    ("SELECT least(cost, 7) > 5 AS k, count(*) FROM visits GROUP BY 1", math.nan),
    ("SELECT greatest(cost, 1) = 1 AS clamped, count(*) FROM visits GROUP BY 1", -5.0),
    ("SELECT corr(cost, day) FROM visits", math.inf),
    ("SELECT median(cost) FROM visits", math.nan),
    ("SELECT count(*) FROM (SELECT pid, sum(cost) AS s FROM visits GROUP BY pid) WHERE s > 7", math.nan),
    ("SELECT avg(s) FROM (SELECT pid, sum(cost * cost) AS s FROM visits GROUP BY pid)", 1e308),
]


def _rows(values: list[float]) -> pa.Table:
    return pa.table(
        {
            "pid": pa.array([1, 1, 2, 3, *range(10, 10 + len(values))], pa.int32()),
            "day": pa.array([1, 2, 3, 4] + [9] * len(values), pa.int32()),
            "cost": [1.0, 2.0, 3.0, 4.0, *values],
            "dept": ["a", "b", "a", "b"] + ["c"] * len(values),
        }
    )


def _world(folder: Path, values: list[float]) -> Iterator[duckdp.Curator]:
    folder.mkdir()
    with duckdp.open({"visits": _rows(values)}, ledger=str(folder / "l")) as owner:
        owner.protect(
            "visits",
            unit_key="pid",
            max_rows=2,
            row_cap=100,
            bounds={"cost": (0, 20), "day": (0, 9)},
            domains={"dept": ["a", "b", "c"]},
        )
        owner.budget(epsilon=10_000, delta=1e-2)
        owner.grant("ana", epsilon=10_000, delta=1e-2)
        yield owner


@pytest.fixture(scope="module")
def neighbours(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[duckdp.Session, duckdp.Session]]:
    folder = tmp_path_factory.mktemp("oracles")
    values = [value for _, value in ORACLES]
    for without in _world(folder / "without", []):
        for with_them in _world(folder / "with", values):
            yield without.session("ana"), with_them.session("ana")


def _told(ana: duckdp.Session, text: str) -> tuple[Any, ...]:
    """All that an analyst is told of a statement besides the figures."""
    try:
        plan = str(ana.explain(text, epsilon=1, delta="1e-6"))
        found = ana.sql(text, epsilon=1, delta="1e-6")
    except DuckDPError as error:
        return (error.code, str(error))
    keys = [column.values for column in found.columns if column.estimates is None]
    return (plan, found.cost, found.notes, found.caveat, [c.type for c in found.columns], keys, len(found.rows()))


@pytest.mark.parametrize("text", [text for text, _ in ORACLES])
def test_nothing_else_is_told(neighbours: tuple[duckdp.Session, duckdp.Session], text: str) -> None:
    """Plan, cost, notes, keys, types and errors are the same with people whom a naive engine would fail on."""
    without, with_them = neighbours
    before = [len(ana.desk.own_charges()) for ana in neighbours]
    assert _told(without, text) == _told(with_them, text)
    charged = [len(ana.desk.own_charges()) - n for ana, n in zip(neighbours, before, strict=True)]
    assert charged[0] == charged[1]


def _naive(text: str, values: list[float]) -> object:
    """What DuckDB itself tells: that it fails, which groups there are, or that a figure is no number."""
    with duckdb.connect() as con:
        con.register("visits", _rows(values))
        try:
            rows = con.execute(text).fetchall()
        except duckdb.Error as error:
            return type(error)
    return [[_told_by(value) for value in row] for row in rows]


def _told_by(value: object) -> object:
    """A key or a flag itself; of a figure whether it is a number."""
    return value if isinstance(value, (str, bool)) else isinstance(value, float) and not math.isfinite(value)


def test_an_engine_without_a_gate_tells() -> None:
    """The broken twin: asked directly, these statements tell of a person by more than their figures."""
    told = [text for text, value in ORACLES if _naive(text, []) != _naive(text, [value])]
    assert len(told) > len(ORACLES) / 2, told

"""Answers that are known from declarations alone: never wrong, free, and told in every face."""

from __future__ import annotations

import datetime as dt
import random
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest

import duckdp
from duckdp.compiler.known import is_known
from duckdp.curator import Curator
from tests.gate import clinic, exact_rows, load, plan_for

TABLE = clinic(unit_key=None)
ATOMS = (
    "age > {n}",
    "age < {n}",
    "age = {n}",
    "age <> {n}",
    "cost >= {n}",
    "cost + age > {n}",
    "{n} <= cost",
    "-age > {n}",
    "age BETWEEN {n} AND {m}",
    "age IN ({k}, 111)",
    "age * 2 = {n}",
    "abs(cost - {m}) < {n}",
    "score > {n}",
    "income > {n}",
    "sex = '{t}'",
    "sex IN ('{t}', 'x')",
    "town = '{t}'",
    "town <> '{t}'",
    "name = '{t}'",
    "level = {n}",
    "level IS NULL",
    "sex <> '{t}'",
    "age IS NULL",
    "income IS NULL",
    "born > DATE '{d}'",
    "born <= DATE '{d}'",
    "born = DATE '{d}'",
    "seen < TIMESTAMP '{d} 00:00:00'",
    "smoker",
    "false",
    "NULL",
    "1 = 2",
    "floor(age) > {n}",
    "greatest(age, {n}) < {m}",
    "CASE WHEN age > {n} THEN true ELSE cost < {m} END",
    "visits > {n}",
    "sex < '{t}'",
    "least(age, cost) > {n}",
)


def _condition(generator: random.Random, depth: int = 2) -> str:
    if depth and generator.random() < 0.6:
        a, b = (_condition(generator, depth - 1) for _ in range(2))
        return generator.choice([f"({a} AND {b})", f"({a} OR {b})", f"NOT ({a})", f"({a} AND {b})"])
    return generator.choice(ATOMS).format(
        k=generator.choice([0, 1, 50, 110, 111, 200]),
        n=generator.choice([-5, 0, 1, 2, 3.5, 50, 110, 111, 5000, 5001, 10_000, 1e15]),
        m=generator.choice([-20, 0, 20, 200]),
        t=generator.choice(["F", "M", "jfk", "Bern", "A"]),
        d=generator.choice(["1989-12-31", "1990-01-01", "1991-06-01", "1992-12-31", "1993-01-01"]),
    )


def _row(generator: random.Random, i: int) -> tuple[object, ...]:
    """A row that may lie outside every bound; inside the domains, which hold where nothing else is declared."""

    def pick(*values: object) -> object:
        return generator.choice([*values, None])

    return (
        i,
        pick(-7, 0, 3, 50, 110, 200),
        pick(-1.0, 0.0, 3.5, 5000.0, 1e9, float("nan"), float("inf")),
        pick(0.0, -1e300, float("nan")),
        pick("F", "M"),
        pick("Bern", "jfk", "elsewhere"),
        pick("jfk", "A"),
        pick(dt.date(1900, 1, 1), dt.date(1990, 1, 1), dt.date(1991, 6, 1), dt.date(2100, 1, 1)),
        pick(dt.datetime(1, 1, 1), dt.datetime(2020, 1, 1)),
        pick(True, False),
        pick(0, 60),
        pick(1, 2),
        pick(-100.0, 5.0, 100.0, float("nan")),
    )


def _wrong(tries: int, seed: int) -> tuple[int, list[str]]:
    generator, found, wrong = random.Random(seed), 0, []
    with duckdb.connect() as con:
        load(con, TABLE, [_row(generator, i) for i in range(600)])
        for _ in range(tries):
            condition = _condition(generator)
            for text in (f"SELECT count(*) FROM clinic WHERE {condition}",):
                plan = plan_for(text, TABLE)
                if not is_known(plan.query):
                    continue
                found += 1
                assert plan.measures == ()
                assert plan.loss.epsilon_nano == 0
                counted = plan_for(f"SELECT count(*) FILTER ({condition}), count(*) FROM clinic", TABLE)
                assert len(counted.measures) == 1  # what is known takes no share
                both = f"SELECT count(*) FROM clinic WHERE ({condition}) IS NOT DISTINCT FROM true"
                [(cells,)] = exact_rows(plan_for(both, TABLE), con)
                if cells:
                    wrong.append(condition)
    return found, wrong


def test_what_is_said_to_be_0_is_0_on_any_data() -> None:
    found, wrong = _wrong(400, 31)
    assert wrong == []
    assert found > 40


@pytest.mark.slow
def test_what_is_said_to_be_0_is_0_on_any_data_at_length() -> None:
    found, wrong = _wrong(20_000, 32)
    assert wrong == []
    assert found > 2000


def test_a_twin_that_takes_bounds_one_too_narrow_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    from duckdp.compiler import known
    from duckdp.compiler.expression import remembered

    span = known._span
    anew = remembered(known.outcomes.__wrapped__)  # type: ignore[attr-defined]
    monkeypatch.setattr(known, "outcomes", anew)  # that knows nothing of what was asked before

    def narrow(e):  # type: ignore[no-untyped-def]
        found = span(e)
        return (found and isinstance(found[1], float) and (found[0], found[1] - 1)) or found

    monkeypatch.setattr(known, "_span", narrow)
    _, wrong = _wrong(600, 31)
    assert wrong


KNOWN = [
    "town = 'jfk' AND false",
    "sex = 'jfk'",
    "age > 110",
    "age = 3.5",
    "born > DATE '1993-01-01'",
    "false",
    "NULL",
    "NOT (age <= 110) OR cost < 0",
    "income > 20",
]
OPEN = [
    "town = 'jfk'",
    "age >= 110",
    "age IS NULL",
    "name = 'jfk'",
    "visits > 3",
    "NOT (age > 110)",
    "coalesce(age, 500) > 200",
    "score > 1e15",
]


@pytest.mark.parametrize("condition", KNOWN)
def test_known(condition: str) -> None:
    for items in ("count(*)", "sum(age), count(cost)", "avg(age)"):
        assert is_known(plan_for(f"SELECT {items} FROM clinic WHERE {condition}", TABLE).query)
        filtered = ", ".join(f"{item.strip()} FILTER ({condition})" for item in items.split(","))
        assert is_known(plan_for(f"SELECT {filtered} FROM clinic", TABLE).query)


@pytest.mark.parametrize("condition", OPEN)
def test_not_known(condition: str) -> None:
    """Among them: other values of a column with a label for them, and NULLs that are read as something else."""
    assert not is_known(plan_for(f"SELECT count(*) FROM clinic WHERE {condition}", TABLE).query)


# ---- faces ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def curator(tmp_path: Path) -> Iterator[Curator]:
    con = duckdb.connect()
    con.execute(
        "CREATE TABLE trips AS SELECT i % 90 AS person, i % 3 AS zone, (i % 50)::DOUBLE AS wait, "
        "'lga' AS site, 'n' || i AS name FROM range(900) r(i)"
    )
    with duckdp.open(con, ledger=str(tmp_path / "k.ledger")) as made:
        made.protect(
            "trips",
            unit_key="person",
            max_rows=5,
            row_cap=1000,
            bounds={"wait": (0, 1000)},
            columns=["name"],
            domains={"zone": [0, 1, 2], "site": ["lga", "ewr"]},
        )
        made.budget(epsilon=10, delta=1e-6)
        made.grant("ana", epsilon=10, delta=1e-6)
        yield made


def test_a_known_answer_is_free_and_says_so_everywhere(curator: Curator) -> None:
    ana, con = curator.session("ana"), curator.connect("ana")
    says = "can only be 0"
    for where in ("site = 'jfk'", "wait > 1000", "false"):
        text = f"SELECT count(*) AS n, sum(wait) AS s, avg(wait) AS a FROM trips WHERE {where}"
        for terms in ({}, {"epsilon": 1}, {"epsilon": 1, "fresh": True}, {"error": 3}):
            result = ana.sql(text, **terms)  # type: ignore[arg-type]
            assert result.rows() == [(0, 0, None)]
            assert says in str(result)
            assert "cost: nothing" in str(result)
            assert says in result._repr_html_()
            n = result.estimates()[0]["n"]
            assert (n.low, n.high, n.standard_error) == (0, 0, 0)
            assert says in str(n)
        assert says in str(ana.explain(text, epsilon=1))
        assert says in str(con.execute(f"SELECT note FROM dp_query($${text}$$, epsilon := 1)").fetchone())
        assert says in str(con.execute(f"FROM dp_explain($${text}$$, epsilon := 1)").fetchall())
        assert con.execute(f"SELECT n, s, a FROM dp_query($${text}$$)").fetchall() == [(0, 0, None)]
        assert ana.noisy_count("trips", predicate=where).rows() == [(0,)]
        grouped = ana.sql(f"SELECT zone, count(*) AS n FROM trips WHERE {where} GROUP BY zone")
        assert grouped.rows() == [(0, 0), (1, 0), (2, 0)]
        opened = ana.sql(f"SELECT name, count(*) AS n FROM trips WHERE {where} GROUP BY name", epsilon=1)
        assert opened.rows() == []
    assert ana.desk.own_charges() == []


def test_an_average_of_nothing_is_said_to_be_undefined(curator: Curator) -> None:
    """Not 0, and not "about nan / n"."""
    ana, zero, undefined = curator.session("ana"), "can only be 0", "undefined whatever the data"
    for item in ("avg(wait)", "avg(wait) + 1", "stddev_samp(wait)", "sum(wait) / count(*)"):
        for where, filtered in (("WHERE site = 'jfk'", ""), ("", " FILTER (site = 'jfk')")):
            text = f"SELECT {item.replace(')', ')' + filtered, 1) if filtered else item} AS a FROM trips {where}"
            if item.startswith("sum") and filtered:
                text = f"SELECT sum(wait){filtered} / count(*){filtered} AS a FROM trips"
            result, told = ana.sql(text), str(ana.explain(text, epsilon=1))
            assert undefined in str(result), text
            assert zero not in str(result), text
            assert undefined in told, text
            assert "nan" not in told, text
            both = str(ana.sql(text.replace("SELECT ", "SELECT count(*) FILTER (wait < 0) AS n, ")))
            assert zero in both, text
            assert "undefined" in both, text
    beside = str(ana.explain("SELECT avg(wait) FILTER (wait < 0) AS a, avg(wait) AS b FROM trips", epsilon=1))
    assert f"a: it is {undefined}" in beside
    assert "nan" not in beside
    assert ana.desk.own_charges() == []


def test_a_known_part_takes_no_share(curator: Curator) -> None:
    ana = curator.session("ana")
    alone = ana.sql("SELECT count(*) AS n FROM trips", epsilon=1).estimates()[0]["n"]
    text = "SELECT count(*) AS n, sum(wait) FILTER (site = 'jfk') AS s, avg(wait) FILTER (wait < 0) AS a FROM trips"
    found = ana.sql(text, epsilon=1).estimates()[0]
    assert (found["s"].value, found["a"].value) == (0, None)
    assert found["n"].half_width == alone.half_width
    assert found["n"].note == alone.note


# ---- keys alone ------------------------------------------------------------------------------------------------------

KEYS_ALONE = [
    "SELECT DISTINCT sex FROM visits",
    "SELECT sex FROM visits WHERE age > 30 GROUP BY sex ORDER BY sex DESC LIMIT 1000",
    "SELECT DISTINCT age > 40 AS old, sex FROM visits ORDER BY ALL",
    "SELECT date_trunc('month', day) AS month FROM visits GROUP BY 1",
    "SELECT sex FROM visits GROUP BY sex HAVING sex <> 'F'",
    "SELECT upper(sex) AS s, 1 AS one FROM visits GROUP BY ALL",
]


def test_keys_alone_are_their_domains_whatever_the_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Free, without a read, the same for any rows; a key without a domain costs, and wants delta."""
    found: list[list[list[tuple[object, ...]]]] = []
    for number, rows in enumerate(("('a', 50, 'F', DATE '2024-03-01')", "('b', 20, 'M', NULL), ('c', 9, 'x', NULL)")):
        source = str(tmp_path / f"{number}.duckdb")
        with duckdb.connect(source) as con:
            con.execute("CREATE TABLE visits (pid VARCHAR, age INTEGER, sex VARCHAR, day DATE, town VARCHAR)")
            con.execute(f"INSERT INTO visits SELECT *, pid FROM (VALUES {rows}) AS t(pid, age, sex, day)")
        with duckdp.open(source, ledger=tmp_path / f"{number}.ledger") as curator:
            bounds: dict[str, tuple[object, object]] = {"age": (0, 110), "day": ("2024-01-01", "2024-12-31")}
            domains = {"sex": ["F", "M", "D"]}
            curator.protect(
                "visits", unit_key="pid", row_cap=100, max_rows=1, bounds=bounds, domains=domains, columns=["town"]
            )
            curator.budget(epsilon=1, delta=1e-6)
            curator.grant("ana", epsilon=1, delta=1e-6)
            session = curator.session("ana")
            with monkeypatch.context() as patched:
                patched.setattr("duckdp.vault.engine.Engine.run", lambda *_: pytest.fail("rows were read"))
                answers = [session.sql(text) for text in KEYS_ALONE]
            assert curator.ledger.count_charges() == 0
            assert all(answer.cost == "nothing" and "was not looked at" in answer.notes[0] for answer in answers)
            found.append([answer.rows() for answer in answers])
            for terms in ({}, {"epsilon": 0.5}):
                with pytest.raises(duckdp.errors.DuckDPError, match=r"^(P101|Q404): "):
                    session.sql("SELECT DISTINCT town FROM visits", **terms)
            assert len(session.sql("SELECT DISTINCT town FROM visits", epsilon=0.5, delta=1e-6)) == 0  # few units
            assert curator.ledger.count_charges() == 1
    assert found[0] == found[1]
    assert found[0][0] == [("F",), ("M",), ("D",)] and found[0][1] == [("M",), ("F",), ("D",)]
    assert found[0][2] == [(old, sex) for old in (False, True) for sex in ("D", "F", "M")]
    assert len(found[0][3]) == 12 and found[0][4] == [("M",), ("D",)]
    assert found[0][5] == [("F", 1), ("M", 1), ("D", 1)]

"""Queries over private answers, end to end: one charge, one draw, and post-processing where no private row is."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator

import duckdb
import pyarrow as pa
import pytest

import duckdp
from duckdp.core.task import Stages
from duckdp.errors import DuckDPError
from duckdp.ledger import Ledger

ROWS = 600
BY_SEX = "SELECT sex, count(*) AS n, avg(age) AS m FROM visits GROUP BY sex"
RATIO = "SELECT count(*) / (SELECT count(*) FROM labs) AS r FROM visits"
SECRET = "planted-4711"


@pytest.fixture(scope="module")
def curator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[duckdp.Curator]:
    visits = pa.table(
        {
            "patient": pa.array([i % 200 for i in range(ROWS)], pa.int32()),
            "age": pa.array([i % 90 for i in range(ROWS)], pa.int32()),
            "sex": [("f", "m")[i % 2] for i in range(ROWS)],
            "name": [SECRET] * ROWS,
        }
    )
    labs = pa.table({"patient": pa.array([i % 200 for i in range(400)], pa.int32()), "level": [0.5] * 400})
    folder = tmp_path_factory.mktemp("over")
    with duckdp.open({"visits": visits, "labs": labs}, ledger=str(folder / "over.ledger")) as owner:
        owner.protect(
            "visits",
            unit_key="patient",
            max_rows=3,
            max_groups=2,
            row_cap=5000,
            bounds={"age": (0, 90)},
            domains={"sex": ["f", "m"]},
        )
        owner.protect("labs", unit_key="patient", max_rows=2, row_cap=5000, bounds={"level": (0, 1)})
        owner.budget(epsilon=10_000, delta=1e-5)
        for name in ("ana", "ben", "cem", "dan", "eva", "fay", "gus"):
            owner.grant(name, epsilon=1000, delta=1e-6)
        yield owner


def charges(owner: duckdp.Curator) -> int:
    return len(owner.ledger.charges())


def test_every_face_gives_the_same_answer_of_one_charge(curator: duckdp.Curator) -> None:
    ana, con = curator.session("ana"), curator.connect("ana")
    text = f"SELECT sex, n, n / sum(n) OVER () AS share FROM ({BY_SEX}) AS t WHERE n > -1000 ORDER BY sex"
    before = charges(curator)
    first = ana.sql(text, epsilon="0.5")
    assert charges(curator) == before + 1
    assert curator.ledger.charges()[-1].loss.epsilon_nano == 500_000_000
    assert first.cost == "epsilon=0.5"
    again = ana.sql(text, epsilon="0.5")
    assert (again.rows(), again.cost) == (first.rows(), "nothing")
    plain = con.execute(f"FROM dp_query($$ {text} $$, epsilon := 0.5, intervals := false)").fetchall()
    assert plain == first.rows()
    other = duckdb.connect()
    duckdp.register(other, curator, analyst="ana")
    assert other.execute(f"FROM dp_query($$ {text} $$, epsilon := 0.5, intervals := false)").fetchall() == plain
    asked = ana.sql(BY_SEX, epsilon="0.5")  # the one part is this question
    assert asked.cost == "nothing"
    assert [row[:2] for row in asked] == [row[:2] for row in first]
    assert first.columns[1].estimates == asked.columns[1].estimates
    assert first.columns[2].estimates is None
    barred = con.execute(f"FROM dp_query($$ {text} $$, epsilon := 0.5)")
    assert [d[0] for d in barred.description][3:] == ["n_standard_error", "n_low", "n_high"]
    low = [row[4] for row in barred.fetchall()]
    assert low == [e.low for e in asked.columns[1].estimates or ()]
    assert charges(curator) == before + 1


def test_a_figure_that_is_named_twice_is_one_draw(curator: duckdp.Curator) -> None:
    """The averaging attack: copies of a count differ by nothing, so that no mean of them knows more."""
    ana, before = curator.session("ana"), charges(curator)
    copies = ", ".join(f"(SELECT count(*) FROM visits AS v{i} WHERE age >= 0)" for i in range(40))
    found = ana.sql(f"SELECT {copies}", epsilon="0.01")
    assert len(set(found.rows()[0])) == 1
    assert curator.ledger.charges()[-1].loss.epsilon_nano == 10_000_000
    ways = (
        "WITH a AS (SELECT count(*) n FROM visits), b AS (SELECT count(*) n FROM visits) SELECT a.n - b.n FROM a, b",
        "SELECT count(*) - (SELECT count(*) FROM visits) FROM visits",
        "SELECT max(n) - min(n) FROM (SELECT count(*) AS n FROM visits UNION ALL SELECT count(*) FROM visits)",
        "WITH a AS NOT MATERIALIZED (SELECT count(*) AS n FROM visits) SELECT x.n - y.n FROM a AS x, a AS y",
    )
    for text in ways:
        assert ana.sql(text, epsilon="0.02").rows() == [(0,)], text
        call = f"FROM dp_query($$ {text} $$, epsilon := 0.03, fresh := true, intervals := false)"
        assert curator.connect("ana").execute(call).fetchall() == [(0,)], text
    assert charges(curator) == before + 1 + 1 + len(ways)  # all four ways are the one plain count


def test_parts_are_one_charge_of_what_was_typed(curator: duckdp.Curator) -> None:
    ben, before = curator.session("ben"), charges(curator)
    ratio = ben.sql(RATIO, epsilon="1.000000007")
    assert charges(curator) == before + 1
    charge = curator.ledger.charges()[-1]
    assert charge.loss.epsilon_nano == 1_000_000_007
    assert ratio.cost == "epsilon=1.000000007"
    swapped = "SELECT (SELECT count(*) FROM labs) / count(*) AS r FROM visits"
    other = ben.sql(swapped, epsilon="1.000000007")
    assert other.cost == "nothing"
    assert other.rows()[0][0] == pytest.approx(1 / ratio.rows()[0][0])
    hidden = "SELECT 1 AS one WHERE (SELECT count(*) FROM visits) > -1e9 OR (SELECT count(*) FROM labs) > 0 LIMIT 0"
    assert ben.sql(hidden, epsilon="0.25").rows() == []
    assert curator.ledger.charges()[-1].loss.epsilon_nano == 250_000_000  # what is not shown is charged too
    fresh = ben.sql(RATIO, epsilon="1.000000007", fresh=True)
    assert fresh.cost == "epsilon=1.000000007"
    assert charges(curator) == before + 3


def test_what_fails_in_the_outer_part_tells_nothing(curator: duckdp.Curator) -> None:
    cem, before = curator.session("cem"), charges(curator)
    for text in (f"SELECT nothing FROM ({BY_SEX})", f"SELECT n + sex FROM ({BY_SEX}) WHERE missing(n)"):
        with pytest.raises(DuckDPError, match=r"^Q105") as caught:  # bound before the charge
            cem.sql(text, epsilon="0.3")
        assert "__dp_" not in str(caught.value)
    assert charges(curator) == before
    failing = f"SELECT CAST('a' || n AS INTEGER) FROM ({BY_SEX})"
    with pytest.raises(DuckDPError, match=r"^Q105") as caught:
        cem.sql(failing, epsilon="0.3")
    assert SECRET not in str(caught.value)
    assert "__dp_" not in str(caught.value)
    assert charges(curator) == before + 1  # what it is computed from was released, and is free from now on
    assert cem.sql(BY_SEX, epsilon="0.3").cost == "nothing"
    assert cem.sql(f"SELECT n / 0 AS x, sex FROM ({BY_SEX})", epsilon="0.3").cost == "nothing"


def test_the_analysts_own_names_are_theirs_and_no_way_to_rows(curator: duckdp.Curator) -> None:
    dan, before = curator.session("dan"), charges(curator)
    dan.sql("CREATE TABLE labels AS SELECT * FROM (VALUES ('f', 'women'), ('m', 'men')) t(sex, label)")
    joined = f"SELECT label, n FROM ({BY_SEX}) AS t JOIN labels USING (sex) ORDER BY label"
    assert [row[0] for row in dan.sql(joined, epsilon=1)] == ["men", "women"]
    made = (
        "CREATE VIEW rows_of AS SELECT * FROM visits",
        "CREATE MACRO everything() AS TABLE SELECT * FROM query('SELECT * FROM visits')",
        "CREATE MACRO n_of() AS (SELECT count(*) FROM memory.main.visits)",
        "CREATE MACRO sum(x) AS 42",
        "CREATE TABLE __dp_1 AS SELECT 1 AS __dp_c1",
    )
    for statement in made:
        try:
            dan.sql(statement)
        except DuckDPError as error:
            assert SECRET not in str(error)
    for text in (
        f"SELECT * FROM ({BY_SEX}) AS t, rows_of",
        f"SELECT * FROM ({BY_SEX}) AS t, everything()",
        f"SELECT n_of(), * FROM ({BY_SEX}) AS t",
        f'SELECT * FROM ({BY_SEX}) AS t, "ROWS_OF" AS v',
        f"SELECT (SELECT name FROM rows_of LIMIT 1), * FROM ({BY_SEX}) AS t",
        f"WITH RECURSIVE r AS (SELECT * FROM rows_of) SELECT * FROM ({BY_SEX}) AS t, r",
    ):
        try:
            found = str(dan.sql(text, epsilon=1))
        except DuckDPError as error:
            found = str(error)
        assert SECRET not in found, text
    assert dan.sql(f"SELECT max(sex) AS s FROM ({BY_SEX})", epsilon=1).rows() == [("m",)]
    assert charges(curator) == before + 1  # all of them are of the one release


def test_macros_of_the_analysts_own_ask_nothing_beside(curator: duckdp.Curator) -> None:
    """What asks while the outer part is bound is refused before the charge, whatever hides it; elsewhere it asks."""
    gus = curator.session("gus")
    asked = "dp_noisy_count('visits', epsilon := 0.25)"
    for statement in (
        f"CREATE MACRO hidden() AS TABLE SELECT * FROM {asked}",
        f"CREATE MACRO number() AS (SELECT count(*) FROM {asked})",
        f"CREATE MACRO said() AS TABLE SELECT * FROM query($$ FROM {asked} $$)",
        f"CREATE MACRO round(x) AS (SELECT count(*) FROM {asked})",
        "CREATE VIEW spent AS FROM dp_ledger",
    ):
        gus.sql(statement)
    before = charges(curator)
    for text in (
        f"SELECT * FROM ({BY_SEX}) AS t, hidden()",
        f"SELECT number(), n FROM ({BY_SEX}) AS t",
        f"SELECT * FROM ({BY_SEX}) AS t, said()",
        f"SELECT round(n) FROM ({BY_SEX}) AS t",
        f"SELECT * FROM ({BY_SEX}) AS t, spent",
        f"SELECT * FROM ({BY_SEX}) AS t, \"dp_noisy_count\"('visits', epsilon := 0.25)",
        f'SELECT * FROM ({BY_SEX}) AS t, "query"($$ FROM {asked} $$)',
    ):
        with pytest.raises(DuckDPError, match=r"^Q202"):
            gus.sql(text, epsilon=1)
    assert charges(curator) == before
    assert gus.sql(f"SELECT n + 0 AS n FROM ({BY_SEX})", epsilon=1).cost == "epsilon=1"
    assert len(gus.sql("FROM hidden()").rows()) == 1  # by itself it asks, and is charged
    assert charges(curator) == before + 2


def fail_between(curator: duckdp.Curator, monkeypatch: pytest.MonkeyPatch, epsilon: int) -> None:
    """End a release after its first stage, ask again, and see what was drawn."""
    eva, draws = curator.session("eva"), []
    keep, drawn, fail = Ledger.store_stage, Stages._drawn, [True]

    def kept(ledger: Ledger, charge: object, number: int, payload: str) -> str:
        found = keep(ledger, charge, number, payload)  # type: ignore[arg-type]
        if fail[0]:
            raise MemoryError
        return found

    def counted(stages: Stages, draw: Callable[[], str]) -> str:
        payload = drawn(stages, draw)
        draws.append(payload)
        return payload

    monkeypatch.setattr(Ledger, "store_stage", kept)
    monkeypatch.setattr(Stages, "_drawn", counted)
    before = charges(curator)
    with pytest.raises(DuckDPError, match=r"^E104"):
        eva.sql(RATIO, epsilon=epsilon)
    assert (charges(curator), len(draws)) == (before + 1, 1)
    fail[0] = False
    answer = eva.sql(RATIO, epsilon=epsilon)
    assert (charges(curator), len(draws)) == (before + 1, 2)
    assert json.loads(draws[1])[0] == draws[0]  # the first part is the one that was stored
    assert eva.sql(RATIO, epsilon=epsilon).rows() == answer.rows()


def test_a_failure_between_stages_keeps_the_charge_and_draws_nothing_twice(
    curator: duckdp.Curator, monkeypatch: pytest.MonkeyPatch
) -> None:
    fail_between(curator, monkeypatch, 2)


def test_a_ledger_that_loses_stages_is_caught(curator: duckdp.Curator, monkeypatch: pytest.MonkeyPatch) -> None:
    """The broken twin: what is not stored before the next read is drawn again."""
    monkeypatch.setattr(Ledger, "store_stage", lambda *given: given[-1])
    with pytest.raises(AssertionError):
        fail_between(curator, monkeypatch, 3)


def test_explaining_is_free_and_says_which_part_is(curator: duckdp.Curator) -> None:
    fay, before = curator.session("fay"), charges(curator)
    told = str(fay.explain(RATIO, epsilon=1))
    assert "1: release 1 number per group, laplace noise, epsilon=0.5" in told
    assert "then, free, on the analyst's own instance: SELECT" in told
    assert 'FROM "release 1"' in told and "__dp_" not in told  # their own words, not ours
    assert "cost: epsilon=1\n" in told
    lines = curator.connect("fay").execute("SELECT plan FROM dp_explain($1, epsilon := 1)", [RATIO]).fetchall()
    assert [row[0] for row in lines] == told.splitlines()
    assert charges(curator) == before


def test_parameters_reservations_and_what_reads_nothing(curator: duckdp.Curator) -> None:
    fay = curator.session("fay")
    text = f"SELECT n * ? AS twice, $2 AS told FROM ({BY_SEX.replace('GROUP', 'WHERE age > ? GROUP')}) ORDER BY sex"
    found = fay.sql(text.replace("$2", "?"), epsilon=1, parameters=[2, "it's", 10])
    assert found["told"] == ["it's", "it's"]
    assert all(value % 2 == 0 for value in found["twice"])
    with fay.reserve(epsilon=3) as held:
        assert held.sql(RATIO, epsilon=3).cost == "epsilon=3"
        with pytest.raises(DuckDPError, match=r"^B101"):
            held.sql(RATIO, epsilon="0.1", fresh=True)
    before = charges(curator)
    nothing = fay.sql("SELECT max(n) AS m FROM (SELECT count(*) AS n FROM visits WHERE false)")
    assert nothing.rows() == [(0,)]
    assert charges(curator) == before
    with pytest.raises(DuckDPError, match=r"^P106"):
        fay.sql(RATIO, tolerance=3, epsilon=1)


LEAST = "SELECT sex, min(name) AS least, count(*) AS n FROM people GROUP BY sex ORDER BY sex"


@pytest.fixture(scope="module")
def named(tmp_path_factory: pytest.TempPathFactory) -> Iterator[duckdp.Session]:
    """An analyst of people of whom one alone has the least name of all, and one the greatest."""
    names = ["Anna" if i % 3 else "Zoe" for i in range(400)] + [None, "Aaron", "Zz"]
    rows = {"id": list(range(403)), "name": names, "sex": [("f", "m")[i % 2] for i in range(403)]}
    folder = tmp_path_factory.mktemp("named")
    with duckdp.open({"people": pa.table(rows)}, ledger=str(folder / "named.ledger")) as owner:
        owner.protect("people", unit_key="id", max_rows=1, row_cap=5000, domains={"sex": ["f", "m"]}, columns=["name"])
        owner.budget(epsilon=10_000, delta=1e-3)
        owner.grant("ana", epsilon=10_000, delta=1e-3)
        yield owner.session("ana")


def test_the_least_value_is_one_that_many_have(named: duckdp.Session) -> None:
    """That of one person fails the threshold with all but a chance of delta; it would be the answer without it."""
    found = named.sql(LEAST, epsilon=20, delta="1e-9")
    assert [row[:2] for row in found.rows()] == [("f", "Anna"), ("m", "Anna")]
    assert found.columns[2].estimates is not None
    whole = named.sql(
        "SELECT min(name), max(name), max(name) FILTER (WHERE sex = 'x') FROM people", epsilon=20, delta="1e-9"
    )
    assert whole.rows() == [("Anna", "Zoe", None)]
    assert any("min(name) is the least of the values that enough units have" in note for note in found.notes)
    place = next(i for i, note in enumerate(found.notes) if "min(name)" in note)
    assert any("are not shown" in note for note in found.notes[place:])


def test_the_least_value_takes_delta(named: duckdp.Session) -> None:
    with pytest.raises(DuckDPError, match='Q404: key "name" has no declared domain'):
        named.sql(LEAST, epsilon=1)


def test_without_a_threshold_the_least_value_names_one_person(
    named: duckdp.Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The broken twin."""
    monkeypatch.setattr("duckdp.compiler.plan.threshold", lambda *_, **__: 1)
    found = named.sql(LEAST, epsilon=100, delta="1e-9")  # so much that noise has hardly a chance
    assert {row[1] for row in found.rows()} == {"Aaron", "Anna"}

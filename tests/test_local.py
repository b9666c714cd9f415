"""duckdp.local as people have it: dp_randomize in SQL, lists in Python, files on the command line; odd values."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest
from click.testing import CliRunner

import duckdp
from duckdp.cli import collect, main
from duckdp.errors import DuckDPError, ParameterError
from duckdp.local import randomize, randomized_counts, register
from duckdp.mechanisms.randomized_response import RandomizedResponse

ANSWERS = ["yes"] * 3000 + ["no"] * 1500 + ["it's"] * 500
DOMAIN = ["yes", "no", "it's"]
LISTED = "['yes', 'no', 'it''s']"


@pytest.fixture
def con() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as made:
        register(made)
        made.execute(
            "CREATE TABLE people AS SELECT i, CASE WHEN i < 3000 THEN 'yes' WHEN i < 4500 THEN 'no' ELSE 'it''s' END "
            "AS a FROM range(5000) r(i)"
        )
        yield made


def near(rows: list[tuple[Any, ...]], most: float = 6.0) -> bool:
    """Estimates are within some standard errors of the truth, and between their ends."""
    truth = dict(zip(DOMAIN, (3000, 1500, 500), strict=True))
    assert [row[0] for row in rows] == DOMAIN
    return all(abs(v - truth[name]) < most * error and low < v < high for name, v, error, low, high in rows)


@pytest.mark.parametrize("unary", [False, True])
def test_reports_in_sql_give_back_the_counts(con: duckdb.DuckDBPyConnection, unary: bool) -> None:
    name = "_unary" if unary else ""
    con.execute(f'CREATE TABLE reports AS SELECT dp_randomize{name}(a, {LISTED}, 1.5) AS "a report" FROM people')
    kind = con.execute('SELECT typeof("a report") FROM reports LIMIT 1').fetchall()
    assert kind == [("VARCHAR[]" if unary else "VARCHAR",)]
    assert near(con.execute(f"FROM dp_randomized{name}_counts('reports', 'a report', {LISTED}, 1.5)").fetchall())
    plain = con.execute("SELECT count(*) FROM people, reports WHERE people.rowid = reports.rowid").fetchall()
    assert plain == [(5000,)]


@pytest.mark.parametrize("encoding", ["direct", "unary"])
def test_lists_in_python_give_back_the_counts(encoding: Any) -> None:
    reports = randomize(ANSWERS, DOMAIN, epsilon="1.5", encoding=encoding)
    found = randomized_counts(reports, DOMAIN, epsilon="1.5", encoding=encoding)
    rows = [
        (row["value"], e.value, e.standard_error, e.low, e.high) for row in found.estimates() for e in [row["people"]]
    ]
    assert near(rows)
    assert "5,000 reports, each of epsilon=1.5" in str(found)
    assert not found.notes


def test_sql_and_python_estimate_alike(con: duckdb.DuckDBPyConnection) -> None:
    con.execute(f"CREATE TABLE reports AS SELECT dp_randomize(a, {LISTED}, 0.7) AS r FROM people")
    rows = con.execute(f"FROM dp_randomized_counts('reports', 'r', {LISTED}, 0.7)").fetchall()
    given = [row[0] for row in con.execute("SELECT r FROM reports").fetchall()]
    found = randomized_counts(given, DOMAIN, epsilon="0.7")["people"]
    assert [row[1] for row in rows] == found


def test_every_row_and_every_call_has_draws_of_its_own(con: duckdb.DuckDBPyConnection) -> None:
    """Never folded as a constant, never one of two that look alike, never drawn again by a filter."""
    one = "dp_randomize('yes', ['yes', 'no'], 0.1)"
    assert len(set(con.execute(f"SELECT {one} FROM range(200)").fetchall())) == 2
    pairs = con.execute(f"SELECT {one}, {one} FROM range(200)").fetchall()
    assert any(a != b for a, b in pairs)
    kept = con.execute(f"SELECT r FROM (SELECT {one} AS r FROM range(400)) WHERE r = 'yes'").fetchall()
    assert set(kept) == {("yes",)}
    assert len({con.execute(f"SELECT {one}").fetchall()[0] for _ in range(60)}) == 2


def test_what_is_outside_is_reported_as_anything(con: duckdb.DuckDBPyConnection) -> None:
    """NULL too: no report, and no error, tells that somebody's value is none of the domain's."""
    for value in ("NULL", "'maybe'", "''"):
        found = con.execute(f"SELECT dp_randomize({value}, ['yes', 'no'], 50) FROM range(200)").fetchall()
        assert set(found) == {("yes",), ("no",)}
        found = con.execute(f"SELECT dp_randomize_unary({value}, ['yes', 'no'], 50) FROM range(20)").fetchall()
        assert found == [([],)] * 20
    assert set(randomize([None] * 100, ["yes", "no"], epsilon=50)) == {"yes", "no"}


def test_numbers_are_compared_as_texts(con: duckdb.DuckDBPyConnection) -> None:
    assert con.execute("SELECT dp_randomize(7, [7, 8], 100)").fetchall() == [("7",)]
    assert randomize([7, 8], ["7", "8"], epsilon=100) == ["7", "8"]
    found = con.execute(
        "SELECT dp_randomize(i, CASE WHEN i = 0 THEN ['0', 'a'] ELSE ['1', 'b'] END, 100) FROM range(2) r(i)"
    )
    assert found.fetchall() == [("0",), ("1",)]


def test_hostile_reports_are_left_out(con: duckdb.DuckDBPyConnection) -> None:
    """One person's report can neither be counted often nor end the count of all."""
    honest = [["a"], ["a", "b"], [], ["b"]] * 5
    hostile = [["a"] * 50, ["a", None], ["a", "a"], [None], ["z"], None]
    rows = []
    for reports in (honest, [*honest, *hostile]):
        con.execute("CREATE OR REPLACE TABLE given (x VARCHAR[])")
        con.executemany("INSERT INTO given VALUES (?)", [[one] for one in reports])
        rows.append(con.execute("FROM dp_randomized_unary_counts('given', 'x', ['a', 'b'], 1)").fetchall())
        texts = [one for one in reports if one is not None and None not in one]  # Python takes texts alone
        found = randomized_counts(texts, ["a", "b"], epsilon=1, encoding="unary")
        assert [row[:2] for row in found.rows()] == [row[:2] for row in rows[-1]]
    assert rows[0] == rows[1]


def test_reports_of_another_domain_are_left_out(con: duckdb.DuckDBPyConnection) -> None:
    con.execute("CREATE TABLE r AS SELECT unnest(['yes', 'no', 'yes', 'maybe', NULL]) AS x")
    rows = con.execute("FROM dp_randomized_counts('r', 'x', ['yes', 'no'], 3)").fetchall()
    assert sum(row[1] for row in rows) == pytest.approx(3)
    found = randomized_counts(["yes", "no", "yes", "maybe"], ["yes", "no"], epsilon=3)
    assert [row[1] for row in rows] == found["people"]
    assert "1 reports are none of this domain" in str(found)
    lists = [["yes"], [], ["yes", "no"], ["yes", "yes"], ["other"]]
    assert "2 reports are none" in str(randomized_counts(lists, ["yes", "no"], epsilon=3, encoding="unary"))
    assert randomized_counts([], ["yes", "no"], epsilon=3)["people"] == [0, 0]
    con.execute("CREATE TABLE none AS SELECT ''::VARCHAR AS x WHERE false")
    assert con.execute("FROM dp_randomized_counts('none', 'x', ['yes', 'no'], 3)").fetchall()[0][1] == 0


@pytest.mark.parametrize(
    ("call", "words"),
    [
        ("SELECT dp_randomize('a', ['a'], 1)", "P107: domain=1: must be 2 to 1,000"),
        ("SELECT dp_randomize('a', ['a', 'a'], 1)", "P107: domain=2: must differ"),
        ("SELECT dp_randomize('a', NULL, 1)", "P107: domain=None"),
        ("SELECT dp_randomize('a', ['a', NULL], 1)", "none of them NULL"),
        ("SELECT dp_randomize('a', range(1001), 1)", "P107: domain=1001"),
        ("SELECT dp_randomize_unary('a', range(10001), 1)", "P107: domain=10001"),
        ("SELECT dp_randomize('a', ['a', 'b'], 0)", "P101"),
        ("SELECT dp_randomize('a', ['a', 'b'], NULL)", "P101"),
        ("SELECT dp_randomize('a', ['a', 'b'], 'nan'::DOUBLE)", "P101"),
        ("SELECT dp_randomize('a', ['a', 'b'], 101)", "P101"),
        ("FROM dp_randomized_counts('people', 'a', ['a', 'a'], 1)", "P107: domain=2: must differ"),
        ("FROM dp_randomized_counts('people', 'a', ['a', 'b'], -1)", "P101"),
        ("FROM dp_randomized_counts('people', NULL, ['a', 'b'], 1)", "P107: t="),
    ],
)
def test_refusals_are_coded(con: duckdb.DuckDBPyConnection, call: str, words: str) -> None:
    with pytest.raises(duckdb.Error) as caught:
        con.execute(call).fetchall()
    assert words in str(caught.value)


@pytest.mark.parametrize("odd", [None, 7, "ab", [1, 2], ["a"], ["a", "a"], {"a": 1}, b"ab", [["a"], ["b"]], object()])
def test_odd_domains_in_python(odd: Any) -> None:
    for work in (lambda: randomize(["a"], odd, epsilon=1), lambda: randomized_counts(["a"], odd, epsilon=1)):
        with pytest.raises(ParameterError, match="P107"):
            work()


@pytest.mark.parametrize(
    "given",
    [
        {"values": None},
        {"values": 7},
        {"values": [object()]},
        {"epsilon": None},
        {"epsilon": "nan"},
        {"epsilon": -1},
        {"encoding": "other"},
        {"encoding": None},
    ],
)
def test_other_odd_values_in_python(given: dict[str, Any]) -> None:
    with pytest.raises(ParameterError, match="P10"):
        randomize(**{"values": ["a"], "domain": ["a", "b"], "epsilon": 1, **given})


SECRET = "hunter2"


@pytest.mark.parametrize(
    ("values", "shown"),
    [
        (["yes", SECRET, 7.5j], "<list of 3>"),
        (SECRET, "<str of 7>"),
        ({SECRET: 1}, "<dict of 1>"),
        ([[SECRET]], "<list of 1>"),
        ([SECRET + "\ud800"], "<list of 1>"),
        ((SECRET, object()), "<tuple of 2>"),
    ],
)
def test_no_error_quotes_what_people_said(values: Any, shown: str) -> None:
    with pytest.raises(ParameterError) as caught:
        randomize(values, ["yes", "no"], epsilon=1)
    assert f"P107: values={shown}: must be a list" in str(caught.value)
    assert SECRET not in str(caught.value) + repr(caught.value.value)
    with pytest.raises(ParameterError, match=SECRET):  # the twin: of what is public errors quote the words
        randomize(["yes"], {SECRET: 1}, epsilon=1)  # type: ignore[arg-type]


@pytest.mark.parametrize("rows", [[{"n": SECRET}], {"t": [{"n": SECRET}]}, {"t": {"n": [SECRET, 7j]}}])
def test_no_error_quotes_rows_that_are_no_frame(rows: Any, tmp_path: Path) -> None:
    with pytest.raises(DuckDPError) as caught:
        duckdp.open(rows, ledger=str(tmp_path / "l"))
    assert SECRET not in str(caught.value)


def test_only_a_connection_is_registered() -> None:
    for odd in (None, "x", 7):
        with pytest.raises(ParameterError, match="P107: con"):
            register(odd)  # type: ignore[arg-type]


def test_it_is_registered_as_often_as_one_likes(con: duckdb.DuckDBPyConnection) -> None:
    register(con)
    register(con.cursor())
    assert con.execute("SELECT dp_randomize('a', ['a', 'b'], 100)").fetchall() == [("a",)]
    assert duckdp.local.register is register


def test_files_on_the_command_line(tmp_path: Path) -> None:
    source, target = str(tmp_path / "a.parquet"), str(tmp_path / "b.parquet")
    duckdb.sql(f"COPY (SELECT 'yes' AS a, i FROM range(500) r(i)) TO '{source}'")
    run, terms = CliRunner(), ["--column=a", "--domain=yes", "--domain=no", "--epsilon=3"]

    def say(*words: str, code: int = 0) -> str:
        done = run.invoke(main, [*words])
        assert done.exit_code == code, done.output
        return str(done.output)

    say("randomize", source, target, *terms)
    rows = duckdb.sql(f"SELECT a, count(*), count(DISTINCT i) FROM '{target}' GROUP BY a ORDER BY a").fetchall()
    assert [row[0] for row in rows] == ["no", "yes"]
    assert sum(row[2] for row in rows) == 500
    assert "each of epsilon=3" in say("randomized-counts", target, *terms)
    say("randomize", source, str(tmp_path / "c.csv"), *terms)
    assert "yes" in say("randomized-counts", str(tmp_path / "c.csv"), *terms)
    say("randomize", source, str(tmp_path / "u.parquet"), "--unary", *terms)
    assert "yes" in say("randomized-counts", str(tmp_path / "u.parquet"), "--unary", *terms)
    assert "is there already" in say("randomize", source, target, *terms, code=1)
    assert "must end in" in say("randomize", source, str(tmp_path / "d.txt"), *terms, code=1)
    assert "must end in" in say("randomize", source, str(tmp_path / "d.csv"), "--unary", *terms, code=1)
    odd = ["--column=nope", *terms[1:]]
    assert "P107: source=" in say("randomize", source, str(tmp_path / "e.parquet"), *odd, code=1)
    assert "P107: source=" in say("randomized-counts", str(tmp_path / "nope.parquet"), *terms, code=1)
    assert "P101" in say("randomize", source, str(tmp_path / "e.parquet"), *terms[:3], "--epsilon=0", code=1)
    assert "must be a .parquet file" in say("randomized-counts", str(tmp_path / "c.csv"), "--unary", *terms, code=1)
    assert "P107: target=" in say("randomize", source, str(tmp_path / "no folder" / "f.parquet"), *terms, code=1)
    (tmp_path / "g.parquet.part").write_text("somebody's own")
    say("randomize", source, str(tmp_path / "g.parquet"), *terms)
    assert (tmp_path / "g.parquet.part").read_text() == "somebody's own"
    names = ["a.parquet", "b.parquet", "c.csv", "g.parquet", "g.parquet.part", "u.parquet"]
    assert sorted(p.name for p in tmp_path.iterdir()) == names


def test_a_target_that_appears_meanwhile_or_cannot_be_written_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, target = str(tmp_path / "a.parquet"), tmp_path / "b.parquet"
    duckdb.sql(f"COPY (SELECT 'yes' AS a FROM range(5)) TO '{source}'")
    call = ["randomize", source, str(target), "--column=a", "--domain=yes", "--domain=no", "--epsilon=3"]

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(collect.shutil, "copyfileobj", full)
        done = CliRunner().invoke(main, call)
    assert (done.exit_code, "P107: target=" in done.output) == (1, True)
    assert [p.name for p in tmp_path.iterdir()] == ["a.parquet"]
    put = collect._put
    monkeypatch.setattr(collect, "_put", lambda part, to: (target.write_text("mine"), put(part, to)))
    done = CliRunner().invoke(main, call)
    assert (done.exit_code, "is there already" in done.output) == (1, True)
    assert target.read_text() == "mine"


def test_a_report_is_private_to_its_person() -> None:
    """From the function that SQL calls: what one value is reported as, another is at most e^epsilon less often."""
    reports = {value: randomize([value] * 4000, DOMAIN, epsilon=1) for value in (*DOMAIN, "other")}
    response = RandomizedResponse(encoding="direct", values=3, epsilon=1)  # type: ignore[arg-type]
    p, q = response.chances
    for value, found in reports.items():
        for said in DOMAIN:
            expected = 1 / 3 if value == "other" else p if said == value else q
            assert abs(found.count(said) / 4000 - expected) < 6.5 * (expected * (1 - expected) / 4000) ** 0.5

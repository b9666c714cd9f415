"""What stands beside a number: which rows do not count, its interval, in every place where the number is shown."""

from __future__ import annotations

import json
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest

import duckdp
from duckdp.curator import Curator
from duckdp.errors import ParameterError
from duckdp.result import Estimate, Result, ResultColumn, plain_result
from duckdp.shell.output import render

CAP = "at most 10 rows of each patient count (max_rows); the ± does not include what this leaves out"
ROWS = CAP.partition("; ")[0]  # of a median, which has no ±
EACH = CAP.replace("(max_rows)", "in each group (max_rows)")
HALF = f"of a patient with more than 10 rows all count, each the less (max_rows); {CAP.partition('; ')[2]}"


@pytest.fixture(scope="module")
def curator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Curator]:
    con = duckdb.connect()
    con.execute(
        "CREATE TABLE visits AS SELECT i % 900 AS patient, i % 7 AS ward, (i % 50)::DOUBLE AS cost "
        "FROM range(20000) r(i)"
    )
    con.execute("CREATE TABLE few AS FROM visits LIMIT 900")
    with duckdp.open(con, ledger=str(tmp_path_factory.mktemp("answers") / "a.ledger")) as made:
        shape = {
            "unit_key": "patient",
            "max_groups": 7,
            "bounds": {"cost": (0, 50)},
            "domains": {"ward": list(range(7))},
        }
        made.protect("visits", max_rows=10, row_cap=100_000, **shape)  # type: ignore[arg-type]
        made.protect("few", max_rows=1000, row_cap=1000, **shape)  # type: ignore[arg-type]
        made.budget(epsilon=1000)
        made.grant("ana", epsilon=1000)
        yield made


PLAIN = "SELECT count(*) AS n FROM visits"
GROUPED = "SELECT ward, avg(cost) AS n FROM visits GROUP BY ward"


@pytest.mark.parametrize(("text", "note"), [(PLAIN, CAP), (GROUPED, EACH)])
def test_a_number_that_leaves_rows_out_says_so_everywhere(curator: Curator, text: str, note: str) -> None:
    """20,000 rows of 900 patients: a count shows 9,000."""
    ana = curator.session("ana")
    result = ana.sql(text, epsilon=1)
    faces = {
        "print": str(result),
        "repr": repr(result),
        "notebook": result._repr_html_(),
        "one": str(result.estimates()[0]["n"]),
        "arrow": str(result.arrow()["note"][0]),
        "frame": result.df()["note"][0],
        "csv": render(result, "csv")[0],
        "json": json.loads(render(result, "json")[0])[0]["note"],
        "explain": str(ana.explain(text, epsilon=1)),
        "explain in a notebook": ana.explain(text, epsilon=1)._repr_html_(),
    }
    con = curator.connect("ana")
    call = f"dp_query($${text}$$, epsilon := 1)"
    faces["dp_query"] = str(con.execute(f"SELECT note FROM {call}").fetchone())
    faces["dp_explain"] = str(con.execute(f"FROM dp_explain($${text}$$, epsilon := 1)").fetchall())
    faces["front"] = str(curator.front("ana").sql(f"FROM {call}"))
    assert {face for face, shown in faces.items() if note not in shown} == set()


def test_counts_medians_and_summaries_say_which_rows_count(curator: Curator) -> None:
    ana, con = curator.session("ana"), curator.connect("ana")
    assert CAP in str(ana.noisy_count("visits", epsilon=1))
    assert con.execute("SELECT note FROM dp_noisy_count('visits', epsilon := 1)").fetchone() == (CAP,)
    median = ana.median_smooth("visits", "cost", epsilon=1)
    assert ROWS in str(median)
    assert ROWS in render(median, "csv")[0]
    assert json.loads(render(median, "json")[0])[0]["note"] == ROWS
    found = con.execute("FROM dp_median_smooth('visits', 'cost', epsilon := 1)").fetchone()
    assert found is not None
    assert (len(found), found[-1]) == (2, ROWS)
    few = con.execute("FROM dp_median_smooth('few', 'cost', epsilon := 1)").fetchone()
    assert few is not None
    assert len(few) == 1
    assert HALF in str(ana.explain_summary("visits", ["cost"], epsilon=1, degree=4))
    assert HALF in str(ana.smooth_summary("visits", ["cost"], epsilon=1, degree=4, name="costs"))
    assert "each the less" in str(ana.smooth_answer("costs", "cost"))
    assert "each the less" in str(ana.smooth_answers("costs", ["cost"]))
    for call in (
        "dp_smooth_answer('costs', 'cost')",
        "dp_smooth_answers('costs', ['cost'])",
        "dp_smooth_summary('visits', ['cost'], epsilon := 1, degree := 4, name := 'more')",
    ):
        assert "each the less" in str(con.execute(f"SELECT note FROM {call}").fetchone()), call
    routed = ana.sql("SELECT avg(cost) AS c FROM visits", tolerance=50.0)
    assert HALF in str(routed)
    assert routed.arrow()["note"].to_pylist() == [HALF]
    sql = "SELECT note FROM dp_query($$SELECT avg(cost) AS c FROM visits$$, tolerance := 50)"
    assert con.execute(sql).fetchone() == (HALF,)


def test_nothing_is_said_where_every_row_counts(curator: Curator) -> None:
    """Of counts of units, and where no unit can have more rows than count."""
    ana = curator.session("ana")
    for result in (
        ana.sql("SELECT count(DISTINCT patient) AS n FROM visits", epsilon=1),
        ana.sql("SELECT count(*) AS n FROM few", epsilon=1),
        ana.noisy_count("visits", unit=True, epsilon=1),
    ):
        assert "max_rows" not in str(result)
        assert "note" not in result.arrow().column_names
    both = ana.sql("SELECT count(DISTINCT patient) AS units, count(*) AS note FROM visits", epsilon=1)
    units, rows = both.estimates()[0].values()
    assert (units.note, rows.note) == (None, CAP)
    assert both.arrow().column_names[-1] == "note_"  # an output of that name stays


# ---- intervals as text ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "low", "high", "shown"),
    [
        (0.0, 0.0, 30.0, "0 [0, 30]"),  # cut at the end of its range
        (15.0, 0.0, 30.0, "15 ± 15"),
        (164.0, 158.5, 169.6, "164.0 ± 5.55"),
        (10.0, 9.5, 11.5, "10.0 [9.5, 11.5]"),
        (5.0, 0.0, 5.0, "5.0 [0.0, 5.0]"),
        (7, 4.0, 10.0, "7 ± 3"),
        (7, 7.0, 7.0, "7 ± 0"),
    ],
)
def test_an_interval_is_shown_where_it_lies(value: float, low: float, high: float, shown: str) -> None:
    assert str(Estimate(value=value, standard_error=1.0, low=low, high=high)) == shown


def test_what_is_printed_holds_the_ends(curator: Curator) -> None:
    """Averages of few rows: whatever the noise, the text's ends are those of the interval, to its digits."""
    found = curator.session("ana").sql(
        "SELECT ward, avg(cost) AS c FROM visits WHERE patient_is_few GROUP BY ward".replace(
            "patient_is_few", "cost > 49"
        ),
        epsilon="0.05",
    )
    for row in found.estimates():
        e = row["c"]
        if e.value is None:
            continue
        text = e.text.replace(",", "")
        if "[" in text:
            ends = [float(part) for part in text[text.index("[") + 1 : -1].split()]
        else:
            middle, width = (float(part) for part in text.split(" ± "))
            ends = [middle - width, middle + width]
        slack = 0.11 * e.half_width + 1e-9
        assert abs(ends[0] - e.low) <= slack
        assert abs(ends[1] - e.high) <= slack


# ---- frames --------------------------------------------------------------------------------------------------------

TYPES = {
    "TINYINT": 1,
    "SMALLINT": 2,
    "INTEGER": 3,
    "BIGINT": 4,
    "UTINYINT": 1,
    "USMALLINT": 2,
    "UINTEGER": 3,
    "UBIGINT": 2**63,
    "FLOAT": 1.5,
    "DOUBLE": 2.5,
    "DECIMAL(4,2)": 12.34,
    "DECIMAL(18,3)": 0.1 + 0.2,
    "DECIMAL(38,0)": 10**20,
    "DECIMAL(38,18)": Decimal("12345678901234567890.123456789012345678"),
    "VARCHAR": "x",
    "BOOLEAN": True,
}


@pytest.mark.parametrize("kind", sorted(TYPES))
def test_arrow_has_the_types_of_duckdb(kind: str) -> None:
    found = plain_result(["v"], [(TYPES[kind],), (None,)], [kind]).arrow()
    with duckdb.connect() as con:
        [theirs] = con.sql(f"SELECT NULL::{kind} AS v").to_arrow_table().schema
        assert found.schema.field("v").type == theirs.type
        again = con.sql("SELECT v FROM found").fetchall()
        assert again == [*con.execute(f"SELECT $1::{kind}", [TYPES[kind]]).fetchall(), (None,)]


def test_a_synthetic_decimal_is_a_decimal_everywhere(tmp_path: Path) -> None:
    con = duckdb.connect()
    con.execute("CREATE TABLE t AS SELECT (i % 100 / 8)::DECIMAL(9,3) AS price FROM range(1000) r(i)")
    with duckdp.open(con, ledger=str(tmp_path / "d.ledger")) as made:
        made.protect("t", row_cap=2000, bounds={"price": (0, 13)})
        made.budget(epsilon=10)
        made.grant("ana", epsilon=10)
        result = made.session("ana").synthesize("t", epsilon=1, degree=3, rows=50, name="s", method="lp")
        assert result.arrow()["price"].type == pa.decimal128(9, 3)
        assert made.connect("ana").sql("FROM dp_synthesize('s')").to_arrow_table()["price"].type == pa.decimal128(9, 3)


def test_columns_and_rows_by_name_and_number() -> None:
    columns = [
        ResultColumn(name="N", type="BIGINT", values=[1, 2]),
        ResultColumn(name="n", type="BIGINT", values=[3, 4]),
    ]
    result = Result(columns=columns)
    assert (result["N"], result["n"], result[1], result[-1]) == ([1, 2], [3, 4], (2, 4), (2, 4))
    assert Result(columns=columns[:1])["n"] == [1, 2]
    assert list(result) == [(1, 3), (2, 4)]
    with pytest.raises(ParameterError, match="P107") as caught:
        result["m"]
    assert "N, n" in str(caught.value)
    with pytest.raises(IndexError):
        result[2]


def test_an_explanation_shows_itself(curator: Curator) -> None:
    found = curator.session("ana").explain('SELECT count(*) AS "<b>" FROM visits', epsilon=1)
    assert repr(found) == str(found)
    assert found._repr_html_().startswith("<pre>")
    assert "&lt;b&gt;" in found._repr_html_()


def test_a_key_with_a_label_for_others_says_that_null_is_left_out(tmp_path: Path) -> None:
    con = duckdb.connect()
    con.execute(
        "CREATE TABLE t AS SELECT CASE i % 4 WHEN 0 THEN 'a' WHEN 1 THEN 'b' WHEN 2 THEN 'c' END AS town, "
        "'x' AS kind FROM range(400) r(i)"
    )
    with duckdp.open(con, ledger=str(tmp_path / "t.ledger")) as made:
        listed = {"town": ["a", "b"], "kind": [*map(str, range(60))]}
        made.protect("t", row_cap=1000, domains=listed, other={"town": "far", "kind": "none"})
        made.budget(epsilon=10)
        made.grant("ana", epsilon=10)
        ana = made.session("ana")

        def told(key: str) -> list[str]:
            return list(ana.explain(f"SELECT {key} AS k, count(*) FROM t GROUP BY k", epsilon=1).notes)

        left_out = "rows whose key is NULL are left out"
        assert left_out in told("town")
        assert left_out not in told("coalesce(town, 'nowhere')")
        domains = ana.catalog()["domain"]
        assert domains[0] == "a, b; others as far"
        assert domains[1].endswith("49, ...; others as none")


def test_a_median_as_a_frame_says_which_rows_count(curator: Curator) -> None:
    found = curator.session("ana").median_smooth("visits", "cost", epsilon=0.5)
    assert found.arrow()["note"].to_pylist() == [ROWS]


def test_an_error_too_small_says_what_helps(curator: Curator) -> None:
    with pytest.raises(ParameterError, match=r"P106.*needs more than epsilon=100.*Ask for a wider error\.$"):
        curator.session("ana").explain("SELECT sum(cost) FROM visits", error=1e-9)


def test_a_comparison_is_called_by_its_sign(curator: Curator) -> None:
    with pytest.raises(duckdp.errors.QueryError, match=": > needs a number where a text stands"):
        curator.session("ana").explain("SELECT count(*) FROM visits WHERE cost > 'high'", epsilon=1)


# ---- a tolerance without an epsilon ----------------------------------------------------------------------------------


def test_a_tolerance_that_no_summary_meets_says_why(curator: Curator) -> None:
    """Where nothing says what the statement may cost; with an epsilon it is bought."""
    ana, con = curator.session("ana"), curator.connect("ana")
    text = "SELECT ward, avg(cost) AS c FROM visits GROUP BY ward"
    for ask in (
        lambda: ana.sql(text, tolerance=5),
        lambda: ana.explain(text, tolerance=5),
        lambda: con.execute(f"FROM dp_query($${text}$$, tolerance := 5)").fetchall(),
        lambda: con.execute(f"FROM dp_explain($${text}$$, tolerance := 5)").fetchall(),
    ):
        with pytest.raises(Exception, match="the statement has groups") as caught:
            ask()
        assert "P106" in str(caught.value)
        assert "Give epsilon=" in str(caught.value)
    assert len(ana.sql(text, tolerance=5, epsilon=1)) == 7
    assert "the statement has groups" in str(ana.explain(text, tolerance=5, epsilon=1))
    assert ana.sql("SELECT count(*) AS n FROM visits WHERE cost > 99", tolerance=5).rows() == [(0,)]  # known, free


def test_an_error_that_was_predicted_and_missed_is_told(tmp_path: Path) -> None:
    """Fewer rows pass the filter than expected_rows has it; counts keep their word."""
    con = duckdb.connect()
    con.execute(
        "CREATE TABLE t AS SELECT (i % 50)::DOUBLE AS x, i % 40 AS k, i % 9 AS j, 'w' || i % 3 AS w "
        "FROM range(20000) r(i)"
    )
    with duckdp.open(con, ledger=str(tmp_path / "e.ledger")) as owner:
        owner.protect(
            "t",
            row_cap=100_000,
            expected_rows=20_000,
            bounds={"x": (0, 50), "k": (0, 40)},
            columns=["j"],
            domains={"w": ["w0", "w1"]},
        )
        owner.budget(epsilon=100)
        owner.grant("ana", epsilon=100)
        ana = owner.session("ana")
        for text, missed in {
            "SELECT avg(x) AS a FROM t": False,
            "SELECT count(*) AS a FROM t WHERE k < 20": False,
            "SELECT avg(x) AS a FROM t WHERE k < 20": True,
        }.items():
            found = ana.sql(text, error=1)
            notes = [n for n in found.notes if n.startswith("wider than the error asked for: a above 1;")]
            assert bool(notes) == missed, text
            assert missed == (found.estimates()[0]["a"].half_width > 1.0001)
        assert ana.sql("SELECT stddev(x) AS a FROM t", error=1).estimates()[0]["a"].half_width < 3
        for text, named in (("SELECT w, avg(x) AS a FROM t GROUP BY w", True), ("SELECT count(*) AS a FROM t", False)):
            assert ("is predicted from expected_rows=20,000" in str(ana.explain(text, error=3))) == named
        with pytest.raises(ParameterError, match="have no declared domain"):
            ana.sql("SELECT j, avg(x) AS a FROM t GROUP BY j", error=3, delta=1e-6)


@pytest.mark.parametrize("what", ["count(*)", "count(DISTINCT patient)"])
def test_a_number_that_leaves_groups_out_says_so_everywhere(tmp_path: Path, what: str) -> None:
    """20,000 rows of 900 patients in 7 wards, one ward of each: the others' error is in no ±."""
    con = duckdb.connect()
    con.execute("CREATE TABLE visits AS SELECT i % 900 AS patient, 'w' || i % 7 AS ward FROM range(20000) r(i)")
    with duckdp.open(con, ledger=str(tmp_path / "g.ledger")) as owner:
        wards = [f"w{i}" for i in range(7)]
        owner.protect("visits", unit_key="patient", max_rows=30, row_cap=30, max_groups=1, domains={"ward": wards})
        owner.budget(epsilon=100)
        owner.grant("ana", epsilon=100)
        note = "at most one group of each patient counts (max_groups); the ± does not include what this leaves out"
        text, ana = f"SELECT ward, {what} AS n FROM visits GROUP BY ward", owner.session("ana")
        found = ana.sql(text, epsilon=1)
        asked = owner.connect("ana").sql(f"SELECT note FROM dp_query($${text}$$, epsilon := 1)").fetchall()
        assert asked == [(note,)] * 7
        assert note in str(ana.explain(text, epsilon=1))
        for shown in (str(found), str(found.estimates()[0]["n"]), *(render(found, f)[0] for f in ("csv", "json"))):
            assert note in shown

"""SELECTs answered from a summary: free, named, and only where the summary speaks of the same rows."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest

import duckdp
from duckdp.errors import ParameterError

ROWS = 20_000


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[duckdp.Curator]:
    """Sales without NULL, a summary of price and age, one of price alone."""
    path = str(tmp_path / "shop.duckdb")
    with duckdb.connect(path) as con:
        con.execute(
            "CREATE TABLE sales AS SELECT (i % 100)::DOUBLE AS price, (20 + i % 50)::INTEGER AS age, "
            f"CASE WHEN i % 10 > 0 THEN (i % 7)::DOUBLE END AS tip FROM range({ROWS}) AS t(i)"
        )
        con.execute("ALTER TABLE sales ALTER price SET NOT NULL")
        con.execute("ALTER TABLE sales ALTER age SET NOT NULL")
    with duckdp.open(path, ledger=str(tmp_path / "shop.ledger")) as owner:
        owner.protect(
            "sales",
            row_cap=100_000,
            expected_rows=ROWS,
            nulls={"price": 0},  # a DOUBLE may be NaN
            bounds={"price": (0, 100), "age": (0, 100), "tip": (0, 7)},
        )
        owner.budget(epsilon=100)
        owner.grant("ana", epsilon=50)
        owner.grant("ben", epsilon=50)
        ana = owner.session("ana")
        ana.smooth_summary("sales", ["price", "age"], epsilon=10, degree=12, name="pa")
        ana.smooth_summary("sales", ["price", "tip"], epsilon=10, degree=6, name="pt")
        yield owner


def spent(owner: duckdp.Curator) -> int:
    return sum(c.loss.epsilon_nano for c in owner.ledger.charges())


def test_a_smooth_average_is_free_and_names_its_source(shop: duckdp.Curator) -> None:
    before = spent(shop)
    ana = shop.session("ana")
    statement = "SELECT avg(exp(-price / 50)) AS near, sum(age) AS years FROM sales"
    result = ana.sql(statement, tolerance={"near": 0.1, "years": 1e5})
    assert spent(shop) == before
    assert result.cost == "nothing"
    assert result.source == 'summary "pa"'
    near, years = result.rows()[0]
    assert near == pytest.approx(sum(2.718281828 ** (-p / 50) for p in range(100)) / 100, abs=0.02)
    assert years == pytest.approx(ROWS * 44.5, rel=0.02)
    assert 'answered from summary "pa"' in str(result)
    estimate = result.columns[0].estimates[0]
    assert estimate.low <= near <= estimate.high


def test_beyond_the_tolerance_the_statement_is_charged(shop: duckdp.Curator) -> None:
    before = spent(shop)
    ana = shop.session("ana")
    result = ana.sql("SELECT avg(price) AS p FROM sales", tolerance=1e-9, epsilon=1)
    assert spent(shop) == before + 10**9
    assert "charge" in result.source
    with pytest.raises(ParameterError) as caught:  # no epsilon to fall back to
        ana.sql("SELECT avg(price) AS p FROM sales", tolerance=1e-9)
    assert caught.value.code == "P106"


def test_a_summary_of_older_data_answers_nothing(shop: duckdp.Curator, tmp_path: Path) -> None:
    ana, statement = shop.session("ana"), "SELECT avg(price) AS p FROM sales"
    assert ana.sql(statement, tolerance=100).cost == "nothing"
    shop.close()
    path = str(tmp_path / "shop.duckdb")
    with duckdb.connect(path) as con:
        con.execute("UPDATE sales SET price = 3")
    with duckdp.open(path, ledger=str(tmp_path / "shop.ledger")) as owner:
        owner.refresh(reason="prices fell")
        ana = owner.session("ana")
        assert "there is none of" in str(ana.explain(statement, tolerance=100, epsilon=1))
        with pytest.raises(ParameterError) as caught:
            ana.sql(statement, tolerance=100)
        assert caught.value.code == "P106"


def test_a_summary_of_another_table_answers_nothing(tmp_path: Path) -> None:
    """Two tables of the same columns, declared alike: each has its own rows."""
    path = str(tmp_path / "twins.duckdb")
    with duckdb.connect(path) as con:
        con.execute("CREATE TABLE sales AS SELECT (i % 10)::INTEGER AS price FROM range(5000) AS t(i)")
        con.execute("CREATE TABLE returns AS SELECT 90 + price AS price FROM sales")
        for table in ("sales", "returns"):
            con.execute(f"ALTER TABLE {table} ALTER price SET DATA TYPE INTEGER")
            con.execute(f"ALTER TABLE {table} ALTER price SET NOT NULL")
    with duckdp.open(path, ledger=str(tmp_path / "twins.ledger")) as owner:
        for table in ("sales", "returns"):
            owner.protect(table, row_cap=10_000, bounds={"price": (0, 100)})
        owner.budget(epsilon=100)
        owner.grant("ana", epsilon=50)
        ana = owner.session("ana")
        ana.smooth_summary("sales", ["price"], epsilon=10, degree=6, name="s")
        assert ana.sql("SELECT avg(price) AS p FROM sales", tolerance=100).cost == "nothing"
        with pytest.raises(ParameterError, match='there is none of "returns"') as caught:
            ana.sql("SELECT avg(price) AS p FROM returns", tolerance=100)
        assert caught.value.code == "P106"


def test_without_a_tolerance_nothing_is_routed(shop: duckdp.Curator) -> None:
    before = spent(shop)
    shop.session("ana").sql("SELECT avg(price) FROM sales", epsilon=1)
    assert spent(shop) == before + 10**9


@pytest.mark.parametrize(
    ("statement", "why"),
    [
        ("SELECT avg(price) FROM sales WHERE age > 30", "the statement has a WHERE"),
        ("SELECT age > 30 AS old, avg(price) AS p FROM sales GROUP BY 1", "the statement has groups"),
        ("SELECT avg(price) + 1 AS p FROM sales", "is not a plain avg or sum"),
        ("SELECT count(*) AS n FROM sales", "is not a plain avg or sum"),
        ("SELECT avg(price) FILTER (age > 30) AS p FROM sales", "is not a plain avg or sum"),
        ("SELECT avg(price) AS p FROM sales LIMIT 1", "LIMIT"),
        ("SELECT avg(tip) AS p FROM sales", 'summary "pt"'),
        ("SELECT avg(coalesce(tip, 0)) AS p FROM sales", "leaves out rows with a NULL"),
        ("SELECT avg(1 / (price - 200)) AS p FROM sales", 'summary "pt": leaves out rows without tip'),
    ],
)
def test_explain_says_which_way_and_why(statement: str, why: str, shop: duckdp.Curator) -> None:
    before = spent(shop)
    text = str(shop.session("ana").explain(statement, epsilon=1, tolerance=5))
    assert why in text
    assert spent(shop) == before


def test_the_most_precise_summary_is_taken(shop: duckdp.Curator) -> None:
    ana = shop.session("ana")
    ana.smooth_summary("sales", ["price"], epsilon=20, degree=12, name="p")
    assert ana.sql("SELECT avg(price) AS p FROM sales", tolerance=5).source == 'summary "p"'


def test_stored_tables_that_hold_no_summary_do_not_stand_in_the_way(shop: duckdp.Curator) -> None:
    ana = shop.session("ana")
    ana.synthesize("sales", epsilon=1, method="psi", rows=50, name="wide")
    statement = "SELECT avg(price) AS p FROM sales"
    assert ana.sql(statement, tolerance=5).source == 'summary "pa"'
    assert 'answered from summary "pa"' in str(ana.explain(statement, tolerance=5))


def test_with_units_of_many_rows_the_result_says_how_they_count(tmp_path: Path) -> None:
    path = str(tmp_path / "visits.duckdb")
    with duckdb.connect(path) as con:
        con.execute("CREATE TABLE visits AS SELECT i % 900 AS person, (i % 100)::DOUBLE AS price FROM range(5000) t(i)")
    with duckdp.open(path, ledger=str(tmp_path / "visits.ledger")) as owner:
        owner.protect(
            "visits", unit_key="person", max_rows=3, row_cap=9000, bounds={"price": (0, 100)}, nulls={"price": 0}
        )
        owner.budget(epsilon=100)
        owner.grant("ana", epsilon=50)
        ana = owner.session("ana")
        ana.smooth_summary("visits", ["price"], epsilon=10, degree=8, name="v")
        result = ana.sql("SELECT avg(price) AS p FROM visits", tolerance=20)
    assert any("person with more than 3 rows" in note for note in result.notes)


def test_a_summary_of_older_data_or_of_somebody_else_is_not_used(shop: duckdp.Curator) -> None:
    statement = "SELECT avg(price) AS p FROM sales"
    assert "there is none" in str(shop.session("ben").explain(statement, epsilon=1, tolerance=5))
    shop.protect(
        "sales",
        row_cap=100_000,
        expected_rows=ROWS,
        bounds={"price": (0, 90), "age": (0, 100), "tip": (0, 7)},
        nulls={"price": 0},
        reason="prices end at 90",
    )
    text = str(shop.session("ana").explain(statement, epsilon=1, tolerance=5))
    assert "is of an older declaration" in text


@pytest.mark.parametrize("tolerance", [0, -1, float("nan"), float("inf"), "wide", True, {}, {"p": None}])
def test_tolerances_are_checked(tolerance: Any, shop: duckdp.Curator) -> None:
    with pytest.raises(ParameterError) as caught:
        shop.session("ana").sql("SELECT avg(price) AS p FROM sales", tolerance=tolerance, epsilon=1)
    wrong_type = tolerance is True or tolerance == {"p": None}
    assert caught.value.code == ("P107" if wrong_type else "P106")


def test_the_same_in_sql(shop: duckdp.Curator) -> None:
    before = spent(shop)
    con = shop.connect("ana")
    statement = "SELECT avg(price) AS p FROM sales"
    value, low, high = con.execute(
        "SELECT p, p_low, p_high FROM dp_query($1, tolerance := 5)", [statement]
    ).fetchone() or (0, 0, 0)
    assert low <= value <= high
    assert value == pytest.approx(49.5, abs=5)
    plan = con.execute("FROM dp_explain($1, tolerance := 5)", [statement]).fetchall()
    assert any('answered from summary "pa"' in line for (line,) in plan)
    assert spent(shop) == before


def test_explain_summary_tells_the_noise_without_a_charge(shop: duckdp.Curator) -> None:
    before = spent(shop)
    con = shop.connect("ana")
    lines = [
        line
        for (line,) in con.execute(
            "FROM dp_explain_summary('sales', ['price', 'age'], epsilon := 1, degree := 8, basis := 'total_degree')"
        ).fetchall()
    ]
    text = "\n".join(lines)
    assert "total_degree of degree 8, 36 functions of price, age" in text
    assert "noise: cube" in text
    assert "cost: epsilon=1" in text
    assert spent(shop) == before

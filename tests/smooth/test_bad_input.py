"""What users get wrong, and tables at the edge, through the session: a clear code or a right answer, no traceback."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import duckdp
from duckdp.errors import DuckDPError
from tests.databases import write_database
from tests.smooth.tables import holds

BOUNDS = {"x": (0, 10), "y": (-1, 1)}
TABLES = {
    "empty": "SELECT 1.0::DOUBLE AS x, 0.0::DOUBLE AS y, 'a' AS s WHERE false",
    "one": "SELECT 7.0::DOUBLE AS x, 0.5::DOUBLE AS y, 'a' AS s",
    "nulls": "SELECT NULL::DOUBLE AS x, 0.5::DOUBLE AS y, 'a' AS s FROM range(5000)",
    "constant": "SELECT 4.0::DOUBLE AS x, 0.25::DOUBLE AS y, 'a' AS s FROM range(50000)",
    "outside": "SELECT CASE i % 3 WHEN 0 THEN 'nan'::DOUBLE WHEN 1 THEN 'inf'::DOUBLE ELSE -1e300 END AS x, "
    "0.0::DOUBLE AS y, 'a' AS s FROM range(30000) r(i)",
}


@pytest.fixture(scope="module")
def owner(tmp_path_factory: pytest.TempPathFactory) -> Iterator[duckdp.Curator]:
    folder: Path = tmp_path_factory.mktemp("edges")
    path = write_database(folder / "t.duckdb", TABLES)
    with duckdp.open(path, ledger=str(folder / "t.ledger")) as found:
        for name in TABLES:
            found.protect(name, row_cap=10**6, expected_rows=50_000, bounds=BOUNDS, columns=["s"])
        found.budget(epsilon=1000)
        found.grant("ana", epsilon=900)
        found.grant("poor", epsilon="0.5")
        yield found


@pytest.mark.parametrize("path", ["sums", "cells", "blocks", "auto"])
@pytest.mark.parametrize(
    ("name", "rows", "mean"),
    [("empty", 0, None), ("one", 1, None), ("nulls", 0, None), ("constant", 50_000, 4.0), ("outside", 20_000, 5.0)],
)
def test_tables_at_the_edge(owner: duckdp.Curator, name: str, rows: int, mean: float | None, path: str) -> None:
    from duckdp.core.types import NANO
    from duckdp.smooth.answer import answer, noisy_count
    from duckdp.smooth.buy.summary_task import plan_summary
    from duckdp.smooth.buy.wishes import Wishes
    from duckdp.smooth.summary import SmoothSummary

    session = owner.session("ana")
    found = session.desk.table(name)
    task = plan_summary(
        found, ["x"], epsilon_nano=NANO, neighbours=session.desk.neighbours, wishes=Wishes(degree=8, path=path)
    )
    done = session.desk.perform(task, table=found, statement=f"edge {name} {path}", fresh=True)
    summary = SmoothSummary.load(done.payload)
    count = answer(summary, "1", statistic="sum")
    assert count.value == pytest.approx(rows, abs=40)
    assert summary.columns[0].name == "x"
    average = answer(summary, "x", level=0.9999)
    noisy, margin = noisy_count(summary, 0.9999)
    # now and then the noise of a count passes for rows
    assert (average.value is None, bool(average.note)) == (noisy <= margin,) * 2
    assert (rows > margin) == (mean is not None)
    if mean is not None:  # inf reads as the upper bound, -1e300 as the lower, NaN is left out
        assert holds(average, mean)
        assert average.value == pytest.approx(mean, abs=0.1)


@pytest.mark.parametrize(
    ("columns", "arguments", "code"),
    [
        (["nobody"], {}, "C102"),
        (["s"], {}, "Q401"),
        ([], {}, "P107"),
        (["x", "x"], {}, "P107"),
        (["x"], {"smoothness": 0}, "P107"),
        (["x"], {"smoothness": -3}, "P107"),
        (["x"], {"degree": 1}, "P107"),
        (["x", "y"], {"degree": 300}, "P107"),
        (["x"], {"degree": 10**9}, "P107"),
        (["x"], {"degree": 4, "smoothness": 2}, "P107"),
        (["x"], {"degree": 4, "basis": "cubic"}, "P107"),
        (["x"], {"degree": 4, "interactions": 0}, "P107"),
        (["x"], {"degree": 4, "noise": "none"}, "P107"),
        (["x"], {"degree": 4, "noise": "gaussian"}, "P102"),
        (["x"], {"degree": 4, "per": "s"}, "Q401"),
        (["x"], {"degree": 4, "per": "y"}, "P107"),
        (["x"], {"epsilon": 0}, "P101"),
        (["x"], {"epsilon": "nan"}, "P101"),
        (["x"], {"epsilon": 5000}, "P101"),
        (["x"], {"name": "No Name"}, "P105"),
    ],
)
def test_bad_summaries_are_refused_without_a_charge(
    owner: duckdp.Curator, columns: list[str], arguments: dict, code: str
) -> None:
    before = len(owner.ledger.charges())
    with pytest.raises(DuckDPError) as caught:
        owner.session("ana").smooth_summary("constant", columns, **{"epsilon": 1, "name": "bad", **arguments})
    assert caught.value.code == code
    assert len(owner.ledger.charges()) == before


def test_a_spent_budget_is_said(owner: duckdp.Curator) -> None:
    with pytest.raises(DuckDPError) as caught:
        owner.session("poor").smooth_summary("constant", ["x"], epsilon=1, degree=4, name="rich")
    assert caught.value.code == "B101"


@pytest.mark.parametrize(
    ("function", "code"),
    [
        ("nobody", "Q207"),
        ("y", "Q207"),
        ("s", "Q207"),
        ("'text'", "Q203"),
        ("upper('a')", "Q203"),
        ("(SELECT 1)", "Q204"),
        ("avg(x)", "Q301"),
        ("random()", "Q202"),
        ("now()", "Q203"),
        ("x; DROP TABLE t", "Q102"),
        ("", "Q101"),
        ("x +", "Q101"),
        ("ln(x - 5)", "Q402"),
        ("1 / (x - x)", "N102"),
        ("power(x, 1e9)", "N102"),
        ("read_csv('x')", "Q202"),
        ("CAST('x' AS DOUBLE) + x", "Q202"),
        ("NULL", "N102"),
    ],
)
def test_bad_functions_are_refused(owner: duckdp.Curator, function: str, code: str) -> None:
    ana = owner.session("ana")
    ana.smooth_summary("constant", ["x"], epsilon=1, degree=6, name="good")
    for ask in (lambda: ana.smooth_answer("good", function), lambda: ana.smooth_answers("good", ["x", function])):
        with pytest.raises(DuckDPError) as caught:
            ask()
        assert caught.value.code == code


def test_a_rough_function_says_so_or_is_refused_above_a_tolerance(owner: duckdp.Curator) -> None:
    ana = owner.session("ana")
    ana.smooth_summary("constant", ["x"], epsilon=1, degree=6, name="good")
    row = ana.smooth_answer("good", "CASE WHEN x > 3.9 THEN 1 ELSE 0 END").rows()[0]
    assert row[2] > 0.3  # approximation error
    with pytest.raises(DuckDPError) as caught:
        ana.smooth_answer("good", "CASE WHEN x > 3.9 THEN 1 ELSE 0 END", tolerance=0.01)
    assert caught.value.code in ("N102", "N103")
    with pytest.raises(DuckDPError) as caught:
        ana.smooth_answer("good", "x", tolerance=float("nan"))
    assert caught.value.code == "P107"

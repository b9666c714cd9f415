"""Many questions by every way: what a question's text asks is what its truth is, and each way is asked it."""

from __future__ import annotations

import duckdb
import numpy as np
import pyarrow as pa
import pytest

from duckdp.bench import main, many_questions
from duckdp.bench.many_questions import KINDS, WAYS, Rows, questions, rows_of, table
from duckdp.smooth import batch


@pytest.fixture(scope="module")
def rows() -> Rows:
    rng, count = np.random.default_rng(4), 4_000
    education = rng.integers(8, 13, count)
    columns = {
        "education": education,
        "experience": rng.integers(0, 3, count) + education - 8,
        "region": rng.choice(["east", "west"], count, p=[0.3, 0.7]),
        "ethnicity": rng.choice(["a", "b"], count),
    }
    values = {"education": range(8, 13), "experience": range(7), "region": ["east", "west"], "ethnicity": ["a", "b"]}
    return rows_of(pa.table(columns), {name: list(given) for name, given in values.items()})


def test_a_text_asks_what_its_truth_is(rows: Rows) -> None:
    asked = questions(rows, 90)
    assert [sum(one.kind == kind for one in asked) for kind in KINDS] == [30, 30, 30]
    with duckdb.connect() as con:
        con.register("t", rows.frame)
        items = ", ".join(f"sum(CAST({one.text} AS DOUBLE))" for one in asked)
        found = con.execute(f"SELECT {items} FROM t").fetchone()
    assert found is not None
    assert np.allclose([one.answer(rows.cells) for one in asked], found)


def test_every_way_is_asked_and_told(
    rows: Rows, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(many_questions, "SAMPLE", 6)
    monkeypatch.setattr(many_questions, "load", lambda: rows)
    monkeypatch.setattr(many_questions, "EPSILONS", ("100",))
    monkeypatch.setattr(batch, "MOST_ROUGH", 7)  # so that lists are split
    ways = [
        "one by one",
        "a summary with ranges",
        "a synthetic table (tree)",
        "dp_mwem, 10 rounds",
        "dp_pmw_answer, 25 hits",
    ]
    assert main(["questions", "--questions", "30", "--way", ways[0]]) == 0
    assert "epsilon 100 in all" in capsys.readouterr().out
    assert set(ways) < set(WAYS)
    for name, *kinds, answered, _ in table(rows, "100", count=30, ways=ways).rows:
        smooth = kinds.pop()
        assert all(float(kind.split()[0]) < 3 for kind in kinds), (name, kinds)  # percent, the median
        assert (smooth == "") == name.startswith("dp_pmw")
        assert answered in ("6 asked", "100%", "67%")

"""Counts in a dashboard are right: a table has as many rows as the noisy count says, or says what a row stands for."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pytest

import duckdp
from duckdp.synthetic.asked import MAX_CELLS
from duckdp.synthetic.files import write_database
from duckdp.synthetic.scale import MOST, default_rows, tell_scale
from duckdp.synthetic.stored import open_synthesis

N = 3000


GIVEN = {"bounds": {"x": (0, 50), "y": (0, 9)}, "domains": {"s": ["a", "b"]}, "row_cap": 10_000}


def frame() -> pa.Table:
    rng = np.random.default_rng(5)
    return pa.table(
        {
            "x": rng.integers(0, 50, N),
            "y": rng.integers(0, 9, N),
            "s": np.array(["a", "b"])[rng.integers(0, 2, N)],
            "p": np.arange(N) // 3,
        }
    )


@pytest.fixture(params=["add_remove", "replace"])
def owner(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[duckdp.Curator]:
    with duckdp.open({"t": frame()}, ledger=str(tmp_path / "t.ledger")) as curator:
        curator.protect("t", **GIVEN)
        curator.budget(epsilon=1000, neighbours=request.param)
        curator.grant("ana", epsilon=1000)
        yield curator


@pytest.mark.parametrize("method", ["auto", "tree", "moments", "psi", "lp"])
def test_as_many_rows_as_were_counted(owner: duckdp.Curator, method: str) -> None:
    """A count errs by a few rows at epsilon 8, a tenth of the least margin here; on yesterday's code all had 10,000."""
    ana = owner.session("ana")
    given = {"epsilon": 8, "method": method, **({"columns": ["x", "y"], "degree": 4} if method == "lp" else {})}
    told = str(ana.explain_synthesize("t", **given))
    assert f"rows: as many as the noisy count says, at most {MOST:,}" in told
    made = ana.synthesize("t", **given)
    assert len(made) == pytest.approx(N, abs=150)
    assert "as many rows as t has rows, by the noisy count" in made.notes
    fewer = ana.synthesize("t", rows=600, **given)
    assert len(fewer) == 600
    (note,) = (n for n in fewer.notes if n.startswith("each row stands for"))
    assert float(note.split()[4]) == pytest.approx(5, abs=0.25)


def test_of_units_where_one_row_of_each_counts(tmp_path: Path) -> None:
    with duckdp.open({"u": frame()}, ledger=str(tmp_path / "u.ledger")) as curator:
        curator.protect("u", unit_key="p", max_rows=3, **GIVEN)
        curator.budget(epsilon=10)
        curator.grant("ana", epsilon=10)
        made = curator.session("ana").synthesize("u", epsilon=8, method="tree")
    assert len(made) == pytest.approx(N / 3, abs=100)
    assert "as many rows as u has values of p, by the noisy count" in made.notes


def test_from_a_summary_and_read_again(owner: duckdp.Curator) -> None:
    ana = owner.session("ana")
    ana.smooth_summary("t", ["x", "y"], epsilon=8, degree=4, name="xy")
    made = ana.synthesize("xy")
    assert len(made) == pytest.approx(N, abs=150)
    assert any("as many rows as t" in n for n in made.notes)
    bought = ana.synthesize("t", epsilon=8, name="mine")
    again = ana.synthesize("mine")
    assert again.rows() == bought.rows()
    assert again.notes[-1] == bought.notes[-1]


def test_a_file_says_what_its_rows_stand_for(owner: duckdp.Curator, tmp_path: Path) -> None:
    ana = owner.session("ana")
    ana.synthesize("t", epsilon=8, name="mine", rows=300)
    table = open_synthesis(owner.ledger.object("ana", "mine").payload).table
    write_database(tmp_path / "out.duckdb", {"t": table})
    with duckdb.connect(str(tmp_path / "out.duckdb")) as con:
        (told,) = con.execute("SELECT comment FROM duckdb_tables()").fetchall()
    assert "each row stands for" in told[0]
    assert "no row is a person" in told[0]


def test_large_tables_are_bounded_and_say_so() -> None:
    assert default_rows(1e7, 3) == MOST
    assert default_rows(90_000.4, 80) == MAX_CELLS // 80
    assert default_rows(-3.0, 80) == 1
    assert tell_scale(MOST, 1e7, "rows", "t").startswith("each row stands for 100 of the about 10,000,000 rows of t")

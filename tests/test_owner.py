"""The owner's comparison: right figures, the warning everywhere, and no way to it from an analyst's side."""

from __future__ import annotations

import ast
import datetime as dt
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import duckdp
from duckdp.errors import CatalogError, ParameterError
from duckdp.functions import FUNCTIONS
from duckdp.owner import COLUMN_FIGURES, UNIT_FIGURES, VOID, WARNING, compare, profile
from duckdp.vault.engine import Engine

PACKAGE = Path(duckdp.__file__).parent
DAY = dt.date(2020, 1, 1)


@pytest.fixture
def owner(tmp_path: Path) -> Iterator[duckdp.Curator]:
    n = np.arange(400)
    frame = pa.table(
        {
            "x": np.where(n == 0, 10.0**6, n % 11),  # one value far outside the bounds
            "y": (n % 11) * 1.0,
            "s": [["a", "b", None, "zz"][i % 4] for i in n.tolist()],
            "f": n % 2 == 0,
            "d": [DAY + dt.timedelta(days=i % 30) for i in n.tolist()],
            "secret": n,
        }
    )
    with duckdp.open({"t": frame}, ledger=str(tmp_path / "t.ledger")) as curator:
        curator.protect(
            "t",
            row_cap=1000,
            bounds={"x": (0, 10), "y": (0, 20), "d": (DAY, DAY + dt.timedelta(days=40))},
            domains={"s": ["a", "b"]},
            other={"s": "rest"},
            columns=["f"],
        )
        curator.budget(epsilon=5)
        curator.grant("ana", epsilon=5)
        yield curator


def real(owner: duckdp.Curator, names: list[str]) -> dict[str, list[object]]:
    """The real table as releases see it: clamped, other values under their label."""
    rows = owner.engine.schema_cursor().execute("SELECT least(x, 10), y, s, f, d FROM src.main.t").fetchall()
    found = dict(zip(["x", "y", "s", "f", "d"], map(list, zip(*rows, strict=True)), strict=True))
    found["s"] = ["rest" if v == "zz" else v for v in found["s"]]
    return {n: found[n] for n in names}


def test_a_table_compared_with_itself_differs_nowhere(owner: duckdp.Curator) -> None:
    names = ["x", "y", "s", "f", "d"]
    found = compare(owner, "t", real(owner, names))
    assert set(found.columns[2].labels) == {"a", "b", "NULL", "rest"}
    assert [c.column for c in found.columns] == names
    assert (found.real_rows, found.synthetic_rows) == (400, 400)
    assert all(c.total_variation == 0 and c.real == c.synthetic for c in found.columns)
    assert found.worst_pair is not None
    assert found.worst_pair[2] < 1e-12


def test_figures_are_those_of_the_clamped_table(owner: duckdp.Curator) -> None:
    same = real(owner, ["x", "s", "d"])
    x = np.array(same["x"], dtype=float)
    found = compare(owner, "t", {"x": x + 0.0, "s": ["a"] * 400, "d": [DAY] * 400})
    first, second, third = found.columns
    assert first.real.mean == pytest.approx(x.mean())  # 10^6 counts as 10
    assert first.real.deviation == pytest.approx(x.std())
    assert first.real.quantiles == pytest.approx(np.quantile(x, (0.05, 0.25, 0.5, 0.75, 0.95)))
    assert second.total_variation == pytest.approx(0.75)  # a quarter of the rows are "a"
    assert third.total_variation == pytest.approx(1 - np.mean([v < DAY + dt.timedelta(days=2) for v in same["d"]]))
    assert third.synthetic.deviation == 0
    assert "2020-01-01" in found.text


def test_the_worst_pair_is_found(owner: duckdp.Curator) -> None:
    same = real(owner, ["x", "y", "f"])
    y = np.array(same["y"], dtype=float)
    x = np.array(same["x"], dtype=float)
    found = compare(owner, "t", {**same, "y": 10 - y})
    assert found.worst_pair is not None
    assert found.worst_pair[:2] == ("x", "y")
    assert found.worst_pair[2] == pytest.approx(2 * abs(np.corrcoef(x, y)[0, 1]))
    assert compare(owner, "t", {"x": x}).worst_pair is None


def test_nulls_are_counted(owner: duckdp.Curator) -> None:
    found = compare(owner, "t", {"x": [None, 5.0], "f": [None, True]})
    assert [c.synthetic.missing for c in found.columns] == [0.5, 0.5]
    assert found.columns[0].total_variation >= 0.5
    assert compare(owner, "t", {"x": [None, None]}).columns[0].synthetic.mean is None


def test_results_and_arrow_tables_are_taken(owner: duckdp.Curator) -> None:
    made = owner.session("ana").synthesize("t", epsilon=1, rows=100, columns=["x", "y"])
    a, b = compare(owner, "t", made), compare(owner, "t", made.arrow())
    assert a.text == b.text


def test_every_output_begins_with_the_warning(owner: duckdp.Curator) -> None:
    found = compare(owner, "t", {"x": [1.0, 2.0], "s": ['<script>alert("1")</script>', "javascript:alert(1)&"]})
    for output in (found.text, found.html, str(found), repr(found), found._repr_html_()):
        assert WARNING in output.splitlines()[0]
    assert repr(found.columns[0]).startswith("<duckdp.owner.")  # a part shows no figure at all
    page = found.html
    assert "default-src 'none'; style-src 'unsafe-inline'; img-src data:" in page
    assert "<script" not in page
    assert "javascript:" not in page
    assert "http" not in page.replace("http-equiv", "")
    assert "&lt;script&gt;" in page


def test_wrong_input_is_refused(owner: duckdp.Curator) -> None:
    for bad in (3, {}, {"x": []}, {"x": [1.0], "y": [1.0, 2.0]}):
        with pytest.raises(ParameterError) as caught:
            compare(owner, "t", bad)
        assert caught.value.code == "P107"
    for table, made, code in (("t", {"secret": [1]}, "C102"), ("nope", {"x": [1.0]}, "C101")):
        with pytest.raises(CatalogError) as refused:
            compare(owner, table, made)
        assert refused.value.code == code


def test_it_charges_nothing_and_needs_no_charge(owner: duckdp.Curator, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Engine, "run", lambda *_: pytest.fail("a charged read"))
    compare(owner, "t", {"x": [1.0]})
    assert owner.ledger.charges() == []


# ---- the exact profile -----------------------------------------------------------------------------------------------


def test_a_profile_is_exact_and_unclamped(owner: duckdp.Curator) -> None:
    found = profile(owner, "t", exact=True)
    x, y, d, s, f = (dict(zip(COLUMN_FIGURES, row, strict=True)) for row in found.columns)
    assert (found.rows, x["least"], x["most"], x["distinct"]) == (400, "0", "1e+06", 12)  # beyond its bounds
    assert (y["50.0%"], d["most"], f["distinct"]) == ("5", "2020-01-30", 2)
    assert (s["NULL"], s["distinct"], s["least"]) == ("0.25", 3, None)
    assert found.units == ()
    assert "secret" not in found.text


def test_a_profile_counts_rows_and_groups_per_unit(tmp_path: Path) -> None:
    frame = pa.table({"k": [1] * 3 + [2] * 1 + [None], "s": ["a", "b", "b", "a", "c"]})
    with duckdp.open({"t": frame}, ledger=str(tmp_path / "k.ledger")) as curator:
        curator.protect("t", unit_key="k", max_rows=1, row_cap=10, columns=["s"])
        rows, groups = (dict(zip(UNIT_FIGURES, u, strict=True)) for u in profile(curator, "t", exact=True).units)
    assert [rows[n] for n in ("per unit", "50%", "most", "beyond 1", "beyond 2")] == ["rows", 1, 3, 0.5, 0.25]
    assert [groups[n] for n in ("per unit", "most", "beyond 1")] == ["groups by s", 2, pytest.approx(1 / 3, abs=1e-6)]


def test_a_profile_must_be_asked_for_and_is_noted_before_it_reads(
    owner: duckdp.Curator, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ParameterError, match=r"P107: exact=1"):
        profile(owner, "visits", exact=1)
    for given in ({}, {"exact": False}):
        with pytest.raises(ParameterError, match=r"P107.*NOT PRIVATE.*bounds\(table"):
            profile(owner, "t", **given)  # type: ignore[arg-type]
    assert not [e for e in owner.ledger.log() if e.kind == "look"]
    with monkeypatch.context() as patch:
        patch.setattr(Engine, "schema_cursor", lambda _: pytest.fail("a read"))
        with pytest.raises(pytest.fail.Exception):
            profile(owner, "t", exact=True)
    noted = [e for e in owner.ledger.log() if e.kind == "look"]
    assert [e.subject for e in noted] == ["t"]
    assert owner.ledger.charges() == []
    lines = str(profile(owner, "t", exact=True)).splitlines()
    assert (lines[0], lines[1]) == (WARNING, VOID)
    assert "void the guarantee" in VOID
    owner.ledger.close()
    type(owner.ledger).open(owner.ledger.path).close()  # the chain holds


# ---- no way to it ---------------------------------------------------------------------------------------------------


def names_owner(source: str, package: str) -> bool:
    """Whether a module's source imports duckdp.owner in any spelling; ``package`` is where it stands."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import) and any(a.name.split(".")[:2] == ["duckdp", "owner"] for a in node.names):
            return True
        if isinstance(node, ast.ImportFrom):
            parts = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            module = ".".join([*parts, *([node.module] if node.module else [])])
            if f"{module}.".startswith("duckdp.owner."):
                return True
            if module == "duckdp" and any(a.name in ("owner", "*") for a in node.names):
                return True
        if isinstance(node, ast.Constant) and node.value == "duckdp.owner":  # importlib
            return True
    return False


@pytest.mark.parametrize(
    ("source", "package", "named"),
    [
        ("import duckdp.owner", "duckdp", True),
        ("from duckdp.owner import compare", "duckdp.cli", True),
        ("from duckdp import owner", "duckdp", True),
        ("from . import owner", "duckdp", True),
        ("from .owner import compare", "duckdp", True),
        ("from .. import owner", "duckdp.cli", True),
        ("def f():\n    import importlib\n    importlib.import_module('duckdp.owner')", "duckdp", True),
        ("from duckdp.cli import owner", "duckdp.cli", False),
        ("from . import owner", "duckdp.cli", False),
    ],
)
def test_the_search_finds_imports(source: str, package: str, named: bool) -> None:
    assert names_owner(source, package) is named


def test_nothing_imports_it() -> None:
    for path in PACKAGE.rglob("*.py"):
        package = ".".join(["duckdp", *path.relative_to(PACKAGE).parts[:-1]])
        assert not names_owner(path.read_text(), package), path


def test_neither_sessions_nor_sql_lead_to_it(owner: duckdp.Curator) -> None:
    session = owner.session("ana")
    assert not [n for n in dir(session) if "compare" in n or "profile" in n]
    assert not [n for n in FUNCTIONS if "compare" in n or "owner" in n or "profile" in n]
    script = (Path(__file__).parent.parent / "sql" / "front.sql").read_text().lower()
    assert "compare" not in script
    names = [r[0] for r in owner.connect("ana").execute("SELECT function_name FROM duckdb_functions()").fetchall()]
    assert "dp_synthesize" in names
    assert not [n for n in names if n.startswith("dp_") and ("compare" in n or "owner" in n)]
    code = "import sys, duckdp.session, duckdp.front.front, duckdp.curator; sys.exit('duckdp.owner' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0

"""Adding a thing touches the files that its recipe names: added in a copy of the package, and used in a new process."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from tests.imports import ROOT

TOY = Path(__file__).parent / "recipes" / "toy"
USE = """
import duckdp, duckdp.errors, pathlib, sys
import pyarrow as pa

folder = pathlib.Path(sys.argv[1])
assert pathlib.Path(duckdp.__file__).is_relative_to(folder)
rows = pa.table({"x": [i / 400 for i in range(400)], "y": [2.0] * 400})
with duckdp.open({"t": rows}, ledger=folder / "t.ledger") as owner:
    owner.protect("t", row_cap=1000, bounds={"x": (0, 1), "y": (0, 5)})
    owner.budget(epsilon=10)
    owner.grant("ana", epsilon=10)
    con, ana = owner.connect("ana"), owner.session("ana")
    call = "dp_synthesize('t', epsilon := 1, rows := 20, method := 'toy', name := 'mine')"
    plan = con.execute("FROM dp_explain_synthesize('t', epsilon := 1, method := 'toy')").fetchall()
    assert plan[0] == ("method: toy, one noisy count",)
    first, again = (con.execute(f"FROM {call}").fetchall() for _ in range(2))
    assert len(first) == 20 and sorted(first) == sorted(again) and max(first) == (1.0, 5.0)
    assert con.execute("FROM dp_synthesize('mine')").fetchall() == first
    assert len(ana.synthesize("t", epsilon=1, rows=20, method="toy", name="mine")) == 20
    assert [(c.mechanism, c.loss.epsilon_nano) for c in owner.ledger.charges()] == [("laplace", 10**9)]
    assert "the toy counted" in ana.synthetic_report("mine").text
    for bad in ("toys", "unit", "report"):
        try:
            ana.synthesize("t", epsilon=1, method=bad)
        except duckdp.errors.DuckDPError as error:
            assert "moments, tree, psi, lp, theorem, toy." in str(error)
        else:
            raise AssertionError(bad)
with duckdp.open({"t": rows}, ledger=folder / "t.ledger") as owner:
    assert owner.session("ana").synthesize("mine").rows() == first
print("used")
"""


def _files(folder: Path) -> dict[Path, bytes]:
    return {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*.py")}


def test_a_synthetic_method_is_one_folder_and_its_line_in_the_tuple(tmp_path: Path) -> None:
    package = tmp_path / "duckdp"
    shutil.copytree(ROOT, package, ignore=shutil.ignore_patterns("__pycache__"))
    if (ROOT.parent / "sql").is_dir():
        shutil.copytree(ROOT.parent / "sql", tmp_path / "sql")
    before = _files(package)
    shutil.copytree(TOY, package / "synthetic" / "toy", ignore=shutil.ignore_patterns("__pycache__"))
    methods = package / "synthetic" / "methods.py"
    text = methods.read_text()
    listed = text.index("METHODS: tuple")
    end = text.index("\n)\n", listed) + 1
    line = '    Method(name="toy", buy=toy_buy, make=toy_make),\n'
    imported = "from duckdp.synthetic.toy import buy as toy_buy, make as toy_make\n"
    place = text.index("from duckdp.synthetic.tree import")
    methods.write_text(text[:place] + imported + text[place:end] + line + text[end:])
    after = _files(package)
    touched = {path for path in after if after[path] != before.get(path)}
    assert {path for path in touched if path.parent != Path("synthetic/toy")} == {Path("synthetic/methods.py")}
    assert {path.name for path in touched} == {"__init__.py", "plan.py", "buy.py", "make.py", "methods.py"}
    found = subprocess.run(
        [sys.executable, "-c", USE, str(tmp_path)], capture_output=True, text=True, cwd=tmp_path, check=False,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
    )  # fmt: skip
    assert found.returncode == 0, found.stderr
    assert found.stdout.split() == ["used"]

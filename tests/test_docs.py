"""The documentation is true: its examples run and print what it shows, every public name and error code is in it."""

from __future__ import annotations

import contextlib
import doctest
import importlib
import importlib.util
import io
import os
import pkgutil
import re
import sys
import warnings
from pathlib import Path
from typing import Any

import duckdb
import pytest

import duckdp
from duckdp.errors import CODES
from duckdp.functions import FUNCTIONS
from tests.pages import ADDING, PAGES, all_pages, shape

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()
DOCS = all_pages()
BLOCK = re.compile(r"```python\n(.*?)```\s*```text\n(.*?)```", re.DOTALL)


def test_examples_print_what_they_show(tmp_path: Path) -> None:
    blocks = [block for page in PAGES if page != ADDING for block in BLOCK.findall(page.read_text())]
    assert len(blocks) >= 3
    names: dict[str, object] = {}
    before = os.getcwd()
    with duckdb.connect(str(tmp_path / "clinic.duckdb")) as db:  # as `duckdp demo` makes it
        db.execute(
            "CREATE TABLE care AS FROM read_parquet($1)",
            [str(Path(duckdp.__file__).parent / "demo/data/rand_hie.parquet")],
        )
    os.chdir(tmp_path)
    try:
        for code, shown in blocks:
            printed = io.StringIO()
            with contextlib.redirect_stdout(printed):
                exec(compile(code, "documentation", "exec"), names)
            assert shape(printed.getvalue()) == shape(shown)
    finally:
        os.chdir(before)
        closer = getattr(names.get("curator"), "close", None)
        if closer is not None:
            closer()


def test_every_error_code_is_documented() -> None:
    missing = [code for code, text in CODES.items() if f"`{code}`" not in DOCS]
    assert not missing


def test_every_function_is_documented_and_in_sql() -> None:
    script, page = (ROOT / "sql" / "front.sql").read_text(), (ROOT / "docs" / "sql.md").read_text()
    for name in FUNCTIONS:
        assert f"\n## {name}\n" in page, name
        assert f"MACRO {name}(" in script, name


def test_every_public_name_has_a_docstring() -> None:
    for name in duckdp.__all__:
        assert getattr(duckdp, name).__doc__, name
        assert name in DOCS or name in ("errors", "smooth", "Explanation"), name


def test_the_readme_is_short_and_every_page_can_be_reached() -> None:
    assert len(README.splitlines()) <= 220
    for page in PAGES[1:]:
        assert f"(docs/{page.name})" in README, page.name
    for page in PAGES:
        for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", page.read_text()):
            assert "://" in target or (page.parent / target).exists(), (page.name, target)


def test_it_is_said_what_is_tested_where() -> None:
    """Every test is under a subject of CONTRIBUTING's table, a folder for all in it, and what it names is there.

    Twins: a row that is left out, and a file that is not there.
    """
    told = (ROOT / "CONTRIBUTING.md").read_text().split("## What is tested where")[1].split("\n\nEvery stat")[0]
    assert _untold(told) == []
    assert _untold(told.replace("`compiler/`", "")) and _untold(told.replace("`test_hostile_values.py`", ""))
    assert _untold(told.replace("`test_hostile_values.py`", "`test_hostile_values.py`, `test_hostile_value.py`"))


def _untold(told: str) -> list[str]:
    """What a table of subjects names and is not there, and the test files that it does not name."""
    folder = ROOT / "tests"
    named = re.findall(r"`([\w/*]+(?:/|\.py))`", "".join(re.findall(r"^\| .* \| (.*) \|$", told, re.MULTILINE)))
    named = [name for name in named if name not in ("tests/", "of_nothing.py")]
    there = {path for name in named for path in folder.glob(name)}
    files = [path for path in folder.rglob("test_*.py") if not there & {path, *path.parents}]
    return [name for name in named if not list(folder.glob(name))] + [str(path) for path in files]


def _script(name: str) -> Any:
    """A script of docs/."""
    spec = importlib.util.spec_from_file_location(f"docs_{name}", ROOT / "docs" / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_picture_is_that_of_the_imports(monkeypatch: pytest.MonkeyPatch) -> None:
    picture = _script("picture")
    drawn = picture.draw()
    assert picture.PICTURE.read_text(encoding="utf-8") == drawn, "run python docs/picture.py"
    assert 'class="wrong"' not in drawn
    assert set(picture.rooms()) <= set(picture.WORDS), "a room without words"
    # broken twins: an import from the lowest floor to a high one, and one more on the way down
    graph = picture.rooms()
    for room, other, wrong in (("core", "desk", True), ("result", "core", False)):
        monkeypatch.setattr(picture, "rooms", lambda g=graph, r=room, o=other: {**g, r: g[r] | {o}})
        assert ('class="wrong"' in picture.draw()) is wrong
        assert picture.draw() != drawn


def test_docstring_examples_hold() -> None:
    found = 0
    for module in pkgutil.walk_packages(duckdp.__path__, "duckdp."):
        if module.name.endswith("__main__"):
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            loaded = importlib.import_module(module.name)
        result = doctest.testmod(loaded)
        assert result.failed == 0, module.name
        found += result.attempted
    assert found >= 20


def test_importing_duckdp_is_fast() -> None:
    import subprocess
    import sys

    code = "import time; t = time.perf_counter(); import duckdp; print(time.perf_counter() - t)"
    best = min(float(subprocess.check_output([sys.executable, "-c", code])) for _ in range(3))
    assert best < 0.5


@pytest.mark.parametrize("needle", ["numpy.random", "allow_unproven", "noise=False"])
def test_there_is_no_switch(needle: str) -> None:
    assert not [p for p in (ROOT / "duckdp").rglob("*.py") if needle in p.read_text()]

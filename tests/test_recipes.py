"""The recipes of docs/adding.md: each is followed in a copy of the package, which is then used, tested and looked over.

What a recipe adds is read off the page, so the page is complete: a file in full under **New file**, changes of another
under **In**, and what to run under **Then**. The rest of the copy stays as it was.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.pages import ROOT, shape

PAGE = (ROOT / "docs" / "adding.md").read_text()
FENCE = r"```(\w+)\n(.*?)```"
TITLED = re.compile(rf"^\*\*(New file|In|Use it|Then)(?: `([^`]+)`)?\*\*|^{FENCE}", re.DOTALL | re.MULTILINE)
COPIED = ("duckdp", "sql", "docs", "tests", "pyproject.toml", "README.md")
TABLE = re.compile(r"^\| \[[^\]]+\]\(#([a-z-]+)\) \| ([^|]+) \|$", re.MULTILINE)


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """What a section of the page says.

    Attributes:
        new: text of every new file.
        changes: of a file that exists, in order: lines as they stand, and as they will.
        then: commands that follow.
        use: code, and what it prints.
    """

    new: dict[str, str]
    changes: dict[str, list[tuple[str, str]]]
    then: list[str]
    use: tuple[str, str]


def sections() -> dict[str, str]:
    """Text of every recipe, by its anchor."""
    found = re.split(r"^## (.+)$", PAGE, flags=re.MULTILINE)[1:]
    return {title.lower().replace(" ", "-"): text for title, text in zip(found[::2], found[1::2], strict=True)}


def read_recipe(text: str) -> Recipe:
    """A section's files, changes, commands and use."""
    new: dict[str, str] = {}
    changes: dict[str, list[tuple[str, str]]] = {}
    then: list[str] = []
    used = {"python": "", "text": ""}
    what = path = ""
    for match in TITLED.finditer(text):
        if match[1]:
            what, path = match[1], match[2] or ""
        elif what == "New file":
            assert path not in new, path
            new[path] = match[4]
        elif what == "In":
            assert match[3] == "diff", path
            lines = match[4].splitlines(keepends=True)
            changes.setdefault(path, []).append((_side(lines, "-"), _side(lines, "+")))
        elif what == "Then":
            then += match[4].splitlines()
        elif what == "Use it":
            used[match[3]] += match[4]
    assert (new or changes) and all(used.values())
    return Recipe(new=new, changes=changes, then=then, use=(used["python"], used["text"]))


def _side(lines: list[str], sign: str) -> str:
    return "".join(line[1:] or "\n" for line in lines if line[0] in (" ", sign, "\n"))


def make_copy(folder: Path) -> None:
    """The package, its tests and its pages, with what is compiled of them: each command would compile them anew."""
    skipped = shutil.ignore_patterns("ledgers", "mutants", "pictures", "*.parquet")
    for name in COPIED:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, folder / name, ignore=skipped)
        else:
            shutil.copy(ROOT / name, folder / name)


def follow(recipe: Recipe, folder: Path) -> None:
    """Do what the recipe says."""
    for path, text in recipe.new.items():
        assert not (folder / path).exists(), path
        (folder / path).parent.mkdir(exist_ok=True)
        (folder / path).write_text(text)
    for path, pairs in recipe.changes.items():
        for before, after in pairs:
            text = (folder / path).read_text()
            assert text.count(before) == 1, f"{path} has no single place\n{before}"
            (folder / path).write_text(text.replace(before, after))
    for command in recipe.then:
        run(command.split(), folder)


def run(words: list[str], folder: Path) -> str:
    """What a command prints in the copy."""
    command = [sys.executable, *words[1:]] if words[0] == "python" else words
    found = subprocess.run(
        command,
        capture_output=True,
        text=True,
        cwd=folder,
        check=False,
        env={**os.environ, "PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": "1"},
    )
    assert found.returncode == 0, found.stdout + found.stderr
    return found.stdout


def files(folder: Path) -> dict[str, bytes]:
    """Every file of the copy, by its path."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def pytest_in(folder: Path, *words: str) -> None:
    """Run tests of the copy: its own tests, on its own package."""
    run(["python", "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *words], folder)


RECIPES = {name: read_recipe(text) for name, text in sections().items()}
# Tests beside a recipe's own new ones: those that know every kind of release or function, and fail until they know it.
ALSO = {
    "a-private-release": (
        "tests/privacy/test_draws.py",
        "tests/privacy/test_identities.py",
        "tests/privacy/test_parts.py",
        "tests/test_grants.py",
        "tests/test_declared.py",
        "-k",
        "likeliest or Likeliest or listed or two_kinds or asked_for or generated or every_read",
    ),
    "a-synthetic-method": (
        "tests/privacy/test_draws.py",
        "tests/privacy/test_identities.py",
        "-k",
        "steps or listed or two_kinds",
    ),
    # every test that goes over the rows of the tables tries the new one
    "a-scalar-function": (
        *(f"tests/compiler/test_{name}.py" for name in ("fixtures", "totality", "rows", "messages")),
        "tests/test_routing_rows.py",
        "-k",
        "cbrt or nobody or given_once",
    ),
    "an-aggregate": (
        *(f"tests/compiler/test_{name}.py" for name in ("fixtures", "rows")),
        "-k",
        "mean_square or nobody or once",
    ),
}
# Recipes that come before one.
RESTS_ON = {"a-private-release": ("a-mechanism",)}
# What the package has after a recipe, by the table at the head of the page: files of the package, tests left out.
COUNTED = {name: [int(n) for n in re.findall(r"\d+", files)] for name, files in TABLE.findall(PAGE)}


def use(name: str, folder: Path) -> list[str]:
    """Follow a recipe and use what it adds; its new tests."""
    recipe = RECIPES[name]
    before = files(folder)
    follow(recipe, folder)
    after = files(folder)
    touched = {path for path in after if after[path] != before.get(path)}
    by_hand = {*recipe.new, *recipe.changes}
    assert by_hand <= touched
    # beside them only what a command of the recipe writes, and never a file of Python
    assert not [path for path in touched - by_hand if path.endswith(".py") or not recipe.then]
    written = [path for path in by_hand if not path.startswith("tests/")]
    assert len([path for path in written if path in recipe.new]) == COUNTED[name][0], written
    print_it = f"import pathlib, duckdp\nassert pathlib.Path(duckdp.__file__).is_relative_to({str(folder)!r})\n"
    code, shown = recipe.use
    assert shape(run(["python", "-c", print_it + code], folder)) == shape(shown)
    return [path for path in recipe.new if path.startswith("tests/")]


@pytest.mark.slow
@pytest.mark.parametrize("name", RECIPES)
def test_a_recipe_is_all_that_is_needed(name: str, tmp_path: Path) -> None:
    """Without the others, and with the tests that know every release or function."""
    make_copy(tmp_path)
    for other in RESTS_ON.get(name, ()):
        follow(RECIPES[other], tmp_path)
    tests = use(name, tmp_path)
    if tests or name in ALSO:
        pytest_in(tmp_path, *tests, *ALSO.get(name, ()))


def test_recipes_leave_the_house_in_order(tmp_path: Path) -> None:
    """One after another: each is all that is needed; layers, sizes, names, tests, style and types hold of them all."""
    make_copy(tmp_path)
    tests = [path for name in RECIPES for path in use(name, tmp_path)]
    touched = {path for recipe in RECIPES.values() for path in (*recipe.new, *recipe.changes)}
    written = sorted(path for path in touched if path.endswith(".py"))
    run(["python", "-m", "ruff", "check", *written], tmp_path)
    run(["python", "-m", "ruff", "format", "--check", *written], tmp_path)
    pytest_in(tmp_path, *tests, "tests/test_layers.py")


def test_every_recipe_is_in_the_table_of_the_page() -> None:
    assert list(COUNTED) == list(RECIPES)


def test_a_recipe_that_leaves_something_out_is_seen(tmp_path: Path) -> None:
    """Broken twin: without its line in the tuple, nothing knows the method."""
    recipe = RECIPES["a-synthetic-method"]
    make_copy(tmp_path)
    follow(Recipe(new=recipe.new, changes={}, then=[], use=recipe.use), tmp_path)
    with pytest.raises(AssertionError, match="must be one of"):
        run(["python", "-c", recipe.use[0]], tmp_path)


def test_a_dp_function_is_in_every_face(tmp_path: Path) -> None:
    """One with lists: in SQL, in Python, at the command line, explained, completed, and refused in its own words."""
    make_copy(tmp_path)
    shutil.copy(Path(__file__).parent / "recipes" / "tally.py", tmp_path / "duckdp" / "functions")
    run(["python", "-m", "duckdp.functions.write"], tmp_path)
    for name in ("sql/front.sql", "docs/sql.md"):
        assert "dp_explain_tally" in (tmp_path / name).read_text()
    assert run(["python", str(Path(__file__).parent / "recipes" / "use_tally.py"), str(tmp_path)], tmp_path) == "used\n"

"""What is written beside the code: sentences, units of constants, and no code that nothing uses."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from functools import cache

import pytest

from duckdp.functions import FUNCTIONS
from tests.imports import modules

FEWEST_WORDS = 5  # of the first paragraph: "Number of rows." tells a stranger nothing that the name does not
CONSTANT = re.compile(r"_?[A-Z][A-Z0-9_]*")
SCRIPTS = {"duckdp.demo.data.story"}  # told line by line, so it has comments
Definition = ast.FunctionDef | ast.ClassDef

# Public names that the package itself has no use for, and why they are there.
FOR_OTHERS = {
    "duckdp": {
        "Curator.amend",
        "profile",  # the owner
        "Files.export_summary",
        "Files.export_tables",
        "Files.synthetic_report",
        "Files.table_report",  # the analyst
        "Ledger.save_table",  # whoever has the ledger open
    },
    "click and Jupyter": {
        "Commands.list_commands",
        "Functions.list_commands",
        "Functions.get_command",
        "Word.get_metavar",
        "Word.shell_complete",
    },
    "http.server": {
        "Live.handle_error",
        "_Request.do_GET",
        "_Request.do_HEAD",
        "_Request.log_message",
        "_Request.send_error",
    },
    "PEP 249": {"Cursor.setinputsizes", "Cursor.setoutputsize"},
    "the documentation and the tests that compare": {"DEVIATIONS"},
}


# ---- sentences


def _public(tree: ast.Module | ast.ClassDef, prefix: str = "") -> Iterator[tuple[str, Definition]]:
    """Public classes, functions and methods with their full names; what only sets a property is none."""
    for node in tree.body:
        if not isinstance(node, ast.FunctionDef | ast.ClassDef) or node.name.startswith("_"):
            continue
        marks = [ast.unparse(mark) for mark in node.decorator_list]
        if not any(mark.endswith(".setter") or mark == "overload" for mark in marks):
            yield prefix + node.name, node
        if isinstance(node, ast.ClassDef):
            yield from _public(node, f"{prefix}{node.name}.")


def unclear(text: str) -> list[str]:
    """What of a module has no docstring that a stranger understands: too short, or the end of a sentence.

    Where a protocol or a caller says it all, a docstring may lead there.
    """
    tree = ast.parse(text)
    found = []
    for name, node in [("the module", tree), *_public(tree)]:
        said = (ast.get_docstring(node) or "").split("\n\n")[0]
        words = re.findall(r"[\w`'()^|.*/+-]*\w[\w`'()^|.*/+-]*", said)
        if not said.startswith(("See :", "Implements ``")) and (len(words) < FEWEST_WORDS or said.startswith("Of ")):
            found.append(f"{name}: {said!r}")
    return found


@pytest.mark.parametrize("name", [name for name in modules() if name not in SCRIPTS])
def test_what_is_public_is_said_in_a_sentence(name: str) -> None:
    assert unclear(modules()[name].read_text()) == []


def test_a_riddle_is_seen() -> None:
    told = '"""A module with a sentence for strangers."""\n'
    assert unclear(told + 'def rows():\n    """R."""') == ["rows: 'R.'"]
    assert unclear(told + 'class A:\n    """One row of a table here."""\n    def b(self): ...') == ["A.b: ''"]
    assert unclear(told + 'def width():\n    """Of the column that was asked."""') != []
    assert unclear(told + 'def rows():\n    """How many rows there are, R."""\ndef _own(): ...') == []


# ---- constants


def bare_constants(text: str) -> list[str]:
    """Constants of numbers, at a module's top, of which nothing says what they are numbers of.

    A comment says it on their line, or above a block of them, or a string does below.
    """
    tree, lines = ast.parse(text), text.splitlines()
    found: list[str] = []
    told = -1  # the last line of a block under a comment
    for node, after in zip(tree.body, [*tree.body[1:], None], strict=True):
        if not isinstance(node, ast.Assign | ast.AnnAssign):
            continue
        above = lines[node.lineno - 2].lstrip() if node.lineno > 1 else ""
        if above.startswith("#") or told == node.lineno - 1:
            told = node.end_lineno or node.lineno
            continue
        own = re.sub(r"# noqa\S*( \S+)?", "", "\n".join(lines[node.lineno - 1 : node.end_lineno]))
        said = isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant)
        if "#" not in own and not said and _is_number(node.value):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names = [n.id for target in targets for n in ast.walk(target) if isinstance(n, ast.Name)]
            found += [name for name in names if CONSTANT.fullmatch(name)]
    return found


def _is_number(value: ast.expr | None) -> bool:
    """A number, what is computed of numbers, or a tuple of such: nothing that calls or looks up."""
    if value is None or any(
        isinstance(node, ast.Call | ast.Subscript | ast.Dict | ast.Lambda) for node in ast.walk(value)
    ):
        return False
    return any(
        isinstance(node, ast.Constant) and isinstance(node.value, int | float) and not isinstance(node.value, bool)
        for node in ast.walk(value)
    )


@pytest.mark.parametrize("name", modules())
def test_constants_say_what_they_are_numbers_of(name: str) -> None:
    assert bare_constants(modules()[name].read_text()) == []


def test_a_bare_constant_is_seen() -> None:
    assert bare_constants("MOST = 12") == ["MOST"]
    assert bare_constants("LOW, _HIGH = 0.9, 1.0") == ["LOW", "_HIGH"]
    assert bare_constants("MOST = 12  # rows\n# Seconds.\nA = 1\nB = 2\nNAMES = ('a', 'b')\nWORDS = len('abc')") == []
    assert bare_constants("# Seconds.\nA = 1\n\nB = 2") == ["B"]


# ---- what nothing uses


@cache
def _texts() -> dict[str, str]:
    return {name: path.read_text() for name, path in modules().items()}


def unused(texts: Mapping[str, str]) -> set[str]:
    """Functions, classes, constants and methods that no other part of the package names.

    What a decorator registers (commands, dp functions) and what the interpreter calls by itself is used.
    """
    names: dict[tuple[str, str], set[str | None]] = defaultdict(set)
    attributes: dict[str, set[tuple[str, str | None]]] = defaultdict(set)
    imported, defined = set(), []
    for module, text in texts.items():
        tree = ast.parse(text)
        for top in tree.body:
            inside = getattr(top, "name", None)
            for node in ast.walk(top):
                if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
                    names[module, node.id].add(inside)
                elif isinstance(node, ast.Attribute):
                    attributes[node.attr].add((module, inside))
                elif isinstance(node, ast.ImportFrom):
                    imported |= {(str(node.module), alias.name) for alias in node.names}
                elif isinstance(node, ast.Constant) and isinstance(node.value, str) and len(node.value) < 60:
                    for word in re.findall(r"\w+", node.value):  # chosen by name
                        attributes[word].add((module, inside))
        defined += [(module, name, own) for name, own in _defined(tree)]
    found = set()
    for module, full, registered in defined:
        name = full.rpartition(".")[2]
        used = {inside for inside in names[module, name] if inside != full} or (module, name) in imported
        used = used or {place for place in attributes[name] if place != (module, name)}
        if not used and not registered and not name.startswith("__") and ":" not in full:
            found.add(full)
    return found


def _defined(tree: ast.Module) -> Iterator[tuple[str, bool]]:
    """Full name of what a module defines, and whether a decorator takes it."""
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield (
                node.name,
                any(
                    isinstance(mark, ast.Call) and "dataclass" not in ast.unparse(mark) for mark in node.decorator_list
                ),
            )
            for own in node.body if isinstance(node, ast.ClassDef) else ():
                if isinstance(own, ast.FunctionDef):
                    yield f"{node.name}.{own.name}", False
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                if isinstance(target, ast.Name):
                    yield target.id, False


def test_everything_is_used() -> None:
    listed = set().union(*FOR_OTHERS.values())
    kinds = ("Calls", "SparseCalls", "BlockCalls", "StatisticCalls")
    calls = {f"{kind}.{spec.method}" for spec in FUNCTIONS.values() for kind in kinds}
    found = unused(_texts()) - calls
    assert found - listed == set(), "used by nothing, or by tests alone"
    assert listed <= found, "used by now, or gone: to be taken off the list"


def test_what_nothing_uses_is_seen() -> None:
    own = {"duckdp.a": "def used(): ...\ndef idle(): return idle()\nLEFT = 1\nclass A:\n    def never(self): ..."}
    assert unused({**own, "duckdp.b": "from duckdp.a import used, A\nprint(A)"}) == {"idle", "LEFT", "A.never"}

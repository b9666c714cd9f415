"""Imports run one way, and some parts never see others: read off the source, not off the imported modules."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from duckdp.synthetic.methods import METHODS
from tests.imports import ROOT, Graph, imports, modules, reached, rings, way, with_packages

# A part may import parts of a lower rank, and itself. Parts of equal rank do not know each other.
RANKS = {
    "errors": 0, "texts": 0, "arguments": 0.5, "resources": 1, "result": 1, "process": 1, "core": 1,
    "ledger": 2, "mechanisms": 2, "catalog": 3, "compiler": 4, "smooth": 5, "synthetic": 6, "vault": 7, "desk": 8,
    "functions": 9, "faces": 10, "session": 11, "front": 12, "curator": 13,
    "bench": 14, "demo": 14, "owner": 14, "shell": 14, "cli": 15, "__main__": 16,
}  # fmt: skip
PRIVATE_SIDE = {"vault", "desk", "session", "ledger", "front", "curator", "faces", "functions"}
# What reads private rows, or names what does. Of summaries and tables these are the folders (or files) buy and sums.
READS_ROWS = {"duckdp.core.task", *(f"duckdp.{part}" for part in PRIVATE_SIDE)}
BUYS = {"buy", "sums"}
KNOWS_BOTH = {"duckdp.synthetic.methods"}  # the list of methods, by both of their sides
# Modules that still import each other: to be taken apart next, ring by ring; what is on no list is in no ring.
FACES = {name for name in modules() if name.split(".")[1:2] in [[p] for p in ("session", "curator", "faces", "front")]}
KNOWN_RINGS = (
    {f"duckdp.compiler.{name}" for name in ("domains", "images", "printing", "select")},
    {"duckdp", "duckdp.vault.life", "duckdp.desk.interactive", *FACES}
    | {name for name in modules() if name.split(".")[1:2] == ["functions"]},
    {"duckdp.shell.commands", "duckdp.shell.loop"},
)
PROTOCOL_FILES = {"__init__", "__main__", "plan", "buy", "make", "released"}  # the same in every folder that has them
# Folders whose files have names of their own in the whole package; and names that others still share with them.
NAMED = ("core", "mechanisms", "smooth", "synthetic")
KNOWN_NAMESAKES = {"bounds", "files", "moments", "types"}


def _imports(path: Path) -> Iterator[str]:
    """Parts of duckdp that a file imports, type-checking imports left out."""
    tree = ast.parse(path.read_text())
    skipped = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"
        for inner in ast.walk(node)
    }
    for node in ast.walk(tree):
        if id(node) in skipped:
            continue
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "duckdp":
            parts = node.module.split(".")
            yield from [parts[1]] if len(parts) > 1 else [a.name for a in node.names]
        elif isinstance(node, ast.Import):
            yield from (a.name.split(".")[1] for a in node.names if a.name.startswith("duckdp."))


def _files() -> list[Path]:
    return [p for p in sorted(ROOT.rglob("*.py")) if p != ROOT / "__init__.py"]


def _part(path: Path) -> str:
    return path.relative_to(ROOT).parts[0].removesuffix(".py")


def test_imports_run_one_way() -> None:
    wrong = []
    for path in _files():
        own = _part(path)
        for target in _imports(path):
            late_front = (own, target) == ("curator", "front")
            if target != own and not late_front and RANKS[target] >= RANKS[own]:
                wrong.append(f"{path.relative_to(ROOT)} imports {target}")
    assert not wrong


def test_post_processing_never_sees_the_private_side() -> None:
    for path in _files():
        if _part(path) in ("smooth", "synthetic"):
            assert not PRIVATE_SIDE & set(_imports(path)), path


def test_randomness_has_one_source() -> None:
    """No module but core/noise.py draws; tokens and names may use ``secrets`` directly, nothing else exists."""
    for path in _files():
        if _part(path) == "bench":
            continue  # makes up data
        for node in ast.walk(ast.parse(path.read_text())):
            modules = [a.name for a in node.names] if isinstance(node, ast.Import) else []
            modules += [node.module or ""] if isinstance(node, ast.ImportFrom) and not node.level else []
            assert not {"random", "numpy.random"} & set(modules), path
            dotted = isinstance(node, ast.Attribute) and node.attr == "random"
            assert not (dotted and isinstance(node.value, ast.Name) and node.value.id in ("np", "numpy")), path


def test_files_and_functions_stay_small() -> None:
    for path in _files():
        text = path.read_text()
        assert text.count("\n") <= 400, path
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and node.end_lineno is not None:
                body = node.body[1:] if ast.get_docstring(node) and len(node.body) > 1 else node.body
                length = (body[-1].end_lineno or 0) - body[0].lineno + 1
                assert length <= 50, f"{path}:{node.lineno} {node.name} has {length} lines"


# ---- what made rows, and what bought them


def _bought(name: str) -> bool:
    """Whether a module is of the private side of summaries and synthetic tables."""
    parts = name.split(".")
    return parts[1:2] in (["smooth"], ["synthetic"]) and bool(BUYS & set(parts))


def _made() -> list[str]:
    """Modules of summaries and synthetic tables that have no business with private rows."""
    ours = [name for name in modules() if name.split(".")[1:2] in (["smooth"], ["synthetic"])]
    return [name for name in ours if not _bought(name) and name not in KNOWS_BOTH]


def _crossings(graph: Graph) -> list[str]:
    found = []
    for name in _made():
        by = reached(graph, name)
        found += [way(by, other) for other in by if _bought(other) or other in READS_ROWS | KNOWS_BOTH]
    return found


def test_what_makes_rows_never_sees_what_buys_them() -> None:
    """Answers, rows, reports and files are functions of releases: no import leads them to a private read."""
    made = _made()
    for side in ("lp", "theorem", "moments", "tree", "psi"):
        assert any(name.startswith(f"duckdp.synthetic.{side}.make") for name in made)
        assert any(_bought(name) and f".{side}.buy" in name for name in modules())
    assert _crossings(with_packages(imports())) == []


@pytest.mark.parametrize(
    ("name", "other"),
    [
        ("duckdp.synthetic.sample", "duckdp.smooth.buy.counted"), ("duckdp.smooth.axes", "duckdp.core.task"),
        ("duckdp.synthetic.tree.make.dealing", "duckdp.synthetic.unit.buy"),
        ("duckdp.core.noise", "duckdp.vault.engine"),  # far below, and all the same
    ],
)  # fmt: skip
def test_a_crossing_is_seen(name: str, other: str) -> None:
    """Broken twins: one import more."""
    graph = dict(imports())
    graph[name] = graph[name] | {other}
    assert _crossings(with_packages(graph))


def test_a_fresh_process_makes_rows_without_the_private_side() -> None:
    """What is imported by name at run time counts too: nothing of the private side is loaded in the end."""
    names = [name for name in _made() if "__main__" not in name]
    code = (
        "import importlib, sys\n"
        f"for name in {names!r}: importlib.import_module(name)\n"
        "from duckdp.synthetic.stored import maker\n"
        "for method in ('lp', 'theorem', 'moments', 'tree', 'psi'): maker(method)\n"
        "print('\\n'.join(name for name in sys.modules if name.startswith('duckdp')))"
    )
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT.parent)
    listed = set(loaded.stdout.split())
    assert set(names) <= listed
    # the package's own __init__ opens data sets: it brings the curator, and what that imports by itself
    base = subprocess.run(
        [sys.executable, "-c", "import duckdp, sys\nprint('\\n'.join(sys.modules))"],
        capture_output=True, text=True, check=True, cwd=ROOT.parent,
    )  # fmt: skip
    new = listed - set(base.stdout.split())
    assert not [name for name in new if _bought(name) or name in READS_ROWS | KNOWS_BOTH]


def test_modules_import_each_other_nowhere_new() -> None:
    found = rings(imports())
    new = [sorted(ring) for ring in found if not any(ring <= known for known in KNOWN_RINGS)]
    assert new == []
    for known in KNOWN_RINGS:
        assert any(ring <= known for ring in found), f"taken apart: to be removed from the list: {sorted(known)}"


def test_a_ring_is_seen() -> None:
    """Broken twin: one import from the lowest floor to a high one."""
    graph = dict(imports())
    graph["duckdp.errors"] = frozenset({"duckdp.synthetic.tree.plan"})
    (ring,) = [ring for ring in rings(graph) if "duckdp.errors" in ring]
    assert "duckdp.synthetic.tree.plan" in ring
    assert not any(ring <= known for known in KNOWN_RINGS)


def test_no_two_files_share_a_name() -> None:
    """A file's name is what it holds; in a traceback, or a list of open files, it is all that one sees."""
    places: dict[str, list[str]] = {}
    for name, path in modules().items():
        places.setdefault(path.stem, []).append(name)
    shared = {
        stem for stem, names in places.items()
        if len(names) > 1 and any(name.split(".")[1:2] == [folder] for name in names for folder in NAMED)
    }  # fmt: skip
    assert shared - PROTOCOL_FILES == KNOWN_NAMESAKES


def test_one_place_chooses_among_the_methods() -> None:
    """Nothing compares with a method's name but the list of methods."""
    names = {path.parent.name for path in (ROOT / "synthetic").glob("*/make*")} | {
        path.parent.name for path in (ROOT / "synthetic").glob("*/make/__init__.py")
    }
    names = {name for name in names if name != "make"}
    assert names == {method.name for method in METHODS}
    for path in _files():
        if _part(path) in ("synthetic", "functions") and path.name != "methods.py":
            for node in ast.walk(ast.parse(path.read_text())):
                sides = [node.left, *node.comparators] if isinstance(node, ast.Compare) else []
                sides += [node.value] if isinstance(node, ast.MatchValue) else []
                sides += [one for side in sides for one in getattr(side, "elts", ())]
                constants = {side.value for side in sides if isinstance(side, ast.Constant)}
                assert not names & constants, f"{path}:{getattr(node, 'lineno', 0)}"


def _bound_twice(text: str) -> set[str]:
    """Names that a module binds twice at its top level: whatever read the first one late reads the second."""
    bound: list[str] = []
    for node in ast.parse(text).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            bound += [node.name] if "overload" not in map(ast.unparse, node.decorator_list) else []
        elif isinstance(node, ast.Assign):
            bound += [target.id for target in node.targets if isinstance(target, ast.Name)]
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            bound.append(node.target.id)
    return {name for name in bound if bound.count(name) > 1}


def test_no_module_binds_a_name_twice() -> None:
    assert _bound_twice("READS = {}\nREADS: dict = {1: 2}\ndef f(): ...\ndef f(): ...") == {"READS", "f"}
    top = ROOT.parent
    for path in (*ROOT.rglob("*.py"), *(top / "tests").rglob("*.py"), *(top / "examples").rglob("*.py")):
        assert not _bound_twice(path.read_text()), path

"""Imports run one way, and some parts never see others: read off the source, not off the imported modules."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from duckdp.synthetic.methods import METHODS
from tests.imports import ROOT, Graph, imported, imports, modules, reached, rings, way, with_packages

# From the ground up. A part (a file or a folder of the package) imports itself and parts of lower floors, nothing else;
# imports for types count, and late ones. Parts of one floor do not know each other.
FLOORS = (
    ("errors", "texts"),
    ("arguments", "resources", "process", "core"),
    ("result",),
    ("ledger", "mechanisms"),
    ("catalog", "client", "local"),
    ("compiler",),
    ("smooth",),
    ("synthetic",),
    ("vault",),
    ("desk",),
    ("functions",),
    ("front", "faces"),
    ("serve", "session"),
    ("curator",),
    ("",),  # the package itself: its public names
    ("bench", "dashboard", "demo", "owner", "shell"),
    ("cli",),
    ("__main__",),
)
RANKS = {part: rank for rank, floor in enumerate(FLOORS) for part in floor}
PRIVATE_SIDE = {"vault", "desk", "session", "ledger", "front", "curator", "faces", "functions"}
# What reads private rows, or names what does. Of summaries and tables these are the folders (or files) buy and sums.
READS_ROWS = {"duckdp.core.task", "duckdp.core.reads", *(f"duckdp.{part}" for part in PRIVATE_SIDE)}
BUYS = {"buy", "sums"}
KNOWS_BOTH = {"duckdp.synthetic.methods"}  # the list of methods, by both of their sides
# Files of faces that must not have the data set: what they know of it, a desk gives them.
DESK_ALONE = {"duckdp.front.front", "duckdp.front.binder", "duckdp.front.guarded", "duckdp.faces.calls"}
PROTOCOL_FILES = {"__init__", "__main__", "plan", "buy", "make", "released"}  # the same in every folder that has them
# Folders whose files have names of their own in the whole package; and names that others still share with them.
NAMED = ("core", "mechanisms", "smooth", "synthetic")
KNOWN_NAMESAKES = {"bounds", "files", "moments", "types"}


def _files() -> list[Path]:
    return [p for p in sorted(ROOT.rglob("*.py")) if p != ROOT / "__init__.py"]


def _part(path: Path) -> str:
    return path.relative_to(ROOT).parts[0].removesuffix(".py")


def _floor_of(name: str) -> str:
    """The part that a module belongs to; "" of the package itself."""
    return name.partition(".")[2].partition(".")[0]


def _climbs(graph: Graph) -> list[str]:
    """Imports of a part that is not below."""
    return [
        f"{name} imports {other}"
        for name, others in graph.items()
        for other in sorted(others)
        if _floor_of(other) != _floor_of(name) and RANKS[_floor_of(other)] >= RANKS[_floor_of(name)]
    ]


def test_imports_run_down_only() -> None:
    assert {_floor_of(name) for name in modules()} == set(RANKS), "every part has its floor, and no floor is left over"
    assert _climbs(imports()) == []


@pytest.mark.parametrize(
    ("name", "other"),
    [
        ("duckdp.vault.life", "duckdp.front.front"),
        ("duckdp.functions.routing", "duckdp.session"),
        ("duckdp.ledger.tx", "duckdp.mechanisms.cube"),  # beside, not below
        ("duckdp.desk.desk", "duckdp"),
    ],
)
def test_a_climb_is_seen(name: str, other: str) -> None:
    """Broken twins: one import more."""
    graph = dict(imports())
    graph[name] = graph[name] | {other}
    assert _climbs(graph) == [f"{name} imports {other}"]


def test_an_import_for_types_counts() -> None:
    text = "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from duckdp.session import Session\n"
    late = "def f():\n    from duckdp.vault import engine\n    import duckdp.owner\n"
    assert imported(text) == {"duckdp.session"}
    assert imported(late) == {"duckdp.vault.engine", "duckdp.owner"}


def test_summaries_and_tables_know_no_ledger() -> None:
    """It lies below them, and all the same what is bought and made knows nothing of charges and analysts."""
    looked_at = {name: others for name, others in imports().items() if _floor_of(name) in ("smooth", "synthetic")}
    assert {_floor_of(name) for name in looked_at} == {"smooth", "synthetic"}
    for name, others in looked_at.items():
        assert not [other for other in others if _floor_of(other) == "ledger"], name


def test_only_a_desk_opens_the_vault() -> None:
    """What analysts are answered through asks a desk, and imports nothing of the vault or the ledger."""
    inside = {"duckdp.vault", "duckdp.ledger"}
    known = imports()
    looked_at = {name for name in known if _floor_of(name) in ("functions", "session")} | set(DESK_ALONE)
    assert {_floor_of(name) for name in looked_at} >= {"functions", "session"}
    for name in looked_at:
        assert not [other for other in known[name] if any(other.startswith(door) for door in inside)], name


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


def test_the_formatter_decides_alone() -> None:
    """One style: only the lists of planted faults, a fault a line, are laid out by hand."""
    for path in [*_files(), *Path(__file__).parent.rglob("*.py")]:
        by_hand = path.parent.name == "mutants" and path.name.startswith("of_")
        assert by_hand or ("# " + "fmt:") not in path.read_text(), path


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
        ("duckdp.synthetic.sample", "duckdp.smooth.buy.counted"),
        ("duckdp.smooth.axes", "duckdp.core.task"),
        ("duckdp.synthetic.tree.make.dealing", "duckdp.synthetic.unit.buy"),
        ("duckdp.core.noise", "duckdp.vault.engine"),  # far below, and all the same
    ],
)
def test_a_crossing_is_seen(name: str, other: str) -> None:
    """Broken twins: one import more."""
    graph = dict(imports())
    graph[name] = graph[name] | {other}
    assert _crossings(with_packages(graph))


def _prints(text: str) -> bool:
    """Whether a file spells SQL as private rows are read by: functions in full, so that no macro takes their place."""
    return "system.main." in text


def test_what_makes_rows_prints_no_sql_for_private_ones() -> None:
    made, bought = _made(), [name for name in modules() if _bought(name)]
    assert [name for name in made if _prints(modules()[name].read_text())] == []
    assert sum(_prints(modules()[name].read_text()) for name in bought) > 5  # it is seen where it stands


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
        capture_output=True,
        text=True,
        check=True,
        cwd=ROOT.parent,
    )
    new = listed - set(base.stdout.split())
    assert not [name for name in new if _bought(name) or name in READS_ROWS | KNOWS_BOTH]


def test_no_modules_import_each_other() -> None:
    assert rings(imports()) == []


def test_a_ring_is_seen() -> None:
    """Broken twin: one import from the lowest floor to a high one."""
    graph = dict(imports())
    graph["duckdp.errors"] = frozenset({"duckdp.synthetic.tree.plan"})
    (ring,) = [ring for ring in rings(graph) if "duckdp.errors" in ring]
    assert "duckdp.synthetic.tree.plan" in ring


def test_no_two_files_share_a_name() -> None:
    """A file's name is what it holds; in a traceback, or a list of open files, it is all that one sees."""
    places: dict[str, list[str]] = {}
    for name, path in modules().items():
        places.setdefault(path.stem, []).append(name)
    shared = {
        stem
        for stem, names in places.items()
        if len(names) > 1 and any(name.split(".")[1:2] == [folder] for name in names for folder in NAMED)
    }
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


def test_what_a_class_must_have_is_abstract() -> None:
    """A class that forgot it fails where it is declared or made, not where somebody calls it."""
    for path in _files():
        raised = [
            n.exc for n in ast.walk(ast.parse(path.read_text())) if isinstance(n, ast.Raise) and n.exc is not None
        ]
        assert not [e for e in raised if "NotImplementedError" in ast.dump(e)], path

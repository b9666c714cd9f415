"""Imports run one way, and some parts never see others: read off the source, not off the imported modules."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import duckdp

ROOT = Path(duckdp.__file__).parent
# A part may import parts of a lower rank, and itself. Parts of equal rank do not know each other.
RANKS = {
    "errors": 0, "forks": 0.1, "ending": 0.5, "folders": 0.5,
    "resources": 1, "core": 1, "result": 1, "guarded": 1, "ledger": 2, "mechanisms": 2, "catalog": 3,
    "compiler": 4, "values": 4, "smooth": 5, "source": 5, "pricing": 5, "answers": 5, "synthetic": 6, "engine": 6,
    "views": 6, "routing": 6, "units": 6, "explanation": 7, "naming": 7, "declare": 7.5, "protection": 8,
    "suggestions": 8, "functions": 8, "calls": 9, "life": 9.5, "session": 10, "binder": 10, "front": 11,
    "curator": 12, "data": 0, "attempt": 0, "copies": 4.5, "decoding": 5.5, "accepting": 8, "computed": 7,
    "laundering": 1, "interactive": 8, "texts": 0, "asking": 3, "exporting": 3, "records": 9, "holding": 9,
    "budgeting": 11,
    "bench": 13, "demo": 13, "owner": 13, "shell": 13, "cli": 14, "__main__": 15,
}  # fmt: skip
PRIVATE_SIDE = {"engine", "session", "ledger", "front", "curator", "source", "copies", "decoding", "functions"}


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

"""Which module of the package imports which, read off the source: type-checking and late imports included."""

from __future__ import annotations

import ast
from collections.abc import Collection, Mapping
from functools import cache
from pathlib import Path

import duckdp

ROOT = Path(duckdp.__file__).parent
Graph = Mapping[str, frozenset[str]]


@cache
def modules() -> dict[str, Path]:
    """File of every module, by its full name."""
    found = {}
    for path in sorted(ROOT.rglob("*.py")):
        parts = path.relative_to(ROOT.parent).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


@cache
def imports() -> Graph:
    """What every module imports of the package, in whatever place of its text."""
    return {name: frozenset(imported(path.read_text()) - {name}) for name, path in modules().items()}


def imported(text: str) -> set[str]:
    """What a module's text imports of the package."""
    found = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ImportFrom):
            assert not node.level, "imports are absolute"
            whole = [f"{node.module}.{alias.name}" for alias in node.names]
            found |= {name if name in modules() else str(node.module) for name in whole}
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
    return {name for name in found if name in modules()}


def with_packages(graph: Graph) -> Graph:
    """The same, with what Python imports by itself: the packages that a module lies in, and those that it imports."""
    return {name: frozenset(_around({name, *others}) - {name}) for name, others in graph.items()}


def _around(names: Collection[str]) -> set[str]:
    found = set()
    for name in names:
        parts = name.split(".")
        found |= {".".join(parts[:k]) for k in range(2, len(parts) + 1)}  # the package itself imports nothing
    return found


def reached(graph: Graph, start: str) -> dict[str, str]:
    """Every module that one imports, directly or not, and by which it is reached first."""
    by, waiting = {start: start}, [start]
    while waiting:
        name = waiting.pop()
        for other in sorted(graph.get(name, ())):
            if other not in by:
                by[other] = name
                waiting.append(other)
    return by


def way(by: Mapping[str, str], end: str) -> str:
    """How a module is reached."""
    steps = [end]
    while by[steps[-1]] != steps[-1]:
        steps.append(by[steps[-1]])
    return " <- ".join(steps)


def rings(graph: Graph) -> list[frozenset[str]]:
    """Modules that import each other, directly or not: the strongly connected parts of more than one module."""
    beyond = {name: frozenset(reached(graph, name)) for name in graph}
    found = {frozenset(m for m in beyond[name] if name in beyond[m]) for name in graph}
    return sorted((ring for ring in found if len(ring) > 1), key=sorted)

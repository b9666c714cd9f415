"""The lists of mutants fit the code they are about: each snippet stands there once, and its tests are fast ones."""

from __future__ import annotations

import ast
import json
import pathlib
import signal
from functools import cache

import pytest

from tests.mutants.mutant import Mutant
from tests.mutants.mutants import EQUIVALENT, MUTANTS
from tests.mutants.run import ALIVE, CAUGHT, NOTED, UNCLEAR, verdict

ROOT = pathlib.Path(__file__).resolve().parents[2]
ALL = (*MUTANTS, *(mutant for mutant, _ in EQUIVALENT))


@cache
def _lines(file: str) -> str:
    return (ROOT / file).read_text(encoding="utf-8")


def test_each_changes_one_place_of_todays_code() -> None:
    moved = []
    for mutant in ALL:
        try:
            changed = mutant.applied(_lines(mutant.file))
            compile(changed, mutant.file, "exec", ast.PyCF_ONLY_AST)
        except (ValueError, OSError, SyntaxError) as problem:
            moved.append(f"{mutant.name}: {problem}")
            continue
        assert changed != _lines(mutant.file), mutant.name
    assert moved == [], "the code changed: change these mutants with it"


def test_each_has_tests() -> None:
    for mutant in MUTANTS:
        assert mutant.tests, mutant.name
        for test in mutant.tests:
            assert _is_there(test), mutant.name


def _is_there(test: str) -> bool:
    """A file, or a function or a class of hypothesis's in it."""
    file, _, name = test.partition("::")
    name = name.partition("[")[0].rpartition("::")[2] or name
    return (ROOT / file).is_file() and (not name or f"def {name}(" in _lines(file) or name == "runTest")


def test_names_are_unique_and_reasons_given() -> None:
    names = [m.name for m in ALL]
    assert len(set(names)) == len(names) >= 150
    assert all(reason for _, reason in EQUIVALENT)


def test_a_snippet_that_moved_is_noticed() -> None:
    with pytest.raises(ValueError, match="stands 0 times"):
        Mutant("moved", "duckdp/errors.py", "no such line", "", ()).applied(_lines("duckdp/errors.py"))


def test_what_caught_it_last_is_there_still() -> None:
    noted = json.loads(NOTED.read_text(encoding="utf-8"))
    assert set(noted) <= {m.name for m in MUTANTS}, "python -m tests.mutants.run --note writes it anew"
    assert [(name, test) for name, test in noted.items() if not _is_there(test)] == []


@pytest.mark.parametrize(
    ("code", "failures", "fate"),
    [
        (0, [], ALIVE),
        (1, [("assertion", "AssertionError")], CAUGHT),
        (1, [("error", "InternalError")], CAUGHT),
        (1, [("surroundings", "OSError")], UNCLEAR),
        (1, [], UNCLEAR),
        (2, [("surroundings", "ImportError")], UNCLEAR),
        (5, [], UNCLEAR),
        (-signal.SIGXCPU, [], UNCLEAR),
        (-signal.SIGALRM, [("assertion", "AssertionError")], UNCLEAR),
    ],
)
def test_only_a_test_that_ran_and_failed_catches(code: int, failures: list[tuple[str, str]], fate: str) -> None:
    told = [{"test": "a.py::b", "kind": kind, "how": how} for kind, how in failures]
    assert verdict(code, told)[0] == fate

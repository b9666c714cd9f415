"""The lists of mutants fit the code they are about: each snippet stands there once, and its tests are fast ones."""

from __future__ import annotations

import ast
import pathlib
from functools import cache

import pytest

from tests.mutants.mutant import Mutant
from tests.mutants.mutants import EQUIVALENT, MUTANTS

ROOT = pathlib.Path(__file__).resolve().parents[2]
ALL = (*MUTANTS, *(mutant for mutant, _ in EQUIVALENT))


@cache
def _lines(file: str) -> str:
    return (ROOT / file).read_text(encoding="utf-8")


def test_each_changes_one_place_of_todays_code() -> None:
    for mutant in ALL:
        changed = mutant.applied(_lines(mutant.file))
        assert changed != _lines(mutant.file), mutant.name
        compile(changed, mutant.file, "exec", ast.PyCF_ONLY_AST)


def test_each_has_tests() -> None:
    for mutant in MUTANTS:
        assert mutant.tests, mutant.name
        for test in mutant.tests:
            file, _, name = test.partition("::")
            assert f"def {name}(" in _lines(file) if name else (ROOT / file).is_file(), mutant.name


def test_names_are_unique_and_reasons_given() -> None:
    names = [m.name for m in ALL]
    assert len(set(names)) == len(names) >= 150
    assert all(reason for _, reason in EQUIVALENT)


def test_a_snippet_that_moved_is_noticed() -> None:
    with pytest.raises(ValueError, match="stands 0 times"):
        Mutant("moved", "duckdp/errors.py", "no such line", "", ()).applied(_lines("duckdp/errors.py"))

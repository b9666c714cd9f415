"""The list of mutants fits the code it is about: each snippet stands there once, and its tests are fast ones."""

from __future__ import annotations

import ast
import pathlib

import pytest

from tests.mutants.mutants import EQUIVALENT, MUTANTS

ROOT = pathlib.Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda m: m.name)
def test_applies(mutant) -> None:
    text = (ROOT / mutant.file).read_text(encoding="utf-8")
    changed = mutant.applied(text)
    if mutant.file.endswith(".py"):
        ast.parse(changed)
    assert changed != text
    assert mutant.tests and all((ROOT / t.split("::")[0]).exists() for t in mutant.tests)


def test_names_are_unique_and_reasons_given() -> None:
    names = [m.name for m in MUTANTS] + [m.name for m, _ in EQUIVALENT]
    assert len(set(names)) == len(names)
    assert all(reason for _, reason in EQUIVALENT)
    for mutant, _ in EQUIVALENT:
        mutant.applied((ROOT / mutant.file).read_text(encoding="utf-8"))

"""Ledgers of earlier versions, kept as real files: they open, and what they answered is given again, free.

Made by ``fixtures/ledgers/make.py`` with the code of their day. A question whose meaning was mended since is asked
anew: it stands in ``MENDED`` with the reason, and must not be served the old answer.
"""

from __future__ import annotations

import importlib.util
import json
import pathlib
import shutil

import pytest

KEPT = pathlib.Path(__file__).parent / "fixtures" / "ledgers"
MENDED: dict[str, str] = {}  # question -> why it means something else today

spec = importlib.util.spec_from_file_location("kept_ledgers_make", KEPT / "make.py")
assert spec is not None and spec.loader is not None
make = importlib.util.module_from_spec(spec)
spec.loader.exec_module(make)


def copy(version: str, folder: pathlib.Path) -> None:
    """The kept files under their names in use."""
    kept = KEPT / version
    shutil.copy(kept / "visits.parquet", folder)
    for name in ("keyed", "rows"):
        shutil.copy(kept / f"{name}.db", folder / f"{name}.ledger")
        shutil.copy(kept / f"{name}.anchor", folder / f"{name}.ledger.anchor")


def stored(name: str, rows: list[list[str]]) -> list[list[str]]:
    """What was stored of an answer: of a function of a summary, its bounds are proved anew each time."""
    return [row[:2] for row in rows] if name == "answer" else rows


@pytest.mark.parametrize("version", ["version_2", "version_3"])
@pytest.mark.parametrize("keyed", [True, False])
def test_stored_answers_stay_free(tmp_path: pathlib.Path, version: str, keyed: bool) -> None:
    copy(version, tmp_path)
    answers = json.loads((KEPT / version / "answers.json").read_text())["keyed" if keyed else "rows"]
    with make.open_visits(str(tmp_path), keyed=keyed) as curator:
        charges = len(curator.ledger.charges())
        session = curator.session("ana" if keyed else "ben")
        asked = make.questions(session, keyed=keyed)
        assert set(asked) == set(answers)
        for name, ask in asked.items():
            if name in MENDED:
                continue
            assert stored(name, make.printed(ask())) == stored(name, answers[name]), name
            assert len(curator.ledger.charges()) == charges, f"{name} was charged again"
        for name in MENDED.keys() & asked.keys():
            asked[name]()
            charges += 1
            assert len(curator.ledger.charges()) == charges, f"{name}: the old answer was given"

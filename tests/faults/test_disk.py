"""The model of a disk: what a sync covered is certain, and of the rest everything may happen."""

from __future__ import annotations

import json
import random
from pathlib import Path

from tests.faults.disk import SECTOR, Disk, Kind, Record

SEEN = 400  # images; each of a few outcomes is missed with a probability below 1e-7


def record(
    kind: Kind, data: bytes = b"", *, handle: int = 0, offset: int = 0, name: bytes = b"", created: bool = False
):
    return Record(kind, created, handle, offset, data, name)


def images(records: list[Record]) -> list[dict[str, bytes]]:
    disk, chance = Disk(Path("/d")), random.Random(1)
    for each in records:
        disk.replay(each)
    return [disk.after_a_crash(chance) for _ in range(SEEN)]


MADE = [
    record(Kind.OPEN, b"/d", handle=1),
    record(Kind.OPEN, b"/d/a", handle=2, created=True),
]
FOLDER_SYNCED = [record(Kind.SYNC_BEGIN, handle=1, offset=1), record(Kind.SYNC_END, handle=1, offset=1)]


def written(text: bytes, offset: int = 0) -> Record:
    return record(Kind.WRITE, text, handle=2, offset=offset)


def synced(number: int, *between: Record) -> list[Record]:
    return [record(Kind.SYNC_BEGIN, handle=2, offset=number), *between, record(Kind.SYNC_END, handle=2, offset=number)]


def test_a_name_is_certain_after_its_folders_sync() -> None:
    assert {"a" in image for image in images(MADE)} == {True, False}
    assert {"a" in image for image in images(MADE + FOLDER_SYNCED)} == {True}


def test_a_write_is_certain_after_its_files_sync() -> None:
    base = MADE + FOLDER_SYNCED
    assert {image["a"] for image in images([*base, written(b"x" * 9)])} >= {b"", b"x" * 9}
    assert {image["a"] for image in images([*base, written(b"x" * 9), *synced(5)])} == {b"x" * 9}


def test_a_write_during_a_sync_is_not_covered_by_it() -> None:
    base = [*MADE, *FOLDER_SYNCED, written(b"x" * 9)]
    found = {image["a"] for image in images([*base, *synced(5, written(b"y" * 9))])}
    assert found >= {b"x" * 9, b"y" * 9}
    assert all(set(text) <= set(b"xy") and len(text) == 9 for text in found)  # torn between the two


def test_sectors_come_in_any_order() -> None:
    base = [*MADE, *FOLDER_SYNCED, written(b"o" * 2 * SECTOR), *synced(5)]
    found = images([*base, written(b"1" * SECTOR), written(b"2" * SECTOR, SECTOR)])
    states = {(image["a"][0:1], image["a"][SECTOR : SECTOR + 1]) for image in found}
    assert states >= {(b"o", b"o"), (b"1", b"o"), (b"o", b"2"), (b"1", b"2")}


def test_a_truncation_may_be_missing() -> None:
    base = [*MADE, *FOLDER_SYNCED, written(b"o" * 700), *synced(5)]
    sizes = {len(image["a"]) for image in images([*base, record(Kind.TRUNCATE, handle=2, offset=3)])}
    assert sizes == {3, 700}


def test_a_rename_happens_or_does_not() -> None:
    base = [*MADE, *FOLDER_SYNCED, written(b"x"), *synced(5), record(Kind.RENAME, b"/d/a", name=b"/d/b")]
    assert {tuple(image) for image in images(base)} == {("a",), ("b",)}


def test_a_mark_changes_nothing() -> None:
    assert images([record(Kind.MARK, json.dumps(["said"]).encode())]) == [{}] * SEEN

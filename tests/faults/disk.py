"""What may be on a disk after the power failed: a trace of the interposed library, replayed, and images made from it.

A write is on the disk for certain only when a sync of its file, begun after it, has ended; a name (made, linked,
renamed, removed) only when a sync of its folder has. Until then each sector of 512 bytes may be as any write since left
it, whatever its neighbours and other files show, a sector may be torn between two such states, a file may have any size
that it had since, and each change of a name may have happened or not. That is more than any disk or file system does
to its users, and less than nothing at all is promised by POSIX.
"""

from __future__ import annotations

import json
import os
import random
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import IntEnum
from pathlib import Path
from typing import Any

SECTOR = 512

_HEAD = struct.Struct("<IIQqQQ")


class Kind(IntEnum):
    """Kinds of records, as interpose.c numbers them."""

    OPEN = 1
    WRITE = 2
    TRUNCATE = 3
    SYNC_BEGIN = 4
    SYNC_END = 5
    LINK = 6
    RENAME = 7
    UNLINK = 8
    MARK = 9


@dataclass(frozen=True)
class Record:
    """One event of a trace.

    Attributes:
        kind: what happened.
        created: of an open: the file was made by it.
        handle: number of the open by which it happened.
        offset: of a write, in bytes; of a truncation, the size; of a sync, its number.
        data: of a write; the path of an open, or of a change of a name.
        name: the second path of a link or renaming.
    """

    kind: Kind
    created: bool
    handle: int
    offset: int
    data: bytes
    name: bytes

    @property
    def words(self) -> list[Any]:
        """The words of a mark."""
        return list(json.loads(self.data))


def read_trace(path: Path) -> Iterator[Record]:
    """The records of a trace, in order."""
    text, at = path.read_bytes(), 0
    while at < len(text):
        kind, flag, handle, offset, length, more = _HEAD.unpack_from(text, at)
        at += _HEAD.size
        data, name = text[at : at + length], text[at + length : at + length + more]
        at += length + more
        yield Record(Kind(kind), bool(flag), handle, offset, data, name)


@dataclass(eq=False)
class File:
    """A file's bytes that are certain, and what was done to it since: (number of the record, offset, bytes or size)."""

    certain: bytearray = field(default_factory=bytearray)
    pending: list[tuple[int, int, bytes | None]] = field(default_factory=list)

    def settle(self, before: int) -> None:
        """Make certain what was done before that record."""
        for number, offset, data in self.pending:
            if number < before:
                _apply(self.certain, offset, data)
        self.pending = [change for change in self.pending if change[0] >= before]

    def now(self) -> bytearray:
        """As the processes see it."""
        text = bytearray(self.certain)
        for _, offset, data in self.pending:
            _apply(text, offset, data)
        return text

    def after_a_crash(self, chance: random.Random) -> bytes:
        """What may be there after a crash."""
        if not self.pending:
            return bytes(self.certain)
        missing = chance.choice([0, 0.02, 0.3, 1])  # how many sectors are not as written last
        versions: dict[int, list[bytes]] = {}
        text, sizes = bytearray(self.certain), [len(self.certain)]
        for _, offset, data in self.pending:
            end = offset + len(data) if data is not None else max(len(text), offset + 1)
            touched = range(offset // SECTOR, (end - 1) // SECTOR + 1)
            for sector in touched:
                versions.setdefault(sector, [_sector(text, sector)])
            _apply(text, offset, data)
            sizes.append(len(text))
            for sector in touched:
                versions[sector].append(_sector(text, sector))
        size = len(text) if chance.random() > missing else chance.choice(sizes)
        nothing = missing == 1 and chance.random() < 0.5
        text.extend(bytes(max(sizes) + SECTOR - len(text)))
        for sector, seen in versions.items():
            if chance.random() < missing:
                version = seen[0] if nothing else _torn(seen, chance)
                text[sector * SECTOR : (sector + 1) * SECTOR] = version
        return bytes(text[:size])


class Disk:
    """The files of a folder and of those in it while a trace is replayed; folders themselves are certain.

    Args:
        folder: as the trace names it.
        before: a folder with what it held when the trace began, all of it certain.
    """

    def __init__(self, folder: Path, before: Path | None = None) -> None:
        self._folder = str(folder)
        self._names: dict[str, File] = {}
        for path in sorted(before.rglob("*")) if before is not None else []:
            if path.is_file():
                self._names[str(path.relative_to(before))] = File(bytearray(path.read_bytes()))
        self._certain_names = dict(self._names)
        self._renamings: list[tuple[int, str, str, File | None]] = []  # (record, name that goes, name that comes, file)
        self._handles: dict[int, File | str] = {}  # or the name of a folder
        self._syncs: dict[int, tuple[int, File | str]] = {}
        self._count = 0

    def replay(self, record: Record) -> None:
        """Take in the next record."""
        self._count += 1
        match record.kind:
            case Kind.OPEN:
                self._open(record)
            case Kind.WRITE | Kind.TRUNCATE:
                file = self._handles[record.handle]
                assert isinstance(file, File)
                file.pending.append((self._count, record.offset, record.data if record.kind == Kind.WRITE else None))
            case Kind.SYNC_BEGIN:
                self._syncs[record.offset] = (self._count, self._handles[record.handle])
            case Kind.SYNC_END:
                self._settle(*self._syncs.pop(record.offset))
            case Kind.LINK | Kind.RENAME:
                old, new = self._name(record.data), self._name(record.name)
                self._rename(old if record.kind == Kind.RENAME else "", new, self._names[old])
            case Kind.UNLINK:
                self._rename(self._name(record.data), "", None)
            case Kind.MARK:
                pass

    def certain(self) -> dict[str, bytes]:
        """What is there whatever happened: the worst case for what was promised."""
        return {name: bytes(file.certain) for name, file in self._certain_names.items()}

    def after_a_crash(self, chance: random.Random) -> dict[str, bytes]:
        """One of the images that a crash may leave."""
        missing = chance.choice([0, 0.3, 1])
        names = dict(self._certain_names)
        for _, goes, comes, file in self._renamings:
            if chance.random() >= missing:
                _move(names, goes, comes, file)
        image = {name: file.after_a_crash(chance) for name, file in names.items()}
        for name in [name for name in image if name.endswith("-shm")]:  # shared memory: anything
            if chance.random() < 0.5:
                image[name] = chance.randbytes(32768)
            else:
                del image[name]
        return image

    def file(self, name: str) -> File | None:
        """The file that has that name now."""
        return self._names.get(name)

    def file_of(self, handle: int) -> str:
        """The name of an open file; "" for a folder and for one that has none any more."""
        file = self._handles[handle]
        return next((name for name, found in self._names.items() if found is file), "")

    def _open(self, record: Record) -> None:
        name = self._name(record.data)
        if record.created:
            self._rename("", name, File())
        self._handles[record.handle] = self._names.get(name, name)  # what is not a file that was made is a folder

    def _rename(self, goes: str, comes: str, file: File | None) -> None:
        self._renamings.append((self._count, goes, comes, file))
        _move(self._names, goes, comes, file)

    def _settle(self, before: int, file: File | str) -> None:
        if isinstance(file, File):
            file.settle(before)
            return
        covered = [c for c in self._renamings if c[0] < before and os.path.dirname(c[2] or c[1]) == file]
        for _, goes, comes, named in covered:
            _move(self._certain_names, goes, comes, named)
        self._renamings = [change for change in self._renamings if change not in covered]

    def _name(self, path: bytes) -> str:
        """Relative to the folder; "" for itself."""
        return path.decode().removeprefix(self._folder).lstrip("/")


def write_image(image: dict[str, bytes], folder: Path) -> None:
    """Put an image's files into a new folder."""
    folder.mkdir(parents=True)
    for name, text in image.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_bytes(text)


def _move(names: dict[str, File], goes: str, comes: str, file: File | None) -> None:
    names.pop(goes, None)
    if comes and file is not None:
        names[comes] = file


def _apply(text: bytearray, offset: int, data: bytes | None) -> None:
    if data is None:
        del text[offset:]
        text.extend(bytes(offset - len(text)))
        return
    if len(text) < offset:
        text.extend(bytes(offset - len(text)))
    text[offset : offset + len(data)] = data


def _sector(text: bytearray, number: int) -> bytes:
    return bytes(text[number * SECTOR : (number + 1) * SECTOR]).ljust(SECTOR, b"\0")


def _torn(versions: list[bytes], chance: random.Random) -> bytes:
    """A state that the sector had, or two that followed each other, torn anywhere."""
    at = chance.randrange(len(versions))
    if at == 0 or chance.random() < 0.7:
        return versions[at]
    cut = chance.randrange(SECTOR + 1)
    return versions[at][:cut] + versions[at - 1][cut:]

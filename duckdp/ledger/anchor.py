"""The anchor: where the ledger's chain stood last, in a file of its own.

A ledger restored from an older copy, or copied without its ``-wal`` file, is a valid database that has forgotten
charges. The anchor, ``<ledger>.anchor`` or a file elsewhere (``places.py``), repeats the head of the chain (data set,
number of events, hash) after each commit; a ledger that does not contain that position is refused. It holds two lines
of fixed length, each with a checksum, of which the older one is overwritten in place: a write that is torn, cut short
or refused leaves the other as it was. (Anchors of earlier versions hold one line.)
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import stat
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from duckdp.errors import LedgerError
from duckdp.ledger.addresses import is_address

SUFFIX = ".anchor"
LENGTH = 160  # of a line
LOCK_SECONDS = 30.0  # that another process may hold the anchor's lock

_MAGIC = "duckdp-anchor-1"
_MOST_LINES = 16  # that are remembered
_lines: dict[bytes, Position] = {}  # true ones, as they were written or read


@dataclass(frozen=True, kw_only=True)
class Position:
    """A place in a ledger's chain: after ``count`` events the hash is ``digest``."""

    dataset_id: str
    count: int
    digest: str

    def line(self) -> bytes:
        """The anchor's text for this position."""
        text = f"{_MAGIC} {self.dataset_id} {self.count:020d} {self.digest} "
        return (text + _checksum(text)).ljust(LENGTH - 1).encode("ascii") + b"\n"


def open_both(path: str, file: str | None = None) -> int | None:
    """Open an anchor that is to be read at the beginning of a transaction and moved at its end; it must be closed.

    Returns:
        Its descriptor; None where it cannot be opened for both: then each says what is wrong.
    """
    try:
        return os.open(file or path + SUFFIX, os.O_RDWR | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError:
        return None


def read(path: str, file: str | None = None, opened: int | None = None) -> Position | None:
    """Read the anchor of the ledger at ``path``.

    Args:
        path: of the ledger.
        file: of the anchor; beside the ledger by default.
        opened: what :func:`open_both` gave; it stays open.

    Returns:
        The position, or None if the anchor is missing or empty.

    Raises:
        LedgerError: B204, the anchor is damaged; B207, it cannot be read, which says nothing of what it holds.
    """
    name = file or path + SUFFIX
    if opened is not None:
        return _read_opened(path, name, opened)
    try:
        opened = os.open(name, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except FileNotFoundError:
        return None
    except OSError:
        raise _unread(path, name) from None
    try:
        return _read_opened(path, name, opened)
    finally:
        close(opened)


def _read_opened(path: str, name: str, opened: int) -> Position | None:
    text = _read(path, name, opened)
    try:
        return _parse(path, name, text)[0]
    except LedgerError:
        _lock(path, opened, fcntl.LOCK_SH)  # perhaps read while it was being overwritten
        try:
            return _parse(path, name, _read(path, name, opened))[0]
        finally:
            _unlock(opened)


def advance(
    path: str,
    position: Position,
    *,
    file: str | None = None,
    create: bool = False,
    replace: bool = False,
    back: bool = False,
    opened: int | None = None,
    hold: Callable[[Position], None] = lambda _: None,
) -> None:
    """Move the anchor forward to ``position``, durably; an anchor that is already further stays.

    Args:
        path: of the ledger.
        position: a committed position of the ledger.
        file: of the anchor; beside the ledger by default.
        create: write the anchor if it is missing or empty; else that is an error.
        replace: overwrite a damaged anchor (the owner's repair).
        back: move it wherever it stands, to another history of the data set too (a backup takes the original's place).
        opened: what :func:`open_both` gave, and :func:`read` read; it stays open.
        hold: raises if the ledger does not hold where it stands; asked under the lock, so nobody moves it in between.

    Raises:
        LedgerError: B203, the anchor is at another history; B204, it is missing or damaged; B207, it cannot be written:
            it stays where it was.
    """
    name = file or path + SUFFIX
    if create or replace:
        _make(path, name, position)
    try:
        if opened is not None and not _is_named(name, opened):  # exchanged since: what has the name now is the anchor
            opened = None
        file_of_it = os.open(name, os.O_RDWR | os.O_CLOEXEC | os.O_NONBLOCK) if opened is None else opened
    except FileNotFoundError:
        raise damaged(path, name) from None
    except OSError:
        raise _unwritten(path, name) from None
    try:
        try:
            _lock(path, file_of_it, fcntl.LOCK_EX)
            known, line = _known(path, name, file_of_it, replace=replace)
            if known is None and not (create or replace):
                raise damaged(path, name)
            if known is not None:
                _same_history(path, known, position, back=back)
                hold(known)
            if known is None or known.count < position.count:
                _write(path, name, file_of_it, position, (line,), replace)
            elif back and known != position:
                _write(path, name, file_of_it, position, (line, 1 - line), replace)
        finally:
            _unlock(file_of_it)
    finally:  # also when Ctrl-C comes before the lock was given up
        if opened is None:
            close(file_of_it)
    if create or replace:
        try:
            sync_folder(name)
        except OSError:
            raise _unwritten(path, name) from None


def _is_named(name: str, opened: int) -> bool:
    """Whether a name still stands for the file that was opened by it."""
    found, held = os.stat(name), os.fstat(opened)
    return (found.st_dev, found.st_ino) == (held.st_dev, held.st_ino)


def _make(path: str, name: str, position: Position) -> None:
    """Make an anchor that is missing; it is whole, and on the disk, before it has its name."""
    if os.path.lexists(name):
        return
    draft = f"{name}.new-{os.urandom(8).hex()}"
    try:
        opened = os.open(draft, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            _write(path, name, opened, position, (0,), False)
        finally:
            close(opened)
        with suppress(FileExistsError):  # somebody was faster
            os.link(draft, name)
    except OSError:
        raise _unwritten(path, name) from None
    finally:
        with suppress(OSError):
            os.unlink(draft)


def sync_folder(path: str) -> None:
    """Make the names in the folder of ``path`` durable."""
    folder = os.open(os.path.dirname(path), os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(folder)
    finally:
        close(folder)


def damaged(path: str, name: str = "") -> LedgerError:
    """The error for a missing or damaged anchor; ``name``: what it is, a file by default."""
    return LedgerError(
        "B204",
        f'the anchor "{name or path + SUFFIX}", which proves that the ledger is the newest one, is missing or damaged. '
        "Put it back, or, if you are certain that this ledger is the newest, call Ledger.repair_anchor with a reason.",
        path=path,
    )


def rolled_back(path: str, found: str) -> LedgerError:
    """The error for a ledger that is older than its anchor, or another one."""
    files = "state of its database" if is_address(path) else "ledger together with its -wal file"
    return LedgerError(
        "B203",
        f'{found} at "{path}": charges that were made are missing from it. Put back the newest {files}, '
        "or begin a new data set whose privacy units are disjoint from this one's.",
        path=path,
    )


def _known(path: str, name: str, file: int, *, replace: bool) -> tuple[Position | None, int]:
    """The position, and which line may be overwritten."""
    try:
        known, newest_first = _parse(path, name, _read(path, name, file))
    except LedgerError:
        if replace:
            return None, 0
        raise
    return known, 1 if newest_first else 0


def _same_history(path: str, known: Position, position: Position, *, back: bool) -> None:
    if known.dataset_id != position.dataset_id:
        raise rolled_back(path, "the ledger belongs to another data set than its anchor")
    if not back and known.count == position.count and known.digest != position.digest:
        raise rolled_back(path, "the ledger has another history than its anchor")


def _parse(path: str, name: str, text: bytes) -> tuple[Position | None, bool]:
    """The newest true line, and whether it is the first one; None where there is no text at all."""
    if not text:
        return None, False
    first, second = parse_line(text[:LENGTH]), parse_line(text[LENGTH:])
    found = first or second
    if found is None or len(text) > 2 * LENGTH:
        raise damaged(path, name)
    if first is None or second is None:
        return found, second is None
    if first.dataset_id != second.dataset_id:
        raise damaged(path, name)
    return (first, True) if first.count >= second.count else (second, False)


def parse_line(text: bytes) -> Position | None:
    """A line as :meth:`Position.line` writes it; None if it is anything else."""
    return _lines.get(text) or (_parse_line(text) if text else None)


def _parse_line(text: bytes) -> Position | None:
    try:
        magic, dataset_id, count, digest, _ = text.decode("ascii").split()
        position = Position(dataset_id=dataset_id, count=int(count), digest=digest)
    except (UnicodeDecodeError, ValueError):
        return None
    return _remember(text, position) if magic == _MAGIC and position.line() == text else None


def _remember(text: bytes, position: Position) -> Position:
    if len(_lines) >= _MOST_LINES:
        _lines.clear()
    _lines[text] = position
    return position


def _read(path: str, name: str, file: int) -> bytes:
    try:
        if stat.S_ISREG(os.fstat(file).st_mode):
            return os.pread(file, 2 * LENGTH + 1, 0)
    except OSError:
        raise _unread(path, name) from None
    raise damaged(path, name)


def close(file: int) -> None:
    """Close a file; whatever the system says to it, it is closed, and what had to be durable was synced before."""
    with suppress(OSError):
        os.close(file)


def _write(path: str, name: str, file: int, position: Position, lines: tuple[int, ...], damaged: bool) -> None:
    text = position.line()
    _remember(text, position)  # it is read next
    try:
        for line in lines:
            done = 0
            while done < LENGTH:
                done += os.pwrite(file, text[done:], line * LENGTH + done)
        if damaged and os.fstat(file).st_size > 2 * LENGTH:  # what is left of a longer one
            os.ftruncate(file, 2 * LENGTH)
        _sync(file)
    except OSError:
        raise _unwritten(path, name) from None


def _unread(path: str, name: str) -> LedgerError:
    return LedgerError("B207", f'the anchor "{name}" cannot be read. Check its permissions and the disk.', path=path)


def _unwritten(path: str, name: str) -> LedgerError:
    return LedgerError("B207", f'the anchor "{name}" cannot be written. Check its permissions and the disk.', path=path)


def _checksum(text: str) -> str:
    return hashlib.sha256(text.encode("ascii")).hexdigest()[:16]


_sync = getattr(os, "fdatasync", os.fsync)


def _lock(path: str, file: int, operation: int) -> None:
    """Take the lock of the open file; it excludes other threads and other processes alike."""
    deadline = time.monotonic() + LOCK_SECONDS
    while True:
        try:
            return fcntl.flock(file, operation | fcntl.LOCK_NB)
        except OSError:
            if time.monotonic() > deadline:
                raise LedgerError("B206", f'the anchor of the ledger "{path}" is locked.', path=path) from None
            time.sleep(0.0005)


def _unlock(file: int) -> None:
    """Give the lock up, which a fork may have inherited; without one nothing happens."""
    with suppress(OSError):
        fcntl.flock(file, fcntl.LOCK_UN)

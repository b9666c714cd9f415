"""A file that is not there yet: written whole or not at all."""

from __future__ import annotations

import errno
import os
import secrets
from contextlib import suppress

from duckdp.errors import ParameterError


def write_new(path: str | os.PathLike[str], text: str, *, private: bool = False) -> None:
    """Write a file that does not exist yet, whole or not at all; ``private``: only the present user can read it.

    Raises:
        ParameterError: P107, no path. OSError: the file exists or cannot be written.
    """
    if not isinstance(path, (str, os.PathLike)) or "\x00" in os.fspath(path):
        raise ParameterError("P107", "path", path, "must be the path of a file to write.")
    target = os.fspath(path)
    if os.path.lexists(target):
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), target)
    beside = f"{target}.{secrets.token_hex(8)}.part"
    try:
        with open(beside, "x", encoding="utf-8", opener=_own if private else None) as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        _place(beside, target)
    finally:
        with suppress(OSError):
            os.unlink(beside)


def _own(path: str, flags: int) -> int:
    """Open a file that nobody else can read, from its first moment on."""
    return os.open(path, flags, 0o600)


def _place(beside: str, target: str) -> None:
    """Give a finished file its name, which must be free: a link refuses a taken one at that very moment."""
    try:
        os.link(beside, target)
    except FileExistsError:
        raise
    except OSError:  # a file system without links
        os.replace(beside, target)

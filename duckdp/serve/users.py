"""Who may log in: names and SCRAM verifiers, in a file beside the ledger that its owner alone can read.

A user is the analyst of the same name: what they may ask is said by grants, not here. The file is replaced whole, by
renaming, so that a reader finds one state or the next; whoever changes it holds the lock of the file beside it, so that
of two changes at once none is lost.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import secrets
from base64 import b64decode, b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from duckdp.errors import LedgerError, ParameterError
from duckdp.serve.scram import Verifier, make_verifier, nobodys, read_verifier

SUFFIX = ".users"
LEAST = 8  # characters of a password
_NAME = re.compile(r"[^\x00-\x1f\x7f]{1,63}\Z")


class Users:
    """The users of one ledger.

    Args:
        path: of the file; it need not be there yet.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self._seen: tuple[int, int, int] | None = None
        self._users: dict[str, str] = {}
        self._secret = secrets.token_bytes(32)

    def names(self) -> list[str]:
        """The names of all users, in order."""
        self._read()
        return sorted(self._users)

    def add(self, name: str, password: str) -> None:
        """Let somebody in by a password, or give who is there already another one.

        Raises:
            ParameterError: P105, P107.
        """
        if not isinstance(name, str) or not _NAME.match(name):
            raise ParameterError("P105", "user", name, "must be a name of at most 63 characters.")
        if not isinstance(password, str) or len(password) < LEAST or "\0" in password:
            raise ParameterError("P107", "password", "...", f"must have at least {LEAST} characters.")
        verifier = str(make_verifier(password))
        with self._changing():
            self._users[name] = verifier

    def remove(self, name: str) -> None:
        """Let somebody in no more; the server ends their connections within seconds.

        Raises:
            ParameterError: P107, there is no such user.
        """
        with self._changing():
            if self._users.pop(name, None) is None:
                raise ParameterError("P107", "user", name, "is not a user here.")

    def verifier(self, name: str) -> tuple[Verifier, bool]:
        """What to check a password of that name with, and whether there is such a user.

        A name that nobody has gets a verifier too, the same each time, so that it is answered alike.
        """
        self._read()
        stored = self._users.get(name)
        return (nobodys(name, self._secret), False) if stored is None else (read_verifier(stored), True)

    @contextmanager
    def _changing(self) -> Iterator[None]:
        """The users as they are now, to be changed by nobody else meanwhile; written when it ends well."""
        try:
            lock = os.open(self.path.with_name(f"{self.path.name}.lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError:
            raise LedgerError("B207", "the file of users cannot be written.", path=str(self.path)) from None
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            self._seen = None
            self._read()
            yield
            self._write()
        finally:
            os.close(lock)  # and with it the lock

    def _read(self) -> None:
        try:
            status = self.path.stat()
            seen = (status.st_mtime_ns, status.st_size, status.st_ino)
            if seen == self._seen:
                return
            raw = json.loads(self.path.read_text(encoding="utf-8"))
            users = {str(k): str(v) for k, v in raw["users"].items()}
            for stored in users.values():
                read_verifier(stored)
            self._users, self._secret, self._seen = users, b64decode(raw["secret"], validate=True), seen
        except FileNotFoundError:
            self._users, self._seen = {}, None
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            raise LedgerError(
                "B207",
                "the file of users cannot be read. Restore it, or remove it and add them again.",
                path=str(self.path),
            ) from None

    def _write(self) -> None:
        text = json.dumps({"secret": b64encode(self._secret).decode(), "users": self._users}, indent=1)
        beside = self.path.with_name(f"{self.path.name}.{secrets.token_hex(4)}")
        try:
            descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with open(descriptor, "w", encoding="utf-8") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            os.replace(beside, self.path)
        except OSError:
            beside.unlink(missing_ok=True)
            raise LedgerError("B207", "the file of users cannot be written.", path=str(self.path)) from None

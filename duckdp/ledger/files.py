"""The ledger's file before SQLite opens it: where it lies, that it exists, that it is ours alone."""

from __future__ import annotations

import os
import re
import stat
from contextlib import suppress
from pathlib import Path

from duckdp.arguments import path_text
from duckdp.errors import LedgerError, ParameterError
from duckdp.ledger import anchor, connections, served, served_schema
from duckdp.ledger.addresses import canonical, is_address, require_path

# File locks and shared memory, on which SQLite's WAL mode relies, do not hold across machines.
NETWORK = frozenset(
    {"nfs", "nfs4", "cifs", "smb", "smb2", "smb3", "smbfs", "ncpfs", "afs", "ceph", "lustre", "gpfs", "beegfs"}
    | {"glusterfs", "davfs", "davfs2", "sshfs", "s3fs", "rclone", "gcsfuse", "blobfuse", "goofys"}
)

_OCTAL = re.compile(r"\\([0-7]{3})")  # /proc/mounts writes a space as \\040


def default_ledger(data: object, ledger: str | os.PathLike[str] | None) -> str:
    """The ledger file to use: the one named, else the one beside a DuckDB file."""
    if ledger is not None:
        return path_text(ledger, "ledger")
    beside = isinstance(data, (str, os.PathLike)) and not path_text(data, "data").startswith("spark://")
    if beside and not path_text(data, "data").endswith(".parquet"):
        return os.path.splitext(path_text(data, "data"))[0] + ".ledger"
    raise ParameterError(
        "P107", "ledger", None, 'must name the file of budgets and charges, for example "clinic.ledger".'
    )


def resolve(path: object, name: str = "ledger") -> str:
    """The one name of the ledger: absolute and without symbolic links, so that it has one anchor and one journal.

    An address (``addresses``) has one form.

    Raises:
        ParameterError: P107, not a path in Unicode, or an address of another form.
    """
    if name == "ledger":
        if is_address(given := path_text(path, name)):
            return canonical(given)
        require_path(given)
    return path_text(os.path.realpath(path_text(path, name)), name)


def refuse_network(path: str) -> None:
    """Refuse a path on a network file system; whose locks keep curators apart is the server's to say.

    Raises:
        LedgerError: B205.
    """
    if is_address(path):
        return
    try:
        mounts = Path("/proc/mounts").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return  # not Linux: unknown
    kind = file_system(path, mounts)
    if kind.removeprefix("fuse.") in NETWORK:
        raise LedgerError(
            "B205",
            f'the ledger "{path}" would lie on the network file system {kind}, whose locks do not keep two '
            "processes apart. Keep it on a local disk of the machine that runs the curator.",
            path=path,
        )


def file_system(path: str, mounts: str) -> str:
    """The type of the file system that holds ``path``, from the text of /proc/mounts; "" if unknown."""
    best, kind = "", ""
    for line in mounts.splitlines():
        fields = line.split()
        if len(fields) < 3:
            continue
        point = _OCTAL.sub(lambda found: chr(int(found[1], 8)), fields[1]).rstrip("/")
        if (path == point or path.startswith(point + "/")) and len(point) >= len(best):
            best, kind = point, fields[2]
    return kind


def is_there(path: str) -> bool:
    """Whether there is a ledger, or anything, in that place.

    Raises:
        LedgerError: B213, B214, of a server.
    """
    if not is_address(path):
        return os.path.exists(path)
    with connections.translated(path):
        connection = served.Connection(path)
        try:
            return served_schema.is_there(connection)
        finally:
            connection.close()


def wanted(path: str, *, create: bool) -> bool:
    """Is the file missing, and to be made?

    Raises:
        LedgerError: B203, the ledger is gone but its anchor is there; B207, it is missing or not a file.
    """
    mode = _mode(path)
    if mode is not None and stat.S_ISREG(mode):
        return False
    if mode is not None or not create:
        what = "does not exist" if mode is None else "is not a file"
        raise LedgerError("B207", f'the ledger "{path}" {what}. Give the path of a ledger.', path=path)
    known = anchor.read(path)
    if known is not None:
        raise anchor.rolled_back(path, f"the ledger is missing, its anchor knows of {known.count} entries,")
    if os.path.lexists(path + anchor.SUFFIX):
        raise anchor.rolled_back(path, "the ledger is missing, its anchor was emptied,")
    if any(os.path.lexists(path + suffix) for suffix in ("-wal", "-shm", "-journal")):
        raise anchor.rolled_back(path, "the ledger is missing, its journal is there,")
    return True


def _mode(path: str) -> int | None:
    """What lies there; None for nothing.

    Raises:
        LedgerError: B207, the system does not say.
    """
    try:
        return os.stat(path).st_mode
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError:
        raise _unseen(path) from None


def make(draft: str, path: str) -> None:
    """Create an empty file for the owner's eyes only.

    Args:
        draft: its name.
        path: which it gets once it is whole.

    Raises:
        LedgerError: B207, also if it exists.
    """
    try:
        file = os.open(draft, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except OSError:
        raise _not_made(path) from None
    with suppress(OSError):  # it is closed, whatever the system says to it
        os.close(file)


def publish(draft: str, path: str) -> None:
    """Give a finished file its name at one stroke, unless another process was faster.

    Raises:
        LedgerError: B207.
    """
    try:
        os.link(draft, path)
        anchor.sync_folder(path)
    except FileExistsError:
        return
    except OSError:
        raise _not_made(path) from None


def discard(draft: str) -> None:
    """Remove a draft and what SQLite keeps beside it; what cannot be removed stays."""
    for suffix in ("", "-wal", "-shm", "-journal"):
        with suppress(OSError):
            os.unlink(draft + suffix)


def identity(path: str) -> tuple[int, int]:
    """Device and inode: another pair means that another file took the ledger's place.

    Raises:
        LedgerError: B203; B207, the system does not say.
    """
    try:
        found = os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        raise anchor.rolled_back(path, "the ledger was removed while it was open") from None
    except OSError:
        raise _unseen(path) from None
    return found.st_dev, found.st_ino


def _not_made(path: str) -> LedgerError:
    return LedgerError(
        "B207", f'"{path}" cannot be made there. Check the folder, its permissions and the disk.', path=path
    )


def _unseen(path: str) -> LedgerError:
    return LedgerError(
        "B207", f'the ledger "{path}" cannot be looked at. Check its permissions and the disk.', path=path
    )

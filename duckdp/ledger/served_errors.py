"""What is told of a server that fails: never the driver's words, which may quote what the ledger holds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from duckdp.errors import DuckDPError, InternalError, LedgerError
from duckdp.ledger import chain
from duckdp.ledger.storage import Failure

OLDEST = 130000  # version of the server
POOLED = (
    "a pooler before it gives a session for one transaction only, so the locks, and what was set for durable commits, "
    "are of another session. Connect to the server itself, or by pool_mode = session"
)


def missing(found: Sequence[Any]) -> str:
    """What a server lacks that a ledger needs."""
    fsync, commits, encoding, standby, version, pages = found
    if standby:
        return "it is a standby, which only reads. Name the primary, or give target_session_attrs=read-write"
    if fsync != "on" or pages != "on":
        return "its fsync or full_page_writes is off, so a charge that was made may be lost. Set both to on"
    if commits != "on":
        return "its synchronous_commit cannot be set to on, so a charge that was made may be lost"
    if encoding != "UTF8":
        return "the database's encoding is not UTF8. Make a database with ENCODING 'UTF8'"
    return "" if version >= OLDEST else "it is older than PostgreSQL 13. Upgrade it"


def unreached(path: str) -> LedgerError:
    """The error for a server that cannot be connected to."""
    return LedgerError(
        "B213",
        f'the server of the ledger "{path}" cannot be reached, or does not let this user in. Check the address; that '
        "the server runs, has this database and takes connections from here; and the user's password in PGPASSFILE, a "
        "service or PGPASSWORD.",
        path=path,
    )


def lost(path: str) -> LedgerError:
    """The error for a transaction that ended with its connection, and was not made."""
    return LedgerError(
        "B213",
        f'the connection to the server of the ledger "{path}" was lost; what was under way was undone. Ask again.',
        path=path,
    )


def unknown(path: str) -> LedgerError:
    """The error for a commit of which nobody can tell whether it was made."""
    return LedgerError(
        "B213",
        f'the connection to the server of the ledger "{path}" was lost while a change was being made durable, and the '
        "server stays away: whether it was made is not known, and nothing was given out. Ask again when the server is "
        "back: what was charged is then taken over and not charged again; an act of the owner stands in the log if it "
        "was made.",
        path=path,
    )


def unfit(path: str, found: str) -> LedgerError:
    """The error for a server that does not hold what a ledger needs."""
    return LedgerError("B214", f'the server of the ledger "{path}" is not fit to keep it: {found}.', path=path)


def told(failure: Failure, path: str) -> DuckDPError:
    """The error for what a server refused."""
    state = failure.state
    if failure.told is not None:
        return failure.told
    if not state:
        return lost(path)
    if state in ("40001", "40P01", "55P03"):  # serialization, deadlock, a lock that is held for too long
        return LedgerError("B206", f'the ledger "{path}" is in use by another process. Try again.', path=path)
    if state in ("23505", "23503"):  # what is entered is proved to be new, and what it refers to was read
        return chain.damaged(path, "its tables contradict each other")
    if state == "22012":  # a change that is of one row (Tx.change) was of none
        return chain.damaged(path, "a row of it is lost")
    if state.startswith(("23", "22")) or state == "DDP01":
        return InternalError(f'the ledger "{path}" refused an inconsistent entry; nothing was written.')
    if state in ("42501", "25006"):
        what = "this user may not read and write it, or the server only reads. Give the user the schema, or ask as its"
        return unfit(path, f"{what} owner")
    if state.startswith("42") or state in ("XX001", "XX002", "3F000"):
        return chain.damaged(path, "its structure is broken")
    if state in ("53100", "53200"):
        what = "the disk of its server is full" if state == "53100" else "its server has no memory left"
        return LedgerError("B207", f'the ledger "{path}" cannot be written: {what}. Free some.', path=path)
    return unusable(path)


def unusable(path: str) -> LedgerError:
    """The error for a server that does not say more."""
    return LedgerError(
        "B207", f'the ledger "{path}" cannot be read or written. Look into the log of its server.', path=path
    )


def not_a_ledger(path: str) -> LedgerError:
    """The error for a schema that is something else."""
    return LedgerError(
        "B207", f'"{path}" is not a ledger. Give the address of one, or of a schema that is not there.', path=path
    )

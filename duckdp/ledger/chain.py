"""The chain of events: everything that changed what the ledger says.

hash_i = sha256(hash_(i-1), event_i), hash_0 from the data set's id and salt. A charge and a release enter by the digest
of their rows, so nothing in the history can change without breaking the chain, and nothing can be lost at its end
without falling behind the anchor. It detects accidents and rollbacks; whoever may write both files can forge both.
The data set's sealed row repeats the head, so that it need not be looked for.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from duckdp.errors import BudgetError, DuckDPError, LedgerError
from duckdp.ledger import schema
from duckdp.ledger.addresses import is_address
from duckdp.ledger.seals import Damage
from duckdp.ledger.texts import ordered, plain
from duckdp.ledger.tx import Tx

# The columns of a charge that never change, in the order in which they are hashed.
CHARGE_COLUMNS = (
    *("id", "analyst", "key", "kind", "mechanism", "parameters", "statement"),
    *("epsilon_nano", "delta_atto", "rho_pico", "delta_zcdp_atto", "primary_cost", "secondary_cost"),
    *("data_version", "catalog_version", "at"),
)
BUDGET_COLUMNS = ("epsilon_nano", "delta_atto", "neighbours", "accountant", "primary_limit", "secondary_limit")
# What may be written into a backup: how it comes to replace its original.
OF_BACKUPS = ("copy", "restoring", "restored", "repair_anchor")
CAP_COLUMNS = ("epsilon_nano", "delta_atto", "primary_limit", "secondary_limit")
MONTH_COLUMNS = ("month_epsilon_nano", "month_delta_atto", "primary_month_limit", "secondary_month_limit")
# Events that are no actions of the owner, and so not in the log.
MACHINE = frozenset(
    {
        *("charge", "redeem", "stage", "release", "finish", "fail", "name", "free", "seal", "hold"),
        *("reserve", "unreserve", "turn", "step", "ended"),
    }
)
#: How the mark begins by which a ledger says that it goes on elsewhere; any other mark is of a backup.
MOVED = "moved to "
COLUMNS = "seq, at, kind, subject, detail, reason, hash"
RECENT = 1000  # links that are checked at each opening


def now() -> str:
    """The time as it is stored: UTC, whole seconds."""
    return _shown(int(time.time()))


@lru_cache(maxsize=1)
def _shown(seconds: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))


def append(
    tx: Tx, kind: str, subject: str = "", detail: dict[str, Any] | None = None, reason: str | None = None
) -> None:
    """Append an event to the chain; an action of the owner unless it is one of :data:`MACHINE`."""
    dataset = tx.dataset()
    if dataset["backup"] is not None and kind not in OF_BACKUPS:
        raise is_backup(dataset["backup"])
    row = (dataset["events"] + 1, now(), kind, subject, ordered(detail or {}), reason)
    head = link(dataset["head"] or genesis(dataset), row)
    action = None if kind in MACHINE else dataset["actions"] + 1
    tx.later(
        "INSERT INTO event (seq, at, kind, subject, detail, reason, hash, action, version) "
        "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
        *row,
        head,
        action,
        schema.SEALED,
    )
    tx.change_dataset(events=row[0], head=head, actions=action or dataset["actions"])


def digest(*values: object) -> str:
    """sha256 of a list of texts and integers, in hex."""
    return hashlib.sha256(plain(values).encode()).hexdigest()


def stored_digest(*values: object) -> str:
    """:func:`digest` of what was read.

    Raises:
        Damage: it is of a type that is never written.
    """
    try:
        return digest(*values)
    except TypeError:
        raise Damage("a value has another type than was written") from None


def charge_digest(row: Mapping[str, Any]) -> str:
    """Digest of what never changes in a charge."""
    return digest(*(row[column] for column in CHARGE_COLUMNS))


def damaged(path: str, found: str) -> LedgerError:
    """The error for a ledger that contradicts itself."""
    files = "state of its database" if is_address(path) else "ledger together with its -wal and anchor files"
    return LedgerError(
        "B202",
        f'the ledger "{path}" is damaged: {found}. Put back the newest {files}; if that is gone for good, put a backup '
        "in its place, with its anchor, and call Ledger.put_into_service; or begin a new data set whose privacy units "
        "are disjoint from this one's.",
        path=path,
    )


def is_moved(mark: str | None) -> bool:
    """Whether what a data set says of itself is that it goes on elsewhere."""
    return mark is not None and mark.startswith(MOVED)


def is_backup(mark: str | None) -> DuckDPError:
    """The error for whatever a backup does not do, or a ledger that was moved."""
    if mark is not None and is_moved(mark):
        where = mark.removeprefix(MOVED)
        return LedgerError(
            "B215",
            f'this ledger was moved to "{where}" and is closed for good: what is left is spent there. Open that: '
            f'ledger="{where}".',
            path=where,
        )
    return BudgetError(
        "B210",
        "this ledger is a backup, which answers nothing and stays as it is. If the original is gone for good, the data "
        "owner puts it into service with Ledger.put_into_service.",
    )


def is_unfinished(path: str) -> LedgerError:
    """The error for a ledger on a server that is not in service yet."""
    return LedgerError(
        "B215",
        f'the ledger "{path}" was not moved there to the end and answers nothing yet. Give the same command again: '
        "duckdp ledger move.",
        path=path,
    )


def check_recent(tx: Tx) -> None:
    """Check the last links of the chain, which must end where the data set's row says.

    Raises:
        Damage: an entry is missing or was altered.
    """
    dataset = tx.dataset()
    rows = tx.rows(f"SELECT {COLUMNS} FROM event ORDER BY seq DESC LIMIT {RECENT + 1}")
    count, head = dataset["events"], dataset["head"]
    for row, before in zip(rows, [*rows[1:], None], strict=True):
        if row["seq"] != count or row["hash"] != head:
            raise Damage(f"entry {count} of its history was altered")
        if before is None and count > 1 and len(rows) > RECENT:
            return
        count, head = count - 1, genesis(dataset) if before is None else before["hash"]
        if not is_link(head, row):
            raise Damage(f"entry {count + 1} of its history was altered")
    if count or not rows:
        raise Damage("the beginning of its history is lost")


def hash_at(tx: Tx, seq: int) -> str:
    """The hash after an entry.

    Raises:
        Damage: it is not there.
    """
    row = tx.one("SELECT hash FROM event WHERE seq = ?", seq)
    if row is None:
        raise Damage("an entry of its history is lost")
    return str(row["hash"])


def is_link(before: str, row: Sequence[Any]) -> bool:
    """Whether an event (seq to reason, and hash) follows on a hash."""
    try:
        return bool(row[6] == link(before, tuple(row)[:6]))
    except TypeError:
        return False


def vouches(digest_of_it: str | None, payload: object) -> bool:
    """Whether a payload is the one whose digest was kept."""
    try:
        return digest_of_it is not None and digest(payload) == digest_of_it
    except TypeError:
        return False


def genesis(dataset: Mapping[str, Any]) -> str:
    """The hash before the first event."""
    return digest("duckdp ledger", dataset["id"], dataset["salt"].hex())


def link(before: str, row: tuple[Any, ...]) -> str:
    """The hash of an event after another's."""
    return digest(before, *row)

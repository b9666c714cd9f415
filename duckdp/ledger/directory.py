"""What there is, by name: a lookup that finds nothing proves it, and a listing is whole or damaged.

The rows of the table directory are in the order of their names (bytes), and each holds the next one's name. A lookup
reads the row with the greatest name that is not beyond the one that is looked for, and checks its seal.

Claim:        what :func:`find` says is what the rows that were entered say, or it raises Damage.
Assumes:      no seal fits a row that was not written by this ledger's transactions, as it stands (see ``seals``); a row
              that was written later replaced the one before it. (Where a disk keeps an old page and says that it wrote
              the new one, the UNIQUE indexes of the tables refuse what is entered again, and verify finds it.)
Proof sketch: a row (name, next) is only ever written such that nothing lies between: at an entry the row that spans
              the gap is checked and split. So a sealed row with name < wanted < next shows that the wanted one is not
              there, whatever page a damaged tree led to; one with name = wanted shows that it is.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

from duckdp.ledger.seals import Damage, Row
from duckdp.ledger.tx import Tx

FIRST = b""  # before all names
END = b""  # the next of the last


def analyst(name: str) -> bytes:
    """The entry of an analyst."""
    return b"a" + _text(name)


def charge(salt: bytes, analyst: str, key: str) -> bytes:
    """The entry of a question: a digest, since most entries are questions."""
    return b"c" + hashlib.blake2b(_text(f"{analyst} {key}"), digest_size=16, key=salt).digest()


def named(analyst: str, name: str = "") -> bytes:
    """The entry of an analyst's own object; without a name, what all of them begin with."""
    return b"o" + _text(f"{analyst} {name}")


def shared(reader: str, name: str = "") -> bytes:
    """The entry of an object that a reader was given."""
    return b"s" + _text(f"{reader} {name}")


def team(name: str = "") -> bytes:
    """The entry of a team."""
    return b"g" + _text(name)


def table(name: str = "") -> bytes:
    """The entry of a protected table."""
    return b"t" + _text(name)


def begin(tx: Tx) -> None:
    """Make a directory in which nothing is listed."""
    tx.insert("directory", name=FIRST, next=END, subject=0)


def find(tx: Tx, name: bytes) -> int | None:
    """What a name stands for; None if it is proved that there is none.

    Raises:
        Damage.
    """
    row = _spanning(tx, name)
    return int(row["subject"]) if row["name"] == name else None


def enter(tx: Tx, name: bytes, subject: int) -> None:
    """Enter a name that is not there.

    Raises:
        Damage: it is.
    """
    before = _spanning(tx, name)
    if before["name"] == name:
        raise Damage("a name is entered twice")
    tx.insert("directory", name=name, next=before["next"], subject=subject)
    tx.spanning = tx.change("directory", before, ("name",), next=name)


def remove(tx: Tx, name: bytes) -> None:
    """Remove a name that is there.

    Raises:
        Damage: it is not.
    """
    row = _spanning(tx, name)
    found = tx.one("SELECT * FROM directory WHERE name < ? ORDER BY name DESC LIMIT 1", name)
    before = None if found is None else tx.checked("directory", found)
    if row["name"] != name or before is None or before["next"] != name:
        raise Damage("the directory is broken")
    tx.spanning = tx.change("directory", before, ("name",), next=row["next"])
    if tx.run("DELETE FROM directory WHERE name = ?", name) != 1:
        raise Damage("a row of directory is lost")


def listed(tx: Tx, prefix: bytes, after: bytes = b"", limit: int | None = None) -> list[tuple[bytes, int]]:
    """Names that begin with a prefix and are longer, in order, each without it and with what it stands for.

    Args:
        tx: the transaction.
        prefix: of all that are wanted.
        after: only those that come later than this, prefix left out.
        limit: at most so many.

    Raises:
        Damage: one is missing or altered.
    """
    found: list[tuple[bytes, int]] = []
    for row in _walk(tx, prefix + after):
        if not row["name"].startswith(prefix) or (limit is not None and len(found) >= limit):
            break
        found.append((row["name"][len(prefix) :], int(row["subject"])))
    return found


def _walk(tx: Tx, start: bytes) -> Iterator[Row]:
    """All entries after a name, in order; each is the one that its forerunner names."""
    row = _spanning(tx, start)
    while row["next"] != END:
        row = _spanning(tx, wanted := row["next"])
        if row["name"] != wanted:
            raise Damage("the directory is broken")
        yield row


def _spanning(tx: Tx, name: bytes) -> Row:
    """The row of a name, or of the last one before it."""
    row = tx.spanning
    if row is not None and _spans(row, name):
        return row
    found = tx.one("SELECT * FROM directory WHERE name <= ? ORDER BY name DESC LIMIT 1", name)
    if found is None:
        raise Damage("the directory is broken")
    row = tx.spanning = tx.checked("directory", found)
    if not _spans(row, name):
        raise Damage("the directory is broken")
    return row


def _spans(row: Row, name: bytes) -> bool:
    return bool(row["name"] <= name and (row["next"] == END or name < row["next"]))


def _text(name: str) -> bytes:
    return name.encode("utf-8", "surrogatepass")  # what is no Unicode is looked for like any other unknown name

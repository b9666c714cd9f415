"""Seal the rows of a ledger that is made, or of one that comes from a version before there were seals."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from itertools import chain as joined
from itertools import pairwise
from typing import Any

from duckdp.ledger import chain, directory
from duckdp.ledger.seals import Row, seal_of
from duckdp.ledger.storage import Stored
from duckdp.ledger.tx import Tx

_AT_ONCE = 1000  # rows


def begin(connection: Stored, dataset_id: str, salt: bytes, anchors: str | None = None) -> Tx:
    """Enter the data set's row into the empty tables of a new ledger; returns the transaction, which wants a flush."""
    connection.execute("INSERT INTO dataset (one, id, salt, anchor) VALUES (1, ?, ?, ?)", (dataset_id, salt, anchors))
    _seal_dataset(connection)
    tx = Tx(connection)
    directory.begin(tx)
    return tx


def seal_all(connection: sqlite3.Connection) -> None:
    """Seal every row of a ledger that was verified by the rules of its version, within the transaction that is open.

    What the chain did not say before (who holds a charge that has no release, which names there are) it says from here.
    """
    _seal_dataset(connection)
    tx = Tx(connection)
    _seal_analysts(tx)
    _seal_catalog(tx)
    for first in range(1, tx.dataset()["charges"] + 1, _AT_ONCE):
        _seal_charges(connection, tx, first)
    _fill_directory(connection, tx)
    chain.append(tx, "seal")
    for row in tx.rows("SELECT * FROM object ORDER BY analyst, name"):
        readers = tx.rows("SELECT reader FROM share WHERE analyst = ? AND name = ?", row["analyst"], row["name"])
        detail = {"name": row["name"], "charge": row["charge"], "readers": [found["reader"] for found in readers]}
        chain.append(tx, "name", row["analyst"], detail)
    for row in tx.rows("SELECT * FROM charge WHERE state <> 'released' ORDER BY id"):
        detail = {"charge": row["id"], "state": row["state"], "holder": row["holder"]}
        chain.append(tx, "hold", row["analyst"], detail)
    tx.flush()


def _seal_dataset(connection: Stored) -> None:
    def one(sql: str) -> Any:
        found = connection.execute(sql).fetchone()
        return None if found is None else found[0]

    source = one("SELECT detail FROM event WHERE kind = 'source' ORDER BY seq DESC LIMIT 1")
    values = {
        "events": one("SELECT max(seq) FROM event") or 0,
        "head": one("SELECT hash FROM event ORDER BY seq DESC LIMIT 1") or "",
        "actions": one("SELECT max(action) FROM event") or 0,
        "charges": one("SELECT max(id) FROM charge") or 0,
        "declared": one("SELECT count(*) FROM catalog"),
        "charged": one("SELECT coalesce((SELECT catalog_version FROM charge ORDER BY id DESC LIMIT 1), -1)"),
        "read": None if source is None else json.loads(source).get("read"),
    }
    row = {**dict(connection.execute("SELECT * FROM dataset").fetchone()), **values}
    values["seal"] = _seal(row["salt"], "dataset", row)
    columns = ", ".join(f"{column} = ?" for column in values)
    connection.execute(f"UPDATE dataset SET {columns}", tuple(values.values()))


def _seal_analysts(tx: Tx) -> None:
    for row in tx.rows("SELECT * FROM analyst"):
        (count,) = tx.rows("SELECT count(*) FROM charge WHERE analyst = ?", row["name"])[0]
        tx.change("analyst", dict(row), ("name",), charges=count)


def _seal_catalog(tx: Tx) -> None:
    dropped = tx.rows("SELECT subject, detail FROM event WHERE kind = 'drop_table'")
    ends = [(row["subject"], json.loads(row["detail"])["version"]) for row in dropped]
    rows = tx.rows("SELECT * FROM catalog ORDER BY version")
    ends.extend((row["name"], row["version"]) for row in rows)
    charged = [row[0] for row in tx.rows("SELECT DISTINCT catalog_version FROM charge")]
    for row in rows:
        until = min((end for name, end in ends if name == row["name"] and end > row["version"]), default=None)
        was = any(row["version"] <= version and (until is None or version < until) for version in charged)
        tx.change("catalog", dict(row), ("version",), until=until, charged=int(was))


def _seal_charges(connection: sqlite3.Connection, tx: Tx, first: int) -> None:
    rows = tx.rows("SELECT * FROM charge WHERE id >= ? AND id < ? ORDER BY id", first, first + _AT_ONCE)
    salt, sealed = tx.dataset()["salt"], []
    for found in rows:
        row = dict(found)
        row["released"] = _digest_of(tx, "release", row["id"])
        row["finished"] = _digest_of(tx, "finished", row["id"])
        payloads = tx.rows("SELECT payload FROM stage WHERE charge = ? ORDER BY number", row["id"])
        row["stages"] = len(payloads)
        for (payload,) in payloads:
            row["staged"] = chain.digest(row["staged"], chain.digest(payload))
        seal = _seal(salt, "charge", row)
        sealed.append((row["released"], row["finished"], row["stages"], row["staged"], seal, row["id"]))
    connection.executemany(
        "UPDATE charge SET released = ?, finished = ?, stages = ?, staged = ?, seal = ? WHERE id = ?", sealed
    )


def _fill_directory(connection: sqlite3.Connection, tx: Tx) -> None:
    """Enter all names, in their order; they are sorted on the disk."""
    connection.execute("CREATE TEMP TABLE entry (name BLOB PRIMARY KEY, subject INTEGER) WITHOUT ROWID")
    salt = tx.dataset()["salt"]
    connection.executemany("INSERT INTO entry VALUES (?, ?)", _entries(connection, salt))
    entries = connection.execute("SELECT name, subject FROM entry ORDER BY name")
    ordered = joined([(directory.FIRST, 0)], (tuple(row) for row in entries), [(directory.END, 0)])
    rows = (
        (name, following, subject, seal_of(salt, "directory", (name, following, subject)))
        for (name, subject), (following, _) in pairwise(ordered)
    )
    connection.executemany("INSERT INTO directory (name, next, subject, seal) VALUES (?, ?, ?, ?)", rows)
    connection.execute("DROP TABLE entry")


def _entries(connection: sqlite3.Connection, salt: bytes) -> Iterator[tuple[bytes, int]]:
    for row in connection.execute("SELECT name FROM analyst"):
        yield directory.analyst(row["name"]), 0
    for row in connection.execute("SELECT name, version FROM catalog WHERE active = 1"):
        yield directory.table(row["name"]), row["version"]
    for row in connection.execute("SELECT id, analyst, key FROM charge"):
        yield directory.charge(salt, row["analyst"], row["key"]), row["id"]
    for row in connection.execute("SELECT analyst, name, charge FROM object"):
        yield directory.named(row["analyst"], row["name"]), row["charge"]
    for row in connection.execute(
        "SELECT share.name, share.reader, object.charge FROM share JOIN object USING (analyst, name)"
    ):
        yield directory.shared(row["reader"], row["name"]), row["charge"]


def _digest_of(tx: Tx, table: str, charge_id: int) -> str | None:
    row = tx.one(f"SELECT payload FROM {table} WHERE charge = ?", charge_id)
    return None if row is None else chain.digest(row["payload"])


def _seal(salt: bytes, table: str, row: Row) -> bytes:
    return seal_of(salt, table, [row[column] for column in row if column != "seal"])

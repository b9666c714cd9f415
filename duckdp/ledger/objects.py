"""Declarations, the source, and named objects. All functions run within a transaction."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping

from duckdp.errors import CatalogError, ParameterError
from duckdp.ledger import budgets, chain
from duckdp.ledger.tx import Tx
from duckdp.ledger.types import DeclarationRow, ObjectRow, Review, check_name, check_reason

# A name is found among the analyst's own objects first, then among those shared with the analyst.
_VISIBLE = (
    "SELECT object.analyst AS owner, object.name, object.kind, object.charge, charge.at, charge.state, "
    "object.analyst <> ?1 AS is_shared FROM object JOIN charge ON charge.id = object.charge "
    "WHERE object.analyst = ?1 OR EXISTS (SELECT 1 FROM share WHERE share.analyst = object.analyst "
    "AND share.name = object.name AND share.reader = ?1)"
)


def save_tables(tx: Tx, declared: Mapping[str, str], review: Review | None, reason: str | None) -> int:
    """See :meth:`duckdp.ledger.Ledger.save_tables`."""
    if reason is not None:
        check_reason(reason)
    changes = {} if review is None else review(budgets.state(tx), declarations(tx))
    for name, declaration in declared.items():
        if not name or len(name) > 1000:
            raise ParameterError("P107", "name", name, "must be the table's name.")
        if tables(tx).get(name) == declaration:
            continue
        version = _next_catalog(tx)
        tx.run("UPDATE catalog SET active = 0 WHERE name = ?", name)
        tx.run(
            "INSERT INTO catalog (name, version, declaration, active) VALUES (?, ?, ?, 1)", name, version, declaration
        )
        detail = {"version": version, "digest": chain.digest(declaration)}
        if changes.get(name):
            detail["changes"] = list(changes[name])
        chain.append(tx, "table", name, detail, reason)
    return int(tx.dataset()["catalog_version"])


def drop_table(tx: Tx, name: str, reason: str) -> int:
    """See :meth:`duckdp.ledger.Ledger.drop_table`."""
    check_reason(reason)
    if name not in tables(tx):
        known = ", ".join(f'"{n}"' for n in list(tables(tx))[:20]) or "none"
        raise CatalogError("C101", f'table "{name}" is not protected here. Protected: {known}.', table=name)
    version = _next_catalog(tx)
    tx.run("UPDATE catalog SET active = 0 WHERE name = ?", name)
    chain.append(tx, "drop_table", name, {"version": version}, reason)
    return version


def tables(tx: Tx) -> dict[str, str]:
    """See :meth:`duckdp.ledger.Ledger.tables`."""
    rows = tx.rows("SELECT name, declaration FROM catalog WHERE active = 1 ORDER BY name")
    return {row["name"]: row["declaration"] for row in rows}


def declarations(tx: Tx) -> list[DeclarationRow]:
    """See :meth:`duckdp.ledger.Ledger.declarations`."""
    dropped = tx.rows("SELECT subject, detail FROM event WHERE kind = 'drop_table'")
    ends: dict[str, list[int]] = {}
    for row in dropped:
        ends.setdefault(row["subject"], []).append(int(json.loads(row["detail"])["version"]))
    rows = tx.rows("SELECT name, version, declaration, active FROM catalog ORDER BY version")
    for row in rows:
        ends.setdefault(row["name"], []).append(row["version"])
    charged = [int(row[0]) for row in tx.rows("SELECT DISTINCT catalog_version FROM charge")]
    found = []
    for row in rows:
        end = min((v for v in ends[row["name"]] if v > row["version"]), default=math.inf)
        found.append(
            DeclarationRow(
                name=row["name"], version=row["version"], declaration=row["declaration"], active=bool(row["active"]),
                charged=any(row["version"] <= c < end for c in charged),
            )
        )  # fmt: skip
    return found


def accept_source(tx: Tx, fingerprint: str, reason: str | None, read: str | None = None) -> int:
    """See :meth:`duckdp.ledger.Ledger.accept_source`."""
    dataset = tx.dataset()
    noted = {} if read is None else {"read": read}
    if dataset["source"] == fingerprint:
        version = int(dataset["data_version"])
        if read is not None and not was_read(tx, read):
            chain.append(tx, "source", detail={"version": version, "fingerprint": fingerprint, **noted})
        return version
    if dataset["source"] is not None and reason is None:
        raise CatalogError(
            "C104",
            "the source is not the one that was last accepted: its size, time or schema differs. If that is intended, "
            "call refresh with a reason; earlier charges stay spent.",
        )
    if reason is not None:
        check_reason(reason)
    version = int(dataset["data_version"]) + 1
    tx.run("UPDATE dataset SET source = ?, data_version = ?", fingerprint, version)
    chain.append(tx, "source", detail={"version": version, "fingerprint": fingerprint, **noted}, reason=reason)
    return version


def was_read(tx: Tx, mark: str) -> bool:
    """See :meth:`duckdp.ledger.Ledger.was_read`."""
    row = tx.one("SELECT detail FROM event WHERE kind = 'source' ORDER BY seq DESC LIMIT 1")
    return row is not None and json.loads(row["detail"]).get("read") == mark


def reserve(tx: Tx, analyst: str, name: str, kind: str, charge_id: int) -> None:
    """Give a name to the release of a charge, for ever.

    Raises:
        CatalogError: C111, the analyst used the name for another one.
    """
    held = charge_of(tx, analyst, name)
    if held is None:
        tx.run("INSERT INTO object (analyst, name, kind, charge) VALUES (?, ?, ?, ?)", analyst, name, kind, charge_id)
    elif held != charge_id:
        raise _taken(name) if tx.one("SELECT 1 FROM release WHERE charge = ?", held) else _pending(name, held)


def charge_of(tx: Tx, analyst: str, name: str) -> int | None:
    """The charge that holds an analyst's name."""
    row = tx.one("SELECT charge FROM object WHERE analyst = ? AND name = ?", analyst, name)
    return None if row is None else int(row["charge"])


def free(tx: Tx, analyst: str, name: str) -> None:
    """Take a name from a charge that will never have a release; who was to read that does not read the next."""
    tx.run("DELETE FROM share WHERE analyst = ? AND name = ?", analyst, name)
    tx.run("DELETE FROM object WHERE analyst = ? AND name = ?", analyst, name)


def objects(tx: Tx, analyst: str) -> list[ObjectRow]:
    """See :meth:`duckdp.ledger.Ledger.objects`."""
    budgets.require_open(tx, analyst)
    return [
        ObjectRow(
            name=row["name"],
            kind=row["kind"],
            owner=row["owner"],
            charge_id=row["charge"],
            ready=row["state"] == "released",
            at=row["at"],
        )
        for row in tx.rows(f"{_VISIBLE} ORDER BY is_shared, object.name, owner", analyst)
    ]


def find(tx: Tx, analyst: str, name: str) -> ObjectRow:
    """The object an analyst means by a name.

    Raises:
        CatalogError: C110, the same for unknown, somebody else's and not yet released.
    """
    for row in objects(tx, analyst):
        if row.name == name and row.ready:
            return row
    raise _unknown(name)


def share(tx: Tx, name: str, owner_analyst: str, with_analyst: str, reason: str | None) -> None:
    """See :meth:`duckdp.ledger.Ledger.share`."""
    check_name(name)
    budgets.find_analyst(tx, owner_analyst)
    budgets.find_analyst(tx, with_analyst)
    if reason is not None:
        check_reason(reason)
    if tx.one("SELECT 1 FROM object WHERE analyst = ? AND name = ?", owner_analyst, name) is None:
        raise _unknown(name)
    rows = tx.rows(f"SELECT owner FROM ({_VISIBLE}) WHERE name = ?2", with_analyst, name)
    if owner_analyst in {row["owner"] for row in rows}:
        return
    if rows:
        raise _taken(name)
    tx.run("INSERT INTO share (analyst, name, reader) VALUES (?, ?, ?)", owner_analyst, name, with_analyst)
    chain.append(tx, "share", name, {"owner": owner_analyst, "with": with_analyst}, reason)


def _next_catalog(tx: Tx) -> int:
    version = int(tx.dataset()["catalog_version"]) + 1
    tx.run("UPDATE dataset SET catalog_version = ?", version)
    return version


def _unknown(name: str) -> CatalogError:
    return CatalogError(
        "C110", f'"{name}" is unknown or belongs to somebody else. dp_summaries() lists what you can use.'
    )


def _pending(name: str, charge_id: int) -> CatalogError:
    return CatalogError(
        "C111",
        f'the name "{name}" is kept for charge {charge_id}, which has no release yet. Ask that question again, which '
        "costs nothing, or choose another name.",
    )


def _taken(name: str) -> CatalogError:
    return CatalogError("C111", f'the name "{name}" is taken. Choose another; a stored release is never overwritten.')

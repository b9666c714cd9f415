"""Declarations, the source, and named objects. All functions run within a transaction."""

from __future__ import annotations

from collections.abc import Mapping

from duckdp.errors import CatalogError, ParameterError
from duckdp.ledger import budgets, chain, directory, schema
from duckdp.ledger.seals import Damage, Row
from duckdp.ledger.tx import Tx
from duckdp.ledger.types import DeclarationRow, ObjectRow, Review
from duckdp.ledger.words import check_name, check_reason


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
        _end(tx, name, version)
        tx.insert("catalog", name=name, version=version, declaration=declaration, active=1)
        tx.change_dataset(declared=tx.dataset()["declared"] + 1)
        directory.enter(tx, directory.table(name), version)
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
    _end(tx, name, version)
    chain.append(tx, "drop_table", name, {"version": version}, reason)
    return version


def tables(tx: Tx) -> dict[str, str]:
    """See :meth:`duckdp.ledger.Ledger.tables`."""
    return {row["name"]: row["declaration"] for row in _in_force(tx)}


def declarations(tx: Tx) -> list[DeclarationRow]:
    """See :meth:`duckdp.ledger.Ledger.declarations`."""
    rows = [tx.checked("catalog", row) for row in tx.rows("SELECT * FROM catalog ORDER BY version")]
    if len(rows) != tx.dataset()["declared"]:
        raise Damage("a declaration is lost")
    return [
        DeclarationRow(
            name=row["name"],
            version=row["version"],
            declaration=row["declaration"],
            active=bool(row["active"]),
            charged=bool(row["charged"]),
        )
        for row in rows
    ]


def note_charged(tx: Tx) -> None:
    """Note that something is charged under the declarations that are in force."""
    version = tx.dataset()["catalog_version"]
    if tx.dataset()["charged"] != version:
        for row in _in_force(tx):
            tx.change("catalog", row, ("version",), charged=1)
        tx.change_dataset(charged=version)


def accept_source(tx: Tx, fingerprint: str, reason: str | None, read: str | None = None) -> int:
    """See :meth:`duckdp.ledger.Ledger.accept_source`."""
    dataset = tx.dataset()
    noted = {} if read is None else {"read": read}
    if dataset["source"] == fingerprint:
        version = int(dataset["data_version"])
        if read is not None and not was_read(tx, read):
            tx.change_dataset(read=read)
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
    tx.change_dataset(source=fingerprint, data_version=version, read=read)
    chain.append(tx, "source", detail={"version": version, "fingerprint": fingerprint, **noted}, reason=reason)
    return version


def was_read(tx: Tx, mark: str) -> bool:
    """See :meth:`duckdp.ledger.Ledger.was_read`."""
    return bool(tx.dataset()["read"] == mark)


def reserve(tx: Tx, analyst: str, name: str, kind: str, charge_id: int) -> bool:
    """Give a name to the release of a charge, for ever.

    Returns:
        Whether it had not got it before; then the chain must tell.

    Raises:
        CatalogError: C111, the analyst used the name for another one.
    """
    held = charge_of(tx, analyst, name)
    if held is None:
        values = (analyst, name, kind, charge_id, schema.SEALED)
        tx.later("INSERT INTO object (analyst, name, kind, charge, version) VALUES (?, ?, ?, ?, ?)", *values)
        directory.enter(tx, directory.named(analyst, name), charge_id)
    elif held != charge_id:
        raise _taken(name) if _charge(tx, held)["state"] == "released" else _pending(name, held)
    return held is None


def charge_of(tx: Tx, analyst: str, name: str) -> int | None:
    """The charge that holds an analyst's name."""
    return directory.find(tx, directory.named(analyst, name))


def free(tx: Tx, analyst: str, name: str) -> None:
    """Take a name from a charge that will never have a release; who was to read that does not read the next."""
    charge_id = charge_of(tx, analyst, name)
    readers = [
        row["reader"] for row in tx.rows("SELECT reader FROM share WHERE analyst = ? AND name = ?", analyst, name)
    ]
    for reader in readers:
        directory.remove(tx, directory.shared(reader, name))
    tx.later("DELETE FROM share WHERE analyst = ? AND name = ?", analyst, name)
    tx.later("DELETE FROM object WHERE analyst = ? AND name = ?", analyst, name)
    directory.remove(tx, directory.named(analyst, name))
    chain.append(tx, "free", analyst, {"name": name, "charge": charge_id, "readers": readers})


def objects(tx: Tx, analyst: str, limit: int | None = None, after: str = "") -> list[ObjectRow]:
    """See :meth:`duckdp.ledger.Ledger.objects`."""
    budgets.require_open(tx, analyst)
    owner, dot, name = after.partition(".")
    own = [] if dot else directory.listed(tx, directory.named(analyst), owner.encode(), limit)
    left = None if limit is None else limit - len(own)
    others = directory.listed(tx, directory.shared(analyst), name.encode(), left)
    return [_object(tx, name.decode(), charge_id) for name, charge_id in (*own, *others)]


def own(tx: Tx, analyst: str) -> list[ObjectRow]:
    """An analyst's own objects by name, whether their grant stands or not: for the owner."""
    found = directory.listed(tx, directory.named(analyst))
    return [_object(tx, name.decode(), charge_id) for name, charge_id in found]


def knows(tx: Tx, analyst: str, name: str) -> bool:
    """See :meth:`duckdp.ledger.Ledger.knows`."""
    entries = (directory.named(analyst, name), directory.shared(analyst, name))
    return any(directory.find(tx, entry) is not None for entry in entries)


def find(tx: Tx, analyst: str, name: str) -> ObjectRow:
    """The object an analyst means by a name: one of their own, or else one that was shared with them.

    Raises:
        CatalogError: C110, the same for unknown, somebody else's and not yet released.
    """
    budgets.require_open(tx, analyst)
    for entry in (directory.named(analyst, name), directory.shared(analyst, name)):
        charge_id = directory.find(tx, entry)
        if charge_id is not None and (row := _object(tx, name, charge_id)).ready:
            return row
    raise _unknown(name)


def share(tx: Tx, name: str, owner_analyst: str, with_analyst: str, reason: str | None) -> None:
    """See :meth:`duckdp.ledger.Ledger.share`."""
    check_name(name)
    budgets.find_analyst(tx, owner_analyst)
    budgets.find_analyst(tx, with_analyst)
    if reason is not None:
        check_reason(reason)
    charge_id = charge_of(tx, owner_analyst, name)
    if charge_id is None:
        raise _unknown(name)
    known = [directory.find(tx, entry(with_analyst, name)) for entry in (directory.named, directory.shared)]
    if charge_id in known:
        return
    if known != [None, None]:
        raise _taken(name)
    tx.later("INSERT INTO share (analyst, name, reader) VALUES (?, ?, ?)", owner_analyst, name, with_analyst)
    directory.enter(tx, directory.shared(with_analyst, name), charge_id)
    chain.append(tx, "share", name, {"owner": owner_analyst, "with": with_analyst, "charge": charge_id}, reason)


def _next_catalog(tx: Tx) -> int:
    version = int(tx.dataset()["catalog_version"]) + 1
    tx.change_dataset(catalog_version=version)
    return version


def _in_force(tx: Tx) -> list[Row]:
    """The declarations in force, by name of the table."""
    rows = [tx.get("catalog", version=version) for _, version in directory.listed(tx, directory.table())]
    if any(row is None or not row["active"] for row in rows):
        raise Damage("a declaration is lost")
    return [row for row in rows if row is not None]


def _end(tx: Tx, name: str, version: int) -> None:
    """End the declaration of a table that is in force, if there is one."""
    standing = directory.find(tx, directory.table(name))
    if standing is not None:
        row = tx.get("catalog", version=standing)
        if row is None:
            raise Damage("a declaration is lost")
        tx.change("catalog", row, ("version",), active=0, until=version)
        directory.remove(tx, directory.table(name))


def _object(tx: Tx, name: str, charge_id: int) -> ObjectRow:
    row = _charge(tx, charge_id)
    ready = row["state"] == "released"
    return ObjectRow(
        name=name,
        kind=row["kind"],
        owner=row["analyst"],
        charge_id=charge_id,
        ready=ready,
        at=row["at"],
        statement=row["statement"],
        data_version=row["data_version"],
    )


def _charge(tx: Tx, charge_id: int) -> Row:
    row = tx.get("charge", id=charge_id)
    if row is None:
        raise Damage("a charge is lost")
    return row


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

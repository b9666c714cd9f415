"""Charges and the owner's actions, page by page. All functions run within a transaction.

What is listed is numbered without gaps, so that a page which misses a row shows it. A page is found by an index: its
cost does not grow with the ledger.
"""

from __future__ import annotations

from duckdp.core.types import Loss
from duckdp.ledger import caps, chain, objects
from duckdp.ledger import charges as stored
from duckdp.ledger.seals import Damage, Row
from duckdp.ledger.store import Store
from duckdp.ledger.tx import Tx
from duckdp.ledger.types import ChargeRow, Event, ObjectRow


class Listings:
    """The part of :class:`duckdp.ledger.Ledger` that lists charges and actions."""

    _store: Store

    def log(self, limit: int = 100, *, before: int | None = None) -> list[Event]:
        """The owner's last actions, newest first.

        Args:
            limit: at most so many.
            before: only actions with a smaller number, to go on from a page.
        """
        return self._store.read(lambda tx: log(tx, limit, before))

    def charges(
        self,
        analyst: str | None = None,
        *,
        limit: int | None = None,
        before: int | None = None,
        after: int | None = None,
    ) -> list[ChargeRow]:
        """The charges of one analyst or of all, oldest first.

        Args:
            analyst: whose.
            limit: at most so many, the newest of them, or with ``after`` the oldest; else all.
            before: only those with a smaller id, to go back from a page.
            after: only those with a larger id, to go on from a page; not together with ``before``.
        """
        return self._store.read(lambda tx: charges(tx, analyst, limit=limit, before=before, after=after))

    def count_charges(self, analyst: str | None = None) -> int:
        """How many charges one analyst has, or all together."""
        return self._store.read(lambda tx: count_charges(tx, analyst))

    def charge(self, charge_id: int) -> ChargeRow | None:
        """A charge by its id."""
        found = self.charges(limit=1, before=charge_id + 1) if charge_id > 0 else []
        return found[0] if found and found[0].id == charge_id else None

    def inventory(self) -> list[tuple[ObjectRow, list[str]]]:
        """All named summaries and synthetic tables, by analyst and name, each with who else may read it.

        For the owner: no grant is asked for, and those of revoked analysts are there.
        """
        return self._store.read(inventory)

    def payload(self, charge_id: int) -> str | None:
        """What a charge released, whoever's it is; None if it released nothing. For the owner, as :meth:`inventory`."""
        return self._store.give(lambda tx: payload(tx, charge_id))


def charges(
    tx: Tx, analyst: str | None, *, limit: int | None = None, before: int | None = None, after: int | None = None
) -> list[ChargeRow]:
    """See :meth:`duckdp.ledger.Ledger.charges`."""
    count, most = count_charges(tx, analyst), 2**62 if limit is None else limit
    reach = count if limit is None else limit
    number, who, values = ("id", "", ()) if analyst is None else ("number", "analyst = ? AND", (analyst,))
    select = f"FROM charge WHERE {who}"
    if after is None:
        before = tx.dataset()["charges"] + 1 if before is None else before
        next_one = tx.one(f"SELECT {number} AS number {select} id >= ? ORDER BY id LIMIT 1", *values, before)
        last = count if next_one is None else next_one["number"] - 1
        first = max(last - reach, 0) + 1
        found = tx.rows(f"SELECT * {select} id < ? ORDER BY id DESC LIMIT ?", *values, before, most)[::-1]
    else:
        forerunner = tx.one(f"SELECT {number} AS number {select} id <= ? ORDER BY id DESC LIMIT 1", *values, after)
        first = 1 if forerunner is None else forerunner["number"] + 1
        last = min(first + reach - 1, count)
        found = tx.rows(f"SELECT * {select} id > ? ORDER BY id LIMIT ?", *values, after, most)
    rows = [tx.checked("charge", row) for row in found]
    if [row[number] for row in rows] != list(range(first, last + 1)):
        raise Damage("a charge is lost")
    return [_charge_row(row) for row in rows]


def count_charges(tx: Tx, analyst: str | None) -> int:
    """How many charges an analyst has, or all together."""
    if analyst is None:
        return int(tx.dataset()["charges"])
    row = caps.look_up(tx, analyst)
    return 0 if row is None else int(row["charges"])


def log(tx: Tx, limit: int, before: int | None = None) -> list[Event]:
    """See :meth:`duckdp.ledger.Ledger.log`."""
    count = tx.dataset()["actions"]
    last = count if before is None else min(before - 1, count)
    rows = tx.rows(
        f"SELECT {chain.COLUMNS}, action FROM event WHERE action <= ? ORDER BY action DESC LIMIT ?", last, limit
    )
    if [row["action"] for row in rows] != list(range(last, max(last - limit, 0), -1)):
        raise Damage("an entry of the log is lost")
    for row in rows:
        hash_before = chain.genesis(tx.dataset()) if row["seq"] == 1 else chain.hash_at(tx, row["seq"] - 1)
        if not chain.is_link(hash_before, row) or row["kind"] in chain.MACHINE:
            raise Damage("an entry of the log was altered")
    names = [name for name in Event.__dataclass_fields__ if name != "number"]
    return [Event(number=row["action"], **{name: row[name] for name in names}) for row in rows]


def inventory(tx: Tx) -> list[tuple[ObjectRow, list[str]]]:
    """See :meth:`Listings.inventory`."""
    found = []
    for analyst in caps.all_analysts(tx):
        for row in objects.own(tx, analyst["name"]):
            asked = "SELECT reader FROM share WHERE analyst = ? AND name = ? ORDER BY reader"
            found.append((row, [r["reader"] for r in tx.rows(asked, row.owner, row.name)]))
    return found


def payload(tx: Tx, charge_id: int) -> str | None:
    """See :meth:`Listings.payload`."""
    known = type(charge_id) is int and 1 <= charge_id <= tx.dataset()["charges"]
    row = stored.by_id(tx, charge_id) if known else None
    return None if row is None or row["state"] != "released" else stored.release_of(tx, row).payload


def _charge_row(row: Row) -> ChargeRow:
    loss = Loss(
        epsilon_nano=row["epsilon_nano"],
        delta_atto=row["delta_atto"],
        rho_pico=row["rho_pico"],
        delta_zcdp_atto=row["delta_zcdp_atto"],
    )
    names = [name for name in ChargeRow.__dataclass_fields__ if name != "loss"]
    return ChargeRow(loss=loss, **{name: row[name] for name in names})

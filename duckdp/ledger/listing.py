"""Charges and the owner's actions, page by page. All functions run within a transaction.

What is listed is numbered without gaps, so that a page which misses a row shows it. A page is found by an index: its
cost does not grow with the ledger.
"""

from __future__ import annotations

from duckdp.core.types import Loss
from duckdp.ledger import caps, chain
from duckdp.ledger.seals import Damage, Row
from duckdp.ledger.tx import Tx
from duckdp.ledger.types import ChargeRow, Event


def charges(
    tx: Tx, analyst: str | None, *, limit: int | None = None, before: int | None = None, after: int | None = None
) -> list[ChargeRow]:
    """See :meth:`duckdp.ledger.Ledger.charges`."""
    count, most = count_charges(tx, analyst), -1 if limit is None else limit
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


def _charge_row(row: Row) -> ChargeRow:
    loss = Loss(
        epsilon_nano=row["epsilon_nano"],
        delta_atto=row["delta_atto"],
        rho_pico=row["rho_pico"],
        delta_zcdp_atto=row["delta_zcdp_atto"],
    )
    names = [name for name in ChargeRow.__dataclass_fields__ if name != "loss"]
    return ChargeRow(loss=loss, **{name: row[name] for name in names})

"""The chain of events: append to it, and check at opening that the tables say what it says.

hash_i = sha256(hash_(i-1), event_i), hash_0 from the data set's id and salt. A charge and a release enter by the digest
of their rows, so nothing in the history can change without breaking the chain, and nothing can be lost at its end
without falling behind the anchor. It detects accidents and rollbacks; whoever may write both files can forge both.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from duckdp.errors import BudgetError, LedgerError
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


def now() -> str:
    """The time as it is stored: UTC, whole seconds."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def append(
    tx: Tx, kind: str, subject: str = "", detail: dict[str, Any] | None = None, reason: str | None = None
) -> None:
    """Append an event to the chain."""
    head, dataset = tx.head(), tx.dataset()
    if dataset["backup"] is not None and kind not in OF_BACKUPS:
        raise is_backup()
    before = head.digest or _genesis(dataset)
    row = (head.count + 1, now(), kind, subject, json.dumps(detail or {}, sort_keys=True), reason)
    tx.run(
        "INSERT INTO event (seq, at, kind, subject, detail, reason, hash) VALUES (?, ?, ?, ?, ?, ?, ?)",
        *row,
        _link(before, row),
    )


def digest(*values: object) -> str:
    """sha256 of a list of texts and integers, in hex."""
    return hashlib.sha256(json.dumps(values).encode("utf-8")).hexdigest()


def charge_digest(row: sqlite3.Row) -> str:
    """Digest of what never changes in a charge."""
    return digest(*(row[column] for column in CHARGE_COLUMNS))


def damaged(path: str, found: str) -> LedgerError:
    """The error for a ledger that contradicts itself."""
    return LedgerError(
        "B202",
        f'the ledger "{path}" is damaged: {found}. Put back the newest ledger together with its -wal and anchor '
        "files, or begin a new data set whose privacy units are disjoint from this one's.",
        path=path,
    )


def is_backup() -> BudgetError:
    """The error for whatever a backup does not do."""
    return BudgetError(
        "B210",
        "this ledger is a backup, which answers nothing and stays as it is. If the original is gone for good, the data "
        "owner puts it into service with Ledger.put_into_service.",
    )


def verify(tx: Tx, path: str) -> None:
    """Check the whole chain, and every table against it.

    Raises:
        LedgerError: B202.
    """
    dataset = tx.one("SELECT * FROM dataset")
    if dataset is None:
        raise damaged(path, "it has no data set")
    story = _replay(tx, dataset, path)
    for found, same in (
        ("a charge was altered, added or removed", _charges_fit(tx, story)),
        ("a stage of a release was altered, added or removed", _stages_fit(tx, story)),
        ("a release was altered, added or removed", _releases_fit(tx, story)),
        ("the budget was altered", _budget_fits(dataset, story)),
        ("where its anchor is, or that it is a backup, was altered", _places_fit(dataset, story)),
        ("a grant was altered", _grants_fit(tx, story)),
        ("a declaration was altered", _catalog_fits(tx, dataset, story)),
        ("what was spent is not the sum of the charges", _sums_fit(tx, dataset)),
    ):
        if not same:
            raise damaged(path, found)


@dataclass(kw_only=True)
class _Story:
    """What the tables must say according to the chain."""

    charges: dict[int, str] = field(default_factory=dict)
    attempts: dict[int, int] = field(default_factory=dict)
    stages: dict[tuple[int, int], str] = field(default_factory=dict)
    releases: dict[int, str] = field(default_factory=dict)
    finished: dict[int, str] = field(default_factory=dict)
    budget: dict[str, Any] | None = None
    frozen: str | None = None
    anchor: str | None = None
    backup: str | None = None
    caps: dict[str, dict[str, Any]] = field(default_factory=dict)
    revoked: dict[str, str | None] = field(default_factory=dict)
    tables: dict[str, str] = field(default_factory=dict)
    declared: dict[int, tuple[str, str]] = field(default_factory=dict)
    catalog_version: int = 0
    source: tuple[int, str | None] = (0, None)


def _replay(tx: Tx, dataset: sqlite3.Row, path: str) -> _Story:
    story, before = _Story(), _genesis(dataset)
    for count, row in enumerate(tx.rows("SELECT * FROM event ORDER BY seq"), start=1):
        before = _link(before, tuple(row)[:6])
        if row["seq"] != count or row["hash"] != before:
            raise damaged(path, f"entry {count} of its history was altered")
        try:
            _tell(story, row["kind"], row["subject"], json.loads(row["detail"]), row["reason"])
        except (KeyError, TypeError, ValueError):
            raise damaged(path, f"entry {count} of its history cannot be read") from None
    return story


def _tell(story: _Story, kind: str, subject: str, detail: dict[str, Any], reason: str | None) -> None:
    match kind:
        case "charge":
            story.charges[detail["charge"]] = detail["digest"]
        case "redeem":
            story.attempts[detail["charge"]] = detail["attempt"]
        case "stage":
            story.stages[detail["charge"], detail["number"]] = detail["digest"]
        case "release":
            story.releases[detail["charge"]] = detail["digest"]
        case "finish":
            story.finished[detail["charge"]] = detail["digest"]
        case "budget":
            story.budget = detail
        case "freeze" | "unfreeze":
            story.frozen = reason if kind == "freeze" else None
        case "grant":
            story.caps[subject], story.revoked[subject] = detail, None
        case "revoke":
            story.revoked[subject] = reason
        case "table":
            story.tables[subject], story.catalog_version = detail["digest"], detail["version"]
            story.declared[detail["version"]] = (subject, detail["digest"])
        case "drop_table":
            del story.tables[subject]
            story.catalog_version = detail["version"]
        case "source":
            story.source = (detail["version"], detail["fingerprint"])
        case "create" | "repair_anchor" | "anchor":
            story.anchor = detail.get("anchor", story.anchor)
        case "copy":
            story.backup = detail["at"]
        case "restored":
            story.backup = None
        case "share" | "backup" | "look" | "restoring":
            pass
        case _:
            raise ValueError(kind)


def _charges_fit(tx: Tx, story: _Story) -> bool:
    rows = tx.rows("SELECT * FROM charge")
    attempts = {row["id"]: row["attempt"] for row in rows if row["attempt"] > 1}
    return {row["id"]: charge_digest(row) for row in rows} == story.charges and attempts == story.attempts


def _stages_fit(tx: Tx, story: _Story) -> bool:
    rows = tx.rows("SELECT charge, number, payload FROM stage")
    return {(row["charge"], row["number"]): digest(row["payload"]) for row in rows} == story.stages


def _releases_fit(tx: Tx, story: _Story) -> bool:
    rows = tx.rows("SELECT charge, payload FROM release")
    released = {row["id"] for row in tx.rows("SELECT id FROM charge WHERE state = 'released'")}
    finished = {row["charge"]: digest(row["payload"]) for row in tx.rows("SELECT charge, payload FROM finished")}
    found = {row["charge"]: digest(row["payload"]) for row in rows}
    return found == story.releases and released == set(story.releases) and finished == story.finished


def _budget_fits(dataset: sqlite3.Row, story: _Story) -> bool:
    budget = {column: dataset[column] for column in BUDGET_COLUMNS}
    unset = dict.fromkeys(BUDGET_COLUMNS) | {"primary_limit": 0, "secondary_limit": 0}
    source = (dataset["data_version"], dataset["source"])
    return budget == (story.budget or unset) and dataset["frozen"] == story.frozen and source == story.source


def _places_fit(dataset: sqlite3.Row, story: _Story) -> bool:
    return (dataset["anchor"], dataset["backup"]) == (story.anchor, story.backup)


def _grants_fit(tx: Tx, story: _Story) -> bool:
    rows = tx.rows("SELECT * FROM analyst")
    caps = {row["name"]: {column: row[column] for column in CAP_COLUMNS} for row in rows}
    return caps == story.caps and {row["name"]: row["revoked"] for row in rows} == story.revoked


def _catalog_fits(tx: Tx, dataset: sqlite3.Row, story: _Story) -> bool:
    rows = tx.rows("SELECT name, version, declaration, active FROM catalog")
    declared = {row["version"]: (row["name"], digest(row["declaration"])) for row in rows}
    tables = dict(declared[row["version"]] for row in rows if row["active"])
    same = tables == story.tables and declared == story.declared
    return same and dataset["catalog_version"] == story.catalog_version


def _sums_fit(tx: Tx, dataset: sqlite3.Row) -> bool:
    spent: dict[str, tuple[int, int]] = {row["name"]: (0, 0) for row in tx.rows("SELECT name FROM analyst")}
    for row in tx.rows("SELECT analyst, primary_cost, secondary_cost FROM charge"):
        primary, secondary = spent[row["analyst"]]
        spent[row["analyst"]] = (primary + row["primary_cost"], secondary + row["secondary_cost"])
    kept = {row["name"]: (row["primary_spent"], row["secondary_spent"]) for row in tx.rows("SELECT * FROM analyst")}
    total = tuple(sum(parts) for parts in zip(*spent.values(), strict=True)) or (0, 0)
    return spent == kept and total == (dataset["primary_spent"], dataset["secondary_spent"])


def _genesis(dataset: sqlite3.Row) -> str:
    return digest("duckdp ledger", dataset["id"], dataset["salt"].hex())


def _link(before: str, row: tuple[Any, ...]) -> str:
    return digest(before, *row)

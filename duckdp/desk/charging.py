"""What is asked of the ledger for a release, of whatever kind: the charge, and which question it is for.

Its parameters say beside those of the task which protected tables it is about, for the owner's eyes.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence

from duckdp.catalog.table import Table
from duckdp.core.task import Charged
from duckdp.ledger import ChargeRequest, DataSetState
from duckdp.ledger.types import Kind
from duckdp.texts import storable
from duckdp.vault.dataset import DataSet


def digest(text: str) -> str:
    """What the ledger keeps of the text of a question."""
    return hashlib.sha256(text.encode()).hexdigest()


def charge_request(
    data: DataSet,
    analyst: str,
    task: Charged,
    *,
    beside: Sequence[str | None],
    table: Table,
    others: Sequence[Table] = (),
    statement: str,
    state: DataSetState,
    reservation: int | None,
    kind: Kind = "query",
    name: str | None = None,
    again: bool = False,
) -> ChargeRequest:
    """A charge for a release of today's data.

    Args:
        data: what is open.
        analyst: who asks.
        task: what to release.
        beside: what else makes it another question; part of its identity, which kept ledgers hold.
        table: the declaration it was planned for.
        others: further ones, of a task in parts.
        statement: as the analyst wrote it.
        state: the ledger's, by which the rows and declarations are current.
        reservation: within which it is charged, if any.
        kind: what is stored.
        name: of a summary or synthetic table.
        again: pay again where the last charge of that name is final.

    Raises:
        CatalogError: C103, C104, the declaration is no longer that of the data set.
    """
    for other in others:
        data.version_of(other, state)
    return ChargeRequest(
        analyst=analyst,
        key=digest(json.dumps([task.canonical, state.data_version, task.mechanism, *beside])),
        loss=task.loss,
        mechanism=task.mechanism,
        parameters=json.dumps({**task.parameters, "tables": _names(table, *others)}),
        statement=storable(statement),
        kind=kind,
        name=name,
        data_version=state.data_version,
        catalog_version=data.version_of(table, state),
        again=again,
        reservation=reservation,
    )


def _names(*tables: Table) -> list[str]:
    """The protected tables that are read for some relations, by name."""
    return sorted({base.name for table in tables for base in table.bases})

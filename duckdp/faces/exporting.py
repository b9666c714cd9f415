"""The history as a file: CSV or Parquet, one row an entry, written by DuckDB as a stream.

It holds what the owner may read: no payload of a release or a stage, no salt, no holder. Each row has the columns of
:data:`COLUMNS`; those that do not concern its kind are NULL. epsilon, delta and rho of a row are what it cost, so their
sums over all rows are what was charged.

In CSV, text that a spreadsheet would read as a formula gets a leading apostrophe, and what is not printable stands as
an escape; Parquet has every text as it was asked.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import suppress
from itertools import islice
from typing import TYPE_CHECKING, Any

from duckdp.errors import LedgerError, ParameterError
from duckdp.ledger.history import Entry, walk
from duckdp.texts import csv_cell, sql_text

if TYPE_CHECKING:
    import pyarrow

    from duckdp.ledger import Ledger

FORMS = ("csv", "parquet")
BATCH = 5000  # rows that are in memory at once; DuckDB holds a row group of Parquet, 20,480, besides

#: name -> (DuckDB type, what it is)
COLUMNS: dict[str, tuple[str, str]] = {
    "kind": ("VARCHAR", "charge, act (of the owner), free, refused, failed (after a charge), lost (not noted)"),
    "at_utc": ("TIMESTAMP", "when it was asked or done, in whole seconds"),
    "analyst": ("VARCHAR", "who asked; NULL for acts"),
    "number": ("BIGINT", "of the charge; of the act among the owner's; of the statement in its analyst's log"),
    "statement": ("VARCHAR", "what was asked: of a charge 4,096 characters, of others 1,024"),
    "outcome": ("VARCHAR", "released, open, failed (charges); answered, explained, stored, an error's code (others)"),
    "charge": ("BIGINT", "the charge that this is, whose release was given again, or whose read failed"),
    "epsilon": ("DECIMAL(20,9)", "what it cost"),
    "delta": ("DECIMAL(20,18)", "what it cost"),
    "rho": ("DECIMAL(20,12)", "what it cost in zCDP, where the accountant counts so"),
    "delta_zcdp": ("DECIMAL(20,18)", "the delta outside rho"),
    "charge_kind": ("VARCHAR", "query, summary, synthetic"),
    "mechanism": ("VARCHAR", "of the charge"),
    "parameters": ("VARCHAR", "of the mechanism, public, as JSON"),
    "question": ("VARCHAR", "digest of the question: equal questions of an analyst have the same"),
    "data_version": ("BIGINT", "of the data when it was charged"),
    "catalog_version": ("BIGINT", "of the declarations when it was charged"),
    "attempt": ("BIGINT", "how many attempts have read the data for it"),
    "act": ("VARCHAR", "what the owner did: budget, grant, revoke, freeze, table, source, share, backup, look, ..."),
    "subject": ("VARCHAR", "of the act: an analyst, a table, a name"),
    "reason": ("VARCHAR", "of the act"),
    "detail": ("VARCHAR", "of the act, as JSON"),
}

_OF_CHARGES = {
    "statement": "statement",
    "outcome": "state",
    "charge": "id",
    "charge_kind": "kind",
    "mechanism": "mechanism",
    "parameters": "parameters",
    "question": "key",
    "data_version": "data_version",
    "catalog_version": "catalog_version",
    "attempt": "attempt",
}
_OF_LOSSES = {"epsilon": "epsilon_nano", "delta": "delta_atto", "rho": "rho_pico", "delta_zcdp": "delta_zcdp_atto"}
_OF_ACTS = {"act": "kind", "subject": "subject", "reason": "reason", "detail": "detail"}
_OF_STATEMENTS = {"statement": "text", "outcome": "outcome", "charge": "charge"}


def export_history(ledger: Ledger, path: object, form: str | None = None) -> int:
    """Write charges, the owner's acts and statements, oldest first, to a new file: whole, or not at all.

    Args:
        ledger: whose.
        path: of the file, which must not exist; only the present user can read it.
        form: "csv" or "parquet"; by default what the file's name ends in.

    Returns:
        The number of rows.

    Raises:
        ParameterError: P107, the path, its ending or the form, the file exists, or it cannot be written there.
        LedgerError: B2xx, the ledger or the log of statements cannot be read; nothing is written.
    """
    target = _target(path)
    form = _form_of(target) if form is None else form
    if form not in FORMS:
        raise ParameterError("P107", "form", form, f"must be {' or '.join(FORMS)}.")
    draft = f"{target}.{secrets.token_hex(8)}.part"
    try:
        os.close(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        count = _write(ledger, draft, form)
        _sync(draft)
        os.link(draft, target)
        _sync(os.path.dirname(target))
    except FileExistsError:
        raise _exists(target) from None
    except OSError:
        rule = "cannot be written there. Check the folder, its permissions and the space on the disk."
        raise ParameterError("P107", "path", target, rule) from None
    finally:
        with suppress(OSError):
            os.unlink(draft)
    return count


def _target(path: object) -> str:
    """An absolute path that nothing is at.

    Raises:
        ParameterError: P107.
    """
    rule = "must be the path of a new file."
    if not isinstance(path, (str, os.PathLike)):
        raise ParameterError("P107", "path", path, rule)
    name = os.fspath(path)
    if not isinstance(name, str) or not name or "\0" in name or name.encode("utf-8", "replace").decode() != name:
        raise ParameterError("P107", "path", name, rule)
    target = os.path.abspath(name)
    if os.path.lexists(target):
        raise _exists(target)
    return target


def _form_of(target: str) -> str:
    """What a file's name ends in.

    Raises:
        ParameterError: P107.
    """
    form = os.path.splitext(target)[1].lower().removeprefix(".")
    if form not in FORMS:
        rule = 'must end in .csv or .parquet. With another ending say form="csv" or form="parquet".'
        raise ParameterError("P107", "path", target, rule)
    return form


def _exists(target: str) -> ParameterError:
    return ParameterError("P107", "path", target, "exists and is not overwritten. Name a new file.")


def _write(ledger: Ledger, draft: str, form: str) -> int:
    """Stream the history through DuckDB into the draft; returns how many rows.

    Raises:
        OSError: it cannot be written. LedgerError: it cannot be read.
    """
    import duckdb
    import pyarrow as pa

    problem: list[BaseException] = []  # DuckDB would quote it
    written = 0

    def batches() -> Iterator[pyarrow.RecordBatch]:
        nonlocal written
        try:
            entries = walk(ledger, newest_first=False)
            while rows := list(islice(entries, BATCH)):
                yield _batch(rows, form)
                written += len(rows)
        except BaseException as error:
            problem.append(error)
            raise

    schema = pa.schema([(name, _arrow_type(kind)) for name, (kind, _) in COLUMNS.items()])
    options = "FORMAT csv, HEADER" if form == "csv" else "FORMAT parquet, COMPRESSION zstd, ROW_GROUP_SIZE 20480"
    quoted = sql_text(draft)
    con = duckdb.connect(":memory:", config={"autoinstall_known_extensions": "false", "threads": 1})
    con.execute("SET enable_progress_bar = false")
    try:
        con.register("history", pa.RecordBatchReader.from_batches(schema, batches()))
        con.execute(f"COPY (FROM history) TO {quoted} ({options}, USE_TMP_FILE false)")
    except (duckdb.Error, pa.ArrowException, OSError):
        if problem and isinstance(problem[0], (LedgerError, KeyboardInterrupt)):
            raise problem[0] from None
        raise OSError from None
    finally:
        con.close()
    return written


def _batch(rows: list[Entry], form: str) -> pyarrow.RecordBatch:
    import pyarrow as pa

    made = [_cells(entry) for entry in rows]
    arrays = []
    for name, (kind, _) in COLUMNS.items():
        values = [cells.get(name) for cells in made]
        if kind == "VARCHAR":
            arrays.append(pa.array([csv_cell(v) for v in values] if form == "csv" else values, pa.string()))
        elif kind == "TIMESTAMP":
            arrays.append(pa.array([str(v).removesuffix("Z") for v in values], pa.string()).cast(pa.timestamp("us")))
        elif kind == "BIGINT":
            arrays.append(pa.array(values, pa.int64()))
        else:
            arrays.append(_scaled(values, _arrow_type(kind)))
    return pa.RecordBatch.from_arrays(arrays, names=list(COLUMNS))


def _cells(entry: Entry) -> dict[str, Any]:
    """The columns that an entry has."""
    row = entry.row
    cells: dict[str, Any] = {"kind": entry.kind, "at_utc": entry.at, "number": entry.number}
    if entry.kind == "act":
        return cells | {name: getattr(row, part) for name, part in _OF_ACTS.items()}
    cells["analyst"] = entry.who
    if entry.kind == "charge":
        cells |= {name: getattr(row, part) for name, part in _OF_CHARGES.items()}
        return cells | {name: getattr(row.loss, part) for name, part in _OF_LOSSES.items()}
    return cells | {name: row[column] for name, column in _OF_STATEMENTS.items()}


def _scaled(units: list[int | None], kind: Any) -> Any:
    """Whole numbers of the smallest unit as decimals: the same digits, with the point moved."""
    import pyarrow as pa

    whole = pa.array(units, pa.int64()).cast(pa.decimal128(kind.precision, 0))
    return pa.Array.from_buffers(kind, len(whole), whole.buffers())


def _arrow_type(kind: str) -> Any:
    import pyarrow as pa

    plain = {"VARCHAR": pa.string(), "BIGINT": pa.int64(), "TIMESTAMP": pa.timestamp("us")}
    if kind in plain:
        return plain[kind]
    precision, scale = kind.removeprefix("DECIMAL(").removesuffix(")").split(",")
    return pa.decimal128(int(precision), int(scale))


def _sync(path: str) -> None:
    file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(file)
    finally:
        os.close(file)

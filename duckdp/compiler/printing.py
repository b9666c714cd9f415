"""Our expressions to DuckDB SQL: the only place where SQL over private rows is spelled.

Functions are printed as ``system.main.f(...)``, identifiers quoted by one function, text bound as parameters, so that
no macro, search path or alias of the owner's or analyst's can change what runs. Infix operators on built-in types are
resolved by DuckDB in its system catalog first; the private instance has no macro of its own; tests try to plant one.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Sequence

from duckdp.catalog.table import MAX_TEXT, ZONED, Column, Kind, Scalar, Table
from duckdp.compiler.bound_values import Parameters as Parameters
from duckdp.compiler.expression import Aggregate, Call, Case, ColumnRef, Expr, KeyRef, Literal
from duckdp.compiler.operators import operator_sql
from duckdp.compiler.parse import parse_scalar
from duckdp.compiler.relations.constant_rows import ConstantRows
from duckdp.compiler.relations.relation import Relation
from duckdp.compiler.relations.whole_keys import WholeKey, print_whole
from duckdp.compiler.scope import read_predicate
from duckdp.errors import InternalError

UNIT = "__unit"
SQL_TYPES = {
    Kind.NUMBER: "DOUBLE",
    Kind.TEXT: "VARCHAR",
    Kind.BOOLEAN: "BOOLEAN",
    Kind.DATE: "DATE",
    Kind.TIMESTAMP: "TIMESTAMP",
}
#: Types of which any value is a number or boolean of Python's.
AS_THEY_ARE = frozenset(
    ("DOUBLE", "FLOAT", "BOOLEAN", "TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER")
)
FIRST_DATE, LAST_DATE = dt.date(1, 1, 1), dt.date(9999, 12, 31)


def quote(name: str) -> str:
    """A name as a quoted SQL identifier.

    >>> quote('a"b')
    '"a""b"'
    """
    return '"' + name.replace('"', '""') + '"'


def print_literal(value: Scalar, kind: Kind, parameters: Parameters) -> str:
    """A typed constant: text is bound, everything else printed from its Python value."""
    if value is None:
        return f"CAST(NULL AS {SQL_TYPES[kind]})"
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, (int, float)):
        return number(value)
    if isinstance(value, dt.datetime):
        return f"TIMESTAMP '{value.isoformat(sep=' ')}'"
    if isinstance(value, dt.date):
        return f"DATE '{value.isoformat()}'"
    return f"CAST({parameters.bind(value)} AS VARCHAR)"


def number(value: float) -> str:
    """A finite number as a DOUBLE, to the last bit: written with an exponent it needs no cast, which is planned faster.

    >>> number(110)
    '110.0e0'
    >>> number(-1e-05)
    '(-1e-05)'
    """
    text = repr(float(value))
    text = text if "e" in text else f"{text}e0"
    return f"({text})" if text.startswith("-") else text


def print_expr(expr: Expr, column: Callable[[Column], str], parameters: Parameters) -> str:
    """Print a row expression; ``column`` prints a column's (already clean) value."""

    def show(e: Expr) -> str:
        match e:
            case ColumnRef(column=c):
                return column(c)
            case Literal(value=v, kind=k):
                return print_literal(v, k, parameters)
            case Call(arguments=arguments):
                return operator_sql(e, [show(a) for a in arguments])
            case Case(branches=branches, default=default):
                arms = " ".join(f"WHEN {show(c)} THEN {show(v)}" for c, v in branches)
                tail = f" ELSE {show(default)}" if default is not None else ""
                return f"(CASE {arms}{tail} END)"
            case Aggregate() | KeyRef():
                raise InternalError("an aggregate reached a row expression")

    return show(expr)


def print_column(column: Column, parameters: Parameters, relation: str) -> str:
    """Read a raw column by its declaration: typed, clamped to its bounds, its NULL rule applied. Total."""
    raw = f"{relation}.{quote(column.source)}"
    if isinstance(column, WholeKey):
        return print_whole(column, raw)
    match column.kind:
        case Kind.NUMBER:
            value = _clamped_number(column, raw if column.type == "DOUBLE" else f"CAST({raw} AS DOUBLE)")
        case Kind.TEXT:
            # a column's collation survives casts: without this, 'A' and 'a' could be one group (or one match)
            text = f"CAST({raw} AS VARCHAR)"  # left copies every string, strlen (bytes) looks at none
            long = f"system.main.strlen({text}) > {MAX_TEXT} THEN system.main.left({text}, {MAX_TEXT})"
            value = f'(CASE WHEN {long} ELSE {text} END COLLATE "binary")'
        case Kind.BOOLEAN:
            value = raw
        case Kind.DATE | Kind.TIMESTAMP:
            value = _clamped_date(column, raw, parameters)
    if column.null_value is not None:
        value = f"COALESCE({value}, {print_literal(column.null_value, column.kind, parameters)})"
    return value


def print_rows(table: Table, columns: tuple[Column, ...], parameters: Parameters, *, unit: bool) -> str:
    """The scan every private query starts from: clean columns of the rows that count, as a parenthesised SELECT.

    Columns keep their declared names; with ``unit`` the privacy unit is ``__unit``. Rows without a unit are dropped
    here, before anything else: those whose key is NULL, and those whose key names nobody (``null_units``). A key such
    as 'unknown' would make one unit of many people: max_rows would be theirs together, and each of them unprotected.
    A relation's rows come from its node, which starts from the same scans.
    """
    if isinstance(table, Relation):
        return table.node.print(columns, parameters)
    if isinstance(table, ConstantRows):
        return _print_constants(table, columns, parameters)
    items = [f"{print_column(c, parameters, 'base')} AS {quote(c.name)}" for c in columns]
    if unit and table.unit_key is not None:
        items.append(f"{_unit_of(table)} AS {UNIT}")
    return f"(SELECT {', '.join(items) or '1 AS one'} FROM {_rows_that_count(table, parameters)})"


def _print_constants(table: ConstantRows, columns: tuple[Column, ...], parameters: Parameters) -> str:
    """Rows of constants as a parenthesised SELECT: literals of ours, each with its kind's type."""
    if not columns:
        return f"(SELECT 1 AS one FROM system.main.range({len(table.values)}))"
    places = {c.name: (i, c.kind) for i, c in enumerate(table.columns)}
    wanted = [places[c.name] for c in columns]
    rows = ", ".join(
        f"({', '.join(print_literal(row[i], kind, parameters) for i, kind in wanted)})" for row in table.values
    )
    names = ", ".join(quote(c.name) for c in columns)
    return f"(SELECT {names} FROM (VALUES {rows}) AS listed({names}))"


def print_as_they_are(table: Table, columns: Sequence[Column], parameters: Parameters) -> str:
    """A SELECT of a public table's rows, no value of which is cleaned; what has no plain type of Python's as text."""
    items = []
    for c in columns:
        value = f"base.{quote(c.source)}"
        value = f"system.main.timezone('UTC', {value})" if c.type.upper() == ZONED else value
        items.append(value if c.type in AS_THEY_ARE else f"CAST({value} AS VARCHAR)")
    return f"SELECT {', '.join(items)} FROM {_rows_that_count(table, parameters)}"


def print_keyed_scan(table: Table, key: str, value: str | None, parameters: Parameters) -> str:
    """The rows that count and have a key: its raw value ``k``, and how it is read ``v``, as a parenthesised SELECT.

    Args:
        table: a declared table.
        key: one of its columns.
        value: how questions read it, over ``base``; None: as it is.
        parameters: of the statement.
    """
    raw = f"base.{quote(key)}"
    rows = _rows_that_count(table, parameters, f"{raw} IS NOT NULL")
    return f"(SELECT {raw} AS k, {raw if value is None else value} AS v FROM {rows})"


def _unit_of(table: Table) -> str:
    """The unit of a row of the scan."""
    return f"base.{quote(str(table.unit_key))}" if table.link is None else f"owner.{UNIT}"


def _rows_that_count(table: Table, parameters: Parameters, *more: str) -> str:
    """FROM and WHERE of a scan. A linked table's rows have the unit of the row that they name; orphans have none."""
    conditions = list(more)
    relation = f"{'.'.join(quote(part) for part in table.relation)} AS base"
    if table.link is not None:
        link, parent = table.link, table.link.parent
        key = f"base.{quote(link.key)}"
        owners = _rows_that_count(parent, parameters, f"{key} IS NOT NULL")
        named = f"(SELECT {key} AS key, {_unit_of(parent)} AS {UNIT} FROM {owners}) AS owner"  # no key twice: checked
        relation += f" JOIN {named} ON base.{quote(link.column)} = owner.key"
    if table.unit_key is not None:
        conditions.append(f"{_unit_of(table)} IS NOT NULL")
    if table.null_units:
        nobody = ", ".join(_unit_literal(table, v, parameters) for v in table.null_units)
        conditions.append(f"base.{quote(str(table.unit_key))} NOT IN ({nobody})")
    if table.filter is not None:
        conditions.append(_view_filter(table, parameters))
    return f"{relation} WHERE {' AND '.join(conditions)}" if conditions else relation


def _unit_literal(table: Table, value: Scalar, parameters: Parameters) -> str:
    """A raw value of the unit key, of the key's own type: nothing is rounded, cut or folded."""
    if isinstance(value, int):
        return f"CAST('{value}' AS {table.unit_type})"
    return f"CAST({parameters.bind(value)} AS {table.unit_type})"


def print_chosen(rows: str, names: Sequence[str], salt: int, most: int) -> str:
    """At most so many rows of each unit, each with the same chance, as a parenthesised SELECT of ``__unit``, names.

    Equal rows of a unit are counted first, and each copy (1, 2, ...) draws a hash of unit, values, copy and salt. The
    rows whose draw is below the unit's (``most`` + 1)th smallest are chosen; all, where it has no more than ``most``.
    The draw is hashed once more: DuckDB joins the hash of the last argument, the salt, to those before by XOR alone,
    which mirrors their order and does not shuffle it (of five rows one would be chosen by every second salt).

    Privacy: what is chosen is a function of the multiset of the unit's own rows, whatever the hash, the order on the
    disk or the number of threads. No row is ever put before another that drew the same: where rows tie at the edge,
    none of them is chosen (of 64 bits each: never, by chance). So adding or removing a unit adds or removes its at
    most ``most`` chosen rows, and moves those of no other. A hash whose ties were broken by place would not do: a row
    that leaves elsewhere moves the places of all.

    Args:
        rows: a parenthesised SELECT with the unit's key ``__unit`` and ``names``.
        names: quoted columns: all that is read of a row later on, so that rows that are equal in them are exchangeable.
        salt: keys the hash; the same one chooses the same rows in every read of the same columns.
        most: rows of one unit.
    """
    own = [f"c{i}" for i in range(len(names))]  # a column may have any name, that of a helper too
    listed = ", ".join(f"r.{c}" for c in own)
    values = ", ".join(f"r.{name} AS {c}" for name, c in zip(names, own, strict=True))
    counted = f"(SELECT r.{UNIT} AS unit, {values}, system.main.count_star() AS n FROM {rows} AS r GROUP BY ALL)"
    copied = f"(SELECT r.unit, {listed}, system.main.unnest(system.main.range(r.n)) AS copy FROM {counted} AS r)"
    draw = f"system.main.hash(system.main.hash(r.unit, {listed}, r.copy, CAST({salt} AS UBIGINT))) AS draw"
    drawn = f"(SELECT r.unit, {listed}, {draw} FROM {copied} AS r)"
    over = "PARTITION BY r.unit ORDER BY r.draw ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING"
    edged = f"(SELECT r.*, system.main.nth_value(r.draw, {most + 1}) OVER ({over}) AS edge FROM {drawn} AS r)"
    back = ", ".join(f"r.{c} AS {name}" for name, c in zip(names, own, strict=True))
    return f"(SELECT r.unit AS {UNIT}, {back} FROM {edged} AS r WHERE r.edge IS NULL OR r.draw < r.edge)"


def _clamped_number(column: Column, value: str) -> str:
    arms = [] if column.integral else [f"WHEN system.main.isnan({value}) THEN NULL"]
    if column.lower is not None:
        lower, upper = (number(b) for b in (column.lower, column.upper))  # type: ignore[arg-type]
        arms += [f"WHEN {value} < {lower} THEN {lower}", f"WHEN {value} > {upper} THEN {upper}"]
    return f"(CASE {' '.join(arms)} ELSE {value} END)" if arms else value


def _clamped_date(column: Column, raw: str, parameters: Parameters) -> str:
    value = f"CAST({raw} AS {SQL_TYPES[column.kind]})"
    if column.type.upper() == ZONED:  # a cast would follow the session's time zone, and fail where that ends
        value = f"system.main.timezone('UTC', {raw})"
    bounds = (column.lower, column.upper) if column.lower is not None else _whole_calendar(column.kind)
    lower, upper = (print_literal(b, column.kind, parameters) for b in bounds)
    return f"(CASE WHEN {value} < {lower} THEN {lower} WHEN {value} > {upper} THEN {upper} ELSE {value} END)"


def _whole_calendar(kind: Kind) -> tuple[Scalar, Scalar]:
    if kind is Kind.DATE:
        return FIRST_DATE, LAST_DATE
    return dt.datetime.combine(FIRST_DATE, dt.time()), dt.datetime.combine(LAST_DATE, dt.time(23, 59))


def _view_filter(table: Table, parameters: Parameters) -> str:
    assert table.filter is not None
    base = Table(name=table.name, relation=table.relation, columns=table.base, row_cap=table.row_cap)
    condition = read_predicate(parse_scalar(table.filter), base, table.filter)
    return print_expr(condition, lambda c: print_column(c, parameters, "base"), parameters)


def print_double(column: Column, value: str) -> str:
    """A clean value of a column as DOUBLE: dates as days, timestamps as microseconds since 1970."""
    if column.kind is Kind.DATE:
        return f"CAST({value} - DATE '1970-01-01' AS DOUBLE)"
    if column.kind is Kind.TIMESTAMP:
        return f"CAST(system.main.epoch_us({value}) AS DOUBLE)"
    return value

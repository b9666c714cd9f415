"""What the data owner declares: tables, privacy units, contribution bounds, column bounds and domains.

Every declaration is public. Nothing here is ever read off the data; it is checked against the schema only. A table's
declaration is one JSON text, stored and versioned in the ledger.
"""

from __future__ import annotations

import datetime as dt
import json
import re
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from enum import Enum
from functools import cached_property
from typing import Any

from duckdp.catalog.link import Link
from duckdp.catalog.public import Public
from duckdp.core.interval import REALS, Interval
from duckdp.errors import CatalogError, ParameterError

Scalar = float | int | str | bool | dt.date | dt.datetime | None

MAX_DOMAIN = 10**6  # cells of one GROUP BY
MAX_TEXT = 256  # characters of a string that queries see
NAME = re.compile(r"[a-z_][a-z0-9_]{0,62}\Z")
ZONED = "TIMESTAMP WITH TIME ZONE"  # read as the TIMESTAMP of the instant in UTC
INTEGER_RANGES = {
    "TINYINT": (-(2**7), 2**7 - 1),
    "SMALLINT": (-(2**15), 2**15 - 1),
    "INTEGER": (-(2**31), 2**31 - 1),
    "BIGINT": (-(2**63), 2**63 - 1),
    "HUGEINT": (-(2**127), 2**127 - 1),
    "UTINYINT": (0, 2**8 - 1),
    "USMALLINT": (0, 2**16 - 1),
    "UINTEGER": (0, 2**32 - 1),
    "UBIGINT": (0, 2**64 - 1),
    "UHUGEINT": (0, 2**128 - 1),
}


class Kind(Enum):
    """The types of the private dialect. Every number is computed as DOUBLE."""

    NUMBER = "number"
    TEXT = "text"
    BOOLEAN = "boolean"
    DATE = "date"
    TIMESTAMP = "timestamp"


@dataclass(frozen=True, kw_only=True)
class RawColumn:
    """A column as the schema has it; a generated one is computed when it is read."""

    name: str
    type: str
    nullable: bool
    generated: bool = False


@dataclass(frozen=True, kw_only=True)
class Column:
    """One declared column: what is public of it.

    Attributes:
        name: as the analyst writes it, lower case compared.
        source: the column's name in the base table.
        type: DuckDB's type, as declared; a change is an error until the owner acts.
        kind: type in the private dialect.
        integral: whether its values are whole numbers.
        nullable: whether NULL (or NaN) may appear once the NULL rule is applied.
        lower, upper: public clamp interval (numbers, or dates), or None.
        domain: complete public list of values for GROUP BY, or None.
        other: the domain's label for values outside it, or None (they are dropped).
        null_value: public value that replaces NULL and NaN, or None (the row does not count for the column).
    """

    name: str
    source: str
    type: str
    kind: Kind
    integral: bool = False
    nullable: bool = True
    lower: Scalar = None
    upper: Scalar = None
    domain: tuple[Scalar, ...] | None = None
    other: Scalar = None
    null_value: Scalar = None

    def __hash__(self) -> int:
        """By what is short: a domain may have thousands of values, and columns are looked up often."""
        return hash((self.name, self.source, self.type, self.kind, self.lower, self.upper))

    @property
    def interval(self) -> Interval:
        """Bounds of a numeric column; the reals when none are declared."""
        if self.kind is not Kind.NUMBER or self.lower is None or self.upper is None:
            return REALS
        return Interval(float(self.lower), float(self.upper))  # type: ignore[arg-type]


@dataclass(frozen=True, kw_only=True)
class Table:
    """One protected table: what is public of it.

    Attributes:
        name: as the analyst writes it.
        relation: (catalog, schema, table) inside the private instance.
        unit_key: column that names the privacy unit, or None when the unit is the row.
        unit_type: DuckDB type of unit_key.
        unit: what the owner calls the kind of unit ("patient"), or None where the key's own name stands for it.
        null_units: values of unit_key that name no unit; their rows do not count, like those where it is NULL.
        max_rows: rows of one unit that count, per group.
        max_groups: groups of one unit that count.
        row_cap: public upper bound of the number of rows; used for ranges, never for noise.
        expected_rows: public guess of the number of rows; used for predicted errors only.
        columns: the declared columns; nothing else exists for analysts.
        filter: predicate of a protected view, in SQL over ``base``; None for a base table.
        base: columns the filter may use.
        constraints: what holds in every row, as texts (``catalog.constraints``); synthetic tables keep it.
        public: what is known of its rows, where they are no one's; None: it is protected.
        link: how its rows come by their unit, where they have no unit_key of their own: it is the other table's.
        unique: columns in which no value stands twice among rows with a unit; compared with the data.
        checked: fingerprint of the source of which that was seen.
    """

    name: str
    relation: tuple[str, str, str]
    columns: tuple[Column, ...]
    row_cap: int
    unit_key: str | None = None
    unit_type: str | None = None
    max_rows: int = 1
    max_groups: int = 1
    expected_rows: int | None = None
    filter: str | None = None
    base: tuple[Column, ...] = ()
    unit: str | None = None
    null_units: tuple[Scalar, ...] = ()
    constraints: tuple[str, ...] = ()
    public: Public | None = None
    link: Link | None = None
    unique: tuple[str, ...] = ()
    checked: str | None = None

    @cached_property
    def declaration(self) -> str:
        """Canonical JSON; see :func:`load_table`."""
        return write_json(self._declared)

    @cached_property
    def identity(self) -> str:
        """The part of the declaration that all answers depend on.

        Not what the owner calls the kind of unit; nor constraints, which synthetic tables alone keep, and tell.
        """
        return write_json({k: v for k, v in self._declared.items() if k not in ("unit", "constraints", "checked")})

    @property
    def bases(self) -> tuple[Table, ...]:
        """The protected tables that are read where this one is: itself."""
        return (self,)

    @property
    def most_rows(self) -> int:
        """The most rows of one unit that public figures leave possible."""
        own = self.link is None and self.unit_key is not None and self.unit_key in self.unique
        return 1 if own else self.row_cap

    @property
    def units_cap(self) -> int:
        """A public upper bound of the units that occur."""
        return self.row_cap

    @cached_property
    def _declared(self) -> dict[str, Any]:
        # declarations and questions from before these existed keep their texts
        later = ("unit", "null_units", "constraints", "public", "link", "unique", "checked")
        return {k: v for k, v in asdict(self).items() if not (k in later and v in (None, ()))}

    def column(self, name: str) -> Column | None:
        """The declared column of that name, ignoring case."""
        return next((c for c in self.columns if c.name.lower() == name.lower()), None)

    def __str__(self) -> str:
        return describe_table(self)


def dump_table(table: Table) -> str:
    """What the identity of a question about a table contains of its declaration, as canonical JSON."""
    return table.identity


def load_table(text: str) -> Table:
    """Read a table from its stored declaration."""
    return _load_raw(json.loads(text, object_hook=_decode))


def _load_raw(raw: dict[str, Any]) -> Table:
    columns = tuple(_load_column(c) for c in raw.pop("columns"))
    base = tuple(_load_column(c) for c in raw.pop("base"))
    lists: dict[str, Any] = {k: tuple(raw.get(k, ())) for k in ("relation", "null_units", "constraints", "unique")}
    lists["public"] = None if raw.get("public") is None else Public.load(raw["public"])
    lists["link"] = None if raw.get("link") is None else Link.load(raw["link"], _load_raw)
    return Table(**{**raw, **lists, "columns": columns, "base": base})


def dump_columns(columns: Iterable[Column]) -> str:
    """Declared columns as canonical JSON, to be stored."""
    return json.dumps([asdict(c) for c in columns], default=_encode, sort_keys=True, separators=(",", ":"))


def load_columns(text: str) -> tuple[Column, ...]:
    """The inverse of :func:`dump_columns`."""
    return tuple(_load_column(c) for c in json.loads(text, object_hook=_decode))


def write_json(raw: object) -> str:
    """Canonical JSON; dates and timestamps come back from :func:`read_json`."""
    return json.dumps(raw, default=_encode, sort_keys=True, separators=(",", ":"), allow_nan=False)


def read_json(text: str) -> Any:
    """The inverse of :func:`write_json`."""
    return json.loads(text, object_hook=_decode)


def describe_table(table: Table) -> str:
    """A declaration as its owner and the analysts read it.

    >>> print(describe_table(Table(name="t", relation=("a", "b", "t"), columns=(), row_cap=1000)))
    t: protected. All of this is public:
      a privacy unit is one row
      at most 1,000 rows
    """
    if table.public is not None:
        lines = [f"{table.name}: public, its rows are no one's", f"  {table.public.rows:,} rows"]
        return "\n".join([*lines, *_column_lines(table)])
    if table.unit_key is None:
        unit = "one row"
    else:
        groups = f"in each of at most {table.max_groups} groups"
        unit = f"all rows of one {name_unit(table)}; at most {table.max_rows} of them count {groups}"
    cap = f"at most {table.row_cap:,} rows"
    expected = f", about {table.expected_rows:,} expected" if table.expected_rows is not None else ""
    lines = [f"{table.name}: protected. All of this is public:", f"  a privacy unit is {unit}"]
    lines += [f"  {name_nulls(table)}"] if table.null_units else []
    lines += [f"  linked: {table.link}"] if table.link is not None else []
    lines += [f"  unique: {', '.join(table.unique)}"] if table.unique else []
    lines.append(f"  {cap}{expected}")
    return "\n".join([*lines, *_column_lines(table), *(f"  in every row: {text}" for text in table.constraints)])


def _column_lines(table: Table) -> list[str]:
    width = max((len(c.name) for c in table.columns), default=0)
    return [f"  {c.name.ljust(width)}  {describe_column(c)}" for c in table.columns]


def name_unit(table: Table) -> str:
    """A keyed table's unit as messages call it: ``patient_id``, or ``patient (patient_id)`` where the owner said so."""
    key = str(table.unit_key)
    return key if table.unit in (None, key.lower()) else f"{table.unit} ({key})"


def name_nulls(table: Table) -> str:
    """Says which rows have no unit and so do not count."""
    shown = ", ".join(f"'{v}'" if isinstance(v, str) else str(v) for v in table.null_units[:20])
    more = ", ..." if len(table.null_units) > 20 else ""
    return f"rows whose {table.unit_key} is NULL or one of {shown}{more} have no unit and do not count"


def describe_unit(table: Table, neighbours: str) -> list[str]:
    """Whom a release about the table protects, in a line or two of an explanation."""
    what = "each row" if table.unit_key is None else f"all rows of one {name_unit(table)}"
    return [f"protects: {what} ({neighbours})", *([name_nulls(table)] if table.null_units else [])]


def describe_column(column: Column) -> str:
    """All that is public of a column, in a line."""
    parts = [column.type]
    if column.lower is not None:
        parts.append(f"from {column.lower} to {column.upper}")
    if column.domain is not None:
        shown = ["NULL" if v is None else str(v) for v in column.domain[:20]]
        parts.append("one of " + ", ".join(shown) + (", ..." if len(column.domain) > 20 else ""))
    if column.other is not None:
        parts.append(f"others as {column.other}")
    if column.null_value is not None:
        parts.append(f"NULL read as {column.null_value}")
    return "; ".join(parts)


def kind_of(duckdb_type: str) -> tuple[Kind, bool] | None:
    """Kind and integrality of a DuckDB type, or None when the private dialect has no rule for it.

    >>> kind_of("DECIMAL(18,3)")
    (<Kind.NUMBER: 'number'>, False)
    """
    base = duckdb_type.upper()
    if base in INTEGER_RANGES:
        return Kind.NUMBER, True
    if base in ("FLOAT", "DOUBLE", "REAL"):
        return Kind.NUMBER, False
    if match := re.fullmatch(r"DECIMAL\((\d+),\s*(\d+)\)", base):
        return Kind.NUMBER, match[2] == "0"
    if base == "VARCHAR" or base.startswith("ENUM("):
        return Kind.TEXT, False
    return {
        "BOOLEAN": (Kind.BOOLEAN, False),
        "DATE": (Kind.DATE, False),
        "TIMESTAMP": (Kind.TIMESTAMP, False),
        ZONED: (Kind.TIMESTAMP, False),
    }.get(base)


def plain_type(duckdb_type: str) -> str:
    """The type in which a column's values leave: text for an ENUM, UTC without its zone for a TIMESTAMPTZ.

    >>> plain_type("ENUM('a', 'b')"), plain_type("TIMESTAMP WITH TIME ZONE")
    ('VARCHAR', 'TIMESTAMP')
    """
    return "VARCHAR" if duckdb_type.upper().startswith("ENUM") else released_type(duckdb_type)


def released_type(duckdb_type: str) -> str:
    """The type of a column in a released table: a TIMESTAMPTZ is the TIMESTAMP of its instant in UTC."""
    return "TIMESTAMP" if duckdb_type.upper() == ZONED else duckdb_type


def check_name(name: object, what: str = "name") -> str:
    """Raise P105 unless ``name`` is a plain lower-case SQL name."""
    if not isinstance(name, str) or not NAME.match(name):
        raise ParameterError("P105", what, name, "must match [a-z_][a-z0-9_]{0,62}.")
    return name


def check_positive(name: str, value: object, most: int = 2**40) -> int:
    """Raise P107 unless value is an int from 1 to most."""
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= most:
        raise ParameterError("P107", name, value, f"must be a whole number from 1 to {most}.")
    return value


def closest(name: str, names: Iterable[str]) -> str:
    """Text that lists what exists, nearest first; names are public."""
    import difflib

    known = list(names)
    near = difflib.get_close_matches(name, known, n=3, cutoff=0.5)
    if near:
        return "Did you mean " + " or ".join(f'"{n}"' for n in near) + "?"
    return "Known: " + ", ".join(f'"{n}"' for n in known[:20]) + "." if known else "Nothing is declared yet."


def missing_table(name: str, names: Iterable[str]) -> CatalogError:
    """C101 for a table that is not protected."""
    known = closest(name, names) if (names := list(names)) else "Nothing is: the data owner calls curator.protect(...)."
    return CatalogError("C101", f'table "{name}" is not protected here. {known}', table=name)


def _load_column(raw: dict[str, Any]) -> Column:
    domain = raw["domain"]
    return Column(**{**raw, "kind": Kind(raw["kind"]), "domain": None if domain is None else tuple(domain)})


def _encode(value: object) -> object:
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, dt.datetime):
        return {"$timestamp": value.isoformat()}
    if isinstance(value, dt.date):
        return {"$date": value.isoformat()}
    raise TypeError(type(value).__name__)


def _decode(raw: dict[str, Any]) -> object:
    if "$timestamp" in raw:
        return dt.datetime.fromisoformat(raw["$timestamp"])
    if "$date" in raw:
        return dt.date.fromisoformat(raw["$date"])
    return raw

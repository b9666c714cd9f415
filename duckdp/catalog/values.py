"""Values that an owner declares, checked against a column's type: bounds, domains, labels, keys without a unit."""

from __future__ import annotations

import contextlib
import datetime as dt
import math
import re
import struct
import uuid
from collections.abc import Container, Iterable
from decimal import Decimal
from typing import Any

from duckdp.arguments import plain
from duckdp.catalog.table import INTEGER_RANGES, MAX_DOMAIN, MAX_TEXT, ZONED, Kind, Scalar, kind_of
from duckdp.core.interval import LARGEST
from duckdp.errors import ParameterError

MAX_NULL_UNITS = 1000  # values, each of which is in the text of every read
MAX_NULL_UNIT = 1000  # characters
EPOCH = dt.datetime(1970, 1, 1)


def as_number(value: Scalar) -> float:
    """A bound as a float: days or microseconds since 1970 for dates and timestamps."""
    if isinstance(value, dt.datetime):
        return float((value - EPOCH) // dt.timedelta(microseconds=1))
    if isinstance(value, dt.date):
        return float((value - EPOCH.date()).days)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TypeError("not a bound")
    return float(value)


def unit_key_allowed(duckdb_type: str) -> bool:
    """Whether a column of that type may name the privacy unit: its equality must be exact."""
    return duckdb_type.upper() in INTEGER_RANGES or duckdb_type.upper() in ("VARCHAR", "UUID")


def check_bounds(column: str, duckdb_type: str, lower: object, upper: object) -> tuple[Scalar, Scalar]:
    """Validate a column's bounds against its type.

    Returns:
        (lower, upper) as float, int or date.

    Raises:
        ParameterError: P104 on NaN, infinity, lower >= upper, or a bound that the type cannot hold.
    """
    name = f'bounds["{column}"]'
    found = kind_of(duckdb_type)
    if found is None or found[0] in (Kind.TEXT, Kind.BOOLEAN):
        raise ParameterError("P104", name, (lower, upper), f"columns of type {duckdb_type} have no bounds.")
    kind, integral = found
    if kind is Kind.NUMBER:
        low, high = _number(name, plain(lower)), _number(name, plain(upper))
        if integral:
            least, most = INTEGER_RANGES.get(duckdb_type.upper(), (-math.inf, math.inf))
            if any(isinstance(end, float) and not end.is_integer() for end in (low, high)):
                raise ParameterError("P104", name, (lower, upper), f"type {duckdb_type} needs whole numbers.")
            if not least <= low <= most or not least <= high <= most:
                raise ParameterError("P104", name, (lower, upper), f"a bound lies outside the type {duckdb_type}.")
            low, high = int(low), int(high)
        _ordered(name, low, high)
        return low, high
    first, last = (_moment(name, end, kind, zoned=duckdb_type.upper() == ZONED) for end in (lower, upper))
    _ordered(name, first, last)
    return first, last


def check_domain(column: str, duckdb_type: str, values: Iterable[object]) -> tuple[Scalar, ...]:
    """Validate a column's domain: distinct values of the column's type, at most 10**6.

    Raises:
        ParameterError: P104.
    """
    name = f'domains["{column}"]'
    found = kind_of(duckdb_type)
    if found is None or isinstance(values, (str, bytes)) or not isinstance(values, Iterable):
        raise ParameterError("P104", name, values, f"must be a list of values of type {duckdb_type}.")
    zoned = duckdb_type.upper() == ZONED
    domain = tuple(_domain_value(name, found, plain(v), zoned=zoned) for v in values)
    if duckdb_type.upper() in ("FLOAT", "REAL"):  # as the column itself is read
        if any(isinstance(v, float) and abs(v) > 3e38 for v in domain):
            raise ParameterError("P104", name, values, "must be values that the type FLOAT can hold.")
        domain = tuple(v if v is None else struct.unpack("f", struct.pack("f", v))[0] for v in domain)
    if not 1 <= len(domain) <= MAX_DOMAIN or len(set(domain)) != len(domain):
        raise ParameterError("P104", name, values, f"must list 1 to {MAX_DOMAIN} distinct values.")
    return domain


def is_text(value: str) -> bool:
    """Whether DuckDB can take it: no NUL, no lone surrogate."""
    return "\x00" not in value and not any("\ud800" <= c <= "\udfff" for c in value)


def check_null_units(duckdb_type: str, values: object) -> tuple[Scalar, ...]:
    """Validate values of a unit key that name no unit: distinct raw values of the key's own type, at most 1,000.

    Returns:
        int for integer keys, str for VARCHAR, the canonical text for UUID; in the order given.

    Raises:
        ParameterError: P104.
    """
    if isinstance(values, (str, bytes)) or not isinstance(values, Iterable):
        raise ParameterError("P104", "null_units", values, f"must be a list of values of type {duckdb_type}.")
    found = tuple(_unit_value(duckdb_type.upper(), plain(v)) for v in values)
    if len(set(found)) != len(found) or len(found) > MAX_NULL_UNITS:
        raise ParameterError("P104", "null_units", values, f"must list at most {MAX_NULL_UNITS:,} distinct values.")
    return found


def check_held(column: str, duckdb_type: str, values: Iterable[Scalar], besides: Container[Scalar]) -> None:
    """Refuse a domain's values that the column's type can never hold: their cells would be noise alone.

    Args:
        column: its name.
        duckdb_type: as the schema has it.
        values: the domain, checked.
        besides: labels that are read in place of other values, so the type need not hold them.

    Raises:
        ParameterError: P104.
    """
    listed = enum_values(duckdb_type)
    kept = None if listed is None else frozenset(listed)
    for value in values:
        if value is None or value in besides:
            continue
        if (kept is not None and value not in kept) or not _number_held(duckdb_type.upper(), value):
            rule = f"is no value of the type of that column, {_short(duckdb_type)}. Leave it out, or ALTER the type."
            raise ParameterError("P104", f'domains["{column}"]', value, rule)


def enum_values(duckdb_type: str) -> tuple[str, ...] | None:
    """The values of an ENUM type, in its order; None for another type.

    >>> enum_values("ENUM('a', 'it''s')")
    ('a', "it's")
    """
    if not duckdb_type.upper().startswith("ENUM("):
        return None
    return tuple(v.replace("''", "'") for v in re.findall(r"'((?:[^']|'')*)'", duckdb_type[5:]))


def _unit_value(duckdb_type: str, value: object) -> Scalar:
    if duckdb_type in INTEGER_RANGES and isinstance(value, int) and not isinstance(value, bool):
        least, most = INTEGER_RANGES[duckdb_type]
        if least <= value <= most:
            return value
    elif duckdb_type == "VARCHAR" and isinstance(value, str) and len(value) <= MAX_NULL_UNIT and is_text(value):
        return value
    elif duckdb_type == "UUID" and isinstance(value, (str, uuid.UUID)):
        with contextlib.suppress(ValueError):
            return str(uuid.UUID(str(value)))
    raise ParameterError("P104", "null_units", value, f"is no value of the type of unit_key, {duckdb_type}.")


def _number_held(duckdb_type: str, value: Scalar) -> bool:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return True
    if duckdb_type in INTEGER_RANGES:
        least, most = INTEGER_RANGES[duckdb_type]
        return least <= value <= most
    if match := re.fullmatch(r"DECIMAL\((\d+),\s*(\d+)\)", duckdb_type):
        scaled = Decimal(repr(value)).scaleb(int(match[2]))
        return scaled == scaled.to_integral_value() and abs(scaled) < 10 ** int(match[1])
    return True


def _short(duckdb_type: str) -> str:
    return duckdb_type if len(duckdb_type) <= 80 else duckdb_type[:77] + "..."


def _number(name: str, given: object, rule: str = "must be two numbers, lower and upper.") -> float | int:
    value = given
    if type(given) is Decimal and given.is_finite():  # as DuckDB gives those of a DECIMAL; numbers are read as DOUBLE
        value = int(given) if abs(given) <= LARGEST and given == given.to_integral_value() else float(given)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise ParameterError("P104", name, given, rule)
    if (isinstance(value, float) and not math.isfinite(value)) or abs(value) > LARGEST:
        raise ParameterError("P104", name, given, f"must be finite and at most {LARGEST:g} in absolute value.")
    return value


def _moment(name: str, value: object, kind: Kind, *, zoned: bool) -> dt.date:
    """A date or timestamp; of a column with a time zone the instant in UTC, which an offset tells."""
    try:
        if isinstance(value, str):
            value = dt.datetime.fromisoformat(value) if kind is Kind.TIMESTAMP else dt.date.fromisoformat(value)
    except ValueError:
        raise ParameterError("P104", name, value, "must be an ISO date, for example 2020-01-31.") from None
    if kind is Kind.TIMESTAMP and type(value) is dt.date:
        value = dt.datetime(value.year, value.month, value.day)
    if type(value) is not (dt.datetime if kind is Kind.TIMESTAMP else dt.date):
        raise ParameterError("P104", name, value, f"must be a {kind.value}.")
    if isinstance(value, dt.datetime) and value.tzinfo is not None:
        if not zoned:
            raise ParameterError(
                "P104",
                name,
                value,
                "has a time zone and the column has none. Write it as the column has it, for "
                f"example {value.replace(tzinfo=None).isoformat(sep=' ')}.",
            )
        try:
            return value.astimezone(dt.UTC).replace(tzinfo=None)
        except OverflowError:
            raise ParameterError("P104", name, value, "must lie in the years 1 to 9999 in UTC.") from None
    return value


def _ordered(name: str, lower: Any, upper: Any) -> None:
    if not lower < upper:
        raise ParameterError("P104", name, (lower, upper), "lower must be below upper.")


def _domain_value(name: str, found: tuple[Kind, bool], value: object, *, zoned: bool) -> Scalar:
    kind, integral = found
    if value is None:
        return None
    if kind is Kind.TEXT and isinstance(value, str) and len(value) <= MAX_TEXT and is_text(value):
        return value
    if kind is Kind.BOOLEAN and isinstance(value, bool):
        return value
    if kind is Kind.NUMBER:
        number = _number(name, value, "must be a number.")
        if integral and not (float(number).is_integer() and abs(number) <= 2**53):
            raise ParameterError(
                "P104", name, value, "must be a whole number of at most 2**53: all are read as DOUBLE."
            )
        return int(number) if integral else float(number)
    if kind in (Kind.DATE, Kind.TIMESTAMP):
        return _moment(name, value, kind, zoned=zoned)
    raise ParameterError("P104", name, value, f"must be a {kind.value} (strings at most {MAX_TEXT} characters).")

"""DuckDB's types as PostgreSQL's: OIDs, and values as text or binary, both ways.

What PostgreSQL has no type for crosses as text (JSON, where it is nested), so that no client meets an OID it has never
heard of. Whole numbers without a sign cross as the next wider type.
"""

from __future__ import annotations

import datetime as dt
import json
import math
import re
import struct
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Any

from duckdp.serve.lists import items_of_binary, items_of_text
from duckdp.serve.messages import ProtocolError

# OIDs of PostgreSQL's types.
BOOL, BYTEA, INT8, INT2, INT4, TEXT, JSON = 16, 17, 20, 21, 23, 25, 114
FLOAT4, FLOAT8, UNKNOWN, VARCHAR, DATE, TIME = 700, 701, 705, 1043, 1082, 1083
TIMESTAMP, TIMESTAMPTZ, INTERVAL, NUMERIC, UUID = 1114, 1184, 1186, 1700, 2950
_EPOCH = dt.datetime(2000, 1, 1)
_DAY_ZERO = dt.date(2000, 1, 1).toordinal()
_SECOND = 1_000_000  # microseconds
Encode = Callable[[Any], bytes]


@dataclass(frozen=True, kw_only=True)
class Type:
    """How values of one type cross.

    Attributes:
        oid: PostgreSQL's number of the type.
        size: bytes of a value, -1 where they differ.
        text, binary: a Python value, as DuckDB gives it, in either format.
        array: OID of lists of it, 0 where they cross as JSON.
        name: PostgreSQL's name of the type.
    """

    oid: int
    size: int
    text: Encode
    binary: Encode
    array: int = 0
    name: str = "text"


def _text(value: Any) -> bytes:
    return str(value).encode("utf-8", "replace")


def _bool_text(value: Any) -> bytes:
    return b"t" if value else b"f"


def _float_text(value: Any) -> bytes:
    if math.isfinite(value):
        return repr(value).encode()
    return b"NaN" if math.isnan(value) else b"Infinity" if value > 0 else b"-Infinity"


def _packed(form: str) -> Encode:
    pack = struct.Struct(form).pack
    return lambda value: bytes(pack(value))


def _bytea_text(value: Any) -> bytes:
    return b"\\x" + bytes(value).hex().encode()


def _timestamp_text(value: Any) -> bytes:
    return _text(value.replace(tzinfo=None).isoformat(sep=" "))


def _zoned_text(value: Any) -> bytes:
    return _text(value.astimezone(dt.UTC).replace(tzinfo=None).isoformat(sep=" ") + "+00")


def _micros(value: dt.timedelta) -> int:
    return (value.days * 86_400 + value.seconds) * _SECOND + value.microseconds


def _timestamp(value: Any) -> bytes:
    plain = value.astimezone(dt.UTC).replace(tzinfo=None) if value.tzinfo is not None else value
    return _micros(plain - _EPOCH).to_bytes(8, "big", signed=True)


def _date(value: Any) -> bytes:
    return int(value.toordinal() - _DAY_ZERO).to_bytes(4, "big", signed=True)


def _time(value: Any) -> bytes:
    micros = ((value.hour * 60 + value.minute) * 60 + value.second) * _SECOND + value.microsecond
    return int(micros).to_bytes(8, "big", signed=True)


def _interval_text(value: Any) -> bytes:
    micros = _micros(value)
    days, rest = divmod(abs(micros), 86_400 * _SECOND)
    sign = "-" if micros < 0 else ""
    clock = (dt.datetime(2000, 1, 1) + dt.timedelta(microseconds=rest)).time().isoformat()
    return _text(f"{sign}{days} days {sign}{clock}" if days else f"{sign}{clock}")


def _interval(value: Any) -> bytes:
    micros = _micros(value)
    return struct.pack("!qii", micros - value.days * 86_400 * _SECOND, value.days, 0)


def _numeric(value: Any) -> bytes:
    """Digits in base 10,000, as PostgreSQL sends them."""
    number = Decimal(value)
    if number.is_nan():
        return struct.pack("!HhHH", 0, 0, 0xC000, 0)
    if number.is_infinite():
        return struct.pack("!HhHH", 0, 0, 0xD000 if number > 0 else 0xF000, 0)
    sign, digits, exponent = number.as_tuple()
    assert isinstance(exponent, int)
    scale = max(0, -exponent)
    whole = int("".join(map(str, digits)) or "0") * 10 ** max(0, exponent)
    groups = -(-scale // 4)
    whole *= 10 ** (groups * 4 - scale)
    parts: list[int] = []
    while whole:
        whole, part = divmod(whole, 10_000)
        parts.append(part)
    weight = len(parts) - groups - 1
    parts.reverse()
    while parts and parts[-1] == 0:
        parts.pop()
    if not parts:
        weight = 0
    return struct.pack(f"!HhHH{len(parts)}H", len(parts), weight, 0x4000 if sign else 0, scale, *parts)


def _json_text(value: Any) -> bytes:
    return json.dumps(value, default=str, ensure_ascii=False).encode("utf-8", "replace")


_UUID = Type(oid=UUID, size=16, text=_text, binary=lambda v: uuid.UUID(str(v)).bytes, array=2951, name="uuid")
_NUMERIC = Type(oid=NUMERIC, size=-1, text=_text, binary=_numeric, array=1231, name="numeric")
_PLAIN = Type(oid=TEXT, size=-1, text=_text, binary=_text, array=1009, name="text")
_NESTED = Type(oid=JSON, size=-1, text=_json_text, binary=_json_text, array=199, name="json")
_ZONED = Type(oid=TIMESTAMPTZ, size=8, text=_zoned_text, binary=_timestamp, array=1185, name="timestamptz")
_STAMP = Type(oid=TIMESTAMP, size=8, text=_timestamp_text, binary=_timestamp, array=1115, name="timestamp")
_INT2 = Type(oid=INT2, size=2, text=_text, binary=_packed("!h"), array=1005, name="int2")
_INT4 = Type(oid=INT4, size=4, text=_text, binary=_packed("!i"), array=1007, name="int4")
_INT8 = Type(oid=INT8, size=8, text=_text, binary=_packed("!q"), array=1016, name="int8")
_TYPES = {
    "BOOLEAN": Type(oid=BOOL, size=1, text=_bool_text, binary=_packed("!?"), array=1000, name="bool"),
    "TINYINT": _INT2,
    "UTINYINT": _INT2,
    "SMALLINT": _INT2,
    "USMALLINT": _INT4,
    "INTEGER": _INT4,
    "UINTEGER": _INT8,
    "BIGINT": _INT8,
    "UBIGINT": _NUMERIC,
    "HUGEINT": _NUMERIC,
    "UHUGEINT": _NUMERIC,
    "FLOAT": Type(oid=FLOAT4, size=4, text=_float_text, binary=_packed("!f"), array=1021, name="float4"),
    "DOUBLE": Type(oid=FLOAT8, size=8, text=_float_text, binary=_packed("!d"), array=1022, name="float8"),
    "VARCHAR": _PLAIN,
    "JSON": Type(oid=JSON, size=-1, text=_text, binary=_text, array=199, name="json"),
    "BLOB": Type(oid=BYTEA, size=-1, text=_bytea_text, binary=bytes, array=1001, name="bytea"),
    "DATE": Type(oid=DATE, size=4, text=_text, binary=_date, array=1182, name="date"),
    "TIME": Type(oid=TIME, size=8, text=_text, binary=_time, array=1183, name="time"),
    "TIMESTAMP": _STAMP,
    "TIMESTAMP_S": _STAMP,
    "TIMESTAMP_MS": _STAMP,
    "TIMESTAMP_NS": _STAMP,
    "TIMESTAMP WITH TIME ZONE": _ZONED,
    "INTERVAL": Type(oid=INTERVAL, size=16, text=_interval_text, binary=_interval, array=1187, name="interval"),
    "UUID": _UUID,
}


def type_of(duckdb_type: str) -> Type:
    """How values of a DuckDB type cross.

    >>> type_of("DECIMAL(9,2)").name, type_of("INTEGER[]").oid, type_of("MAP(VARCHAR, INTEGER)").name
    ('numeric', 1007, 'json')
    """
    name = duckdb_type.upper()
    if (found := _TYPES.get(name)) is not None:
        return found
    if name.startswith("DECIMAL("):
        return _NUMERIC
    if name.endswith("[]"):
        inner = type_of(duckdb_type[:-2])
        return _list_of(inner) if inner.array and inner is not _NESTED else _NESTED
    if name.startswith(("STRUCT(", "MAP(", "UNION(")) or name.endswith("]"):
        return _NESTED
    return _PLAIN


_NAMES = {
    **{t.name: t.oid for t in _TYPES.values()},
    **{name.lower(): t.oid for name, t in _TYPES.items()},
    "int": INT4,
    "oid": 26,
    "real": FLOAT4,
    "numeric": NUMERIC,
    "decimal": NUMERIC,
}


def oid_of(name: str) -> int:
    """The OID of a type by its name in a text, PostgreSQL's or DuckDB's; 0 where it is neither.

    >>> oid_of("bigint"), oid_of("int4"), oid_of("int4[]"), oid_of("thing")
    (20, 23, 1007, 0)
    """
    return _ARRAYS.get(_NAMES.get(name[:-2], 0), 0) if name.endswith("[]") else _NAMES.get(name, 0)


def _list_of(inner: Type) -> Type:
    def as_text(values: Any) -> bytes:
        return b"{" + b",".join(b"NULL" if v is None else _quoted(inner.text(v)) for v in values) + b"}"

    def as_binary(values: Any) -> bytes:
        items = [None if v is None else inner.binary(v) for v in values]
        head = struct.pack("!iiI", 1 if items else 0, int(None in items), inner.oid)
        if not items:
            return head
        parts = [b"\xff\xff\xff\xff" if v is None else struct.pack("!I", len(v)) + v for v in items]
        return head + struct.pack("!ii", len(items), 1) + b"".join(parts)

    return Type(oid=inner.array, size=-1, text=as_text, binary=as_binary, name=f"_{inner.name}")


def _quoted(item: bytes) -> bytes:
    plain = item and item.lower() != b"null" and not any(c in b'{}," \\\t\n\r\v\f' for c in item)
    return item if plain else b'"' + item.replace(b"\\", b"\\\\").replace(b'"', b'\\"') + b'"'


_ARRAYS = {**{t.oid: t.array for t in _TYPES.values() if t.array}, 26: 1028}


class Untyped(str):
    """A parameter whose type the client leaves to the statement."""


# ---- parameters ---------------------------------------------------------------------------------------------------


def read_parameter(oid: int, binary: bool, raw: bytes | None) -> object:
    """A parameter's value for DuckDB, from what a client sent.

    Args:
        oid: type the client says it has; 0 is unknown, and left to DuckDB as a text.
        binary: its format.
        raw: None for NULL.

    Raises:
        ProtocolError: not a value of that type.
    """
    if raw is None:
        return None
    try:
        if oid in (0, UNKNOWN):
            return Untyped(raw.decode())
        return _from_binary(oid, raw) if binary else _from_text(oid, raw.decode())
    except (ValueError, InvalidOperation, struct.error, OverflowError):
        raise ProtocolError("a parameter is not a value of its type") from None


OIDS = _list_of(Type(oid=26, size=4, text=_text, binary=_packed("!I"), array=1028, name="oid"))
_ITEMS = {**{t.array: t.oid for t in _TYPES.values() if t.array}, 1015: 1043, 1014: 1042, 1003: 19, 1028: 26}
_DAY = 86_400_000_000  # microseconds
_SPAN = re.compile(r"(-?\d+) days (-?\d+) seconds (-?\d+) microseconds")  # as pg8000 sends a timedelta
_ZONED_DATE = re.compile(r"(\d{4}-\d\d-\d\d) ?[+-]\d\d(?::?\d\d)?\Z")  # as JDBC sends a date


def span_of(raw: str) -> dt.timedelta | None:
    """The timedelta that pg8000 wrote as a text; None: another text.

    >>> span_of("0 days 90 seconds 0 microseconds")
    datetime.timedelta(seconds=90)
    """
    found = _SPAN.fullmatch(raw)
    try:
        return None if found is None else dt.timedelta(*map(int, found.groups()))
    except (OverflowError, ValueError):
        return None


def _from_text(oid: int, raw: str) -> object:
    match oid:
        case 16:
            if raw.lower() not in ("t", "true", "on", "1", "yes", "y", "f", "false", "off", "0", "no", "n"):
                raise ValueError(raw)
            return raw.lower() in ("t", "true", "on", "1", "yes", "y")
        case 20 | 21 | 23 | 26:
            return int(raw)
        case 700 | 701:
            return float(raw)
        case 1700:
            return Decimal(raw)
        case 1082:
            return dt.date.fromisoformat(_ZONED_DATE.sub(r"\1", raw))
        case 1114 | 1184:
            return dt.datetime.fromisoformat(raw)
        case 1083:
            return dt.time.fromisoformat(raw)
        case 1186:
            return raw if (found := span_of(raw)) is None else found
        case 2950:
            return uuid.UUID(raw)
        case 17:
            return bytes.fromhex(raw.removeprefix("\\x"))
        case _ if oid in _ITEMS:
            return [None if item is None else _from_text(_ITEMS[oid], item) for item in items_of_text(raw)]
    return raw


def _from_binary(oid: int, raw: bytes) -> object:
    match oid:
        case 16:
            return bool(struct.unpack("!?", raw)[0])
        case 21 | 23 | 20 | 26:
            if len(raw) != {21: 2, 23: 4, 20: 8, 26: 4}[oid]:
                raise ValueError(len(raw))
            return int.from_bytes(raw, "big", signed=oid != 26)
        case 700:
            return float(struct.unpack("!f", raw)[0])
        case 701:
            return float(struct.unpack("!d", raw)[0])
        case 1082:
            return dt.date.fromordinal(_DAY_ZERO + struct.unpack("!i", raw)[0])
        case 1114 | 1184:
            found = _EPOCH + dt.timedelta(microseconds=struct.unpack("!q", raw)[0])
            return found if oid == 1114 else found.replace(tzinfo=dt.UTC)
        case 1083:
            return (_EPOCH + dt.timedelta(microseconds=struct.unpack("!Q", raw)[0] % _DAY)).time()
        case 1186:
            return _interval_value(*struct.unpack("!qii", raw))
        case 1700:
            return _numeric_value(raw)
        case 2950:
            return uuid.UUID(bytes=raw)
        case 17:
            return raw
        case 25 | 1042 | 1043 | 19 | 114:
            return raw.decode()
        case _ if oid in _ITEMS:
            inner, items = items_of_binary(raw)
            return [None if item is None else _from_binary(inner, item) for item in items]
    raise ValueError(oid)


def _interval_value(microseconds: int, days: int, months: int) -> object:
    """DuckDB's parameter for it; a text where months are in it, which no Python value of the standard library knows."""
    if months:
        return f"{months} months {days} days {microseconds} microseconds"
    return dt.timedelta(days=days, microseconds=microseconds)


def _numeric_value(raw: bytes) -> Decimal:
    count, weight, sign, scale = struct.unpack("!HhHH", raw[:8])
    parts = struct.unpack(f"!{count}H", raw[8:])
    if sign not in (0, 0x4000):
        return Decimal({0xC000: "NaN", 0xD000: "Infinity", 0xF000: "-Infinity"}[sign])
    whole = 0
    for part in parts:
        whole = whole * 10_000 + part
    number = Decimal(whole).scaleb(4 * (weight - count + 1))
    return (-number if sign else number).quantize(Decimal(1).scaleb(-scale)) if scale < 1000 else number


def encoders(types: Sequence[Type], formats: Sequence[int]) -> list[Encode]:
    """How to write each column: ``formats`` is empty (all text), one for all, or one each."""
    chosen = list(formats) * len(types) if len(formats) == 1 else list(formats) or [0] * len(types)
    if len(chosen) != len(types) or any(f not in (0, 1) for f in chosen):
        raise ProtocolError("formats do not fit the columns")
    return [t.binary if f else t.text for t, f in zip(types, chosen, strict=True)]

"""Sources with a bad row: builders by name, and every kind of private read over what opens."""

from __future__ import annotations

import datetime as dt
import struct
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import duckdp
from duckdp.catalog.table import Kind, kind_of
from duckdp.catalog.values import unit_key_allowed
from duckdp.errors import DuckDPError

ROWS = 240
LAST = ROWS - 3  # the bad row: in the last row group
SECRET = "alice_7f3"
BUILDERS: dict[str, Callable[[Path], object]] = {}
ABOUT: dict[str, tuple[str, ...]] = {}
Build = Callable[[Path], object]


def source(*columns: str) -> Callable[[Build], Build]:
    """Register a builder under its name, with the columns that its bad row is about."""

    def register(build: Build) -> Build:
        BUILDERS[build.__name__], ABOUT[build.__name__] = build, columns
        return build

    return register


# ---- reading -------------------------------------------------------------------------------------------------------


def declare(curator: duckdp.Curator, name: str) -> list[str]:
    """Protect a table with all columns that have a rule; returns their names."""
    cursor = curator.engine.schema_cursor()
    found = curator.engine.source.relations(cursor)[name]
    raw = [c for c in curator.engine.source.columns(cursor, found) if kind_of(c.type) is not None]
    kinds = {c.name: kind_of(c.type)[0] for c in raw}  # type: ignore[index]
    ends: dict[Kind, tuple[object, object]] = {
        Kind.NUMBER: (0, 100),
        Kind.DATE: ("1990-01-01", "2030-01-01"),
        Kind.TIMESTAMP: ("1990-01-01", "2030-01-01"),
    }
    unit = next((c.name for c in raw if c.name.lower() == "unit" and unit_key_allowed(c.type)), None)
    curator.protect(
        name,
        row_cap=10_000,
        unit_key=unit,
        max_rows=None if unit is None else 4,
        bounds={n: ends[k] for n, k in kinds.items() if k in ends and n != unit},
        columns=[n for n, k in kinds.items() if k not in ends and n != unit],
    )
    curator.budget(epsilon=10_000, delta="0.1")
    curator.grant("ana", epsilon=10_000, delta="0.1")
    return [n for n in kinds if n != unit]


def reads(curator: duckdp.Curator, name: str, columns: list[str]) -> Iterator[Callable[[], object]]:
    """Every kind of private read, over each column."""
    session, table = curator.session("ana"), curator.tables[name]
    say = session.sql

    def asked(text: str, delta: str = "0") -> Callable[[], object]:
        return lambda: say(text, epsilon="0.5", delta=delta)

    yield asked(f"SELECT count(*) FROM {name}")
    for column in columns:
        found, quoted = table.column(column), '"' + column.replace('"', '""') + '"'
        assert found is not None
        yield asked(f"SELECT count({quoted}) FROM {name}")
        yield asked(f"SELECT count(*) FROM {name} WHERE {quoted} IS NULL")
        if found.kind is not Kind.NUMBER or found.integral:
            yield asked(f"SELECT {quoted}, count(*) FROM {name} GROUP BY {quoted}", "1e-6")
        match found.kind:
            case Kind.NUMBER:
                yield asked(f"SELECT sum({quoted}), avg({quoted} * 2 + 1) FROM {name}")
                yield asked(f"SELECT count(*) FROM {name} WHERE {quoted} > 50")
                yield asked(f"SELECT count(*) FROM {name} WHERE {quoted} = 7 OR {quoted} IN (1, 2)")
                yield asked(f"SELECT floor({quoted} / 10) AS f, count(*) FROM {name} GROUP BY f", "1e-6")
                yield lambda c=column: session.median_smooth(name, c, epsilon=1)
                yield lambda c=column: session.smooth_summary(name, [c], name=f"s{columns.index(c)}", epsilon=1)
                yield lambda c=column: session.synthesize(name, columns=[c], epsilon=1, degree=3, rows=10)
            case Kind.TEXT:
                yield asked(f"SELECT count(*) FROM {name} WHERE {quoted} = 'n3'")
                yield asked(f"SELECT count(*) FROM {name} WHERE lower({quoted}) LIKE 'n%'")
                yield asked(f"SELECT upper({quoted}) AS u, count(*) FROM {name} GROUP BY u", "1e-6")
            case Kind.BOOLEAN:
                yield asked(f"SELECT count(*) FROM {name} WHERE {quoted}")
            case Kind.DATE | Kind.TIMESTAMP:
                day = "DATE" if found.kind is Kind.DATE else "TIMESTAMP"
                yield asked(f"SELECT count(*) FROM {name} WHERE {quoted} >= {day} '2010-01-01'")
                yield asked(f"SELECT year({quoted}) AS y, count(*) FROM {name} GROUP BY y", "1e-6")


def outcome(
    data: object, folder: Path, name: str = "t", about: Sequence[str] = (), **options: Any
) -> list[DuckDPError]:
    """What becomes of a source: the refusal at the opening or protecting, or the errors of the reads.

    Args:
        data: what is opened.
        folder: for the ledger.
        name: of the table.
        about: columns that are read, all by default.
        options: of the opening.
    """
    try:
        with duckdp.open(data, ledger=folder / "hostile.ledger", **options) as curator:
            columns = declare(curator, name)
            found = []
            for read in reads(curator, name, [c for c in columns if not about or c in about]):
                try:
                    read()
                except DuckDPError as error:
                    if error.code != "N101":  # no rows, much noise: of what was released, not of what is stored
                        found.append(error)
            return found
    except DuckDPError as error:
        return [error]


# ---- Parquet -------------------------------------------------------------------------------------------------------


def good(rows: int = ROWS) -> dict[str, pa.Array]:
    """Columns of every type with a rule."""
    index = np.arange(rows)
    return {
        "unit": pa.array(index % 80, pa.int64()),
        "i": pa.array(index % 100, pa.int32()),
        "big": pa.array(index % 90, pa.int64()),
        "x": pa.array((index % 97) / 7.0),
        "s": pa.array([f"n{i % 9}" for i in range(rows)]),
        "b": pa.array(index % 3 == 0),
        "d": pa.array((index % 400 + 11_000).astype("int32"), pa.int32()).cast(pa.date32()),
        "ts": pa.array(index % 1000 * 10**12, pa.int64()).cast(pa.timestamp("us")),
    }


def write(folder: Path, columns: dict[str, pa.Array], name: str = "t.parquet", **options: Any) -> str:
    """A Parquet file of two row groups, without compression."""
    path = str(folder / name)
    given = {"compression": "none", "row_group_size": ROWS // 2, **options}
    pq.write_table(pa.table(columns), path, **given)
    return path


def patch(path: str, old: bytes, new: bytes, *, footer: bool | None = None, most: int = 10**6) -> str:
    """Replace bytes, in the footer only, outside of it only, or anywhere; the last ``most`` of them."""
    content = bytearray(Path(path).read_bytes())
    end = len(content) - 8 - struct.unpack("<I", content[-8:-4])[0]
    places, place = [], content.find(old)
    while place >= 0:
        if footer is None or footer == (place >= end):
            places.append(place)
        place = content.find(old, place + len(old))
    assert places, "nothing to patch"
    for place in places[-most:]:
        content[place : place + len(new)] = new
    Path(path).write_bytes(content)
    return path


def marked(column: str, value: object, kind: pa.DataType) -> dict[str, pa.Array]:
    """The good columns with one other value in the bad row."""
    columns = good()
    values = columns[column].to_pylist()
    values[LAST] = value
    columns[column] = pa.array(values, kind)
    return columns


@source("s")
def parquet_text_not_utf8(folder: Path) -> object:
    path = write(folder, marked("s", SECRET + "ZZZZ", pa.string()), use_dictionary=False)
    return {"t": patch(path, SECRET.encode() + b"ZZZZ", SECRET.encode() + b"\xff\xfe\xc3(")}


@source("s")
def parquet_text_not_utf8_in_a_dictionary(folder: Path) -> object:
    path = write(folder, marked("s", SECRET + "ZZZZ", pa.string()), write_statistics=False)
    return {"t": patch(path, SECRET.encode() + b"ZZZZ", SECRET.encode() + b"\xff\xfe\xc3(")}


@source("s")
def parquet_long_text_not_utf8_at_its_end(folder: Path) -> object:
    path = write(folder, marked("s", "q" * 9000 + "ZZZZ", pa.string()), use_dictionary=False, write_statistics=False)
    return {"t": patch(path, b"qZZZZ", b"q\xff\xfe\xc3(")}


@source("i")
def parquet_unit_not_utf8(folder: Path) -> object:
    columns = marked("s", SECRET + "ZZZZ", pa.string())
    path = write(folder, {**columns, "unit": columns["s"]}, use_dictionary=False)
    return {"t": patch(path, SECRET.encode() + b"ZZZZ", SECRET.encode() + b"\xff\xfe\xc3(")}


@source("ts")
def parquet_milliseconds_overflow(folder: Path) -> object:
    values = pa.array([1_500_000_000_000 + i for i in range(ROWS - 1)] + [2**62], pa.int64()).cast(pa.timestamp("ms"))
    return {"t": write(folder, {**good(), "ts": values})}


@source("ts")
def parquet_timestamps_at_the_ends(folder: Path) -> object:
    ends = [2**63 - 1, -(2**63), 2**63 - 2, -(2**63) + 1, 2**62, -(2**62), 0]
    return {"t": write(folder, {**good(), "ts": pa.array((ends * ROWS)[:ROWS], pa.int64()).cast(pa.timestamp("us"))})}


@source("d")
def parquet_dates_at_the_ends(folder: Path) -> object:
    ends = [2**31 - 1, -(2**31), 2**31 - 2, -(2**31) + 1, 0]
    return {"t": write(folder, {**good(), "d": pa.array((ends * ROWS)[:ROWS], pa.int32()).cast(pa.date32())})}


@source("ts")
def parquet_int96_overflow(folder: Path) -> object:
    path = write(folder, good(), use_deprecated_int96_timestamps=True, use_dictionary=False)
    stamp = struct.pack("<qI", 0, 2440588)
    content = Path(path).read_bytes()
    assert stamp in content
    Path(path).write_bytes(content[::1].replace(stamp, struct.pack("<qI", 2**62, 2**32 - 1), 1))
    return {"t": path}


@source("m")
def parquet_decimal_beyond_its_digits(folder: Path) -> object:
    data = struct.pack("<qq", 777, 0) * ROWS
    values = pa.Array.from_buffers(pa.decimal128(5, 2), ROWS, [None, pa.py_buffer(data)])
    path = write(folder, {**good(), "m": values}, use_dictionary=False, write_statistics=False)
    return {"t": patch(path, (777).to_bytes(3, "big"), b"\x7f\xff\xff", most=1)}


@source("big")
def parquet_wrong_maximum(folder: Path) -> object:
    columns = {**good(), "big": pa.array([i % 90 for i in range(ROWS - 1)] + [1_000_003], pa.int64())}
    path = write(folder, columns, use_dictionary=False, row_group_size=ROWS)
    return {"t": patch(path, struct.pack("<q", 1_000_003), struct.pack("<q", 5), footer=True)}


@source("s")
def parquet_wrong_maximum_of_text(folder: Path) -> object:
    path = write(folder, marked("s", "zzzz", pa.string()), row_group_size=ROWS)
    return {"t": patch(path, b"zzzz", b"a\xffcd", footer=True)}


@source("i")
def parquet_wrong_maximum_of_units(folder: Path) -> object:
    columns = {**good(), "unit": pa.array([i % 80 for i in range(ROWS - 1)] + [1_000_003], pa.int64())}
    path = write(folder, columns, use_dictionary=False, row_group_size=ROWS)
    return {"t": patch(path, struct.pack("<q", 1_000_003), struct.pack("<q", 5), footer=True)}


@source("x")
def parquet_statistics_of_nan(folder: Path) -> object:
    columns = {**good(), "x": pa.array([i / 7 for i in range(ROWS - 1)] + [4242.5])}
    path = write(folder, columns, use_dictionary=False, row_group_size=ROWS)
    return {"t": patch(path, struct.pack("<d", 4242.5), struct.pack("<d", float("nan")), footer=True)}


@source("x")
def parquet_page_overwritten(folder: Path) -> object:
    path = write(folder, good(), use_dictionary=False, data_page_version="2.0")
    content = bytearray(Path(path).read_bytes())
    middle = len(content) // 3
    content[middle : middle + 200] = bytes(range(200))
    Path(path).write_bytes(content)
    return {"t": path}


@source("i")
def parquet_row_groups_cut_out(folder: Path) -> object:
    path = write(folder, good(), compression="snappy")
    content = Path(path).read_bytes()
    end = len(content) - 8 - struct.unpack("<I", content[-8:-4])[0]
    Path(path).write_bytes(content[:200] + content[end:])
    return {"t": path}


@source("s")
def parquet_dictionary_cut(folder: Path) -> object:
    path = write(folder, good())
    return {"t": patch(path, b"n7\x02\x00\x00\x00n8", b"n7\xff\xff\xff\x7fn8")}


@source("s")
def parquet_bloom_filters_blank(folder: Path) -> object:
    path = str(folder / "t.parquet")
    with duckdb.connect() as con:
        con.execute(
            "COPY (SELECT i % 80 AS unit, (i % 30)::INTEGER AS i, 'n' || (i % 9) AS s FROM range(240) AS r(i)) "
            f"TO '{path}'"
        )
        places = con.execute(
            f"SELECT bloom_filter_offset, bloom_filter_length FROM parquet_metadata('{path}')"
        ).fetchall()
    content = bytearray(Path(path).read_bytes())
    for start, length in places:
        if start is not None:
            content[start : start + length] = b"\xff" * length
    Path(path).write_bytes(content)
    return {"t": path}


@source("i")
def parquet_other_types_in_the_second_file(folder: Path) -> object:
    other = {**good(), "i": pa.array([3_000_000_000] * ROWS, pa.int64())}
    return {"t": [write(folder, good(), "a.parquet"), write(folder, other, "b.parquet")]}


@source("x")
def parquet_other_text_in_the_second_file(folder: Path) -> object:
    other = {**good(), "x": pa.array([SECRET] * ROWS)}
    return {"t": [write(folder, good(), "a.parquet"), write(folder, other, "b.parquet")]}


@source("x")
def parquet_fewer_columns_in_the_second_file(folder: Path) -> object:
    other = {n: v for n, v in good().items() if n != "x"}
    return {"t": [write(folder, good(), "a.parquet"), write(folder, other, "b.parquet")]}


@source("x")
def parquet_more_columns_in_the_second_file(folder: Path) -> object:
    return {"t": [write(folder, good(), "a.parquet"), write(folder, {**good(), "y": good()["x"]}, "b.parquet")]}


@source("s")
def parquet_not_utf8_in_the_second_file(folder: Path) -> object:
    write(folder, good(), "a.parquet")
    path = write(folder, marked("s", SECRET + "ZZZZ", pa.string()), "b.parquet", use_dictionary=False)
    patch(path, SECRET.encode() + b"ZZZZ", SECRET.encode() + b"\xff\xfe\xc3(")
    return {"t": str(folder / "?.parquet")}


@source()
def parquet_second_file_is_none(folder: Path) -> object:
    (folder / "b.parquet").write_bytes(b"PAR1" + SECRET.encode() * 99 + b"PAR1")
    return {"t": [write(folder, good(), "a.parquet"), folder / "b.parquet"]}


@source("year")
def parquet_folders_that_are_columns(folder: Path) -> object:
    for name in ("year=2020", "year=2021", "year=next"):
        (folder / name).mkdir()
        write(folder / name, good())
    return {"t": str(folder / "*" / "t.parquet")}


@source()
def parquet_without_rows(folder: Path) -> object:
    return {"t": write(folder, good(0))}


@source("a")
def parquet_same_name_twice(folder: Path) -> object:
    path, columns = str(folder / "t.parquet"), good()
    names = ["a", "A", "a", "unit", "Unit"]
    pq.write_table(
        pa.Table.from_arrays([columns["i"], columns["s"], columns["x"], columns["unit"], columns["s"]], names), path
    )
    return {"t": path}


@source()
def parquet_encrypted(folder: Path) -> object:
    path = str(folder / "t.parquet")
    with duckdb.connect() as con:
        con.execute("PRAGMA add_parquet_key('k', '0123456789112345'); SET force_mbedtls_unsafe = 'true'")
        con.execute(f"COPY (SELECT 1 AS i) TO '{path}' (ENCRYPTION_CONFIG {{footer_key: 'k'}})")
    return {"t": path}


@source()
def parquet_of_types_without_a_rule(folder: Path) -> object:
    columns = good()
    columns["list"] = pa.array([[i] for i in range(ROWS)])
    columns["blob"] = pa.array([b"\xff\xfe"] * ROWS)
    columns["time"] = pa.array([2**62] * ROWS, pa.int64()).cast(pa.time64("us"))
    columns["nano"] = pa.array([2**62] * ROWS, pa.int64()).cast(pa.timestamp("ns"))
    columns["struct"] = pa.array([{"a": 1}] * ROWS)
    return {"t": write(folder, columns)}


# ---- DuckDB files --------------------------------------------------------------------------------------------------

COLUMNS = (
    "i % 80 AS unit, (i % 100)::INTEGER AS i, (i % 97) / 7.0::DOUBLE AS x, 'n' || (i % 9) AS s, i % 3 = 0 AS b, "
    "DATE '2000-01-01' + (i % 400)::INTEGER AS d, TIMESTAMP '2020-01-01' + to_minutes(i) AS ts"
)


def make(folder: Path, *statements: str, rows: int = ROWS) -> str:
    """A DuckDB file with a good table t, and what else the statements do."""
    path = str(folder / "t.duckdb")
    with duckdb.connect(path) as con:
        con.execute(f"CREATE TABLE t AS SELECT {COLUMNS} FROM range({rows}) r(i)")
        for statement in statements:
            con.execute(statement)
    return path


@source("c")
def file_with_all_that_a_schema_may_hold(folder: Path) -> object:
    return make(
        folder,
        "CREATE INDEX by_i ON t (i)",
        "CREATE SEQUENCE seq",
        "CREATE TYPE mood AS ENUM ('a', 'b')",
        "ALTER TABLE t ADD COLUMN e mood DEFAULT 'a'",
        "ALTER TABLE t ADD COLUMN z INTEGER DEFAULT 7",
        "ALTER TABLE t ADD COLUMN c VARCHAR",
        "UPDATE t SET c = 'Name'",
        "DELETE FROM t WHERE i = 3",
        "CREATE TABLE checked (i INTEGER CHECK (i > 0), v VARIANT, g BIT, m MAP(INTEGER, INTEGER), u UNION(a INTEGER))",
        "CREATE MACRO twice(a) AS 2 * a",
        "CREATE VIEW duckdb_tables AS SELECT 1 AS i",
        "CREATE SECURE VIEW hidden AS SELECT i FROM t",
        "ALTER TABLE t ADD COLUMN u UUID",
        "UPDATE t SET u = uuid()",
    )


@source()
def file_with_a_damaged_block(folder: Path) -> object:
    path = make(folder, rows=200_000)
    content = bytearray(Path(path).read_bytes())
    blocks = range(12_288 + 262_144, len(content) - 262_144, 262_144)
    for block in blocks:
        content[block + 70_000] ^= 1
    Path(path).write_bytes(content)
    return path


@source()
def file_cut_short(folder: Path) -> object:
    path = make(folder, rows=200_000)
    content = Path(path).read_bytes()
    Path(path).write_bytes(content[: len(content) // 2])
    return path


@source("i")
def file_with_a_damaged_index(folder: Path) -> object:
    path = make(folder, rows=60_000)
    size = Path(path).stat().st_size
    with duckdb.connect(path) as con:
        con.execute("CREATE INDEX by_i ON t (i)")
    content = bytearray(Path(path).read_bytes())
    for place in range(size + 1000, len(content), 4096):
        content[place] ^= 1
    Path(path).write_bytes(content)
    return path


@source()
def file_with_a_damaged_log(folder: Path) -> object:
    path = make(folder)
    with duckdb.connect(path) as con:
        con.execute("PRAGMA disable_checkpoint_on_shutdown; SET checkpoint_threshold = '1TB'")
        con.execute(f"INSERT INTO t SELECT {COLUMNS} FROM range({ROWS}) r(i)")
    log = Path(path + ".wal")
    content = bytearray(log.read_bytes())
    content[len(content) // 2] ^= 255
    log.write_bytes(content)
    return path


@source("y")
def file_with_a_generated_column(folder: Path) -> object:
    return make(
        folder,
        "CREATE TABLE g (unit INTEGER, s VARCHAR, y INTEGER AS (CAST(s AS INTEGER)))",
        "INSERT INTO g (unit, s) SELECT i, i::VARCHAR FROM range(100) r(i)",
        f"UPDATE g SET s = '{SECRET}' WHERE unit = 7",
        "DROP TABLE t",
        "ALTER TABLE g RENAME TO t",
    )


@source("y")
def file_with_a_column_made_by_a_macro(folder: Path) -> object:
    return make(
        folder,
        "CREATE MACRO half(a) AS a / 2",
        "CREATE TABLE g (unit INTEGER, y DOUBLE AS (half(unit)))",
        "INSERT INTO g (unit) SELECT i FROM range(100) r(i)",
        "DROP TABLE t",
        "ALTER TABLE g RENAME TO t",
    )


# ---- frames --------------------------------------------------------------------------------------------------------


def _texts(raw: list[bytes]) -> pa.Array:
    offsets = np.cumsum([0] + [len(r) for r in raw]).astype("int32")
    return pa.StringArray.from_buffers(len(raw), pa.py_buffer(offsets.tobytes()), pa.py_buffer(b"".join(raw)))


@source("s")
def frame_text_not_utf8(folder: Path) -> object:
    return {"t": pa.table({**good(), "s": _texts([b"n1"] * (ROWS - 1) + [SECRET.encode() + b"\xff"])})}


@source("s")
def frame_of_batches_not_utf8(folder: Path) -> object:
    table = pa.table({**good(), "s": _texts([b"n1"] * (ROWS - 1) + [SECRET.encode() + b"\xff"])})
    return {"t": table.to_reader(max_chunksize=50)}


@source()
def frame_offsets_that_go_back(folder: Path) -> object:
    offsets = np.array([0, 3, -9, 4], dtype="int32")
    return {
        "t": pa.table({"s": pa.StringArray.from_buffers(3, pa.py_buffer(offsets.tobytes()), pa.py_buffer(b"abcd"))})
    }


@source()
def frame_dictionary_index_beyond_the_end(folder: Path) -> object:
    indices = pa.array([0, 1_000_000, 1], pa.int32())
    return {"t": pa.table({"s": pa.DictionaryArray.from_arrays(indices, pa.array(["a", "b"]), safe=False)})}


@source("ts")
def frame_milliseconds_overflow(folder: Path) -> object:
    values = pa.array([1_500_000_000_000] * (ROWS - 1) + [2**62], pa.int64()).cast(pa.timestamp("ms"))
    return {"t": pa.table({**good(), "ts": values})}


@source("ts")
def frame_time_zone_overflow(folder: Path) -> object:
    values = pa.array([1_500_000_000] * (ROWS - 1) + [2**62], pa.int64()).cast(pa.timestamp("s", tz="UTC"))
    return {"t": pa.table({**good(), "ts": values})}


@source("m")
def frame_decimal256(folder: Path) -> object:
    return {"t": pa.table({"m": pa.array([1, 2], pa.decimal256(50, 2))})}


@source("m")
def frame_decimal_beyond_its_digits(folder: Path) -> object:
    data = struct.pack("<qq", -1, 2**62) * ROWS
    return {
        "t": pa.table({**good(), "m": pa.Array.from_buffers(pa.decimal128(5, 2), ROWS, [None, pa.py_buffer(data)])})
    }


@source()
def frame_that_fails_midway(folder: Path) -> object:
    def batches() -> Iterator[pa.RecordBatch]:
        yield pa.record_batch({"s": ["n1"] * 5000})
        raise ValueError(SECRET)

    return {"t": pa.RecordBatchReader.from_batches(pa.schema({"s": pa.string()}), batches())}


class Sly:
    """An object whose text fails."""

    def __repr__(self) -> str:
        raise RuntimeError(SECRET)


def _objects(*late: object) -> object:
    import pandas as pd

    return {"t": pd.DataFrame({"s": pd.Series(["n1"] * 5000 + list(late), dtype=object)})}


@source()
def pandas_types_mixed_late(folder: Path) -> object:
    import pandas as pd

    return {"t": pd.DataFrame({"i": pd.Series([1] * 5000 + [SECRET], dtype=object)})}


@source()
def pandas_dates_mixed_late(folder: Path) -> object:
    import pandas as pd

    return {"t": pd.DataFrame({"d": pd.Series([dt.date(2020, 1, 1)] * 5000 + [7], dtype=object)})}


@source()
def pandas_object_without_text(folder: Path) -> object:
    return _objects(Sly())


@source()
def pandas_lone_surrogate(folder: Path) -> object:
    return _objects(SECRET + "\ud800")


@source()
def pandas_bytes_in_text(folder: Path) -> object:
    return _objects(SECRET.encode() + b"\xff")


@source()
def pandas_truth_neither_true_nor_false(folder: Path) -> object:
    import pandas as pd

    return {"t": pd.DataFrame({"b": np.array([0, 1] * 100 + [2, 255], dtype="uint8").view(bool)})}


@source()
def polars_objects(folder: Path) -> object:
    import polars as pl

    return {"t": pl.DataFrame({"s": pl.Series([Sly(), SECRET], dtype=pl.Object)})}


# ---- open connections ----------------------------------------------------------------------------------------------


def _connection(*statements: str) -> duckdb.DuckDBPyConnection:
    con = duckdb.connect()
    con.execute(f"CREATE TABLE t AS SELECT {COLUMNS} FROM range({ROWS}) r(i)")
    for statement in statements:
        con.execute(statement)
    return con


@source()
def connection_with_views_over_frames(folder: Path) -> object:
    con = _connection("CREATE VIEW v AS SELECT i FROM t", "CREATE TEMP TABLE hidden AS SELECT 1 AS i")
    con.register("lazy", pa.table({"i": [1]}))
    return con


@source("y")
def connection_generated_column_fails(folder: Path) -> object:
    return _connection(
        "CREATE TABLE g (s VARCHAR, y INTEGER AS (CAST(s AS INTEGER)))",
        "INSERT INTO g (s) VALUES ('1'), ('2')",
        f"UPDATE g SET s = '{SECRET}' WHERE s = '2'",
    )


@source("y")
def connection_generated_column(folder: Path) -> object:
    return _connection(
        "CREATE MACRO half(a) AS a / 2",
        "CREATE TABLE g (unit INTEGER, y DOUBLE AS (half(unit)))",
        "INSERT INTO g (unit) SELECT i FROM range(100) r(i)",
        "DROP TABLE t",
        "ALTER TABLE g RENAME TO t",
    )


@source()
def connection_of_odd_types(folder: Path) -> object:
    return _connection(
        "CREATE TABLE o (v VARIANT, b BIT, u UNION(a INTEGER, c VARCHAR))", "INSERT INTO o VALUES (1, '101', 1)"
    )


@source()
def connection_closed(folder: Path) -> object:
    con = _connection()
    con.close()
    return con

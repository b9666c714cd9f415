"""A program that throws malformed serialized statements and extreme arguments at a front, and counts how they end.

Run in a process of its own, which a crash would end: ``python front_fuzz.py FOLDER SEED TRIES``. Prints one JSON line:
how many statements ended how (the kind of error, or "answered"), and texts of errors that show what they must not. The
statement under way stands in FOLDER/now, so that what ended the process can be tried again.
"""

from __future__ import annotations

import copy
import json
import random
import re
import resource
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

import duckdp

MOST_MEMORY = 6 << 30  # bytes of the process's addresses
SECONDS = 0.5  # a statement that runs longer is interrupted
# OPERATORS: a comparison called as a function, "IS NOT DISTINCT FROM"('x'::VARIANT, uuid()), ends the process in
# DuckDB 2.0.0 (README, known limits); those names are left out here.
# No recursive statement: json_execute_serialized_sql runs one without end, and DuckDB 2.0 does not interrupt it.
SEEDS = (
    "FROM range(3)",
    "SELECT 1",
    "SELECT * FROM visits",
    "SELECT a.b FROM (VALUES (1)) a(b) JOIN range(3) r(b) USING (b)",
    "SELECT i % 3 AS k, sum(i), list(i ORDER BY i DESC) FILTER (WHERE i > 2) FROM range(9) t(i) GROUP BY ROLLUP (k)",
    "SELECT row_number() OVER (PARTITION BY i % 2 ORDER BY i ROWS 1 PRECEDING) FROM range(5) t(i)",
    "SELECT CAST('1' AS DECIMAL(9, 2)), [1, 2, NULL], {'a': 1, 'b': [2.5]}, MAP {'x': DATE '2020-01-01'}, 'a'::BLOB",
    "SELECT lead(i, 1, 0) OVER (ORDER BY i), nth_value(i, 2) OVER () FROM range(5) t(i) QUALIFY true",
    "SELECT list_transform([1, 2], lambda x: x + 1), CASE WHEN true THEN 1 ELSE NULL END, 3 IN (1, 2), NOT true",
    "SELECT (SELECT max(i) FROM range(3) t(i)), EXISTS (FROM range(2)), 1 = ANY (SELECT 1) UNION ALL SELECT 1, 2, 3",
    "FROM range(9) t(i) SELECT DISTINCT ON (i % 2) i, * EXCLUDE (i) REPLACE (1 AS i) ORDER BY ALL LIMIT 5 OFFSET 1",
    "FROM dp_budget()",
    "SELECT dp_noisy_count('visits', epsilon := 0.000001)",
    "FROM __dp_bind('x', [], [])",
    "SELECT __dp_f64('x', 0), __dp_ask(NULL), __dp_i64(repeat('x', 9), -1)",
    "FROM (PIVOT range(3) ON range USING count(*))",
    "SELECT * FROM range(3) a ASOF JOIN range(4) b ON a.range >= b.range POSITIONAL JOIN range(2) c",
    "SELECT INTERVAL 3 DAY, TIMESTAMP '2020-01-01 00:00:00', UUID '00000000-0000-0000-0000-000000000000', 1::HUGEINT",
    "SELECT unnest([1, 2]), struct_pack(a := 1).a, [1, 2][2:], 'a' COLLATE C, $1, COLUMNS('x') FROM (SELECT 1 AS x)",
    "FROM range(99) t(i) TABLESAMPLE 10%",
    "SELECT quantile_cont(i, [0.1, 0.5]), histogram(i), arg_max(i, i) FROM range(9) t(i)",
)
EXTREME = (
    "NULL",
    "0",
    "-1",
    "1",
    "9223372036854775807",
    "-9223372036854775808",
    "18446744073709551615",
    "1e308",
    "-1e308",
    "5e-324",
    "'nan'::DOUBLE",
    "'-inf'::DOUBLE",
    "170141183460469231731687303715884105727",
    "0.1::DECIMAL(38,37)",
    "''",
    "'a'",
    "repeat('x', 70000)",
    "chr(0) || 'x'",
    "'\\xFF'::BLOB",
    "[]",
    "[NULL]",
    "[[1], NULL, []]",
    "range(1000)",
    "{'a': NULL}",
    "MAP {}",
    "MAP {1: NULL}",
    "DATE '5881580-07-10'",
    "'-infinity'::TIMESTAMP",
    "'infinity'::DATE",
    "TIME '24:00:00'",
    "INTERVAL '2147483647 months'",
    "INTERVAL '-9223372036854775808 microseconds'",
    "true",
    "'{\"a\": [1]}'::JSON",
    "UUID '00000000-0000-0000-0000-000000000000'",
    "'(+*?['",
    "'%' || chr(128169)",
    "'visits'",
    "BIT '1'",
    "'x'::VARIANT",
    "lambda x: x",
    "lambda x, y: y",
    "NULL::INTEGER[3]",
    "'POINTER'",
    "ROW(1, NULL)",
    "*",
    "timestamptz '2020-01-01 00:00:00+00'",
    "timetz '00:00:00+15:59:59'",
    "timestamp_ns '2262-04-11 23:47:16.854775807'",
    "(SELECT 1 WHERE false)",
    "1::UTINYINT",
    "(-128)::TINYINT",
    "65535::USMALLINT",
    "i",
    "array_value(1.5::FLOAT, NULL)",
)
_WHOLE = (
    "NULL",
    "0",
    "-1",
    "3",
    "127",
    "-128",
    "2147483647",
    "-2147483648",
    "9223372036854775807",
    "-9223372036854775808",
)
_REAL = ("NULL", "0.0", "-0.0", "1e308", "-1e308", "5e-324", "'nan'::DOUBLE", "'inf'::DOUBLE", "'-inf'::DOUBLE", "0.5")
_TEXT = (*(x for x in EXTREME if x[0] == "'" and "::" not in x), "repeat('x', 70000)", "chr(0) || 'x'", "NULL")
OF_TYPE = {
    "VARCHAR": _TEXT,
    "DOUBLE": _REAL,
    "FLOAT": _REAL,
    "DECIMAL": (*_REAL, "0.1::DECIMAL(38,37)"),
    "BOOLEAN": ("true", "false", "NULL"),
    "BLOB": ("'\\xFF'::BLOB", "''::BLOB", "NULL"),
    "BIT": ("BIT '1'", "BIT ''"),
    "DATE": ("DATE '5881580-07-10'", "'-infinity'::DATE", "DATE '0001-01-01'", "NULL"),
    "TIMESTAMP": ("'-infinity'::TIMESTAMP", "TIMESTAMP '294247-01-10 04:00:54.775806'", "NULL"),
    "TIME": ("TIME '24:00:00'", "TIME '00:00:00'"),
    "INTERVAL": ("INTERVAL '2147483647 months'", "INTERVAL '-9223372036854775808 microseconds'", "INTERVAL 0 DAY"),
    **dict.fromkeys(("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT", "UBIGINT", "UINTEGER", "UTINYINT"), _WHOLE),
    **dict.fromkeys(("T[]", "ANY[]", "VARCHAR[]", "BIGINT[]"), ("[]", "[NULL]", "[1, NULL]", "range(999)", "['a']")),
    "JSON": ("'{\"a\": [1]}'::JSON", "'[]'::JSON", "'x'", "NULL"),
    "LAMBDA": ("lambda x: x", "lambda x, y: y"),
}
VALUES: tuple[Any, ...] = (
    None,
    0,
    -1,
    1,
    2**31,
    2**63 - 1,
    -(2**63),
    2**64 - 1,
    2**64,
    1e308,
    "",
    "x",
    "visits",
    "POINTER",
    "INVALID",
    "NULL",
    "LIST",
    "STRUCT",
    "DECIMAL",
    "ENUM",
    "MAP",
    "UNION",
    "ARRAY",
    "AGGREGATE_STATE",
    "LAMBDA",
    "TYPE",
    "ANY",
    "VARIANT",
    "VALUE_CONSTANT",
    "COMPARE_EQUAL",
    "BOUND_REF",
    "BOUND_COLUMN_REF",
    "POSITIONAL_REFERENCE",
    "PARAMETER",
    "SUBQUERY",
    "TABLE_FUNCTION",
    "BASE_TABLE",
    "CTE_NODE",
    "RECURSIVE_CTE_NODE",
    "SET_OPERATION_NODE",
    "WINDOW_LEAD",
    "FUNCTION",
    "COLUMN_DATA",
    "DELIM_GET",
    "PIVOT",
    "SHOW_REF",
    "pandas_scan",
    "arrow_scan",
    "python_map_function",
    "seq_scan",
    [],
    {},
    [[]],
    [None],
    True,
    False,
    "INSERT_QUERY_NODE",
    "STATEMENT_NODE",
    "EMPTY",
    "BOUND_EXPRESSION",
    "18446744073709551615",
)
NOT_FOR_SHOW = re.compile(r"0x[0-9a-f]{4}|\+0x|/[\w.-]+/[\w.-]+/|\.so\b|\.py\b|\.cpp|Stack Trace|INTERNAL|Traceback")


def nodes(tree: Any) -> Iterator[tuple[Any, Any]]:
    """(container, key) of every place in a JSON tree."""
    items = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    for key, value in list(items):
        yield tree, key
        yield from nodes(value)


def mutated(rng: random.Random, trees: list[Any], constants: list[Any]) -> str:
    """A statement's tree with up to four places changed: another value, another subtree, none, twice, another type."""
    tree = copy.deepcopy(rng.choice(trees))
    for _ in range(rng.randint(1, 4)):
        places = list(nodes(tree))
        if not places:
            break
        container, key = rng.choice(places)
        match rng.randrange(6):
            case 0:
                del container[key]
            case 1:
                other, at = rng.choice(list(nodes(rng.choice(trees))))
                container[key] = copy.deepcopy(other[at])
            case 2 if isinstance(container, list):
                container.insert(key, copy.deepcopy(container[key]))
            case 3 if isinstance(container[key], str):
                container[key] = rng.choice([v for v in VALUES if isinstance(v, str)])
            case 4:
                container[key] = copy.deepcopy(rng.choice(constants))
            case _:
                container[key] = copy.deepcopy(rng.choice(VALUES))
    return json.dumps(tree)


def constant(kind: str, value: Any, info: Any = None) -> dict[str, Any]:
    """A constant of any type, as 1.5 wrote them and 2.0 still reads some."""
    value = {"type": {"id": kind, "type_info": info}, "is_null": value is None, "value": value}
    return {"class": "CONSTANT", "type": "VALUE_CONSTANT", "alias": "", "query_location": 0, "value": value}


def program(con: Any, rng: random.Random) -> Iterator[tuple[str, list[str]]]:
    """Statements without end."""
    ask = "SELECT json_serialize_sql($1)"
    trees = [json.loads(con.execute(ask, [text]).fetchone()[0]) for text in SEEDS]
    trees = [tree for tree in trees if not tree["error"]]
    kinds = ("POINTER", "BIGINT", "VARCHAR", "BLOB", "LIST", "STRUCT", "DECIMAL", "ENUM", "HUGEINT", "VARIANT", "TYPE")
    constants = [constant(kind, value) for kind in kinds for value in (None, 1, 2**63, "x", [], {}, [1])]
    names = con.execute(
        "SELECT DISTINCT function_name, function_type, [coalesce(t, '') FOR t IN parameter_types] "
        "FROM duckdb_functions() WHERE function_name NOT IN ('sleep_ms', 'pg_sleep') AND function_type "
        "IN ('scalar', 'aggregate', 'table', 'macro', 'table_macro', 'pragma') "
        "AND regexp_full_match(function_name, '\\w+') ORDER BY ALL"  # see OPERATORS
    ).fetchall()
    while True:
        if rng.random() < 0.6:
            text = mutated(rng, trees, constants)
            how = rng.choice(
                (
                    "FROM json_execute_serialized_sql($1)",
                    "SELECT json_deserialize_sql($1)",
                    "FROM json_execute_serialized_sql($1::JSON) LIMIT 5",
                )
            )
            yield how, [text]
            continue
        name, kind, types = rng.choice(names)
        fitting = [rng.choice(OF_TYPE.get(t.split("(")[0], EXTREME)) for t in types]
        given = [x if rng.random() < 0.85 else rng.choice(EXTREME) for x in fitting]
        given = given[: -1 if rng.random() < 0.05 else None] + [rng.choice(EXTREME)] * (rng.random() < 0.1)
        call = f'"{name}"({", ".join(given)})'
        over = rng.choice((" OVER ()", " OVER (ORDER BY i ROWS 9223372036854775807 PRECEDING)", "", "", ""))
        if kind in ("table", "table_macro"):
            yield f"FROM {call} LIMIT 9", []
        elif kind == "pragma":
            yield f"PRAGMA {call}", []
        else:
            yield f"SELECT {call}{over if kind == 'aggregate' else ''} FROM range(3) AS t(i)", []


def attempt(con: Any, statement: str, parameters: list[str]) -> str:
    """How a statement ended; texts that show what they must not are collected by the caller."""
    over = threading.Event()

    def watch() -> None:
        while not over.wait(SECONDS):  # again and again: an interrupt between two steps is lost
            con.interrupt()

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        done = con.execute(statement, parameters) if parameters else con.execute(statement)
        done.fetchmany(10)
    except Exception as error:  # noqa: BLE001 - every kind is counted
        return f"{type(error).__name__}\n{error}"
    finally:
        over.set()
        watcher.join()
    return "answered"


def main(folder: Path, seed: int, tries: int, connect: Callable[[Any], Any] | None = None) -> dict[str, Any]:
    """Throw ``tries`` statements at a new front."""
    rng, ends, shown = random.Random(seed), Counter[str](), []
    rows = pa.table({"pid": [1, 2, 3], "name": ["Zanzibar", "b", "c"]})
    with duckdp.open({"visits": rows}, ledger=folder / f"{seed}.ledger") as curator, (folder / "now").open("w") as now:
        curator.protect("visits", unit_key="pid", max_rows=1, row_cap=10)
        curator.budget(epsilon=10)
        curator.grant("ana", epsilon=10)
        con = curator.connect("ana") if connect is None else connect(curator)
        makes = program(con, rng)
        for _ in range(tries):
            statement, parameters = next(makes)
            now.seek(0)
            now.truncate()
            now.write(json.dumps([statement, parameters]))
            now.flush()
            kind, _, text = attempt(con, statement, parameters).partition("\n")
            ends[kind] += 1
            if kind == "FatalException":  # the instance has ended; the next connection gets another
                con = curator.connect("ana") if connect is None else connect(curator)
            given = "".join([statement, *parameters])
            if found := [m for m in NOT_FOR_SHOW.findall(text) if m not in given]:
                shown.append([found, text[:600], statement, parameters])
            assert "Zanzibar" not in text.replace(given, "")
        alive = con.execute("SELECT value FROM dp_noisy_count('visits', epsilon := 0.1)").fetchall()
    return {"tries": tries, "ends": dict(ends), "shown": shown, "alive": len(alive)}


if __name__ == "__main__":
    # DuckDB does not count lists in its memory_limit: range(2147483647) takes 16 GB where the system has them
    resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY, MOST_MEMORY))
    print(json.dumps(main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))))

"""The tables of a ledger in PostgreSQL: made, recognized, compared with what they must be, and copied into a file."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator
from typing import Any

from duckdp.errors import LedgerError
from duckdp.ledger import schema
from duckdp.ledger.served_errors import unfit
from duckdp.ledger.storage import Failure, Served
from duckdp.resources import read_sql

SCRIPT = "ledger_postgresql.sql"
#: Tables of the ledger, each after those that it refers to; those of the log of statements are not among them.
TABLES = (
    *("dataset", "analyst", "catalog", "charge", "release", "finished", "stage", "object", "share", "event"),
    *("directory", "team", "reservation", "interaction", "step"),
)
_OWN = (*TABLES, "log", "chain", "statement")
_AT_ONCE = 1000  # rows

_MARK = f"duckdp ledger, version {len(schema.SCHEMAS)}"  # the comment on the table dataset

_COLUMNS = (
    "SELECT c.relname, a.attnum::bigint, a.attname, format_type(a.atttypid, a.atttypmod), a.attnotnull::text, "
    "coalesce(pg_get_expr(d.adbin, d.adrelid), ''), a.attidentity::text, coalesce(l.collname, '') "
    "FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped "
    "LEFT JOIN pg_attrdef d ON d.adrelid = c.oid AND d.adnum = a.attnum "
    "LEFT JOIN pg_collation l ON l.oid = a.attcollation "
    "WHERE c.relnamespace = ?::bigint AND c.relkind IN ('r', 'p', 'v', 'm', 'f') ORDER BY c.relname, a.attnum"
)
_CONSTRAINTS = (
    "SELECT c.relname, n.conname, pg_get_constraintdef(n.oid), n.convalidated::text FROM pg_constraint n "
    "JOIN pg_class c ON c.oid = n.conrelid WHERE c.relnamespace = ?::bigint AND n.contype IN ('c', 'f', 'p', 'u', 'x') "
    "ORDER BY c.relname, n.conname"
)
_INDEXES = (
    "SELECT c.relname, pg_get_indexdef(i.indexrelid), i.indisvalid::text FROM pg_index i "
    "JOIN pg_class c ON c.oid = i.indrelid WHERE c.relnamespace = ?::bigint ORDER BY c.relname, 2"
)
_TRIGGERS = (
    "SELECT c.relname, pg_get_triggerdef(t.oid), t.tgenabled::text FROM pg_trigger t "
    "JOIN pg_class c ON c.oid = t.tgrelid WHERE c.relnamespace = ?::bigint AND NOT t.tgisinternal "
    "ORDER BY c.relname, t.tgname"
)
_FLAGS = (
    "SELECT c.relname, c.relkind::text, c.relrowsecurity::text, c.relhasrules::text, c.relhassubclass::text "
    "FROM pg_class c WHERE c.relnamespace = ?::bigint AND c.relkind IN ('r', 'p', 'v', 'm', 'f') ORDER BY c.relname"
)

_FOREIGN = (
    "SELECT 1 FROM pg_catalog.pg_namespace n JOIN pg_catalog.pg_roles u ON u.rolname = current_user "
    "WHERE n.nspname = ? AND ("
    "NOT (n.nspowner = u.oid OR (NOT u.rolsuper AND pg_catalog.pg_has_role(u.oid, n.nspowner, 'MEMBER'))) "
    "OR EXISTS (SELECT 1 FROM pg_catalog.aclexplode(n.nspacl) a "
    "WHERE a.privilege_type = 'CREATE' AND a.grantee <> n.nspowner AND a.grantee <> u.oid))"
)

_models: dict[int, list[tuple[Any, ...]]] = {}  # by the server's version: what the tables must be


def is_there(connection: Served) -> bool:
    """Whether the schema holds a ledger.

    Raises:
        Failure.
    """
    return (
        connection.execute(
            "SELECT 1 FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace "
            "WHERE n.nspname = ? AND c.relname = 'dataset'",
            (connection.schema,),
        ).fetchone()
        is not None
    )


def version(connection: Served) -> int | None:
    """The version of the ledger; None where this is none.

    Raises:
        Failure.
    """
    row = connection.execute(
        "SELECT obj_description(c.oid, 'pg_class') FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace "
        "WHERE n.nspname = ? AND c.relname = 'dataset'",
        (connection.schema,),
    ).fetchone()
    found = None if row is None or row[0] is None else re.fullmatch(r"duckdp ledger, version ([0-9]{1,6})", row[0])
    return None if found is None else int(found[1])


def require_own(connection: Served) -> None:
    """Refuse a schema that others own or may write into: they could drop tables, and add functions that we would call.

    Raises:
        Failure: B214, or of the server.
    """
    if connection.execute(_FOREIGN, (connection.schema,)).fetchone() is not None:
        what = (
            "its schema belongs to another role, or another role may create things in it. Make the schema this user's "
            "own (ALTER SCHEMA ... OWNER TO, REVOKE CREATE ON SCHEMA ... FROM), or name another one in the address"
        )
        raise Failure("", unfit(connection.path, what))


def make(connection: Served) -> bool:
    """Make the tables within the transaction that is open; False where somebody was faster.

    Raises:
        Failure: B214, see :func:`require_own`. LedgerError: B207, the schema holds something else.
    """
    name = connection.schema
    require_own(connection)
    connection.execute("SELECT pg_advisory_xact_lock(hashtextextended(?, 0::bigint))", (f"duckdp {name}",))
    if is_there(connection):
        return False
    other = connection.execute(
        "SELECT 1 FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = ? LIMIT 1", (name,)
    ).fetchone()
    if other is not None:
        raise LedgerError(
            "B207",
            f'the schema of the ledger "{connection.path}" holds other tables. Name a schema of its own in the '
            "address, such as ?schema=clinic.",
            path=connection.path,
        )
    if connection.execute("SELECT 1 FROM pg_namespace WHERE nspname = ?", (name,)).fetchone() is None:
        connection.script(f'CREATE SCHEMA "{name}"; REVOKE ALL ON SCHEMA "{name}" FROM PUBLIC')
    _make(connection)
    return True


def remake(connection: Served) -> None:
    """Make the tables anew, empty, within the transaction that is open.

    Raises:
        Failure.
    """
    connection.script(f"DROP TABLE {', '.join(_OWN)}; DROP FUNCTION refuse_change()")
    _make(connection)


def _make(connection: Served) -> None:
    connection.script(read_sql(SCRIPT))
    connection.script(f"COMMENT ON TABLE dataset IS '{_MARK}'")


def described(connection: Served, *, schema_id: int | None = None) -> list[tuple[Any, ...]]:
    """Tables, columns, constraints, indexes and triggers of a schema, without its name."""
    if schema_id is None:
        row = connection.execute("SELECT oid::bigint FROM pg_namespace WHERE nspname = ?", (connection.schema,))
        schema_id = row.fetchone()[0]
        lasting = connection.execute(
            "SELECT count(*) FROM pg_class WHERE relnamespace = ?::bigint AND relkind = 'r' AND relpersistence = 'p'",
            (schema_id,),
        ).fetchone()[0]
        body = connection.execute(
            "SELECT string_agg(prosrc, ' ') FROM pg_proc WHERE pronamespace = ?::bigint", (schema_id,)
        ).fetchone()[0]
        found = [("", lasting, body)]
    else:
        found = [("", len(_OWN), _body())]
    for kind, query in enumerate((_FLAGS, _COLUMNS, _CONSTRAINTS, _INDEXES, _TRIGGERS)):
        for row in connection.execute(query, (schema_id,)).fetchall():
            found.append((kind, *(_bare(value, connection.schema) for value in row)))
    return found


def expected(connection: Served) -> list[tuple[Any, ...]]:
    """What :func:`described` gives of a ledger as it is made; see :func:`learn`."""
    return _models[_server(connection)]


def learn(connection: Served) -> None:
    """Find out what the tables must be, outside of any transaction: they are made as temporary ones, and undone.

    A server writes what it was told in words of its own, which differ from version to version.

    Raises:
        Failure.
    """
    if _server(connection) in _models:
        return
    tables = re.sub(r"CREATE FUNCTION.*?END';", "", read_sql(SCRIPT), flags=re.DOTALL)
    connection.script("BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE")
    try:
        connection.script(f'SET LOCAL search_path = pg_temp, "{connection.schema}"')
        connection.script(tables)
        mine = connection.execute("SELECT pg_my_temp_schema()::bigint").fetchone()[0]
        _models[_server(connection)] = described(connection, schema_id=mine)
    finally:
        connection.undo()


def contradictions(connection: Served) -> Iterator[str]:
    """Rows that refer to none, and what is there twice that is there once."""
    for table, columns, other, theirs in _references(connection):
        pairs = " AND ".join(f"o.{b} = t.{a}" for a, b in zip(columns, theirs, strict=True))
        query = f"SELECT 1 FROM {table} t WHERE NOT EXISTS (SELECT 1 FROM {other} o WHERE {pairs}) LIMIT 1"
        if connection.execute(query).fetchone() is not None:
            yield "its tables contradict each other"
            return
    connection.execute("SET LOCAL enable_indexscan = off")
    connection.execute("SET LOCAL enable_indexonlyscan = off")
    connection.execute("SET LOCAL enable_bitmapscan = off")
    try:
        for table, unique in (("event", "seq"), ("charge", "id"), ("charge", "analyst, key"), ("directory", "name")):
            query = f"SELECT 1 FROM {table} GROUP BY {unique} HAVING count(*) > 1 LIMIT 1"
            if connection.execute(query).fetchone() is not None:
                yield "its tables contradict each other"
                return
    finally:
        connection.execute("SET LOCAL enable_indexscan = on")
        connection.execute("SET LOCAL enable_indexonlyscan = on")
        connection.execute("SET LOCAL enable_bitmapscan = on")


def size(connection: Served) -> int:
    """Bytes of all tables and indexes of the ledger."""
    row = connection.execute(
        "SELECT coalesce(sum(pg_total_relation_size(c.oid)), 0)::bigint FROM pg_class c "
        "JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = ? AND c.relkind = 'r'",
        (connection.schema,),
    ).fetchone()
    return int(row[0])


def copy_into(connection: Served, target: sqlite3.Connection, application_id: int) -> None:
    """Copy a ledger, within a transaction that reads, into the empty file of another one.

    Raises:
        Failure. sqlite3.Error.
    """
    target.execute("BEGIN IMMEDIATE")
    schema.run_scripts(target, 0)
    target.execute(f"PRAGMA application_id = {application_id}")
    for table in TABLES:
        names = ", ".join(schema.defaults(table))
        copy_rows(connection, target, f"SELECT {names} FROM {table}", table)
    target.execute("COMMIT")


def copy_rows(connection: Served, target: sqlite3.Connection, query: str, table: str) -> None:
    """Copy the rows of a query into a table with the same columns, some at a time."""
    for page in connection.pages(query, _AT_ONCE):
        marks = ", ".join("?" * len(page[0]))
        target.executemany(f"INSERT INTO {table} VALUES ({marks})", [tuple(row) for row in page])


def _references(connection: Served) -> list[tuple[str, list[str], str, list[str]]]:
    """What refers to what: table, columns, the other table, its columns."""
    found = []
    for row in expected(connection):
        if row[0] == 2 and (reference := re.fullmatch(r"FOREIGN KEY \((.*)\) REFERENCES (\w+)\((.*)\)", row[3])):
            found.append((row[1], reference[1].split(", "), reference[2], reference[3].split(", ")))
    return found


def _server(connection: Served) -> int:
    return connection.server_version


def _body() -> str:
    """The body of the one function, as the server keeps it."""
    found = re.search(r"AS\s+'(BEGIN.*?END)';", read_sql(SCRIPT), flags=re.DOTALL)
    assert found is not None
    return found[1].replace("''", "'")


def _bare(value: Any, name: str) -> Any:
    """A text without the name of the schema."""
    return re.sub(rf"\b(pg_temp(_\d+)?|{name})\.", "", value) if isinstance(value, str) else value

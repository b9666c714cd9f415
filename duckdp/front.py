"""FRONT: an analyst's own DuckDB. It holds no private row, so whatever SQL runs here can reach none.

``dp_x(...)`` is a macro over ``query(__dp_bind(...))``. DuckDB calls __dp_bind while it binds: the curator validates the
call, touches no data, charges nothing, and returns a SELECT whose columns are the result's and which calls a fetch
function with a sealed token. When the SELECT runs, fetch charges once for that token, answers, and remembers.

Who asks is the Python closure that registered the functions: no variable, argument, setting or thread can change it.
A token is an HMAC over the call, the analyst and this instance; there is no table of pending tokens to fill up.
"""

from __future__ import annotations

import atexit
import base64
import datetime as dt
import hashlib
import hmac
import json
import secrets
import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import duckdb

from duckdp.compiler.printing import quote
from duckdp.errors import CODES, DuckDPError, ParameterError
from duckdp.functions import Prepared, prepare
from duckdp.resources import read_sql
from duckdp.result import Result, ResultColumn

if TYPE_CHECKING:
    from duckdp.catalog import Table
    from duckdp.curator import Curator
    from duckdp.session import Session

LOCKDOWN = (
    "python_enable_replacements=false", "enable_external_access=false", "autoload_known_extensions=false",
    "autoinstall_known_extensions=false", "allow_community_extensions=false", "allow_persistent_secrets=false",
    "memory_limit='1GB'", "lock_configuration=true",
)  # fmt: skip
REMEMBERED = 64  # answers kept per instance; older ones come again from the ledger, free
MOST_TOKEN = 200_000
# Which fetch function a type crosses by; dates and the rest cross as text. The returned SELECT casts to the type.
FETCH = {"DOUBLE": "__dp_f64", "FLOAT": "__dp_f64", "BOOLEAN": "__dp_bool"} | dict.fromkeys(
    ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER"), "__dp_i64"
)
TEXT_FETCH = "__dp_text"
#: DuckDB keeps a bare pointer to a registered function: these must never be collected.
KEEP: list[Callable[..., Any]] = []
LIST_TYPES = {"__dp_f64": "DOUBLE[]", "__dp_i64": "BIGINT[]", "__dp_bool": "BOOLEAN[]", TEXT_FETCH: "VARCHAR[]"}


class Binder:
    """What the functions of one instance call: prepares, seals, charges once, remembers.

    Args:
        session: of the one analyst this instance speaks for.
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        self._key = secrets.token_bytes(32)
        self._answers: OrderedDict[str, list[list[Any]]] = OrderedDict()
        self._lock = threading.Lock()
        self._working: dict[str, threading.Lock] = {}

    def bind(self, name: str | None, arguments: Sequence[str | None], listed: Sequence[str] | None) -> str:
        """The SELECT that stands for a call; validates, reads nothing, charges nothing."""
        call = json.dumps(
            [name, list(arguments or ()), None if listed is None else list(listed), secrets.token_hex(16)]
        )
        prepared = prepare(self._session, str(name), list(arguments or ()), listed or None)
        token = self._seal(call)
        items = []
        for i, (column, kind) in enumerate(prepared.columns):
            fetch = FETCH.get(kind, TEXT_FETCH)
            items.append(f"CAST(unnest({fetch}('{token}', {i})) AS {_plain_type(kind)}) AS {quote(column)}")
        return f"SELECT {', '.join(items)}"

    def fetch(self, token: str, index: int) -> list[Any]:
        """One column of a call's answer; the first fetch of a token charges and computes."""
        call = self._open(token)
        with self._lock:
            turn = self._working.setdefault(token, threading.Lock())
        with turn:
            with self._lock:
                found = self._answers.get(token)
            if found is None:
                found = self._answer(call)
                with self._lock:
                    self._answers[token] = found
                    while len(self._answers) > REMEMBERED:
                        old, _ = self._answers.popitem(last=False)
                        self._working.pop(old, None)
        return found[index]

    def _answer(self, call: list[Any]) -> list[list[Any]]:
        name, arguments, listed, nonce = call
        prepared: Prepared = prepare(self._session, name, arguments, listed or None)
        result = prepared.run(nonce)
        parts = result.typed(intervals=prepared.intervals)
        return [_crossing(kind, values) for (_, kind), (_, _, values) in zip(prepared.columns, parts, strict=True)]

    def _seal(self, call: str) -> str:
        body = base64.urlsafe_b64encode(call.encode()).decode()
        return f"{body}.{self._mac(body)}"

    def _open(self, token: str) -> list[Any]:
        body, _, mac = token.rpartition(".") if len(token) <= MOST_TOKEN else ("", "", "")
        if not hmac.compare_digest(mac.encode(), self._mac(body).encode()):
            raise ParameterError("P107", "token", "...", "was not made by this connection.")
        return json.loads(base64.urlsafe_b64decode(body))  # type: ignore[no-any-return]

    def _mac(self, body: str) -> str:
        text = f"{self._session.analyst}\n{body}".encode()
        return hmac.new(self._key, text, hashlib.sha256).hexdigest()


class Front:
    """The locked DuckDB instance of one analyst.

    Args:
        session: whose.
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        self._con = duckdb.connect(":memory:")
        _install(self._con, Binder(session), temporary=False)
        for name in ("dp_budget", "dp_ledger", "dp_summaries", "dp_catalog"):
            self._con.execute(f"CREATE VIEW {name} AS SELECT * FROM {name}()")
        for table in session.tables().values():
            self.add_stub(table)
        for setting in LOCKDOWN:
            self._con.execute(f"SET {setting}")
        atexit.register(self.close)

    def connection(self) -> duckdb.DuckDBPyConnection:
        """A cursor of the instance, for the analyst."""
        return self._con.cursor()

    def sql(self, text: str) -> Result:
        """Run ordinary SQL on the instance.

        Raises:
            duckdb.Error: as DuckDB says it; nothing private is here.
        """
        cursor = self._con.cursor()
        try:
            done = cursor.execute(text)
            described = done.description or []
            rows = done.fetchall() if described else []
        finally:
            cursor.close()
        columns = [
            ResultColumn(name=d[0], type=str(d[1]), values=[row[i] for row in rows]) for i, d in enumerate(described)
        ]  # fmt: skip
        return Result(columns=columns)

    def add_stub(self, table: Table) -> None:
        """A typed view of a protected table that refuses with our message, so that tools see its columns."""
        self._con.execute(stub_sql(table, replace=True))

    def close(self) -> None:
        """Close the instance."""
        atexit.unregister(self.close)
        self._con.close()


def register(con: duckdb.DuckDBPyConnection, curator: Curator, *, analyst: str) -> None:
    """Put the dp functions on any DuckDB connection, speaking for one analyst for good.

    A convenience for trusted code, not a boundary: whoever holds the connection can run Python in this process. The
    functions are temporary macros of this connection; nothing is written to its database.

    Raises:
        ParameterError: P107, the instance already speaks for an analyst.
    """
    session = curator.session(analyst)
    try:
        _install(con, Binder(session), temporary=True)
    except (duckdb.NotImplementedException, duckdb.CatalogException):
        raise ParameterError("P107", "con", analyst, "this DuckDB instance already speaks for an analyst.") from None
    present = {
        str(r[0]).lower() for r in con.cursor().execute("SELECT table_name FROM information_schema.tables").fetchall()
    }  # fmt: skip
    for name, table in session.tables().items():
        if name not in present:
            con.execute(stub_sql(table, temporary=True))


def stub_sql(table: Table, *, temporary: bool = False, replace: bool = False) -> str:
    """CREATE VIEW for a table's stub: its declared columns and base types, and an error in place of rows."""
    items = ", ".join(f"CAST(NULL AS {_plain_type(c.type)}) AS {quote(c.name)}" for c in table.columns)
    message = (
        f"Q301: rows of {table.name} are private. Ask with FROM dp_query($$SELECT ...$$, epsilon := 0.1), or through a "
        "duckdp session."
    )
    kind = "CREATE OR REPLACE VIEW" if replace else f"CREATE {'TEMP ' if temporary else ''}VIEW"
    items = items or "CAST(NULL AS BOOLEAN) AS no_declared_column"
    return f"{kind} {quote(table.name)} AS SELECT {items} WHERE CAST(error('{message}') AS BOOLEAN)"


def _install(con: duckdb.DuckDBPyConnection, binder: Binder, *, temporary: bool) -> None:
    """Register the plumbing functions and the macros of sql/front.sql."""
    import pyarrow as pa

    def bind(name: str, arguments: list[str | None], listed: list[str] | None) -> str:
        return _laundered(lambda: binder.bind(name, arguments, listed))

    def fetcher(kind: str) -> Callable[..., Any]:
        arrow = {"__dp_f64": pa.float64(), "__dp_i64": pa.int64(), "__dp_bool": pa.bool_(), TEXT_FETCH: pa.string()}

        def fetch(tokens: Any, indexes: Any) -> Any:
            pairs = zip(tokens.to_pylist(), indexes.to_pylist(), strict=True)
            return pa.array([_laundered(lambda t=t, i=i: binder.fetch(t, i)) for t, i in pairs], pa.list_(arrow[kind]))

        return fetch

    con.create_function(
        "__dp_bind", bind, ["VARCHAR", "VARCHAR[]", "VARCHAR[]"], "VARCHAR", side_effects=True,  # type: ignore[list-item, arg-type]
        null_handling="special",  # type: ignore[arg-type]
    )  # fmt: skip
    KEEP.append(bind)
    for name, kind in LIST_TYPES.items():
        function = fetcher(name)
        con.create_function(name, function, ["VARCHAR", "INTEGER"], kind, type="arrow", side_effects=True)  # type: ignore[list-item, arg-type]
        KEEP.append(function)
    script = read_sql("front.sql")
    if temporary:
        script = script.replace("CREATE OR REPLACE MACRO", "CREATE OR REPLACE TEMP MACRO")
    con.execute(script)


def _laundered(work: Callable[[], Any]) -> Any:
    """Run a function of ours inside DuckDB: our coded errors pass, anything else becomes one constant text."""
    try:
        return work()
    except DuckDPError as error:
        raise RuntimeError(str(error)) from None
    except Exception:  # noqa: BLE001 - the boundary: DuckDB forwards any text verbatim, so none but ours may pass
        raise RuntimeError(f"X101: {CODES['X101']}") from None


def _crossing(kind: str, values: list[Any]) -> list[Any]:
    if kind in FETCH or kind == "VARCHAR":
        return [None if v is None else str(v) for v in values] if kind == "VARCHAR" else values
    return [None if v is None else v.isoformat() if isinstance(v, dt.date) else str(v) for v in values]


def _plain_type(kind: str) -> str:
    """Base type shown to analysts: an ENUM is VARCHAR."""
    return "VARCHAR" if kind.upper().startswith("ENUM") else kind

"""A connection to a server, or to an analyst's confined process beside the owner's."""

from __future__ import annotations

import os
import socket
import ssl
import struct
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from ipaddress import ip_address
from typing import Any, Self
from urllib.parse import parse_qsl, unquote, urlsplit

from duckdp.client.answers import make_result
from duckdp.client.cursor import Cursor
from duckdp.client.problems import Error, InterfaceError, OperationalError, problem_of
from duckdp.client.types import name_of, oid_of_value
from duckdp.errors import ParameterError
from duckdp.process.aside import aside
from duckdp.process.forks import Home
from duckdp.result import Result

PORT = 5433  # of a server, unless its address says otherwise
SCHEMES = ("postgres", "postgresql", "duckdp")
MODES = ("disable", "require", "verify-full")
PATIENCE = 60.0  # seconds until a server that is called has answered
_UNNAMED, _DESCRIBE, _PORTAL, _SYNC = b"\0", b"D", b"P", b"S"  # of PostgreSQL's protocol
_CANCEL = 80877102  # what PostgreSQL's protocol calls a request to cancel


class Connection:
    """PEP 249's connection; each statement is by itself unless BEGIN was sent.

    Args:
        driver: a connection of pg8000, open.
        name: how it is shown.
        cancel: ends what runs on it.
        ended: told when the connection is closed.
    """

    def __init__(
        self, driver: Any, *, name: str, cancel: Callable[[], None], ended: Callable[[], None] = lambda: None
    ) -> None:
        self._driver, self._name, self._cancel, self._ended = driver, name, cancel, ended
        self._turn, self._home = threading.RLock(), Home()
        self.run("SET dp.intervals = on", ())

    # ---- PEP 249 --------------------------------------------------------------------------------------------------

    def cursor(self) -> Cursor:
        """A new cursor of this connection."""
        return Cursor(self)

    def commit(self) -> None:
        """End a transaction that BEGIN began; what was charged in it stays charged either way."""
        self.run("COMMIT", ())

    def rollback(self) -> None:
        """Undo what a transaction did to the analyst's own tables; charges stay."""
        self.run("ROLLBACK", ())

    def close(self) -> None:
        """End it; again is harmless, and in a forked child it is nothing."""
        driver, self._driver = self._driver, None
        if driver is not None and not self._home.left:
            with suppress(Exception):  # it ended before
                driver.close()
            self._ended()

    # ---- besides --------------------------------------------------------------------------------------------------

    def execute(self, sql: str, parameters: Sequence[object] = ()) -> Cursor:
        """Run a statement on a new cursor, which is returned."""
        return self.cursor().execute(sql, parameters)

    def sql(self, sql: str, parameters: Sequence[object] = ()) -> Result:
        """Run a statement; its answer as a Result.

        Raises:
            Error: it was refused, or gives no rows.
        """
        return self.execute(sql, parameters).result

    def cancel(self) -> None:
        """End what runs on this connection, from another thread; a charge that was made stays."""
        self._cancel()

    def __repr__(self) -> str:
        return f"<duckdp.client.Connection{' (closed)' if self._driver is None else ''} {self._name}>"

    def __del__(self) -> None:
        if hasattr(self, "_home"):
            self.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def run(self, sql: str, parameters: Sequence[object]) -> tuple[Result | None, int]:
        """A statement's answer, None where it gives no rows, and how many rows it gave or changed."""
        with self._turn:
            driver = self._driver
            if driver is None:
                raise InterfaceError("the connection is closed.")
            driver.notices.clear()
            try:
                done = aside(lambda: _execute(driver, sql, tuple(parameters)), self._cancel)
            except KeyboardInterrupt:
                raise OperationalError(
                    "E102: interrupted; a charge that was made stays, and asking the same again costs nothing.",
                    sqlstate="57014",
                ) from None
            except Exception as error:  # noqa: BLE001 - the driver's classes and the system's
                raise self._told(error) from None
            if done.columns is None:
                return None, done.row_count
            told = [notice[b"M"].decode("utf-8", "replace") for notice in driver.notices if b"M" in notice]
            types = [name_of(column["type_oid"]) for column in done.columns]
            return make_result([column["name"] for column in done.columns], types, done.rows, told), len(done.rows)

    def _told(self, error: Exception) -> Error:
        if isinstance(error, Error):
            return error
        fields = error.args[0] if error.args else None
        if isinstance(fields, dict):
            if fields.get("S") == "FATAL":
                self.close()
            return problem_of(fields)
        if isinstance(error, (OSError, EOFError, struct.error)) or "network error" in str(error):
            self.close()
            return OperationalError(
                "the connection has ended, at the server or with the analyst's process. Charges stay; connect anew: "
                "stored answers are free.",
                sqlstate="08006",
            )
        self.close()  # what of an answer was not read would be taken for that of the next statement
        return InterfaceError(
            f"the answer cannot be read ({type(error).__name__}), and the connection was ended. Charges stay; connect "
            "anew: stored answers are free."
        )


def _execute(made: Any, sql: str, parameters: tuple[object, ...]) -> Any:
    """What the driver gives for a statement whose parameters are ``?``.

    All of it is sent at once, and described with its parameters: before they are known its columns may be others.

    Raises:
        Error: of a parameter that cannot cross; nothing was sent.
    """
    if not parameters:
        return made.execute_simple(sql)
    text, values = driver().convert_paramstyle("qmark", sql, parameters)
    types = [oid_of_value(value) for value in values]
    crossing = _written(made, values)
    done = _Context(text)
    made.send_PARSE(_UNNAMED, text, types)
    made.send_BIND(_UNNAMED, crossing)
    made._send_message(_DESCRIBE, _PORTAL + _UNNAMED)
    made.send_EXECUTE()
    made._send_message(_SYNC, b"")
    made._sock.flush()
    made.handle_messages(done)
    return done


class _Context:
    """What the driver fills in while it hears a statement's messages."""

    def __init__(self, statement: str) -> None:
        self.statement = statement
        self.rows: list[Any] | None = None
        self.columns: list[dict[str, Any]] | None = None
        self.input_funcs: list[Any] = []
        self.row_count, self.stream, self.error = -1, None, None


def _written(made: Any, values: Sequence[object]) -> Any:
    """Parameters as the driver writes them.

    Raises:
        InterfaceError: one of them cannot be written.
    """
    from pg8000.converters import make_params

    try:
        found = make_params(made.py_types, values)
        for one in found:
            if one is not None:
                one.encode("utf-8")
    except Exception as error:  # noqa: BLE001 - a caller's object may raise anything
        raise InterfaceError(f"a parameter cannot be sent: {type(error).__name__}.") from None
    return found


def driver() -> Any:
    """The module that speaks PostgreSQL's protocol.

    Raises:
        ParameterError: P107, it is not installed.
    """
    try:
        import pg8000.dbapi
    except ImportError:
        raise ParameterError("P107", "connect", "pg8000", "is missing: pip install 'duckdp[client]'.") from None
    return pg8000.dbapi


def connect(address: str, *, password: str | None = None, epsilon: object = None) -> Connection:
    """Connect to a server of private data, as ``duckdp serve`` starts one.

    Args:
        address: ``postgres://NAME@HOST:PORT/NAME?sslmode=MODE``; the port is 5433 by default. ``sslmode`` is
            ``verify-full`` (the default for other machines; ``sslrootcert=FILE`` names who signed its certificate),
            ``require`` (encrypted, whoever it is), or ``disable`` (the default for this machine).
        password: else what the address says, else the environment's PGPASSWORD.
        epsilon: what a question costs unless it is SET.

    Raises:
        ParameterError: P107, not such an address. OperationalError: nobody there, or who asks is not let in.
    """
    if not isinstance(address, str) or not (password is None or isinstance(password, str)):
        raise ParameterError("P107", "address", address, "must be a text like postgres://ana@localhost:5433/clinic.")
    host, port, user, secret, options = read_address(address)
    secret = password if password is not None else secret or os.environ.get("PGPASSWORD", "")
    module = driver()
    try:
        made = module.Connection(
            user,
            host=host,
            port=port,
            database=options.get("database"),
            password=secret,
            ssl_context=_tls(host, options),
            timeout=PATIENCE,
        )
        made._usock.settimeout(None)  # statements take the time they take
    except (module.Error, OSError) as error:
        fields = error.args[0] if error.args else None
        if isinstance(fields, dict):
            raise problem_of(fields) from None
        raise OperationalError(f"no connection to {host}:{port}: {error}", sqlstate="08001") from None
    found = Connection(made, name=f"{user}@{host}:{port}", cancel=lambda: _ask_to_cancel(made, host, port))
    if epsilon is not None:
        found.execute("SET dp.epsilon = '" + str(epsilon).replace("'", "''") + "'")
    return found


def read_address(address: str) -> tuple[str, int, str, str, dict[str, str]]:
    """Host, port, user, password and options of an address.

    Raises:
        ParameterError: P107.

    >>> read_address("postgres://ana@clinic.example/clinic")
    ('clinic.example', 5433, 'ana', '', {'database': 'clinic'})
    """
    rule = "must be like postgres://ana@localhost:5433/clinic?sslmode=verify-full."
    shown = address.replace(address.partition("://")[2].rpartition("@")[0].partition(":")[2] or "\0", "...")
    try:
        parts = urlsplit(address)
        port = parts.port or PORT
        options = dict(parse_qsl(parts.query, strict_parsing=bool(parts.query)))
    except ValueError:
        raise ParameterError("P107", "address", shown, rule) from None
    known = {"sslmode", "sslrootcert"}
    if parts.scheme not in SCHEMES or not parts.hostname or not parts.username or set(options) - known:
        raise ParameterError("P107", "address", shown, rule)
    if options.get("sslmode", MODES[0]) not in MODES:
        raise ParameterError("P107", "sslmode", options["sslmode"], f"must be one of {', '.join(MODES)}.")
    options["database"] = unquote(parts.path.strip("/")) or unquote(parts.username)
    return parts.hostname, port, unquote(parts.username), unquote(parts.password or ""), options


def _tls(host: str, options: dict[str, str]) -> ssl.SSLContext | bool:
    """What the driver wants to know of TLS; False: none."""
    mode = options.get("sslmode", "disable" if _is_here(host) else "verify-full")
    if mode == "disable":
        return False
    try:
        context = ssl.create_default_context(cafile=options.get("sslrootcert"))
    except OSError:
        raise ParameterError("P107", "sslrootcert", options.get("sslrootcert"), "cannot be read.") from None
    if mode == "require":
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


def _is_here(host: str) -> bool:
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


def _ask_to_cancel(made: Any, host: str, port: int) -> None:
    """Ask a server to end what runs on a connection; nobody answers that."""
    key = getattr(made, "_backend_key_data", None)
    if isinstance(key, (bytes, bytearray)) and len(key) == 8:
        with suppress(OSError), socket.create_connection((host, port), timeout=5) as sock:
            sock.sendall(struct.pack("!II", 16, _CANCEL) + bytes(key))

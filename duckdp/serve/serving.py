"""A server from its first line to its last: listen, say where, end what is open when it is told to."""

from __future__ import annotations

import asyncio
import logging
import signal
import ssl
from collections.abc import Callable
from importlib.util import find_spec

from duckdp.desk.desk import Desk
from duckdp.errors import ParameterError
from duckdp.process.settling import settle, unsettle
from duckdp.serve.listener import Listener
from duckdp.serve.lockdown import UnconfinedError, require_possible
from duckdp.serve.timing import GRID
from duckdp.serve.users import SUFFIX, Users


def users_beside(ledger: str) -> Users:
    """The users of a ledger, in the file beside it."""
    return Users(f"{ledger}{SUFFIX}")


def tls_context(certificate: str | None, key: str | None) -> ssl.SSLContext | None:
    """TLS 1.2 or later with a certificate; None where there is none.

    Raises:
        ParameterError: P107, they cannot be read, or do not belong together.
    """
    if certificate is None:
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_cert_chain(certificate, key)
    except (OSError, ssl.SSLError):
        raise ParameterError(
            "P107", "tls_cert", certificate, "cannot be read, or its key is another one's. Both are PEM files."
        ) from None
    return context


def serve(
    desk_of: Callable[[str], Desk],
    users: Users,
    *,
    host: str = "127.0.0.1",
    port: int = 5433,
    tls: ssl.SSLContext | None = None,
    most: int = 200,
    idle: float | None = None,
    grid: float = GRID,
    listening: Callable[[str, int], None] = lambda *_: None,
) -> None:
    """Serve a data set by PostgreSQL's protocol until SIGINT or SIGTERM.

    Args:
        desk_of: the desk of an analyst, by name; refuses who has no grant.
        users: who may log in; each is the analyst of the same name.
        host: address to listen on; other machines need TLS.
        port: 0 takes a free one.
        tls: see :func:`tls_context`.
        most: connections at the same time.
        idle: seconds after which a connection on which nothing is asked ends; None: never.
        grid: seconds, the first step of the grid on which answers leave; 0: none.
        listening: told host and port, once.

    Raises:
        ParameterError: P107, nothing can listen there, or the system cannot confine the analysts' processes.
    """
    try:
        require_possible()
    except UnconfinedError as error:
        raise ParameterError("P107", "serve", "this system", f"cannot serve: {error.strerror}.") from None
    if find_spec("pytz") is None:  # by which DuckDB gives values with a time zone
        raise ParameterError("P107", "serve", "pytz", "is missing. Install it: pip install 'duckdp[serve]'.")
    logging.getLogger("asyncio").setLevel(logging.CRITICAL)
    asyncio.run(_serve(Listener(desk_of, users, tls=tls, most=most, idle=idle, grid=grid), host, port, listening))


async def _serve(listener: Listener, host: str, port: int, listening: Callable[[str, int], None]) -> None:
    over = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, over.set)
    try:
        found = await listener.start(host, port)
    except OSError as error:
        raise ParameterError("P107", "port", f"{host}:{port}", f"nothing can listen there: {error.strerror}.") from None
    try:
        settle()
        listening(host, found)
        await over.wait()
    finally:
        await listener.stop()
        unsettle()

"""The owner's page beside the server: on this machine, to whoever has its address, and read alone.

    whoever asks --127.0.0.1, its Host, its token--> the page as it stands; all else: the same 404

The address is told once, on the owner's terminal, and holds 256 random bits; no other user's program can guess it, no
page of another site read what it shows (no CORS, a Host that must be ours against rebinding of names, no frames).
There is no method that changes anything, and no file is served. Whoever can read the owner's memory or terminal is the
owner.
"""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar
from urllib.parse import parse_qsl, urlsplit

from duckdp.dashboard.facts import Choice
from duckdp.dashboard.style import policy
from duckdp.errors import DuckDPError, ParameterError
from duckdp.ledger.history import KINDS
from duckdp.ledger.words import check_name

HOST = "127.0.0.1"
PATIENCE = 10.0  # seconds for a request to come
MOST_TOGETHER = 8  # requests that are worked on
MOST_SHOWN = 10_000  # entries of the history in one page
KEPT = 1.0  # seconds for which a page is as new
_HEADERS = {
    "Content-Type": "text/html; charset=utf-8",
    "Content-Security-Policy": policy(framed=True),
    "Cache-Control": "no-store",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
_NOTHING = b"<!doctype html><title>404</title><p>There is nothing here."

Make = Callable[[Choice], str]


class Live(ThreadingHTTPServer):
    """Serves one page, made anew for each look at it (of one second the same).

    Args:
        make: the page as it stands.
        port: 0 takes a free one.
        refresh: seconds after which a browser asks again; 0: never.

    Raises:
        ParameterError: P107, the port is taken.
    """

    daemon_threads: ClassVar[bool] = True  # type: ignore[misc]
    allow_reuse_address: ClassVar[bool] = True  # type: ignore[misc]

    def __init__(self, make: Make, *, port: int = 0, refresh: int = 10) -> None:
        self._make, self.refresh, self.token = make, refresh, secrets.token_urlsafe(32)
        self._lock, self._room = threading.Lock(), threading.BoundedSemaphore(MOST_TOGETHER)
        self._kept: dict[Choice, tuple[float, str]] = {}
        try:
            super().__init__((HOST, port), _Request)
        except OSError:
            raise ParameterError("P107", "port", port, "cannot be listened at. Name another one, or 0.") from None

    @property
    def hosts(self) -> tuple[str, str]:
        """What a browser that means this server says its host is."""
        return f"{HOST}:{self.server_port}", f"localhost:{self.server_port}"

    @property
    def address(self) -> str:
        """Where the page is; a secret."""
        return f"http://{self.hosts[0]}/{self.token}/"

    def page(self, choice: Choice) -> str:
        """The page; one at a time is made."""
        with self._lock:
            made, text = self._kept.get(choice, (0.0, ""))
            if not text or time.monotonic() - made > KEPT:
                text = self._make(choice)
                self._kept = {choice: (time.monotonic(), text)}
            return text

    def process_request(self, request: Any, client_address: Any) -> None:
        """Work on a request in a thread of its own, or turn it away when there are too many."""
        if not self._room.acquire(blocking=False):
            self.shutdown_request(request)
            return
        try:
            super().process_request(request, client_address)
        except RuntimeError:  # no thread was to be had
            self._room.release()
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """One request, and its place is free again."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._room.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A connection that broke concerns nobody."""


class _Request(BaseHTTPRequestHandler):
    """One request; whatever is not the page is the same nothing."""

    server: Live
    timeout = PATIENCE
    server_version, sys_version = "duckdp", ""

    def do_GET(self) -> None:
        self._answer(body=True)

    def do_HEAD(self) -> None:
        self._answer(body=False)

    def _answer(self, *, body: bool) -> None:
        choice = self._choice()
        if choice is None:
            self._send(HTTPStatus.NOT_FOUND, _NOTHING, body=body)
            return
        try:
            text = self.server.page(choice).encode()
        except DuckDPError as error:
            told = f"<!doctype html><title>{error.code}</title><p>{error.code}: the ledger cannot be read just now."
            self._send(HTTPStatus.SERVICE_UNAVAILABLE, told.encode(), body=body)
            return
        self._send(HTTPStatus.OK, text, body=body, refresh=self.server.refresh)

    def _choice(self) -> Choice | None:
        """What is asked for; None: not the page."""
        try:
            parts = urlsplit(self.path)
        except ValueError:
            return None
        known = secrets.compare_digest(parts.path.encode("utf-8", "replace"), f"/{self.server.token}/".encode())
        hosts = self.headers.get_all("Host") or []
        if not known or len(hosts) != 1 or hosts[0] not in self.server.hosts:
            return None
        return read_choice(parts.query)

    def _send(self, status: HTTPStatus, text: bytes, *, body: bool, refresh: int = 0) -> None:
        self.send_response(status)
        for name, value in _HEADERS.items():
            self.send_header(name, value)
        if refresh:
            self.send_header("Refresh", str(refresh))
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        if body:
            self.wfile.write(text)

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:  # noqa: ARG002
        """What the parser refuses, without quoting it; and its connection ends."""
        self.close_connection = True
        if not hasattr(self, "request_version"):
            self.request_version = "HTTP/1.0"
        self._send(HTTPStatus.NOT_FOUND, _NOTHING, body=self.command != "HEAD")

    def log_message(self, format: str, *args: object) -> None:
        """Nothing: the address is a secret."""


def read_choice(query: str) -> Choice | None:
    """What of the history a query asks for; None: nothing that there is.

    >>> read_choice("analyst=ana&kind=refused&last=10")
    Choice(analyst='ana', kinds=('refused',), last=10)
    >>> read_choice("analyst=%3Cscript%3E") is None
    True
    """
    try:
        asked = parse_qsl(query, keep_blank_values=True, strict_parsing=bool(query), max_num_fields=20)
        kinds = tuple(dict.fromkeys(value for name, value in asked if name == "kind"))
        single = {name: value for name, value in asked if name != "kind"}
        analyst, last = single.pop("analyst", None), single.pop("last", str(Choice().last))
        if single or not set(kinds) <= set(KINDS) or not last.isascii() or not last.isdigit() or len(last) > 9:
            return None
        if analyst is not None:
            check_name(analyst, "analyst")
    except (ValueError, DuckDPError):
        return None
    return Choice(analyst=analyst, kinds=kinds or KINDS, last=min(max(int(last), 1), MOST_SHOWN))


def serve(live: Live) -> None:
    """Serve until Ctrl-C, and close."""
    try:
        live.serve_forever()
    except KeyboardInterrupt:
        pass
    finally:
        live.server_close()

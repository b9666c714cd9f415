"""The driver of PostgreSQL, which an extra of the package brings, and statements in its form."""

from __future__ import annotations

import logging
from functools import lru_cache
from types import ModuleType

from duckdp.errors import ParameterError

#: What a connection is made with unless its address says otherwise; seconds, tcp_user_timeout in milliseconds.
DEFAULTS = {
    "connect_timeout": "10",
    "keepalives_idle": "10",
    "keepalives_interval": "5",
    "keepalives_count": "3",
    "tcp_user_timeout": "30000",
    "application_name": "duckdp",
}


@lru_cache(maxsize=1)
def load() -> ModuleType:
    """The module of the driver, imported when the first ledger on a server is opened.

    Raises:
        ParameterError: P107, it is not installed.
    """
    try:
        import psycopg
    except ImportError:
        rule = "is in PostgreSQL, and the driver is missing: pip install 'duckdp[postgres]'."
        raise ParameterError("P107", "ledger", "postgresql://...", rule) from None
    logging.getLogger("psycopg").addFilter(_is_told)
    return psycopg


def _is_told(record: logging.LogRecord) -> bool:
    """Whether the driver may log that; that changes after one that failed were not made, our error says."""
    return not str(record.msg).startswith("error ignored terminating")


@lru_cache(maxsize=1024)
def marked(sql: str) -> bytes:
    """A statement as the driver wants it."""
    return sql.replace("%", "%%").replace("?", "%s").encode()

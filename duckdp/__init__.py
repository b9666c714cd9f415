"""duckdp: differential privacy for DuckDB.

A data owner protects tables (:func:`open`, ``Curator.protect``); analysts write SQL and get private answers with error
bars, charged to a budget that cannot be overspent.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from duckdp.client.connection import connect
    from duckdp.client.notebook import load_ipython_extension
    from duckdp.curator import Curator, open, register
    from duckdp.functions.explanation import Explanation
    from duckdp.result import Estimate, Result
    from duckdp.session import Session

__version__ = "0.1.0"

_HOMES = {
    "Curator": "curator",
    "open": "curator",
    "register": "curator",
    "connect": "client.connection",
    "load_ipython_extension": "client.notebook",
    "Estimate": "result",
    "Result": "result",
    "Session": "session",
    "Explanation": "functions.explanation",
}
_MODULES = ("client", "errors", "local", "owner", "smooth", "synthetic")

__all__ = [
    "Curator",
    "Estimate",
    "Explanation",
    "Result",
    "Session",
    "client",
    "connect",
    "errors",
    "load_ipython_extension",
    "local",
    "open",
    "owner",
    "register",
    "smooth",
    "synthetic",
]


def __getattr__(name: str) -> Any:
    """Import public names when they are first used: ``import duckdp`` stays fast."""
    import importlib

    from duckdp.process.importing import importing

    if name not in _MODULES and name not in _HOMES:
        raise AttributeError(name)
    with importing():
        if name in _MODULES:
            return importlib.import_module(f"duckdp.{name}")
        return getattr(importlib.import_module(f"duckdp.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)

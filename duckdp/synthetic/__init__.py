"""Synthetic tables: noisy sums in, rows out. Everything after the noise is post-processing of a release, so free.

::

    asked      what a call asks;  methods  the methods, and the choice among them
    lp/ theorem/ moments/ tree/ psi/   a method each: plan (public figures), buy (private reads), make (post-processing)
    unit/      rows as points of [-1, 1]^d: what the methods for many columns have in common
    stored     a stored release read again, or finished where it was interrupted;  opened  what that gives
    decode     the table, and as JSON;  sample  rows drawn from a distribution on few points
    report/    how well the rows meet their release
    files      tables and private answers as one DuckDB file, or Parquet

Only ``buy`` names private columns, in queries that a desk runs; nothing else of this package, but ``methods``,
imports it or can see private rows: its only input is released (tests/test_layers.py follows the imports).
"""

from __future__ import annotations

from typing import Any

_MODULES = ("files", "report")


def __getattr__(name: str) -> Any:
    """Import what owners call by its full name when it is first used."""
    import importlib

    from duckdp.process.importing import importing

    if name in _MODULES:
        with importing():
            return importlib.import_module(f"duckdp.synthetic.{name}")
    raise AttributeError(name)

"""Synthetic tables: noisy sums in, rows out. Everything after the noise is post-processing of a release, so free.

One thing, one file, in the order of the work::

    task        a summary is bought, beside it the patterns of NULLs (``missing``)          method := 'lp'
    theorem     sums of rows moved to a grid are bought, with the paper's own parameters    method := 'theorem'
    support     a grid of values each column can really take
    program     the distribution on the grid whose moments come closest to the noisy ones (``generation``, ``pricing``)
    fitted      that distribution, as it is stored
    sample      exactly m rows drawn from it
    decode      rows in the columns' own units and types; the table as JSON
    synthesize  the way from a summary to rows;  ``theorem_fit`` the same for the theorem
    stored      a stored release read again, or finished where it was interrupted (``unfinished``)
    report      how well the rows meet their release
    files       tables and private answers as one DuckDB file, or Parquet

Only the tasks name private columns, in queries that the session runs; nothing else can see private rows: its only input
is released. ``wide`` has the method for many columns.

Source: Wang, Jin, Fan, Zhang, Huang, Zhong, Wang, "Differentially private data releasing for smooth queries", JMLR
17(51), 2016, Algorithm 3.
"""

from __future__ import annotations

from typing import Any

_MODULES = ("files", "report")


def __getattr__(name: str) -> Any:
    """Import what owners call by its full name when it is first used."""
    import importlib

    if name in _MODULES:
        return importlib.import_module(f"duckdp.synthetic.{name}")
    raise AttributeError(name)

"""A stored synthetic table: read again, or finished where its rows had not been made.

A payload is JSON. Every one has::

    kind      "synthesis"
    method    the method that bought it, which is that of its folder; left out by the five that came first, whose
              payloads are told by what they hold
    rows      wanted; null ("lp") for as many as the noisy count says
    table     what rows are read from: a fitted distribution, or the rows themselves as text; null where neither has
              been made yet

and what was released, by its method::

    summary   the released summary ("lp"), else null
    missing   released patterns of NULLs ("lp"), or null
    moments   the released sums at grid points ("theorem"), with "theorem": its figures
    wide      what was released of unit columns, until the rows are made from it (``unit.kept``)
    bought    of unit columns: (stage, number of sums, share of the charge) each
    count     of unit columns: the noisy (or public) number of what was counted;  counted  its name
    bars      error bars of columns and pairs, from the deviations of the stages ("tree")
    unseen    [column, noisy share] of NULLs that no row shows, as they may be noise ("tree"); where there are any

Rows are drawn with bytes that follow from the release, so reading again gives the same rows.

Privacy: post-processing of releases. What bought them is not imported here, nor by what is.
"""

from __future__ import annotations

import json
from importlib import import_module
from typing import Any, Protocol, cast

from duckdp.core.watch import Watch, as_numerical
from duckdp.errors import CatalogError
from duckdp.process.importing import importing
from duckdp.synthetic.decode import SyntheticTable
from duckdp.synthetic.opened import KIND, Opened
from duckdp.synthetic.unit.finish import open_rows, shape_of_rows

_METHODS = __name__.rpartition(".")[0]
_DAMAGED = "the stored synthetic table is damaged or was written by another version of duckdp."


class Make(Protocol):
    """The side of a method that makes rows from its releases: its folder's module ``make``. Never sees private rows."""

    DISTANCE: str  # what ``SyntheticTable.residual`` is, in words

    def complete(self, raw: dict[str, Any], watch: Watch) -> dict[str, Any]:
        """A payload whose ``table`` is null, with it.

        Args:
            raw: the payload.
            watch: follows the work; what it raises ends it.

        Raises:
            NumericalError: N101, it could not be made. CatalogError: C105, damaged.
        """

    def open_table(self, raw: dict[str, Any], watch: Watch) -> Opened:
        """The rows of a complete payload.

        Raises:
            CatalogError: C105, damaged.
        """

    def shape(self, raw: dict[str, Any]) -> list[tuple[str, str]]:
        """(name, DuckDB type) of the columns of any payload, without making rows.

        Raises:
            CatalogError: C105, damaged.
        """


def maker(method: str) -> Make:
    """The side of a method that makes rows, by the method's name.

    Raises:
        CatalogError: C105, there is no such method in this version.
    """
    if method.isidentifier():  # a folder of this package, whatever a file says
        try:
            with importing():
                return cast(Make, import_module(f"{_METHODS}.{method}.make"))
        except ModuleNotFoundError as error:
            if not str(error.name).startswith(_METHODS):
                raise
    raise CatalogError("C105", _DAMAGED)


def is_table(payload: str) -> bool:
    """Whether a stored payload is a synthetic table, not a summary."""
    return bool(json.loads(payload).get("kind") == KIND)


def without_summary(payload: str) -> bool:
    """Whether a stored payload is a synthetic table that was not made from a summary."""
    return is_table(payload) and json.loads(payload).get("summary") is None


def shape_of(payload: str) -> list[tuple[str, str]]:
    """(name, type) of a stored synthetic table's columns, without making its rows."""
    raw = json.loads(payload)
    method = _method_of(raw)
    return shape_of_rows(raw) if method is None else maker(method).shape(raw)


def complete(payload: str, watch: Watch | None = None) -> str:
    """A release with what its rows are read from.

    Args:
        payload: of a release; complete ones are given back.
        watch: follows the work; what it raises ends it.

    Raises:
        NumericalError: N101, the rows could not be made. CatalogError: C105, damaged.
    """
    raw = json.loads(payload)
    if raw["table"] is not None:
        return payload
    method = _method_of(raw)
    if method is None:
        raise CatalogError("C105", "the stored synthetic table holds no rows, and nothing to make them from.")
    try:
        return json.dumps(maker(method).complete(raw, watch or Watch()))
    except (ArithmeticError, ValueError, MemoryError) as problem:
        raise as_numerical(problem) from None


def open_synthesis(payload: str, watch: Watch | None = None) -> Opened:
    """Read a release; it is completed first where that is still to do, from where the work stood.

    Raises:
        NumericalError: N101, the rows could not be made. CatalogError: C105, damaged.
    """
    watch = watch or Watch()
    raw = json.loads(complete(payload, watch))
    method = _method_of(raw)
    return open_rows(raw, watch) if method is None else maker(method).open_table(raw, watch)


def read_synthesis(payload: str) -> SyntheticTable:
    """The table of a release; see :func:`open_synthesis`."""
    return open_synthesis(payload).table


def summary_of(payload: str) -> str:
    """The summary in a release: its own payload, or the one a synthetic table was made from.

    Raises:
        CatalogError: C110, a synthetic table that was made without one.
    """
    raw = json.loads(payload)
    if raw.get("kind") != KIND:
        return payload
    if raw.get("summary") is None:
        raise CatalogError("C110", "that is a synthetic table which was not made from a summary.")
    return str(raw["summary"])


def _method_of(raw: dict[str, Any]) -> str | None:
    """The method of a payload; None where it holds its rows and nothing else.

    Raises:
        CatalogError: C105, damaged.
    """
    try:
        if raw.get("method") is not None:
            return str(raw["method"])
        if raw.get("wide") is not None:
            return str(raw["wide"]["kept"]["fields"]["method"])
    except (TypeError, KeyError):
        raise CatalogError("C105", _DAMAGED) from None
    if isinstance(raw["table"], str):
        return None
    if raw.get("moments") is not None:
        return "theorem"
    return None if raw["summary"] is None else "lp"

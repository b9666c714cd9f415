"""What may be told of a release that failed."""

from __future__ import annotations

from duckdp.errors import DuckDPError, ExecutionError, without_past


def laundered(error: BaseException, charge: int, interrupted: str = "E102") -> DuckDPError:
    """What may be told of a failed release; see :func:`duckdp.errors.without_past`.

    Whoever releases catches whatever comes, and raises this where the error is handled no more: it has no context then.

    Args:
        error: what ended the release.
        charge: of the release.
        interrupted: code of an interrupt.
    """
    ran_out = isinstance(error, MemoryError)
    told = without_past(error, f"the release of charge {charge} failed; the charge stays spent.")
    if isinstance(error, KeyboardInterrupt) or told.code == "E102":
        return ExecutionError(interrupted, charge)
    if ran_out:  # of Python: rows that are added up here; of DuckDB the engine says it
        return ExecutionError("E104", charge)
    return told

"""What may be told of a release that failed."""

from __future__ import annotations

from duckdp.errors import DuckDPError, ExecutionError, InternalError


def laundered(error: BaseException, charge: int, interrupted: str = "E102") -> DuckDPError:
    """What may be told of a failed release: an error of ours without its past, or a constant text.

    Whoever else holds the error finds no frames on it either.

    Args:
        error: what ended the release.
        charge: of the release.
        interrupted: code of an interrupt.
    """
    error.__cause__ = error.__context__ = error.__traceback__ = None
    if isinstance(error, KeyboardInterrupt) or (isinstance(error, ExecutionError) and error.code == "E102"):
        return ExecutionError(interrupted, charge)
    if not isinstance(error, DuckDPError):
        return InternalError(f"the release of charge {charge} failed; the charge stays spent.")
    return error

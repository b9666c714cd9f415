"""What a process that answers for days holds for good, set apart from what its questions leave behind."""

from __future__ import annotations

import gc

OFTEN = 3  # collections of younger objects to one of all: of what came later that is a few milliseconds


def settle() -> None:
    """Set apart all that is in memory now: Python looks for garbage among what came later alone.

    To be called once, when a process is ready. A question leaves some 100 objects in rings (trees of statements, and
    what reads them), which Python collects when they are a quarter of all that it looks at. Of a whole process with its
    modules that is some 5,000 questions and 10 to 20 MB of garbage, and each look stops all threads for as long as it
    takes to go through every module.
    """
    first, second, _ = gc.get_threshold()
    gc.set_threshold(first, second, OFTEN)
    gc.collect()
    gc.freeze()


def unsettle() -> None:
    """Let Python collect all again, at the end: what it leaves, DuckDB's module complains of."""
    gc.unfreeze()

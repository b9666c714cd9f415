"""Imports that wait until they are needed, one at a time.

A package that imports its own modules and, in another thread, a module that imports its package wait for each other;
Python then gives one of them an error of its own. So whatever of ours is imported late is imported under one lock::

    with importing():
        from duckdp.smooth.answer import answer
"""

from __future__ import annotations

import os
import threading
from contextlib import AbstractContextManager

_locks = [threading.RLock()]


def importing() -> AbstractContextManager[bool]:
    """The lock, for a ``with`` around the import alone."""
    return _locks[0]


def _begin_anew() -> None:
    """After a fork, in the child: whoever held it is not there."""
    _locks[0] = threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_begin_anew)

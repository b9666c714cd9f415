"""Where column generation stands for releases that are not finished: kept in memory, so that work goes on from there.

A state belongs to a text, the released sums that are fitted; it is a function of them, so as public as they are, and
of use only to who has them. After a restart of the process the work begins anew.

Memory: the last 16 states, each of some thousand points: below 40 MB in all.
"""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager

from duckdp.synthetic.lp.make.generation import State

KEPT = 16  # programs that are under way in one process; the oldest is begun anew
_states: OrderedDict[str, State] = OrderedDict()
_lock = threading.Lock()


@contextmanager
def resumed(text: str) -> Iterator[State]:
    """The state that belongs to a text, new or as it was left; kept again however the work ends.

    While one thread works on it, another begins with a new one: states are not shared.
    """
    key = hashlib.sha256(text.encode()).hexdigest()
    with _lock:
        state = _states.pop(key, None) or State()
    try:
        yield state
    finally:
        with _lock:
            _states[key] = state
            while len(_states) > KEPT:
                _states.popitem(last=False)

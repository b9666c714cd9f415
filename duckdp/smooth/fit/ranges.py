"""Ends that no value of a function goes beyond, where floats that cancel spoil those that bounds are propagated to.

Propagated ends (``facts``) are rounded to the nearest float: those of (x + 1e15) - 1e15 for x in [0, 0.3] are 0 and
0.25. Ranges over boxes that cover all values (``enclosure``) are rounded outward, so they hold f in exact arithmetic.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from duckdp.compiler.expression import Expr
from duckdp.compiler.facts import facts
from duckdp.smooth.axes import Axis
from duckdp.smooth.fit.boxes import first_boxes
from duckdp.smooth.fit.enclosure import enclose

_ROOM = 1e-12  # of the largest end: rounding that all bounds have room for


def beyond(function: Expr, axes: Sequence[Axis]) -> float:
    """How far values of f may lie beyond its propagated ends; 0 within rounding, inf where nothing is known.

    Args:
        function: a number.
        axes: the columns that it reads.
    """
    known = facts(function).interval
    if not axes:
        found = enclose(function, (), (), ())
    else:
        boxes = first_boxes(tuple(axes))
        if boxes is None:
            return math.inf
        found = enclose(function, axes, list(boxes[0].T), list(boxes[1].T))
    low, high = float(found.low.min()), float(found.high.max())
    own = max(0.0, known.lower - low, high - known.upper)
    return 0.0 if own <= _ROOM * max(abs(low), abs(high)) else own

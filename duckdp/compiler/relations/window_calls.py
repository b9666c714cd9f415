"""Window functions over a unit's rows, as they are printed: partition, order, frame, and values that are found.

What is printed reads layer ``w`` of relations/windowed.py: the unit, the columns, and the place of a row, which makes
every order total.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from duckdp.compiler.expression import Expr, show
from duckdp.compiler.printing import UNIT
from duckdp.compiler.relations.unit_groups import Taken, print_aggregate

NUMBERS = ("row_number", "rank", "dense_rank")
SHARES = ("percent_rank", "cume_dist")
SHIFTED = ("lag", "lead")
VALUES = ("first_value", "last_value", "nth_value")
_PLACED = ("row_number", "ntile", *SHIFTED, *VALUES)
_WHOLE = "ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING"
Frame = tuple[int | None, int | None]
Counts = Literal["rows", "range", "days", "groups"]
_FRAMES: dict[Counts, str] = {"rows": "ROWS", "range": "RANGE", "days": "RANGE", "groups": "GROUPS"}


@dataclass(frozen=True, kw_only=True)
class Window:
    """One window function of a unit's rows.

    Attributes:
        function: its name; of an aggregate "aggregate".
        taken: the aggregate, or None.
        argument: whose value is given, or None.
        number: of ntile, lag, lead and nth_value: the constant.
        default: of lag and lead: the constant where there is no row, or None.
        partition: expressions by which rows are parted besides the unit.
        order: (expression, descending, NULLs first).
        frame: rows from the one so many after the current one to the one so many after it (below 0: before it; None:
            to the end), or None: those up to the row's last peer, all where there is no order.
        counts: what the frame's ends count: rows, the one term of the order ("range"; of dates in days: "days"), or
            groups of peers.
        ignores: rows whose value is NULL are passed over.
    """

    function: str
    taken: Taken | None = None
    argument: Expr | None = None
    number: int | None = None
    default: Expr | None = None
    partition: tuple[Expr, ...] = ()
    order: tuple[tuple[Expr, bool, bool], ...] = ()
    frame: Frame | None = None
    counts: Counts = "rows"
    ignores: bool = False

    @property
    def read(self) -> tuple[Expr, ...]:
        """What it reads of rows."""
        taken = () if self.taken is None else (self.taken.argument, self.taken.filter)
        own = (*taken, self.argument, self.default, *self.partition, *(e for e, _, _ in self.order))
        return tuple(e for e in own if e is not None)

    @property
    def is_placed(self) -> bool:
        """Whether it depends on the order of rows that the written order does not tell apart."""
        by_rows = self.frame is not None and self.frame != (None, None) and self.counts == "rows"
        return self.function in _PLACED or by_rows

    @property
    def is_found(self) -> bool:
        """Whether its value is found by the numbers of rows: rows are passed over, or a frame follows from values."""
        if self.function == "nth_value" and self.frame is not None and None not in self.frame:
            return False
        return self.ignores or (self.function in VALUES and self.counts != "rows")

    @property
    def may_be_empty(self) -> bool:
        """Whether its frame may hold no row: one that need not hold the current row."""
        start, end = self.frame or (None, None)
        return (start is not None and start > 0) or (end is not None and end < 0)

    @property
    def text(self) -> str:
        """Canonical: the same for equal windows, and for no others."""
        inner = self.function if self.taken is None else self.taken.text
        given = [show(e) for e in (self.argument, self.default) if e is not None]
        given += [] if self.number is None else [str(self.number)]
        by = ", ".join(show(e) for e in self.partition)
        order = ", ".join(f"{show(e)} {'desc' if d else 'asc'} {'first' if f else 'last'}" for e, d, f in self.order)
        given += ["ignore nulls"] if self.ignores else []
        counts = "" if self.counts == "rows" else f" {self.counts}"
        return f"{inner}({', '.join(given)}) over ({by}; {order}; {self.frame}{counts})"


def found_values(i: int, window: Window, shown: Callable[[Expr], str]) -> list[str]:
    """What a value that is found needs of each row of layer ``w``: its number in the window's order, and a value.

    The value is the argument; of lag and lead, the one that the same function gives among the rows with a value, at
    one row less; of nth_value that of lead, or, of a frame from the first row on, that of the n-th row with one alone.
    """
    assert window.argument is not None
    value, parts = shown(window.argument), [f"w.{UNIT}", *map(shown, window.partition)]
    terms = ", ".join([*_terms(window, shown), "w.place"])
    number = f"system.main.row_number() OVER (PARTITION BY {', '.join(parts)} ORDER BY {terms}) AS o{i}"
    among = f"OVER (PARTITION BY {', '.join([*parts, f'{value} IS NULL'])} ORDER BY {terms})"
    if window.function in SHIFTED or (window.function == "nth_value" and window.frame and window.frame[0] is not None):
        shift = "lag" if window.function == "lag" else "lead"
        value = f"system.main.{shift}({value}, {(window.number or 1) - 1}) {among}"
    elif window.function == "nth_value":
        value = f"(CASE WHEN system.main.row_number() {among} = {window.number} THEN {value} END)"
    return [number, f"{value} AS s{i}"]


def _call_found(i: int, window: Window, shown: Callable[[Expr], str]) -> str:
    """A window function whose value is that of the first, or last, row of a frame that has one.

    In place of DuckDB's own, which for each row looks at all rows that are passed over: by the square of a unit's rows,
    so that time would tell of one. Aggregates of frames are found in a tree of partial ones.

    lag(x, n) is the value of the last row with a value before the row, or of the (n - 1)-th row with a value before
    that one; where it has none, no row before it has one either, and nothing is found. lead is the same, turned round.
    """
    pick = "arg_max" if window.function in ("last_value", "lag") else "arg_min"
    pick += "" if window.ignores else "_null"  # takes NULL for a value
    parts = f"PARTITION BY {', '.join([f'w.{UNIT}', *map(shown, window.partition)])}"
    if window.function in SHIFTED:
        ends = (
            ("UNBOUNDED PRECEDING", "1 PRECEDING")
            if window.function == "lag"
            else ("1 FOLLOWING", "UNBOUNDED FOLLOWING")
        )
        over = f"{parts} ORDER BY w.o{i} ROWS BETWEEN {' AND '.join(ends)}"
    elif window.frame is not None and window.counts == "rows":
        over = f"{parts} ORDER BY w.o{i} {_frame(window, window.frame)}"
    else:  # up to the row's last peer, or by values: which rows these are the order alone says, as it was written
        terms = _terms(window, shown)
        over = f"{parts} ORDER BY {', '.join(terms)}" if terms else parts
        over += "" if window.frame is None else f" {_frame(window, window.frame)}"
    value = f"system.main.{pick}(w.s{i}, w.o{i}) OVER ({over})"
    return value if window.default is None else f"COALESCE({value}, {shown(window.default)})"


def print_call(i: int, window: Window, shown: Callable[[Expr], str]) -> str:
    """A window function over layer ``w``, before the clamp."""
    if window.is_found:
        return _call_found(i, window, shown)
    over = f" OVER ({_over(window, shown)})"
    if window.taken is not None:
        return print_aggregate(i, window.taken, over)
    given = [] if window.argument is None else [shown(window.argument)]
    given += [] if window.number is None else [str(window.number)]
    given += [] if window.default is None else [shown(window.default)]
    nulls = " IGNORE NULLS" if window.ignores else ""
    return f"system.main.{window.function}({', '.join(given)}{nulls}){over}"


def _terms(window: Window, shown: Callable[[Expr], str]) -> list[str]:
    return [f"{shown(e)} {'DESC' if d else 'ASC'} NULLS {'FIRST' if f else 'LAST'}" for e, d, f in window.order]


def _over(window: Window, shown: Callable[[Expr], str]) -> str:
    """Partition, order and frame: the unit always, and the place where the order must be total."""
    parts = [f"PARTITION BY {', '.join([f'w.{UNIT}', *map(shown, window.partition)])}"]
    terms = [*_terms(window, shown), *(["w.place"] if window.is_placed else [])]
    parts += [f"ORDER BY {', '.join(terms)}"] if terms else []
    if window.frame is not None:
        parts.append(_frame(window, window.frame))
    elif window.function in VALUES:
        parts.append(_WHOLE)
    return " ".join(parts)


def _frame(window: Window, frame: Frame) -> str:
    ends = (_end(end, side, window.counts) for end, side in zip(frame, ("PRECEDING", "FOLLOWING"), strict=True))
    return f"{_FRAMES[window.counts]} BETWEEN {' AND '.join(ends)}"


def _end(offset: int | None, side: str, counts: Counts) -> str:
    if offset is None:
        return f"UNBOUNDED {side}"
    size = f"system.main.to_days({abs(offset)})" if counts == "days" else f"{abs(offset)}"
    return "CURRENT ROW" if offset == 0 else f"{size} {'PRECEDING' if offset < 0 else 'FOLLOWING'}"

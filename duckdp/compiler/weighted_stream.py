"""Counts of units as they are asked, answered from public weights over the cells of some columns (PMW); sums as well.

What is counted or added up, and why a unit changes each by at most 1: ``unit_counts.py``. A cell is a value of each
column. A sum is of a number of each cell, from 0 to 1 in all of them; one that is not so in some cell is refused.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from decimal import ROUND_CEILING, ROUND_FLOOR, Context
from functools import cached_property
from math import prod
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from duckdp.catalog.table import Kind, Table, dump_table
from duckdp.compiler.empty import arrow_type, on_values
from duckdp.compiler.expression import ColumnRef, Expr, columns, show
from duckdp.compiler.parse import parse_scalar
from duckdp.compiler.printing import Parameters, print_expr
from duckdp.compiler.query import Key
from duckdp.compiler.scope import read_linear, read_predicate
from duckdp.compiler.unit_counts import GRID, count_units, in_units, print_placed, sum_rounding
from duckdp.core.reads import Read, one_row
from duckdp.core.steps import Past
from duckdp.core.task import Question, Step
from duckdp.core.types import Loss, Neighbours
from duckdp.errors import ParameterError
from duckdp.mechanisms.multiplicative_weights import (
    Asked,
    Cells,
    MultiplicativeWeights,
    Weights,
    mended,
    share_of,
)

MECHANISM = "multiplicative weights"  # in the ledger
MOST_CELLS = 100_000  # weights of one release; every question looks at all of them
_MOST_MEMBERS = 32_000_000  # bytes of questions whose cells are remembered: 320 predicates of the largest releases
_MEMBERS: dict[tuple[str, str], Asked] = {}
_MOST_WEIGHTS = 16  # releases whose weights are remembered as they are: 13 MB of the largest
_WEIGHTS: dict[tuple[str, Standing], Weights] = {}


@dataclass(frozen=True, kw_only=True)
class Standing:
    """What the answers so far came to, from which the weights follow; public.

    Attributes:
        total: noisy number of all units; None: it was not bought yet.
        measured: (question as it was written, noisy count or sum), in the order of the answers.
    """

    total: int | None = None
    measured: tuple[tuple[str, float], ...] = ()

    def after(self, output: str) -> Standing:
        """What it is after one answer more; the total's is the first."""
        said = json.loads(output)
        if self.total is None:
            return replace(self, total=int(said["total"]))
        return (
            replace(self, measured=(*self.measured, (said["predicate"], said["value"]))) if said["measured"] else self
        )


@dataclass(frozen=True, kw_only=True)
class WeightedStream:
    """A planned release (core/task.py, ``Interactive``).

    Attributes:
        table: protected.
        keys: plain columns with domains; their product is the cells.
        threshold: from how many units on the weights are mended; None: chosen.
        hits: measured answers; with the last it ends.
        epsilon_nano: the charge, in 1e-9.
        neighbours: relation of the data set.
        opened: tells it from others with the same terms.
    """

    table: Table
    keys: tuple[Key, ...]
    threshold: int | None
    hits: int
    epsilon_nano: int
    neighbours: Neighbours
    opened: str

    @cached_property
    def weights(self) -> MultiplicativeWeights:
        """The mechanism, of these figures."""
        return MultiplicativeWeights(hits=self.hits, epsilon_nano=self.epsilon_nano, threshold=self.threshold)

    @property
    def loss(self) -> Loss:
        """What all questions cost together."""
        return self.weights.loss

    @property
    def mechanism(self) -> str:
        """The mechanism's name in the ledger."""
        return MECHANISM

    @property
    def canonical(self) -> str:
        """The release's identity: equal for equal terms, and for no others."""
        keys = [[show(key.expr), [str(v) for v in key.domain or ()]] for key in self.keys]
        terms = [self.threshold, self.hits, self.epsilon_nano, self.neighbours.value, self.opened]
        return json.dumps(["weighted stream", dump_table(self.table), keys, *terms])

    @property
    def parameters(self) -> dict[str, Any]:
        """Public parameters, for the ledger; with what the charge says they make the task again."""
        given = {"table": self.table.name, "columns": [key.name for key in self.keys], "threshold": self.threshold}
        return {**given, "hits": self.hits, "opened": self.opened}

    @property
    def cells(self) -> int:
        """How many cells there are, and so weights."""
        return prod(len(key.domain or ()) for key in self.keys)

    def begin(self) -> str:
        """The noise of the thresholds: secret, drawn once."""
        return json.dumps(self.weights.begin())

    def first(self) -> Question:
        """The noisy total, which comes before all others."""

        def draw(read: Read, _: Past) -> Step:
            everybody = read_predicate(parse_scalar("TRUE"), self.table, "TRUE")
            (units,) = one_row(read(count_units(self.table, None, (everybody,))), 1)
            return Step(output=json.dumps({"total": self.weights.total(int(units or 0))}))

        return Question(canonical="total", draw=draw)

    def question(self, asked: Expr, source: str) -> Question:
        """How many units fulfil a predicate, or what do they add up to?

        Args:
            asked: of the cells' columns alone.
            source: as it was written.

        Raises:
            ParameterError: P107, a number that is not from 0 to 1 in all cells.
        """
        cells = self.asked(asked, source)

        def draw(read: Read, past: Past) -> Step:
            (exact,) = one_row(read(count_units(self.table, None, (asked,))), 1)
            standing = past.follow(self.canonical, Standing(), Standing.after)
            guess = (standing.total or 1) * share_of(self.weights_of(standing), cells)
            found = self.weights.reply(in_units(asked, exact), guess, int(json.loads(past.secrets[0])))
            left = self.hits - len(standing.measured) - found.measured
            output = {"value": found.value, "measured": found.measured, "left": left, "predicate": source}
            return Step(output=json.dumps(output), last=left == 0)

        kind = "count" if asked.kind is Kind.BOOLEAN else "sum"
        return Question(canonical=json.dumps([kind, show(asked)]), draw=draw)

    def rounding(self, asked: Expr) -> float:
        """How far what is compared and measured may be off what is asked, in units: of a predicate nothing."""
        return 0.0 if asked.kind is Kind.BOOLEAN else self.sum_rounding

    @property
    def sum_rounding(self) -> float:
        """The same, of a number; public."""
        return sum_rounding(self.table.row_cap)

    def weights_of(self, standing: Standing) -> Weights:
        """The weights after these answers; found once by this process, as they change with measured answers alone."""
        key = (self.canonical, standing)
        found = _WEIGHTS.get(key)
        if found is None:
            measured = [(self._known(text), value) for text, value in standing.measured]
            found = mended(self.cells, standing.total or 1, measured)
            while len(_WEIGHTS) >= _MOST_WEIGHTS:
                _WEIGHTS.pop(next(iter(_WEIGHTS), key), None)
            _WEIGHTS[key] = found
        return found

    def _known(self, text: str) -> Asked:
        """Cells of a question that was measured; found once by this process, from public figures alone."""
        key = (self.canonical, text)
        found = _MEMBERS.get(key)
        if found is None:
            found = self.asked(self.read(text), text)
            while _MEMBERS and found.nbytes + sum(one.nbytes for one in list(_MEMBERS.values())) > _MOST_MEMBERS:
                _MEMBERS.pop(next(iter(_MEMBERS), key), None)
            _MEMBERS[key] = found
        return found

    def read(self, text: str) -> Expr:
        """A question of the cells' columns; see :func:`read_linear_of_cells`."""
        return read_linear_of_cells(text, self.table, self.keys)

    def asked(self, question: Expr, text: str) -> Asked:
        """What each cell counts; see :func:`asked_of`."""
        return asked_of(self.keys, question, text)


def read_of_cells(text: str, table: Table, keys: Sequence[Key]) -> Expr:
    """A predicate of the cells' columns.

    Raises:
        ParameterError: P107, it reads another column. QueryError: Q1xx to Q3xx.
    """
    return _of_cells(read_predicate(parse_scalar(text), table, text), text, keys)


def read_linear_of_cells(text: str, table: Table, keys: Sequence[Key]) -> Expr:
    """A predicate of the cells' columns, or a number, which is to be from 0 to 1 (:func:`asked_of`).

    Raises:
        ParameterError: P107, it reads another column. QueryError: Q1xx to Q3xx.
    """
    return _of_cells(read_linear(parse_scalar(text), table, text), text, keys)


def _of_cells(found: Expr, text: str, keys: Sequence[Key]) -> Expr:
    """The question, if it reads no other column than those of the cells; P107."""
    known = {key.name for key in keys}
    other = [column.name for column in columns(found) if column.name not in known]
    if other:
        rule = f'reads "{other[0]}", which is none of the columns that it was opened with: {", ".join(known)}.'
        raise ParameterError("P107", "predicate", text, rule)
    return found


def asked_of(keys: Sequence[Key], question: Expr, text: str) -> Asked:
    """Which cells fulfil a predicate, or the number of each, on the grid of what is added up and 0 where it is NULL.

    Args:
        keys: of the cells.
        question: of their columns.
        text: as it was written.

    Raises:
        ParameterError: P107, a number below 0 or above 1 in some cell.
    """
    if question.kind is Kind.BOOLEAN:
        return members_of(keys, question)
    found = np.asarray(_on_cells(keys, question, print_placed), dtype=np.float64) / GRID
    low, high = float(found.min()), float(found.max())
    if not (low >= 0 and high <= 1):  # no number at all is neither
        raise ParameterError("P107", "predicate", text, _way_between(low, high))
    return found


def _way_between(low: float, high: float) -> str:
    """That a number is not from 0 to 1, and what to write."""
    if not math.isfinite(high - low):
        return "is beyond all numbers for some values of its columns. Clamp it: least(greatest(x, 0), 1)."
    said = f"is from {low:.10g} to {high:.10g} over the columns' values, and must be from 0 to 1 to be added up."
    if low >= 0:
        return f"{said} Divide by {_short(high, ROUND_CEILING)!r}."
    least = _short(low, ROUND_FLOOR)
    return f"{said} Subtract {least!r}, and divide by {_short(high - least, ROUND_CEILING)!r}."


def _short(value: float, rounding: str) -> float:
    """A number of few digits that is not below it, or not above."""
    return float(Context(prec=9, rounding=rounding).create_decimal(value))


def members_of(keys: Sequence[Key], predicate: Expr) -> Cells:
    """Which cells fulfil a predicate; computed by DuckDB on an empty instance, from declarations alone."""
    return np.asarray(_on_cells(keys, predicate, lambda held: f"coalesce({held}, false)"), dtype=np.bool_)


def _on_cells(keys: Sequence[Key], expr: Expr, told: Callable[[str], str]) -> NDArray[Any]:
    """What is told of an expression in every cell, in the order of the keys' domains: the last one changes first."""
    tables, places = {}, {}
    for i, key in enumerate(keys):
        kind, values = key.expr.kind, list(key.domain or ())
        given = [float(v) if kind is Kind.NUMBER and v is not None else v for v in values]  # type: ignore[arg-type]
        tables[f"t{i}"] = {"value": pa.array(given, type=arrow_type(kind)), "place": pa.array(range(len(given)))}
        places[key.name] = f"t{i}.value"
    parameters = Parameters()
    printed = told(print_expr(expr, lambda column: places[column.name], parameters))
    order = ", ".join(f"{name}.place" for name in tables)
    sql = f"SELECT {printed} AS told FROM {', '.join(tables)} ORDER BY {order}"
    return np.asarray(on_values(tables, lambda con: con.execute(sql, parameters.values).fetchnumpy()["told"]))


def require_cells(keys: Sequence[Key], names: Sequence[str]) -> None:
    """Nothing, if these are plain columns with domains, and their cells are not too many.

    Raises:
        ParameterError: P107.
    """
    for key, name in zip(keys, names, strict=True):
        if not isinstance(key.expr, ColumnRef):
            raise ParameterError("P107", "columns", name, "must be the name of a column.")
        if key.domain is None:
            raise ParameterError("P107", "columns", name, "has no declared domain. Ask the owner for domains={...}.")
    cells = prod(len(key.domain or ()) for key in keys)
    if cells > MOST_CELLS:
        raise ParameterError("P107", "columns", len(keys), f"have {cells:,} cells together, more than {MOST_CELLS:,}.")

"""Counts of units as they are asked, answered from public weights over the cells of some columns (PMW).

What is counted, and why a unit changes each count by at most 1: ``unit_counts.py``. A cell is a value of each column.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import prod
from typing import Any

import numpy as np
import pyarrow as pa

from duckdp.catalog.table import Kind, Table, dump_table
from duckdp.compiler.empty import arrow_type, on_values
from duckdp.compiler.expression import ColumnRef, Expr, columns, show
from duckdp.compiler.parse import parse_scalar
from duckdp.compiler.printing import Parameters, print_expr
from duckdp.compiler.query import Key
from duckdp.compiler.scope import read_predicate
from duckdp.compiler.unit_counts import count_units
from duckdp.core.reads import Read, one_row
from duckdp.core.steps import Past
from duckdp.core.task import Question, Step
from duckdp.core.types import Loss, Neighbours
from duckdp.errors import ParameterError
from duckdp.mechanisms.multiplicative_weights import Cells, MultiplicativeWeights, Weights, mended

MECHANISM = "multiplicative weights"  # in the ledger
MOST_CELLS = 100_000  # weights of one release; every question looks at all of them
_MOST_MEMBERS = 256  # predicates whose cells are remembered: 25 MB of the largest releases
_MEMBERS: dict[tuple[str, str], Cells] = {}
_MOST_WEIGHTS = 16  # releases whose weights are remembered as they are: 13 MB of the largest
_WEIGHTS: dict[tuple[str, Standing], Weights] = {}


@dataclass(frozen=True, kw_only=True)
class Standing:
    """What the answers so far came to, from which the weights follow; public.

    Attributes:
        total: noisy number of all units; None: it was not bought yet.
        measured: (predicate, noisy count), in the order of the answers.
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
            everybody = read_predicate(parse_scalar("TRUE"), self.table, "SELECT TRUE")
            (units,) = one_row(read(count_units(self.table, None, (everybody,))), 1)
            return Step(output=json.dumps({"total": self.weights.total(int(units or 0))}))

        return Question(canonical="total", draw=draw)

    def question(self, predicate: Expr, source: str) -> Question:
        """How many units fulfil a predicate?

        Args:
            predicate: of the cells' columns alone.
            source: as it was written.
        """
        members = self.members(predicate)

        def draw(read: Read, past: Past) -> Step:
            (units,) = one_row(read(count_units(self.table, None, (predicate,))), 1)
            standing = past.follow(self.canonical, Standing(), Standing.after)
            guess = (standing.total or 1) * float(self.weights_of(standing)[members].sum())
            found = self.weights.reply(int(units or 0), guess, int(json.loads(past.secrets[0])))
            left = self.hits - len(standing.measured) - found.measured
            output = {"value": found.value, "measured": found.measured, "left": left, "predicate": source}
            return Step(output=json.dumps(output), last=left == 0)

        return Question(canonical=json.dumps(["count", show(predicate)]), draw=draw)

    def weights_of(self, standing: Standing) -> Weights:
        """The weights after these answers; found once by this process, as they change with measured answers alone."""
        key = (self.canonical, standing)
        found = _WEIGHTS.get(key)
        if found is None:
            measured = [(self._known_members(predicate), value) for predicate, value in standing.measured]
            found = mended(self.cells, standing.total or 1, measured)
            while len(_WEIGHTS) >= _MOST_WEIGHTS:
                _WEIGHTS.pop(next(iter(_WEIGHTS), key), None)
            _WEIGHTS[key] = found
        return found

    def _known_members(self, text: str) -> Cells:
        """Cells of a predicate that was measured; found once by this process, from public figures alone."""
        key = (self.canonical, text)
        found = _MEMBERS.get(key)
        if found is None:
            found = self.members(self.read(text))
            while len(_MEMBERS) >= _MOST_MEMBERS:
                _MEMBERS.pop(next(iter(_MEMBERS), key), None)
            _MEMBERS[key] = found
        return found

    def read(self, text: str) -> Expr:
        """A predicate of the cells' columns; see :func:`read_of_cells`."""
        return read_of_cells(text, self.table, self.keys)

    def members(self, predicate: Expr) -> Cells:
        """Which cells fulfil a predicate; see :func:`members_of`."""
        return members_of(self.keys, predicate)


def read_of_cells(text: str, table: Table, keys: Sequence[Key]) -> Expr:
    """A predicate of the cells' columns.

    Raises:
        ParameterError: P107, it reads another column. QueryError: Q1xx to Q3xx.
    """
    found = read_predicate(parse_scalar(text), table, f"SELECT {text}")
    known = {key.name for key in keys}
    other = [column.name for column in columns(found) if column.name not in known]
    if other:
        rule = f'reads "{other[0]}", which is none of the columns that it was opened with: {", ".join(known)}.'
        raise ParameterError("P107", "predicate", text, rule)
    return found


def members_of(keys: Sequence[Key], predicate: Expr) -> Cells:
    """Which cells fulfil a predicate; computed by DuckDB on an empty instance, from declarations alone."""
    tables, places = {}, {}
    for i, key in enumerate(keys):
        kind, values = key.expr.kind, list(key.domain or ())
        given = [float(v) if kind is Kind.NUMBER and v is not None else v for v in values]  # type: ignore[arg-type]
        tables[f"t{i}"] = {"value": pa.array(given, type=arrow_type(kind)), "place": pa.array(range(len(given)))}
        places[key.name] = f"t{i}.value"
    parameters = Parameters()
    printed = print_expr(predicate, lambda column: places[column.name], parameters)
    order = ", ".join(f"{name}.place" for name in tables)
    sql = f"SELECT coalesce({printed}, false) AS held FROM {', '.join(tables)} ORDER BY {order}"
    found = on_values(tables, lambda con: con.execute(sql, parameters.values).fetchnumpy()["held"])
    return np.asarray(found, dtype=np.bool_)


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

"""The candidates that most privacy units have, as a task: the values of a key with a public domain, or predicates.

A unit counts once for each candidate that any of its rows has, however many rows it has: so it changes every count by
at most 1, and nothing needs to be bounded (``unit_counts.py``) where candidates are picked one after the other. Where
noise for all counts at once is less (``mechanisms/noisy_counts.py``), as of many picks where a unit has few values, a
unit counts for ``max_groups`` of its values, those with the smallest keyed hash.
"""

from __future__ import annotations

import json
import math
from abc import abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import Any

from duckdp.catalog.table import Scalar, Table, dump_table
from duckdp.compiler.emit import key_codes, print_keys
from duckdp.compiler.expression import Expr, show
from duckdp.compiler.plan import digest_domain
from duckdp.compiler.printing import UNIT, Parameters
from duckdp.compiler.query import Key, Query
from duckdp.compiler.unit_counts import count_units, print_kept_keys
from duckdp.core.reads import AddByKey, PrivateQuery, one_row
from duckdp.core.task import OneRead
from duckdp.core.types import Loss, Neighbours
from duckdp.errors import InternalError, ParameterError
from duckdp.mechanisms.noisy_counts import NoisyCounts, choose_way
from duckdp.mechanisms.top_k import TopK


@dataclass(frozen=True, kw_only=True)
class _Choice(OneRead):
    """A planned choice of the k candidates that most units have (core/task.py).

    Attributes:
        table: protected.
        where: predicate, or None.
        picks: k.
        epsilon_nano: the charge, in 1e-9.
        delta_atto: what it may cost too, in 1e-18.
        neighbours: relation of the data set.
    """

    table: Table
    where: Expr | None
    picks: int
    epsilon_nano: int
    delta_atto: int
    neighbours: Neighbours

    @property
    @abstractmethod
    def candidates(self) -> int:
        """How many there are to choose from."""

    @property
    def groups(self) -> int:
        """Candidates in which one unit may count."""
        return self.candidates

    @cached_property
    def top(self) -> TopK | NoisyCounts:
        """The mechanism. Counts of units move one way where a unit comes or goes, both ways where it is replaced."""
        given: dict[str, Any] = {
            "picks": self.picks,
            "candidates": self.candidates,
            "epsilon_nano": self.epsilon_nano,
            "delta_atto": self.delta_atto,
            "monotone": self.neighbours is Neighbours.ADD_REMOVE,
        }
        at_once = NoisyCounts(**given, groups=min(self.groups, self.candidates))
        try:
            return choose_way(TopK(**given), at_once)
        except ParameterError:
            if self.picks < 1:
                raise
            return choose_way(None, at_once)

    @property
    def loss(self) -> Loss:
        """What all picks cost together."""
        return self.top.loss

    @property
    def mechanism(self) -> str:
        """Each pick's mechanism, or the law of the noise of every count."""
        if isinstance(self.top, NoisyCounts):
            return self.top.noise.family
        return "permute-and-flip" if self.top.is_pure else "exponential"

    @property
    def parameters(self) -> dict[str, Any]:
        """Public parameters of the release, for the ledger."""
        return {"where": show(self.where), "candidates": self.candidates, "k": self.picks}

    def describe(self) -> list[str]:
        """Lines of ``explain``; from public figures."""
        units = "rows" if self.table.unit_key is None else f"values of {self.table.unit_key}"
        if isinstance(self.top, NoisyCounts):
            each = f"{self.mechanism.title()} noise of scale {self.top.noise.scale:.4g} for each at once"
        else:
            each = f"one after the other, each by {self.mechanism} with epsilon={float(self.top.share):.4g}"
        short = f"is short of the best one left by at most {self.top.shortfall():,} {units}"
        return [
            f"choose {self.picks} of {self.candidates} candidates by how many {units} have them, {each}",
            f"95%: what is chosen at each rank {short}",
        ]

    def read(self, payload: str) -> list[int]:
        """Places of the chosen candidates, from the stored payload."""
        found = json.loads(payload)
        if len(found) != self.picks or not all(0 <= int(place) < self.candidates for place in found):
            raise InternalError("other candidates were chosen from")
        return [int(place) for place in found]

    def _question(self, kind: str, of: Sequence[object]) -> str:
        terms = [self.picks, self.epsilon_nano, self.delta_atto, self.neighbours.value]
        return json.dumps([kind, dump_table(self.table), show(self.where), list(of), *terms])


@dataclass(frozen=True, kw_only=True)
class ValueChoice(_Choice):
    """A planned choice among the values of one key, or of several keys together (core/task.py).

    Attributes:
        keys: each has a domain.
    """

    keys: tuple[Key, ...]

    @property
    def candidates(self) -> int:
        """How many there are to choose from: places of values, in the order of their domains."""
        return math.prod(len(key.domain or ()) for key in self.keys)

    def values(self, place: int) -> tuple[Scalar, ...]:
        """The values of the keys at a place."""
        found = []
        for key in reversed(self.keys):
            place, at = divmod(place, len(key.domain or ()))
            found.append((key.domain or ())[at])
        return tuple(reversed(found))

    @property
    def canonical(self) -> str:
        """The question's identity: equal for equal questions, and for no others."""
        keys = [[show(k.expr), digest_domain(k.domain), repr(k.other)] for k in self.keys]
        return self._question("choice of values", keys)

    @property
    def groups(self) -> int:
        """Values of one unit that count, where noise is drawn at once: as of keys that nobody declared."""
        return 1 if self.table.unit_key is None else self.table.max_groups

    @property
    def bounds_units(self) -> bool:
        """Whether a unit's further values are left out: nobody needs to where values are picked one after the other."""
        return self.table.unit_key is not None and isinstance(self.top, NoisyCounts) and self.groups < self.candidates

    def describe(self) -> list[str]:
        """Lines of ``explain``; from public figures."""
        what, short = super().describe()
        kept = f"; of each {self.table.unit_key} at most {self.groups} count (max_groups)" if self.bounds_units else ""
        return [what + kept, short]

    def query(self, salt: int) -> PrivateQuery:
        """The private read: (keys..., units), at most one row for each candidate."""
        parameters = Parameters()
        query = Query(table=self.table, where=self.where, keys=self.keys, outputs=())
        names, rows = print_keys(query, parameters)
        keys = ", ".join(names)
        if self.bounds_units:
            rows = print_kept_keys(keys, rows, salt, self.groups)
        elif self.table.unit_key is not None:
            rows = f"(SELECT DISTINCT {UNIT}, {keys} FROM {rows}) AS prepared"
        sql = f"SELECT {keys}, system.main.count_star() FROM {rows} GROUP BY {keys}"
        parts = AddByKey(keys=len(names), ordered=False)
        return PrivateQuery(sql=sql, parameters=tuple(parameters.values), rows=self.candidates, parts=parts)

    def release(self, rows: Iterable[tuple[Any, ...]]) -> str:
        """Places of the chosen values. ``rows``: exact and private."""
        counts = {tuple(keys): int(units) for *keys, units in rows}
        return json.dumps(self.top.choose([counts.get(codes, 0) for codes in product(*map(key_codes, self.keys))]))


@dataclass(frozen=True, kw_only=True)
class PredicateChoice(_Choice):
    """A planned choice among predicates of rows: those that hold for most units (core/task.py).

    Attributes:
        predicates: of rows.
    """

    predicates: tuple[Expr, ...]

    @property
    def candidates(self) -> int:
        """How many there are to choose from."""
        return len(self.predicates)

    @property
    def canonical(self) -> str:
        """The question's identity: equal for equal questions, and for no others."""
        return self._question("choice of predicates", [show(p) for p in self.predicates])

    def query(self, salt: int) -> PrivateQuery:  # noqa: ARG002 - nothing is chosen by a hash
        """The private read: one row with the number of units of each predicate."""
        return count_units(self.table, self.where, self.predicates)

    def release(self, rows: Iterable[tuple[Any, ...]]) -> str:
        """Places of the chosen predicates. ``rows``: exact and private."""
        return json.dumps(self.top.choose([int(units or 0) for units in one_row(rows, len(self.predicates))]))

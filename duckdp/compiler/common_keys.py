"""The keys that most privacy units have, of keys that no domain declares, as a task (mechanisms/heavy_hitters.py).

A unit counts once for each of its keys; of more than ``max_groups`` keys it keeps those with the smallest keyed hash.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import Any

from duckdp.catalog.table import Scalar, Table, dump_table
from duckdp.compiler.emit import key_values, print_keys
from duckdp.compiler.evaluate import decode_key
from duckdp.compiler.expression import Expr, show
from duckdp.compiler.plan import digest_domain
from duckdp.compiler.printing import Parameters
from duckdp.compiler.query import Key, Query
from duckdp.compiler.release import CHUNK, encode_key
from duckdp.compiler.unit_counts import print_kept_keys
from duckdp.core.reads import AddByKey, PrivateQuery
from duckdp.core.task import OneRead
from duckdp.core.types import Loss, Neighbours
from duckdp.errors import InternalError
from duckdp.mechanisms.heavy_hitters import HeavyHitters


@dataclass(frozen=True, kw_only=True)
class HeavyHittersTask(OneRead):
    """A planned choice among keys that are private (core/task.py).

    Attributes:
        table: protected.
        where: predicate, or None.
        keys: at least one of them has no domain.
        picks: k.
        epsilon_nano: the charge, in 1e-9.
        delta_atto: the charge, in 1e-18.
        neighbours: relation of the data set.
    """

    table: Table
    where: Expr | None
    keys: tuple[Key, ...]
    picks: int
    epsilon_nano: int
    delta_atto: int
    neighbours: Neighbours

    @cached_property
    def hitters(self) -> HeavyHitters:
        """The mechanism. Counts of units move one way where a unit comes or goes, both ways where it is replaced."""
        return HeavyHitters(
            picks=self.picks,
            groups=self.groups,
            epsilon_nano=self.epsilon_nano,
            delta_atto=self.delta_atto,
            monotone=self.neighbours is Neighbours.ADD_REMOVE,
        )

    @property
    def groups(self) -> int:
        """Keys of one unit that count."""
        return 1 if self.table.unit_key is None else self.table.max_groups

    @property
    def canonical(self) -> str:
        """The question's identity: equal for equal questions, and for no others."""
        keys = [[show(k.expr), None if k.domain is None else digest_domain(k.domain), repr(k.other)] for k in self.keys]
        terms = [self.picks, self.epsilon_nano, self.delta_atto, self.neighbours.value]
        return json.dumps(["heavy hitters", dump_table(self.table), show(self.where), keys, *terms])

    @property
    def loss(self) -> Loss:
        """What all picks cost together."""
        return self.hitters.loss

    @property
    def mechanism(self) -> str:
        """How keys are chosen, for the ledger."""
        return f"{self.hitters.family or 'top_k'}+threshold"

    @property
    def parameters(self) -> dict[str, Any]:
        """Public parameters of the release, for the ledger."""
        hitters = self.hitters
        return {"where": show(self.where), "k": self.picks, "threshold": hitters.tau, "floor": hitters.floor}

    @property
    def within(self) -> int:
        """How far what is told may be below the best that is not, with 95%; units."""
        return self.hitters.shortfall(self.table.row_cap)

    def describe(self) -> list[str]:
        """Lines of ``explain``; from public figures."""
        units = "rows" if self.table.unit_key is None else f"values of {self.table.unit_key}"
        hitters = self.hitters
        picked = "one after the other, until nobody is picked"
        way = picked if hitters.family is None else f"{hitters.family.title()} noise for each key at once"
        sure = f"95%: what at least {hitters.sure():,} {units} have is not left out for the threshold"
        return [
            f"choose at most {self.picks} keys that are not declared by how many {units} have them, {way}; only what "
            f"is above a threshold of {hitters.tau:,} is told",
            f"{sure}; what is told at each rank is short of the best one left by at most {self.within:,}",
        ]

    def query(self, salt: int) -> PrivateQuery:
        """The private read: (keys..., units), ascending keys."""
        parameters = Parameters()
        query = Query(table=self.table, where=self.where, keys=self.keys, outputs=())
        names, rows = print_keys(query, parameters)
        keys = ", ".join(names)
        if self.table.unit_key is not None:
            rows = print_kept_keys(keys, rows, salt, self.groups)
        order = ", ".join(f"{name} NULLS LAST" for name in names)
        sql = f"SELECT {keys}, system.main.count_star() FROM {rows} GROUP BY {keys} ORDER BY {order}"
        return PrivateQuery(sql=sql, parameters=tuple(parameters.values), rows=None, parts=AddByKey(keys=len(names)))

    def release(self, rows: Iterable[tuple[Any, ...]]) -> str:
        """The keys that are told, as values. ``rows``: exact and private."""
        shown, hitters = [key_values(key) for key in self.keys], self.hitters
        if hitters.family is not None:
            known = self._above(rows)
        else:
            candidates = [row for row in rows if int(row[-1]) >= hitters.floor]
            known = [candidates[i] for i in hitters.pick([int(units) for *_, units in candidates])]
        return json.dumps(
            [
                [encode_key(v if names is None else names[v]) for v, names in zip(row, shown, strict=False)]
                for row in known
            ]
        )

    def _above(self, rows: Iterable[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
        """Keys that all at once are told, the best first; equal ones in the order of the keys."""
        found: list[tuple[int, tuple[Any, ...]]] = []
        source = iter(rows)
        while batch := list(islice(source, CHUNK)):
            noisy = self.hitters.noised([int(units) for *_, units in batch])
            found += [(n, row) for n, row in zip(noisy, batch, strict=True) if n >= self.hitters.tau]
        return [row for _, row in sorted(found, key=lambda one: -one[0])[: self.picks]]

    def read(self, payload: str) -> list[tuple[Scalar, ...]]:
        """Values of the keys that were told, the first rank first, from the stored payload."""
        found = json.loads(payload)
        if len(found) > self.picks:
            raise InternalError("more keys were told than were asked for")
        return [
            tuple(decode_key(value, key.expr.kind) for value, key in zip(values, self.keys, strict=True))
            for values in found
        ]

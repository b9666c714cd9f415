"""Several releases of one statement as one task: one charge, one share of it for each, every one stored by itself.

Privacy:      the shares add up to what was typed (basic composition; rho and delta add up too), whatever of the answers
              the outer part shows. The list of parts, their shares and their order follow from the text alone.
Assumes:      each part is a :class:`Plan` whose loss holds for itself.
Proof sketch: the parts are fixed before any data and read under one durable charge, so that the statement is their
              joint release, whose loss is the sum. Each is a stage: its noisy payload is stored before the next is
              read, and a retry takes what is stored as it stands. What follows is post-processing.
Source:       Dwork, McSherry, Nissim, Smith 2006 (composition, post-processing).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import partial
from typing import Any

from duckdp.compiler.emit import emit
from duckdp.compiler.evaluate import known_payload
from duckdp.compiler.known import is_known
from duckdp.compiler.outer.adding import as_derived, combined, finest, relative_error
from duckdp.compiler.plan import Plan, make_plan, noise_weight
from duckdp.compiler.pricing import Price, Terms, price
from duckdp.compiler.query import Query
from duckdp.compiler.release import SelectTask
from duckdp.core.reads import PrivateQuery
from duckdp.core.task import Stages, Work
from duckdp.core.types import NANO, Loss, Neighbours, parse_delta, parse_epsilon
from duckdp.errors import InternalError, ParameterError


@dataclass(frozen=True, kw_only=True)
class SeveralTask:
    """The parts of a statement that read something, two or more of them (core/task.py)."""

    plans: tuple[Plan, ...]

    @property
    def canonical(self) -> str:
        """The question's identity: equal for equal parts at equal shares, and for no others."""
        return json.dumps({"parts": [plan.canonical() for plan in self.plans]})

    @property
    def loss(self) -> Loss:
        """The sum of the parts'."""
        return total([plan.loss for plan in self.plans])

    @property
    def mechanism(self) -> str:
        """Each mechanism among the parts."""
        return ", ".join(dict.fromkeys(SelectTask(plan=plan).mechanism for plan in self.plans))

    @property
    def parameters(self) -> dict[str, Any]:
        """Public parameters of the releases, for the ledger."""
        return {
            "parts": [plan.parameters() | {"cost": str(plan.loss)} for plan in self.plans],
        }

    @property
    def of_all_rows(self) -> bool:
        """Whether parts of the rows do not tell what one of them reads."""
        return any(not emit(plan, 0).parts.known for plan in self.plans)

    def work(self, salt: int) -> Work:
        """A stage for each part; all reads are printed before the charge."""
        tasks = [SelectTask(plan=plan) for plan in self.plans]
        queries = [emit(plan, salt) for plan in self.plans]

        def run(stages: Stages) -> str:
            found: list[str] = []
            for task, query in zip(tasks[:-1], queries[:-1], strict=True):
                found.append(stages.run(partial(_drawn, task, query, stages)))
            return stages.last(lambda: json.dumps([*found, tasks[-1].release(stages.read(queries[-1]))]))

        return run


def _drawn(task: SelectTask, query: PrivateQuery, stages: Stages) -> str:
    return task.release(stages.read(query))


def total(losses: Sequence[Loss]) -> Loss:
    """The sum of what several releases cost: epsilon, delta and rho each."""
    return Loss(
        epsilon_nano=sum(loss.epsilon_nano for loss in losses),
        delta_atto=sum(loss.delta_atto for loss in losses),
        rho_pico=sum(loss.rho_pico for loss in losses),
        delta_zcdp_atto=sum(loss.delta_zcdp_atto for loss in losses),
    )


def task_of(plans: Sequence[Plan]) -> SelectTask | SeveralTask | None:
    """What is charged: one part is the plain question, whose stored answer it shares; None: nothing is read."""
    reading = sorted((plan for plan in plans if plan.reads), key=Plan.canonical)
    if not reading:
        return None
    return SelectTask(plan=reading[0]) if len(reading) == 1 else SeveralTask(plans=tuple(reading))


def payloads_of(plans: Sequence[Plan], payload: str | None) -> list[str]:
    """The payload of each part from that of the task.

    Args:
        plans: as given to :func:`task_of`.
        payload: of its release; None where nothing was read.
    """
    task = task_of(plans)
    if task is None:
        return [known_payload(plan) for plan in plans]
    assert payload is not None
    given = [payload] if isinstance(task, SelectTask) else json.loads(payload)
    read = (task.plan,) if isinstance(task, SelectTask) else task.plans
    by_question = {plan.canonical(): one for plan, one in zip(read, given, strict=True)}
    return [by_question[plan.canonical()] if plan.reads else known_payload(plan) for plan in plans]


def plan_parts(queries: Sequence[Query], terms: Terms, neighbours: Neighbours) -> list[Price]:
    """Plan the parts of a statement for what was typed, each for its share.

    Epsilon is shared as the measures of one statement share it, for the least total error (compiler/importance.py).
    Grouping sets that add up are combined, or totals added up, where that is better (outer/adding.py).

    Args:
        queries: the parts.
        terms: of the statement; an error is that of each figure, and its price is the sum of what they need.
        neighbours: relation of the data set.

    Raises:
        QueryError, ParameterError: as of a statement with one part; P101 where a share is too small.
    """
    if isinstance(terms.error, Mapping):
        rule = "names outputs, and is for a statement with one SELECT. Give one number, for every figure."
        raise ParameterError("P106", "error", "{...}", rule)
    queries = [replace(query, min_units=terms.min_units) for query in queries]  # by which a known one may be read
    alone = _priced(queries, terms, neighbours)
    plans = [one.plan for one in alone]
    together = combined(plans)
    ways = [(alone, plans), (alone, together)]
    coarse = finest(plans) if terms.error is None else frozenset()
    if coarse:
        fewer = _priced(queries, terms, neighbours, coarse)
        ways.append((fewer, combined([one.plan for one in fewer])))
    found, made = min(ways, key=lambda way: relative_error(way[1], plans))
    return [replace(one, plan=plan) for one, plan in zip(found, made, strict=True)]


def _priced(
    queries: Sequence[Query], terms: Terms, neighbours: Neighbours, coarse: frozenset[int] = frozenset()
) -> list[Price]:
    """Each part by itself, for its share; some are not released, as they are added up from others."""
    reading = [query for i, query in enumerate(queries) if not is_known(query) and i not in coarse]
    if terms.error is not None or (len(reading) <= 1 and not coarse):
        return [price(query, terms, neighbours) for query in queries]
    epsilon, delta = parse_epsilon(terms.epsilon), parse_delta(terms.delta)
    epsilons = _shares(epsilon, _weights(reading, delta, neighbours))

    def shared(uses: Sequence[bool]) -> list[Price]:
        shares = iter(zip(epsilons, _shares(delta, list(map(int, uses))), strict=True))
        return [_own(q, terms, neighbours, None if i in coarse else shares) for i, q in enumerate(queries)]

    found = shared([True] * len(reading))
    uses = [one.plan.loss.delta_atto > 0 for i, one in enumerate(found) if not is_known(queries[i]) and i not in coarse]
    if any(uses) and not all(uses):  # the others need none: Laplace noise, and keys that are declared
        found = shared(uses)
    _require_at_most(epsilon, delta, [one.plan.loss for one in found if one.plan.reads])
    return found


def _own(query: Query, terms: Terms, neighbours: Neighbours, shares: Iterator[tuple[int, int]] | None) -> Price:
    """A part at the next of the shares, or added up from others, where there are none."""
    if shares is None:
        one = price(query, terms, neighbours)
        return replace(one, plan=as_derived(one.plan))
    own, spare = next(shares) if not is_known(query) else (NANO, 0)
    return price(query, replace(terms, epsilon=Decimal(own).scaleb(-9), delta=Decimal(spare).scaleb(-18)), neighbours)


def _require_at_most(epsilon: int, delta: int, losses: Sequence[Loss]) -> None:
    """That parts cost together no more than what was typed."""
    if sum(loss.epsilon_nano for loss in losses) > epsilon or sum(loss.delta_atto for loss in losses) > delta:
        raise InternalError("the parts of a statement cost more than it")


def _weights(queries: Sequence[Query], delta: int, neighbours: Neighbours) -> list[int]:
    """What the parts weigh, in whole numbers of a thousand or so; at any price."""
    plans = [make_plan(query, epsilon_nano=NANO, delta_atto=delta, neighbours=neighbours) for query in queries]
    weights = [noise_weight(plan) for plan in plans]
    return [max(1, round(1000 * weight / (sum(weights) or 1))) for weight in weights]


def _shares(whole: int, weights: Sequence[int]) -> list[int]:
    """Whole numbers in these proportions that add up to the whole; what is left over goes to the first that has any.

    >>> _shares(10, [1, 1, 1]), _shares(5, [0, 1, 1])
    ([4, 3, 3], [0, 3, 2])
    """
    parts = [whole * weight // sum(weights) for weight in weights]
    parts[next(i for i, weight in enumerate(weights) if weight)] += whole - sum(parts)
    return parts

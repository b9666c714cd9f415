"""Query to Plan: which vectors are released, with how much noise, at what cost. No data, no SQL.

A plan is built from public figures only; ``explain`` prints it. It fixes everything that the private read and the
noise depend on, so its canonical text is the identity of the question.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property, partial
from typing import Any, Literal

from duckdp.catalog.table import MAX_DOMAIN, dump_table
from duckdp.compiler import unit_ways
from duckdp.compiler.expression import Aggregate, show, walk
from duckdp.compiler.importance import importances, split_weight
from duckdp.compiler.known import counts_nothing, is_zero
from duckdp.compiler.listed_values import with_listed
from duckdp.compiler.measures import Measure, bound_measure, choose_measures
from duckdp.compiler.query import Query, require_few_keys, told_count
from duckdp.compiler.relations.relation import Relation
from duckdp.compiler.unit_weights import weigh_units
from duckdp.core.errorbars import Noise
from duckdp.core.summedbars import Law
from duckdp.core.types import Loss, Neighbours, Sensitivity, show_decimal
from duckdp.errors import ParameterError, QueryError
from duckdp.mechanisms.additive import Calibration, Family, best_family, best_parts, calibrate
from duckdp.mechanisms.threshold import threshold

MAX_MEASURES = 64  # that one epsilon is shared by; with more each has little of it
MAX_CELLS = 2_000_000  # of one statement, hidden ones and shown: variances take a minute and 0.5 GB
_KEPT = 1000  # groups of a query that is kept for the next time: less than a millisecond's work, a few 10 KB
_SHOWN = 300  # characters of a measure in the ledger
MechanismChoice = Literal["auto", "laplace", "gaussian"]


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Everything about one private statement before it runs.

    Attributes:
        query: what was asked.
        measures: released vectors; cell order of a group is theirs, one after the other. None: the answer is known
            (compiler/known.py), nothing is read.
        noises: of each measure; None for a measure that is public.
        groups: groups of a unit that count.
        tau: threshold on the noisy number of units, or on their weights; None when all keys are public.
        family, loss, neighbours: mechanism and cost.
        laws: of the noise of each measure as it is shown, where parts of a statement are combined; None: as drawn.
        derived: nothing is read and nothing drawn, the cells follow from those of other parts.
        unweighted: the same with the number of units where this has their weights; as it was once planned.
    """

    query: Query
    measures: tuple[Measure, ...]
    noises: tuple[Noise | None, ...]
    groups: int
    tau: int | None
    family: str
    loss: Loss
    neighbours: Neighbours
    laws: tuple[Law | None, ...] | None = None
    derived: bool = False
    unweighted: Plan | None = None

    @property
    def reads(self) -> bool:
        """Whether it reads private rows, and is charged."""
        return bool(self.measures) and not self.derived

    @property
    def once(self) -> Plan:
        """As it was once planned, before weights of units: the same figures, of fewer groups."""
        return self if self.unweighted is None else self.unweighted

    @property
    def shown(self) -> tuple[Law | None, ...]:
        """The law of each measure's noise in what is shown."""
        return self.noises if self.laws is None else self.laws

    @property
    def cells(self) -> int:
        """How many numbers are released per group, all measures together."""
        return sum(m.cells for m in self.measures)

    @property
    def domain_size(self) -> int | None:
        """Number of groups when all keys are public; 1 without keys."""
        return domain_size(self.query)

    def cell_noises(self) -> list[Law | None]:
        """Noise of each cell of a group as it is shown; None where it is public."""
        found: list[Law | None] = []
        for measure, noise in zip(self.measures, self.shown, strict=True):
            found += [noise] * measure.noisy_cells + [None] * (measure.cells - measure.noisy_cells)
        return found

    def canonical(self) -> str:
        """The question's identity: everything before HAVING, ORDER BY and LIMIT."""
        return self._canonical

    @cached_property
    def _canonical(self) -> str:
        return json.dumps(
            {
                "table": dump_table(self.query.table),
                "neighbours": self.neighbours.value,
                "where": show(self.query.where),
                "keys": [[show(k.expr), digest_domain(k.domain), repr(k.other)] for k in self.query.keys],
                "measures": [m.describe() for m in self.measures],
                "bits": [m.bits for m in self.measures],
                "groups": self.groups,
                "tau": self.tau,
                "family": self.family,
                "scales": [n.scale if n else 0 for n in self.noises],
                "epsilon": self.loss.epsilon_nano,
                "delta": self.loss.delta_atto,
                **({"together": digest_together(self.query)} if self.query.together else {}),
                **({"weights": weights} if (weights := [m.levels for m in self.measures if m.levels]) else {}),
            },
            sort_keys=True,
        )

    def parameters(self) -> dict[str, Any]:
        """Public parameters for the ledger."""
        return {
            "neighbours": self.neighbours.value,
            "groups": self.groups,
            "threshold": self.tau,
            "measures": [
                {
                    "what": _shortened(m.describe()),
                    "steps": m.steps,
                    "l1": m.sensitivity.l1,
                    "scale": n.scale if n else 0,
                }
                for m, n in zip(self.measures, self.noises, strict=True)
            ],
        }


def make_plan(
    query: Query, *, epsilon_nano: int, delta_atto: int = 0, neighbours: Neighbours, mechanism: MechanismChoice = "auto"
) -> Plan:
    """Plan a query for a cost.

    Args:
        query: validated.
        epsilon_nano: what the statement may cost, in 1e-9, all of it used.
        delta_atto: in 1e-18; needed by Gaussian noise and by keys without a domain.
        neighbours: relation of the data set.
        mechanism: family of the noise; "auto" takes the one with less error.

    Raises:
        QueryError: Q301 no group could be shown, Q403 too many groups or measures, Q404 delta missing.
        ParameterError: P1xx.
    """
    nothing, size = counts_nothing(query), domain_size(query)
    open_keys = _require_keys(query, delta_atto if not nothing else 1) and not nothing
    unit_is_row = query.table.unit_key is None
    query = with_listed(query, epsilon=epsilon_nano * 1e-9, groups=(groups := _groups(query, size)), size=size)
    everyone = query.where is None and not query.keys and query.table.filter is None and unit_is_row
    everyone = everyone and not isinstance(query.table, Relation)  # which rows have a match is not public
    chosen = choose_measures(
        _aggregates(query),
        presence=open_keys,
        unit_is_row=unit_is_row,
        public_rows=everyone and neighbours is Neighbours.REPLACE,
    )
    _require_few_measures(chosen)
    weights = importances(chosen, _figures(query), presence=open_keys)
    parts = best_parts(weights, "laplace")
    measures = [
        bound_measure(
            m,
            query.table,
            neighbours,
            groups=groups,
            grouped=bool(query.keys),
            everyone=everyone,
            epsilon=epsilon_nano * 1e-9 * part / sum(parts),
        )
        for m, part in zip(chosen, parts, strict=True)
    ]
    _require_few_cells(query, size, sum(m.cells for m in measures))
    noisy = [(m.sensitivity, weight) for m, weight in zip(measures, weights, strict=True) if m.noisy_cells]
    calibration = _calibrate(noisy, epsilon_nano, delta_atto, mechanism, open_keys=open_keys)
    drawn = iter(calibration.noises)
    noises = tuple(next(drawn) if m.noisy_cells else None for m in measures)
    _prove_range(measures, noises, query.table.row_cap)
    tau = None
    if open_keys:
        assert noises[0] is not None
        tau = threshold(noises[0], delta_atto=calibration.loss.delta_zcdp_atto, groups=groups)
    plan = Plan(
        query=query,
        measures=tuple(measures),
        noises=noises,
        groups=groups,
        tau=tau,
        family=calibration.family,
        loss=calibration.loss,
        neighbours=neighbours,
    )
    return _weighted(plan, calibration) if open_keys else plan


def _weighted(plan: Plan, calibration: Calibration) -> Plan:
    """Weights in place of the number of units that decides which keys are shown, where nothing else asks for it."""
    units, asked = plan.measures[0], _aggregates(plan.query)
    if units.kind != "units" or plan.neighbours is not Neighbours.ADD_REMOVE or any(map(units.serves, asked)):
        return plan
    found = weigh_units(calibration, groups=plan.groups, row_cap=plan.query.table.row_cap)
    if found is None:
        return plan
    measures, noises = (found.measure, *plan.measures[1:]), (found.noise, *plan.noises[1:])
    _prove_range(measures, noises, plan.query.table.row_cap)
    return replace(plan, measures=measures, noises=noises, tau=found.tau, unweighted=plan)


def _require_keys(query: Query, delta_atto: int) -> bool:
    """Whether keys are open; those need delta, the others a domain that can be released."""
    require_few_keys(len(query.keys))
    found = next((k.name for k in query.keys if k.domain is None), None)
    alone = next((k.name for k in query.keys if k.of_one), None)
    if found is not None and alone is not None:
        raise QueryError("Q301", unit_ways.of_one_unit(alone, query.table.unit_key))
    if found is not None and delta_atto == 0:
        raise QueryError(
            "Q404", f'key "{found}" has no declared domain, so showing it costs delta. Give delta, for example 1e-8.'
        )
    size = domain_size(query)
    if size is not None and size > MAX_DOMAIN:
        raise QueryError("Q403", f"the keys have {told_count(size)} combinations; at most {MAX_DOMAIN:,} are released.")
    return found is not None


def _require_few_measures(chosen: Sequence[Measure]) -> None:
    """Bound among how many measures one epsilon is shared."""
    if len(chosen) > MAX_MEASURES:
        message = f"the statement needs {len(chosen)} measures; at most {MAX_MEASURES} share an epsilon. Split it."
        raise QueryError("Q403", message)


def _require_few_cells(query: Query, size: int | None, cells: int) -> None:
    """Bound the work of a statement over public keys: how many numbers it releases and shows."""
    shown = [o.expr for o in query.outputs] + [o.expr for o in query.order]
    outputs = sum(any(isinstance(n, Aggregate) for n in walk(e)) for e in shown)
    if size is not None and size * (cells + outputs) > MAX_CELLS:
        raise QueryError(
            "Q403",
            f"{size:,} groups of {cells} released and {outputs} shown numbers are over {MAX_CELLS:,}. Ask for fewer "
            "columns in one statement, or group by fewer values.",
        )


def _prove_range(measures: Sequence[Measure], noises: Sequence[Noise | None], row_cap: int) -> None:
    """Refuse a plan whose noised sums might leave the sampler's range: there, success would depend on the data."""
    for measure, noise in zip(measures, noises, strict=True):
        if noise is not None and row_cap * measure.largest + 100 * Fraction(noise.scale) >= 2**62 - 1:
            raise ParameterError(
                "P107", "row_cap", row_cap, "is too large for this epsilon and delta: noisy sums would leave 64 bits."
            )


def domain_size(query: Query) -> int | None:
    """Number of groups when all keys are public, else None; 1 without keys."""
    return query.group_count


def threshold_units(plan: Plan) -> float | None:
    """From how many units on a group is shown, noise included: each weighs 1, or more; None: all keys are public."""
    return None if plan.tau is None else plan.tau / plan.measures[0].steps


def is_small(query: Query) -> bool:
    """Whether a query, its plan and its answer are small enough to be kept for the next time that they are asked."""
    return (domain_size(query) or 0) <= _KEPT


def noise_weight(plan: Plan) -> float:
    """What a statement weighs among others that share an epsilon (compiler/importance.py)."""
    found = importances(plan.measures, _figures(plan.query), presence=plan.tau is not None)
    return split_weight(a for a, noise in zip(found, plan.noises, strict=True) if noise is not None)


def _aggregates(query: Query) -> list[Aggregate]:
    """All that are not known without data."""
    return [aggregate for figure in _figures(query) for aggregate in figure]


def _figures(query: Query) -> list[list[Aggregate]]:
    """Of each expression over released values the aggregates that are not known without data."""
    exprs = [o.expr for o in query.outputs] + [o.expr for o in query.order]
    exprs += [e for e in (query.having, query.group_size) if e is not None]
    figures = [[n for n in walk(e) if isinstance(n, Aggregate) and not is_zero(query, n)] for e in exprs]
    return [figure for figure in figures if figure]


def _groups(query: Query, size: int | None) -> int:
    if not query.keys or query.table.unit_key is None:
        return 1
    return query.table.max_groups if size is None else min(size, query.table.max_groups)


def _calibrate(
    noisy: list[tuple[Sensitivity, float]],
    epsilon_nano: int,
    delta_atto: int,
    mechanism: MechanismChoice,
    *,
    open_keys: bool,
) -> Calibration:
    if mechanism not in ("auto", "laplace", "gaussian"):
        raise ParameterError("P107", "mechanism", mechanism, "must be auto, laplace or gaussian.")
    if not noisy:
        return Calibration(family="laplace", noises=(), loss=Loss(epsilon_nano=0), shares=())
    sensitivities, weights = [s for s, _ in noisy], [w for _, w in noisy]
    half = delta_atto // 2 if open_keys else 0  # Gaussian noise over open keys: half for each
    spare = 0 if open_keys and half == 0 else delta_atto - half
    auto = partial(best_family, sensitivities, epsilon_nano=epsilon_nano, delta_atto=spare, importances=weights)
    family: Family = auto() if mechanism == "auto" else mechanism
    if family == "gaussian" and open_keys and half == 0:
        rule = "is shared by Gaussian noise and the keys, so it must be at least 2e-18. Or take Laplace noise."
        raise ParameterError("P102", "delta", show_decimal(delta_atto, 18), rule)
    return calibrate(
        sensitivities,
        epsilon_nano=epsilon_nano,
        delta_atto=delta_atto,
        threshold_delta_atto=0 if not open_keys else delta_atto if family == "laplace" else half,
        family=family,
        importances=weights,
    )


def _shortened(text: str) -> str:
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}... ({len(text):,} characters)"


def digest_together(query: Query) -> list[list[Any]]:
    """Keys of one public row in a question's identity: with other rows they are another question."""
    return [[list(t.places), digest_domain(t.rows)] for t in query.together]


def digest_domain(domain: tuple[Any, ...] | None) -> str | None:
    """A domain in a question's identity: other values, or another order of them, are another question."""
    return None if domain is None else hashlib.sha256(repr(domain).encode()).hexdigest()

"""The task of ``method := 'moments'``: its charge in parts, for NULLs, the links between columns and their single laws.

A column that may have NULLs takes a unit column more, and lends noise to all others. So they are counted first, and
what is bought then has such columns only where a count stands out of its noise (``unit.completeness``).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, ClassVar

from duckdp.core.accountant import pure_rho
from duckdp.core.types import NANO, Loss
from duckdp.errors import InternalError
from duckdp.synthetic.asked import Asked
from duckdp.synthetic.moments.buy.domain_values_sql import print_choices
from duckdp.synthetic.moments.buy.links import collect
from duckdp.synthetic.moments.buy.marginals_sql import print_marginals
from duckdp.synthetic.moments.domain_values import Choices
from duckdp.synthetic.moments.marginals import SHARE, Marginals, choose_marginals
from duckdp.synthetic.moments.plan import make_plan
from duckdp.synthetic.moments.released import CLASSES
from duckdp.synthetic.unit.buy.purse import Keep, Purse, Sums
from duckdp.synthetic.unit.buy.reading import UnitReader
from duckdp.synthetic.unit.buy.sums_sql import print_sums
from duckdp.synthetic.unit.buy.unit_task import Purchase, UnitTask
from duckdp.synthetic.unit.charge_terms import Terms, moment_terms
from duckdp.synthetic.unit.completeness import cube_doubt, may_show_null, null_column, null_share, without_nulls
from duckdp.synthetic.unit.features import ONE, Features
from duckdp.synthetic.unit.kept import Kept
from duckdp.synthetic.unit.lay_out import lay_out, require_shares
from duckdp.synthetic.unit.layout import UnitColumns
from duckdp.synthetic.unit.packed import Classes
from duckdp.synthetic.unit.request import Request
from duckdp.synthetic.unit.stages import Bought

print_sums.register(Marginals, print_marginals)
print_sums.register(Choices, print_choices)


@dataclass(frozen=True, kw_only=True)
class MomentsTask(UnitTask):
    """A release of links for the request's charge, and beside it of NULLs and marginals for parts of epsilon.

    Privacy: composition of the three; epsilon and rho add up. What the links and marginals are of follows from the
             released counts of NULLs, but neither what they cost nor the kind of their noise.

    Attributes:
        marginal_nano: part of epsilon for moments of single numeric columns, in 1e-9, beside the request's; or 0.
        null_nano: the same for counts of NULLs; 0 where no column can have one.
    """

    method: ClassVar[str] = "moments"
    classes: ClassVar[Classes] = CLASSES

    marginal_nano: int
    null_nano: int = 0

    @property
    def terms(self) -> Terms:
        """On what terms the links are bought: the whole charge."""
        return moment_terms(self.request)

    @property
    def shares(self) -> dict[str, Fraction]:
        """Which share of the links' purse each stage has."""
        return make_plan(self._without_nulls[1], self.terms).shares

    @property
    def _without_nulls(self) -> tuple[UnitColumns, Request]:
        """What is bought where no column has a NULL."""
        return without_nulls(self.units, self.request, range(len(self.units.parts)))

    @property
    def loss(self) -> Loss:
        """What it costs: the links' part and those beside it, which add up."""
        links = self.terms.loss
        whole = links.epsilon_nano + self.marginal_nano + self.null_nano
        rho = pure_rho(whole)
        if links.delta_atto:
            rho = links.rho_pico + sum(pure_rho(part) for part in (self.marginal_nano, self.null_nano) if part)
        return Loss(epsilon_nano=whole, delta_atto=links.delta_atto, rho_pico=rho)

    def _part(self, nano: int) -> Fraction:
        """What share of epsilon a part is."""
        return Fraction(nano, self.request.epsilon_nano + self.marginal_nano + self.null_nano)

    def _beside(self) -> dict[str, Any]:
        """Of the identity: as if nothing were spent on NULLs, as before; so what was stored then is given again."""
        whole = self.loss.epsilon_nano
        part, marginals = _marginal_part(self.units, replace(self.request, gaussian=None, epsilon_nano=whole), whole)
        degree = None if marginals is None else marginals.degree
        return {"epsilon_nano": whole - part, "marginal_nano": part, "marginals": degree}

    def _told_shares(self) -> dict[str, float]:
        links, beside = self._part(self.request.epsilon_nano), {"marginals": self.marginal_nano}
        told = {"nulls": float(self._part(self.null_nano))} if self.null_nano else {}
        told |= {name: float(share * links) for name, share in self.shares.items()}
        return told | {name: float(self._part(nano)) for name, nano in beside.items() if nano}

    def _marginals(self, units: UnitColumns) -> Marginals | None:
        """Moments of single columns that are bought of these."""
        if not self.marginal_nano:
            return None
        terms = _pure(self.marginal_nano, self.terms)
        return choose_marginals(units.numbers, units.count, terms, self.request.expected_rows)

    def buy(self, reader: UnitReader, keep: Keep) -> Purchase:
        """Buy counts of NULLs, the links' stages, then the marginals."""
        terms, units, request, bought = self.terms, self.units, self.request, list[Bought]()
        if self.null_nano:
            complete, counted = count_nulls(units, Purse.on(_pure(self.null_nano, terms), keep), reader.sums)
            units, request = without_nulls(units, request, complete)
            bought.append(("nulls", counted, self._part(self.null_nano)))
        reader, links = replace(reader, units=units), self._part(request.epsilon_nano)
        purse = Purse.on(terms, keep)
        released = collect(request, make_plan(request, terms), purse, reader.sums)
        bought += [(name, count, share * links) for name, count, share in released.stages]
        request = replace(request, counted=released.choices is not None)
        marginals, noisy = self._marginals(units), None
        if marginals is not None:
            part = Purse.on(_pure(self.marginal_nano, terms), keep)
            noisy = part.buy(reader.sums, marginals, Fraction(1))
            bought.append(("marginals", marginals.count, self._part(self.marginal_nano)))
        kept = Kept(method=self.method, request=request, released=released, marginals=marginals, noisy=noisy)
        return units, kept, purse.rows, bought


def task(asked: Asked) -> MomentsTask:
    """Plan the purchase. Free: no data is touched.

    Raises:
        CatalogError: C102, C105. ParameterError: P107. QueryError: Q401.
    """
    return task_over(asked, *lay_out(asked, listed=False))


def task_over(asked: Asked, units: UnitColumns, whole: Request) -> MomentsTask:
    """The same, where the columns are laid out already, none of them listed; raises P107."""
    doubtful = sum(may_show_null(p) for p in units.parts) if len(units.parts) > 1 else 0
    nulls = int(asked.epsilon_nano * null_share(doubtful, whole))
    rest = asked.epsilon_nano - nulls
    part, _ = _marginal_part(units, whole, rest)
    request = replace(whole, epsilon_nano=rest - part, counted=True)
    terms = moment_terms(request)
    request = replace(request, gaussian=terms.gaussian) if doubtful else request
    for asks in (request, without_nulls(units, request, range(len(units.parts)))[1]):
        plan = make_plan(asks, terms)
        least = [*plan.shares.values(), plan.picks / max(1, plan.strong)]
        fits = (nulls > 0 or not doubtful) and all(s == 0 or terms.cost(s) for s in least)
        require_shares(fits, len(units.parts), asked.epsilon_nano)
    return MomentsTask(
        table=asked.table, units=units, request=request, rows=asked.rows, marginal_nano=part, null_nano=nulls
    )


def _marginal_part(units: UnitColumns, whole: Request, epsilon_nano: int) -> tuple[int, Marginals | None]:
    """The part of an epsilon, in 1e-9, that buys moments of single columns, and which; 0 where all would drown."""
    part = int(epsilon_nano * SHARE)
    if not part:
        return 0, None
    terms = _pure(part, moment_terms(whole))
    found = choose_marginals(units.numbers, units.count, terms, whole.expected_rows)
    return (0, None) if found is None else (part, found)


def count_nulls(units: UnitColumns, purse: Purse, sums: Sums) -> tuple[list[int], int]:
    """Columns, by place, that have no NULLs or fewer than noise hides, and how many were counted.

    Privacy: the sums of u in {-1, 1}, which ``Purse.buy`` noises; a comparison with a public figure follows.
    """
    places = [i for i, p in enumerate(units.parts) if may_show_null(p)]
    columns = tuple(null_column(units.parts[i]) for i in places)
    found = purse.buy(sums, Features(dimensions=units.count, factors=(ONE,), columns=columns), Fraction(1))
    if len(found.means) != len(columns):
        raise InternalError("the stored counts are not those of NULLs")
    counts = max(1.0, purse.rows) * (1 + found.means) / 2
    doubt = cube_doubt(purse.epsilon_nano / NANO, found.count)
    return [i for i, count in zip(places, counts.tolist(), strict=True) if count < doubt], len(places)


def _pure(epsilon_nano: int, like: Terms) -> Terms:
    return Terms(epsilon_nano=epsilon_nano, delta_atto=0, neighbours=like.neighbours)

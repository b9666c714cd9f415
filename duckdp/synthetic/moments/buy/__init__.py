"""The task of ``method := 'moments'``: its charge in two parts, the links between columns and their single laws."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, ClassVar

from duckdp.core.accountant import pure_rho
from duckdp.core.types import Loss
from duckdp.synthetic.asked import Asked
from duckdp.synthetic.moments.buy.links import collect
from duckdp.synthetic.moments.marginals import SHARE, Marginals, choose_marginals
from duckdp.synthetic.moments.plan import make_plan
from duckdp.synthetic.moments.released import CLASSES
from duckdp.synthetic.unit.buy.purse import Keep, Purse
from duckdp.synthetic.unit.buy.reading import UnitReader
from duckdp.synthetic.unit.buy.unit_task import UnitTask
from duckdp.synthetic.unit.charge_terms import Terms, moment_terms
from duckdp.synthetic.unit.kept import Kept
from duckdp.synthetic.unit.lay_out import lay_out, require_shares
from duckdp.synthetic.unit.layout import UnitColumns
from duckdp.synthetic.unit.packed import Classes
from duckdp.synthetic.unit.request import Request
from duckdp.synthetic.unit.stages import Bought


@dataclass(frozen=True, kw_only=True)
class MomentsTask(UnitTask):
    """A release of links for the request's charge, and beside it of marginals for a part of epsilon of their own.

    Privacy: composition of the two; epsilon and rho add up.

    Attributes:
        marginals: moments of single numeric columns that are bought too.
        marginal_nano: their part of epsilon, in 1e-9, beside the request's.
    """

    method: ClassVar[str] = "moments"
    classes: ClassVar[Classes] = CLASSES

    marginals: Marginals | None
    marginal_nano: int

    @property
    def terms(self) -> Terms:
        """On what terms the links are bought: the whole charge."""
        return moment_terms(self.request)

    @property
    def shares(self) -> dict[str, Fraction]:
        """Which share of the links' purse each stage has."""
        return make_plan(self.request, self.terms).shares

    @property
    def loss(self) -> Loss:
        """What it costs: the links' and the marginals' parts, which add up."""
        links = self.terms.loss
        if self.marginals is None:
            return links
        whole = links.epsilon_nano + self.marginal_nano
        rho = links.rho_pico + pure_rho(self.marginal_nano) if links.delta_atto else pure_rho(whole)
        return Loss(epsilon_nano=whole, delta_atto=links.delta_atto, rho_pico=rho)

    @property
    def _links(self) -> Fraction:
        """Part of epsilon that the links have."""
        return Fraction(self.request.epsilon_nano, self.request.epsilon_nano + self.marginal_nano)

    def _beside(self) -> dict[str, Any]:
        degree = None if self.marginals is None else self.marginals.degree
        return {"marginal_nano": self.marginal_nano, "marginals": degree}

    def _told_shares(self) -> dict[str, float]:
        told = {name: float(share * self._links) for name, share in self.shares.items()}
        return told if self.marginals is None else {**told, "marginals": float(1 - self._links)}

    def buy(self, reader: UnitReader, keep: Keep) -> tuple[Kept, Sequence[Bought]]:
        """Buy the links' stages, then the marginals."""
        terms = self.terms
        released = collect(self.request, make_plan(self.request, terms), Purse.on(terms, keep), reader.sums)
        bought = [(name, count, share * self._links) for name, count, share in released.stages]
        noisy = None
        if self.marginals is not None:
            part = Purse.on(_pure(self.marginal_nano, terms), keep)
            noisy = part.buy(reader.sums, self.marginals, Fraction(1))
            bought.append(("marginals", self.marginals.count, 1 - self._links))
        kept = Kept(
            method=self.method,
            request=self.request,
            rows=self.rows,
            released=released,
            marginals=self.marginals,
            noisy=noisy,
        )
        return kept, bought


def task(asked: Asked) -> MomentsTask:
    """Plan the purchase. Free: no data is touched.

    Raises:
        CatalogError: C102, C105. ParameterError: P107. QueryError: Q401.
    """
    return task_over(asked, *lay_out(asked, listed=False))


def task_over(asked: Asked, units: UnitColumns, whole: Request) -> MomentsTask:
    """The same, where the columns are laid out already, none of them listed; raises P107."""
    part = int(asked.epsilon_nano * SHARE)
    marginals = None
    if part:
        terms = _pure(part, moment_terms(whole))
        marginals = choose_marginals(units.numbers, units.count, terms, whole.expected_rows)
    part = part if marginals is not None else 0
    request = replace(whole, epsilon_nano=asked.epsilon_nano - part)
    terms = moment_terms(request)
    plan = make_plan(request, terms)
    least = [*plan.shares.values(), plan.picks / max(1, plan.strong)]
    require_shares(all(s == 0 or terms.cost(s) for s in least), len(units.parts), asked.epsilon_nano)
    return MomentsTask(
        table=asked.table, units=units, request=request, rows=asked.wanted, marginals=marginals, marginal_nano=part
    )


def _pure(epsilon_nano: int, like: Terms) -> Terms:
    return Terms(epsilon_nano=epsilon_nano, delta_atto=0, neighbours=like.neighbours)

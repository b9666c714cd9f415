"""The task of ``method := 'tree'``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Any, ClassVar

from duckdp.catalog.constraints import Determined
from duckdp.compiler.printing import Parameters
from duckdp.synthetic.asked import KERNELS, Asked
from duckdp.synthetic.tree.bins import Binning, Ints, make_bins
from duckdp.synthetic.tree.buy.bin_sql import print_code, print_null
from duckdp.synthetic.tree.buy.counts import ReadCounts
from duckdp.synthetic.tree.buy.grow import grow_tree
from duckdp.synthetic.tree.buy.null_counts import ReadNulls, count_nulls
from duckdp.synthetic.tree.buy.value_counts import Moduli, ReadValues, print_value
from duckdp.synthetic.tree.contingency import Tables
from duckdp.synthetic.tree.plan import make_tree_plan
from duckdp.synthetic.tree.plan_before import plan_before
from duckdp.synthetic.tree.released import CLASSES, Grown
from duckdp.synthetic.tree.spending import TreePlan, settled, tree_terms
from duckdp.synthetic.unit.buy.purse import Keep, Purse
from duckdp.synthetic.unit.buy.reading import UnitReader
from duckdp.synthetic.unit.buy.unit_task import Purchase, UnitTask
from duckdp.synthetic.unit.charge_terms import Terms
from duckdp.synthetic.unit.kept import Kept
from duckdp.synthetic.unit.lay_out import lay_out, require_shares
from duckdp.synthetic.unit.layout import UnitColumns
from duckdp.synthetic.unit.packed import Classes
from duckdp.synthetic.unit.request import Request

_BEFORE = partial(make_tree_plan, piles=False, domains=False)
_PLANS = (
    make_tree_plan,
    plan_before,
    partial(make_tree_plan, piles=False),
    _BEFORE,
    partial(_BEFORE, counted=False),
    partial(_BEFORE, counted=False, bounded=False),
    partial(_BEFORE, counted=False, bounded=False, shrunk=False),
    partial(_BEFORE, counted=False, bounded=False, shrunk=False, normed=False),
    partial(_BEFORE, counted=False, bounded=False, shrunk=False, normed=False, valued=False),
)


@dataclass(frozen=True, kw_only=True)
class TreeTask(UnitTask):
    """Tables of counts for the whole charge.

    Attributes:
        kernels: whether it is grown for broad smooth queries: by the plan that was tuned for them. It is no part of
            the question, so what one purpose began the other may have to end: its first stage names the plan, by which
            it goes on (``resumed``).
    """

    method: ClassVar[str] = "tree"
    classes: ClassVar[Classes] = CLASSES

    kernels: bool = False

    @property
    def terms(self) -> Terms:
        """On what terms the stages are bought: the whole charge."""
        return tree_terms(self.request, len(self.units.parts))

    @property
    def mechanism(self) -> str:
        """The mechanism's name in the ledger."""
        return "gaussian" if self.terms.gaussian else "laplace"

    @property
    def shares(self) -> dict[str, Fraction]:
        """Which share of the charge each stage has."""
        return self._plans[0].shares

    @property
    def _plans(self) -> tuple[TreePlan, ...]:
        """The plan, and those that a purchase may have been begun by: the other purpose's, an earlier version's."""
        plans = [make(self.request, self.units, self.terms) for make in _PLANS]
        now, kernels, *before = plans
        return (kernels, now, *before) if self.kernels else (now, *before, kernels)

    def _beside(self) -> dict[str, Any]:
        """Its noise is part of the question where it is not what it was before it was settled."""
        noise = self.request.gaussian
        return {**super()._beside(), **({} if noise is None else {"gaussian": noise})}

    def buy(self, reader: UnitReader, keep: Keep) -> Purchase:
        """Buy the tree's tables, stage by stage."""
        terms = self.terms
        plan, *others = self._plans
        binnings = make_bins(self.units, plan.bins, spikes=True)
        target = None if self.request.target is None else self.units.part_at(self.request.target)
        purse, pairs = Purse.on(terms, keep), _determined(self.units)
        counts, values, nulls = _reads(binnings, reader)
        tree = grow_tree(
            binnings, plan, purse, target, counts, reader.sums, values, nulls, others=others, determined=pairs
        )
        grown = Grown(
            means=tree.means,
            mean_deviation=tree.mean_deviation,
            shares=tree.shares,
            merges=tree.merges,
            pairs=tree.pairs,
            stages=tree.stages,
            complete=tree.complete,
            null_shares=tree.null_shares,
            laws={i: b.law for i, b in enumerate(tree.binnings) if b.law is not None},
            functions=tree.functions,
            flat=tree.flat,
            spiked=True,
            scales=tree.scales,
            means_apart=tree.means_apart,
            cuts=tree.cuts,
            mean_bound=tree.mean_bound,
            missed=tree.missed,
            product_scales=tree.product_scales,
            products=tree.products,
            product_deviation=tree.product_deviation,
            product_bound=tree.product_bound,
            product_squared=terms.gaussian,
            product_apart=tree.product_apart,
            rows=tree.rows,
            deviation=tree.deviation,
            pair_deviations={pair: deviation for pair, (_, deviation) in tree.bought.items()},
            pair_taken=tree.taken(),
        )
        return self.units, Kept(method=self.method, request=self.request, released=grown), purse.rows, tree.stages


def task(asked: Asked) -> TreeTask:
    """Plan the purchase. Free: no data is touched.

    Raises:
        CatalogError: C102, C105. ParameterError: P107. QueryError: Q401.
    """
    return task_over(asked, *lay_out(asked, listed=True))


def task_over(asked: Asked, units: UnitColumns, request: Request) -> TreeTask:
    """The same, where the columns are laid out already; raises P107."""
    columns = len(units.parts)
    request = settled(request, columns) if asked.settled else request
    terms = tree_terms(request, columns)
    least = [s for make in _PLANS for s in make(request, units, terms).least(columns)]
    require_shares(all(s == 0 or terms.cost(s) for s in least), columns, asked.epsilon_nano)
    kernels = asked.purpose == KERNELS
    return TreeTask(table=asked.table, units=units, request=request, rows=asked.rows, kernels=kernels)


def _reads(binnings: Sequence[Binning], reader: UnitReader) -> tuple[ReadCounts, ReadValues, ReadNulls]:
    """The private reads of a tree's counts."""
    names = [f"c{i}" for i in range(len(binnings))]

    def counts(tables: Tables) -> Ints:
        parameters = Parameters()
        codes = {n: print_code(b, parameters) for b, n in zip(binnings, names, strict=True)}
        # counted here: GROUP BY of rows x tables takes DuckDB two to ten times as long
        return tables.count_batches(reader.batches(parameters, codes))

    def values(tables: Tables, moduli: Moduli) -> Ints:
        parameters = Parameters()
        codes = {f"v{i}": print_value(binnings[i], m, parameters) for i, m in moduli}
        return tables.count_batches(reader.batches(parameters, codes))

    def nulls(columns: Sequence[int]) -> Ints:
        parameters = Parameters()
        shown = {f"n{i}": print_null(binnings[i], parameters) for i in columns}
        return count_nulls(reader.batches(parameters, shown), len(columns))

    return counts, values, nulls


def _determined(units: UnitColumns) -> list[tuple[int, int]]:
    """Columns of listed values with what they determine by declaration, what determines before what is determined."""
    if units.structure is None:
        return []
    places = {p.column.name: i for i, p in enumerate(units.parts) if p.form != "number"}
    given = {c.what: c.by[0] for c in units.structure.kept if isinstance(c, Determined) and len(c.by) == 1}
    found = {places[y]: places[x] for y, x in given.items() if x in places and y in places}

    def depth(y: int) -> int:
        return 1 + depth(found[y]) if y in found else 0

    return [(found[y], y) for y in sorted(found, key=depth)]

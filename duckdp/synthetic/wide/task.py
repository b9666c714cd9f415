"""A wide synthetic table as a task of several private reads: each stage's functions follow from what was released.

Privacy: of ``release``, ``collect`` and ``psi``: one charge, whose shares the stages spend. With a unit_key one row of
each unit counts, by ``print_chosen`` a function of the multiset of that unit's own rows, each of them with the same
chance: adding or removing a unit adds or removes one row.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from fractions import Fraction
from hashlib import sha256
from typing import Any

import numpy as np

from duckdp.catalog import Table, dump_table
from duckdp.compiler.printing import Parameters, print_chosen, print_rows, quote
from duckdp.core.accountant import pure_rho
from duckdp.core.task import PrivateQuery, Read, Stages, Work
from duckdp.core.types import Loss, Neighbours
from duckdp.errors import CatalogError, InternalError, ParameterError, QueryError
from duckdp.smooth.axes import Floats
from duckdp.synthetic.wide.collect import Released, collect, open_purse
from duckdp.synthetic.wide.columns import UnitColumns, make_units
from duckdp.synthetic.wide.finish import keep_wide
from duckdp.synthetic.wide.kept import Grown, Kept, pack, unpack
from duckdp.synthetic.wide.marginals import SHARE, Marginals, choose_marginals
from duckdp.synthetic.wide.plan import find_target, make_plan
from duckdp.synthetic.wide.psi import Ellipsoid, collect_psi, print_products, psi_fits, psi_shares
from duckdp.synthetic.wide.release import Bought, Keep, Purse, Sums
from duckdp.synthetic.wide.table import Request
from duckdp.synthetic.wide.tree import grow_tree
from duckdp.synthetic.wide.tree_bins import Ints, make_bins
from duckdp.synthetic.wide.tree_counts import Tables
from duckdp.synthetic.wide.tree_plan import TreePlan, make_tree_plan, open_tree_purse, prefers_tree

METHODS = ("auto", "moments", "tree", "psi")
MOST_SUMS = 1500  # of one statement; more are added up from streamed rows,
FEW_SUMS, FEW_ROWS = 300, 200_000  # as are those of few rows: planning a sum takes DuckDB as long as 200,000 rows
FITTED = 4000  # rows that are fitted; more are made by repeating them
_CHUNK = 4 * 10**6  # values of a streamed block


@dataclass(frozen=True, kw_only=True)
class WideTask:
    """Implements ``core.task.Task``.

    Attributes:
        table: the protected table.
        units: its columns as unit columns.
        request: public parameters.
        method: "moments", "tree" or "psi".
        rows: wanted rows.
        marginals: moments of single numeric columns that are bought too.
        marginal_nano: their part of epsilon, in 1e-9, beside the request's.
    """

    table: Table
    units: UnitColumns
    request: Request
    method: str
    rows: int
    marginals: Marginals | None
    marginal_nano: int

    @property
    def columns(self) -> tuple[Any, ...]:
        """Declared columns of the table that is made."""
        return tuple(part.column for part in self.units.parts)

    @property
    def loss(self) -> Loss:
        """What it costs: the links' and the marginals' parts, which add up."""
        if self.method == "tree":
            return self._tree_purse.loss
        links = open_purse(self.request).loss
        if self.marginals is None:
            return links
        whole = links.epsilon_nano + self.marginal_nano
        rho = links.rho_pico + pure_rho(self.marginal_nano) if links.delta_atto else pure_rho(whole)
        return Loss(epsilon_nano=whole, delta_atto=links.delta_atto, rho_pico=rho)

    @property
    def _tree_purse(self) -> Purse:
        """A fresh purse of the whole charge of a tree."""
        return open_tree_purse(self.request, len(self.units.parts))

    @property
    def mechanism(self) -> str:
        """Name for the ledger."""
        if self.method == "tree":
            return "gaussian" if self._tree_purse.gaussian else "laplace"
        return "gaussian" if open_purse(self.request).gaussian else "cube"

    @property
    def canonical(self) -> str:
        """Identity of the question."""
        r = self.request
        raw = {
            "kind": "wide_synthesis", "declaration": sha256(dump_table(self.table).encode()).hexdigest(),
            "columns": [c.name for c in self.columns], "method": self.method, "rows": self.rows,
            "epsilon_nano": r.epsilon_nano, "delta_atto": r.delta_atto, "neighbours": r.neighbours.value,
            "target": r.target, "expected_rows": r.expected_rows, "marginal_nano": self.marginal_nano,
            "marginals": None if self.marginals is None else self.marginals.degree,
            **({} if r.named else {"named": False}),
        }  # fmt: skip
        return json.dumps(raw, sort_keys=True, separators=(",", ":"))

    @property
    def parameters(self) -> dict[str, Any]:
        """Public parameters for the ledger."""
        shares = {}
        if self.method == "moments":
            plan = make_plan(self.request, open_purse(self.request))
            shares = {n: str(share) for n, share in plan.shares.items()}
        elif self.method == "tree":
            grown = make_tree_plan(self.request, self.units, self._tree_purse)
            shares = {n: str(v) for n, v in asdict(grown).items() if v and isinstance(v, Fraction)}
        return {
            "columns": [c.name for c in self.columns], "units": self.units.count, "method": self.method,
            "rows": self.rows, "target": self.request.target, "neighbours": self.request.neighbours.value,
            "shares": shares,
        }  # fmt: skip

    def describe(self) -> list[str]:
        """Lines of ``explain``; from public figures."""
        links = Fraction(self.request.epsilon_nano, self.request.epsilon_nano + self.marginal_nano)
        shares = {n: float(Fraction(s) * links) for n, s in self.parameters["shares"].items()}
        if self.marginals is not None:
            shares["marginals"] = float(1 - links)
        told = ", ".join(f"{name} {share:.1%}" for name, share in shares.items())
        first = f"method: {self.method}, {self.mechanism} noise; {len(self.units.parts)} columns as {self.units.count}"
        lines = [first, f"planned for {self.request.expected_rows:,} rows (expected_rows, else row_cap)"]
        if self.request.target is not None and not self.request.named:
            column = self.columns[self.units.part_at(self.request.target)]
            lines.append(f"target: {column.name}, the only one of two values, beside numbers; target := '' wants none")
        return [*lines, *([f"stages, as shares of the charge: {told}"] if told else [])]

    def work(self, salt: int) -> Work:
        """Buy the stages; rows are made once they are stored (``finish``)."""
        return lambda stages: self._release(stages, salt)

    def _release(self, stages: Stages, salt: int) -> str:
        read = stages.read

        def keep(draw: Callable[[], Any]) -> Any:
            return unpack(json.loads(stages.run(lambda: json.dumps(pack(draw())))))

        def sums(features: Bought, bits: int) -> tuple[int, Sequence[int]]:
            return self._sums(read, salt, features, bits)

        def products(centre: Floats, basis: Floats, bits: int) -> Sequence[int]:
            parameters = Parameters()
            sql = print_products(centre, basis, self._relation(parameters, salt), self.units.names, bits)
            return _one_row(read(_counted(sql, parameters)), basis.size + 1)[1:]

        released: Released | Ellipsoid | Grown
        if self.method == "tree":
            released = self._grow(read, salt, sums, keep)
        elif self.method == "psi":
            released = collect_psi(self.request, replace(open_purse(self.request), keep=keep), sums, products)
        else:
            purse = replace(open_purse(self.request), keep=keep)
            released = collect(self.request, make_plan(self.request, purse), purse, sums)
        links = Fraction(self.request.epsilon_nano, self.request.epsilon_nano + self.marginal_nano)
        bought = [(name, count, share * links) for name, count, share in released.stages]
        noisy = None
        if self.marginals is not None:
            nano, neighbours = self.marginal_nano, self.request.neighbours
            part = Purse(epsilon_nano=nano, delta_atto=0, neighbours=neighbours, keep=keep)  # pure
            noisy = part.buy(sums, self.marginals, Fraction(1))
            bought.append(("marginals", self.marginals.count, 1 - links))
        kept = Kept(
            method=self.method, request=self.request, rows=self.rows, released=released, marginals=self.marginals,
            noisy=noisy,
        )  # fmt: skip
        raw = {
            "kind": "synthesis", "summary": None, "table": None, "rows": self.rows,
            "bought": [[name, count, float(share)] for name, count, share in bought],
            "wide": keep_wide(self.table.name, self.units, kept),
        }  # fmt: skip
        return json.dumps(raw)

    def _grow(self, read: Read, salt: int, sums: Sums, keep: Keep) -> Grown:
        """The stages of a tree."""
        purse = replace(self._tree_purse, keep=keep)
        plan = make_tree_plan(self.request, self.units, purse)
        binnings = make_bins(self.units, plan.bins)
        names = [f"c{i}" for i in range(len(binnings))]

        def counts(tables: Tables) -> Ints:
            parameters = Parameters()
            codes = {n: b.print_code(parameters) for b, n in zip(binnings, names, strict=True)}
            sql = f"SELECT s.* FROM {self._relation(parameters, salt, codes)} AS s"
            query = PrivateQuery(sql=sql, parameters=tuple(parameters.values), rows=None, arrays=True)
            return tables.count_batches(read(query))  # GROUP BY of rows x tables takes DuckDB two to ten times as long

        target = None if self.request.target is None else self.units.part_at(self.request.target)
        tree = grow_tree(binnings, plan, purse, target, counts, sums)
        return Grown(
            means=tree.means, mean_deviation=tree.mean_deviation, shares=tree.shares, merges=tree.merges,
            pairs=tree.pairs, stages=tree.stages,
        )  # fmt: skip

    def _sums(self, read: Read, salt: int, features: Bought, bits: int) -> tuple[int, Sequence[int]]:
        """The number of rows and the exact integer sums: private."""
        few = self.request.expected_rows <= FEW_ROWS
        if features.count > (FEW_SUMS if few else MOST_SUMS):
            return self._streamed(read, salt, features, bits)
        parameters = Parameters()
        sql = features.print_sql(self._relation(parameters, salt), self.units.names, bits)
        found = _one_row(read(_counted(sql, parameters)), features.count + 1)
        return found[0], found[1:]

    def _relation(self, parameters: Parameters, salt: int, others: Mapping[str, str] | None = None) -> str:
        """Unit columns of every row that counts, or other items by name, as a parenthesised SELECT.

        With a unit_key the row that counts is the same for both: it is chosen before anything is made of it.
        """
        rows = print_rows(self.table, self.columns, parameters, unit=True)
        if self.table.unit_key is not None:
            rows = print_chosen(rows, [quote(c.name) for c in self.columns], salt, 1)
        items = ", ".join(f"{sql} AS {name}" for name, sql in (others or {}).items())
        return f"(SELECT {items or self.units.print_items(parameters)} FROM {rows} AS r)"

    def _streamed(self, read: Read, salt: int, features: Bought, bits: int) -> tuple[int, Sequence[int]]:
        """The same integers from rows that cross in batches: one statement of so many sums takes DuckDB minutes."""
        parameters = Parameters()
        sql = f"SELECT s.* FROM {self._relation(parameters, salt)} AS s"
        query = PrivateQuery(sql=sql, parameters=tuple(parameters.values), rows=None, arrays=True)
        count, total, step = 0, np.zeros(features.count, dtype=object), max(1, _CHUNK // features.count)
        for batch in read(query):
            unit = np.stack(batch, axis=1)
            count += len(unit)
            for start in range(0, len(unit), step):
                values = features.rows(unit[start : start + step])
                total += np.floor(values * 2.0**bits + 0.5).astype(np.int64).sum(axis=0)
        return count, [int(v) for v in total]


def plan_wide(
    table: Table, columns: Sequence[str] | None, *, epsilon_nano: int, delta_atto: int, neighbours: Neighbours,
    rows: int, method: str, target: str | None,
) -> WideTask:  # fmt: skip
    """Plan a wide synthetic table; without ``columns``, of all columns with bounds, a domain, or two values.

    Method "auto" is "tree" or "moments", by public figures (``tree_plan.prefers_tree``). Without a target, "moments"
    may take a column of two values beside numbers for one (``plan.find_target``); "" wants none.

    Raises:
        CatalogError: C102, unknown column; C105, REPLACE of a view or of units of several rows.
        ParameterError: P107. QueryError: Q401.
    """
    if method not in METHODS:
        raise ParameterError("P107", "method", method, f"must be one of {', '.join(METHODS)}, lp, theorem.")
    names = list(columns or [c.name for c in table.columns if _usable(c)])
    chosen = []
    for name in names:
        column = table.column(name)
        if column is None:
            raise CatalogError("C102", f'column "{name[:63]}" is not declared for "{table.name}".', table=table.name)
        chosen.append(column)
    if not chosen:
        raise QueryError("Q401", "no column has bounds, a domain or two values, so nothing about the rows can be made.")
    if len({c.name for c in chosen}) != len(chosen):
        raise ParameterError("P107", "columns", names[:50], "must name columns, each once.")
    if neighbours is Neighbours.REPLACE and (table.unit_key is not None or table.filter is not None):
        raise CatalogError("C105", "under REPLACE every row must count, so no unit_key and no view.", table=table.name)
    units = make_units(chosen, tree=method in ("auto", "tree"))
    if target and len(chosen) == 1:
        raise ParameterError("P107", "target", target, "needs other columns to link it with; name more, or no target.")
    expected = table.expected_rows or table.row_cap
    whole = Request(
        columns=max(2, units.count), expected_rows=expected, epsilon_nano=epsilon_nano, delta_atto=delta_atto,
        neighbours=neighbours, rows=min(rows, FITTED), target=units.place_of(target) if target else None,
        signs=units.signs, groups=units.groups,
    )  # fmt: skip
    if method == "auto":
        method = "tree" if any(p.listed for p in units.parts) or prefers_tree(units, whole) else "moments"
    part = int(epsilon_nano * SHARE) if method == "moments" else 0
    purse = Purse(epsilon_nano=max(1, part), delta_atto=0, neighbours=neighbours)
    marginals = choose_marginals(units.numbers, units.count, purse, expected) if part else None
    part = part if marginals is not None else 0
    request = replace(whole, epsilon_nano=epsilon_nano - part)
    if method == "moments" and target is None:
        request = find_target(request, units.only_label, open_purse(request))
    _require_shares(method, units, request, epsilon_nano)
    return WideTask(
        table=table, units=units, request=request, method=method, rows=rows, marginals=marginals, marginal_nano=part
    )


def _require_shares(method: str, units: UnitColumns, request: Request, epsilon_nano: int) -> None:
    """Every share buys something whose noise can be drawn, before the charge.

    Shares are rounded down to 1e-9 of epsilon, 1e-12 of rho. From 1e-12 of rho on all Gaussian noise is in range, and
    so is any Laplace noise of counts; that of psi is not.
    """
    columns = len(units.parts)
    if method == "tree":
        purse = open_tree_purse(request, columns)
        least = _tree_shares(make_tree_plan(request, units, purse), columns)
    elif method == "psi":
        purse, least = open_purse(request), psi_shares()
    else:
        purse = open_purse(request)
        plan = make_plan(request, purse)
        least = [*plan.shares.values(), plan.picks / max(1, plan.strong)]
    if all(share == 0 or purse.cost(share) for share in least) and (method != "psi" or psi_fits(request, purse)):
        return
    rule = f"is too small to be divided among {columns} columns; name fewer of them, or take a larger one."
    raise ParameterError("P107", "epsilon", epsilon_nano / 1e9, rule)


def _tree_shares(plan: TreePlan, columns: int) -> list[Fraction]:
    return [
        plan.ones, plan.means, plan.pairs, plan.extra, plan.labels / max(1, columns - 1),
        plan.choice / max(1, plan.rounds), plan.extra_choice / max(1, plan.extra_rounds),
    ]  # fmt: skip


def _usable(column: Any) -> bool:
    return column.lower is not None or column.domain is not None or column.kind.value == "boolean"


def _counted(sql: str, parameters: Parameters) -> PrivateQuery:
    counted = "SELECT CAST(system.main.count_star() AS HUGEINT), " + sql.removeprefix("SELECT ")
    return PrivateQuery(sql=counted, parameters=tuple(parameters.values), rows=1)


def _one_row(rows: Iterable[tuple[Any, ...]], width: int) -> list[int]:
    found = list(rows)
    if len(found) != 1 or len(found[0]) != width:
        raise InternalError("the sums of a synthetic table are not one row")
    return [int(v) for v in found[0]]

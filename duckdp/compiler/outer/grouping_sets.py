"""GROUPING SETS, ROLLUP and CUBE over private rows: one release for each set, and the UNION ALL of their answers.

::

    SELECT dept, paid, count(*) FROM visits GROUP BY ROLLUP (dept, paid) HAVING count(*) > 9

    SELECT dept, paid, count(*) FROM visits GROUP BY dept, paid HAVING count(*) > 9 UNION ALL
    SELECT dept, NULL, count(*) FROM visits GROUP BY dept HAVING count(*) > 9 UNION ALL
    SELECT NULL, NULL, count(*) FROM visits HAVING count(*) > 9

Each set is a question of its own, whose rows and groups of a unit are bounded in that set alone: in the grand total a
unit has one group, and its noise is scaled to that. So it is for aggregates of every kind, those too that do not add up
(different values, medians, averages). What is released is the list of these questions, with a share of the charge for
each (:mod:`duckdp.compiler.outer.several`, whose proof it rests on): in set s the sensitivity is m_s u D in l1, with
m_s groups of a unit that count there, under the noise of its own share, and the shares add up to the charge. Totals
are released by themselves, so they are no sums of the parts that are shown.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import combinations, product
from typing import NoReturn

from sqlglot import exp

from duckdp.compiler import ways
from duckdp.compiler.expression import Expr
from duckdp.compiler.frame import aliases_of, is_aggregation
from duckdp.compiler.literals import small_int
from duckdp.compiler.outer.trees import duplicate, rebuilt
from duckdp.compiler.output_names import output_name, printed
from duckdp.compiler.parse import refuse
from duckdp.compiler.scalars import Scalars
from duckdp.compiler.scope import RowScope
from duckdp.errors import QueryError

MOST_SETS = 16  # of one SELECT: each is a release
TOLD = "each grouping set is released by itself, with a share of the cost: totals are not the sums of their parts"
_LEVELS = (exp.Rollup, exp.Cube, exp.GroupingSets)
_ABOVE = ("order", "limit", "offset")
_OWN = frozenset((*_ABOVE, "expressions", "group", "having", "with_"))
Set = tuple[exp.Expression, ...]


def has_levels(select: exp.Expression) -> bool:
    """Whether a SELECT groups by several sets of expressions."""
    group = select.args.get("group")
    return group is not None and any(isinstance(e, _LEVELS) for e in group.expressions)


class Levels:
    """Takes one SELECT with grouping sets into one for each set.

    Args:
        select: as it stands in the statement.
        scope: the names of its rows.
        text: the statement.
        parameters: values of ? and $1.
    """

    def __init__(self, select: exp.Select, scope: RowScope, text: str, parameters: Sequence[object]) -> None:
        self.select, self.scope, self.text = select, scope, text
        self.row = Scalars(scope.leaf, text, parameters)
        self.aliases = aliases_of(select)
        self.every: set[Expr | None] = set()  # keys of all sets
        self.written: dict[Expr, str] = {}  # how each key was written

    def _refuse(self, code: str, message: str, node: exp.Expression) -> NoReturn:
        refuse(code, message, node, self.text)

    def union(self) -> exp.Query:
        """UNION ALL of one SELECT for each set, without the WITH of the whole.

        Raises:
            QueryError: Q201, Q203, Q204, Q403.
        """
        select = self.select
        odd = [k for k in ("distinct", "qualify") if select.args.get(k)]
        if odd or any(e.find(exp.Window) for e in select.expressions):
            self._refuse("Q201", ways.LEVELS_WINDOW, select)
        sets = self._sets()
        every = list({self._key(e): e for s in sets for e in s}.items())
        self.every = {key for key, _ in every}
        found: exp.Query | None = None
        for one in sets:
            made = self._select(one, [key for key, _ in every])
            found = made if found is None else exp.Union(this=found, expression=made, distinct=False)
        assert found is not None
        for clause in _ABOVE:
            node = select.args.get(clause)
            if node is not None:
                found.set(clause, self._order(node) if clause == "order" else duplicate(node))
        return found

    # ---- sets ---------------------------------------------------------------------------------------------------

    def _sets(self) -> list[Set]:
        """The sets: of several elements of GROUP BY each combination."""
        group = self.select.args["group"]
        if any(v for k, v in group.args.items() if k != "expressions"):
            self._refuse("Q201", ways.LEVELS, group)
        parts = [self._sets_of(e) for e in group.expressions]
        if math.prod(len(p) for p in parts) > MOST_SETS:
            self._refuse("Q403", ways.levels_many(MOST_SETS), group)
        return [self._once(e for s in picked for e in s) for picked in product(*parts)]

    def _sets_of(self, node: exp.Expression) -> list[Set]:
        if isinstance(node, exp.GroupingSets):
            found = [s for e in node.expressions for s in self._sets_of(e)]
        elif isinstance(node, exp.Rollup):
            units = [self._unit(e) for e in node.expressions]
            found = [tuple(e for u in units[:n] for e in u) for n in range(len(units), -1, -1)]
        elif isinstance(node, exp.Cube):
            units = [self._unit(e) for e in node.expressions]
            if 2 ** len(units) > MOST_SETS:
                self._refuse("Q403", ways.levels_many(MOST_SETS), node)
            found = [
                tuple(e for u in picked for e in u)
                for n in range(len(units), -1, -1)
                for picked in combinations(units, n)
            ]
        else:
            found = [self._unit(node)]
        if len(found) > MOST_SETS:
            self._refuse("Q403", ways.levels_many(MOST_SETS), node)
        return found

    def _unit(self, node: exp.Expression) -> Set:
        """What stands or falls together: an expression, or a list of them in brackets."""
        if isinstance(node, exp.Tuple):
            return tuple(e for part in node.expressions for e in self._unit(part))
        if isinstance(node, exp.Paren):
            return self._unit(node.this)
        written, index = printed(node), small_int(node)
        if index is not None:
            if not 1 <= index <= len(self.select.expressions):
                self._refuse("Q203", ways.position("GROUP BY", index, len(self.select.expressions)), node)
            node = self.select.expressions[index - 1].unalias()
        elif isinstance(node, exp.Column) and not node.table and not self.scope.is_column(node):
            node = self.aliases.get(node.name.lower(), node)
        if self.scope.is_unit(node):
            self._refuse("Q204", ways.LEVELS_UNIT, node)
        if self.written.setdefault(self.row(node), written) != written:
            self._refuse("Q201", ways.LEVELS_TWICE, self.select.args["group"])
        return (node,)

    def _once(self, nodes: Iterable[exp.Expression]) -> Set:
        return tuple({self._key(e): e for e in nodes}.values())

    def _key(self, node: exp.Expression) -> Expr | None:
        """What an expression of rows computes, however it is written; None: it is none."""
        if not node.find(exp.Column) or node.find(exp.AggFunc, exp.Query, exp.Window):
            return None
        try:
            return self.row(node)
        except QueryError:
            return None

    # ---- one set --------------------------------------------------------------------------------------------------

    def _select(self, own: Set, every: Sequence[Expr | None]) -> exp.Select:
        keys = {self._key(e) for e in own}
        gone = {key for key in every if key not in keys}
        made = rebuilt(self.select, duplicate, _OWN)
        outputs = []
        for node in self.select.expressions:
            given = node.args["alias"] if isinstance(node, exp.Alias) else None
            name = given or exp.to_identifier(output_name(node), quoted=True)
            outputs.append(exp.Alias(this=self._without(node.unalias(), gone, keys), alias=duplicate(name)))
        made.set("expressions", outputs)
        if own:
            made.set("group", exp.Group(expressions=[duplicate(e) for e in own]))
        having = self.select.args.get("having")
        if having is not None:
            made.set("having", exp.Having(this=self._without(having.this, gone, keys)))
        assert isinstance(made, exp.Select)
        return made

    def _without(self, node: exp.Expression, gone: set[Expr | None], own: set[Expr | None]) -> exp.Expression:
        """An expression of a set: keys that are not in it are NULL, and grouping() is a number.

        A key of the set stands as it is, also where it reads one that is not: it is known of each group.
        """
        if isinstance(node, (exp.Grouping, exp.GroupingId)):
            return self._grouping(node, gone)
        if is_aggregation(node) or isinstance(node, exp.Query):
            return duplicate(node)
        key = self._key(node)
        if key is not None and key in gone:
            return exp.Null()
        if key is not None and key in own:
            return duplicate(node)
        return rebuilt(node, lambda part: self._without(part, gone, own))

    def _grouping(self, node: exp.Expression, gone: set[Expr | None]) -> exp.Expression:
        bits = 0
        for part in node.expressions:
            for e in self._unit(part):
                if self._key(e) not in self.every:
                    self._refuse("Q203", ways.LEVELS_GROUPING, node)
                bits = 2 * bits + (self._key(e) in gone)
        return exp.Literal.number(bits)

    # ---- the whole ------------------------------------------------------------------------------------------------

    def _order(self, clause: exp.Expression) -> exp.Expression:
        """ORDER BY of the UNION: outputs by their places."""
        terms = []
        for term in clause.expressions:
            place = self._place(term.this)
            if place is None:
                self._refuse("Q203", ways.LEVELS_ORDER, term)
            made = rebuilt(term, duplicate, frozenset(("this",)))
            made.set("this", duplicate(term.this) if place == 0 else exp.Literal.number(place))
            terms.append(made)
        return exp.Order(expressions=terms)

    def _place(self, node: exp.Expression) -> int | None:
        """The place of the output that a term is; 0: the term itself, None: none is."""
        if small_int(node) is not None or isinstance(node, exp.Var):
            return 0
        for place, output in enumerate(self.select.expressions, 1):
            named = isinstance(node, exp.Column) and not node.table and output.alias.lower() == node.name.lower()
            if named or output.unalias() == node:
                return place
        return None

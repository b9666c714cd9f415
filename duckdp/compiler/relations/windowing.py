"""Reads a subquery with windows over rows: each is partitioned by the privacy unit, or the text is refused.

Whose rows a window looks at is a fact of its PARTITION BY: a column that is the unit, by where it comes from, stands
there among the others. What a window of several people's rows gives (a rank in the ward) is refused.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NoReturn

from sqlglot import exp

from duckdp.catalog.table import Column, Kind
from duckdp.compiler import ways
from duckdp.compiler.domains import Domains
from duckdp.compiler.expression import ColumnRef, Expr, Literal, is_null
from duckdp.compiler.frame import aliases_of, boolean
from duckdp.compiler.literals import small_int
from duckdp.compiler.parse import refuse
from duckdp.compiler.relations.joined import Part
from duckdp.compiler.relations.joining import Items, Rows
from duckdp.compiler.relations.per_unit_select import Grouped
from duckdp.compiler.relations.window_calls import SHIFTED, VALUES, Counts, Frame, Window
from duckdp.compiler.relations.windowed import MOST_WINDOWS, few_rows, window_column, windowed
from duckdp.compiler.scalars import Scalars
from duckdp.compiler.scope import RowScope, View
from duckdp.compiler.types import as_type, cast_constant, type_of

MOST_OFFSET = 1000  # rows that lag, lead, nth_value and frames go
_NAMES: Mapping[type[exp.Expression], str] = {
    exp.RowNumber: "row_number",
    exp.Rank: "rank",
    exp.DenseRank: "dense_rank",
    exp.PercentRank: "percent_rank",
    exp.CumeDist: "cume_dist",
    exp.Ntile: "ntile",
    exp.Lag: "lag",
    exp.Lead: "lead",
    exp.FirstValue: "first_value",
    exp.LastValue: "last_value",
    exp.NthValue: "nth_value",
}
_RULED = ("this", "partition_by", "order", "spec", "over", "alias")
_SKIPPING = (*SHIFTED, *VALUES)  # that may pass over NULLs
_COUNTS: Mapping[str, Counts] = {"RANGE": "range", "GROUPS": "groups"}
_DAYS = {"DAY": 1, "DAYS": 1, "WEEK": 7, "WEEKS": 7}


def has_windows(select: exp.Select) -> bool:
    """Whether a SELECT gives windows over its rows, or chooses rows by them."""
    return select.args.get("qualify") is not None or any(
        w.find_ancestor(exp.Query) is select for e in select.expressions for w in e.find_all(exp.Window)
    )


class Windowing:
    """Reads the columns of one SELECT with windows.

    Args:
        select: without groups.
        rows: what its FROM and WHERE leave.
        where: the same as one condition.
        domains: finds the values of columns.
        text: the statement.
        parameters: values of ? and $1.
    """

    def __init__(
        self,
        select: exp.Select,
        rows: Rows,
        where: Expr | None,
        domains: Domains,
        text: str,
        parameters: tuple[object, ...],
    ) -> None:
        self.select, self.domains, self.text = select, domains, text
        if rows.table.unit_key is None:
            self._refuse("Q204", ways.WINDOW_OF_ROWS, select)
        self.items = Items(rows.table, domains, set())
        named = tuple(self.items.of(n) for n in rows.named)
        self.scope = RowScope(rows.table, None, text, named, rows.merged)
        self.table, self.where = rows.table, where
        self.aliases = aliases_of(select)
        self.inner = Scalars(self.scope.leaf, text, parameters)
        self.row = Scalars(self._leaf, text, parameters)
        self.found: dict[Window, Column] = {}
        self.named: list[exp.Expression] = list(select.args.get("windows") or ())
        names = [w.name.lower() for w in self.named]
        if len(set(names)) < len(names):
            self._refuse("Q203", "WINDOW gives a name twice. Name each window once.", self.named[0])

    def _refuse(self, code: str, message: str, node: exp.Expression) -> NoReturn:
        refuse(code, message, node, self.text)

    def view(self, projected: View) -> View:
        """The view of the SELECT over its windows, chosen by QUALIFY.

        Args:
            projected: its columns, read by ``row``.

        Raises:
            QueryError: Q2xx.
        """
        qualify = self.select.args.get("qualify")
        condition = None
        if qualify is not None:
            condition = boolean(self.row(qualify.this), qualify, "QUALIFY", self.text)
            if not self.found:
                self._refuse("Q201", ways.QUALIFY, qualify)
        made = windowed(self.part, [(column, window) for window, column in self.found.items()])
        return replace(projected, table=made, where=self.scope.simplified(condition))

    @property
    def part(self) -> Part:
        """The rows that windows look at, with what has been read of them."""
        return Part(table=self.table, where=self.where, items=tuple(self.items.found))

    def _leaf(self, node: exp.Expression) -> Expr | None:
        if isinstance(node, exp.Window):
            return ColumnRef(self._column(node))
        alias = self.aliases.get(node.name.lower()) if isinstance(node, exp.Column) and not node.table else None
        if alias is not None and not self.scope.is_column(node) and not self.scope.is_unit(node):
            return self.row(alias)
        return self.scope.leaf(node)

    # ---- one window -------------------------------------------------------------------------------------------------

    def _column(self, node: exp.Window) -> Column:
        window = self._window(node)
        column = self.found.get(window)
        if column is None:
            if len(self.found) == MOST_WINDOWS:
                self._refuse("Q403", f"one SELECT takes {MOST_WINDOWS} windows over rows. Take fewer.", node)
            column = self.found[window] = window_column(window, self.part, self.domains)
        return column

    def _window(self, node: exp.Window) -> Window:
        plain = str(node.args.get("over")).upper() == "OVER" and not any(
            v for k, v in node.args.items() if k not in _RULED
        )
        by, terms, spec = self._said(node, self.named)
        if not any(self.scope.is_unit(p) for p in by):
            self._refuse("Q204", ways.window_units(self.table.unit_key), node)
        partition = tuple(self.inner(p) for p in by if not self.scope.is_unit(p))
        order = self._order(terms, node)
        frame, counts = self._frame(spec, order, node)
        call, ignores = node.this, isinstance(node.this, exp.IgnoreNulls)
        if isinstance(call, (exp.IgnoreNulls, exp.RespectNulls)):
            call = call.this
        function = _NAMES.get(type(call))
        skips = function in _SKIPPING or isinstance(call, exp.AnyValue)  # as sqlglot has that
        if not plain or (ignores and not skips):
            self._refuse("Q201", ways.window_form(self.table.unit_key), node)
        if function is None:
            found = self._aggregate(call, node, few_rows(frame) if counts == "rows" else None)
            return replace(found, partition=partition, order=order, frame=frame, counts=counts)
        if frame is not None and (function not in VALUES or (function == "nth_value" and counts != "rows")):
            self._refuse("Q201", ways.window_form(self.table.unit_key), node)
        if function in ("last_value", "nth_value") and frame is None and not (ignores and function == "last_value"):
            self._refuse("Q201", ways.LAST_VALUE, node)
        found = Window(function=function, partition=partition, order=order, frame=frame, counts=counts, ignores=ignores)
        return self._with_arguments(found, call)

    def _said(
        self, node: exp.Expression, named: Sequence[exp.Expression]
    ) -> tuple[list[exp.Expression], exp.Expression | None, exp.Expression | None]:
        """PARTITION BY, ORDER BY and frame of a window, those of the one that it names among them.

        Args:
            node: the window.
            named: of WINDOW, that it may name.
        """
        own = node.args.get("partition_by") or [], node.args.get("order"), node.args.get("spec")
        alias = node.args.get("alias")
        if alias is None:
            return own
        place = next((i for i, w in enumerate(named) if w.name.lower() == alias.name.lower()), None)
        if place is None:
            self._refuse("Q203", f'WINDOW gives no window named "{alias.name[:63]}". Write one.', node)
        base = self._said(named[place], named[:place])
        if own[0] or any(a is not None and b is not None for a, b in zip(own[1:], base[1:], strict=True)):
            self._refuse("Q201", ways.window_form(self.table.unit_key), node)
        return base[0], own[1] or base[1], own[2] or base[2]

    def _aggregate(self, call: exp.Expression, node: exp.Window, few: int | None) -> Window:
        """An aggregate of a unit's rows, of which it tells so many apart."""
        condition = None
        if isinstance(call, exp.Filter):
            condition = boolean(self.inner(call.expression.this), call, "FILTER", self.text)
            call = call.this
        reader = Grouped(self.select, self.scope, self.inner, None, self.domains, self.text)
        taken = reader.aggregate_of(call, condition, few)
        if taken.function == "count_distinct":
            self._refuse("Q206", ways.WINDOW_DISTINCT, node)
        return Window(function="aggregate", taken=taken)

    def _order(self, clause: exp.Expression | None, node: exp.Window) -> tuple[tuple[Expr, bool, bool], ...]:
        """Terms of ORDER BY but the unit and constants, which order nothing here."""
        found = []
        for term in clause.expressions if clause is not None else ():
            inner = term.this
            if isinstance(inner, exp.Var) or any(
                v for k, v in term.args.items() if k not in ("this", "desc", "nulls_first")
            ):
                self._refuse("Q201", ways.window_form(self.table.unit_key), node)
            if self.scope.is_unit(inner):
                continue
            expr = self.inner(inner)
            if not isinstance(expr, Literal):
                found.append((expr, bool(term.args.get("desc")), bool(term.args.get("nulls_first"))))
        return tuple(found)

    def _frame(
        self, spec: exp.Expression | None, order: tuple[tuple[Expr, bool, bool], ...], node: exp.Window
    ) -> tuple[Frame | None, Counts]:
        """The frame, None for what it is where none is written, and what its ends count."""
        if spec is None:
            return None, "rows"
        kind = str(spec.args.get("kind") or "").upper()
        start = self._end(spec, "start", node)
        end = self._end(spec, "end", node) if spec.args.get("end") is not None else (0, False)
        ends, days = (start[0], end[0]), start[1] or end[1]
        if kind == "RANGE" and ends == (None, 0) and not spec.args.get("exclude"):
            return None, "rows"
        counts: Counts = "rows"
        if ends != (None, None) and kind in _COUNTS:
            counts = "days" if days else _COUNTS[kind]
        of = {"range": Kind.NUMBER, "days": Kind.DATE}.get(counts)
        fits = days == (counts == "days") and (of is None or (len(order) == 1 and order[0][0].kind is of))
        fits = fits and (counts != "groups" or bool(order))
        crossed = ends[0] is not None and ends[1] is not None and ends[0] > ends[1]
        if kind not in ("ROWS", "RANGE", "GROUPS") or not fits or spec.args.get("exclude") or crossed:
            self._refuse("Q201", ways.window_form(self.table.unit_key), node)
        return ends, counts

    def _end(self, spec: exp.Expression, which: str, node: exp.Window) -> tuple[int | None, bool]:
        """How far an end is, below 0 before the row, None without end; and whether it is told in days."""
        given, side = spec.args.get(which), str(spec.args.get(f"{which}_side") or "").upper()
        word = given.upper() if isinstance(given, str) else ""
        if word == "CURRENT ROW":
            return 0, False
        if word == "UNBOUNDED" and side == {"start": "PRECEDING", "end": "FOLLOWING"}[which]:
            return None, False
        days = _DAYS.get(str(given.args.get("unit") or "").upper()) if isinstance(given, exp.Interval) else None
        inner = given.this if isinstance(given, exp.Interval) else given
        if isinstance(inner, exp.Literal) and inner.is_string and days:
            inner = exp.Literal.number(inner.name)
        number = small_int(inner) if isinstance(inner, exp.Expression) else None
        told = isinstance(given, exp.Interval)
        if number is None or number > MOST_OFFSET or side not in ("PRECEDING", "FOLLOWING") or (told and not days):
            self._refuse("Q201", ways.window_form(self.table.unit_key), node)
        number *= days or 1
        return -number if side == "PRECEDING" else number, told

    # ---- arguments --------------------------------------------------------------------------------------------------

    def _with_arguments(self, window: Window, call: exp.Expression) -> Window:
        """The function's arguments: of ntile, lag, lead and nth_value a constant."""
        name = window.function
        if name not in (*SHIFTED, *VALUES, "ntile"):
            if any(v for v in call.args.values()):
                self._refuse("Q201", ways.window_form(self.table.unit_key), call)
            return window
        if any(v for k, v in call.args.items() if k not in ("this", "offset", "default")) or call.this is None:
            self._refuse("Q201", ways.window_form(self.table.unit_key), call)
        given = call.this if name == "ntile" else call.args.get("offset")
        number = None if given is None else small_int(given)
        least = 0 if name in SHIFTED else 1
        if given is not None and (number is None or not least <= number <= MOST_OFFSET):
            self._refuse("Q203", ways.window_number(name, least, MOST_OFFSET), call)
        if name == "ntile":
            return replace(window, number=number)
        if self.scope.is_unit(call.this) or self.scope.mark(call.this) is not None:
            self._refuse("Q301", ways.window_of_unit(self.table.unit_key), call)
        argument = self.inner(call.this)
        default = call.args.get("default")
        if name in SHIFTED:
            number = 1 if number is None else number
        ignores = window.ignores and number != 0  # no row away is the row itself, whose NULL is not passed over
        window = replace(window, argument=argument, number=number, ignores=ignores)
        return self._with_default(window, default, call)

    def _with_default(self, window: Window, node: exp.Expression | None, call: exp.Expression) -> Window:
        if node is None or window.argument is None:
            return window
        default, argument = self.inner(node), window.argument
        if not isinstance(default, Literal) or not (is_null(default) or default.kind is argument.kind):
            self._refuse("Q203", ways.WINDOW_DEFAULT, call)
        if argument.kind is Kind.NUMBER and not is_null(default):  # cast as DuckDB does: lag(whole, 1, 0.5) is 1
            argument, default = as_type(argument, type_of(argument)), cast_constant(default, type_of(argument))
        return window if is_null(default) else replace(window, argument=argument, default=default)

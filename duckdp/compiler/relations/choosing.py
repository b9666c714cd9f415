"""Reads tests of subqueries: which rows EXISTS and IN leave, and columns that tell of each row what they are.

At the top of WHERE a test leaves rows out. Anywhere else (under OR, in CASE, in an aggregate, as a key) all rows stay,
and a column of the relation tells what the test is of each: relations/matched.py of the same unit's rows, and
relations/with_public.py of public ones, say why that is unit-local. The test stands for the column then.

IN of several values, one of them the unit, or of one in a subquery tied to the unit, is a test of pairs. It is TRUE
where all are equal in a row, FALSE where one differs in every row, else NULL: values of other units differ in the unit.

IN of a key of a link over keys of the same rows is such a test too, as equal keys are of one unit: a row of another
unit has another key, which differs, or none. NULL is in doubt: where a key may be NULL on either side, IN is NULL for
rows of all units. So it is read only where NULL is what FALSE is (:func:`_asks_truth`); else, as NOT IN, it is refused,
unless each row has a key on both sides.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NoReturn

from sqlglot import exp

from duckdp.catalog.table import Table
from duckdp.compiler import unit_ways, ways
from duckdp.compiler.expression import ColumnRef
from duckdp.compiler.frame import check_select, has_aggregate
from duckdp.compiler.output_names import output_name
from duckdp.compiler.relations.joining import Asks, Joining, Pairs, Rows
from duckdp.compiler.relations.joining_public import PublicJoining
from duckdp.compiler.relations.listing import written
from duckdp.compiler.relations.unit_keys import may_be_null, unit_key_of
from duckdp.compiler.scope import FLAG, Named, View, conjuncts

Views = Mapping[str, View]
_NAME = "the subquery"
_PLAIN = ("expressions", "from_", "where", "joins", "with_")
_READ = ("expressions", "group", "having", "qualify", "order")


class Choosing(ABC):
    """The part of ``subqueries.Subqueries`` that reads them."""

    tables: Mapping[str, Table]
    text: str
    joining: Joining
    publics: PublicJoining
    _flags = 0

    @abstractmethod
    def _refuse(self, code: str, message: str, node: exp.Expression) -> NoReturn: ...

    @abstractmethod
    def _from(self, select: exp.Select, known: Views) -> tuple[Rows, Views]: ...

    @abstractmethod
    def _require_few(self, rows: Rows, node: exp.Expression) -> None: ...

    @abstractmethod
    def view(self, node: exp.Expression, known: Views) -> View:
        """The rows and columns that a subquery gives."""

    # ---- rows -----------------------------------------------------------------------------------------------------

    def _matched(self, select: exp.Select, rows: Rows, known: Views) -> tuple[Rows, list[exp.Expression]]:
        """The rows that EXISTS and IN leave, and the rest of WHERE."""
        where = select.args.get("where")
        parts = [c for c in ([] if where is None else conjuncts(where)) if id(c) not in rows.used]
        if where is not None and parts and not rows.used and not rows.said:
            whole = [where.this]
        else:
            parts, whole = [*rows.said, *parts], None
        rest = []
        for part in parts:
            test, exists = part, True
            while isinstance(test, (exp.Not, exp.Paren)):
                test, exists = test.this, exists != isinstance(test, exp.Not)
            found = self._chosen(test, rows, known, exists=exists) if _is_test(test) else None
            if found is None:
                rows, told = self._told(part, rows, known)
                whole = whole if told is part else None
                rest.append(told)
            else:
                rows = found
            self._require_few(rows, part)
        return rows, rest if whole is None or len(rest) < len(parts) else whole

    def _chosen(self, test: exp.Expression, rows: Rows, known: Views, *, exists: bool) -> Rows | None:
        """The rows that a test leaves; None: it is none that leaves rows."""
        if isinstance(test, exp.Exists):
            return self._existing(test, rows, known, exists=exists)
        if self._can_list(test, rows, known):
            return self._listed(test, rows, known, exists=exists)
        return self._paired(test, rows, known, "true" if exists else "not false", exists=exists)

    # ---- columns that tell ----------------------------------------------------------------------------------------

    def _told_in(self, select: exp.Select, rows: Rows, known: Views) -> tuple[Rows, exp.Select]:
        """A SELECT whose outputs, groups and the like name columns in the place of tests, and its rows."""
        parts = [e for key in _READ for e in _items(select.args.get(key))]
        if rows.table.public is not None or not any(True for part in parts for _ in _tests(part)):
            return rows, select
        made = select.copy()
        made.set("expressions", [_called(e) for e in made.expressions])
        for key in _READ:
            for test in [t for part in _items(made.args.get(key)) for t in _tests(part)]:
                rows, column = self._flagged(test, rows, known)
                if column is not None:
                    test.replace(column)
        return rows, made

    def _told(self, node: exp.Expression, rows: Rows, known: Views) -> tuple[Rows, exp.Expression]:
        """A condition that names columns in the place of tests, and its rows; itself where it has none."""
        if rows.table.public is not None or not any(True for _ in _tests(node)):
            return rows, node
        made = exp.Paren(this=node.copy())
        changed = False
        for test in list(_tests(made)):
            rows, column = self._flagged(test, rows, known)
            if column is not None:
                test.replace(column)
                changed = True
        return rows, made.this if changed else node

    def _flagged(self, test: exp.Expression, rows: Rows, known: Views) -> tuple[Rows, exp.Expression | None]:
        """The rows with a column that tells what a test is of each, and what stands for the test; None: none does."""
        if isinstance(test, exp.Exists):
            return self._shown(self._existing(test, rows, known, exists=True, flag=True), test)
        if self._can_list(test, rows, known):
            return self._shown(self._listed(test, rows, known, exists=True, flag=True), test)
        first = self._paired(test, rows, known, "true", exists=True, flag=True)
        if first is None:
            return rows, None
        plain = self._is_plain(test, rows, known)
        rows, equal = self._shown(first, test)
        if plain:
            return rows, equal
        second = self._paired(test, rows, known, "unknown", exists=True, flag=True)
        assert second is not None
        rows, unknown = self._shown(second, test)
        arms = [exp.If(this=equal, true=exp.true()), exp.If(this=unknown, true=exp.Null())]
        return rows, exp.Paren(this=exp.Case(ifs=arms, default=exp.false()))

    def _shown(self, rows: Rows, node: exp.Expression) -> tuple[Rows, exp.Expression]:
        """Rows whose last column a name of ours stands for."""
        self._require_few(rows, node)
        self._flags += 1
        name = f"{FLAG}{self._flags}"
        view = View(table=rows.table, columns=((name, ColumnRef(rows.table.columns[-1])),), order=(name,))
        named = Named(names=(name,), view=view, hidden=True)
        return replace(rows, named=(*rows.named, named)), exp.column(name)

    # ---- tests ----------------------------------------------------------------------------------------------------

    def _can_list(self, test: exp.Expression, rows: Rows, known: Views) -> bool:
        """Whether IN is about a unit, or about public values."""
        if rows.scope(self.text).is_unit(test.this):
            return True
        names = {t.name.lower() for t in test.args["query"].find_all(exp.Table)}
        if not names:
            return written(test.args["query"]) is not None
        return all(self._is_public(name, known) for name in names)

    def _is_public(self, name: str, known: Views) -> bool:
        table = known[name].table if name in known else self.tables.get(name)
        return table is not None and table.public is not None

    def _existing(self, test: exp.Exists, rows: Rows, known: Views, *, exists: bool, flag: bool = False) -> Rows:
        """EXISTS: what it looks for must be of the same unit."""
        select = check_select(test.this, self.text)
        odd = [k for k, v in select.args.items() if v and k not in _PLAIN]
        if odd or any(has_aggregate(e) for e in select.expressions):
            self._refuse("Q204", ways.EXISTS, select)
        inner, said, _ = self._inner(select, known)
        if inner.table.public is not None and rows.table.public is None:
            return self.publics.existing(rows, inner, said, test, exists=exists, flag=flag)
        return self.joining.existing(rows, inner, said, test, exists=exists, flag=flag)

    def _inner(self, select: exp.Select, known: Views) -> tuple[Rows, list[exp.Expression], Views]:
        """The rows of a subquery, and what it says of them and of those around it."""
        inner, known = self._from(select, known)
        inner, rest = self._matched(select, inner, known)
        if inner.filled is not None:
            self._refuse("Q204", ways.PUBLIC_FILLED, select)
        return inner, [c for part in rest for c in conjuncts(part)], known

    def _listed(self, test: exp.Expression, rows: Rows, known: Views, *, exists: bool, flag: bool = False) -> Rows:
        """IN: the units of a subquery."""
        query = test.args["query"]
        view = self.view(query, known)
        if view.table.public is not None and rows.table.public is None:
            listed = Named(names=(_NAME,), view=view)
            return self.publics.listed(rows, listed, test.this, query, exists=exists, flag=flag)
        if view.columns or view.marks or len(view.units) != 1:
            self._refuse("Q204", ways.in_units(rows.table.unit_key), query)
        inner = Rows(table=view.table, where=view.where, named=(Named(names=(_NAME,), view=view),))
        return self.joining.existing(rows, inner, None, test, exists=exists, flag=flag)

    def _paired(
        self, test: exp.Expression, rows: Rows, known: Views, asks: Asks, *, exists: bool, flag: bool = False
    ) -> Rows | None:
        """IN of several values of which one is the unit, or of one in a subquery tied to the unit; None: it is none.

        A key of a link ties a value, or one of several, to the unit as well.
        """
        found = self._compared(test, rows, known)
        if found is None:
            return None
        if found.doubtful and asks == "not false":
            self._refuse("Q204", unit_ways.null_in_keys(found.doubtful, without=True), test)
        asks = "true" if found.never_null else asks
        pairs = Pairs(values=found.values, asks=asks, tied=found.tied) if found.values else None
        return self.joining.existing(rows, found.inner, found.said, test, exists=exists, pairs=pairs, flag=flag)

    def _is_plain(self, test: exp.Expression, rows: Rows, known: Views) -> bool:
        """Whether IN is told TRUE or FALSE of each row: it is never NULL, or NULL is as FALSE; or it is refused."""
        found = self._compared(test, rows, known)
        if found is not None and found.doubtful and not _asks_truth(test):
            self._refuse("Q204", unit_ways.null_in_keys(found.doubtful, without=False), test)
        return found is not None and (bool(found.doubtful) or found.never_null)

    def _compared(self, test: exp.Expression, rows: Rows, known: Views) -> _Compared | None:
        """What IN compares, where rows of another unit are never equal; None: it is none of these."""
        if isinstance(test.this, exp.Tuple):
            return self._of_tuple(test, rows, known)
        select = _plain_select(test.args["query"])
        if rows.table.unit_key is None:
            return None
        if select is not None and len(select.expressions) == 1:
            inner, said, _ = self._inner(select, known)
            values = ((test.this, select.expressions[0].unalias()),)
            if inner.table.public is not None:
                return None
            if self.joining.ties(rows, inner, said):
                return _Compared(inner=inner, said=said, values=values)
            return self._tied(_Compared(inner=inner, said=said, values=values), rows)
        if unit_key_of(test.this, rows.scope(self.text)) is None:
            return None
        view = self.view(test.args["query"], known)
        if len(view.order) != 1:
            return None
        values = ((test.this, exp.column(view.order[0], _NAME)),)
        return self._tied(_Compared(inner=_listed_rows(view), said=None, values=values), rows)

    def _tied(self, found: _Compared, rows: Rows) -> _Compared | None:
        """The same with the keys of links that it compares; None: it compares none."""
        around, own = rows.scope(self.text), found.inner.scope(self.text)
        tied, doubtful = False, ""
        for one, two in found.values:
            mine, theirs = unit_key_of(one, around), unit_key_of(two, own)
            if mine is None or theirs is None or around.key(one) != own.key(two):
                continue
            tied = True
            if may_be_null(mine, rows.table) or may_be_null(theirs, found.inner.table):
                doubtful = one.name
        return replace(found, tied=tied, doubtful=doubtful) if tied else None

    def _of_tuple(self, test: exp.Expression, rows: Rows, known: Views) -> _Compared:
        """What (unit, x, ...) IN (SELECT unit, y, ...) compares besides the units; of keys of a link all."""
        view, given = self.view(test.args["query"], known), test.this.expressions
        scope, order = rows.scope(self.text), view.order
        if len(order) != len(given):
            rule = f"IN compares {len(given)} values with {len(order)} columns."
            self._refuse("Q203", f"{rule} Write as many.", test)
        units = [i for i, (v, n) in enumerate(zip(given, order, strict=True)) if scope.is_unit(v) and view.is_unit(n)]
        values = tuple(
            (v, exp.column(n, _NAME)) for i, (v, n) in enumerate(zip(given, order, strict=True)) if i not in units
        )
        found = _Compared(inner=_listed_rows(view), said=None, values=values)
        if units:
            return found
        tied = self._tied(found, rows) if rows.table.unit_key is not None else None
        if tied is None:
            self._refuse("Q204", ways.pairs_units(rows.table.unit_key), test)
        return tied


@dataclass(frozen=True, kw_only=True)
class _Compared:
    """What IN compares.

    Attributes:
        inner: the rows of its subquery.
        said: what that says of them and of those around it; None: nothing but the list.
        values: (of a row, of the subquery).
        tied: whether a pair of these are keys of the same rows, each of which is of one unit.
        doubtful: the name of one that may be NULL on either side, or "".
    """

    inner: Rows
    said: Sequence[exp.Expression] | None
    values: tuple[tuple[exp.Expression, exp.Expression], ...]
    tied: bool = False
    doubtful: str = ""

    @property
    def never_null(self) -> bool:
        """Whether each row has a key on both sides, and nothing else is compared."""
        return self.tied and not self.doubtful and len(self.values) == 1


def _listed_rows(view: View) -> Rows:
    return Rows(table=view.table, where=view.where, named=(Named(names=(_NAME,), view=view),))


def _asks_truth(test: exp.Expression) -> bool:
    """Whether only TRUE counts of what a test gives: in WHERE, FILTER or WHEN, below nothing but AND and OR."""
    below: exp.Expression = test
    while isinstance(below.parent, (exp.Paren, exp.And, exp.Or)):
        below = below.parent
    above = below.parent
    if above is None or isinstance(above, (exp.Where, exp.CountIf)):  # of WHERE each condition is read by itself
        return True
    whole = above.parent
    return isinstance(above, exp.If) and above.this is below and not (isinstance(whole, exp.Case) and whole.this)


def _items(value: object) -> list[exp.Expression]:
    return [e for e in (value if isinstance(value, list) else [value]) if isinstance(e, exp.Expression)]


def _called(output: exp.Expression) -> exp.Expression:
    """An output with tests under the name that it has as it was written."""
    if isinstance(output, exp.Alias) or not any(True for _ in _tests(output)):
        return output
    return exp.Alias(this=output, alias=exp.to_identifier(output_name(output), quoted=True))


def _is_test(node: exp.Expression) -> bool:
    """EXISTS, or IN a subquery."""
    return isinstance(node, exp.Exists) or (isinstance(node, exp.In) and node.args.get("query") is not None)


def _tests(node: exp.Expression) -> Iterator[exp.Expression]:
    """The tests of a tree that are no part of another query."""
    if _is_test(node):
        yield node
    elif not isinstance(node, exp.Query):
        for part in node.iter_expressions():
            yield from _tests(part)


def _plain_select(query: exp.Expression) -> exp.Select | None:
    """A SELECT of one column, without groups and the like."""
    node = query.this if isinstance(query, exp.Subquery) else query
    if not isinstance(node, exp.Select) or any(v for k, v in node.args.items() if k not in _PLAIN):
        return None
    return None if any(has_aggregate(e) for e in node.expressions) else node

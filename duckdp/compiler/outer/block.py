"""One SELECT that is a release, in two: the question that is asked, and the SELECT over its answer.

::

    SELECT sex, count(*) AS n, 100.0 * count(*) / sum(count(*)) OVER () AS share FROM care GROUP BY sex HAVING n > 10

    asked:  SELECT sex, count(*) FROM care GROUP BY sex
    over:   SELECT c1 AS sex, c2 AS n, 100.0 * c2 / sum(c2) OVER () AS share FROM __dp_1 WHERE n > 10

The columns are called ``__dp_c1``, ``__dp_c2``: nobody's names begin so. The groups of the answer are those of the
question, so what stood between GROUP BY and ORDER BY is a SELECT without groups: HAVING becomes WHERE; windows,
QUALIFY, DISTINCT, ORDER BY and LIMIT stay what they are.

An output that the gate has a rule for, whole, is asked whole: it comes with its interval. Of the others the aggregates
are asked; min and max of values that nobody declared by a question of their own (:mod:`duckdp.compiler.outer.least`).
Equal ones of one question are one figure (:class:`Parts`), drawn once and paid once, however often named.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from sqlglot import exp

from duckdp.catalog.table import Table, dump_table
from duckdp.compiler import ways
from duckdp.compiler.domains import Domains
from duckdp.compiler.expression import Expr, show
from duckdp.compiler.frame import WRAPPERS, aggregates, aliases_of, group_nodes, has_aggregate, is_aggregation
from duckdp.compiler.known import is_of_keys
from duckdp.compiler.outer.least import (
    VALUE,
    asks_least,
    groups_of_values,
    has_open_values,
    least_join,
    source_name,
    told,
)
from duckdp.compiler.outer.trees import column, duplicate, rebuilt
from duckdp.compiler.output_names import output_name, printed
from duckdp.compiler.parse import refuse
from duckdp.compiler.query import Output, Query
from duckdp.compiler.relations.subqueries import Subqueries
from duckdp.compiler.scalars import Scalars
from duckdp.compiler.scope import RowScope
from duckdp.compiler.select import read_select
from duckdp.errors import QueryError

MOST_TRIED = 64  # outputs of which each is read by itself first
MOST_PARTS = 16  # releases of one statement: each has a read, and a share of epsilon
_NEVER_WHOLE = (exp.Window, exp.Query)
_AFTER = frozenset(("expressions", "group", "having", "order", "limit", "offset", "qualify", "distinct", "windows"))
_DONE = frozenset(("expressions", "from_", "joins", "laterals", "where", "group", "having", "with_"))


def table_name(number: int) -> str:
    """The table that holds the answer of a part, counted from 0."""
    return f"__dp_{number + 1}"


def column_name(number: int) -> str:
    """The column of an output of a part, counted from 0."""
    return f"__dp_c{number + 1}"


class Parts:
    """What a statement releases, each question once.

    Args:
        tables: protected tables by lower-case name.
        text: the statement, for places in messages.
        parameters: values of ? and $1.

    Attributes:
        queries: the questions so far.
        told: what is noted beside the answers of some, by their numbers.
    """

    def __init__(self, tables: Mapping[str, Table], text: str, parameters: Sequence[object]) -> None:
        self.tables, self.text, self.parameters = tables, text, parameters
        self.queries: list[Query] = []
        self.told: dict[int, dict[str, None]] = {}
        self._outputs: list[list[exp.Expression]] = []  # of each query, as they were first written
        self._bases: list[tuple[exp.Select, int]] = []  # questions without outputs, and their parts
        self._last: tuple[list[exp.Expression], Query] | None = None  # what was read last, and from what

    def read(self, base: exp.Select, outputs: Sequence[exp.Expression]) -> Query:
        """A question as the gate reads it.

        Args:
            base: its SELECT without outputs.
            outputs: what it gives.

        Raises:
            QueryError: Q1xx to Q3xx.
        """
        given = [base, *outputs]
        if self._last is not None and list(map(id, self._last[0])) == list(map(id, given)):
            return self._last[1]
        asked = rebuilt(base, duplicate)
        asked.set("expressions", [duplicate(e) for e in outputs])
        query = read_select(asked, self.tables, self.text, self.parameters)
        if is_of_keys(query):  # alone they are answered; to count or join them would tell of declarations, not of rows
            refuse("Q301", ways.KEYS_ALONE, asked, self.text)
        if len(query.outputs) != len(outputs):
            refuse("Q206", ways.EACH_QUANTILE, outputs[-1], self.text)
        self._last = given, query
        return query

    def add(self, base: exp.Select, outputs: Sequence[exp.Expression], node: exp.Expression) -> tuple[int, list[int]]:
        """Which part a question is of, and where its outputs stand there: what is of the same groups is one part.

        Raises:
            QueryError: Q1xx to Q3xx; Q403, too many parts.
        """
        number = next((known for other, known in self._bases if _is_same(other, base)), None)
        if number is not None:  # with what it gives already: of a relation, only columns that are needed are read
            query = self.read(base, [*self._outputs[number], *outputs])
            shown = query.outputs[len(self._outputs[number]) :]
        else:
            query = self.read(base, outputs)
            shown = query.outputs
            number = next((i for i, q in enumerate(self.queries) if _groups(q) == _groups(query)), len(self.queries))
            self._bases.append((base, number))
        if number == len(self.queries):
            if number == MOST_PARTS:
                rule = f"the statement has more than {MOST_PARTS} releases, which share its epsilon. Split it."
                refuse("Q403", rule, node, self.text)
            self.queries.append(replace(query, outputs=()))
            self._outputs.append([])
        known = list(self.queries[number].outputs)
        places = []
        for output, part in zip(shown, outputs, strict=True):
            said = show(output.expr)
            place = next((i for i, o in enumerate(known) if show(o.expr) == said), len(known))
            if place == len(known):
                known.append(Output(name=_unused(output.name, known), expr=output.expr))
                self._outputs[number].append(part)
            places.append(place)
        self.queries[number] = replace(query, outputs=tuple(known))
        return number, places


def _is_same(one: exp.Select, other: exp.Select) -> bool:
    """Whether two questions are written alike; trees that are equal may still differ in what is a capital letter."""
    return one == other and printed(one) == printed(other)


def _groups(query: Query) -> tuple[object, ...]:
    """What two questions have in common of which all figures are one release."""
    keys = [(show(k.expr), k.domain, k.other) for k in query.keys]
    return dump_table(query.table), show(query.where), keys, query.together


def _unused(name: str, outputs: Sequence[Output]) -> str:
    taken, found, suffix = {o.name.lower() for o in outputs}, name, 0
    while found.lower() in taken:
        suffix += 1
        found = f"{name}_{suffix}"
    return found


def groups_of(select: exp.Select, scope: RowScope, text: str) -> list[exp.Expression]:
    """The expressions that a SELECT groups by, or is DISTINCT by where it does not group.

    Raises:
        QueryError: Q201, Q203.
    """
    if select.args.get("group") is None:
        grouped = any(aggregates(e) for e in select.expressions)
        return [e.unalias() for e in select.expressions] if select.args.get("distinct") and not grouped else []
    nodes = group_nodes(select, aliases_of(select), lambda n: scope.is_column(n) or scope.is_unit(n), text)
    if select.args["group"].args.get("all"):
        return [n for n in nodes if not n.find(exp.Window)]
    return nodes


class Block:
    """Takes one SELECT in two.

    Args:
        select: as it stands in the statement.
        asked: the same with the CTEs of private rows that it may name.
        parts: of the statement.
        inner: takes a subquery within it apart.
    """

    def __init__(
        self,
        select: exp.Select,
        asked: exp.Select,
        parts: Parts,
        inner: Callable[[exp.Expression], exp.Expression],
    ) -> None:
        self.select, self.asked, self.parts, self.inner = select, asked, parts, inner
        self.text = parts.text
        scope, _, _ = Subqueries(parts.tables, parts.text, parts.parameters).scope(asked)
        self.scope, self.row = scope, Scalars(scope.leaf, parts.text, parts.parameters)
        self.aliases, self.domains = aliases_of(select), Domains()
        self.base = asked
        self.keys: list[exp.Expression] = []
        self.key_exprs: list[Expr] = []
        self.outputs: list[exp.Expression] = []  # besides the keys
        self.whole: list[exp.Expression] = []  # outputs that are asked as they stand
        self.slots: list[tuple[exp.Column, int]] = []  # columns of the answer, to be named when their places are known
        self.least: list[exp.Expression] = []  # min and max of values that nobody declared

    def over(self) -> exp.Select:
        """The SELECT over the answer; the question is added to the parts.

        Raises:
            QueryError: Q1xx to Q3xx.
        """
        for node in groups_of(self.select, self.scope, self.text):
            expr = self.row(node)
            if expr not in self.key_exprs:
                self.keys.append(node)
                self.key_exprs.append(expr)
        self.base = self._base()
        self.whole = self._whole()
        made = rebuilt(self.select, self._clause, _DONE)
        made.set("expressions", [self._output(e) for e in _nodes(self.select)])
        having = self.select.args.get("having")
        if having is not None:
            made.set("where", exp.Where(this=self._rest(having.this)))
        source, places = self._groups()
        for slot, place in self.slots:
            slot.set("this", exp.to_identifier(column_name(places[place]), quoted=True))
            slot.set("table", exp.to_identifier(source.alias_or_name, quoted=True) if self.least else None)
        made.set("from_", exp.From(this=source))
        made.set("joins", [self._least_join(i, source, places) for i in range(len(self.least))])
        assert isinstance(made, exp.Select)
        return made

    def _groups(self) -> tuple[exp.Expression, list[int]]:
        """What gives a row for each group, and where its keys and figures stand there."""
        if self.outputs or not self.least:
            number, places = self.parts.add(self.base, [*self.keys, *self.outputs], self.select)
            return exp.Table(this=exp.to_identifier(table_name(number), quoted=True)), places
        found = [self._least_part(node) for node in self.least]
        names, keys = [column_name(i) for i in range(len(self.keys))], len(self.keys)
        tables = [(table_name(n), [column_name(p) for p in places[:keys]]) for n, places in found]
        return groups_of_values(tables, names), list(range(keys))

    def _least_part(self, node: exp.Expression) -> tuple[int, list[int]]:
        """The part that tells which values are shown, and where it has the keys and the value."""
        inner = node.this if isinstance(node, exp.Filter) else node
        base, value = rebuilt(self.base, duplicate), inner.this
        if isinstance(node, exp.Filter):
            also = duplicate(node.expression.this)
            where = base.args.get("where")
            both = also if where is None else exp.And(this=exp.Paren(this=where.this), expression=exp.Paren(this=also))
            base.set("where", exp.Where(this=both))
        base.set("group", exp.Group(expressions=[duplicate(k) for k in (*self.keys, value)]))
        assert isinstance(base, exp.Select)
        return self.parts.add(base, [*self.keys, value], node)

    def _least_join(self, number: int, source: exp.Expression, places: Sequence[int]) -> exp.Join:
        node = self.least[number]
        part, own = self._least_part(node)
        inner = node.this if isinstance(node, exp.Filter) else node
        self.parts.told.setdefault(part, {})[told(inner, printed(node))] = None
        keys = [column(column_name(p), source.alias_or_name) for p in places[: len(self.keys)]]
        return least_join(inner, number, table_name(part), [column_name(p) for p in own], keys)

    def _base(self) -> exp.Select:
        """What is asked, without outputs."""
        base = rebuilt(self.asked, duplicate, _AFTER)
        if self.keys:
            base.set("group", exp.Group(expressions=[duplicate(k) for k in self.keys]))
        assert isinstance(base, exp.Select)
        return base

    # ---- what is left over the answer ---------------------------------------------------------------------------

    def _clause(self, node: exp.Expression) -> exp.Expression:
        return self._rest(node, ordered=isinstance(node, exp.Order))

    def _output(self, node: exp.Expression) -> exp.Expression:
        """A column of the SELECT, under the name that it has without us."""
        inner = node.unalias()
        assert isinstance(inner, exp.Expression)
        made = self._slot(inner) if any(inner is node for node in self.whole) else self._rest(inner)
        name = node.args["alias"] if isinstance(node, exp.Alias) else exp.to_identifier(output_name(node), quoted=True)
        return exp.Alias(this=made, alias=duplicate(name))

    def _whole(self) -> list[exp.Expression]:
        """The outputs that can be asked as they stand, each with an interval of its own."""
        nodes = [node.unalias() for node in _nodes(self.select)]
        found = [n for n in nodes if isinstance(n, exp.Expression) and aggregates(n) and not n.find(*_NEVER_WHOLE)]
        if len(self.select.expressions) > MOST_TRIED:
            return []
        return found if self._can_ask(found) else [node for node in found if self._can_ask([node])]

    def _can_ask(self, nodes: Sequence[exp.Expression]) -> bool:
        if not nodes:
            return False
        try:
            self.parts.read(self.base, [*self.keys, *nodes])
        except QueryError:
            return False
        return True

    def _slot(self, node: exp.Expression) -> exp.Column:
        """The column that the answer gives for a part of the question."""
        if asks_least(node) and (key := self._key(node.this)) is not None:
            return self._named(key)
        if self._asks_least(node):
            number = next((i for i, n in enumerate(self.least) if n == node), len(self.least))
            self.least += [] if number < len(self.least) else [node]
            return column(VALUE, source_name(number))
        known = next((i for i, n in enumerate(self.outputs) if n == node), len(self.outputs))
        if known == len(self.outputs):
            self.outputs.append(node)
        return self._named(len(self.keys) + known)

    def _asks_least(self, node: exp.Expression) -> bool:
        """Whether a node is min or max of values that nobody declared: a release of its own gives it."""
        inner = node.this if isinstance(node, exp.Filter) else node
        if not asks_least(inner) or self.scope.is_unit(inner.this) or self.scope.mark(inner.this) is not None:
            return False
        return has_open_values(self.row(inner.this), self.domains)

    def _named(self, place: int) -> exp.Column:
        found = column("")
        self.slots.append((found, place))
        return found

    def _rest(self, node: exp.Expression, *, ordered: bool = False) -> exp.Expression:
        """An expression over the answer.

        Args:
            node: of the statement.
            ordered: an alias comes before a column of its name, as in ORDER BY.
        """
        if isinstance(node, exp.Query):
            return self.inner(node)
        if isinstance(node, exp.Window):
            return self._window(node, ordered=ordered)
        if is_aggregation(node):
            return self._slot(node)
        plain = isinstance(node, exp.Column) and not node.table and not isinstance(node.this, exp.Star)
        alias = plain and node.name.lower() in self.aliases
        if alias and (ordered or not self.scope.is_column(node)):
            return duplicate(node)
        key = self._key(node)
        if key is not None:
            return self._named(key)
        if isinstance(node, exp.Column):
            self.row(node)  # unknown names and units have messages of their own
            what = f'column "{node.name[:63]}" is private and stands outside an aggregate.'
            refuse("Q301", f"{what} Put it inside sum, avg or count, or in GROUP BY.", node, self.text)
        return rebuilt(node, lambda part: self._rest(part, ordered=ordered))

    def _window(self, node: exp.Window, *, ordered: bool) -> exp.Expression:
        """A window function is of the groups: what it is of is read, it is not."""

        def rest(part: exp.Expression) -> exp.Expression:
            return self._rest(part, ordered=ordered)

        made = rebuilt(node, rest, frozenset(("this",)))
        made.set("this", self._windowed(node.this, rest))
        return made

    def _windowed(self, node: exp.Expression, rest: Callable[[exp.Expression], exp.Expression]) -> exp.Expression:
        """The function of a window, with arguments over the answer."""
        if isinstance(node, WRAPPERS):
            made = rebuilt(node, rest, frozenset(("this",)))
            made.set("this", self._windowed(node.this, rest))
            return made
        return rebuilt(node, rest)

    def _key(self, node: exp.Expression) -> int | None:
        """Which key an expression is."""
        if not self.keys or has_aggregate(node) or not node.find(exp.Column) or node.find(exp.Window, exp.Query):
            return None
        try:
            expr = self.row(node)
        except QueryError:
            return None
        return next((i for i, k in enumerate(self.key_exprs) if k == expr), None)


def _nodes(select: exp.Select) -> list[exp.Expression]:
    return [e for e in select.expressions if isinstance(e, exp.Expression)]

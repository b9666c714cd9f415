"""Names inside row expressions: only declared columns exist, and those that a subquery gives."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NoReturn

from sqlglot import exp

from duckdp.catalog.link import KeyId
from duckdp.catalog.table import Kind, Table, closest
from duckdp.compiler import ways
from duckdp.compiler.expression import Call, ColumnRef, Expr, Literal
from duckdp.compiler.parse import refuse
from duckdp.compiler.scalars import Scalars

MOST_BRANCHES = 32  # of an OR, of which what they have in common is looked for
TRUE = Literal(True, Kind.BOOLEAN)

_CONJUNCTIONS = frozenset(("and",))  # operators whose every argument must hold


def read_predicate(node: exp.Expression, table: Table, text: str) -> Expr:
    """Translate a predicate over a table's declared columns (the ``predicate`` argument of functions)."""
    scope = RowScope(table, None, text)
    condition = Scalars(scope.leaf, text)(node)
    if condition.kind is not Kind.BOOLEAN:
        refuse("Q203", f"a predicate must be a boolean. {ways.NEEDED[Kind.BOOLEAN]}", node, text)
    return condition


def read_linear(node: exp.Expression, table: Table, text: str) -> Expr:
    """Translate a question about rows over a table's declared columns: a predicate, or a number of each row."""
    found = Scalars(RowScope(table, None, text).leaf, text)(node)
    if found.kind not in (Kind.BOOLEAN, Kind.NUMBER):
        need = f"{ways.NEEDED[Kind.BOOLEAN]} A number of each row, from 0 to 1, is added up."
        refuse("Q203", f"a question must be a condition or a number. {need}", node, text)
    return found


@dataclass(frozen=True, kw_only=True)
class View:
    """What stands for rows in FROM: some rows of a table or relation, and columns that are computed from them.

    Projections and filters are no step of their own: whoever reads a view's column reads what it is computed from, so
    a question about a view is the question about its table.

    Attributes:
        table: whose rows they are.
        columns: names as they were given, and expressions over the table's columns.
        units: names of columns that are the privacy unit itself, never NULL. That a column is one is a fact of where
            it comes from, never of its name.
        where: which rows, or None: all.
        marks: names of columns that are the privacy unit or NULL, each with a flag: TRUE where it is the unit, or NULL.
        keys: names of columns that name rows of a table, each of which is of one unit, with what they name.
        order: the names of all columns, units and marks among them, as they were written.
    """

    table: Table
    columns: tuple[tuple[str, Expr], ...]
    units: tuple[str, ...] = ()
    where: Expr | None = None
    marks: tuple[tuple[str, Expr], ...] = ()
    keys: tuple[tuple[str, KeyId], ...] = ()
    order: tuple[str, ...] = ()

    def key(self, name: str) -> KeyId | None:
        """What a column names rows of."""
        return self._keys.get(name.lower())

    def column(self, name: str) -> Expr | None:
        """The expression of a column, ignoring case."""
        return self._columns.get(name.lower())

    def is_unit(self, name: str) -> bool:
        """Whether a column is the privacy unit."""
        return name.lower() in self._units

    def mark(self, name: str) -> Expr | None:
        """The flag of a column that is the privacy unit or NULL."""
        return self._marks.get(name.lower())

    # a statement asks each view many times; of names alike but for case the first counts

    @cached_property
    def _keys(self) -> dict[str, KeyId]:
        return {n.lower(): k for n, k in reversed(self.keys)}

    @cached_property
    def _columns(self) -> dict[str, Expr]:
        return {n.lower(): e for n, e in reversed(self.columns)}

    @cached_property
    def _units(self) -> frozenset[str]:
        return frozenset(n.lower() for n in self.units)

    @cached_property
    def _marks(self) -> dict[str, Expr]:
        return {n.lower(): e for n, e in reversed(self.marks)}


def view_of(table: Table) -> View:
    """All rows and declared columns of a table, and its unit."""
    columns = tuple((c.name, ColumnRef(c)) for c in table.columns)
    named: dict[str, KeyId] = {source: (table.relation, source) for source in table.unique}
    named |= {} if table.link is None else {table.link.column: table.link.target}
    keys = tuple((c.name, named[c.source]) for c in table.columns if c.source in named)
    units = () if table.unit_key is None else (table.unit_key,)
    order = (*units, *(c.name for c in table.columns))
    return View(table=table, columns=columns, units=units, keys=keys, order=order)


def view_from(
    table: Table,
    columns: Sequence[tuple[str, Expr]],
    units: Sequence[str],
    where: Expr | None,
    select: exp.Select,
    text: str,
    marks: Sequence[tuple[str, Expr]] = (),
    keys: Sequence[tuple[str, KeyId]] = (),
    *,
    order: Sequence[str],
) -> View:
    """A view; no two of its columns may have the same name.

    Raises:
        QueryError: Q203.
    """
    names = [n.lower() for n in (*units, *(n for n, _ in (*columns, *marks)))]
    twice = next((n for n in names if names.count(n) > 1), None)
    if twice is not None:
        refuse("Q203", f'a subquery gives two columns named "{twice[:63]}". Give each a name: x AS a.', select, text)
    return View(
        table=table,
        columns=tuple(columns),
        units=tuple(units),
        where=where,
        marks=tuple(marks),
        keys=tuple(keys),
        order=tuple(order),
    )


@dataclass(frozen=True, kw_only=True)
class Named:
    """A view under the names that its columns may be qualified with.

    Attributes:
        names: the first one alone where several relations stand.
        view: of the table.
        hidden: nobody can name it: its columns are what tests of subqueries tell (``FLAG``).
        own: it is a table under its own name, which its schema's may precede.
    """

    names: tuple[str, ...]
    view: View
    hidden: bool = False
    own: bool = False


SCHEMA = "main"  # of every protected table, where an analyst writes it
FLAG = "__dp_found_"  # begins the names of what tests of subqueries tell; refused where an analyst writes it


class RowScope:
    """Resolves columns inside row expressions.

    Args:
        table: whose rows they are, all names together.
        alias: of the table, where it stands for itself.
        text: the statement, for places in messages.
        named: what stands in FROM; None: the table itself.
        merged: lower-case names that USING made one: without a qualifier they are the first one's.
        around: the names around a subquery that may use them.
        strict: a table that has an alias has no other name, as where there are several relations.
    """

    def __init__(
        self,
        table: Table,
        alias: str | None,
        text: str,
        named: Sequence[Named] | None = None,
        merged: frozenset[str] = frozenset(),
        around: RowScope | None = None,
        *,
        strict: bool = False,
    ) -> None:
        self.table, self.text, self.merged, self.around = table, text, merged, around
        own = Named(names=tuple(dict.fromkeys((alias or table.name, table.name))), view=view_of(table), own=not alias)
        self.named = (own,) if named is None else tuple(named)
        self.shown = tuple(n for n in self.named if not n.hidden)
        self.strict = strict or around is not None or len(self.shown) > 1

    def leaf(self, node: exp.Expression) -> Expr | None:
        """A column reference, or None for any other allowed node."""
        if isinstance(node, exp.Star) or (isinstance(node, exp.Column) and isinstance(node.this, exp.Star)):
            refuse("Q302", "* would return rows. Name columns inside aggregates.", node, self.text)
        if isinstance(node, exp.AggFunc):
            refuse("Q301", "an aggregate stands where a row is computed; aggregates do not nest.", node, self.text)
        if isinstance(node, exp.Window):
            refuse("Q201", ways.WINDOW, node, self.text)
        if (
            isinstance(node, exp.EQ)
            and (one := self._unit_flag(node.this))
            and (two := self._unit_flag(node.expression))
        ):
            return _all_of([e for e in (one, two) if not isinstance(e, Literal)])
        if isinstance(node, exp.Is) and isinstance(node.expression, exp.Null) and (flag := self._unit_flag(node.this)):
            return Call("is_null_boolean", (flag,), Kind.BOOLEAN)
        return self.column(node) if isinstance(node, exp.Column) else None

    def _unit_flag(self, node: exp.Expression) -> Expr | None:
        """TRUE of what is the unit, a flag of what is the unit or NULL; None of anything else."""
        if self.is_unit(node):
            return TRUE
        return self.mark(node)

    def mark(self, node: exp.Expression) -> Expr | None:
        """The flag of a node that is the privacy unit or NULL."""
        if not isinstance(node, exp.Column) or self.is_unit(node):
            return None
        found = next((e for n in self._candidates(node) if (e := n.view.mark(node.name)) is not None), None)
        return found if found is not None or self.around is None else self.around.mark(node)

    def key(self, node: exp.Expression) -> KeyId | None:
        """What a column names rows of; each of them is of one unit, so equal keys are of one unit."""
        if not isinstance(node, exp.Column):
            return None
        found = [n for n in self._candidates(node) if _has(n.view, node.name)]
        if not found and self.around is not None:
            return self.around.key(node)
        alone = len(found) == 1 or (found and node.name.lower() in self.merged)
        return found[0].view.key(node.name) if alone else None

    def is_column(self, node: exp.Expression) -> bool:
        """Whether a name without qualifier is a column (else it may be an alias)."""
        return any(n.view.column(node.name) is not None for n in self.named)

    def is_unit(self, node: exp.Expression) -> bool:
        """Whether a node is the privacy unit: by where the column comes from."""
        if not isinstance(node, exp.Column):
            return False
        if (
            not node.table
            and node.name.lower() in self.merged
            and any(_names_unit(n.view, node.name) for n in self.named)
        ):
            return True  # of the side that is kept, or of both
        own = self._candidates(node)
        if any(_has(n.view, node.name) for n in own) or self.around is None:
            return any(n.view.is_unit(node.name) for n in own)
        return self.around.is_unit(node)

    def simplified(self, condition: Expr | None) -> Expr | None:
        """A condition without what a join on the unit has made true."""
        if isinstance(condition, Literal) and condition.value is True and len(self.shown) > 1:
            return None
        if isinstance(condition, Call) and condition.operator in _CONJUNCTIONS and len(self.shown) > 1:
            return _all_of([e for a in condition.arguments if (e := self.simplified(a)) is not None], nothing=None)
        return condition

    def all_of(self, star: exp.Expression) -> list[Named]:
        """What * or a.* stands for."""
        mark = star.this if isinstance(star, exp.Column) else star
        others = [*mark.args.items(), *star.args.items()]
        if any(v for k, v in others if k not in ("this", "table", "except_")):
            refuse("Q201", "* takes no REPLACE or RENAME here. Write the columns out.", star, self.text)
        found = self._candidates(star) if isinstance(star, exp.Column) else list(self.shown)
        if without := [c.name.lower() for c in mark.args.get("except_") or ()]:
            found = [self._without(n, without) for n in found]
            known = [n.lower() for one in self.shown for n in (*one.view.units, *(c for c, _ in one.view.columns))]
            missing = next((c for c in mark.args["except_"] if c.name.lower() not in known), None)
            if missing is not None:
                refuse("Q207", f'"{missing.name[:63]}" is no column of FROM. Write one that is, or *.', star, self.text)
        if not found:
            refuse(
                "Q205", f'"{str(star.text("table"))[:63]}" is not a relation of this query. Write *.', star, self.text
            )
        return found

    @staticmethod
    def _without(named: Named, without: Sequence[str]) -> Named:
        """A relation without columns of these lower-case names."""
        view = named.view
        kept = replace(
            view,
            columns=tuple((n, e) for n, e in view.columns if n.lower() not in without),
            units=tuple(u for u in view.units if u.lower() not in without),
            marks=tuple((n, e) for n, e in view.marks if n.lower() not in without),
            order=tuple(n for n in view.order if n.lower() not in without),
        )
        return replace(named, view=kept)

    def knows(self, node: exp.Expression) -> bool:
        """Whether a column's name is one of these rows, whatever it is."""
        return isinstance(node, exp.Column) and any(_has(n.view, node.name) for n in self._candidates(node))

    def require_known(self, named: Iterable[exp.Column]) -> None:
        """Refuse a name that none of these rows has, before what is said with it is refused."""
        for node in named:
            if not self.knows(node):
                self.column(node)

    def column(self, node: exp.Column) -> Expr:
        """What a column node names."""
        candidates = self._candidates(node)
        holders = [n for n in candidates if _has(n.view, node.name)]
        if not holders and self.around is not None:
            return self.around.column(node)
        if len(holders) > 1 and not node.table and node.name.lower() not in self.merged:
            which = " or ".join(f"{n.names[0]}.{node.name[:63]}" for n in holders)
            refuse("Q203", f'"{node.name[:63]}" stands in several relations of FROM. Write {which}.', node, self.text)
        if not candidates:
            before = ".".join(part.name[:63] for part in node.parts[:-1])
            first = self.named[0]
            field = node.args.get("db") and not _has(first.view, node.name)
            way = "Name a column." if field else f"Write {first.names[0]}.{node.name[:63]}."
            refuse("Q205", f'"{before}" is not a relation of this query. {way}', node, self.text)
        found = next((e for n in candidates if (e := n.view.column(node.name)) is not None), None)
        if found is not None:
            return found
        if self.is_unit(node):
            refuse(
                "Q301",
                f'"{node.name}" names the privacy unit, and rows of one person are not told. It stands in '
                f"count(DISTINCT {node.name}), in conditions of joins, and in GROUP BY of a subquery: "
                f"SELECT avg(n) FROM (SELECT count(*) AS n FROM t GROUP BY {node.name}).",
                node,
                self.text,
            )
        self._refuse_unknown(node, candidates)

    def _candidates(self, node: exp.Column) -> list[Named]:
        qualifier, own = node.table.lower(), 1 if self.strict else None
        if node.name.startswith(FLAG):
            return [n for n in self.named if n.hidden]
        if node.args.get("db"):  # then it is a table, never a CTE or an alias
            schema = SCHEMA if not node.args.get("catalog") and node.text("db").lower() == SCHEMA else None
            return [n for n in self.shown if n.own and schema and n.names[0].lower() == qualifier]
        return [n for n in self.shown if not qualifier or qualifier in (name.lower() for name in n.names[:own])]

    def _refuse_unknown(self, node: exp.Column, candidates: Sequence[Named]) -> NoReturn:
        columns = [pair for n in candidates for pair in n.view.columns]
        known = closest(node.name, [name for name, _ in columns])
        if isinstance(node.this, exp.Identifier) and node.this.quoted:
            refs = [e for _, e in columns if isinstance(e, ColumnRef)]
            of_texts = any(node.name in (e.column.domain or ()) for e in refs)
            text = f"A text is in single quotes: '{node.name[:63]}'."
            known = text if of_texts else f"{known} {text}"
        if any(n.view.mark(node.name) is not None for n in candidates):
            known = f"It is the privacy unit, or NULL: it may stand in count({node.name}) and {node.name} IS NULL."
        what = f'declared for "{candidates[0].names[-1]}"' if len(candidates) == 1 else "of a relation in FROM"
        refuse("Q207", f'column "{node.name[:63]}" is not {what}. {known}', node, self.text)


def conjuncts(node: exp.Expression) -> list[exp.Expression]:
    """The conditions that must all hold for a condition to hold, in their order.

    What stands in every branch of an OR must hold too, before the OR itself: ``a = b AND c OR a = b AND d``.
    """
    if isinstance(node, (exp.Paren, exp.Where)):
        return conjuncts(node.this)
    if isinstance(node, exp.And):
        return [*conjuncts(node.this), *conjuncts(node.expression)]
    return [*_in_each_branch(node), node] if isinstance(node, exp.Or) else [node]


def _in_each_branch(node: exp.Or) -> list[exp.Expression]:
    """What all branches of an OR say; of many branches nothing is looked for."""
    branches: list[exp.Expression] = []
    below: list[exp.Expression] = [node]
    while below and len(branches) <= MOST_BRANCHES:
        found = below.pop()
        inner = found.unnest()
        if isinstance(inner, exp.Or):
            below += [inner.expression, inner.this]
        else:
            branches.append(found)
    if len(branches) > MOST_BRANCHES:
        return []
    first, *others = ([] if isinstance(b.unnest(), exp.Or) else conjuncts(b) for b in branches)
    return [part for part in first if all(part in said for said in others)]


def _names_unit(view: View, name: str) -> bool:
    return view.is_unit(name) or view.mark(name) is not None


def _has(view: View, name: str) -> bool:
    return view.column(name) is not None or _names_unit(view, name)


def _all_of(conditions: Sequence[Expr], nothing: Expr | None = TRUE) -> Expr | None:
    if not conditions:
        return nothing
    return conditions[0] if len(conditions) == 1 else Call("and", tuple(conditions), Kind.BOOLEAN)

"""Takes a statement apart: which SELECTs in it are releases, and what is left to be done with their answers.

Each SELECT is one of four, by what stands in its FROM:

- *private*: it reads rows of units, and gives rows of units (or groups with the unit in GROUP BY). It is part of the
  release that reads it, and of nothing else.
- *release*: it reads rows of units and aggregates without the unit. It is asked, and a table with its answer stands in
  its place (:mod:`duckdp.compiler.outer.block`).
- *public*: it reads published tables, whose rows are no one's, or is rows of constants. Within a private SELECT it is
  part of that; else it is computed where answers are, and the rows come there
  (:mod:`duckdp.compiler.outer.public_rows`).
- *outer*: it reads answers, published tables, and tables of the analyst's own. It is post-processing.

Names are looked up as SQL does: a CTE comes before a table of its name in everything that follows it. A release is
asked with the CTEs of private rows that are known where it stands, in their order: one that reads another whose name
was given away since would mean something else there, and is refused. So is what joins rows of units with anything that
is outer, and whatever of the outer part might name a protected table.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal as OneOf
from typing import NoReturn

from sqlglot import exp

from duckdp.catalog.table import Table
from duckdp.compiler import ways
from duckdp.compiler.frame import aggregates
from duckdp.compiler.outer.block import Block, Parts, groups_of
from duckdp.compiler.outer.constants import with_values
from duckdp.compiler.outer.grouping_sets import TOLD, Levels, has_levels
from duckdp.compiler.outer.over_groups import group_notes
from duckdp.compiler.outer.positions import require_positions
from duckdp.compiler.outer.public_rows import PublicRows, PublicTables
from duckdp.compiler.outer.series import series_limited
from duckdp.compiler.outer.trees import duplicate, named_outside, nodes_of, rebuilt
from duckdp.compiler.outer.unfolded import require_small
from duckdp.compiler.parse import refuse
from duckdp.compiler.query import Query
from duckdp.compiler.relations.listing import is_constants
from duckdp.compiler.relations.subqueries import Subqueries
from duckdp.compiler.relations.unit_keys import names_one_unit
from duckdp.errors import QueryError

MOST_BLOCKS = 64  # SELECTs that are releases, equal ones too: each is read
RESERVED = "__dp_"
Role = OneOf["private", "release", "public", "outer"]
#: Functions that take SQL or names as texts.
_ASKING = frozenset(("query", "query_table"))
_WITH = frozenset(("with_",))
_NAMED = frozenset(("this", "db", "catalog", "alias"))


@dataclass(frozen=True, kw_only=True)
class Apart:
    """A statement over private answers, in parts: what it releases, and what follows from that.

    Attributes:
        parts: what is released, each once, as validated questions without HAVING, ORDER BY and LIMIT.
        outer: the rest, over tables ``__dp_1``, ``__dp_2``, ... with columns ``__dp_c1``, ...; never changed.
        public: the published tables that it reads, as ``__dp_public_1``, ...
    """

    parts: tuple[Query, ...]
    outer: exp.Query
    public: tuple[PublicRows, ...] = ()


@dataclass(frozen=True, kw_only=True)
class _Names:
    """What CTEs stand for, by lower-case name.

    Attributes:
        private: those of rows of units, or of public ones, as they were written, in order: each means what it says
            after those before it.
        public: those of public rows.
        outer: the others.
        hidden: those of rows of units that read one whose name stands for another by now; never read.
    """

    private: Mapping[str, exp.CTE]
    public: frozenset[str] = frozenset()
    outer: frozenset[str] = frozenset()
    hidden: frozenset[str] = frozenset()


def take_apart(
    statement: exp.Expression, tables: Mapping[str, Table], text: str, parameters: Sequence[object] = ()
) -> Apart | None:
    """The releases of a statement over private answers, and its outer part; None: it is no query, or reads nothing.

    Args:
        statement: tree from ``parse_statement``; left as it is.
        tables: protected tables by lower-case name.
        text: the statement, for places in messages.
        parameters: values of ? and $1.

    Raises:
        QueryError: Q1xx to Q4xx, at the offending node.
    """
    if not isinstance(statement, exp.Query):
        return None
    reader = _Reader(tables, text, parameters)
    outer = reader.read(series_limited(statement, _columns(tables)) or statement)
    if not reader.parts.queries and not reader.public.tables:
        return None
    assert isinstance(outer, exp.Query)
    require_small(outer, text)
    assert isinstance(outer, exp.Expression)
    require_positions(outer, text)
    told, own = (TOLD,) if reader.leveled else (), reader.parts.told
    groups = group_notes(outer, reader.parts.queries)
    parts = [
        replace(q, told=(*q.told, *told, *own.get(i, ()), *([groups[i]] if i in groups else ())))
        for i, q in enumerate(reader.parts.queries)
    ]
    return Apart(parts=tuple(parts), outer=outer, public=reader.public.read(outer, text))


def _columns(tables: Mapping[str, Table]) -> frozenset[str]:
    """Lower-case names of the columns of all tables, of their units too."""
    own = (c.name.lower() for table in tables.values() for c in table.columns)
    return frozenset((*own, *(str(table.unit_key).lower() for table in tables.values())))


def is_one_question(statement: exp.Expression, tables: Mapping[str, Table]) -> bool:
    """Whether the outermost FROM of a statement is of private rows, as far as can be told without reading it."""
    while isinstance(statement, exp.Subquery):
        statement = statement.this
    clause = statement.args.get("from_")
    if not isinstance(statement, exp.Query):
        return True
    if has_levels(statement) or series_limited(statement, _columns(tables)) is not None:
        return False
    item = None if clause is None else clause.this
    table = tables.get(item.name.lower()) if isinstance(item, exp.Table) else None
    return table is not None and table.public is None


class _Reader:
    def __init__(self, tables: Mapping[str, Table], text: str, parameters: Sequence[object]) -> None:
        self.tables, self.text, self.parameters = tables, text, parameters
        self.parts, self.public = Parts(tables, text, parameters), PublicTables()
        self.roles: dict[int, Role] = {}  # by the node's id: each stands at one place, with one set of names
        self.known: dict[int, tuple[_Names, ...]] = {}
        self.blocks = 0
        self.leveled: list[exp.Expression] = []

    def read(self, statement: exp.Expression) -> exp.Expression:
        for node in nodes_of(statement):
            if isinstance(node, (exp.Identifier, exp.Anonymous)) and str(node.this).lower().startswith(RESERVED):
                self._refuse("Q205", f"names that begin with {RESERVED} are duckdp's. Choose another.", node)
        found = self._over(statement, _Names(private={}))
        self._check(found)
        given = "?" in self.text or "$" in self.text
        return with_values(found, self.parameters, self.text) if given else found

    def _refuse(self, code: str, message: str, node: exp.Expression) -> NoReturn:
        refuse(code, message, node, self.text)

    # ---- what a query is ----------------------------------------------------------------------------------------

    def _role(self, node: exp.Expression, names: _Names) -> Role:
        """What a query gives: rows of units, an answer of its own, or what is made of answers."""
        if id(node) not in self.roles:
            self.roles[id(node)] = self._found_role(node, self._with(node, names)[-1])
        return self.roles[id(node)]

    def _found_role(self, node: exp.Expression, names: _Names) -> Role:
        if isinstance(node, exp.Subquery):
            return self._role(node.this, names)
        if is_constants(node):
            return "public"
        if isinstance(node, exp.SetOperation):
            roles = [self._role(side, names) for side in (node.this, node.expression)]
            if len({role == "private" for role in roles}) > 1:
                self._refuse("Q204", ways.UNION_MIXED, node)
            same = roles[0] == roles[1] and roles[0] in ("private", "public")
            return roles[0] if same else "outer"
        if not isinstance(node, exp.Select):
            return "outer"
        if not self._reads_rows(node, names):
            return "public" if self._is_public(node, names) else "outer"
        if node.args.get("distinct") or node.args.get("group") or any(aggregates(e) for e in node.expressions):
            return "private" if self._of_units(node, names) else "release"
        return "release" if node.args.get("having") else "private"

    def _reads_rows(self, select: exp.Select, names: _Names) -> bool:
        """Whether FROM holds rows of units; with anything else it is refused."""
        clause = select.args.get("from_")
        items = [] if clause is None else [clause.this, *(j.this for j in select.args.get("joins") or ())]
        roles = [self._reads(item, names) for item in items]
        if "private" not in roles:
            return False
        for item, role in zip(items, roles, strict=True):
            if role == "outer":
                self._refuse("Q204", ways.MIXED, item)
        own = select.args.get("with_")  # its own are among the names already
        for part in select.iter_expressions():
            for table in () if part is own else named_outside(part):
                if self._reads(table, names) == "outer" and table.name.lower() in names.outer:
                    self._refuse("Q204", ways.MIXED, table)
        return True

    def _is_public(self, select: exp.Select, names: _Names) -> bool:
        """Whether a SELECT over no rows of units reads public rows, and nothing else anywhere."""
        clause, own = select.args.get("from_"), select.args.get("with_")
        if clause is None or self._reads(clause.this, names) != "public":
            return False
        parts = [part for part in select.iter_expressions() if part is not own]
        return all(self._reads(table, names) == "public" for part in parts for table in named_outside(part))

    def _reads(self, item: exp.Expression, names: _Names) -> Role:
        """What stands in FROM: rows of units, public ones, or neither ("outer")."""
        if isinstance(item, exp.Table):
            name = item.name.lower()
            if name in names.hidden and not item.db:
                self._refuse("Q204", ways.HIDDEN, item)
            if name in names.outer and not item.db:
                return "outer"
            if name in names.private and not item.db:
                return "public" if name in names.public else "private"
            table = self.tables.get(name)
            return "outer" if table is None else "private" if table.public is None else "public"
        role = self._role(item, names) if isinstance(item, (exp.Subquery, exp.Values)) else "outer"
        return role if role in ("private", "public") else "outer"

    def _of_units(self, select: exp.Select, names: _Names) -> bool:
        """Whether each row that a SELECT with groups gives is of one unit: by the unit, or by what names it."""
        if has_levels(select):
            return False  # whose sets hold no unit, or are refused
        asked = asked_alone(select, names.private)
        scope, _, _ = Subqueries(self.tables, self.text, self.parameters).scope(asked)
        return any(scope.is_unit(n) or names_one_unit(n, scope) for n in groups_of(asked, scope, self.text))

    def _with(self, node: exp.Expression, names: _Names) -> tuple[_Names, ...]:
        """The names that are known before each CTE of a query, and after the last."""
        if id(node) not in self.known:
            self.known[id(node)] = self._named(node.args.get("with_"), names)
        return self.known[id(node)]

    def _named(self, clause: exp.Expression | None, names: _Names) -> tuple[_Names, ...]:
        if clause is None:
            return (names,)
        found, given = [], [cte.alias.lower() for cte in clause.expressions]
        for cte, name in zip(clause.expressions, given, strict=True):
            if given.count(name) > 1:
                self._refuse("Q203", f'WITH names "{cte.alias[:63]}" twice. Name each CTE once.', cte)
            itself = clause.args.get("recursive") and any(t.name.lower() == name for t in cte.this.find_all(exp.Table))
            before = _added(names, cte, "outer") if itself else names
            found.append(before)
            names = _added(names, cte, self._role(cte.this, before))
        return (*found, names)

    # ---- the outer part -----------------------------------------------------------------------------------------

    def _over(self, node: exp.Expression, names: _Names) -> exp.Expression:
        """A tree in which every release is a table with its answer, and no CTE of private rows is left."""
        if isinstance(node, exp.Table):
            role = self._reads(node, names)
            if role == "private":
                self._refuse("Q301", ways.ROWS, node)
            if role == "public" and (node.db or node.name.lower() not in names.public):
                return self._public(node, names)
        if not isinstance(node, exp.Query):
            return rebuilt(node, lambda part: self._over(part, names))
        known = self._with(node, names)
        made = self._query(node, names, known[-1])
        clause = node.args.get("with_")
        kept = [] if clause is None else self._ctes(clause, known, made)
        if clause is not None and kept:
            made.set("with_", exp.With(expressions=kept, recursive=clause.args.get("recursive")))
        return made

    def _query(self, node: exp.Expression, names: _Names, known: _Names) -> exp.Expression:
        """A query without its CTEs."""
        role = self._role(node, names) if isinstance(node, exp.Select) else "outer"
        if role == "private":
            self._refuse("Q301", ways.ROWS, node)
        if role != "release" or not isinstance(node, exp.Select):
            return rebuilt(node, lambda part: self._over(part, known), _WITH)
        if has_levels(node):
            return self._over(self._leveled(node, known), known)
        self.blocks += 1
        if self.blocks > MOST_BLOCKS:
            self._refuse("Q403", f"more than {MOST_BLOCKS} SELECTs here read private rows. Name one with WITH.", node)
        asked = asked_alone(node, known.private)
        try:
            return Block(node, asked, self.parts, lambda inner: self._over(inner, known)).over()
        except QueryError as error:
            if error.code not in ("Q205", "Q207") or not _within(node):
                raise
        self._refuse("Q204", ways.CORRELATED, node)

    def _leveled(self, node: exp.Select, known: _Names) -> exp.Expression:
        """A SELECT for each grouping set; kept, as what is known of a tree is known by its place in memory."""
        asked = asked_alone(node, known.private)
        scope, _, _ = Subqueries(self.tables, self.text, self.parameters).scope(asked)
        found = Levels(node, scope, self.text, self.parameters).union()
        assert isinstance(found, exp.Expression)
        self.leveled.append(found)
        return found

    def _public(self, node: exp.Table, names: _Names) -> exp.Table:
        """A public table, by a name of ours."""
        found = self.public.stand_in(node, self.tables[node.name.lower()])
        for key, value in rebuilt(node, partial(self._over, names=names), _NAMED).args.items():
            found.set(key, value)
        return found

    def _ctes(self, clause: exp.Expression, known: Sequence[_Names], made: exp.Expression) -> list[exp.Expression]:
        """The CTEs that are no rows of units, each over what was known before it; of public rows where it is named."""
        each = list(zip(clause.expressions, known[:-1], strict=True))
        roles = [self._role(cte.this, before) for cte, before in each]
        kept: dict[int, exp.Expression] = {}
        for wanted in ("release", "outer"), ("public",):
            for place in reversed(range(len(each))) if wanted == ("public",) else range(len(each)):
                cte, before = each[place]
                named = {table.name.lower() for tree in (made, *kept.values()) for table in named_outside(tree)}
                if roles[place] in wanted and (wanted != ("public",) or cte.alias.lower() in named):
                    kept[place] = rebuilt(cte, partial(self._over, names=before))
        return [kept[place] for place in sorted(kept)]

    def _check(self, tree: exp.Expression) -> None:
        """Nothing in the outer part asks for a protected table, or for anything, by a text.

        The analyst's instance holds no private row, whatever it is asked: this keeps the list of releases whole.
        """
        for node in nodes_of(tree):
            name = node.name.lower() if isinstance(node, (exp.Anonymous, exp.Table)) else ""  # of a quoted name, too
            if name.startswith("dp_") or (name in _ASKING and isinstance(node, exp.Anonymous)):
                self._refuse("Q202", ways.ASKING, node)


def _within(node: exp.Expression) -> bool:
    """Whether a query stands where a value is asked for each row of another, and not in FROM."""
    while isinstance(node.parent, exp.Subquery):
        node = node.parent
    return node.parent is not None and not isinstance(node.parent, (exp.From, exp.Join, exp.CTE, exp.SetOperation))


def _added(names: _Names, cte: exp.CTE, role: Role) -> _Names:
    """The names after a CTE."""
    name = cte.alias.lower()
    lost: set[str] = set()  # in their order: what reads one that is lost is lost
    for known, before in names.private.items():
        if known == name or (lost and not lost.isdisjoint(_read_by(before))):
            lost.add(known)
    private = {n: c for n, c in names.private.items() if n not in lost}
    hidden = (names.hidden | lost) - {name}
    public = names.public & private.keys()
    if role not in ("private", "public"):
        return _Names(private=private, public=public, outer=names.outer | {name}, hidden=hidden)
    if name in lost and not lost.isdisjoint(_read_by(cte)):
        return _Names(private=private, public=public, outer=names.outer - {name}, hidden=hidden | {name})
    public |= {name} if role == "public" else frozenset()
    return _Names(private=private | {name: cte}, public=public, outer=names.outer - {name}, hidden=hidden)


def _read_by(cte: exp.CTE) -> set[str]:
    return {table.name.lower() for table in named_outside(cte)}


def asked_alone(select: exp.Select, private: Mapping[str, exp.CTE]) -> exp.Select:
    """A SELECT with the CTEs of private rows that it may name, and no others."""
    made = rebuilt(select, duplicate, _WITH)
    trees = (select, *private.values())
    named = {table.name.lower() for tree in trees for table in tree.find_all(exp.Table)} if private else set()
    known = [c for name, c in private.items() if name in named or not is_constants(c.this)]  # the rest may have no rule
    if known:
        made.set("with_", exp.With(expressions=[duplicate(c) for c in known]))
    assert isinstance(made, exp.Select)
    return made

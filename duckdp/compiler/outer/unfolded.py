"""How large an outer part is once names of columns stand for what they are made of, as DuckDB unfolds them.

``SELECT 1 AS a, a + a AS b, b + b AS c, ...`` doubles with every name: forty of them are a tree of 10^12 nodes, and
DuckDB takes all memory there is while it binds them. So does a condition on nested subqueries, which it moves inwards.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NoReturn

from sqlglot import exp

from duckdp.compiler.output_names import output_name
from duckdp.compiler.parse import MAX_NODES, refuse

Sizes = Mapping[str, int]
_NONE: Sizes = {}


def require_small(outer: exp.Query, text: str) -> None:
    """Nothing, if an outer part is no larger unfolded than a statement may be.

    Raises:
        QueryError: Q104, it is larger.
    """
    assert isinstance(outer, exp.Expression)
    _Unfolded(text).query(outer, _NONE, {})


class _Unfolded:
    def __init__(self, text: str) -> None:
        self.text = text

    def query(self, node: exp.Expression, around: Sizes, known: Mapping[str, Sizes]) -> Sizes:
        """Sizes of a query's columns, by lower-case name.

        Args:
            node: a query.
            around: sizes of columns of queries around it.
            known: of the CTEs before it.
        """
        known = dict(known)
        clause = node.args.get("with_")
        for cte in clause.expressions if clause is not None else ():
            known[cte.alias.lower()] = _renamed(self.query(cte.this, around, known), cte)
        if isinstance(node, exp.Subquery):
            return self.query(node.this, around, known)
        if isinstance(node, exp.SetOperation):
            left, right = (self.query(side, around, known) for side in (node.this, node.expression))
            by_place = [*right.values(), *([1] * len(left))]
            return {name: max(size, by_place[i]) for i, (name, size) in enumerate(left.items())}
        return self._select(node, around, known)

    def _select(self, node: exp.Expression, around: Sizes, known: Mapping[str, Sizes]) -> Sizes:
        clause = node.args.get("from_")
        items = [] if clause is None else [clause.this, *(j.this for j in node.args.get("joins") or ())]
        own: dict[str, int] = {}
        for item in items:
            for name, size in self._item(item, {**around, **own}, known).items():
                own[name] = max(size, own.get(name, 1))
        names, outputs = {**around, **own}, dict[str, int]()
        for item in node.expressions:
            inner = item.unalias()
            if isinstance(inner, exp.Star) or (isinstance(inner, exp.Column) and isinstance(inner.this, exp.Star)):
                outputs |= own
                continue
            size = self._size(inner, names, known)
            if inner.find(exp.Columns) is not None:  # one output for each column, by its name
                outputs |= dict.fromkeys(own, size)
            name = (item.alias or output_name(item)).lower()
            outputs[name] = max(size, outputs.get(name, 1))
            if item.alias:  # what follows may mean it
                names[name] = max(size, names.get(name, 1))
        rest = [v for k, v in node.args.items() if k not in ("expressions", "from_", "with_")]
        whole = sum(self._size(part, names, known) for part in _parts(rest)) + sum(outputs.values())
        self._bounded(whole, node)
        return outputs

    def _item(self, item: exp.Expression, around: Sizes, known: Mapping[str, Sizes]) -> Sizes:
        """Columns of one item of FROM."""
        if isinstance(item, exp.Table):
            return _renamed(known.get(item.name.lower(), _NONE), item)
        if isinstance(item, (exp.Subquery, exp.Select, exp.SetOperation)):
            return _renamed(self.query(item, around, known), item)
        query = item.find(exp.Select, exp.SetOperation)
        return self.query(query, around, known) if isinstance(query, exp.Expression) else _NONE

    def _size(self, node: exp.Expression, names: Sizes, known: Mapping[str, Sizes]) -> int:
        """Nodes of an expression, unfolded."""
        if isinstance(node, (exp.Subquery, exp.Select, exp.SetOperation)):
            return sum(self.query(node, names, known).values())
        if isinstance(node, exp.Column):
            return names.get(node.name.lower(), 1)
        if isinstance(node, exp.Columns):
            return max(names.values(), default=1)
        size = 1 + sum(self._size(part, names, known) for part in node.iter_expressions())
        self._bounded(size, node)
        return size

    def _bounded(self, size: int, node: exp.Expression) -> None:
        if size > MAX_NODES:
            self._refuse(node)

    def _refuse(self, node: exp.Expression) -> NoReturn:
        what = "the part over private answers is too large once its names stand for what they are made of."
        refuse("Q104", f"{what} Keep parts of it as tables: CREATE TABLE ... AS FROM dp_query(...).", node, self.text)


def _parts(values: Sequence[object]) -> list[exp.Expression]:
    found: list[exp.Expression] = []
    for value in values:
        found += [v for v in (value if isinstance(value, list) else [value]) if isinstance(v, exp.Expression)]
    return found


def _renamed(sizes: Sizes, item: exp.Expression) -> Sizes:
    """The sizes by the names that an alias gives to columns."""
    alias = item.args.get("alias")
    given = [c.name.lower() for c in (alias.args.get("columns") or ())] if isinstance(alias, exp.TableAlias) else []
    old = list(sizes.items())
    return {given[i] if i < len(given) else name: size for i, (name, size) in enumerate(old)}

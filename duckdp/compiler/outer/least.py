"""min and max of a column whose values nobody declared: of those that many units have.

::

    SELECT phrase, min(url), count(*) FROM hits GROUP BY phrase

    asked:  SELECT phrase, count(*) FROM hits GROUP BY phrase
            SELECT phrase, url FROM hits GROUP BY phrase, url
    over:   SELECT c1, v, c2 FROM __dp_1 LEFT JOIN (SELECT c1 AS k1, min(c2) AS v FROM __dp_2 GROUP BY c1) ON c1 = k1

The least value itself is one person's, who may be alone with it: any mechanism that gave it would name somebody. So it
is taken of a release: which pairs of key and value at least tau noisy units have (mechanisms/threshold.py), whose
(epsilon, delta) is that of any GROUP BY with open keys. The least of what was released is post-processing, and costs no
more. It is at least the true one, and it is the least of the values that enough units have: the answer says so.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from duckdp.catalog.table import Kind
from duckdp.compiler.domains import Domains
from duckdp.compiler.expression import Expr
from duckdp.compiler.facts import facts
from duckdp.compiler.outer.trees import column, duplicate

_WORDS: dict[type[exp.Expression], str] = {exp.Min: "least", exp.Max: "greatest"}
_SOURCE = "__dp_least_{}"
GROUPS = "__dp_groups"
VALUE = "__dp_value"


def told(node: exp.Expression, written: str) -> str:
    """What a reader of the answer must know of it."""
    word = _WORDS[type(node)]
    return f"{written} is the {word} of the values that enough units have for a group of them to be shown"


def asks_least(node: exp.Expression) -> bool:
    """Whether a node is min or max of one column."""
    plain = isinstance(node, (exp.Min, exp.Max)) and not any(v for k, v in node.args.items() if k != "this")
    return plain and node.this is not None and not isinstance(node.this, (exp.Distinct, exp.Star))


def has_open_values(expr: Expr, domains: Domains) -> bool:
    """Whether the values of an expression are neither declared nor bounded, and may be keys of groups."""
    if domains.find(expr) is not None:
        return False
    known = facts(expr)
    if expr.kind is Kind.NUMBER:
        return known.integral and not known.interval.finite
    return expr.kind is Kind.TEXT or (expr.kind in (Kind.DATE, Kind.TIMESTAMP) and known.dates is None)


def source_name(number: int) -> str:
    """What the table with the least values is called, counted from 0."""
    return _SOURCE.format(number + 1)


def least_join(
    node: exp.Expression, number: int, table: str, places: Sequence[str], of_groups: Sequence[exp.Column]
) -> exp.Join:
    """The least value of each group, joined with the groups.

    Args:
        node: min or max.
        number: of the join, counted from 0.
        table: with the answer: which values are shown.
        places: its columns: the keys, and last the value.
        of_groups: the keys of the groups.
    """
    *keys, value = places
    name, own = source_name(number), [f"__dp_k{i + 1}" for i in range(len(places) - 1)]
    items = [_as(column(k), o) for k, o in zip(keys, own, strict=True)]
    select = exp.Select(
        expressions=[*items, _as(type(node)(this=column(value)), VALUE)], from_=exp.From(this=_table(table))
    )
    if keys:
        select.set("group", exp.Group(expressions=[column(k) for k in keys]))
    on: exp.Expression = exp.Boolean(this=True)
    for key, group in zip(own, of_groups, strict=True):
        same = exp.NullSafeEQ(this=duplicate(group), expression=column(key, name))
        on = same if isinstance(on, exp.Boolean) else exp.And(this=on, expression=same)
    return exp.Join(this=_named(select, name), side="LEFT", on=on)


def groups_of_values(tables: Sequence[tuple[str, Sequence[str]]], names: Sequence[str]) -> exp.Subquery:
    """The groups that have a value, where nothing else is asked of them.

    Args:
        tables: each with its columns of keys.
        names: what the keys are called; without any there is one group.
    """
    if not names:
        return _named(exp.Select(expressions=[_as(exp.Literal.number(1), "__dp_one")]), GROUPS)
    found: exp.Query | None = None
    for table, keys in tables:
        items = [_as(column(k), n) for k, n in zip(keys, names, strict=True)]
        select = exp.Select(expressions=items, from_=exp.From(this=_table(table)), distinct=exp.Distinct())
        found = select if found is None else exp.Union(this=found, expression=select, distinct=True)
    assert found is not None
    return _named(found, GROUPS)


def _table(name: str) -> exp.Table:
    return exp.Table(this=exp.to_identifier(name, quoted=True))


def _as(node: exp.Expression, name: str) -> exp.Alias:
    return exp.Alias(this=node, alias=exp.to_identifier(name, quoted=True))


def _named(query: exp.Query, name: str) -> exp.Subquery:
    return exp.Subquery(this=query, alias=exp.TableAlias(this=exp.to_identifier(name, quoted=True)))

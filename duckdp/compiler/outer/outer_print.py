"""Prints the common forms of an outer part in one pass: each node that is known here, each operator in brackets.

sqlglot prints all it can read, in ways that need to be read back before they are believed. What stands here is printed
so that it can be read in one way only: operators stand in brackets, and a node that holds anything that is not listed
is not printed at all. Then sqlglot prints the whole, and is checked (:mod:`duckdp.compiler.outer.outer_text`).
"""

from __future__ import annotations

import re
from collections.abc import Callable

from sqlglot import exp

from duckdp.compiler.outer.outer_words import BINARY, CALLS, FLAGS, OWN, RANKS, TYPES

_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_NUMBER = re.compile(r"[0-9.][0-9.]*([eE][+-]?[0-9]+)?\Z")


class _UnknownError(Exception):
    """A node, or a part of one, that is not listed."""


def print_common(outer: exp.Expr) -> str | None:
    """The text of an outer part; None: it holds something that is not printed here.

    >>> from duckdp.compiler.parse import parse_statement
    >>> print_common(parse_statement("SELECT n / 2 AS half FROM t WHERE n > 3 ORDER BY n DESC"))
    'SELECT (n / 2) AS half FROM t WHERE (n > 3) ORDER BY n DESC'
    """
    try:
        return _query(outer)
    except _UnknownError:
        return None


def _only(node: exp.Expr, *known: str) -> None:
    """Nothing, if a node holds no more than these."""
    flags = FLAGS.get(type(node), ())
    for key, value in node.args.items():
        if key not in known and key not in flags and value is not None and value is not False and value != []:
            raise _UnknownError


def _name(node: object) -> str:
    if not isinstance(node, exp.Identifier) or not isinstance(node.this, str):
        raise _UnknownError
    _only(node, "this", "quoted")
    if node.args.get("quoted"):
        return '"' + node.this.replace('"', '""') + '"'
    if _WORD.match(node.this) is None:
        raise _UnknownError
    return node.this


# ---- queries ------------------------------------------------------------------------------------------------------


def _query(node: object) -> str:
    if isinstance(node, exp.Select):
        return _select(node)
    if type(node) is not exp.Union:
        raise _UnknownError
    _only(node, "this", "expression", "distinct", "order", "limit", "offset", "with_")
    right = node.expression
    chained = type(node.this) is exp.Union and not any(node.this.args.get(k) for k in OWN)
    if not _is_plain(right) or not (chained or _is_plain(node.this)):
        raise _UnknownError
    word = "UNION" if node.args.get("distinct") else "UNION ALL"
    return f"{_with(node)}{_query(node.this)} {word} {_query(right)}{_after(node)}"


def _is_plain(node: object) -> bool:
    """Whether a query may stand beside UNION as it is."""
    return isinstance(node, exp.Select) and not any(node.args.get(k) for k in OWN)


def _select(node: exp.Select) -> str:
    _only(
        node,
        "expressions",
        "distinct",
        "from_",
        "joins",
        "where",
        "group",
        "having",
        "qualify",
        "order",
        "limit",
        "offset",
        "with_",
    )
    text = _with(node) + "SELECT "
    distinct = node.args.get("distinct")
    if distinct is not None:
        _only(distinct)
        text += "DISTINCT "
    text += _list(node.expressions, _output)
    clause = node.args.get("from_")
    if clause is not None:
        _only(clause, "this")
        text += " FROM " + _item(clause.this) + "".join(_join(j) for j in node.args.get("joins") or ())
    elif node.args.get("joins"):
        raise _UnknownError
    text += _clause(node, "where", "WHERE")
    group = node.args.get("group")
    if group is not None:
        _only(group, "expressions")
        text += " GROUP BY " + _list(group.expressions, _scalar)
    return text + _clause(node, "having", "HAVING") + _clause(node, "qualify", "QUALIFY") + _after(node)


def _clause(node: exp.Expr, key: str, word: str) -> str:
    clause = node.args.get(key)
    if clause is None:
        return ""
    _only(clause, "this")
    return f" {word} {_scalar(clause.this)}"


def _after(node: exp.Expr) -> str:
    """ORDER BY, LIMIT and OFFSET."""
    text, order = "", node.args.get("order")
    if order is not None:
        text = " " + _order(order)
    for key, word in (("limit", "LIMIT"), ("offset", "OFFSET")):
        clause = node.args.get(key)
        if clause is not None:
            _only(clause, "expression")
            text += f" {word} {_scalar(clause.expression)}"
    return text


def _order(node: exp.Expr) -> str:
    _only(node, "expressions")
    return "ORDER BY " + _list(node.expressions, _ordered)


def _ordered(node: object) -> str:
    if not isinstance(node, exp.Ordered):
        raise _UnknownError
    _only(node, "this", "desc", "nulls_first")
    text = _scalar(node.this)
    if node.args.get("desc"):
        text += " DESC"
    return text + " NULLS FIRST" if node.args.get("nulls_first") else text


def _with(node: exp.Expr) -> str:
    clause = node.args.get("with_")
    if clause is None:
        return ""
    _only(clause, "expressions")
    return f"WITH {_list(clause.expressions, _cte)} "


def _cte(node: object) -> str:
    if not isinstance(node, exp.CTE):
        raise _UnknownError
    _only(node, "this", "alias")
    return f"{_alias(node)} AS ({_query(node.this)})"


def _alias(node: exp.Expr) -> str:
    """The name of what stands in FROM, with those of its columns."""
    alias = node.args.get("alias")
    if not isinstance(alias, exp.TableAlias):
        raise _UnknownError
    _only(alias, "this", "columns")
    columns = alias.args.get("columns")
    return _name(alias.this) + (f"({_list(columns, _name)})" if columns else "")


def _item(node: object) -> str:
    """What stands in FROM."""
    if isinstance(node, exp.Table):
        _only(node, "this", "alias")
        text = _name(node.this)
    elif isinstance(node, exp.Subquery):
        _only(node, "this", "alias")
        text = f"({_query(node.this)})"
    else:
        raise _UnknownError
    return text if node.args.get("alias") is None else f"{text} AS {_alias(node)}"


def _join(node: object) -> str:
    if not isinstance(node, exp.Join):
        raise _UnknownError
    _only(node, "this", "side", "kind", "on", "using")
    side, kind = node.args.get("side") or "", node.args.get("kind") or ""
    on, using = node.args.get("on"), node.args.get("using")
    if side not in ("", "LEFT", "RIGHT", "FULL") or kind not in ("", "INNER", "OUTER", "CROSS"):
        raise _UnknownError
    if not on and not using:
        if side or kind not in ("", "CROSS"):
            raise _UnknownError
        return (" CROSS JOIN " if kind else ", ") + _item(node.this)
    words = " ".join(word for word in (side, kind, "JOIN") if word)
    after = f"ON {_scalar(on)}" if on else f"USING ({_list(using, _name)})"
    if kind == "CROSS" or (on and using):
        raise _UnknownError
    return f" {words} {_item(node.this)} {after}"


# ---- expressions --------------------------------------------------------------------------------------------------


def _list(nodes: object, each: Callable[[object], str]) -> str:
    if not isinstance(nodes, list) or not nodes:
        raise _UnknownError
    return ", ".join([each(node) for node in nodes])


def _output(node: object) -> str:
    if not isinstance(node, exp.Alias):
        return _scalar(node)
    _only(node, "this", "alias")
    return f"{_scalar(node.this)} AS {_name(node.args.get('alias'))}"


def _scalar(node: object) -> str:
    if not isinstance(node, exp.Expression):
        raise _UnknownError
    kind = type(node)
    if isinstance(node, exp.Column):
        return _column(node)
    sign = BINARY.get(kind)
    if sign is not None:
        _only(node, "this", "expression")
        return f"({_scalar(node.this)} {sign} {_scalar(node.expression)})"
    found = _FORMS.get(kind)
    if found is not None:
        return found(node)
    if kind in CALLS:
        return _call(node)
    raise _UnknownError


def _column(node: exp.Column) -> str:
    _only(node, "this", "table")
    text = _star(node.this) if type(node.this) is exp.Star else _name(node.this)
    table = node.args.get("table")
    return text if table is None else f"{_name(table)}.{text}"


def _star(node: exp.Star) -> str:
    _only(node)
    return "*"


def _literal(node: exp.Literal) -> str:
    _only(node, "this", "is_string")
    if node.is_string:
        return "'" + str(node.this).replace("'", "''") + "'"
    if _NUMBER.match(node.this) is None:
        raise _UnknownError
    return str(node.this)


def _nothing(text: str) -> Callable[[exp.Expr], str]:
    def form(node: exp.Expr) -> str:
        _only(node)
        return text

    return form


def _boolean(node: exp.Boolean) -> str:
    _only(node, "this")
    return "TRUE" if node.this else "FALSE"


def _paren(node: exp.Paren) -> str:
    _only(node, "this")
    return f"({_scalar(node.this)})"


def _prefix(sign: str) -> Callable[[exp.Unary], str]:
    def form(node: exp.Unary) -> str:
        _only(node, "this")
        return f"({sign} {_scalar(node.this)})"

    return form


def _subquery(node: exp.Subquery) -> str:
    _only(node, "this")
    return f"({_query(node.this)})"


def _cast(node: exp.Cast) -> str:
    _only(node, "this", "to")
    to = node.args.get("to")
    if type(to) is not exp.DataType or to.this not in TYPES:
        raise _UnknownError
    _only(to, "this")
    word = "TRY_CAST" if isinstance(node, exp.TryCast) else "CAST"
    return f"{word}({_scalar(node.this)} AS {TYPES[to.this]})"


def _case(node: exp.Case) -> str:
    _only(node, "this", "ifs", "default")
    text, default = "CASE", node.args.get("default")
    if node.args.get("this") is not None:
        text += f" {_scalar(node.this)}"
    for one in node.args["ifs"]:
        _only(one, "this", "true")
        text += f" WHEN {_scalar(one.this)} THEN {_scalar(one.args.get('true'))}"
    return text + ("" if default is None else f" ELSE {_scalar(default)}") + " END"


def _in(node: exp.In) -> str:
    _only(node, "this", "expressions")
    return f"({_scalar(node.this)} IN ({_list(node.expressions, _scalar)}))"


def _between(node: exp.Between) -> str:
    _only(node, "this", "low", "high")
    return f"({_scalar(node.this)} BETWEEN {_scalar(node.args['low'])} AND {_scalar(node.args['high'])})"


def _call(node: object) -> str:
    """A function of listed arguments: those that follow one that is not given are not given."""
    assert isinstance(node, exp.Func)
    name, keys = CALLS[type(node)]
    _only(node, *keys)
    given = [node.args.get(key) for key in keys]
    while given and (given[-1] is None or given[-1] == []):
        given.pop()
    parts = [part for value in given for part in (value if isinstance(value, list) else [value])]
    if isinstance(node, exp.Count) and len(parts) == 1 and type(parts[0]) is exp.Distinct:
        _only(parts[0], "expressions")
        return f"count(DISTINCT {_list(parts[0].expressions, _scalar)})"
    return f"{name}({', '.join(_scalar(part) for part in parts)})"


def _rank(node: exp.Expr) -> str:
    _only(node)
    return f"{RANKS[type(node)]}()"


def _window(node: exp.Window) -> str:
    _only(node, "this", "partition_by", "order")
    if node.args.get("over") not in (None, "OVER") or not isinstance(node.this, (exp.AggFunc, *RANKS, exp.RowNumber)):
        raise _UnknownError
    parts, order = [], node.args.get("order")
    if node.args.get("partition_by"):
        parts.append("PARTITION BY " + _list(node.args["partition_by"], _scalar))
    if order is not None:
        parts.append(_order(order))
    return f"{_scalar(node.this)} OVER ({' '.join(parts)})"


def _filtered(node: exp.Filter) -> str:
    _only(node, "this", "expression")
    if not isinstance(node.this, exp.AggFunc):
        raise _UnknownError
    _only(node.expression, "this")
    return f"{_scalar(node.this)} FILTER (WHERE {_scalar(node.expression.this)})"


_FORMS: dict[type[exp.Expr], Callable[..., str]] = {
    exp.Between: _between,
    exp.Boolean: _boolean,
    exp.Case: _case,
    exp.Cast: _cast,
    exp.TryCast: _cast,
    exp.Filter: _filtered,
    exp.In: _in,
    exp.Literal: _literal,
    exp.Neg: _prefix("-"),
    exp.Not: _prefix("NOT"),
    exp.Null: _nothing("NULL"),
    exp.Paren: _paren,
    exp.Star: _star,
    exp.Subquery: _subquery,
    exp.Window: _window,
    exp.Rank: _rank,
    exp.DenseRank: _rank,
}

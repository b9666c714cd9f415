"""What messages call the parts of a statement: the words of its author."""

from __future__ import annotations

import re

from sqlglot import exp

from duckdp.compiler.aggregates import OFFERED
from duckdp.compiler.nodes import FUNCTION_NAMES

# What does the work of functions that have no rule, where their names do not tell.
NEIGHBOURS = {
    "age": "date_part('year', age(x, y))",
    "last_day": "date_trunc('month', x)",
    "epoch_ms": "epoch(x) * 1000",
    "epoch_us": "epoch(x) * 1000000",
    "date_format": "strftime(x, '%Y-%m')",
    "to_char": "strftime(x, '%Y-%m')",
    "split": "split_part(x, '-', 2)",
    "str_split": "split_part(x, '-', 2)",
    "string_split": "split_part(x, '-', 2)",
    "string_to_array": "split_part(x, '-', 2)",
    "columns": "sum(a), sum(b), with each column written out",
    "all": "x NOT IN (1, 2)",
    "array_contains": "x IN (1, 2)",
    "isfinite": "x BETWEEN -1e300 AND 1e300",
    "isinf": "x NOT BETWEEN -1e300 AND 1e300",
    "isnan": "x IS NULL",
    "list_contains": "x IN (1, 2)",
    "list_has": "x IN (1, 2)",
    "sem": "stddev(x) / sqrt(count(x))",
    "geomean": "exp(avg(ln(greatest(x, 1))))",
    "geometric_mean": "exp(avg(ln(greatest(x, 1))))",
    "favg": "avg(x)",
    "fsum": "sum(x)",
    "kahan_sum": "sum(x)",
}
# Words before a parenthesis that are no functions
_KEYWORDS = frozenset(
    (
        "and",
        "as",
        "by",
        "case",
        "else",
        "filter",
        "from",
        "having",
        "in",
        "like",
        "limit",
        "not",
        "on",
        "or",
        "over",
        "select",
        "then",
        "when",
        "where",
    )
)
_NAME_BEFORE = re.compile(r"([A-Za-z_]\w*)\s*\Z")


def spelled(node: exp.Expression, text: str | None) -> str | None:
    """The name by which the text calls a function, lower case: sqlglot has names of its own for many.

    A node knows its name's place, or its name stands before the parenthesis that its first part stands in, unless that
    name is another node's.
    """
    if text is None:
        return None
    meta = node.meta if node._meta else {}
    start, end = meta.get("start"), meta.get("end")
    if isinstance(start, int) and isinstance(end, int) and re.match(r"\s*\(", text[end + 1 :]):
        found = _NAME_BEFORE.search(text[start : end + 1])
        return found[1].lower() if found else None
    starts = [n.meta["start"] for n in node.find_all(exp.Expression) if n._meta and "start" in n.meta]
    depth = 0
    first = min(starts, default=0)
    for at in range(first - 1 if first <= len(text) else -1, -1, -1):
        depth += {")": 1, "(": -1}.get(text[at], 0)
        if depth < 0:
            found = _NAME_BEFORE.search(text[:at])
            taken = found and any(
                n._meta and n.meta.get("start") == found.start(1) for n in node.root().find_all(exp.Expression)
            )
            return found[1].lower() if found and not taken and found[1].lower() not in _KEYWORDS else None
    return None


def spell(node: exp.Expression, text: str | None) -> str:
    """What to call a node in a message: the user's own word where there is one."""
    if isinstance(node, exp.IgnoreNulls):
        return "function any_value" if node.find(exp.AnyValue) else "IGNORE NULLS"
    if isinstance(node, exp.Func):
        return f"function {spelled(node, text) or node.sql_name().lower()}"
    return {
        "EQ": "=",
        "NEQ": "<>",
        "GT": ">",
        "GTE": ">=",
        "LT": "<",
        "LTE": "<=",
        "Add": "+",
        "Sub": "-",
        "Mul": "*",
        "Div": "/",
        "IntDiv": "//",
        "Mod": "%",
        "Pow": "**",
        "BitwiseAnd": "&",
        "DPipe": "operator ||",
        "Bracket": "indexing",
        "Dot": "a qualified function or field",
    }.get(type(node).__name__, f"{type(node).__name__.upper()}")


def instead(name: str) -> str:
    """A way out for a function without a rule: a known neighbour, the nearest that has a rule, or all."""
    if name in NEIGHBOURS:
        return f"Use {NEIGHBOURS[name]}."
    if name in FUNCTION_NAMES:
        return f"Use {name} in its plain form, without further arguments."
    near = sorted((distance(name, n), n) for n in (*FUNCTION_NAMES, *OFFERED))
    if near[0][0] <= max(1, len(name) // 4):
        return "Did you mean " + " or ".join(n for far, n in near[:2] if far == near[0][0]) + "?"
    return "Allowed are + - * / // % **, comparisons, CASE, IN, LIKE and " + ", ".join(FUNCTION_NAMES) + "."


def distance(one: str, two: str) -> int:
    """Fewest letters to add, take, change, or swap with the next (each at most once) between two words.

    >>> distance("coutn", "count"), distance("strftime", "trim")
    (1, 4)
    """
    before, last = [0] * (len(two) + 1), list(range(len(two) + 1))
    for i, a in enumerate(one):
        row = [i + 1]
        for j, b in enumerate(two):
            best = min(row[j] + 1, last[j + 1] + 1, last[j] + (a != b))
            if i and j and a == two[j - 1] and one[i - 1] == b:
                best = min(best, before[j - 1] + 1)
            row.append(best)
        before, last = last, row
    return last[-1]

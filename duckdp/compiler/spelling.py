"""What messages call the parts of a statement: the words of its author."""

from __future__ import annotations

import re
from difflib import get_close_matches

from sqlglot import exp

from duckdp.compiler.nodes import FUNCTION_NAMES

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
            return found[1].lower() if found and not taken else None
    return None


def spell(node: exp.Expression, text: str | None) -> str:
    """What to call a node in a message: the user's own word where there is one."""
    if isinstance(node, exp.IgnoreNulls):
        return "function any_value" if node.find(exp.AnyValue) else "IGNORE NULLS"
    if isinstance(node, exp.Func):
        return f"function {spelled(node, text) or node.sql_name().lower()}"
    return {
        "EQ": "=", "NEQ": "<>", "GT": ">", "GTE": ">=", "LT": "<", "LTE": "<=",
        "DPipe": "operator ||", "Bracket": "indexing", "Dot": "a qualified function or field",
    }.get(type(node).__name__, f"{type(node).__name__.upper()}")  # fmt: skip


def instead(name: str) -> str:
    """A way out for a function without a rule: the nearest that has one, or all."""
    near = get_close_matches(name, FUNCTION_NAMES, n=2, cutoff=0.6)
    if near:
        return "Did you mean " + " or ".join(near) + "?"
    return "Allowed are + - * / // % **, comparisons, CASE, IN, LIKE and " + ", ".join(FUNCTION_NAMES) + "."

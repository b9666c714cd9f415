"""The SQL of the dp functions, ``sql/front.sql``: a macro for each form of each declaration.

``dp_x(...)`` is a macro over ``query(__dp_bind(...))``, which gets all arguments as texts, in the declaration's order.
What is a list comes apart from them, and in its place among the texts what was given that is none, so that it can be
refused in the person's own words.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from duckdp.functions.spec import FUNCTIONS, REQUIRED, Parameter, Spec
from duckdp.texts import sql_text

WIDTH = 120  # characters of a line of front.sql
HEAD = """\
-- The dp functions, as an analyst's DuckDB sees them: written by python -m duckdp.functions.write, from the classes in
-- duckdp/functions. Each asks the curator at bind time what columns come back (__dp_bind: no data, no charge) and
-- fetches the released values when it runs (the charge, once per call). Arguments cross as text: first all of them in
-- order, then those that are lists (what was given in place of a list is among the texts).
-- epsilon is read as a decimal; SET VARIABLE dp_epsilon = 0.1 sets it for a session.
"""
SET = "getvariable('dp_epsilon')::VARCHAR"


def front_sql(specs: Iterable[Spec]) -> str:
    """The script that makes all functions, in ordinary layout."""
    return "\n".join([HEAD, *("\n".join(_macros(spec)) for spec in specs)])


def signature(spec: Spec) -> str:
    """How SQL calls a function: its parameters with their defaults.

    >>> from duckdp.functions.spec import FUNCTIONS
    >>> signature(FUNCTIONS["dp_rows_per_unit"])
    'dp_rows_per_unit(t, epsilon := NULL, predicate := NULL, fresh := false)'
    """
    return f"{spec.name}({', '.join(_parameter(p) for p in spec.of('sql'))})"


def complete(line: str) -> list[str]:
    """What may come next in a line of SQL: within a dp function's brackets its parameters, or what one may be.

    >>> complete("FROM dp_rows_per_unit('care', epsilon := 1, ")
    ['predicate :=', 'fresh :=']
    >>> complete("FROM dp_query('SELECT 1', mechanism := ")
    ["'auto'", "'laplace'", "'gaussian'"]
    """
    inside = _inside(line)
    spec = FUNCTIONS.get(inside[0]) if inside is not None else None
    if inside is None or spec is None:
        return []
    named = re.findall(r"(\w+)\s*:=", inside[1])
    current = re.search(r"(\w+)\s*:=\s*'?\w*$", inside[1])
    if current is not None:
        choices = [choice for p in spec.of("sql") if p.sql == current[1] for choice in p.kind.choices]
        if line.endswith("'"):
            return [f"{choice}'" for choice in choices]
        return [choice if choice in ("true", "false") else literal(choice) for choice in choices]
    return [f"{p.sql} :=" for p in spec.of("sql") if not p.placed and p.sql not in named]


def _inside(line: str) -> tuple[str, str] | None:
    """The dp function whose brackets a line ends in, and what stands in them so far; texts left out."""
    bare = re.sub(r"'(?:[^']|'')*'", "''", line)
    open_at: list[int] = []
    for place, sign in enumerate(bare):
        if sign == "(":
            open_at.append(place)
        elif sign == ")" and open_at:
            open_at.pop()
    name = re.search(r"\b(dp_\w+)\s*$", bare[: open_at[-1]]) if open_at else None
    return None if name is None else (name[1].lower(), bare[open_at[-1] + 1 :])


def literal(value: object) -> str:
    """A default as SQL writes it.

    >>> literal(None), literal(True), literal("auto"), literal(0.5)
    ('NULL', 'true', "'auto'", '0.5')
    """
    if value is None or value is REQUIRED:
        return "NULL"
    if isinstance(value, str):
        return sql_text(value)
    return str(value).lower() if isinstance(value, bool) else str(value)


def _macros(spec: Spec) -> Iterable[str]:
    known = spec.of("sql")
    if "table" in spec.forms:
        yield f"{_head(spec, known)}\nAS TABLE SELECT * FROM query({_bind(spec, known)});\n"
    if "value" in spec.forms:
        value = spec.fields[0] if len(spec.fields) == 1 else _struct(spec.fields)
        own = [p for p in known if not p.tabled]
        yield f"{_head(spec, own)}\nAS (SELECT {value} FROM query({_bind(spec, own)}));\n"


def _head(spec: Spec, parameters: Sequence[Parameter]) -> str:
    head = f"CREATE OR REPLACE MACRO {spec.name}("
    return head + _wrapped([_parameter(p) for p in parameters], ")", "  ", len(head))


def _parameter(parameter: Parameter) -> str:
    return str(parameter.sql) if parameter.placed else f"{parameter.sql} := {literal(parameter.default)}"


def _struct(names: tuple[str, ...]) -> str:
    """What the scalar form gives where that is more than one column."""
    return "{" + _wrapped([f"'{name}': {name}" for name in names], "}\n ", "  ", len("AS (SELECT {"))


def _bind(spec: Spec, own: Sequence[Parameter]) -> str:
    """The call of __dp_bind: the name, texts, lists; what the macro does not take is its default."""
    known = spec.of("sql")
    if not known:
        return f"__dp_bind('{spec.name}', [], [])"
    lists = ", ".join(f"TRY_CAST({p.sql} AS VARCHAR[])" for p in known if p.kind.listed)
    given = [_text(spec, p) if p in own else f"{literal(p.default)}::VARCHAR" for p in known]
    texts = _wrapped(given, f"], [{lists}])", "  ", 2)
    return f"__dp_bind('{spec.name}', [\n  {texts}"


def _text(spec: Spec, parameter: Parameter) -> str:
    """An argument as text; of what should be a list, only if it is none."""
    given = f"{parameter.sql}::VARCHAR"
    if parameter.kind.listed:
        return f"CASE WHEN TRY_CAST({parameter.sql} AS VARCHAR[]) IS NULL THEN {given} END"
    if not parameter.kind.falls_back:
        return given
    others = [p.sql for p in spec.of("sql") if p.kind.instead]
    fallen = f"CASE WHEN {' AND '.join(f'{o} IS NULL' for o in others)} THEN {SET} END" if others else SET
    return f"coalesce({given}, {fallen})"


def _wrapped(parts: list[str], tail: str, indent: str, used: int) -> str:
    """Parts with commas between them, and what follows the last, in lines that are not too long."""
    text = ""
    for i, part in enumerate(parts):
        piece = part + (tail if i + 1 == len(parts) else ",")
        if text and used + 1 + len(piece) > WIDTH:
            text, used = f"{text}\n{indent}{piece}", len(indent) + len(piece)
        else:
            text, used = (f"{text} {piece}", used + 1 + len(piece)) if text else (piece, used + len(piece))
    return text or tail

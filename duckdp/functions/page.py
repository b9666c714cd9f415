"""The page of the dp functions, ``docs/sql.md``: what each takes, gives and costs, in SQL and in Python."""

from __future__ import annotations

from collections.abc import Sequence

from duckdp.functions.macros import literal, signature
from duckdp.functions.spec import REQUIRED, Parameter, Spec

HEAD = """\
# The dp functions

Written by `python -m duckdp.functions.write` from the classes in `duckdp/functions`, and compared with them by a test.

On `curator.connect("ana")`, on any connection after `duckdp.register(con, curator, analyst="ana")`, in `duckdp shell`,
as methods of a session, and as commands: `duckdp ask NAME SOURCE ...`.

- **FROM** `dp_x(...)` gives a table. Where the form is **value** too, `SELECT dp_x(...)` gives the value (of several
  fields a struct) wherever a value does. A **view** needs no brackets: `FROM dp_budget`.
- Arguments are constants, parameters (`$1`) or variables (`getvariable('v')`), no columns and no subqueries: what is
  asked does not depend on rows. In SQL those without a default may be given by place, all of them by name (`:=`); in
  Python those with a default are given by name.
- epsilon is a decimal. Left out, it is what is SET for the session, `SET VARIABLE dp_epsilon = 0.1`; where `error` is
  given, that says what it costs. Nothing has a silent default.
- The same question again is the same stored answer, free; `fresh` pays for a new one.
- What does not fit is refused before anything is read or charged: `P107` names the parameter, `P101` is for epsilon,
  `P102` for delta ([errors](errors.md)).
- `dp_randomize` and its like are not among them: they live on a connection after `duckdp.local.register(con)`, read any
  table of it, and nothing is charged ([randomized response](guide.md#randomized-response)).
- `dp_explain_...` says what a function would do and cost; it is free and reads no data.
"""


def sql_page(specs: Sequence[Spec]) -> str:
    """The whole page docs/sql.md, from the declarations."""
    return "\n".join([HEAD, *_overview(specs), *(line for spec in specs for line in _section(spec))])


def _overview(specs: Sequence[Spec]) -> list[str]:
    lines = ["| function | gives | costs |", "|---|---|---|"]
    for spec in specs:
        if not spec.explains:
            lines.append(f"| [{spec.name}](#{spec.name}) | {_cell(spec.about)} | {spec.costs} |")
    explained = ", ".join(f"[{spec.name}](#{spec.name})" for spec in specs if spec.explains)
    return [*lines, "", f"What they would do and cost: {explained}.", ""]


def _section(spec: Spec) -> list[str]:
    """One function: how it is called in SQL and in Python, and its parameters."""
    forms = {"table": "FROM", "value": "value", "view": "view"}
    about = f"{spec.about[0].upper()}{spec.about[1:]}."
    example = ["```sql", f"FROM {spec.name}({spec.example})", "```", ""] if spec.example else []
    lines = [
        f"## {spec.name}",
        "",
        f"{about} Costs {spec.costs}. Form: {', '.join(forms[f] for f in spec.forms)}"
        + (f" (struct of {', '.join(spec.fields)})." if len(spec.fields) > 1 else "."),
        "",
        *example,
        "```sql",
        signature(spec),
        "```",
        "",
        "```python",
        _python(spec),
        "```",
        "",
    ]
    if spec.parameters:
        lines += ["| parameter | is | default | |", "|---|---|---|---|", *map(_row, spec.parameters), ""]
    return lines


def _python(spec: Spec) -> str:
    """How Python calls it."""
    known = spec.of("python")
    named = [f"{p.python}" if p.default is REQUIRED else f"{p.python}={p.default!r}" for p in known if not p.placed]
    placed = [str(p.python) for p in known if p.placed]
    return f"session.{spec.method}({', '.join([*placed, *(['*'] if named else []), *named])})"


def _row(parameter: Parameter) -> str:
    sql, python = parameter.sql, parameter.python
    name = f"`{sql}`" if python in (sql, None) else f"`{python}`" if sql is None else f"`{sql}`, in Python `{python}`"
    if python is None:
        name += " (SQL alone)"
    if sql is None:
        name += " (Python alone)"
    if parameter.default is REQUIRED:
        default = ""
    else:
        default = "" if parameter.default is None else f"`{literal(parameter.default)}`" if sql else ""
    return f"| {name} | {_cell(parameter.kind.word)} | {default} | {_cell(parameter.about)} |"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")

"""Names of outputs without alias are those that sqlglot's printer gives, however they are come by."""

from __future__ import annotations

from itertools import product

import pytest
from sqlglot import exp

from duckdp.compiler import output_names
from duckdp.compiler.output_names import output_name, printed
from duckdp.compiler.parse import parse_statement
from duckdp.errors import QueryError

FUNCTIONS = ("count", "SUM", "avg", "Min", "max", "median", "stddev", "var_pop", "count_if", "any_value")
ARGUMENTS = (
    *("*", "cost", "Cost", '"cost"', '"a b"', "visits.cost", "v1.v2.cost", "größe", "_x1", "", "1", "cost + 1", "x.*"),
    *("DISTINCT cost", "ALL cost", "cost /* c */", "/* c */ cost", "* /* c */", "cost -- c\n", "cost ORDER BY cost"),
    *("cost, 2", "f(cost)", "NULL", "'t'", "$1", "* EXCLUDE (a)", "COLUMNS(*)", "(cost)", "cost::INT", "date", "key"),
)
AFTER = ("", " /* c */", " -- c\n", " FILTER (WHERE cost > 1)", " OVER ()", " + 1")
RESERVED = sorted(output_names._RESERVED)


def nodes(text: str) -> list[exp.Expression]:
    try:
        tree = parse_statement(text)
    except QueryError:
        return []
    found = [e for e in getattr(tree, "expressions", ()) if isinstance(e, exp.Expression)]
    return [e for e in found if not isinstance(e, exp.Alias)]


def test_names_are_as_printed() -> None:
    seen = 0
    for function, argument, after in product(FUNCTIONS, (*ARGUMENTS, *RESERVED), AFTER):
        for node in nodes(f"SELECT {function}({argument}){after} FROM visits"):
            if not isinstance(node, exp.Column):
                assert output_name(node) == printed(node), (function, argument, after)
                seen += 1
    assert seen > 5000


@pytest.mark.parametrize("text", ["count(*)", "Avg(cost)", "SUM(Cost)", "min(x)", "MAX(_y2)"])
def test_plain_calls_are_not_printed_by_sqlglot(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(output_names, "printed", lambda node: pytest.fail("printed"))
    (node,) = nodes(f"SELECT {text} FROM visits -- 7")
    assert output_name(node).lower() == text.lower()

"""The allow-list of scalar operators: a row each, in a file by kind. What is not in the table does not exist.

A new function is one row in the file of its kind; all that others need of it (how it is read, its bounds, its NULLs,
its rule on released numbers, its rules for proofs) is in the row, or is left at a default that claims nothing.
"""

from __future__ import annotations

from duckdp.compiler.expression import Call
from duckdp.compiler.operators.analytic import ANALYTIC
from duckdp.compiler.operators.arithmetic import ARITHMETIC
from duckdp.compiler.operators.casts import CASTS
from duckdp.compiler.operators.comparison import COMPARISON
from duckdp.compiler.operators.conditional import CONDITIONAL
from duckdp.compiler.operators.dates import DATES, UNITS
from duckdp.compiler.operators.rounding import ROUNDING
from duckdp.compiler.operators.row import Digits, Facts, Operator
from duckdp.compiler.operators.text import TEXT

__all__ = ["OPERATORS", "UNITS", "Digits", "Facts", "Operator", "operator_sql", "row_of"]

ROWS = (*ARITHMETIC, *ANALYTIC, *ROUNDING, *COMPARISON, *CONDITIONAL, *CASTS, *TEXT, *DATES)
OPERATORS: dict[str, Operator] = {row.name: row for row in ROWS}


def row_of(call: Call) -> Operator:
    """The row of a call."""
    return OPERATORS[call.operator]


def operator_sql(call: Call, arguments: list[str]) -> str:
    """Print a call; its arguments are already printed."""
    return OPERATORS[call.operator].sql(arguments, call.option)

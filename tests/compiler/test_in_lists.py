"""IN takes every form of a constant, and means what DuckDB means by it."""

import duckdb
import numpy as np
import pytest

from duckdp.errors import DuckDPError
from duckdp.smooth.answer import answers
from duckdp.smooth.fit.coefficients import read_function
from duckdp.smooth.fit.points import Points, as_number_expression, evaluate
from duckdp.smooth.summary import make_basis
from tests.smooth.tables import column, connect, summarize, table

LISTS = ("1, -2", "- 2", "+3", "-1.5, -2.0", "-2e0", "- -3", "-(2)", "-0, 4", "-2, NULL", "0.5, -5", "1e0, -1e0")
KNOWN = (column("x", -5, 5, "BIGINT", nullable=False),)


@pytest.mark.parametrize("listed", LISTS)
@pytest.mark.parametrize("negated", ["", "NOT "])
def test_every_form_of_a_number_is_a_constant(listed, negated):
    text = f"CASE WHEN x {negated}IN ({listed}) THEN 1 ELSE 0 END"
    axes = make_basis(KNOWN, 20).axes
    found = evaluate(as_number_expression(read_function(text, "t", KNOWN)), Points(axes, (np.arange(11.0),)))
    with duckdb.connect() as con:
        true = con.execute(f"SELECT {text} FROM range(-5, 6) AS r(x) ORDER BY x").fetchall()
    assert found.tolist() == [v for (v,) in true]


def test_lists_of_constants_only():
    for listed in ("x", "-x", "1 + 1", "-'a'", ", ".join(map(str, range(-1100, 0)))):
        with pytest.raises(DuckDPError):
            read_function(f"CASE WHEN x IN ({listed}) THEN 1 ELSE 0 END", "t", KNOWN)


def test_answers_of_shapes_with_signed_constants():
    with connect() as con:
        con.execute("CREATE TABLE t AS SELECT (range % 11 - 5)::BIGINT AS x FROM range(11000)")
        summary = summarize(con, table(*KNOWN, expected_rows=11_000), ["x"], epsilon=1000.0, degree=20)
    texts = [f"CASE WHEN x IN ({a}, {b}) THEN 1 ELSE 0 END" for a, b in ((1, -2), (-1, 2), (-3, -4))]
    assert [round(a.value, 3) for a in answers(summary, texts)] == [0.182] * 3

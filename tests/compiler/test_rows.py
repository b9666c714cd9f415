"""The tables of operators and aggregates: each row's rules are true of DuckDB, and nobody chooses by a row's name."""

from __future__ import annotations

import ast
import math
import random
from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from pathlib import Path

import duckdb
import numpy as np
import pytest

from duckdp.catalog.table import Kind
from duckdp.compiler import aggregates
from duckdp.compiler.aggregates import AGGREGATES, AggregateRow, Released
from duckdp.compiler.emit import emit
from duckdp.compiler.expression import Call, ColumnRef
from duckdp.compiler.operators import OPERATORS, ROWS, Operator
from duckdp.compiler.vectors import Vector
from duckdp.core.rectangles import Rectangle, Span
from duckdp.errors import QueryError
from tests.gate import clinic, column, load, plan_for
from tests.imports import ROOT

NUMERIC = [row for row in ROWS if set(row.takes) == {Kind.NUMBER} and row.gives is Kind.NUMBER]
STEPS = 10  # grid steps of the measures below


def _points(row: Operator, rng: np.random.Generator, count: int) -> list[np.ndarray]:
    """Arguments of a row, where it is defined and does not overflow."""
    low, high = (-4.0, 4.0) if row.domain is None else (max(row.domain.lower, -4.0), min(row.domain.upper, 4.0))
    many = len(row.takes) + row.variadic
    return [rng.uniform(low, high, count) if i == 0 else rng.uniform(0.5, 3.5, count) for i in range(many)]


def _duckdb(row: Operator, args: list[np.ndarray], con: duckdb.DuckDBPyConnection) -> np.ndarray:
    sql = row.sql([f"CAST(a{i} AS DOUBLE)" for i in range(len(args))], _option(row))
    lists = ", ".join(f"unnest($a{i}) AS a{i}" for i in range(len(args)))
    values = {f"a{i}": a.tolist() for i, a in enumerate(args)}
    found = con.execute(f"SELECT {sql} FROM (SELECT {lists})", values).fetchall()
    return np.array([math.nan if v is None else v for (v,) in found], dtype=np.float64)


def _option(row: Operator) -> str:
    return {"units": "2", "to_integer": "INTEGER"}.get(row.name, "")


def _call(row: Operator, count: int) -> Call:
    names = [ColumnRef(column(f"a{i}", "DOUBLE")) for i in range(count)]
    return Call(row.name, tuple(names), Kind.NUMBER, _option(row))


def test_names_are_given_once() -> None:
    assert len({row.name for row in ROWS}) == len(ROWS)
    assert len({row.name for row in aggregates.ROWS}) == len(aggregates.ROWS)
    for what in ("nodes", "words"):
        families: dict[object, set[str]] = {}
        for row in ROWS:
            for one in getattr(row, what):
                families.setdefault(one, set()).add(row.family)
        assert not [one for one, found in families.items() if len(found) > 1]


@pytest.mark.parametrize("row", [r for r in NUMERIC if r.released is not None], ids=lambda r: r.name)
def test_released_values_are_duckdbs_and_slopes_theirs(row: Operator, con: duckdb.DuckDBPyConnection) -> None:
    assert row.released is not None
    rng = np.random.default_rng(1)
    args = _points(row, rng, 200)
    args[0] = np.abs(args[0]) + 0.1 if row.undefined is not None and row.name not in ("add", "sub") else args[0]
    many = len(args)

    def at(points: list[np.ndarray]) -> Vector:
        # cell i is argument i: the gradient by cell is the slope by argument
        found = row.released([Vector(p, np.eye(many)[i][:, None] * np.ones(200)) for i, p in enumerate(points)], many)
        assert found is not None
        return found

    found = at(args)
    assert np.allclose(found.value, _duckdb(row, args, con), rtol=1e-12, atol=0, equal_nan=True)
    step = 1e-6
    for i in range(many):
        moved = [[a + sign * step * (j == i) for j, a in enumerate(args)] for sign in (-1, 1)]
        slope = (at(moved[1]).value - at(moved[0]).value) / (2 * step)
        smooth = np.abs(slope) < 1e4  # not across a step
        assert found.gradient is not None
        stepped = row.bends and not row.continuous and row.settled is None and many == 1
        if not stepped:  # the error of what is rounded is told as its own
            assert np.allclose(found.gradient[i][smooth], slope[smooth], rtol=1e-4, atol=1e-5), row.name


def _boxes(row: Operator, rng: np.random.Generator) -> tuple[list[Span], list[np.ndarray]]:
    points = _points(row, rng, 300)
    sizes = [rng.choice([0.0, 1e-6, 0.1, 2.0], 300) for _ in points]
    return [Span(p - s * rng.random(300), p + s) for p, s in zip(points, sizes, strict=True)], points


def _enclosed(row: Operator, con: duckdb.DuckDBPyConnection) -> bool:
    """Whether a row's rules on intervals and rectangles hold what DuckDB computes inside."""
    rng = np.random.default_rng(2)
    spans, points = _boxes(row, rng)
    known = _duckdb(row, points, con)
    held = np.isfinite(known)
    call, good = _call(row, len(points)), True
    with np.errstate(all="ignore"):
        if row.encloses is not None:
            found = row.encloses(call, spans)
            low, high = np.broadcast_arrays(found.low, found.high, known)[:2]
            good &= not np.any((known < low - 1e-300)[held] | (known > high + 1e-300)[held])
        if row.analytic is not None:
            zero = Span(np.zeros(()), np.zeros(()))
            real = row.analytic(call, [Rectangle(s, zero) for s in spans]).re
            sure = held & ~np.isnan(real.low + real.high)
            good &= not np.any(known[sure] < real.low[sure]) and not np.any(known[sure] > real.high[sure])
            good &= bool(sure.sum() > 30)
    return good


RULED = [r for r in NUMERIC if r.encloses is not None or r.analytic is not None]


@pytest.mark.parametrize("row", RULED, ids=lambda r: r.name)
def test_intervals_and_rectangles_hold_what_duckdb_computes(row: Operator, con: duckdb.DuckDBPyConnection) -> None:
    assert _enclosed(row, con)


def test_rules_of_another_operator_are_caught(con: duckdb.DuckDBPyConnection) -> None:
    """Broken twins: a row with the rules of its neighbour."""
    for one, other in product(("exp", "sin", "mul", "floor"), ("cos", "tanh", "add", "ceil")):
        if len(OPERATORS[one].takes) == len(OPERATORS[other].takes):
            taken = OPERATORS[other]
            assert not _enclosed(replace(OPERATORS[one], encloses=taken.encloses, analytic=taken.analytic), con)


def test_what_is_entire_has_no_bad_place() -> None:
    """A row that says so is never undefined on a wide rectangle; one that does not is."""
    wide = Rectangle(Span(np.array(-9.0), np.array(9.0)), Span(np.array(-9.0), np.array(9.0)))
    for row in NUMERIC:
        if row.analytic is not None:
            call = _call(row, len(row.takes))
            with np.errstate(all="ignore"):
                found = row.analytic(call, [wide] * len(row.takes))
            assert np.isnan(found.re.low) == (not row.entire(call)), row.name


# ---- aggregates -----------------------------------------------------------------------------------------------------


def _measures(row: AggregateRow) -> Iterator[tuple[str, int]]:
    """Kinds and degrees of measures that serve a row."""
    if row.alone != "cells":
        yield row.alone, 0
    if row.of in ("rows", "values", "numbers") and row.alone != "order":
        yield from (("cells", degree) for degree in range(row.degree, 3))


def _released(kind: str, degree: int, cells: np.ndarray) -> Released:
    return Released(kind, degree, -1.0, 3.0, STEPS, cells)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", AGGREGATES)
def test_gradients_of_aggregates_are_slopes(name: str) -> None:
    row, rng = AGGREGATES[name], np.random.default_rng(3)
    for kind, degree in _measures(row):
        cells = rng.uniform(50, 400, (degree + 1 if kind == "cells" else 1, 40))
        value, gradient = row.value(_released(kind, degree, cells))
        assert value.shape == (40,)
        assert gradient.shape == cells.shape
        step = STEPS * 1000.0 if row.counts else 1e-3  # counts are rounded
        for i in range(len(cells)):
            up, down = cells.copy(), cells.copy()
            up[i] += step
            down[i] -= step if not row.counts else 0
            slope = (row.value(_released(kind, degree, up))[0] - row.value(_released(kind, degree, down))[0]) / (
                step if row.counts else 2 * step
            )
            inside = value > 0 if row.degree == 2 else np.ones(40, dtype=bool)
            assert np.allclose(gradient[i][inside], slope[inside], rtol=1e-3, atol=1e-6), (name, kind, degree)


@pytest.mark.parametrize("name", [n for n, row in AGGREGATES.items() if row.of == "numbers" and row.alone != "order"])
def test_aggregates_of_exact_cells_are_those_of_the_rows(name: str) -> None:
    """And lie in the row's range, which extreme rows reach."""
    row, rng = AGGREGATES[name], random.Random(4)
    exact = {
        "sum": sum,
        "avg": np.mean,
        "var_pop": np.var,
        "stddev_pop": np.std,
        "var_samp": lambda x: np.var(x, ddof=1),
        "stddev_samp": lambda x: np.std(x, ddof=1),
    }
    for rows in ([-1.0, 3.0], [rng.uniform(-1, 3) for _ in range(30)], [3.0] * 5):
        for kind, degree in _measures(row):
            u = [(x + 1.0) / 4.0 for x in rows]
            cells = (
                {
                    0: [len(u)],
                    1: [sum(u), len(u) - sum(u)],
                    2: [sum(v * v for v in u), sum(2 * v * (1 - v) for v in u), sum((1 - v) ** 2 for v in u)],
                }[degree]
                if kind == "cells"
                else [sum(rows)]
            )
            value = row.value(_released(kind, degree, np.array(cells)[:, None] * STEPS))[0][0]
            low, high = row.range(-1.0, 3.0)
            assert low - 1e-9 <= value <= high + 1e-9
            if name in exact:
                assert value == pytest.approx(exact[name](rows), abs=1e-6)


# ---- one place ------------------------------------------------------------------------------------------------------

# The last four hold the aggregates and the window functions of a unit's own rows, tables of their own.
TABLES = (
    "compiler/operators",
    "compiler/aggregates.py",
    "compiler/relations/unit_groups.py",
    "compiler/relations/per_unit_select.py",
    "compiler/relations/window_calls.py",
    "compiler/relations/windowed.py",
    "compiler/relations/windowing.py",
)
NAMED = ("operator", "function")  # of Call and of Aggregate
NAMES = {*OPERATORS, *(row.family for row in ROWS), *AGGREGATES}


def _constants(node: ast.AST) -> set[object]:
    return {inner.value for inner in ast.walk(node) if isinstance(inner, ast.Constant)}


def _chosen_by_name(text: str) -> list[int]:
    """Lines that look at the name of an operator or aggregate: patterns, comparisons, beginnings and ends of names."""
    found = []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.MatchClass):
            pairs = zip(node.kwd_attrs, node.kwd_patterns, strict=True)
            if any(name in NAMED and _constants(pattern) for name, pattern in pairs):
                found.append(node.lineno)
        elif isinstance(node, ast.Compare):
            sides = [node.left, *node.comparators]
            named = any(isinstance(s, ast.Attribute) and s.attr in NAMED for s in sides)
            given = any(isinstance(s, ast.Name) and s.id in ("name", "stem", *NAMED) for s in sides)
            constants = set().union(*(_constants(s) for s in sides))
            if (named and constants) or (given and constants & NAMES):
                found.append(node.lineno)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            cut = node.func.attr in ("startswith", "endswith", "removesuffix", "partition", "rpartition", "rsplit")
            if cut and isinstance(node.func.value, ast.Attribute) and node.func.value.attr in NAMED:
                found.append(node.lineno)
    return found


def _looked_over() -> Iterator[Path]:
    for folder in ("compiler", "smooth", "functions", "desk"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            if not str(path.relative_to(ROOT)).startswith(TABLES):
                yield path


def test_nobody_chooses_by_the_name_of_an_operator_or_aggregate() -> None:
    """What differs from row to row stands in the row, or in a table by rows where it is used."""
    assert {str(p.relative_to(ROOT)): lines for p in _looked_over() if (lines := _chosen_by_name(p.read_text()))} == {}


@pytest.mark.parametrize(
    "text",
    [
        "match e:\n    case Call(operator='add' | 'sub'): pass",
        "x = call.operator in ('ln', 'exp')",
        "x = aggregate.function.startswith('count')",
        "x = name == 'nullif'",
        "x = 'avg' != self.function",
    ],
)
def test_a_choice_by_name_is_seen(text: str) -> None:
    assert _chosen_by_name(text)


def test_tables_by_rows_have_rows() -> None:
    """Tables of other floors that are keyed by rows name rows that there are."""
    from duckdp.compiler import known
    from duckdp.smooth.fit import bernstein, enclosure, terms

    families = {row.family for row in ROWS}
    assert {*known.RULES, *enclosure._Enclosure.KNOWING} <= families
    assert {*bernstein.Evaluator.KNOWING, *terms._DEGREES} <= set(OPERATORS)


# ---- parts of dates -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", ["date_part('{}', born)", "date_part('{}', seen)", "extract({} FROM seen)"])
def test_a_part_of_a_date_is_a_part_or_refused(form: str, con: duckdb.DuckDBPyConnection) -> None:
    """Names of other operators are none: date_part('in', x) was printed as x IN (), charged, and answered."""
    load(con, clinic(), [])
    words = sorted({word for row in ROWS for word in (row.name, row.family, *row.words)} | {"eon", "nothing", ""})
    parts = 0
    for word in words:
        text = f"SELECT count(*) FROM clinic WHERE {form.format(word)} IS NULL"
        try:
            query = emit(plan_for(text, clinic()), 7)
        except QueryError as error:
            assert error.code in ("Q101", "Q202", "Q203"), text
            continue
        parts += 1
        con.execute(query.sql, list(query.parameters))
        con.execute(text)  # DuckDB knows it as a part
    assert parts >= 10

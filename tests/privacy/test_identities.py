"""Another question has another text: else its answer would be one that was bought for something else.

A stored answer is given again, free, to whoever asks the same question; what "the same" means is the task's canonical
text. Every kind of release is planned in many ways that differ in one public figure each. All of their texts differ,
and a text that is planned twice stands for one cost, one law of noise and one private read.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from fractions import Fraction
from itertools import combinations
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import duckdp
from duckdp.catalog.table import Kind
from duckdp.compiler import expression
from duckdp.compiler.bounds import BoundsTask, plan_bounds
from duckdp.compiler.expression import Call, ColumnRef, Expr, Literal, show
from duckdp.compiler.parse import parse_scalar
from duckdp.compiler.per_unit import plan_per_unit
from duckdp.compiler.quantile import QuantileTask, plan_quantile
from duckdp.compiler.release import SelectTask
from duckdp.compiler.scope import read_predicate
from duckdp.core.types import ATTO, NANO, Neighbours
from duckdp.smooth.buy.counted import CountedTask, plan_counted
from duckdp.smooth.buy.marginal_task import plan_marginals
from duckdp.smooth.buy.mixed_task import plan_mixed
from duckdp.smooth.buy.per_group import plan_grouped
from duckdp.smooth.buy.range_task import plan_ranged
from duckdp.smooth.buy.summary_task import plan_summary
from duckdp.smooth.buy.wishes import Wishes
from duckdp.synthetic.lp.buy.synthesis_task import SynthesisTask, plan_synthesis
from duckdp.synthetic.theorem.buy import TheoremTask, plan_theorem
from tests.gate import COLUMNS, clinic, column, plan_for
from tests.privacy.block_tasks import block_vectors, blocks
from tests.privacy.choices import chosen, hitters, small_database, top_k
from tests.privacy.clusters import kmeans
from tests.privacy.draws import OPEN, SEVERAL, TASKS, parts
from tests.privacy.pair_moments import bin_counts, count_moments, logistic, pair_moments
from tests.privacy.quantiles import quantiles, step_quantile, tree_quantiles
from tests.privacy.smooth_tasks import smooth_quantiles, spanning_tree
from tests.privacy.thresholds import above, stream, weights
from tests.privacy.workloads import workload
from tests.synthetic.plans import plan_wide

ADD_REMOVE, REPLACE = Neighbours.ADD_REMOVE, Neighbours.REPLACE
Make = Callable[..., Any]
TEXT, NUMBER, BOOLEAN = Kind.TEXT, Kind.NUMBER, Kind.BOOLEAN


def _with(name: str, **changes: Any) -> tuple[Any, ...]:
    """The declared columns, one of them changed."""
    return tuple(replace(c, **changes) if c.name == name else c for c in COLUMNS)


DECLARATIONS: tuple[dict[str, Any], ...] = (
    {"max_rows": 4},
    {"max_groups": 1},
    {"row_cap": 999},
    {"null_units": (0,)},
    {"null_units": (0, 1)},
    {"filter": "age > 20", "base": COLUMNS},
    {"filter": "age > 21", "base": COLUMNS},
    {"expected_rows": 500},
    {"relation": ("memory", "main", "other")},
    {"unit_key": "town", "unit_type": "VARCHAR"},
    {"columns": _with("age", upper=111)},
    {"columns": _with("age", lower=1)},
    {"columns": _with("age", null_value=3)},
    {"columns": _with("sex", domain=("M", "F"))},
    {"columns": _with("sex", domain=("F", "M", "X"))},
    {"columns": _with("town", other=None)},
    {"columns": _with("cost", source="price")},
)


def _varied(make: Make, base: dict[str, Any], *changes: dict[str, Any]) -> Iterator[Any]:
    """The base, each change of it alone, and the declarations."""
    for change in ({}, *changes):
        yield make(**{**base, **change})
    for declared in DECLARATIONS:
        yield make(**{**base, "table": clinic(**declared)})


def _where(text: str | None) -> Any:
    return None if text is None else read_predicate(parse_scalar(text), clinic(), text)


def _selects() -> Iterator[Any]:
    def make(text: str, table: Any, **options: Any) -> SelectTask:
        return SelectTask(plan=plan_for(text, table, **options))

    texts = (
        "SELECT count(age) FROM clinic",
        "SELECT count(cost) FROM clinic",
        "SELECT count(*) FROM clinic",
        "SELECT count(DISTINCT pid) FROM clinic",
        "SELECT count(age) FROM clinic WHERE smoker",
        "SELECT count(age) FROM clinic WHERE NOT smoker",
        "SELECT count(age) FILTER (WHERE smoker) FROM clinic",
        "SELECT count(age) FILTER (WHERE NOT smoker) FROM clinic",
        "SELECT sum(age) FROM clinic",
        "SELECT avg(age) FROM clinic",
        "SELECT avg(110 - age) FROM clinic",
        "SELECT variance(age) FROM clinic",
        "SELECT sum(cost) FROM clinic",
        "SELECT sum(5000 - cost) FROM clinic",
        "SELECT count(age) FROM clinic WHERE age > 30",
        "SELECT count(age) FROM clinic WHERE age >= 30",
        "SELECT count(age) FROM clinic WHERE town = 'Uri'",
        "SELECT count(age) FROM clinic WHERE town = 'uri'",
        "SELECT sex, count(age) FROM clinic GROUP BY sex",
        "SELECT smoker, count(age) FROM clinic GROUP BY smoker",
        "SELECT name, count(age) FROM clinic GROUP BY name",
        "SELECT level, count(age) FROM clinic GROUP BY level",
        "SELECT town, count(age) FROM clinic GROUP BY town",
        "SELECT upper(name) AS n, count(age) FROM clinic GROUP BY upper(name)",
        "SELECT sex, town, count(age) FROM clinic GROUP BY sex, town",
    )
    base = {"text": texts[0], "table": clinic()}
    more = [{"epsilon": "0.5"}, {"mechanism": "gaussian"}, {"mechanism": "gaussian", "delta": "1e-9"}]
    more += [{"table": clinic(unit_key=None)}, {"table": clinic(unit_key=None), "neighbours": REPLACE}]
    more += [{"text": texts[20], "delta": "1e-9"}]
    yield from _varied(make, base, *({"text": t} for t in texts[1:]), *more)


def _quantiles() -> Iterator[Any]:
    def make(where: str | None, **given: Any) -> QuantileTask:
        return plan_quantile(where=_where(where), **given)

    base = {"table": clinic(), "name": "cost", "where": None, "epsilon_nano": NANO, "delta_atto": 0}
    base |= {"quantile": Fraction(1, 2), "neighbours": ADD_REMOVE}
    changes: tuple[dict[str, Any], ...] = (
        {"name": "income"},
        {"where": "smoker"},
        {"where": "age > 3"},
        {"epsilon_nano": NANO + 1},
        {"delta_atto": 10},
        {"delta_atto": 11},
        {"quantile": Fraction(1, 4)},
        {"table": clinic(unit_key=None)},
        {"table": clinic(unit_key=None), "neighbours": REPLACE},
    )
    yield from _varied(make, base, *changes)


def _smooth_quantiles() -> Iterator[Any]:
    def make(where: str | None, **given: Any) -> Any:
        return smooth_quantiles(where=_where(where), **given)

    base = {"table": clinic(), "name": "cost", "keys": "sex", "where": None, "epsilon_nano": NANO, "delta_atto": 0}
    yield from _varied(
        make,
        base,
        {"name": "income"},
        {"share": Fraction(1, 4)},
        {"keys": "level"},
        {"keys": "sex, level"},
        {"keys": "level, sex"},
        {"keys": None, "intervals": True},
        {"intervals": True},
        {"where": "smoker"},
        {"epsilon_nano": NANO + 1},
        {"delta_atto": 10},
        {"delta_atto": 12},
        {"table": clinic(unit_key=None)},
        {"table": clinic(unit_key=None), "neighbours": REPLACE},
    )


def _trees() -> Iterator[Any]:
    def make(where: str | None, **given: Any) -> Any:
        return spanning_tree(where=_where(where), **given)

    base = {"table": clinic(), "name": "cost", "where": None, "epsilon_nano": NANO, "method": "smooth"}
    yield from _varied(
        make,
        base,
        {"name": "age"},
        {"ends": ("sex", "town")},
        {"ends": ("town", "sex")},
        {"method": "laplace"},
        {"intervals": True},
        {"where": "smoker"},
        {"epsilon_nano": NANO + 1},
        {"table": clinic(unit_key=None)},
        {"table": clinic(unit_key=None), "neighbours": REPLACE},
    )


def _many_quantiles() -> Iterator[Any]:
    def make(where: str | None, **given: Any) -> Any:
        return quantiles(where=_where(where), **given)

    base = {"table": clinic(), "name": "cost", "asked": (0.5,), "keys": None, "where": None, "epsilon_nano": NANO}
    yield from _varied(
        make,
        base,
        {"name": "income"},
        {"asked": (0.5, 0.6)},
        {"asked": (0.6,)},
        {"keys": "sex"},
        {"keys": "sex, level"},
        {"keys": "level, sex"},
        {"intervals": True},
        {"where": "smoker"},
        {"epsilon_nano": NANO + 1},
        {"table": clinic(unit_key=None)},
        {"table": clinic(unit_key=None), "neighbours": REPLACE},
    )


def _tree_quantiles() -> Iterator[Any]:
    def make(where: str | None, **given: Any) -> Any:
        return tree_quantiles(where=_where(where), **given)

    base = {"table": clinic(), "name": "age", "asked": (0.5,), "keys": None, "where": None, "epsilon_nano": NANO}
    changes: tuple[dict[str, Any], ...] = (
        {"name": "income"},
        {"asked": (0.5, 0.6)},
        {"asked": (0.6,)},
        {"keys": "sex"},
        {"where": "smoker"},
        {"epsilon_nano": NANO + 1},
        {"table": clinic(unit_key=None)},
        {"table": clinic(unit_key=None), "neighbours": REPLACE},
    )
    yield from _varied(make, base, *changes)


def _step_quantiles() -> Iterator[Any]:
    def make(where: str | None, **given: Any) -> Any:
        return step_quantile(where=_where(where), **given)

    base = {"table": clinic(), "name": "cost", "asked": (0.5,), "keys": None, "where": None, "epsilon_nano": NANO}
    changes: tuple[dict[str, Any], ...] = (
        {"name": "age", "step": 10},
        {"asked": (0.6,)},
        {"step": 250},
        {"keys": "sex"},
        {"where": "smoker"},
        {"epsilon_nano": NANO + 1},
        {"table": clinic(unit_key=None)},
        {"table": clinic(unit_key=None), "neighbours": REPLACE},
    )
    yield from _varied(make, {**base, "step": 500}, *changes)


def _bounds() -> Iterator[Any]:
    def make(where: str | None, **given: Any) -> BoundsTask:
        return plan_bounds(where=_where(where), **given)

    base = {"table": clinic(), "name": "cost", "where": None, "epsilon_nano": NANO, "neighbours": ADD_REMOVE}
    yield from _varied(
        make,
        base,
        {"name": "income"},
        {"name": "born"},
        {"where": "smoker"},
        {"epsilon_nano": NANO + 1},
        {"table": clinic(unit_key=None), "neighbours": REPLACE},
    )


def _pair_moments() -> Iterator[Any]:
    base = {"table": clinic(), "texts": ("age", "cost")}
    yield from _varied(
        pair_moments,
        base,
        {"texts": ("age", "income")},
        {"texts": ("cost", "age")},
        {"texts": ("age", "cost", "income")},
        {"pairs": "all"},
        {"pairs": "target"},
        {"where": "smoker"},
        {"keys": "sex"},
        {"keys": "sex, level"},
        {"keys": "level, sex"},
        {"epsilon_nano": NANO + 1},
        {"delta_atto": 10},
        {"delta_atto": ATTO // 5},
        {"table": clinic(unit_key=None)},
        {"table": clinic(unit_key=None), "neighbours": REPLACE},
    )


def _count_moments() -> Iterator[Any]:
    base = {"table": clinic(), "most": 8}
    more = ({"most": 9}, {"where": "smoker"}, {"keys": "sex"}, {"epsilon_nano": NANO + 1}, {"delta_atto": 10})
    yield from _varied(count_moments, base, *more)


def _bin_counts() -> Iterator[Any]:
    yield from _varied(
        bin_counts,
        {"table": clinic(), "text": "cost"},
        {"text": "income"},
        {"text": "5000 - cost"},
        {"bins": 9},
        {"sizes": (1, 2)},
        {"sizes": (1, 4)},
        {"where": "smoker"},
        {"keys": "sex"},
        {"epsilon_nano": NANO + 1},
        {"delta_atto": 10},
        {"table": clinic(unit_key=None)},
        {"table": clinic(unit_key=None), "neighbours": REPLACE},
    )


def _logistic() -> Iterator[Any]:
    yield from _varied(
        logistic,
        {"table": clinic(), "target": "smoker", "features": ("age", "cost")},
        {"target": "age > 40"},
        {"features": ("age", "income")},
        {"features": ("cost", "age")},
        {"features": ("age",)},
        {"where": "smoker"},
        {"ridge": 0.01},
        {"epsilon_nano": NANO + 10},
        {"table": clinic(unit_key=None)},
        {"table": clinic(unit_key=None), "neighbours": REPLACE},
    )


def _choices() -> Iterator[Any]:
    terms = ({"picks": 2}, {"epsilon_nano": NANO + 1}, {"delta_atto": 10}, {"neighbours": REPLACE}, {"where": "smoker"})
    base = {
        "table": clinic(),
        "where": None,
        "picks": 1,
        "epsilon_nano": NANO,
        "delta_atto": 0,
        "neighbours": ADD_REMOVE,
    }
    yield from _varied(top_k, {**base, "keys": "sex, town"}, {"keys": "town, sex"}, {"keys": "level"}, *terms)
    undeclared = {**base, "keys": "name", "delta_atto": 10**12}
    yield from _varied(hitters, undeclared, {"keys": "name, sex"}, *terms)
    two = ("age > 3", "smoker")
    yield from _varied(chosen, {**base, "texts": two}, {"texts": two[::-1]}, {"texts": ("age > 4", "smoker")}, *terms)


def _thresholds() -> Iterator[Any]:
    base = {"table": clinic(), "where": None, "threshold": 5, "hits": 2, "valued": False, "epsilon_nano": NANO}
    base |= {"neighbours": ADD_REMOVE}
    terms: tuple[dict[str, Any], ...] = (
        {"threshold": 6},
        {"hits": 1},
        {"valued": True},
        {"epsilon_nano": NANO + 1},
        {"neighbours": REPLACE},
        {"where": "smoker"},
    )
    two = ("age > 3", "smoker")
    yield from _varied(above, {**base, "texts": two}, {"texts": two[::-1]}, {"texts": ("age > 4", "smoker")}, *terms)
    yield from _varied(stream, base, {"opened": "another"}, *terms)


def _blocks() -> Iterator[Any]:
    base = {"table": clinic(), "aggregate": "quantile_cont(age, 0.5)", "where": None, "number": 7, "span": (0, 100)}
    base |= {"combination": "mean", "epsilon_nano": NANO, "neighbours": ADD_REMOVE}
    changes: tuple[dict[str, Any], ...] = (
        {"aggregate": "quantile_cont(age, 0.25)"},
        {"aggregate": "quantile_disc(age, 0.5)"},
        {"aggregate": "median(age)"},
        {"aggregate": "corr(age, cost)"},
        {"aggregate": "corr(cost, age)"},
        {"aggregate": "avg(age) - avg(cost)"},
        {"aggregate": "avg(cost) - avg(age)"},
        {"aggregate": "avg(age) - avg(cost) FILTER (WHERE smoker)"},
        {"aggregate": "avg(age) FILTER (WHERE smoker) - avg(cost)"},
        {"aggregate": "avg(age) FILTER (WHERE smoker)"},
        {"aggregate": "count(age) / count(*)"},
        {"aggregate": "count(*) / count(age)"},
        {"aggregate": "count(DISTINCT age) / count(*)"},
        {"aggregate": "avg(DISTINCT age)"},
        {"aggregate": "avg(DISTINCT age) FILTER (WHERE smoker)"},
        {"aggregate": "min(smoker)"},
        {"aggregate": "bool_and(smoker)::INTEGER"},
        {"aggregate": "arg_max(age, cost)"},
        {"aggregate": "arg_min(age, cost)"},
        {"aggregate": "avg(age) - 1"},
        {"aggregate": "avg(age - 1)"},
        {"where": "smoker"},
        {"number": 8},
        {"span": (0, 101)},
        {"span": (1, 100)},
        {"combination": "median"},
        {"combination": "center"},
        {"epsilon_nano": NANO + 1},
        {"neighbours": REPLACE},
        {"table": clinic(unit_key=None)},
    )
    yield from _varied(blocks, base, *changes)
    two = ("quantile_cont(age, 0.5)", "mad(cost)")
    several = {k: v for k, v in base.items() if k not in ("aggregate", "span")} | {"aggregates": two, "spans": {}}
    asked = ({"aggregates": two[::-1]}, {"aggregates": (*two, "avg(age)")}, {"spans": {two[0]: (0, 101)}})
    other = (
        {"aggregates": (two[0], "mad(age)")},
        {"aggregates": (two[0], "mad(cost) / 1")},
        *(c for c in changes if not c.keys() & {"aggregate", "span"}),
    )
    yield from _varied(block_vectors, several, *asked, *other)


def _clusters() -> Iterator[Any]:
    base = {"table": clinic(), "names": ("age", "cost"), "where": None, "k": 3, "start": "cells", "moves": 1}
    base |= {"blocks": 0, "epsilon_nano": NANO, "neighbours": ADD_REMOVE}
    changes: tuple[dict[str, Any], ...] = (
        {"names": ("cost", "age")},
        {"names": ("age", "cost", "income")},
        {"where": "smoker"},
        {"k": 4},
        {"start": "public"},
        {"start": "blocks", "blocks": 9},
        {"start": "blocks", "blocks": 10},
        {"moves": 2},
        {"epsilon_nano": NANO + 1},
        {"neighbours": REPLACE},
        {"table": clinic(expected_rows=10**7)},
    )
    yield from _varied(kmeans, base, *changes)


def _workloads() -> Iterator[Any]:
    base = {"table": clinic(), "columns": "sex, town", "questions": ("sex = 'F'", "town = 'Uri'"), "rounds": 1}
    yield from _varied(
        workload,
        {**base, "epsilon_nano": NANO, "neighbours": ADD_REMOVE},
        {"columns": "town, sex"},
        {"questions": ("sex = 'F'", "town = 'Bern'")},
        {"questions": ("town = 'Uri'", "sex = 'F'")},
        {"rounds": 2},
        {"epsilon_nano": NANO + 10},
        {"neighbours": REPLACE},
    )


def _weights() -> Iterator[Any]:
    base = {"table": clinic(), "columns": "sex, town", "threshold": None, "hits": 2, "epsilon_nano": NANO}
    yield from _varied(
        weights,
        {**base, "neighbours": ADD_REMOVE},
        {"columns": "town, sex"},
        {"columns": "sex"},
        {"threshold": 5},
        {"hits": 3},
        {"epsilon_nano": NANO + 10},
        {"neighbours": REPLACE},
        {"opened": "another"},
    )


def _per_units() -> Iterator[Any]:
    def make(table: Any, keys: str | None, where: str | None, epsilon_nano: int) -> Any:
        return plan_per_unit(table, keys, _where(where), epsilon_nano=epsilon_nano)

    yield from _varied(
        make,
        {"table": clinic(), "keys": None, "where": None, "epsilon_nano": NANO},
        {"keys": "sex"},
        {"keys": "town"},
        {"keys": "sex, town"},
        {"where": "smoker"},
        {"where": "age > 3"},
        {"epsilon_nano": NANO + 1},
    )


WISHES = (
    {"degree": 4},
    {"shape": "total_degree"},
    {"order": 1},
    {"weights": "uniform"},
    {"noise": "laplace"},
    {"noise": "cube"},
    {"noise": "gaussian"},
    {"noise": "kernels"},
    {"path": "blocks"},
)


def _summaries() -> Iterator[Any]:
    def make(table: Any, columns: tuple[str, ...], wishes: dict[str, Any], **given: Any) -> Any:
        return plan_summary(table, columns, wishes=Wishes(**wishes), **given)

    plain = {"degree": 5, "noise": "cube", "path": "sums"}
    base = {"table": clinic(), "columns": ("age", "cost"), "epsilon_nano": NANO, "neighbours": ADD_REMOVE}
    base |= {"delta_atto": ATTO // 10**6, "wishes": plain}
    changes: list[dict[str, Any]] = [{"wishes": {**plain, **w}} for w in WISHES if w != {"noise": "cube"}]
    changes += [{"columns": ("cost", "age")}, {"columns": ("age",)}, {"columns": ("age", "income")}]
    changes += [{"epsilon_nano": NANO + 10**6}, {"table": clinic(unit_key=None), "neighbours": REPLACE}]
    changes += [{"wishes": {**plain, "noise": "gaussian"}, "delta_atto": ATTO // 10**7}]
    yield from _varied(make, base, *changes)


def _counted() -> Iterator[Any]:
    def make(table: Any, columns: tuple[str, ...], smoothness: int, **given: Any) -> Any:
        return plan_counted(table, columns, wishes=Wishes(smoothness=smoothness), delta_atto=0, **given)

    base = {"table": clinic(), "columns": ("age",), "smoothness": 2, "epsilon_nano": NANO, "neighbours": ADD_REMOVE}
    yield from (
        task
        for task in _varied(make, base, {"smoothness": 3}, {"columns": ("cost",)}, {"epsilon_nano": 2 * NANO})
        if isinstance(task, CountedTask)
    )


def _ranged() -> Iterator[Any]:
    def make(table: Any, columns: tuple[str, ...], degree: int, epsilon_nano: int, delta_atto: int) -> Any:
        charge = {"epsilon_nano": epsilon_nano, "neighbours": ADD_REMOVE, "delta_atto": delta_atto}
        return plan_ranged(table, columns, **charge, wishes=Wishes(degree=degree))

    base = {"table": clinic(unit_key=None), "columns": ("age",), "degree": 4, "epsilon_nano": NANO, "delta_atto": 0}
    changes: tuple[dict[str, Any], ...] = (
        {"columns": ("cost",)},
        {"columns": ("age", "cost")},
        {"degree": 5},
        {"epsilon_nano": 2 * NANO},
        {"epsilon_nano": NANO // 50, "delta_atto": ATTO // 5},
        {"table": clinic(unit_key=None, row_cap=2000)},
    )
    yield from (make(**{**base, **change}) for change in ({}, *changes))


def _nets() -> Iterator[Any]:
    base: dict[str, Any] = {"table": clinic(), "keys": "sex, smoker", "texts": ("smoker",), "epsilon_nano": NANO}
    changes: tuple[dict[str, Any], ...] = (
        {"keys": "smoker"},
        {"texts": ("smoker", "sex = 'F'")},
        {"texts": ("NOT smoker",)},
        {"size": 4},
        {"neighbours": Neighbours.REPLACE},
        {"epsilon_nano": 2 * NANO},
        {"table": clinic(row_cap=2000)},
    )
    yield from (small_database(**{**base, **change}) for change in ({}, *changes))


def _marginals() -> Iterator[Any]:
    def make(columns: tuple[str, ...], k: int, epsilon_nano: int, delta_atto: int) -> Any:
        charge = {"epsilon_nano": epsilon_nano, "neighbours": ADD_REMOVE, "delta_atto": delta_atto}
        return plan_marginals(clinic(unit_key=None), columns, k, **charge)

    base = {"columns": ("sex", "smoker", "town"), "k": 2, "epsilon_nano": NANO, "delta_atto": 0}
    changes: tuple[dict[str, Any], ...] = ({"columns": ("sex", "town")}, {"k": 1}, {"k": 3}, {"epsilon_nano": 2 * NANO})
    yield from (make(**{**base, **change}) for change in ({}, *changes, {"k": 3, "delta_atto": ATTO // 5}))


def _mixed() -> Iterator[Any]:
    def make(columns: tuple[str, ...], by: str, degree: int, epsilon_nano: int) -> Any:
        charge = {"epsilon_nano": epsilon_nano, "neighbours": ADD_REMOVE, "delta_atto": 0}
        return plan_mixed(clinic(unit_key=None), columns, by, **charge, wishes=Wishes(degree=degree))

    base = {"columns": ("age",), "by": "sex", "degree": 4, "epsilon_nano": NANO}
    changes: tuple[dict[str, Any], ...] = ({"columns": ("cost",)}, {"by": "smoker"}, {"degree": 5})
    yield from (make(**{**base, **change}) for change in ({}, *changes, {"epsilon_nano": 2 * NANO}))


def _grouped() -> Iterator[Any]:
    def make(table: Any, columns: tuple[str, ...], by: str, degree: int, epsilon_nano: int) -> Any:
        wishes = Wishes(degree=degree)
        return plan_grouped(
            table, columns, by, epsilon_nano=epsilon_nano, neighbours=ADD_REMOVE, delta_atto=0, wishes=wishes
        )

    alike = column("gender", "VARCHAR", domain=("F", "M"))  # as many groups, of the same names
    base = {"table": clinic(unit_key=None, columns=(*COLUMNS, alike)), "columns": ("age",), "by": "sex"}
    base |= {"degree": 4, "epsilon_nano": NANO}
    changes: tuple[dict[str, Any], ...] = (
        {"by": "gender"},
        {"by": "level"},
        {"by": "town"},
        {"columns": ("cost",)},
        {"degree": 5},
        {"epsilon_nano": 2 * NANO},
    )
    for change in ({}, *changes):
        yield make(**{**base, **change})


def _syntheses() -> Iterator[Any]:
    def make(**given: Any) -> SynthesisTask:
        return plan_synthesis(**given)

    base = {"table": clinic(), "columns": ("age", "cost"), "epsilon_nano": NANO, "delta_atto": 0, "rows": 50}
    base |= {"neighbours": ADD_REMOVE, "smoothness": None, "degree": 3}
    changes: tuple[dict[str, Any], ...] = (
        {"rows": 51},
        {"epsilon_nano": NANO - 1},  # of which the summary gets the same
        {"columns": ("age",)},
        {"columns": ("age", "income")},
        {"degree": 4},
        {"epsilon_nano": 2 * NANO},
    )
    yield from _varied(make, base, *changes)


def _theorems() -> Iterator[Any]:
    def make(**given: Any) -> TheoremTask:
        return plan_theorem(**given)

    base = {"table": clinic(), "columns": ["cost"], "epsilon_nano": NANO, "delta_atto": 0, "rows": None}
    base |= {"neighbours": ADD_REMOVE, "smoothness": 2}
    changes: tuple[dict[str, Any], ...] = (
        {"rows": 60},
        {"rows": 61},
        {"columns": ["income"]},
        {"smoothness": 3},
        {"epsilon_nano": 2 * NANO},
        {"delta_atto": ATTO // 10**6},
    )
    yield from _varied(make, base, *changes)


def _wide() -> Iterator[Any]:
    def make(**given: Any) -> Any:
        return plan_wide(**given)

    base = {"table": clinic(), "columns": ["age", "cost", "smoker"], "epsilon_nano": NANO, "delta_atto": 0}
    base |= {"neighbours": ADD_REMOVE, "rows": 50, "method": "tree", "target": None}
    changes: tuple[dict[str, Any], ...] = (
        {"method": "moments", "target": ""},
        {"method": "psi"},
        {"target": "smoker"},
        {"rows": 51},
        {"columns": ["age", "income", "smoker"]},
        {"columns": ["cost", "age", "smoker"]},
        {"epsilon_nano": 2 * NANO},
        {"method": "moments", "target": "smoker"},
        {"method": "psi", "target": "smoker"},
        {"delta_atto": ATTO // 5},
        {"delta_atto": ATTO // 6},
        {"table": clinic(unit_key=None), "neighbours": REPLACE},
    )
    yield from _varied(make, base, *changes)


def _several() -> Iterator[Any]:
    for text in (SEVERAL, SEVERAL.replace("20", "21"), f"SELECT (SELECT count(*) FROM clinic), ({OPEN} LIMIT 1)"):
        yield parts(text)()
    yield parts(SEVERAL, epsilon=2)()
    yield parts(SEVERAL, mechanism="gaussian")()
    yield parts(SEVERAL, clinic(unit_key=None))()
    yield parts(SEVERAL, clinic(unit_key=None), neighbours=Neighbours.REPLACE)()


FAMILIES = (
    _selects,
    _quantiles,
    _many_quantiles,
    _tree_quantiles,
    _step_quantiles,
    _smooth_quantiles,
    _several,
    _trees,
    _bounds,
    _per_units,
    _pair_moments,
    _count_moments,
    _bin_counts,
    _logistic,
    _choices,
    _thresholds,
    _blocks,
    _clusters,
    _workloads,
    _weights,
    _summaries,
    _counted,
    _grouped,
    _ranged,
    _mixed,
    _marginals,
    _nets,
    _syntheses,
    _theorems,
    _wide,
)


def _said(task: Any) -> str:
    """Everything that a charge and a private read take from a task."""
    query = task.query(7) if hasattr(task, "query") else None
    read = None if query is None else [query.sql, [repr(p) for p in query.parameters], query.rows]
    return json.dumps([repr(task.loss), task.mechanism, task.parameters, read], default=str)


@pytest.mark.parametrize("family", FAMILIES, ids=lambda f: f.__name__)
def test_every_public_figure_is_in_the_text(family: Callable[[], Iterator[Any]]) -> None:
    tasks = list(family())
    same = [(a, b) for a, b in combinations(range(len(tasks)), 2) if tasks[a].canonical == tasks[b].canonical]
    assert same == []
    assert [t.canonical for t in family()] == [t.canonical for t in tasks]
    assert [_said(t) for t in family()] == [_said(t) for t in tasks]


def test_no_text_is_of_two_kinds() -> None:
    """Neither of two families, nor of two mechanisms."""
    texts: dict[str, str] = {}
    for family in FAMILIES:
        for task in family():
            assert texts.setdefault(task.canonical, family.__name__) == family.__name__
    kinds = {kind.__name__ for kind in TASKS}
    assert {type(t).__name__ for family in FAMILIES for t in family()} == kinds


WORDS = (
    "it's",
    "its",
    'it"s',
    'it\'s "so"',
    "'its'",
    '"its"',
    "column",
    "null",
    "None",
    "1",
    "True",
    "a, b",
    "a\\'b",
    "a\\b",
    "''",
    "x where y",
)


def _shown() -> list[str]:
    """Columns and constants of all kinds with such names and values, alone and compared with one another."""
    found: list[Expr] = [
        Literal(value, kind) for value, kind in ((None, TEXT), (1, NUMBER), (True, BOOLEAN), (1.5, NUMBER))
    ]
    found += [Literal(word, TEXT) for word in WORDS]
    found += [ColumnRef(column(word, "VARCHAR")) for word in WORDS]
    return [show(e) for e in (*found, *(Call("eq_text", pair, BOOLEAN) for pair in combinations(found, 2)))]


def test_a_column_is_no_constant_whatever_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """Texts with an apostrophe are shown in double quotes; a twin that shows such columns likewise is caught."""
    assert len(set(_shown())) == len(_shown())
    monkeypatch.setattr(expression, "_shown_name", lambda name: '"' + name.replace('"', '""') + '"')
    assert len(set(_shown())) < len(_shown())


def test_an_answer_about_a_text_is_not_given_for_a_column_of_its_name(tmp_path: Path) -> None:
    rows = pa.table({"g": ["it's"] * 90 + ["b"] * 10, "it's": ["b"] * 100, "id": list(range(100))})
    with duckdp.open({"t": rows}, ledger=str(tmp_path / "t.ledger")) as curator:
        curator.protect("t", unit_key="id", max_rows=1, row_cap=1000, columns=["g", "it's"])
        curator.budget(epsilon=100)
        curator.grant("ana", epsilon=100)
        ana = curator.session("ana")
        for text, true in (("g = 'it''s'", 90), ('g = "it\'s"', 10)):
            ((found,),) = ana.sql(f"SELECT count(*) FROM t WHERE {text}", epsilon=20).rows()
            assert abs(found - true) < 5
            assert abs(ana.noisy_count("t", predicate=text, epsilon=20).rows()[0][0] - true) < 5
        assert len(curator.ledger.charges()) == 2  # noisy_count asks the same


@pytest.mark.parametrize("forgotten", ["where", "epsilon", "column"])
def test_twin_that_forgets_a_figure_is_caught(forgotten: str, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = QuantileTask.canonical.fget

    def short(self: QuantileTask) -> str:
        quantile = replace(self.quantile, epsilon_nano=NANO) if forgotten == "epsilon" else self.quantile
        where = None if forgotten == "where" else self.where
        column = self.table.columns[1] if forgotten == "column" else self.column
        return plain(replace(self, quantile=quantile, where=where, column=column))  # type: ignore[misc, no-any-return]

    monkeypatch.setattr(QuantileTask, "canonical", property(short))
    with pytest.raises(AssertionError):
        test_every_public_figure_is_in_the_text(_quantiles)

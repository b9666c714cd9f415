"""Every output over released numbers is answered in the shape that was told, whatever was released.

What is computed from a release comes after its charge: an error there is an answer that was paid for and never comes,
and a type that follows from the values would differ from the one that was bound.
"""

from __future__ import annotations

import json
import math
import random
from collections.abc import Sequence

import pytest

from duckdp.compiler.answers import answer_columns
from duckdp.compiler.evaluate import describe_outputs, expected_half_widths
from duckdp.compiler.notes import NO_END
from duckdp.compiler.plan import Plan
from duckdp.core.types import Neighbours
from duckdp.errors import DuckDPError
from tests.gate import clinic, plan_for

KEYS = (
    "sex",
    "town",
    "level",
    "smoker",
    "year(born)",
    "born",
    "name",
    "visits",
    "seen",
    "coalesce(town, 'x')",
    "floor(score)",
    "CASE WHEN age > 3 THEN 1.5 ELSE 2 END",
    "sign(score)",
)
AGGREGATES = (
    "count(*)",
    "sum(age)",
    "avg(cost)",
    "sum(income)",
    "var_samp(income)",
    "stddev_pop(age)",
    "count(score)",
    "count(*) FILTER (WHERE smoker)",
    "avg(age) FILTER (WHERE false)",
    "sum(age) FILTER (WHERE 1 > 2)",
)
CONSTANTS = ("1", "0", "-2", "0.5", "NULL", "1e300", "1e-300", "pi()")
OTHERS = ("true", "'M'", "DATE '1991-01-01'", "TIMESTAMP '1991-01-01 01:00:00'")
OPEN = {
    "number": (None, 0, 1, -5, 9e18, 2**53),
    "text": (None, "", "é", "x" * 256),
    "boolean": (None, True),
    "date": (None, "0001-01-01", "9999-12-31"),
    "timestamp": (None, "1991-01-01T00:00:00"),
}


class Text:
    """Random outputs."""

    def __init__(self, rng: random.Random, keys: Sequence[str]) -> None:
        self.rng, self.leaves = rng, (*AGGREGATES, *AGGREGATES, *CONSTANTS, *keys)

    def number(self, depth: int) -> str:
        """A number, or a key of another kind, which may be refused."""
        if depth <= 0 or self.rng.random() < 0.2:
            return self.rng.choice(self.leaves)
        a, b, c = self.number(depth - 1), self.number(depth - 1), self.condition(depth - 1)
        return self.rng.choice(
            (
                f"({a} {self.rng.choice('+-*/%')} {b})",
                f"({a} * {b})",
                f"({a} / {b})",
                f"({a} // {b})",
                f"abs({a})",
                f"sqrt({a})",
                f"ln({a})",
                f"exp({a})",
                f"power({a}, {b})",
                f"round({a}, 1)",
                f"floor({a})",
                f"-({a})",
                f"greatest({a}, {b})",
                f"least({a}, {b}, 1)",
                f"coalesce({a}, {b})",
                f"nullif({a}, {b})",
                f"{a} > {b}",
                f"CASE WHEN {c} THEN {a} ELSE {b} END",
                f"CASE WHEN {c} THEN {a} END",
                f"CAST({a} AS BIGINT)",
                f"CASE {a} WHEN {b} THEN {self.rng.choice(OTHERS)} ELSE {self.rng.choice((*self.leaves, *OTHERS))} END",
            )
        )

    def condition(self, depth: int) -> str:
        """A condition."""
        a, b = self.number(depth), self.number(depth)
        sign = self.rng.choice(("=", "<>", "<", ">=", "IS DISTINCT FROM"))
        return self.rng.choice(
            (
                f"({a} {sign} {b})",
                f"({a} BETWEEN {b} AND {b})",
                f"({a} IN (1, 'M', NULL))",
                f"({a} IS NULL)",
                f"(NOT {a} > 1 AND {b} < 3)",
            )
        )

    def statement(self, keys: Sequence[str]) -> str:
        """A statement over those keys."""
        items = [self.number(self.rng.choice((0, 1, 2, 3))) for _ in range(self.rng.randint(1, 3))]
        group = f" GROUP BY {', '.join(keys)}" if keys else ""
        having = f" HAVING {self.condition(2)}" if self.rng.random() < 0.3 else ""
        order = f" ORDER BY {self.number(1)} DESC" if self.rng.random() < 0.3 else ""
        return f"SELECT {', '.join([*items, *keys])} FROM clinic{group}{having}{order}"


def payload(plan: Plan, rng: random.Random) -> str:
    """Something that could be released, likely or not."""

    def cells() -> list[int]:
        sizes = [int(m.steps) for m in plan.measures for _ in range(m.cells)]
        return [rng.choice((0, 1, -1, size, -size, 2**61, -(2**61), rng.randint(-100, 100) * size)) for size in sizes]

    if plan.tau is None:
        return json.dumps({"keys": None, "cells": [cells() for _ in range(plan.domain_size or 1)]})
    groups = range(rng.choice((0, 1, 5)))
    keys = [[rng.choice(OPEN[k.expr.kind.value]) for k in plan.query.keys] for _ in groups]
    return json.dumps({"keys": keys, "cells": [cells() for _ in groups]})


def problem(text: str, rng: random.Random) -> str | None:
    """What is wrong with a statement's answers, "" if nothing is; None: it is refused before any charge."""
    neighbours = rng.choice(list(Neighbours))
    declared = clinic() if neighbours is Neighbours.ADD_REMOVE else clinic(unit_key=None)
    try:
        plan = plan_for(text, declared, neighbours=neighbours, mechanism="auto")
        told = describe_outputs(plan)
        expected_half_widths(plan, None)
        expected_half_widths(plan, 100.0)
    except DuckDPError:
        return None
    if not plan.measures or (plan.domain_size or 1) > 20:
        return None
    for _ in range(3):
        found = answer_columns(plan, payload(plan, rng))
        if [(c.name, c.type, c.estimates is not None) for c in found] != told:
            return f"{text}: {told} was told"
        for column in found:
            for one in column.estimates or ():
                if one.value is not None and one.low is None and one.high is None and NO_END in (one.note or ""):
                    continue  # of what jumps while a figure in it may be anything
                if one.value is not None and (one.low is None or one.high is None or not one.low <= one.high):
                    return f"{text}: {one}"
            if any(isinstance(v, float) and math.isnan(v) for v in column.values):
                return f"{text}: NaN"
    return ""


def check(seed: int, tries: int) -> None:
    """Many."""
    rng = random.Random(seed)
    found = []
    for _ in range(tries):
        keys = rng.sample(KEYS, rng.choice((0, 0, 1, 1, 2)))
        found.append(problem(Text(rng, keys).statement(keys), rng))
    assert not [f for f in found if f], [f for f in found if f][:5]
    assert found.count("") > tries // 10


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_whatever_is_released_is_answered_in_the_shape_that_was_told() -> None:
    check(1, 400)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("seed", range(2, 8))
def test_more_of_what_may_be_released(seed: int) -> None:
    check(seed, 6000)


SIZED = (
    "sum(age) / (count(*) * 1e-200)",
    "(sum(age) * 1e-200) / count(*)",
    "(sum(age) * 1e300) / (sum(income) * 1e300)",
    "(sum(age) * 1e-300) / (sum(income) * 1e-300)",
    "sum(age) * 1e300 / (count(*) * 1e-300)",
    "sum(age) * 1e-300 + sum(income) * 1e-300 + avg(cost) + count(*)",
    "sum(age) * 1e200 + count(*)",
)


@pytest.mark.parametrize("text", SIZED)
def test_numbers_of_any_size_are_answered(text: str) -> None:
    """They raised a ZeroDivisionError, or an OverflowError, when the charge was spent."""
    for neighbours in Neighbours:
        declared = clinic() if neighbours is Neighbours.ADD_REMOVE else clinic(unit_key=None)
        plan = plan_for(f"SELECT {text} AS v FROM clinic", declared, neighbours=neighbours)
        cells = [[int(3 * m.steps) for m in plan.measures for _ in range(m.cells)]]
        (column,) = answer_columns(plan, json.dumps({"keys": None, "cells": cells}))
        assert column.estimates is not None
        (one,) = column.estimates
        assert one.value is None or (one.low is not None and one.high is not None and one.low <= one.value <= one.high)

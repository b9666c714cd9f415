"""Which method "auto" takes: by the errors that public figures predict, or for broad smooth queries by their noise."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest

from duckdp.core.types import NANO, Neighbours
from duckdp.errors import ParameterError
from duckdp.synthetic.asked import KERNELS, Asked
from duckdp.synthetic.methods import plan_table
from duckdp.synthetic.score import moments_errors, tree_errors, tree_over_moments
from duckdp.synthetic.unit.lay_out import lay_out
from tests.smooth.tables import column, table

COLUMNS = tuple(column(f"c{i}", -1.0, 1.0, nullable=False) for i in range(6))


def asked(columns: int, rows: int, epsilon: float = 1.0, **more: object) -> Asked:
    base = Asked(
        table=table(*COLUMNS[:columns], expected_rows=rows),
        columns=None,
        epsilon_nano=round(epsilon * NANO),
        delta_atto=0,
        neighbours=Neighbours.ADD_REMOVE,
    )
    return replace(base, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize("columns", [2, 3, 6])
@pytest.mark.parametrize("nullable", [False, True])
def test_a_tree_where_its_predicted_errors_are_smaller(columns: int, nullable: bool) -> None:
    """From many rows to few: trees first, then moments, and never a tree again."""
    chosen = []
    for rows in (10**6, 10**5, 10_000, 1_000, 300, 100, 30, 10):
        given = asked(columns, rows)
        given = replace(
            given, table=replace(given.table, columns=tuple(replace(c, nullable=nullable) for c in given.table.columns))
        )
        units, request = lay_out(given, listed=True)
        chosen.append(plan_table(given).parameters["method"])
        assert chosen[-1] == ("tree" if tree_over_moments(units, request) <= 1 else "moments")
    assert chosen[:3] == ["tree"] * 3
    assert chosen[-1] == "moments"
    assert sorted(chosen, reverse=True) == chosen


def test_predicted_errors_fall_with_the_noise() -> None:
    for errors in (tree_errors, moments_errors):
        found = [errors(*lay_out(asked(6, rows), listed=True)) for rows in (100, 1_000, 10_000, 100_000)]
        assert all(a.noise > b.noise for a, b in pairwise(found))
        assert all(a.histogram >= b.histogram for a, b in pairwise(found))
    # the twin of a score that looks at histograms alone: few rows of many columns would be a tree's
    units, request = lay_out(asked(6, 100), listed=True)
    assert tree_errors(units, request).histogram < moments_errors(units, request).histogram
    assert tree_over_moments(units, request) > 1


def test_one_column_is_a_tree_whatever_the_noise() -> None:
    for rows in (10, 10**6):
        assert plan_table(asked(1, rows)).parameters["method"] == "tree"


def test_broad_queries_are_asked_for_by_name() -> None:
    for rows in (100, 10**6):
        assert plan_table(asked(6, rows, purpose=KERNELS)).parameters["method"] == "moments"
    for purpose in ("", "Kernels", "queries"):
        with pytest.raises(ParameterError) as refused:
            plan_table(asked(6, 100, purpose=purpose))
        assert (refused.value.code, refused.value.name) == ("P107", "purpose")


def test_the_purpose_is_no_part_of_a_question() -> None:
    """It chooses; what was chosen is the question, and a stored table is given again whoever chose."""
    one, other = (plan_table(asked(6, 100, purpose=p), "moments") for p in ("tables", KERNELS))
    assert one.canonical == other.canonical

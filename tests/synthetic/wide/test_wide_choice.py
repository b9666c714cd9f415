"""Which method "auto" takes: by the noise of a tree's counts alone, unless broad smooth queries are asked for."""

from __future__ import annotations

from dataclasses import replace

import pytest

from duckdp.core.types import NANO, Neighbours
from duckdp.errors import ParameterError
from duckdp.synthetic.asked import KERNELS, Asked
from duckdp.synthetic.methods import plan_table
from duckdp.synthetic.tree.plan import _CROSSING
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
def test_a_tree_up_to_the_crossing_and_moments_beyond(columns: int) -> None:
    """r = sqrt(2) k / (epsilon n). On yesterday's code: a program for three columns, moments for more, whatever r."""
    edge = 2**0.5 * columns / _CROSSING
    assert plan_table(asked(columns, round(1.01 * edge))).parameters["method"] == "tree"
    assert plan_table(asked(columns, round(0.99 * edge))).parameters["method"] == "moments"


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

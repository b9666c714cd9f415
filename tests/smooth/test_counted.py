"""Degrees that follow from the number of rows: the part that is released, what it costs, what it does not show."""

import dataclasses
from fractions import Fraction

import numpy as np
import pytest

from duckdp.core.noise import laplace_scale
from duckdp.core.task import Stages
from duckdp.core.types import NANO, Neighbours
from duckdp.errors import ParameterError
from duckdp.smooth.basis import degree_from
from duckdp.smooth.buy.counted import CountedTask, plan_counted
from duckdp.smooth.buy.summary_task import SummaryTask
from duckdp.smooth.buy.wishes import Wishes
from duckdp.smooth.summary import SmoothSummary
from tests.smooth.tables import column, connect, table

ADD_REMOVE, REPLACE = Neighbours.ADD_REMOVE, Neighbours.REPLACE
TABLE = table(column("a", nullable=False), column("b", 0, 5, "INTEGER", nullable=False), row_cap=10**6)


def plan(tab=TABLE, neighbours=ADD_REMOVE, epsilon=1.0, delta_atto=0, columns=("a", "b"), **wishes):
    return plan_counted(
        tab,
        columns,
        epsilon_nano=round(epsilon * NANO),
        neighbours=neighbours,
        delta_atto=delta_atto,
        wishes=Wishes(**{"smoothness": 1, **wishes}),
    )


def release(task, n):
    con = connect()
    con.execute(f"CREATE TABLE t AS SELECT random() AS a, (i % 6)::INTEGER AS b FROM range({n}) r(i)")
    return SmoothSummary.load(task.work(0)(Stages(lambda q: con.execute(q.sql, list(q.parameters)).fetchall())))


@pytest.mark.parametrize("neighbours", [ADD_REMOVE, REPLACE])
@pytest.mark.parametrize("n", [2000, 60_000])
def test_the_degree_is_that_of_the_table(neighbours, n):
    task = plan(neighbours=neighbours)
    assert isinstance(task, CountedTask)
    summary = release(task, n)
    near = {degree_from(1, rows, 2) for rows in (n - 600, n, n + 600)}
    assert summary.basis.degree in near
    assert summary.basis.degree < task.largest.basis.degree == summary.planned
    assert summary.basis.degrees[1] == 6  # listed by value, as it was read
    assert len(summary.moments) == summary.basis.size
    assert summary.sums[0] == pytest.approx(n, abs=500)
    x = np.array([[1.0, 0.2]])  # the sums stand where they should: sum of T_1 over values is near 0, T_0 is n
    assert summary.basis.evaluate(x).shape == (1, summary.basis.size)
    place = summary.basis.indices.tolist().index([0, 1])
    assert abs(summary.sums[place]) < 600


def test_declared_rows_and_given_degrees_need_no_count():
    assert isinstance(plan(dataclasses.replace(TABLE, expected_rows=500)), SummaryTask)
    assert isinstance(plan(smoothness=None, degree=4), SummaryTask)


def test_the_parts_add_up_to_the_charge():
    for delta in (0, 1, 10**10):
        task = plan(delta_atto=delta, noise="gaussian" if delta else "auto", epsilon=0.7)
        count, rest = task._parts()
        assert count + rest == 700_000_000
        assert (task.loss.epsilon_nano, task.loss.delta_atto) == (700_000_000, delta)
        smaller = task.at(3)
        assert smaller.plan.noise.deviation < task.largest.plan.noise.deviation
        if delta:
            spent = sum(
                n * task.largest.sensitivity.linf**2 / (2 * s**2)
                for n, s in zip(smaller.plan.noise.sizes.tolist(), smaller.plan.noise.scales, strict=True)
            )
            assert spent + (count / NANO) ** 2 / 2 <= task.loss.rho_pico / 1e12 * (1 + 1e-9)


def test_an_empty_table_and_one_row_give_the_smallest_degree_or_near_it():
    for n in (0, 1):
        assert release(plan(), n).basis.degree <= degree_from(1, 800, 2)


def test_the_ledger_sees_nothing_of_the_count():
    task = plan()
    assert task.parameters["degree"] == "from the count"
    assert "released with 1/20 of epsilon" in task.describe()[0]
    assert task.canonical != plan(smoothness=2).canonical


# ---- a count meets no range: an epsilon and a row_cap at which the sums take all of it


def tight():
    """As asked once: 20,158 rows answered and 20,159 did not, as the exact count met a sampler's range."""
    tab = table(column("age", 0, 110, "INTEGER"), row_cap=100_000)
    return plan(tab, columns=("age",), epsilon=0.00047914, smoothness=30)


def cells(task, n):
    """Exact rows of the private read, as a table of n rows of age 50 gives them."""
    con = connect()
    con.execute(f"CREATE TABLE t AS SELECT 50 AS age FROM range({n})")
    query = task.query(0)
    return con.execute(query.sql, list(query.parameters)).fetchall()


@pytest.mark.parametrize("n", [0, 20_158, 20_159, 100_000, 250_000])
def test_no_number_of_rows_is_out_of_range(n):
    task = tight()
    scale = laplace_scale(Fraction(task._parts()[0], NANO), task.largest.sensitivity.linf)
    assert (task.largest.table.row_cap << task.largest.moments.bits) + 100 * scale > 2**62  # what was required of it
    summary = SmoothSummary.load(task.work(0)(Stages(lambda _: cells(task, n))))
    assert summary.basis.degree >= 2


@pytest.mark.parametrize("count", [-(2**200), -1, 0, 2**61, 2**63, 2**200])
def test_every_count_has_a_degree_and_a_plan(count):
    for task in (tight(), plan(), plan(noise="gaussian", delta_atto=10**10), plan(noise="cube")):
        degree = task._degree(task._noisy_count(count))
        assert 2 <= degree <= task.largest.basis.degree
        assert task._planned(degree).basis.degree == degree


def test_a_degree_that_cannot_be_planned_gives_way_to_the_largest(monkeypatch):
    """Whatever the noisy count says: after the charge nothing is refused."""
    task, plain = plan(), CountedTask.at

    def refuses(self, degree):
        if degree < self.largest.basis.degree:
            raise ParameterError("P103", "scale", 0, "must be in range.")
        return plain(self, degree)

    monkeypatch.setattr(CountedTask, "at", refuses)
    assert release(task, 50).basis.degree == task.largest.basis.degree


def test_what_the_largest_degree_cannot_have_is_refused_before_the_charge(monkeypatch):
    monkeypatch.setattr(CountedTask, "at", lambda self, degree: laplace_scale(Fraction(1, 2**90), 1))
    with pytest.raises(ParameterError):
        plan()

"""Values of domains counted by themselves: what a row moves, when it pays, what it gains, what was bought before."""

import itertools
import json
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from duckdp.core.types import Neighbours
from duckdp.synthetic.moments.buy.domain_values_sql import print_choices
from duckdp.synthetic.moments.buy.links import collect
from duckdp.synthetic.moments.domain_values import PAYS, Choices, consistent, split
from duckdp.synthetic.moments.make.all_means import all_means, mean_deviation
from duckdp.synthetic.moments.make.rows import make_rows
from duckdp.synthetic.moments.plan import make_plan
from duckdp.synthetic.moments.released import CLASSES
from duckdp.synthetic.unit.buy.purse import counts_sensitivity
from duckdp.synthetic.unit.charge_terms import BITS, Terms, moment_terms
from duckdp.synthetic.unit.features import ONE, Features
from duckdp.synthetic.unit.packed import pack, unpack
from duckdp.synthetic.unit.request import Request
from duckdp.synthetic.unit.stages import Noisy
from tests.smooth.tables import connect
from tests.synthetic.plans import open_purse, request

ADD_REMOVE, REPLACE = Neighbours.ADD_REMOVE, Neighbours.REPLACE
SIZES = ((2,), (3,), (1, 4), (2, 3, 2))


def groups_of(sizes, start=0):
    ends = start + np.cumsum([0, *sizes])
    return tuple(tuple(range(a, b)) for a, b in itertools.pairwise(ends.tolist()))


def every_row(sizes):
    """All rows that a table of these domains can have, as unit columns."""
    rows = []
    for places in itertools.product(*(range(k) for k in sizes)):
        rows.append(np.concatenate([2.0 * (np.arange(k) == at) - 1 for k, at in zip(sizes, places, strict=True)]))
    return np.array(rows)


def norms(changes):
    sizes = np.abs(changes)
    return sizes.sum(axis=1).max(), (sizes**2).sum(axis=1).max(), sizes.max()


def changes_of(values, relation):
    """How sums change, of all rows that are added or taken, or replaced by others."""
    if relation is ADD_REMOVE:
        return values
    return (values[:, None] - values[None]).reshape(-1, values.shape[1])


@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize("relation", list(Neighbours))
def test_no_row_moves_counts_further_than_claimed_and_some_as_far(sizes, relation):
    claimed = counts_sensitivity(len(sizes), 1, relation)
    values = Choices(dimensions=sum(sizes), groups=groups_of(sizes)).rows(every_row(sizes))
    reached = norms(changes_of(values, relation))
    assert all(r <= c for r, c in zip(reached, (claimed.l1, claimed.l2_squared, claimed.linf), strict=True))
    if relation is ADD_REMOVE or min(sizes) > 1:
        assert reached == (claimed.l1, claimed.l2_squared, claimed.linf)


@pytest.mark.parametrize("relation", list(Neighbours))
def test_twins_move_further(relation):
    """Columns of -1 and 1 with the bounds of counts; one group left out; the bounds of the other relation."""
    sizes = (2, 3, 2)
    rows, claimed = every_row(sizes), counts_sensitivity(3, 1, relation)
    assert norms(changes_of(rows, relation))[0] > claimed.l1
    values = Choices(dimensions=7, groups=groups_of(sizes)).rows(rows)
    assert norms(changes_of(values, relation))[0] > counts_sensitivity(2, 1, relation).l1
    assert norms(changes_of(values, REPLACE))[0] > counts_sensitivity(3, 1, ADD_REMOVE).l1


def test_a_row_counts_once_in_each_group_whatever_its_columns_are():
    """Also where columns are no indicators of one value; SQL and rows in memory are the same."""
    rng = np.random.default_rng(1)
    u = np.concatenate([rng.choice([-1.0, 0.0, 0.5, 1.0], (200, 7)), np.ones((1, 7)), -np.ones((1, 7))])
    choices = Choices(dimensions=7, groups=groups_of((2, 3), 1))
    found = choices.rows(u)
    assert found.shape == (202, 5)
    assert (found[:, :2].sum(axis=1) <= 1).all()
    assert (found[:, 2:].sum(axis=1) <= 1).all()
    names = [f'"u{i}"' for i in range(7)]
    with connect() as con:
        con.register("frame", {f"u{i}": u[:, i].copy() for i in range(7)})
        for n in (0, 1, 57, 202):
            sql = print_choices(choices, f"(SELECT * FROM frame LIMIT {n})", names, BITS)
            assert list(con.execute(sql).fetchone()) == (found[:n].sum(axis=0) * 2**BITS).tolist()


def asked(sizes, others, relation=ADD_REMOVE, *, epsilon="1", delta="0", gaussian=None, **more):
    return request(
        others + sum(sizes),
        expected_rows=more.pop("expected_rows", 2000),
        epsilon=epsilon,
        delta=delta,
        neighbours=relation,
        groups=groups_of(sizes, others),
        signs=tuple(range(others, others + sum(sizes))),
        gaussian=gaussian,
        counted=True,
        **more,
    )


@pytest.mark.parametrize("relation", list(Neighbours))
@pytest.mark.parametrize("gaussian", [False, True])
def test_the_share_is_the_best_by_the_formula_and_only_where_it_pays(relation, gaussian):
    for others, sizes in ((0, (3,)), (2, (10,)), (5, (6,)), (6, (5, 7, 16, 6, 14, 2, 5, 41)), (1, (3, 5, 4, 4, 3))):
        r = asked(sizes, others, relation, delta="1e-6")
        terms = Terms(epsilon_nano=10**9, delta_atto=10**12, neighbours=relation, gaussian=gaussian)
        inside, move = sum(sizes), 2 if relation is REPLACE else 1
        size = 1 + (relation is ADD_REMOVE)
        change = counts_sensitivity(len(sizes), 1, relation)

        def error(share, count, change=change, move=move, inside=inside):
            """Squared errors of ``count`` means and of the counts', from the mechanisms' own variances."""
            if gaussian:
                apart = count * count * move**2 / 2 / (1 - share)
                return apart + (4 * inside * change.l2_squared / 2 / share if share else 0)
            apart = count * (count + 1) * (count + 2) / 3 * move**2 / (1 - share) ** 2
            return apart + (4 * inside * 2 * change.l1**2 / share**2 if share else 0)

        shares = np.arange(1, 1000) / 1000
        best = min(error(s, others + size) for s in shares)
        found = split(r, terms, counted=False)
        whole = error(0, others + inside + size)
        assert (found > 0) == (best <= PAYS * whole), (others, sizes)
        if found:
            assert error(float(found), others + size) <= 1.001 * best


def sums_over(u):
    """Exact sums of rows in memory, as DuckDB computes them."""
    return lambda features, bits: (
        len(u),
        [int(v) for v in np.floor(features.rows(u) * 2.0**bits + 0.5).sum(axis=0)],
    )


def table(sizes, others, rows, seed):
    rng = np.random.default_rng(seed)
    columns = [rng.uniform(-1, 1, (rows, others)) ** 3]
    for k in sizes:
        shares = rng.dirichlet(np.full(k, 0.5))
        columns.append(2.0 * (rng.choice(k, rows, p=shares)[:, None] == np.arange(k)) - 1)
    return np.concatenate(columns, axis=1)


@pytest.mark.parametrize(
    ("relation", "delta", "gain"), [(ADD_REMOVE, "0", 0.7), (REPLACE, "0", 0.7), (ADD_REMOVE, "1e-6", 0.8)]
)
def test_means_are_nearer_by_what_was_predicted(relation, delta, gain):
    """Rms error of all means, median of 20 releases, with counts and without: within six tenths of the formula's.

    The formula leaves out the count that sums are divided by: means near -1 all move with it, by thrice the rest in one
    release of a thousand.
    """
    sizes, others, rows = (8, 12, 20), 3, 2000
    u = table(sizes, others, rows, 2)
    truth, errors = u.mean(axis=0), []
    for counted in (True, False):
        r = replace(asked(sizes, others, relation, epsilon="0.5", delta=delta), counted=counted)
        plan, found, told = make_plan(r, moment_terms(r)), [], []
        alone = dict.fromkeys(("products", "scores", "pairs", "picks", "values"), Fraction(0))
        for _ in range(20):
            out = collect(r, replace(plan, **alone, strong=0), open_purse(r), sums_over(u))
            assert (out.choices is not None) == counted
            raw = out.means.means if out.choices is None else np.concatenate([out.means.means, out.choices.means])
            found.append(np.mean((raw - truth) ** 2))
            told.append(mean_deviation(out))
            assert all_means(r, out).shape == truth.shape
        errors.append(np.sqrt(np.median(found)))
        assert errors[-1] == pytest.approx(np.mean(told), rel=0.6)
    assert errors[0] <= gain * errors[1]


def test_shares_of_a_domain_add_up_to_one():
    means = np.array([-0.9, 0.3, -0.2, 0.5, -1.2])
    found = consistent(means, ((4, 5), (6, 7, 8)))
    assert (1 + found[:2]).sum() == pytest.approx(2)
    assert (1 + found[2:]).sum() == pytest.approx(2)
    assert means[0] == -0.9


def test_rows_are_made_of_domains_alone():
    r = asked((6, 9), 0, rows=300)
    u = table((6, 9), 0, 2000, 3)
    plan = make_plan(r, moment_terms(r))
    assert plan.choices
    purse = open_purse(r)
    out = collect(r, plan, purse, sums_over(u))
    assert purse.spent == plan.total
    assert len(out.means.means) == 0
    made = make_rows(r, plan, out)
    assert np.abs(made.unit.mean(axis=0) - u.mean(axis=0)).mean() < 0.1


# ---- what was bought by earlier versions


def test_requests_and_releases_of_earlier_versions_are_read_as_they_were():
    r = asked((8, 12), 2)
    raw = pack(r)
    del raw["fields"]["counted"]
    old = unpack(json.loads(json.dumps(raw)), (Request,))
    assert not old.counted
    assert not make_plan(old, moment_terms(old)).choices
    u = table((8, 12), 2, 2000, 4)
    out = collect(old, make_plan(old, moment_terms(old)), open_purse(old), sums_over(u))
    stored = pack(out)
    del stored["fields"]["choices"]
    again = unpack(json.loads(json.dumps(stored)), (Noisy, *CLASSES))
    assert again.choices is None
    assert (all_means(old, again) == all_means(old, out)).all()


def test_a_purchase_that_an_earlier_version_began_goes_on_by_its_plan():
    r = asked((8, 12), 2)
    old, u, texts = replace(r, counted=False), table((8, 12), 2, 2000, 5), []
    first = open_purse(old)
    plan = make_plan(old, first)
    features = Features(dimensions=r.columns, size=True, factors=(ONE,))
    first.keep = lambda draw: _stored(texts, draw)
    first.buy(sums_over(u), features, plan.means, count=plan.count)
    left = list(texts)
    purse = open_purse(r)
    purse.keep = lambda draw: unpack(json.loads(left.pop(0)), (Noisy,)) if left else draw()
    out = collect(r, make_plan(r, purse), purse, sums_over(u))
    assert out.choices is None
    assert len(out.means.means) == r.columns
    assert purse.spent == plan.total
    assert [share for _, _, share in out.stages] == [s for s in plan.shares.values() if s]


def _stored(texts, draw):
    texts.append(json.dumps(pack(draw())))
    return unpack(json.loads(texts[-1]), (Noisy,))

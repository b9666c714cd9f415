"""The default basis: narrow where it is said to be, by public figures; and what was bought before it stays free."""

import random

import numpy as np
import pyarrow as pa
import pytest

import duckdp
from duckdp.core.types import NANO, Neighbours
from duckdp.errors import DuckDPError
from duckdp.functions.smooth import BuySummary
from duckdp.ledger.charges import MAX_ATTEMPTS
from duckdp.smooth.answer import answers
from duckdp.smooth.buy.summary_task import SummaryTask, plan_summary
from duckdp.smooth.buy.wishes import Wishes
from duckdp.smooth.payloads import open_stored
from duckdp.smooth.predicted import MOST_FUNCTIONS
from duckdp.smooth.product_kernels import kernels_of_basis
from duckdp.smooth.sum_noise import predict_deviations
from tests.smooth.tables import column, connect, summarize, table

ROWS = 50_000
AIMS = {2: 0.0041, 3: 0.0086, 4: 0.013, 6: 0.033}  # half-width as a share of the range, 50,000 rows at epsilon 1
LISTED = {
    "s": column("s", None, None, "VARCHAR", domain=tuple("abcdefgh"), nullable=False),
    "b": column("b", None, None, "BOOLEAN", nullable=False),
    "k": column("k", 0, 6, "INTEGER", nullable=False),
}


def numbers(count):
    return [column(f"c{i}", nullable=False) for i in range(count)]


def plan(known, rows=ROWS, epsilon=1.0, neighbours=Neighbours.ADD_REMOVE, delta=0, **wishes):
    return plan_summary(
        table(*known, expected_rows=rows),
        [c.name for c in known],
        epsilon_nano=round(epsilon * NANO),
        neighbours=neighbours,
        delta_atto=delta,
        wishes=Wishes(**{"shape": "auto", **wishes}),
    )


def questions(names, count, seed):
    """Bumps, thresholds and products in one and two columns that share no number with those it was chosen by."""
    rng = random.Random(seed)
    found = []
    for i in range(count):
        bump, edge = (
            f"exp(-power((x - {rng.uniform(0.1, 0.9):.3f}) / {rng.uniform(0.1, 0.5):.3f}, 2))",
            f"1 / (1 + exp((x - {rng.uniform(0.2, 0.8):.3f}) / {rng.uniform(0.05, 0.1):.3f}))",
        )
        kinds = (bump, edge, "x")
        first, second = rng.sample(names, 2)
        one = kinds[i % 3].replace("(x", f"({first}") if i % 3 < 2 else first
        two = kinds[i // 3 % 3].replace("(x", f"({second}") if i // 3 % 3 < 2 else second
        found += [one, f"({one}) * ({two})"]
    return found


def half_widths(count, **wishes):
    known = numbers(count)
    with connect() as con:
        made = ", ".join(f"pow(random(), {1 + i % 3}) AS {c.name}" for i, c in enumerate(known))
        con.execute(f"CREATE TABLE t AS SELECT {made} FROM range({ROWS})")
        summary = summarize(con, table(*known, expected_rows=ROWS), [c.name for c in known], **wishes)
    found = answers(summary, questions([c.name for c in known], 18, count))
    return np.array([(a.high - a.low) / 2 for a in found])


@pytest.mark.parametrize("count", AIMS)
def test_half_widths_of_unseen_questions_are_within_the_aims(count):
    """Half-widths depend on noise in nothing but the count; the full tensor, its twin, misses all aims from 3 on."""
    assert half_widths(count, shape="auto").mean() <= AIMS[count] / 2
    if count > 2:
        assert half_widths(count, shape="tensor").mean() > AIMS[count]


def test_the_predicted_error_is_that_of_answers():
    for count in (2, 4):
        found = half_widths(count, shape="auto").mean()
        predicted = plan(numbers(count)).ranked[0].error
        assert predicted / 10 <= found <= 1.5 * predicted


def test_the_best_is_chosen_and_the_next_is_told():
    for known in (numbers(2), numbers(5), [*numbers(1), *LISTED.values()], list(LISTED.values())):
        for delta in (0, 10**12):
            task = plan(known, delta=delta)
            best, after = task.ranked[:2]
            assert (task.basis.shape, task.basis.order, task.basis.degree) == (best.shape, best.order, best.degree)
            assert best.error <= after.error
            assert task.basis.size <= MOST_FUNCTIONS[len(known) > 2]
            assert f"{best}; next best: {after}" in task.describe()[-1]


def test_the_predicted_deviations_are_those_of_the_law():
    for wishes in ({}, {"noise": "laplace"}, {"weights": "uniform"}, {"noise": "gaussian"}, {"noise": "kernels"}):
        pure = wishes.get("noise") in ("laplace", "kernels")
        task = plan(numbers(3), delta=0 if pure else 10**12, degree=6, **wishes)
        found = predict_deviations(
            wishes.get("noise", "auto"),
            task.moments.norms(Neighbours.ADD_REMOVE, count_public=False),
            levels=task.basis.levels,
            epsilon_nano=NANO,
            delta_atto=task.loss.delta_atto,
            smoothness=Wishes(**wishes).prior,
            kernels=kernels_of_basis(task.basis),
        )
        assert found == pytest.approx(task.plan.noise.deviations, rel=0.02)


def test_more_budget_or_rows_never_predict_more():
    for known in (numbers(3), [*numbers(2), LISTED["s"]]):
        errors = [plan(known, rows, eps).ranked[0].error for rows, eps in ((10_000, 0.1), (10_000, 1), (10**6, 1))]
        assert errors == sorted(errors, reverse=True)


@pytest.mark.parametrize(("row_cap", "epsilon"), [(1, 100), (1, 1e-6), (10**7, 0.01), (10**12, 1e-6), (10**12, 100)])
def test_what_the_full_tensor_could_be_planned_for_still_is(row_cap, epsilon):
    for known in (numbers(2), [*numbers(2), LISTED["s"]]):
        for neighbours in Neighbours:
            for unit in ({}, {"unit_key": "u", "max_rows": 7}) if neighbours is Neighbours.ADD_REMOVE else ({},):
                protected = table(*known, row_cap=row_cap, **unit)
                names = [c.name for c in known]
                charge = {"epsilon_nano": round(epsilon * NANO), "neighbours": neighbours}
                try:
                    plan_summary(protected, names, **charge, wishes=Wishes())
                except DuckDPError:
                    continue
                assert plan_summary(protected, names, **charge, wishes=Wishes(shape="auto")).ranked


def test_tables_of_listed_columns_are_exact():
    task = plan(list(LISTED.values()))
    assert task.basis.size == 8 * 2 * 7


def test_interactions_that_are_asked_for_are_kept():
    assert plan(numbers(4), order=1).basis.order == 1
    assert plan(numbers(4), order=3).basis.order == 3


def test_one_column_degree_and_smoothness_are_as_ever():
    for count, wishes in ((1, {}), (2, {"degree": 7}), (3, {"smoothness": 3})):
        then, now = plan(numbers(count), **{**wishes, "shape": "tensor"}), plan(numbers(count), **wishes)
        assert (then.canonical, then.ranked, now.ranked) == (now.canonical, (), ())


def test_a_hundred_columns_can_be_bought_and_more_than_the_sums_hold_are_refused_in_words():
    assert plan(numbers(100)).basis.order == 1
    many = [column(f"d{i}", None, None, "VARCHAR", domain=tuple(map(str, range(3000)))) for i in range(2)]
    with pytest.raises(DuckDPError, match="P107"):
        plan(many)


# ---- what was bought when the default was the full tensor, and when there were no kernels


@pytest.fixture
def owner(tmp_path):
    rng = np.random.default_rng(3)
    frame = pa.table({name: rng.random(2000) for name in "xyz"} | {"g": rng.integers(0, 2, 2000).astype(bool)})
    with duckdp.open({"t": frame}, ledger=str(tmp_path / "t.ledger")) as curator:
        curator.protect("t", row_cap=10_000, expected_rows=2000, bounds=dict.fromkeys("xyz", (0, 1)), columns=["g"])
        curator.budget(epsilon=30)
        curator.grant("ana", epsilon=30)
        yield curator


def spent(owner):
    return sum(c.loss.epsilon_nano for c in owner.ledger.charges()) / NANO


def buy(owner, **given):
    return owner.session("ana").smooth_summary("t", ["x", "y"], **{"epsilon": 1, "name": "mine", **given})


def buy_once(owner, monkeypatch, **given):
    """Buy what the words meant before there were kernels."""
    plain = BuySummary._task

    def then(self, desk, basis=None, noise=None):
        return plain(self, desk, basis, "sums" if self.noise == "auto" else noise)

    with monkeypatch.context() as patched:
        patched.setattr(BuySummary, "_task", then)
        return buy(owner, **given)


@pytest.mark.parametrize("basis", ["tensor", "auto"])
@pytest.mark.parametrize("more", [{}, {"per": "g"}, {"interactions": 1}, {"weights": "uniform"}])
def test_what_the_old_default_bought_is_given_again(owner, monkeypatch, more, basis):
    """The full tensor was what the same words meant: its canonical text is what kept ledgers hold."""
    first = buy_once(owner, monkeypatch, basis=basis, **more)
    payload = owner.ledger.object("ana", "mine").payload
    again, fresh = buy(owner, **more), buy(owner, fresh=True, **more)
    assert (first.cost, again.cost, fresh.cost, spent(owner)) == ("epsilon=1", "nothing", "nothing", 1)
    assert owner.ledger.object("ana", "mine").payload == payload
    assert again.rows() == first.rows()
    bought = buy(owner, name="new", **more)  # another name was another question, and is one today
    assert (bought.cost, spent(owner)) == ("epsilon=1", 2)
    assert buy(owner, name="new", **more).cost == "nothing"


@pytest.mark.parametrize(
    "words", [{"degree": 5}, {"basis": "tensor"}, {"smoothness": 2}, {"degree": 5, "noise": "auto"}]
)
def test_what_was_bought_before_there_were_kernels_is_given_again(owner, monkeypatch, words):
    first = buy_once(owner, monkeypatch, **words)
    again = buy(owner, **words)
    assert (first.cost, again.cost, spent(owner), again.rows()) == ("epsilon=1", "nothing", 1, first.rows())
    assert open_stored(owner.ledger.object("ana", "mine").payload).family == "cube"
    bought = buy(owner, **{**words, "name": "new"})
    assert (bought.cost, open_stored(owner.ledger.object("ana", "new").payload).family) == ("epsilon=1", "kernels")


def test_without_the_look_the_same_words_would_be_refused(owner, monkeypatch):
    buy_once(owner, monkeypatch, basis="tensor")
    monkeypatch.setattr(BuySummary, "_before", lambda *_: [])
    with pytest.raises(DuckDPError, match="C111"):
        buy(owner)


def test_a_charge_of_the_old_default_is_redeemed_and_when_final_paid_anew_only_if_asked(owner, monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(owner.engine, "run", interrupted)
        with pytest.raises((DuckDPError, KeyboardInterrupt)):
            buy_once(owner, monkeypatch, basis="tensor")
        for _ in range(MAX_ATTEMPTS - 2):
            with pytest.raises((DuckDPError, KeyboardInterrupt)):
                buy(owner)
    assert spent(owner) == 1
    with monkeypatch.context() as patched:
        patched.setattr(owner.engine, "run", interrupted)
        with pytest.raises((DuckDPError, KeyboardInterrupt)):
            buy(owner)
    with pytest.raises(DuckDPError, match="B106"):
        buy(owner)
    assert spent(owner) == 1
    assert (buy(owner, fresh=True).cost, buy(owner).cost, spent(owner)) == ("epsilon=1", "nothing", 2)
    assert open_stored(owner.ledger.object("ana", "mine").payload).family == "kernels"  # what the words mean today


def test_a_revoked_analyst_is_told_so_and_nothing_else(owner):
    buy(owner, basis="tensor")
    owner.revoke("ana", reason="left")
    with pytest.raises(DuckDPError, match="B103"):
        buy(owner)


def test_explain_says_what_is_chosen(owner):
    told = str(owner.session("ana").explain_summary("t", ["x", "y", "z"], epsilon=1))
    assert "chosen by predicted 95% half-width" in told
    assert "next best" in told
    assert isinstance(plan(numbers(2)), SummaryTask)


def test_answers_say_where_approximation_outweighs_noise(owner):
    buy(owner, degree=4, epsilon=20)
    ana, steep = owner.session("ana"), "CASE WHEN x > 0.5 THEN 1 ELSE 0 END"
    assert any("outweighs noise in 1 of 2" in note for note in ana.smooth_answers("mine", ["x", steep]).notes)
    assert any("a summary of" in note for note in ana.smooth_answer("mine", steep).notes)
    assert not ana.smooth_answers("mine", ["x", "y"]).notes
    assert not ana.smooth_answer("mine", "x").notes

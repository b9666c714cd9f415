"""Interrupted and failed programs: what was paid for stays, work goes on where it stood, nothing is charged twice."""

import importlib
import json
import threading
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest

import duckdp
from duckdp.core.types import NANO
from duckdp.core.watch import MOST_SECONDS, Watch
from duckdp.errors import CatalogError, ExecutionError, InternalError, NumericalError, ParameterError
from duckdp.synthetic.lp.make import generation, unfinished
from duckdp.synthetic.lp.make.fitted import Fitted
from duckdp.synthetic.lp.make.generation import State
from duckdp.synthetic.stored import complete, open_synthesis

theorem_fit = importlib.import_module("duckdp.synthetic.theorem.make")
levels = importlib.import_module("duckdp.synthetic.lp.make.levels")
WIDE = [{"method": "tree"}, {"method": "moments"}, {"method": "psi"}]
METHODS = [{"method": "lp", "degree": 9}, {"method": "theorem", "smoothness": 1, "rows": 500}]


@pytest.fixture
def owner(tmp_path, monkeypatch):
    """A table that needs many rounds: few points to start from, a small gap to reach."""
    monkeypatch.setattr(generation, "START_DENSITY", 1)
    monkeypatch.setattr(levels, "GAP", 1e-4)
    monkeypatch.setattr(levels, "TIME_LIMIT", 600.0)  # no slow machine ends it early
    monkeypatch.setattr("duckdp.synthetic.theorem.make.theorem_objective", _never_enough)
    rng = np.random.default_rng(1)
    frame = pa.table({"x": rng.choice([0.1, 0.55, 0.9], 3000), "y": rng.choice([0.2, 0.8], 3000)})
    with duckdp.open({"t": frame}, ledger=str(tmp_path / "t.ledger")) as curator:
        curator.protect("t", row_cap=9000, expected_rows=3000, bounds={"x": (0, 1), "y": (0, 1)})
        curator.budget(epsilon=30)
        curator.grant("ana", epsilon=30)
        yield curator


def _never_enough(*given, objective=theorem_fit.theorem_objective):
    return objective(*given)[0], 0.0


def interrupt_after(rounds, error=KeyboardInterrupt):
    """A progress callback that ends the program after so many rounds."""
    told = []

    def progress(stage, share):
        told.append((stage, share))
        if sum(s == "program" for s, _ in told) > rounds:
            raise error

    return progress, told


def payload_of(owner, session, name):
    return json.loads(owner.ledger.object(session.analyst, name).payload)


def spent(owner):
    return sum(c.loss.epsilon_nano for c in owner.ledger.charges())


@pytest.mark.parametrize("given", METHODS)
def test_an_interrupt_keeps_what_was_paid_and_asking_again_goes_on(owner, given):
    ana = owner.session("ana")
    progress, told = interrupt_after(1)
    asked = {"epsilon": 9, "name": "mine", **given}
    with pytest.raises(ExecutionError) as interrupted:
        ana.synthesize("t", **asked, progress=progress)
    assert interrupted.value.code == "E102"
    assert [c.state for c in owner.ledger.charges()] == ["released"]  # no failed attempt
    raw = payload_of(owner, ana, "mine")
    assert raw["table"] is None
    state = next(reversed(unfinished._states.values()))
    assert state.rounds == 1
    assert owner.ledger._store.read(lambda tx: tx.one("SELECT attempt FROM charge")["attempt"]) == 1

    owner.engine.close()  # nothing private is needed any more
    rounds = []
    made = ana.synthesize("t", **asked, progress=lambda stage, _: rounds.append(stage))
    assert made.cost == "nothing"
    assert spent(owner) == 9 * NANO
    assert payload_of(owner, ana, "mine")["table"] is not None  # stored beside the release
    assert next(reversed(unfinished._states.values())) is state
    scratch = fit_from_scratch(raw)
    resumed = state.rounds - 1
    assert rounds.count("program") == resumed + 1  # one line before the first round
    assert 0 < resumed < scratch.rounds
    assert state.rounds == scratch.rounds
    assert (state.loss, state.bound) == (scratch.loss, scratch.bound)  # the same certificate
    again = ana.synthesize("t", **asked)
    assert again.rows() == made.rows()  # drawn with bytes that follow from the release
    assert sum(s == "program" for s, _ in told) == 2


def fit_from_scratch(raw):
    """The same release solved by a process that never saw it."""
    unfinished._states.clear()
    return SimpleNamespace(**json.loads(complete(json.dumps(raw)))["table"])


@pytest.mark.parametrize(
    ("error", "raised"),
    [
        (MemoryError(), NumericalError),
        (np.linalg.LinAlgError("no"), NumericalError),
        (ValueError("x"), NumericalError),
        (ZeroDivisionError(), NumericalError),
        (NumericalError("N101", "stalled", status="stalled"), NumericalError),
        (InternalError("a bug"), InternalError),
    ],
)
@pytest.mark.parametrize("given", METHODS)
def test_a_failed_solver_keeps_what_was_paid(owner, given, error, raised, monkeypatch):
    def fails(*_, **__):
        raise error

    ana = owner.session("ana")
    asked = {"epsilon": 9, "name": "mine", **given}
    with monkeypatch.context() as patched:
        patched.setattr(levels, "generate", fails)
        for _ in range(5):  # more often than a charge could be redeemed
            with pytest.raises(raised) as failed:
                ana.synthesize("t", **asked)
            assert failed.value.__cause__ is None
    assert [c.state for c in owner.ledger.charges()] == ["released"]
    assert payload_of(owner, ana, "mine")["table"] is None
    made = ana.synthesize("t", **asked, time_limit=20)
    assert (made.cost, len(made)) == ("nothing", len(made.rows()))
    assert spent(owner) == 9 * NANO


def test_what_a_progress_callback_raises_reaches_its_caller(owner):
    class Mine(Exception):
        pass

    progress, _ = interrupt_after(1, Mine)
    ana = owner.session("ana")
    with pytest.raises(Mine):
        ana.synthesize("t", epsilon=9, degree=9, progress=progress)
    assert ana.synthesize("t", epsilon=9, degree=9).cost == "nothing"


def test_a_table_from_a_stored_summary_goes_on_too(owner):
    ana = owner.session("ana")
    ana.smooth_summary("t", ["x", "y"], epsilon=9, degree=9, name="xy")
    with pytest.raises(KeyboardInterrupt):  # free, so nothing has to be told of a charge
        ana.synthesize("xy", progress=interrupt_after(1)[0])
    state = next(reversed(unfinished._states.values()))
    assert state.rounds == 1
    assert len(ana.synthesize("xy", rows=70)) == 70
    assert state.rounds > 1
    assert spent(owner) == 9 * NANO


def test_a_summary_in_an_unfinished_table_can_be_asked(owner):
    ana = owner.session("ana")
    with pytest.raises(ExecutionError):
        ana.synthesize("t", epsilon=9, degree=9, name="half", progress=interrupt_after(0)[0])
    assert ana.smooth_answer("half", "x").columns[0].values[0] == pytest.approx(0.52, abs=0.05)


def test_through_sql_an_interrupt_is_told_and_the_same_statement_goes_on(owner, monkeypatch):
    con = owner.connect("ana")
    text = "CREATE TABLE made AS FROM dp_synthesize('t', epsilon := 9, degree := 9, rows := 100)"
    calls = [0]

    def once(*args, **more):
        calls[0] += 1
        if calls[0] == 1:
            raise KeyboardInterrupt
        return generation.generate(*args, **more)

    monkeypatch.setattr(levels, "generate", once)
    with pytest.raises(Exception, match="E102"):
        con.execute(text)
    assert con.execute("SELECT count(*) FROM duckdb_tables() WHERE table_name = 'made'").fetchone() == (0,)
    con.execute(text)
    assert con.execute("SELECT count(*) FROM made").fetchone() == (100,)
    assert spent(owner) == 9 * NANO
    assert len(owner.ledger.charges()) == 1


def test_a_time_limit_takes_the_best_and_says_how_good_it_is(owner, monkeypatch):
    monkeypatch.setattr(levels, "FOLLOWS", 1e9)  # the first round's is good enough
    monkeypatch.setattr("duckdp.synthetic.lp.make.fitted.FOLLOWS", 1e9)
    ana = owner.session("ana")
    made = ana.synthesize("t", epsilon=9, degree=9, name="quick", time_limit=1e-3)
    (note,) = [n for n in made.notes if "time limit" in n]
    stored = payload_of(owner, ana, "quick")["table"]
    assert stored["status"] == "stopped"
    gap = (stored["loss"] - stored["bound"]) / stored["loss"]
    assert f"closer by more than {100 * gap:.3g}% of its distance" in note
    assert gap > 1e-4
    assert not any("time limit" in n for n in ana.synthesize("t", epsilon=8, degree=5).notes)
    assert "time limit" in ana.synthetic_report("quick").text


def test_rows_that_do_not_follow_their_release_are_refused_until_they_do(owner, monkeypatch):
    """On yesterday's code a limit that let the solver begin, and no more, gave rows with nothing of the table."""
    ana = owner.session("ana")
    with monkeypatch.context() as patched:
        patched.setattr(Watch, "out_of_time", lambda _: True)
        for _ in range(4):
            with pytest.raises(NumericalError) as refused:
                ana.synthesize("t", epsilon=9, degree=9, name="quick")
            assert (refused.value.code, refused.value.status) == ("N101", "time limit")
            next(iter(unfinished._states.values())).rounds = 0  # else every call does a round more
    assert payload_of(owner, ana, "quick")["table"] is None
    made = ana.synthesize("t", epsilon=9, degree=9, name="quick")
    assert made.cost == "nothing"
    stored = payload_of(owner, ana, "quick")["table"]
    assert stored["loss"] <= 1.5 * stored["expected"]
    assert spent(owner) == 9 * NANO


def test_the_last_level_that_was_finished_stands(owner, monkeypatch):
    """400 sums: functions below 4, 8, 16 and all 20 of each column. Time ends the last of them."""
    ana = owner.session("ana")
    seen = []

    def watched(grid, *args, **more):
        seen.append(grid.rows)
        if grid.rows == 400:
            more["should_stop"] = lambda: True
        return generation.generate(grid, *args, **more)

    with monkeypatch.context() as patched:
        patched.setattr(levels, "generate", watched)
        patched.setattr(levels, "FOLLOWS", 0.0)  # whatever the last one has found by then, it is too far
        made = ana.synthesize("t", epsilon=9, degree=20, name="some")
    assert seen == [16, 64, 256, 400]
    (note,) = [n for n in made.notes if "follows its release" in n]
    assert note.startswith("follows its release in functions below degree 16 alone")
    assert "follows its release in functions below degree 16" in ana.synthetic_report("some").text
    x, y = (np.array(c.values) for c in made.columns)
    assert np.mean(x) == pytest.approx(0.517, abs=0.05)
    assert np.mean(np.abs(y - 0.2) < 0.1) == pytest.approx(0.5, abs=0.1)
    again = ana.synthesize("some", rows=500, time_limit=100)  # anew, from the same release
    assert (again.cost, len(again)) == ("nothing", 500)
    assert spent(owner) == 9 * NANO


def test_a_fit_far_from_its_release_says_so():
    fitted = Fitted(
        shape=(3,),
        places=np.zeros(1, dtype=np.int64),
        weights=np.ones(1),
        loss=3.0,
        bound=2.99,
        rounds=2,
        status="gap",
        residual=5.0,
        expected=1.0,
    )
    assert fitted.note().startswith("does not follow its release: its moments are 3 times as far")
    assert replace(fitted, loss=1.9, bound=1.89).note() == ""
    assert replace(fitted, loss=1.9, bound=1.0, status="stopped").note().startswith("the best fit when")
    assert Fitted.read({k: v for k, v in fitted.raw().items() if k not in ("expected", "below")}, (3,)).note() == ""


@pytest.mark.parametrize("limit", [0, -1, float("nan"), float("inf"), MOST_SECONDS * 2, "x", True])
def test_time_limits_out_of_range_are_refused(owner, limit):
    with pytest.raises(ParameterError) as refused:
        owner.session("ana").synthesize("t", epsilon=1, time_limit=limit)
    assert refused.value.code == "P107"
    assert not owner.ledger.charges()


def test_progress_is_told_in_order(owner):
    told = []
    owner.session("ana").synthesize("t", epsilon=9, method="lp", progress=lambda *step: told.append(step))
    assert list(dict.fromkeys(stage for stage, _ in told)) == ["support", "program", "sample", "done"]
    assert [share for _, share in told] == sorted(share for _, share in told)


def test_a_watch_is_ended_from_another_thread():
    """As a shell does; broken twin: without the check the work would go on to its end."""
    watch, stages = Watch(), []
    threading.Thread(target=watch.interrupt).start()

    def work():
        for k in range(10**6):
            watch.tell("work", k / 10**6)
            stages.append(k)
            watch._interrupted.wait(60.0)  # wakes at once

    with pytest.raises(KeyboardInterrupt):
        work()
    assert len(stages) <= 1


def test_progress_never_goes_back_and_must_be_a_function():
    told = []
    watch = Watch(progress=lambda *step: told.append(step))
    for share in (0.1, 0.5, 0.2, 0.7):
        watch.tell("rows", share)
    assert [share for _, share in told] == [0.1, 0.5, 0.5, 0.7]
    with pytest.raises(ParameterError):
        Watch(progress=3)


@pytest.mark.parametrize("given", WIDE)
@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, ValueError])
def test_nothing_is_told_before_the_draw_that_stays_is_stored(owner, given, error):
    """Else one could watch a draw, end it, and get another for the same charge."""
    ana, seen = owner.session("ana"), []

    def progress(stage, share):
        rows = owner.ledger.charges()
        seen.append((rows[-1].state, payload_of(owner, ana, "mine")))
        raise error

    for _ in range(5):  # more often than a charge could be redeemed
        with pytest.raises((ExecutionError, NumericalError, SystemExit)):
            ana.synthesize("t", epsilon=2, name="mine", rows=300, **given, progress=progress)
    assert {state for state, _ in seen} == {"released"}
    assert all(raw == seen[0][1] and raw["table"] is None for _, raw in seen)  # one draw, whatever is done
    owner.engine.close()
    made = ana.synthesize("t", epsilon=2, name="mine", rows=300, **given)
    assert (made.cost, len(made)) == ("nothing", 300)
    assert payload_of(owner, ana, "mine")["table"] is not None
    assert ana.synthesize("t", epsilon=2, name="mine", rows=300, **given).rows() == made.rows()
    assert spent(owner) == 2 * NANO
    assert owner.ledger._store.read(lambda tx: tx.one("SELECT attempt FROM charge")["attempt"]) == 1


def test_exact_values_hang_on_no_error(owner, monkeypatch):
    """An error in the middle of a release keeps no frames, whoever holds it."""
    kept = []

    def fails(*_):
        kept.append(ZeroDivisionError("secret"))
        raise kept[0]

    monkeypatch.setattr("duckdp.synthetic.moments.make.all_means.shrink_means", fails)
    monkeypatch.setattr("duckdp.synthetic.unit.buy.purse.Purse._noise", fails)
    with pytest.raises(InternalError):
        owner.session("ana").synthesize("t", epsilon=2, rows=300, method="moments")
    assert kept[0].__traceback__ is None


def interrupts(*_):
    raise KeyboardInterrupt


def test_damaged_wide_releases_are_refused(owner):
    ana = owner.session("ana")
    with pytest.raises(ExecutionError):
        ana.synthesize("t", epsilon=2, name="mine", rows=50, method="tree", progress=interrupts)
    raw = payload_of(owner, ana, "mine")
    assert open_synthesis(json.dumps(raw)).table.rows == 50
    kept = raw["wide"]["kept"]
    for bad in (
        {"format": 99},
        {"kept": None},
        {"kept": {"class": "Popen", "fields": {"args": "ls"}}},
        {"columns": "x"},
        {"kept": kept["fields"]},
        {"kept": {"class": "Kept", "fields": {}}},
    ):
        with pytest.raises(CatalogError) as refused:
            open_synthesis(json.dumps({**raw, "wide": {**raw["wide"], **bad}}))
        assert refused.value.code == "C105"


def test_states_are_few_and_never_shared():
    unfinished._states.clear()
    with unfinished.resumed("a") as first, unfinished.resumed("a") as second:
        assert first is not second
    for k in range(100):
        with unfinished.resumed(str(k)) as state:
            state.rounds = k
    assert len(unfinished._states) == unfinished.KEPT
    with unfinished.resumed("99") as state:
        assert state.rounds == 99
    with unfinished.resumed("0") as state:
        assert state.rounds == 0
        assert isinstance(state, State)


def test_damaged_distributions_are_refused():
    good = {
        "shape": [3],
        "places": [0, 2],
        "weights": [0.5, 0.5],
        "loss": 1.0,
        "bound": 0.5,
        "rounds": 1,
        "status": "gap",
        "residual": 0.1,
        "expected": 0.25,
        "below": 0,
    }
    assert Fitted.read(good, (3,)).gap == 0.5
    assert Fitted.read(good, (3,)).raw() == good
    for bad in (
        {"places": [0, 3]},
        {"places": [-1, 2]},
        {"places": [1]},
        {"weights": [0.5, -0.5]},
        {"weights": [0, 0]},
        {"shape": [4]},
        {"loss": None},
        {"places": []},
        {"weights": "x"},
    ):
        with pytest.raises(CatalogError) as refused:
            Fitted.read({**good, **bad}, (3,))
        assert refused.value.code == "C105"
    with pytest.raises(CatalogError):
        Fitted.read(good, (5,))  # made on another grid

"""Asking: who may, what it costs, and what comes back, in one process.

The owner's side is in test_ledger_owner.py, random histories in test_ledger_model.py, races in
test_ledger_concurrency.py, damaged files in test_ledger_attacks.py.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from dataclasses import replace

import pytest

from duckdp.core.types import AccountantKind, Loss, Neighbours
from duckdp.errors import DuckDPError, InsufficientBudgetError, InternalError
from duckdp.ledger import Charge, ChargeRequest, Ledger, charges, connections
from duckdp.ledger import ledger as ledger_module
from duckdp.ledger.types import Cap
from tests.ledgers import NANO, answer, ask, key, refused, set_up

ZCDP = AccountantKind.ZCDP


@pytest.fixture
def empty(tmp_path, monkeypatch):
    monkeypatch.setattr(ledger_module, "WAIT_SECONDS", 5.0)  # a broken ledger fails instead of waiting
    with Ledger.open(tmp_path / "a.ledger") as ledger:
        yield ledger


@pytest.fixture
def ledger(empty):
    return set_up(empty)


# -- asking ------------------------------------------------------------------------------------------------------------


def test_a_question_is_charged_once_and_answered_the_same(ledger):
    charge = ledger.admit(ask("a", data_version=0))
    assert charge == Charge(
        id=1, analyst="ana", key=key("a"), loss=Loss(epsilon_nano=NANO), data_version=0, catalog_version=0, attempt=1
    )
    first = ledger.store_release(charge, "42")
    assert (first.charge_id, first.analyst, first.key, first.payload) == (1, "ana", key("a"), "42")
    assert ledger.admit(ask("a")) == first == ledger.release("ana", 1)
    assert ledger.state().primary_spent == NANO
    assert ledger.remaining("ana").text == "epsilon=9, delta=1e-6"


def test_delta_adds_up_like_epsilon(empty):
    set_up(empty, ana=10 * NANO, bob=10 * NANO)  # delta 10**12 of each, and of both together
    for question, delta in (("a", 4 * 10**11), ("b", 5 * 10**11)):
        empty.store_release(empty.admit(ask(question, 1, delta_atto=delta)), "42")
    assert empty.remaining("ana").secondary == empty.remaining("bob").secondary == 10**11
    for analyst in ("ana", "bob"):
        with refused("B101"):
            empty.admit(ask("c", 1, analyst=analyst, delta_atto=10**11 + 1))
    empty.admit(ask("d", 1, analyst="bob", delta_atto=10**11))
    assert empty.remaining("ana").secondary == 0


def test_what_is_said_to_be_left_is_the_limit_less_every_charge(empty):
    """Of the data set, of each analyst and of a team; delta as epsilon."""
    set_up(empty, ana=9 * NANO, bob=7 * NANO)
    team = Cap(epsilon_nano=8 * NANO, delta_atto=10**12)
    empty.set_team("lab", team, members=["bob"])
    spent = {"ana": [0, 0], "bob": [0, 0]}
    for question, (who, epsilon, delta) in enumerate([("ana", 2, 1), ("bob", 1, 3), ("ana", 3, 0), ("bob", 4, 2)]):
        answer(empty, ask(question, epsilon * NANO, who, delta_atto=delta * 10**11))
        spent[who] = [spent[who][0] + epsilon, spent[who][1] + delta]
        told = {a.name: a.remaining for a in empty.analysts()} | {t.name: t.remaining for t in empty.teams()}
        told["data set"] = empty.state().remaining
        for name, cap, of in (
            ("ana", 9, ["ana"]),
            ("bob", 7, ["bob"]),
            ("lab", 8, ["bob"]),
            ("data set", 10, ["ana", "bob"]),
        ):
            left = Loss(
                epsilon_nano=(cap - sum(spent[a][0] for a in of)) * NANO,
                delta_atto=10**12 - sum(spent[a][1] for a in of) * 10**11,
            )
            assert told[name] == str(left), name


def test_what_is_made_of_a_release_is_stored_once_beside_it(tmp_path):
    with Ledger.open(tmp_path / "a") as ledger:
        set_up(ledger)
        with pytest.raises(InternalError):
            ledger.finish_release(1, "made of nothing")
        charge = ledger.admit(ask("a"))
        with pytest.raises(InternalError):
            ledger.finish_release(charge.id, "made too early")
        ledger.store_release(charge, "42")
        assert ledger.finish_release(charge.id, "42, made").payload == "42, made"
        assert ledger.finish_release(charge.id, "42, made by another").payload == "42, made"
        assert ledger.store_release(charge, "43").payload == "42, made"
        assert {event.kind for event in ledger.log()} == {"create", "budget", "grant"}  # what the owner did
    with Ledger.open(tmp_path / "a", create=False) as ledger:
        assert ledger.admit(ask("a")).payload == "42, made"
        assert ledger.state().primary_spent == NANO


def test_stages_are_stored_in_order_and_the_first_stays(tmp_path):
    with Ledger.open(tmp_path / "a") as ledger:
        set_up(ledger)
        charge = ledger.admit(ask("a"))
        assert ledger.stages(charge) == []
        with pytest.raises(InternalError):
            ledger.store_stage(charge, 1, "too early")
        assert ledger.store_stage(charge, 0, "17") == "17"
        assert ledger.store_stage(charge, 0, "18") == "17"  # by another holder, or drawn again
        assert ledger.store_stage(charge, 1, "19") == "19"
        ledger.fail(charge)
        assert {event.kind for event in ledger.log()} == {"create", "budget", "grant"}  # what the owner did
    with Ledger.open(tmp_path / "a", create=False) as ledger:
        charge = ledger.admit(ask("a"))
        assert (charge.attempt, ledger.stages(charge)) == (2, ["17", "19"])
        with refused("C110"):
            ledger.release("ana", charge.id)  # stages are not given out
        ledger.store_release(charge, "36")
        assert ledger.store_stage(charge, 1, "20") == "19"
        with pytest.raises(InternalError):
            ledger.store_stage(charge, 2, "after the release")
        assert ledger.admit(ask("a")).payload == "36"


def test_a_ledger_remembers(tmp_path):
    with Ledger.open(tmp_path / "a") as ledger:
        first = answer(set_up(ledger), ask("a"))
        known = ledger.dataset_id, ledger.salt, ledger.state(), ledger.charges()
    with Ledger.open(tmp_path / "a", create=False) as ledger:
        assert (ledger.dataset_id, ledger.salt, ledger.state(), ledger.charges()) == known
        assert ledger.admit(ask("a")) == first
        assert re.fullmatch("[0-9a-f]{32}", ledger.dataset_id)
        assert len(ledger.salt) == 16


def test_every_ledger_has_a_secret_of_its_own(tmp_path):
    salts = []
    for name in "abcd":
        with Ledger.open(tmp_path / name) as ledger:
            salts.append(ledger.salt)
    assert len({salt[:8] for salt in salts}) == 4  # what the choice of rows and groups is keyed by
    assert all(len(set(salt)) > 4 for salt in salts)  # of 16 random bytes: fewer once in 10^17


def test_the_same_question_of_two_analysts_is_two_charges(empty):
    set_up(empty, ana=NANO, bob=NANO)
    assert answer(empty, ask("a")) != answer(empty, ask("a", analyst="bob"))
    assert empty.state().primary_spent == 2 * NANO


def test_the_row_shows_what_was_asked(ledger):
    loss = Loss(epsilon_nano=1, delta_atto=2, rho_pico=3, delta_zcdp_atto=4)
    ledger.admit(ask("a", loss=loss, parameters='{"scale": 3}', kind="summary", name="ac"))
    (row,) = ledger.charges("ana")
    assert (row.loss, row.parameters, row.state, row.attempt, row.kind) == (loss, '{"scale": 3}', "open", 1, "summary")
    assert (row.primary_cost, row.secondary_cost) == (1, 2)
    assert ledger.charges("bob") == []


@pytest.mark.parametrize(
    ("caps", "asked", "scope", "remaining"),
    [
        ({"ana": 2 * NANO}, Loss(epsilon_nano=2 * NANO + 1), "analyst", "epsilon=2, delta=1e-6"),
        ({"ana": 10 * NANO}, Loss(epsilon_nano=10 * NANO + 1), "analyst", "epsilon=10, delta=1e-6"),
        ({"ana": NANO}, Loss(epsilon_nano=1, delta_atto=10**12 + 1), "analyst", "epsilon=1, delta=1e-6"),
        ({"ana": NANO}, Loss(epsilon_nano=2**62, delta_atto=2**62), "analyst", "epsilon=1, delta=1e-6"),
    ],
)
def test_more_than_the_cap_is_refused_and_changes_nothing(empty, caps, asked, scope, remaining):
    set_up(empty, **caps)
    with refused("B101") as error:
        empty.admit(ask("a", loss=asked))
    assert isinstance(error.value, InsufficientBudgetError)
    assert (error.value.scope, error.value.remaining) == (scope, remaining)
    assert empty.charges() == []
    assert empty.state().primary_spent == 0


def test_more_than_the_total_is_refused_though_the_cap_would_allow_it(empty):
    set_up(empty, ana=10 * NANO, bob=10 * NANO)
    answer(empty, ask("a", 7 * NANO))
    with refused("B101") as error:
        empty.admit(ask("a", 3 * NANO + 1, analyst="bob"))
    assert (error.value.scope, error.value.requested) == ("data set", "epsilon=3.000000001")
    answer(empty, ask("a", 3 * NANO, analyst="bob"))
    assert empty.remaining("bob").primary == 0
    assert empty.remaining("ana").primary == 0


def test_the_constraint_stops_what_a_broken_check_lets_through(ledger, monkeypatch):
    monkeypatch.setattr(charges, "require_budget", lambda *_: None)
    with refused("X101"):
        ledger.admit(ask("a", 10 * NANO + 1))
    assert ledger.charges() == []


def test_nothing_costs_nothing(empty):
    set_up(empty, ana=1)
    answer(empty, ask("n", 0))
    answer(empty, ask("a", 1))
    answer(empty, ask("m", 0))
    assert empty.remaining("ana").primary == 0
    assert empty.state().started


def test_zcdp_counts_rho(empty):
    empty.set_budget(epsilon_nano=NANO, delta_atto=10**12, neighbours=Neighbours.REPLACE, accountant=ZCDP)
    empty.grant("ana", epsilon_nano=NANO, delta_atto=10**12)
    limit = empty.state().primary_limit
    answer(empty, ask("a", loss=Loss(epsilon_nano=2**60, rho_pico=limit)))
    assert (empty.remaining("ana").primary, empty.state().primary_spent) == (0, limit)
    with refused("B101"):
        empty.admit(ask("b", loss=Loss(epsilon_nano=1, rho_pico=1)))


def test_a_plan_for_another_version_is_refused(ledger):
    ledger.accept_source("one")
    ledger.save_table("visits", "{}")
    charge = ledger.admit(ask("a", data_version=1, catalog_version=1))
    assert (charge.data_version, charge.catalog_version) == (1, 1)
    with refused("C104"):
        ledger.admit(ask("b", data_version=0))
    with refused("C103"):
        ledger.admit(ask("b", catalog_version=2))


@pytest.mark.parametrize(
    ("code", "change"),
    [
        ("P105", {"analyst": "Robert'); --"}),
        ("P105", {"name": "../x", "kind": "summary"}),
        ("P107", {"name": "x", "kind": "query"}),
        ("P107", {"kind": "table"}),
        ("P107", {"loss": Loss(epsilon_nano=-1)}),
        ("P107", {"loss": Loss(epsilon_nano=1.5)}),
        ("P107", {"loss": Loss(epsilon_nano=1, delta_atto=2**63)}),
    ],
)
def test_a_bad_request_cannot_be_made(code, change):
    with refused(code):
        ask("a", **change)


def test_a_key_is_hex():
    with refused("P107"):
        ChargeRequest(analyst="ana", key="A b", loss=Loss(epsilon_nano=1), mechanism="", parameters="", statement="")


# -- redeeming ---------------------------------------------------------------------------------------------------------


def test_a_failed_charge_is_redeemed_up_to_three_times(ledger):
    for attempt in (1, 2, 3):
        charge = ledger.admit(ask("a"))
        assert charge.attempt == attempt
        ledger.fail(charge)
    with refused("B106"):
        ledger.admit(ask("a"))
    assert ledger.state().primary_spent == NANO


def fail_all(ledger, request):
    for _ in range(charges.MAX_ATTEMPTS):
        ledger.fail(ledger.admit(request))


def test_a_final_question_is_paid_again_only_if_wanted_and_then_stays_one_question(ledger):
    again = ask("a", again=True)
    fail_all(ledger, again)  # before the last attempt ended, ``again`` redeems like any other
    assert ledger.state().primary_spent == NANO
    for charged in (2, 3):
        with refused("B106"):
            ledger.admit(ask("a"))
        assert ledger.admit(again).attempt == 1
        assert ledger.state().primary_spent == charged * NANO
        ledger.fail(ledger.admit(ask("a")))  # the new charge is redeemed by either request
        ledger.fail(ledger.admit(again))
        assert ledger.state().primary_spent == charged * NANO
    released = answer(ledger, again)
    assert (released.charge_id, ledger.admit(ask("a")), ledger.admit(again)) == (4, released, released)


def test_paying_again_needs_budget(empty):
    ledger = set_up(empty, epsilon_nano=NANO)
    fail_all(ledger, ask("a"))
    with refused("B101"):
        ledger.admit(ask("a", again=True))


def test_the_name_of_a_final_charge_is_free_and_of_no_other(empty):
    ledger = set_up(empty, ana=10 * NANO, bob=10 * NANO)
    first, other = (ask(q, kind="summary", name="s") for q in ("a", "b"))
    for _ in range(charges.MAX_ATTEMPTS):
        ledger.fail(ledger.admit(first))
        if ledger.charges()[0].attempt < charges.MAX_ATTEMPTS:
            with refused("C111"):
                ledger.admit(other)
    ledger.share("s", "ana", "bob")
    with refused("B106"):
        ledger.admit(first)
    bought = answer(ledger, other)
    assert ledger.object("ana", "s") == bought
    with refused("C110"):  # the share was of what never came
        ledger.object("bob", "s")
    with refused("C111"):
        ledger.admit(ask("a", kind="summary", name="s", again=True))
    assert ledger.state().primary_spent == 2 * NANO
    ledger.close()
    with Ledger.open(ledger.path, create=False) as opened:  # the chain and the tables agree
        assert opened.object("ana", "s") == bought


def test_a_name_is_free_when_its_question_was_for_other_data(ledger):
    ledger.accept_source("first")
    ledger.fail(ledger.admit(ask("a", kind="summary", name="failed")))
    answer(ledger, ask("b", kind="summary", name="kept"))
    with refused("C111"):
        ledger.admit(ask("c", kind="summary", name="failed"))
    ledger.accept_source("second", reason="new rows")
    bought = answer(ledger, ask("c", kind="summary", name="failed"))
    assert ledger.object("ana", "failed") == bought
    with refused("C111"):
        ledger.admit(ask("d", kind="summary", name="kept"))


def test_a_name_is_not_free_while_the_last_attempt_runs(ledger):
    request = ask("a", kind="summary", name="s")
    for _ in range(charges.MAX_ATTEMPTS - 1):
        ledger.fail(ledger.admit(request))
    held = on_thread(lambda: ledger.admit(request))
    with refused("C111"):
        ledger.admit(ask("b", kind="summary", name="s"))
    assert ledger.store_release(held, "x") == ledger.object("ana", "s")


def on_thread(work):
    """What another thread's work gives."""
    found = []
    thread = threading.Thread(target=lambda: found.append(work()))
    thread.start()
    thread.join()
    return found[0]


def test_the_third_attempt_may_succeed(ledger):
    ledger.fail(ledger.admit(ask("a")))
    ledger.fail(ledger.admit(ask("a")))
    assert answer(ledger, ask("a"), "third").payload == "third"


def test_asking_again_in_the_same_thread_redeems(ledger):
    held = ledger.admit(ask("a"))
    assert ledger.admit(ask("a")).attempt == held.attempt + 1


def test_at_most_one_release_leaves(ledger):
    slow = ledger.admit(ask("a"))
    ledger.fail(slow)
    fast = ledger.admit(ask("a"))
    assert ledger.store_release(fast, "fast").payload == "fast"
    assert ledger.store_release(slow, "slow").payload == "fast"
    ledger.fail(slow)  # too late to change anything
    assert ledger.admit(ask("a")).payload == "fast"


def test_an_overtaken_attempt_cannot_fail_the_next(ledger):
    slow = ledger.admit(ask("a"))
    fast = ledger.admit(ask("a"))
    ledger.fail(slow)
    assert ledger.charges()[0].state == "open"
    assert ledger.store_release(fast, "x").payload == "x"


def test_a_key_stands_for_one_question(ledger):
    charge = ledger.admit(ask("a"))
    for step in ("charged", "released"):
        for other in (ask("a", 2 * NANO), ask("a", delta_atto=1), ask("a", kind="summary", name="s")):
            with refused("X101"):
                ledger.admit(other)
        if step == "charged":
            ledger.store_release(charge, "x")
    assert ledger.admit(ask("a")).payload == "x"


def test_one_who_may_ask_says_nothing_of_another(ledger):
    for _ in range(3):
        ledger.require_open("ana")
        with refused("B102"):
            ledger.require_open("eve")


def test_a_made_up_charge_is_refused(ledger):
    charge = Charge(
        id=9, analyst="ana", key=key("a"), loss=Loss(epsilon_nano=1), data_version=0, catalog_version=0, attempt=1
    )
    with refused("X101"):
        ledger.store_release(charge, "x")
    real = ledger.admit(ask("a"))
    for other in (replace(real, id=real.id + 1), replace(real, loss=Loss(epsilon_nano=1)), replace(real, key=key("b"))):
        for store in (ledger.store_release, lambda c, payload: ledger.store_stage(c, 0, payload)):
            with refused("X101"):
                store(other, "x")
        with refused("X101"):
            ledger.stages(other)
    assert ledger.store_release(real, "y").payload == "y"


def test_ones_own_name_goes_before_a_shared_one(empty):
    set_up(empty, ana=NANO, bob=NANO)
    answer(empty, ask("a", name="s", kind="summary"), "ana's")
    empty.share("s", "ana", "bob")
    assert empty.object("bob", "s").payload == "ana's"
    answer(empty, ask("b", name="s", kind="summary", analyst="bob"), "bob's")
    assert empty.object("bob", "s").payload == "bob's"
    assert [(o.name, o.owner) for o in empty.objects("bob")] == [("s", "bob"), ("s", "ana")]


# -- who may ask -------------------------------------------------------------------------------------------------------


def test_who_may_ask_is_checked_before_what_is_stored(empty):
    with refused("B107"):
        empty.admit(ask("a"))
    set_up(empty, ana=NANO, bob=NANO)
    answer(empty, ask("a", name="ac", kind="summary"))
    empty.share("ac", "ana", "bob")
    with refused("B102"):
        empty.admit(ask("a", analyst="eve"))
    empty.revoke("ana", "left")
    for call in (
        lambda: empty.admit(ask("a", name="ac", kind="summary")),
        lambda: empty.release("ana", 1),
        lambda: empty.object("ana", "ac"),
        lambda: empty.objects("ana"),
    ):
        with refused("B103"):
            call()
    assert empty.object("bob", "ac").payload == "42"  # what was shared stays shared
    empty.freeze("breach")
    with refused("B103"):
        empty.object("bob", "ac")
    empty.unfreeze("false alarm")
    assert empty.object("bob", "ac").payload == "42"


@pytest.mark.parametrize("stop", ["freeze", "revoke"])
def test_what_is_stopped_while_it_runs_does_not_leave(ledger, stop):
    charge = ledger.admit(ask("a"))
    ledger.store_stage(charge, 0, "w")
    ledger.freeze("stop") if stop == "freeze" else ledger.revoke("ana", "stop")
    for leave in (
        lambda: ledger.stages(charge),
        lambda: ledger.store_stage(charge, 0, "x"),
        lambda: ledger.store_stage(charge, 1, "x"),
        lambda: ledger.store_release(charge, "x"),
    ):
        with refused("B103"):
            leave()
    ledger.unfreeze("go")
    ledger.grant("ana", epsilon_nano=10 * NANO, delta_atto=10**12, raise_to=True, reason="go")
    assert answer(ledger, ask("a"), "y").payload == "y"


# -- what is remembered between two writes -----------------------------------------------------------------------------


def _facts(ledger: Ledger) -> list[object]:
    found: list[object] = [ledger.state()]
    for analyst in ("ana", "bob", "eve"):
        try:
            found.append(ledger.require_open(analyst))
        except DuckDPError as error:
            found.append(str(error))
    return found


def _stale(acts: list[Callable[[], object]], kept: Ledger, path: str) -> int:
    """After how many acts a ledger that remembers says something else than one that was just opened."""
    wrong = 0
    for act in acts:
        _facts(kept)
        act()
        with Ledger.open(path) as other:
            wrong += _facts(kept) != _facts(other)
    return wrong


def test_what_is_remembered_is_as_new_as_the_last_write_of_anybody(ledger, monkeypatch):
    with Ledger.open(ledger.path) as other:
        ledger.grant("bob", epsilon_nano=NANO, delta_atto=0)
        acts = [
            act
            for writer in (ledger, other)
            for act in (
                lambda w=writer: w.freeze("for now"),
                lambda w=writer: w.unfreeze(reason="again"),
                lambda w=writer: w.revoke("bob", "left"),
                lambda w=writer: w.grant("bob", epsilon_nano=NANO, delta_atto=0, raise_to=True, reason="back"),
                lambda w=writer: answer(w, ask(f"by {w is other}", 1)),
                lambda w=writer: w.save_table("t", f'{{"by": "{w is other}"}}'),
            )
        ]
        assert _stale(acts, ledger, ledger.path) == 0
        monkeypatch.setattr(connections.Connection, "remembered", lambda connection: connection.found)  # for ever
        assert _stale(acts[6:10], ledger, ledger.path) > 0  # by who wrote last, and so remembers right


def test_what_is_remembered_is_bounded(ledger, monkeypatch):
    monkeypatch.setattr(connections, "MOST_FOUND", 10)
    for k in range(100):
        assert ledger._store.recall(k, lambda tx, k=k: k) == k
        assert len(ledger._store._idle[-1].found) <= 10

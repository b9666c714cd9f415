"""Teams, months and reservations: a charge fits every limit that it is counted to, or is refused by one of them."""

from __future__ import annotations

import gc
import json
import os
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import duckdp
from duckdp.cli import main
from duckdp.core import accountant as accounting
from duckdp.core.accountant import pure_rho
from duckdp.core.types import AccountantKind, Loss, Neighbours
from duckdp.errors import DuckDPError, InsufficientBudgetError, ParameterError
from duckdp.ledger import Cap, Charge, Ledger, chain, reservations
from tests.ledgers import NANO, answer, ask, refused, set_up

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    with Ledger.open(tmp_path / "a.ledger") as made:
        yield set_up(made, 20 * NANO, ana=10 * NANO, ben=10 * NANO, cleo=10 * NANO)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The time, in a list of one."""
    times = ["2026-11-30T23:59:59Z"]
    monkeypatch.setattr(chain, "now", lambda: times[0])
    return times


def cap(epsilon: int, month: int | None = None) -> Cap:
    return Cap(epsilon_nano=epsilon * NANO, delta_atto=0, month_epsilon_nano=None if month is None else month * NANO)


def insufficient(ledger: Ledger, question: object, cost: int, who: str = "ana", **more: Any) -> InsufficientBudgetError:
    with pytest.raises(InsufficientBudgetError) as caught:
        ledger.admit(ask(question, cost * NANO, who, **more))
    return caught.value


# ---- teams -----------------------------------------------------------------------------------------------------------


def test_members_share_a_cap(ledger: Ledger) -> None:
    ledger.set_team("lab", cap(5), members=["ana", "ben"])
    answer(ledger, ask("a", 3 * NANO))
    refusal = insufficient(ledger, "b", 3, "ben")
    assert (refusal.scope, refusal.remaining) == ('team "lab"', "epsilon=2")
    assert 'remains of the team "lab"\'s budget' in str(refusal)
    answer(ledger, ask("b", 3 * NANO, "cleo"))
    answer(ledger, ask("c", 2 * NANO, "ben"))
    (team,) = ledger.teams()
    assert (team.members, team.primary_spent, team.remaining) == (("ana", "ben"), 5 * NANO, "epsilon=0")
    assert ledger.remaining("ana").primary == 0
    assert ledger.admit(ask("a", 3 * NANO)).payload == "42"  # stored answers stay free
    ledger.verify()


def test_a_refusal_names_the_tightest_limit_for_ever(ledger: Ledger) -> None:
    """What is lowered to what it names is not refused again by another limit, but for the month's, which comes back."""
    ledger.set_team("lab", cap(5), members=["ana"])
    ledger.set_team("city", cap(4), members=["ana"])
    ledger.grant("ana", epsilon_nano=10 * NANO, delta_atto=0, month_epsilon_nano=NANO)
    for cost in (12, 7, 5):
        refusal = insufficient(ledger, "a", cost)
        assert (refusal.scope, refusal.month, refusal.remaining) == ('team "city"', None, "epsilon=4")
    assert insufficient(ledger, "a", 4).month is not None


def test_a_charge_counts_in_full_against_each_team(ledger: Ledger) -> None:
    ledger.set_team("lab", cap(5), members=["ana", "ben"])
    ledger.set_team("city", cap(4), members=["ben", "cleo"])
    answer(ledger, ask("a", 2 * NANO, "ben"))
    assert [t.primary_spent for t in ledger.teams()] == [2 * NANO, 2 * NANO]
    assert insufficient(ledger, "b", 3, "ben").scope == 'team "city"'
    assert insufficient(ledger, "b", 4, "ana").scope == 'team "lab"'
    answer(ledger, ask("b", 3 * NANO, "ana"))
    ledger.verify()


def test_what_was_spent_stays_with_the_team(ledger: Ledger) -> None:
    """And what was spent before joining, or after leaving, is not counted to it."""
    answer(ledger, ask("before", 4 * NANO))
    ledger.set_team("lab", cap(5), members=["ana", "ben"])
    answer(ledger, ask("within", 2 * NANO))
    with refused("B105") as caught:
        ledger.set_team("lab", cap(5), members=["ben"])
    assert '"ana" would leave team "lab"' in str(caught.value)
    ledger.set_team("lab", cap(5), members=["ben"], reason="moved")
    answer(ledger, ask("after", 3 * NANO))
    (team,) = ledger.teams()
    assert (team.members, team.primary_spent) == (("ben",), 2 * NANO)
    assert insufficient(ledger, "b", 4, "ben").scope == 'team "lab"'
    assert ledger.log()[0].reason == "moved"
    ledger.verify()


def test_a_teams_cap_is_changed_like_any_other(ledger: Ledger) -> None:
    ledger.set_team("lab", cap(5), members=["ana"])
    ledger.set_team("lab", cap(5))
    events = len(ledger.log())
    ledger.set_team("lab", cap(5), members=["ana"])
    assert len(ledger.log()) == events
    answer(ledger, ask("a", 3 * NANO))
    for code, wanted in (("B105", cap(6)), ("B104", cap(2)), ("P107", cap(21))):
        with refused(code):
            ledger.set_team("lab", wanted)
    with refused("B102"):
        ledger.set_team("lab", cap(5), members=["nobody"])
    with refused("P105"):
        ledger.set_team("The Lab", cap(5))
    ledger.set_team("lab", cap(6), raise_to=True, reason="more")
    assert ledger.teams()[0].members == ("ana",)


def test_either_accountant(tmp_path: Path) -> None:
    with Ledger.open(tmp_path / "z.ledger") as ledger:
        ledger.set_budget(
            epsilon_nano=10 * NANO, delta_atto=10**12, neighbours=Neighbours.ADD_REMOVE, accountant=AccountantKind.BASIC
        )
        ledger.grant("ana", epsilon_nano=5 * NANO, delta_atto=10**12, month_epsilon_nano=NANO)
        team = Cap(epsilon_nano=2 * NANO, delta_atto=10**12)
        ledger.set_team("lab", team, members=["ana"])
        ledger.set_budget(
            epsilon_nano=10 * NANO, delta_atto=10**12, neighbours=Neighbours.ADD_REMOVE, accountant=AccountantKind.ZCDP
        )
        month = accounting.limits(AccountantKind.ZCDP, NANO, 10**12)
        assert ledger.remaining("ana").primary == month[0]
        assert ledger.teams()[0].primary_limit == accounting.limits(AccountantKind.ZCDP, 2 * NANO, 10**12)[0]
        spent, small = 0, Loss(epsilon_nano=10**8, rho_pico=pure_rho(10**8))
        while spent + small.rho_pico <= month[0]:
            answer(ledger, ask(spent, loss=small))
            spent += small.rho_pico
        with pytest.raises(InsufficientBudgetError) as caught:
            ledger.admit(ask("last", loss=small))
        assert caught.value.month is not None
        assert ledger.teams()[0].primary_spent == spent
        ledger.verify()


@pytest.mark.parametrize("kind", list(AccountantKind))
def test_budgets_too_large_to_be_added_exactly_are_refused(tmp_path: Path, kind: AccountantKind) -> None:
    """The ledger's sums are 64 bits, whatever the accountant makes of epsilon."""
    with Ledger.open(tmp_path / "z.ledger") as ledger:
        for epsilon in (2**62 + 1, 2**62, 2**60, 2**40):
            budget = {"epsilon_nano": epsilon, "delta_atto": 10**12, "neighbours": Neighbours.ADD_REMOVE}
            with suppress(ParameterError):
                ledger.set_budget(**budget, accountant=kind)
                assert max(accounting.limits(kind, epsilon, 10**12)) <= 2**62
                ledger.grant("ana", epsilon_nano=epsilon, delta_atto=10**12, raise_to=True, reason="large")
                break
        assert ledger.remaining("ana").primary > 2**40
        ledger.verify()


# ---- months ----------------------------------------------------------------------------------------------------------


def test_a_month_has_a_limit_and_the_next_one_begins_anew(ledger: Ledger, clock: list[str]) -> None:
    ledger.grant("ana", epsilon_nano=10 * NANO, delta_atto=10**12, month_epsilon_nano=2 * NANO)
    answer(ledger, ask("a", 2 * NANO))
    refusal = insufficient(ledger, "b", 1)
    assert (refusal.scope, refusal.month, refusal.replenishes) == ("analyst", "2026-11", "2026-12-01 00:00 UTC")
    assert "wait until then" in str(refusal)
    assert ledger.remaining("ana").sentence.startswith(
        "epsilon=0, delta=1e-6 left this month (until 2026-12-01 00:00 UTC), epsilon=8, delta=1e-6 in all"
    )
    clock[0] = "2026-12-01T00:00:00Z"
    for k in range(4):
        answer(ledger, ask(("b", k), 2 * NANO))
        clock[0] = f"2027-{k + 1:02d}-01T00:00:00Z"
    refusal = insufficient(ledger, "c", 1)
    assert (refusal.month, refusal.remaining) == (None, "epsilon=0, delta=1e-6")  # the lifetime cap never replenishes
    ledger.verify()


@pytest.mark.parametrize("looks", range(6))
def test_a_clock_that_goes_back_within_a_charge_fills_no_month_twice(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch, looks: int
) -> None:
    """It jumps over the end of the month after so many looks at it."""
    ledger.grant("ana", epsilon_nano=10 * NANO, delta_atto=10**12, month_epsilon_nano=2 * NANO)
    times = ["2026-11-30T23:59:59Z"]
    monkeypatch.setattr(chain, "now", lambda: times.pop() if len(times) > 1 else times[0])
    answer(ledger, ask("a", 2 * NANO))
    times += ["2026-12-01T00:00:00Z"] * looks
    with suppress(InsufficientBudgetError):
        ledger.admit(ask("b", 2 * NANO))
    rows = ledger._store.read(lambda tx: tx.rows("SELECT detail, subject FROM event WHERE kind = 'charge'"))
    assert len({json.loads(row["detail"])["month"] for row in rows}) == len(rows)
    ledger.verify()


def test_a_clock_that_goes_back_reopens_no_month(ledger: Ledger, clock: list[str]) -> None:
    ledger.grant("ana", epsilon_nano=10 * NANO, delta_atto=10**12, month_epsilon_nano=2 * NANO)
    answer(ledger, ask("a", NANO))
    clock[0] = "2026-12-02T00:00:00Z"
    answer(ledger, ask("b", NANO, "ben"))  # somebody else's charge moves the month
    clock[0] = "2026-11-15T00:00:00Z"
    answer(ledger, ask("c", 2 * NANO))
    assert insufficient(ledger, "d", 1).month == "2026-12"
    clock[0] = "1970-01-01T00:00:00Z"
    ledger.close()
    with Ledger.open(ledger.path, create=False) as again:
        assert insufficient(again, "d", 1).month == "2026-12"
        clock[0] = "2026-12-31T00:00:00Z"
        assert insufficient(again, "d", 1).month == "2026-12"
        clock[0] = "2027-01-01T00:00:00Z"
        answer(again, ask("d", NANO))
        again.verify()


def test_what_was_spent_before_counts_when_a_month_is_limited(ledger: Ledger, clock: list[str]) -> None:
    answer(ledger, ask("a", 3 * NANO))
    ledger.grant("ana", epsilon_nano=10 * NANO, delta_atto=10**12, month_epsilon_nano=2 * NANO)
    assert insufficient(ledger, "b", 1).remaining == "epsilon=0, delta=1e-6"
    clock[0] = "2026-12-01T00:00:00Z"
    answer(ledger, ask("b", 2 * NANO))


def test_a_month_is_raised_or_freed_only_on_purpose(ledger: Ledger) -> None:
    given = {"epsilon_nano": 10 * NANO, "delta_atto": 10**12}
    ledger.grant("ana", **given, month_epsilon_nano=2 * NANO)
    ledger.grant("ana", **given, month_epsilon_nano=2 * NANO)
    for month in (None, 3 * NANO):
        with refused("B105") as caught:
            ledger.grant("ana", **given, month_epsilon_nano=month)
        assert "epsilon=2, delta=1e-6 a month" in str(caught.value)
    ledger.grant("ana", **given, month_epsilon_nano=NANO)
    ledger.grant("ana", **given, raise_to=True, reason="trusted")
    assert ledger.analysts()[0].month is None
    with refused("P107"):
        ledger.grant("ana", **given, month_epsilon_nano=11 * NANO)


def test_either_part_of_a_month_is_raised_on_purpose_only(ledger: Ledger) -> None:
    given = {"epsilon_nano": 10 * NANO, "delta_atto": 10**12}
    ledger.grant("ana", **given, month_epsilon_nano=2 * NANO, month_delta_atto=10**11)
    for month in ((2 * NANO, 2 * 10**11), (NANO, 10**11 + 1), (2 * NANO + 1, 0)):
        with refused("B105"):
            ledger.grant("ana", **given, month_epsilon_nano=month[0], month_delta_atto=month[1])
    ledger.grant("ana", **given, month_epsilon_nano=NANO, month_delta_atto=10**10)


def test_either_part_of_a_cap_is_lowered_to_what_was_spent_and_no_further(ledger: Ledger) -> None:
    answer(ledger, ask("a", 2 * NANO, delta_atto=5 * 10**11))
    for epsilon, delta in ((10 * NANO, 5 * 10**11 - 1), (2 * NANO - 1, 10**12)):
        with refused("B104"):
            ledger.grant("ana", epsilon_nano=epsilon, delta_atto=delta)
    ledger.grant("ana", epsilon_nano=2 * NANO, delta_atto=5 * 10**11)
    for epsilon, delta in ((NANO, 10**12 + 1), (20 * NANO + 1, 0)):  # and to no more than the data set's total
        with refused("P107"):
            ledger.grant("dan", epsilon_nano=epsilon, delta_atto=delta)
        with refused("P107"):
            ledger.set_team("lab", Cap(epsilon_nano=epsilon, delta_atto=delta))


def test_a_team_has_months_too(ledger: Ledger, clock: list[str]) -> None:
    ledger.set_team("lab", cap(8, 3), members=["ana", "ben"])
    answer(ledger, ask("a", 2 * NANO))
    refusal = insufficient(ledger, "b", 2, "ben")
    assert (refusal.scope, refusal.month) == ('team "lab"', "2026-11")
    clock[0] = "2026-12-01T00:00:00Z"
    answer(ledger, ask("b", 3 * NANO, "ben"))
    rows = [(row.scope, row.month, row.spent, row.remaining) for row in ledger.limits("ana")]
    assert rows == [
        ("analyst", None, "epsilon=2", "epsilon=8, delta=1e-6"),
        ('team "lab"', None, "epsilon=5", "epsilon=3"),
        ('team "lab"', "2026-12", "epsilon=3", "epsilon=0"),
    ]
    ledger.verify()


# ---- reservations ----------------------------------------------------------------------------------------------------


def test_headroom_is_held_and_given_up(ledger: Ledger) -> None:
    ledger.set_team("lab", cap(8), members=["ana", "ben"])
    held = ledger.reserve("ana", epsilon_nano=6 * NANO, delta_atto=0)
    refusal = insufficient(ledger, "b", 3, "ben")
    assert (refusal.scope, refusal.remaining, refusal.held) == ('team "lab"', "epsilon=2", "epsilon=6")
    assert "Reservations hold epsilon=6 of it." in str(refusal)
    assert ledger.state().primary_spent == 0
    answer(ledger, ask("a", 4 * NANO, reservation=held.id))
    assert ledger.remaining("ana", held.id).primary == 2 * NANO
    refusal = insufficient(ledger, "c", 3, reservation=held.id)
    assert (refusal.scope, refusal.remaining) == ("reservation", "epsilon=2")
    answer(ledger, ask("b", 2 * NANO, "ben"))
    assert insufficient(ledger, "c", 1, "ben").scope == 'team "lab"'
    ledger.verify()
    ledger.end_reservation(held)
    ledger.end_reservation(held)
    assert ledger.state().primary_spent == 6 * NANO
    answer(ledger, ask("c", 2 * NANO, "ben"))
    with refused("B109"):
        ledger.admit(ask("d", 1, reservation=held.id))
    ledger.verify()


def test_a_reservation_must_fit_and_so_must_what_is_charged_within(ledger: Ledger) -> None:
    one = ledger.reserve("ana", epsilon_nano=8 * NANO, delta_atto=0)
    with refused("B101"):
        ledger.reserve("ana", epsilon_nano=3 * NANO, delta_atto=0)
    two = ledger.reserve("ben", epsilon_nano=10 * NANO, delta_atto=0)
    with refused("B101"):
        ledger.reserve("cleo", epsilon_nano=3 * NANO, delta_atto=0)
    ledger.set_team("lab", cap(1), members=["ana"])  # a limit that came later counts too
    assert insufficient(ledger, "a", 2, reservation=one.id).scope == 'team "lab"'
    with refused("B109"):
        ledger.admit(ask("a", NANO, reservation=two.id))
    answer(ledger, ask("a", NANO, reservation=one.id))
    ledger.verify()


@pytest.mark.parametrize(("first", "then"), [("BASIC", "ZCDP"), ("ZCDP", "BASIC")])
def test_another_accountant_ends_what_is_held(ledger: Ledger, first: str, then: str) -> None:
    """What is held in its units would be more, or less, than was held; before anything is charged it may change."""

    def count(kind: str) -> None:
        ledger.set_budget(
            epsilon_nano=20 * NANO,
            delta_atto=10**12,
            neighbours=Neighbours.ADD_REMOVE,
            accountant=AccountantKind[kind],
        )

    count(first)
    held = ledger.reserve("ana", epsilon_nano=10 * NANO, delta_atto=10**12)
    count(then)
    assert ledger.remaining("ben").primary == accounting.limits(AccountantKind[then], 10 * NANO, 10**12)[0]
    with refused("B109"):
        ledger.admit(ask("a", loss=Loss(epsilon_nano=10**8, rho_pico=pure_rho(10**8)), reservation=held.id))
    ledger.verify()
    ledger.end_reservation(held)
    again = ledger.reserve("ana", epsilon_nano=10 * NANO, delta_atto=10**12)
    count(then)
    assert ledger.remaining("ana", again.id).primary == ledger.remaining("ben").primary
    ledger.verify()


def test_a_reservation_that_is_dropped_is_free(ledger: Ledger) -> None:
    held = ledger.reserve("ana", epsilon_nano=10 * NANO, delta_atto=0)
    insufficient(ledger, "a", 1)
    del held
    gc.collect()
    answer(ledger, ask("a", NANO))
    ledger.verify()


def test_a_stopped_analyst_holds_nothing(ledger: Ledger) -> None:
    held = ledger.reserve("ana", epsilon_nano=10 * NANO, delta_atto=0)
    other = ledger.reserve("ben", epsilon_nano=8 * NANO, delta_atto=0)
    assert insufficient(ledger, "c", 3, "cleo").scope == "data set"
    ledger.revoke("ana", "stop")
    answer(ledger, ask("c", 3 * NANO, "cleo"))
    assert (held.analyst, other.analyst) == ("ana", "ben")


def test_there_are_only_so_many(ledger: Ledger) -> None:
    held = [ledger.reserve("ana", epsilon_nano=1000, delta_atto=0) for _ in range(16)]
    with refused("B109"):
        ledger.reserve("ana", epsilon_nano=1000, delta_atto=0)
    ledger.end_reservation(held.pop())
    ledger.reserve("ana", epsilon_nano=1000, delta_atto=0)


def test_delta_is_held_and_taken_like_epsilon(ledger: Ledger) -> None:
    """Either part by itself: what is held of it is no one else's, and what is charged within is taken from it."""
    tenth = 10**11  # of all there is
    held = ledger.reserve("ana", epsilon_nano=4 * NANO, delta_atto=6 * tenth)
    assert insufficient(ledger, "b", 1, "ben", delta_atto=5 * tenth).scope == "data set"
    answer(ledger, ask("a", NANO, delta_atto=4 * tenth, reservation=held.id))
    assert insufficient(ledger, "c", 1, delta_atto=3 * tenth, reservation=held.id).scope == "reservation"
    assert insufficient(ledger, "b", 1, "ben", delta_atto=5 * tenth).scope == "data set"
    answer(ledger, ask("b", NANO, "ben", delta_atto=4 * tenth))
    answer(ledger, ask("c", NANO, delta_atto=2 * tenth, reservation=held.id))
    assert insufficient(ledger, "d", 1, delta_atto=1, reservation=held.id).scope == "reservation"
    assert ledger.state().secondary_spent == 10 * tenth
    ledger.verify()


def test_a_reservation_is_held_of_the_analysts_own_limits(ledger: Ledger) -> None:
    held = ledger.reserve("ana", epsilon_nano=8 * NANO, delta_atto=0)
    assert insufficient(ledger, "a", 3).scope == "analyst"
    ledger.end_reservation(held)
    ledger.grant("ana", epsilon_nano=10 * NANO, delta_atto=10**12, month_epsilon_nano=5 * NANO)
    held = ledger.reserve("ana", epsilon_nano=4 * NANO, delta_atto=0)
    refusal = insufficient(ledger, "a", 2)
    assert (refusal.scope, refusal.month is None, refusal.held) == ("analyst", False, "epsilon=4")
    answer(ledger, ask("a", NANO))
    answer(ledger, ask("b", 4 * NANO, reservation=held.id))


def test_a_reservation_that_the_owner_ended_is_of_no_more_use(ledger: Ledger) -> None:
    held = ledger.reserve("ana", epsilon_nano=8 * NANO, delta_atto=0)
    ledger._store.write(lambda tx: reservations.end_all(tx, "the ledger moves"))
    with refused("B109"):
        ledger.admit(ask("a", NANO, reservation=held.id))
    assert not ledger.charges()
    answer(ledger, ask("a", 10 * NANO))
    ledger.verify()


HOLDER = """
import sys
from duckdp.ledger import Ledger
ledger = Ledger.open(sys.argv[1], create=False)
held = ledger.reserve("ana", epsilon_nano=10 * 10**9, delta_atto=0)
print("held", flush=True)
sys.stdin.readline()
"""


def test_a_killed_process_holds_nothing(ledger: Ledger) -> None:
    command = [sys.executable, "-c", HOLDER, ledger.path]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=os.environ | {"PYTHONPATH": str(ROOT)}
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        insufficient(ledger, "a", 1)
        with refused("B109"):
            ledger.admit(ask("a", 1, reservation=1))
        holder.kill()
        holder.wait()
        answer(ledger, ask("a", NANO))
    ledger.verify()


# ---- races -----------------------------------------------------------------------------------------------------------


def race(ledger: Ledger, who: str, number: int, held: list[int], spent: list[int]) -> None:
    """Spend, within a reservation or not, until refused; note what was charged."""
    own = None
    for k in range(12):
        try:
            if number % 3 == 0 and own is None:
                own = ledger.reserve(who, epsilon_nano=9, delta_atto=0)
                held.append(9)
            charge = ledger.admit(ask((number, k), 3, who, reservation=None if own is None else own.id))
        except DuckDPError as error:
            assert error.code in ("B101", "B109"), error
            if own is not None:
                ledger.end_reservation(own)
                own = None
            continue
        assert isinstance(charge, Charge)
        spent.append(3)
        ledger.store_release(charge, "x")


def check_race(path: Path, workers: int, total: int) -> None:
    with Ledger.open(path) as ledger, Ledger.open(path, create=False) as other:
        set_up(ledger, total, ana=total, ben=total, cleo=total)
        ledger.set_team("lab", Cap(epsilon_nano=total // 2, delta_atto=0), members=["ana", "ben"])
        held: list[int] = []
        spent: list[int] = []
        threads = [
            threading.Thread(target=race, args=((ledger, other)[k % 2], ("ana", "ben", "cleo")[k % 3], k, held, spent))
            for k in range(workers)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sum(spent) == ledger.state().primary_spent <= total
        assert sum(spent) > total - 3 * 9
        assert ledger.teams()[0].primary_spent <= total // 2
        ledger.verify()


def test_eight_racing_workers_never_overspend(tmp_path: Path) -> None:
    check_race(tmp_path / "a.ledger", 8, 120)


@pytest.mark.slow
def test_thirty_two_racing_workers_never_overspend(tmp_path: Path) -> None:
    check_race(tmp_path / "a.ledger", 32, 600)


# ---- what is stored --------------------------------------------------------------------------------------------------

EDITS = [
    "UPDATE team SET primary_spent = 0",
    "UPDATE team SET members = '[]'",
    "DELETE FROM team",
    "UPDATE team SET primary_month_limit = NULL, month_epsilon_nano = NULL",
    "UPDATE analyst SET teams = '[]'",
    "UPDATE analyst SET primary_month_spent = 0",
    "UPDATE analyst SET month = '2020-01'",
    "UPDATE dataset SET month = '2020-01'",
    "UPDATE reservation SET primary_held = 0",
    "UPDATE reservation SET ended = 'x'",
    "DELETE FROM reservation",
    "UPDATE dataset SET reserved = 0",
]


@pytest.mark.parametrize("edit", EDITS)
def test_an_edit_is_refused_where_it_matters_and_found_by_verify(ledger: Ledger, edit: str) -> None:
    ledger.set_team("lab", cap(8, 3), members=["ana", "ben"])
    ledger.grant("ana", epsilon_nano=10 * NANO, delta_atto=10**12, month_epsilon_nano=3 * NANO)
    held = ledger.reserve("ana", epsilon_nano=NANO, delta_atto=0)
    answer(ledger, ask("a", 2 * NANO))
    ledger.verify()
    with sqlite3.connect(ledger.path) as connection:
        connection.execute(edit)
    connection.close()
    with refused("B202"):
        ledger.admit(ask("b", 0))
    with refused("B202"):
        ledger.verify()
    assert held


def test_edits_with_a_seal_of_their_own_are_found_by_verify(ledger: Ledger) -> None:
    """What only the history can tell: rows that were changed through the ledger's own functions."""
    ledger.set_team("lab", cap(8, 3), members=["ana", "ben"])
    answer(ledger, ask("a", 2 * NANO))
    for table, name, change in (
        ("team", "lab", {"primary_spent": 0}),
        ("team", "lab", {"primary_month_spent": 0}),
        ("team", "lab", {"members": '["ana"]'}),
        ("team", "lab", {"primary_limit": 99 * NANO}),
        ("analyst", "ana", {"month": "2020-01"}),
        ("analyst", "ana", {"teams": "[]"}),
        ("analyst", "ben", {"primary_month_limit": 1}),
    ):
        before: dict[str, Any] = ledger._store.read(lambda tx, t=table, n=name: tx.get(t, name=n))
        ledger._store.write(lambda tx, t=table, b=before, c=change: tx.change(t, b, ("name",), **c))
        with refused("B202"):
            ledger.verify()
        after: dict[str, Any] = ledger._store.read(lambda tx, t=table, n=name: tx.get(t, name=n))
        back = {column: before[column] for column in change}
        ledger._store.write(lambda tx, t=table, a=after, b=back: tx.change(t, a, ("name",), **b))
        ledger.verify()


def test_events_tell_nothing_else(ledger: Ledger) -> None:
    """A charge says its month and its teams; those of analysts without a team say no more than before."""
    answer(ledger, ask("a"))
    rows = ledger._store.read(lambda tx: tx.rows("SELECT detail FROM event WHERE kind = 'charge'"))
    assert set(json.loads(rows[0][0])) == {"charge", "digest", "holder", "month"}


# ---- what people see -------------------------------------------------------------------------------------------------


def test_the_owner_and_analysts_see_it_all(curator: duckdp.Curator) -> None:
    """In the session, in SQL, in explain, in the error."""
    curator.grant("ana", epsilon=10, delta="1e-6", per_month="0.5")
    curator.grant("ben", epsilon=1)
    curator.team("lab", epsilon=3, members=["ana", "ben"], per_month=2)
    ana = curator.session("ana")
    ana.sql("SELECT count(*) FROM visits", epsilon="0.25")
    month = curator.ledger.limits("ana")[-1].month
    rows = ana.budget().rows()
    assert [row[1:] for row in rows] == [
        ("analyst", "epsilon=10, delta=1e-6", "epsilon=0.25", "epsilon=9.75, delta=1e-6"),
        ('team "lab"', "epsilon=3", "epsilon=0.25", "epsilon=2.75"),
        (f"analyst, {month}", "epsilon=0.5, delta=1e-6", "epsilon=0.25", "epsilon=0.25, delta=1e-6"),
        (f'team "lab", {month}', "epsilon=2", "epsilon=0.25", "epsilon=1.75"),
        ("all limits", "", "", "epsilon=0.25"),
    ]
    with curator.connect("ana") as con:
        assert con.execute("SELECT scope FROM dp_budget()").fetchall() == [(row[1],) for row in rows]
    told = str(ana.explain("SELECT count(*) FROM visits", epsilon="0.1"))
    assert "epsilon=0.25 left this month (until " in told
    assert "), epsilon=2.75 in all, about 2 such queries" in told
    with pytest.raises(InsufficientBudgetError) as caught:
        ana.sql("SELECT count(*) FROM visits", epsilon="0.3")
    assert f"remains of the analyst's budget for {month}. The next month's begins on " in str(caught.value)
    with refused("P107"):
        curator.team("lab", epsilon=3, members="ana")
    with refused("P101"):
        curator.grant("ana", epsilon=10, per_month=0)


def test_a_session_holds_headroom(curator: duckdp.Curator) -> None:
    curator.grant("ben", epsilon=20, delta="1e-6")
    ana, ben = curator.session("ana"), curator.session("ben")
    with ana.reserve(epsilon=8) as held:
        with pytest.raises(InsufficientBudgetError, match=r"Reservations hold epsilon=8 of it"):
            ben.sql("SELECT count(*) FROM visits", epsilon=15)
        result = held.sql("SELECT count(*) FROM visits", epsilon=3)
        assert result.remaining.startswith("epsilon=5 left")
        assert ana.remaining_text() == "epsilon=2, delta=1e-6 left"
        with pytest.raises(InsufficientBudgetError, match=r"of the reservation\."):
            held.sql("SELECT count(*) FROM visits WHERE age > 5", epsilon=6)
    assert ana.remaining_text() == "epsilon=7, delta=1e-6 left"
    with refused("B109"):
        held.sql("SELECT count(*) FROM visits WHERE age > 5", epsilon=1)
    ben.sql("SELECT count(*) FROM visits", epsilon=15)


def test_the_command_line(curator: duckdp.Curator, clinic_file: str) -> None:
    curator.close()
    place = ["--ledger", curator.ledger.path]

    def run(*words: str, code: int = 0) -> str:
        done = CliRunner().invoke(main, [words[0], clinic_file, *words[1:], *place])
        assert done.exit_code == code, done.output
        return done.output

    assert "there is no team" in run("team")
    told = run("grant", "ben", "--epsilon", "5", "--per-month", "0.5")
    assert told.startswith("ben: epsilon=0.5 left this month (until ")
    run("team", "lab", code=2)
    told = run("team", "lab", "--epsilon", "3", "--per-month", "1", "--add", "ana", "--add", "ben")
    assert "ana, ben" in told
    assert "epsilon=1 a month" in told
    assert "B105" in run("team", "lab", "--remove", "ana", code=1)
    assert "ana" not in run("team", "lab", "--remove", "ana", "--reason", "moved")
    assert "B105" in run("grant", "ben", "--epsilon", "5", code=1)
    run("grant", "ben", "--epsilon", "5", "--raise", "--reason", "trusted")
    told = run("budget")
    assert "team lab" in told
    assert "a month" in told


def _total(ledger: Ledger, delta: int) -> None:
    ledger.set_budget(
        epsilon_nano=20 * NANO, delta_atto=delta, neighbours=Neighbours.ADD_REMOVE, accountant=AccountantKind.BASIC
    )


@pytest.mark.parametrize("scope", ["analyst", "team", "data set"])
def test_what_is_short_is_named(tmp_path: Path, scope: str) -> None:
    """Of every limit: that delta is short is said, as a lower epsilon would not help; nor is epsilon blamed."""
    wide = 10**12
    with Ledger.open(tmp_path / "d.ledger") as ledger:
        _total(ledger, wide)
        for who in ("ana", "ben"):
            ledger.grant(who, epsilon_nano=9 * NANO, delta_atto=0 if (who, scope) == ("ana", "analyst") else wide)
        ledger.set_team("lab", Cap(epsilon_nano=9 * NANO, delta_atto=0 if scope == "team" else wide), members=["ana"])
        if scope == "data set":
            answer(ledger, ask("first", NANO, "ben", delta_atto=wide))
        with refused("B101") as caught:
            ledger.admit(ask("a", NANO, delta_atto=10**11))
        text, call = str(caught.value), {"analyst": "grant", "team": "team", "data set": "budget"}[scope]
        assert "delta=0 remains" in text
        assert f"lower delta, or ask the data owner for more: curator.{call}(..., delta=...)." in text
        assert "lower epsilon" not in text
        with refused("B101") as caught:
            ledger.admit(ask("b", 30 * NANO))
        assert "lower epsilon, or ask the data owner for more." in str(caught.value)


def test_a_limit_below_the_delta_that_was_spent_says_so(tmp_path: Path) -> None:
    with Ledger.open(tmp_path / "d.ledger") as ledger:
        _total(ledger, 10**12)
        ledger.grant("ana", epsilon_nano=9 * NANO, delta_atto=10**12)
        ledger.set_team("lab", Cap(epsilon_nano=9 * NANO, delta_atto=10**12), members=["ana"])
        answer(ledger, ask("first", NANO, delta_atto=10**11))
        for call in (
            lambda: _total(ledger, 0),
            lambda: ledger.grant("ana", epsilon_nano=9 * NANO, delta_atto=0),
            lambda: ledger.set_team("lab", Cap(epsilon_nano=9 * NANO, delta_atto=0)),
        ):
            with refused("B104") as caught:
                call()
            assert str(caught.value).startswith("B104: delta=0 is less than the 1e-7 that ")
            assert "Give delta=1e-7 at least" in str(caught.value)
        with refused("B104") as caught:
            ledger.grant("ana", epsilon_nano=NANO - 1, delta_atto=10**12)
        assert str(caught.value).startswith("B104: epsilon=0.999999999")

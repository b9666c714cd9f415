"""Random histories of caps, teams, months, reservations and charges, with a clock that jumps, against plain sums.

What is charged is listed with its analyst, the teams of that time and its month; a limit is a sum over that list. The
ledger refuses a charge if and only if some sum would be exceeded, and never shows another sum.
"""

from __future__ import annotations

import shutil
import tempfile
from dataclasses import dataclass
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from duckdp.core.types import AccountantKind, Neighbours
from duckdp.errors import InsufficientBudgetError
from duckdp.ledger import Cap, Charge, Ledger, Reservation, chain, limits
from tests.ledgers import answer, ask, refused

WHO = ("ana", "ben", "cleo")
TEAMS = ("lab", "city")
TOTAL = 60


@dataclass(frozen=True)
class Charged:
    who: str
    cost: int
    teams: frozenset[str]
    month: int


class Limits(RuleBasedStateMachine):
    """Amounts are in 1e-9; months are numbered."""

    def __init__(self) -> None:
        super().__init__()
        self.patch = pytest.MonkeyPatch()
        self.clock, self.month = 24000, 0  # of the clock, and the latest in which anything was charged
        self.patch.setattr(chain, "now", lambda: f"{self.clock // 12:04d}-{self.clock % 12 + 1:02d}-07T00:00:00Z")
        self.folder = tempfile.mkdtemp()
        self.ledger = Ledger.open(f"{self.folder}/a.ledger")
        self.ledger.set_budget(
            epsilon_nano=TOTAL, delta_atto=0, neighbours=Neighbours.ADD_REMOVE, accountant=AccountantKind.BASIC
        )
        self.caps: dict[str, tuple[int, int | None]] = {}
        self.teams: dict[str, tuple[int, int | None, frozenset[str]]] = {}
        self.paid: list[Charged] = []
        self.held: dict[int, tuple[Reservation, int]] = {}
        self.asked = 0
        for who in WHO[:2]:
            self.grant(who, 40, None)

    # ---- the model ---------------------------------------------------------------------------------------------------

    def present(self) -> int:
        return max(self.month, self.clock)

    def spent(self, scope: str, *, month: int | None = None) -> int:
        inside = [c for c in self.paid if scope in ("all", c.who) or scope in c.teams]
        return sum(c.cost for c in inside if month in (None, c.month))

    def holding(self, scope: str, but: int | None = None) -> int:
        members = self.teams[scope][2] if scope in self.teams else {scope}
        return sum(left for k, (r, left) in self.held.items() if k != but and (scope == "all" or r.analyst in members))

    def limits(self, who: str) -> list[tuple[str, int, int | None]]:
        """(scope, limit, month)."""
        found: list[tuple[str, int, int | None]] = [("all", TOTAL, None)]
        inside = {team: cap for team, cap in self.teams.items() if who in cap[2]}
        for scope, cap in {who: self.caps[who], **inside}.items():
            found.append((scope, cap[0], None))
            if cap[1] is not None:
                found.append((scope, cap[1], self.present()))
        return found

    def fits(self, who: str, cost: int, within: int | None = None) -> bool:
        if within is not None and cost > self.held[within][1]:
            return False
        return all(
            cost == 0 or cost <= limit - self.spent(scope, month=month) - (0 if within else self.holding(scope))
            for scope, limit, month in self.limits(who)
        )

    # ---- the rules ---------------------------------------------------------------------------------------------------

    def cap(self, epsilon: int, month: int | None) -> Cap:
        return Cap(
            epsilon_nano=epsilon, delta_atto=0, month_epsilon_nano=None if month is None else min(month, epsilon)
        )

    @rule(who=st.sampled_from(WHO), epsilon=st.integers(1, TOTAL), month=st.none() | st.integers(1, 30))
    def grant(self, who: str, epsilon: int, month: int | None) -> None:
        cap = self.cap(epsilon, month)
        given = {"epsilon_nano": epsilon, "delta_atto": 0, "month_epsilon_nano": cap.month_epsilon_nano}

        def act() -> None:
            self.ledger.grant(who, **given, raise_to=True, reason="model")

        if epsilon < self.spent(who):
            with refused("B104"):
                act()
            return
        act()
        self.caps[who] = (epsilon, cap.month_epsilon_nano)

    @rule(
        team=st.sampled_from(TEAMS),
        epsilon=st.integers(1, TOTAL),
        month=st.none() | st.integers(1, 30),
        members=st.sets(st.sampled_from(WHO)),
    )
    def set_team(self, team: str, epsilon: int, month: int | None, members: set[str]) -> None:
        cap, given = self.cap(epsilon, month), sorted(members)

        def act() -> None:
            self.ledger.set_team(team, cap, members=given, raise_to=True, reason="model")

        code = "B102" if members - set(self.caps) else "B104" if epsilon < self.spent(team) else None
        if code is not None:
            with refused(code):
                act()
            return
        act()
        self.teams[team] = (epsilon, cap.month_epsilon_nano, frozenset(members))

    @rule(months=st.integers(-3, 2))
    def clock_jumps(self, months: int) -> None:
        self.clock += months

    @rule(who=st.sampled_from(WHO), epsilon=st.integers(1, 20))
    def reserve(self, who: str, epsilon: int) -> None:
        if who not in self.caps:
            return
        if not self.fits(who, epsilon):
            with pytest.raises(InsufficientBudgetError):
                self.ledger.reserve(who, epsilon_nano=epsilon, delta_atto=0)
            return
        made = self.ledger.reserve(who, epsilon_nano=epsilon, delta_atto=0)
        self.held[made.id] = (made, epsilon)

    @precondition(lambda self: self.held)
    @rule(data=st.data(), dropped=st.booleans())
    def end_reservation(self, data: st.DataObject, dropped: bool) -> None:
        number = data.draw(st.sampled_from(sorted(self.held)))
        made, _ = self.held.pop(number)
        if not dropped:
            self.ledger.end_reservation(made)
        del made

    @rule(
        data=st.data(), who=st.sampled_from(WHO), cost=st.integers(0, 25), end=st.sampled_from(["ok", "fail", "drop"])
    )
    def charge(self, data: st.DataObject, who: str, cost: int, end: str) -> None:
        if who not in self.caps:
            return
        mine = [number for number, (made, _) in self.held.items() if made.analyst == who]
        within = data.draw(st.none() | st.sampled_from(mine)) if mine else None
        self.asked += 1
        wanted: dict[str, Any] = {"reservation": within}
        if not self.fits(who, cost, within):
            with pytest.raises(InsufficientBudgetError) as caught:
                self.ledger.admit(ask(self.asked, cost, who, **wanted))
            self.names_a_limit(caught.value, who, cost, within)
            return
        charge = self.ledger.admit(ask(self.asked, cost, who, **wanted))
        assert isinstance(charge, Charge)
        teams = frozenset(team for team, cap in self.teams.items() if who in cap[2])
        self.month = self.present()
        self.paid.append(Charged(who, cost, teams, self.month))
        if within is not None:
            self.held[within] = (self.held[within][0], self.held[within][1] - cost)
        if end == "ok":
            self.ledger.store_release(charge, "x")
        elif end == "fail":
            self.ledger.fail(charge)

    def names_a_limit(self, error: InsufficientBudgetError, who: str, cost: int, within: int | None) -> None:
        """What the error names is exhausted."""
        if error.scope == "reservation":
            assert within is not None
            assert cost > self.held[within][1]
            return
        scope = {"analyst": who, "data set": "all"}.get(error.scope) or error.scope.split('"')[1]
        month = None if error.month is None else self.present()
        limit = next(units for s, units, m in self.limits(who) if (s, m) == (scope, month))
        assert cost > limit - self.spent(scope, month=month) - (0 if within else self.holding(scope))

    @rule()
    def interactive(self) -> None:
        """Its steps cost nothing."""
        if "ana" in self.caps and self.fits("ana", 0):
            self.asked += 1
            self.ledger.let_go(self.ledger.take_up(ask(self.asked, 0), "7"))
            teams = frozenset(team for team, cap in self.teams.items() if "ana" in cap[2])
            self.month = self.present()
            self.paid.append(Charged("ana", 0, teams, self.month))

    @rule()
    def reopen(self) -> None:
        self.ledger.close()
        self.ledger = Ledger.open(f"{self.folder}/a.ledger", create=False)

    # ---- what always holds -------------------------------------------------------------------------------------------

    @invariant()
    def sums_agree(self) -> None:
        assert self.ledger.state().primary_spent == self.spent("all") <= TOTAL
        for analyst in self.ledger.analysts():
            assert analyst.primary_spent == self.spent(analyst.name) <= self.caps[analyst.name][0]
        for team in self.ledger.teams():
            assert team.primary_spent == self.spent(team.name) <= self.teams[team.name][0]
        for who in self.caps:
            rests = [
                limit - self.spent(scope, month=month) - self.holding(scope) for scope, limit, month in self.limits(who)
            ]
            assert self.ledger.remaining(who).primary == max(min(rests), 0)

    def teardown(self) -> None:
        self.ledger.verify()
        self.ledger.close()
        self.patch.undo()
        shutil.rmtree(self.folder)


TestLimits = Limits.TestCase
TestLimits.settings = settings(max_examples=6, stateful_step_count=20, deadline=None, database=None)


@pytest.mark.slow
def test_limits_for_long() -> None:
    from hypothesis.stateful import run_state_machine_as_test

    run_state_machine_as_test(
        Limits, settings=settings(max_examples=300, stateful_step_count=40, deadline=None, database=None)
    )


def test_a_ledger_that_forgets_teams_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """The broken twin, by a history that the machine may draw."""
    monkeypatch.setattr(limits, "teams_of", lambda *_: [])
    machine = Limits()
    try:
        machine.set_team("lab", 5, None, {"ana", "ben"})
        machine.ledger.admit(ask("q", 4))
        machine.paid.append(Charged("ana", 4, frozenset({"lab"}), machine.present()))
        with pytest.raises(AssertionError):
            machine.sums_agree()
    finally:
        machine.ledger.close()
        machine.patch.undo()
        shutil.rmtree(machine.folder)


def test_answers_stay_free() -> None:
    """Nothing of this is asked of what was answered before."""
    machine = Limits()
    try:
        first = answer(machine.ledger, ask("q", 5))
        machine.ledger.set_team("lab", Cap(epsilon_nano=1, delta_atto=0), members=["ana"])
        assert machine.ledger.admit(ask("q", 5)) == first
    finally:
        machine.teardown()

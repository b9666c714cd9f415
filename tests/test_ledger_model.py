"""Random histories of a ledger, with reopening in between, against a dozen lines of arithmetic."""

from __future__ import annotations

import shutil
import tempfile

import hypothesis.strategies as st
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from duckdp.core.types import AccountantKind, Neighbours
from duckdp.ledger import Ledger
from tests.ledgers import ask, refused


class AgainstModel(RuleBasedStateMachine):
    """The ledger and its model side by side; amounts are in 1e-9."""

    def __init__(self):
        super().__init__()
        self.folder = tempfile.mkdtemp()
        self.ledger = Ledger.open(f"{self.folder}/a.ledger")
        self.total, self.caps, self.revoked, self.frozen = None, {}, set(), False
        self.paid: dict[tuple[str, int], int] = {}
        self.released: dict[tuple[str, int], str] = {}
        self.attempts: dict[tuple[str, int], int] = {}

    def spent(self, analyst=None):
        return sum(cost for (who, _), cost in self.paid.items() if analyst in (None, who))

    @rule(total=st.integers(1, 40), on_purpose=st.booleans())
    def set_budget(self, total, on_purpose):
        if self.total is not None and total > self.total and not on_purpose:
            expected = "B105"
        else:
            expected = "B104" if total < self.spent() else None
        self.expect(
            expected,
            lambda: self.ledger.set_budget(
                epsilon_nano=total,
                delta_atto=0,
                neighbours=Neighbours.ADD_REMOVE,
                accountant=AccountantKind.BASIC,
                raise_to=on_purpose,
                reason="model" if on_purpose else None,
            ),
        )
        if expected is None:
            self.total = total

    @precondition(lambda self: self.total is not None)
    @rule(who=st.sampled_from(["ana", "bob"]), cap=st.integers(1, 40), on_purpose=st.booleans())
    def grant(self, who, cap, on_purpose):
        old = self.caps.get(who)
        expected = None
        if cap > self.total:
            expected = "P107"
        elif old is not None and (cap > old or who in self.revoked) and not on_purpose:
            expected = "B105"
        elif cap < self.spent(who):
            expected = "B104"
        reason = "model" if on_purpose else None
        self.expect(
            expected,
            lambda: self.ledger.grant(who, epsilon_nano=cap, delta_atto=0, raise_to=on_purpose, reason=reason),
        )
        if expected is None:
            self.caps[who] = cap
            self.revoked.discard(who)

    @precondition(lambda self: self.caps)
    @rule(data=st.data())
    def revoke(self, data):
        who = data.draw(st.sampled_from(sorted(self.caps)))
        self.ledger.revoke(who, "model")
        self.revoked.add(who)

    @rule(frozen=st.booleans())
    def freeze(self, frozen):
        (self.ledger.freeze if frozen else self.ledger.unfreeze)("model")
        self.frozen = frozen

    @rule(
        who=st.sampled_from(["ana", "bob"]),
        question=st.integers(0, 12),
        end=st.sampled_from(["ok", "ok", "fail", "die"]),
    )
    def ask(self, who, question, end):
        cost, known = question, (who, question)
        expected = None
        if self.total is None:
            expected = "B107"
        elif who not in self.caps:
            expected = "B102"
        elif self.frozen or who in self.revoked:
            expected = "B103"
        elif known in self.released:
            assert self.ledger.admit(ask(question, cost, who)).payload == self.released[known]
            return
        elif known in self.paid:
            expected = "B106" if self.attempts[known] == 3 else None
        elif cost > self.caps[who] - self.spent(who) or cost > self.total - self.spent():
            expected = "B101"
        charge = self.expect(expected, lambda: self.ledger.admit(ask(question, cost, who)))
        if charge is None:
            return
        self.paid[known] = cost
        self.attempts[known] = self.attempts.get(known, 0) + 1
        assert charge.attempt == self.attempts[known]
        if end == "ok":
            self.released[known] = f"{known}"
            assert self.ledger.store_release(charge, f"{known}").payload == f"{known}"
        elif end == "fail":
            self.ledger.fail(charge)

    @rule()
    def reopen(self):
        self.ledger.close()
        self.ledger = Ledger.open(f"{self.folder}/a.ledger", create=False)

    def expect(self, code, call):
        if code is None:
            return call()
        with refused(code):
            call()
        return None

    @invariant()
    def sums_agree(self):
        state = self.ledger.state()
        assert state.primary_spent == self.spent() <= (self.total or 0)
        for analyst in self.ledger.analysts():
            assert analyst.primary_spent == self.spent(analyst.name) <= analyst.primary_limit

    def teardown(self):
        self.ledger.close()
        shutil.rmtree(self.folder)


TestAgainstModel = AgainstModel.TestCase
TestAgainstModel.settings = settings(max_examples=40, stateful_step_count=30, deadline=None, database=None)

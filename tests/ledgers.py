"""Helpers of the ledger's tests: a ledger with a budget, a request, an expected refusal."""

from __future__ import annotations

import hashlib

import pytest

from duckdp.core.types import AccountantKind, Loss, Neighbours
from duckdp.errors import DuckDPError
from duckdp.ledger import Charge, ChargeRequest, Ledger, StoredRelease

NANO = 10**9


def key(text: object) -> str:
    return hashlib.sha256(str(text).encode()).hexdigest()


def ask(question: object, epsilon_nano: int = NANO, analyst: str = "ana", **more) -> ChargeRequest:
    loss = more.pop("loss", Loss(epsilon_nano=epsilon_nano, delta_atto=more.pop("delta_atto", 0)))
    known = {"mechanism": "laplace", "parameters": "{}", "statement": f"SELECT {question}"}
    return ChargeRequest(analyst=analyst, key=key(question), loss=loss, **(known | more))


def set_up(ledger: Ledger, epsilon_nano: int = 10 * NANO, delta_atto: int = 10**12, **caps: int) -> Ledger:
    ledger.set_budget(
        epsilon_nano=epsilon_nano,
        delta_atto=delta_atto,
        neighbours=Neighbours.ADD_REMOVE,
        accountant=AccountantKind.BASIC,
    )
    for analyst, cap in (caps or {"ana": epsilon_nano}).items():
        ledger.grant(analyst, epsilon_nano=cap, delta_atto=delta_atto)
    return ledger


def refused(code: str):
    return pytest.raises(DuckDPError, match=rf"^{code}:")


def answer(ledger: Ledger, request: ChargeRequest, payload: str = "42") -> StoredRelease:
    charge = ledger.admit(request)
    assert isinstance(charge, Charge)
    return ledger.store_release(charge, payload)

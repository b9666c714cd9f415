"""What the charges of a ledger amount to, in every face: the ledger replays to the figures that it was filled with."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import pytest
from click.testing import CliRunner

import duckdp
from duckdp.cli import main
from duckdp.core import composition
from duckdp.core.accountant import epsilon_for, pure_rho
from duckdp.core.types import NANO, AccountantKind, Loss, Neighbours
from duckdp.errors import BudgetError, DuckDPError, ParameterError
from duckdp.ledger import Ledger, accountants
from tests.ledgers import ask

DELTA = 10**13


@pytest.mark.parametrize("kind", AccountantKind)
def test_the_ledger_replays_to_the_same_figures(
    kind: AccountantKind, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(accountants, "PAGE", 3)
    rng, made = random.Random(5), {"ana": Counter[Loss](), "ben": Counter[Loss]()}
    with Ledger.open(tmp_path / "a.ledger") as ledger:
        ledger.set_budget(epsilon_nano=100 * NANO, delta_atto=DELTA, neighbours=Neighbours.ADD_REMOVE, accountant=kind)
        for analyst in made:
            ledger.grant(analyst, epsilon_nano=50 * NANO, delta_atto=DELTA // 2)
        for at in range(40):
            nano, analyst = rng.choice([10**7, 3 * 10**7, rng.randint(1, 10**8)]), rng.choice(list(made))
            delta = rng.choice([0, 10**9])
            loss = Loss(epsilon_nano=nano, delta_atto=delta, rho_pico=pure_rho(nano), delta_zcdp_atto=delta)
            ledger.admit(ask(at, analyst=analyst, loss=loss))
            made[analyst][loss] += 1
        everything = made["ana"] + made["ben"]
        assert accountants.losses(ledger) == everything
        for analyst, losses in made.items():
            assert accountants.losses(ledger, analyst) == losses
        assert accountants.losses(ledger, "nobody") == {}
        state = ledger.state()
        told = dict(accountants.tell(everything, DELTA).df()[["accountant", "epsilon"]].to_numpy().tolist())
        if kind is AccountantKind.BASIC:
            assert told["basic"] == composition.rounded_up(state.primary_spent / NANO)
        else:
            left = DELTA - state.secondary_spent
            assert told["zcdp"] == composition.rounded_up(epsilon_for(state.primary_spent, left) / NANO)
    with Ledger.open(tmp_path / "a.ledger", create=False) as again:
        assert accountants.losses(again) == everything


def test_every_face_tells_the_same(curator: duckdp.Curator) -> None:
    session = curator.session("ana")
    for at in range(1, 6):
        session.sql("SELECT count(*) FROM visits", epsilon=f"0.{at}")
    told = session.accountants(delta="1e-6")
    assert told.names == ["accountant", "epsilon", "delta", "holds"]
    assert [row[0] for row in told.rows()] == ["basic", "zcdp", "advanced", "optimal", "pld"]
    assert told.rows()[0] == ("basic", 1.5, "0.000001", "always") or told.rows()[0][1] == 1.5
    assert session.accountants().rows() == told.rows()  # the grant's own delta
    assert curator.connect("ana").sql("FROM dp_accountants(delta := 0.000001)").fetchall() == told.rows()
    assert curator.accountants("ana", delta="1e-6").rows() == told.rows()
    assert curator.accountants(delta="1e-6").rows() == told.rows()
    assert [row[1] for row in curator.accountants("ben").rows()] == [0.0] * 5
    assert session.budget().rows()[0][3] == "epsilon=1.5"  # nothing of it was charged


def test_on_the_command_line(curator: duckdp.Curator, clinic_file: str) -> None:
    curator.session("ana").sql("SELECT count(*) FROM visits", epsilon="0.5")
    shown = CliRunner().invoke(
        main, ["budget", clinic_file, "--ledger", curator.ledger.path, "--accountants"], catch_exceptions=False
    )
    assert shown.exit_code == 0
    assert "optimal" in shown.output
    assert "pld" in shown.output


@pytest.mark.parametrize("delta", [-1, 1, 2, "x", float("nan"), [1], True])
def test_bad_deltas(curator: duckdp.Curator, delta: object) -> None:
    for who in (curator.session("ana"), curator):
        with pytest.raises(ParameterError, match="P102|P107"):  # noqa: RUF043
            who.accountants(delta=delta)


def test_nobody_is_told_who_may_not_ask(curator: duckdp.Curator) -> None:
    session = curator.session("ana")
    with pytest.raises(BudgetError, match="B102"):
        curator.session("eve").accountants()
    curator.revoke("ana")
    with pytest.raises(BudgetError, match="B103"):
        session.accountants()
    with pytest.raises(DuckDPError):
        curator.accountants("a" * 200)


def test_a_budget_in_rho_is_told_in_epsilon_too(clinic_file: str, tmp_path: Path) -> None:
    with duckdp.open(clinic_file, ledger=str(tmp_path / "rho.ledger")) as owner:
        owner.protect("visits", row_cap=1000)
        owner.budget(epsilon=2, delta="1e-6", accountant="zcdp")
        owner.grant("ana", epsilon=2, delta="1e-6")
        session = owner.session("ana")
        session.sql("SELECT count(*) FROM visits", epsilon="0.1")
        ((_, _, _, spent, _),) = session.budget().rows()
    assert spent == f"rho=0.005 (epsilon={-(-epsilon_for(5 * 10**9, 10**12) // 10**6) / 1000} at delta=1e-6)"


def test_without_the_extra_there_is_one_row_less(curator: duckdp.Curator, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(accountants, "find_spec", lambda _: None)
    assert [row[0] for row in curator.accountants().rows()] == ["basic", "zcdp", "advanced", "optimal"]

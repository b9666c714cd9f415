"""A tree's noise is the smaller at what a stage has of the charge, and what was bought with another stays as it was."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import duckdp
from duckdp.core.types import NANO, Neighbours
from duckdp.errors import InternalError
from duckdp.functions.synthetic import Synthesize
from duckdp.synthetic.tree import buy
from duckdp.synthetic.tree.buy import TreeTask
from duckdp.synthetic.tree.contingency import predicted_deviation
from duckdp.synthetic.tree.spending import settled, tree_terms
from duckdp.synthetic.unit.charge_terms import noise_terms
from duckdp.synthetic.unit.request import Request
from tests.smooth.tables import column, table
from tests.synthetic.plans import plan_wide, request

_GRID = list(product((1, 2, 5, 12, 40), ("0.1", "1", "10"), ("0", "1e-12", "1e-6"), Neighbours))
_COLUMNS = tuple(column(f"c{i}", 0.0, 1.0, nullable=False) for i in range(12))
_ASKED: dict[str, Any] = {"epsilon": 1, "delta": "1e-6", "rows": 40, "method": "tree"}


def _request(columns: int, epsilon: str, delta: str, neighbours: Neighbours) -> Request:
    return request(max(2, columns), expected_rows=1_000, epsilon=epsilon, delta=delta, neighbours=neighbours)


def test_noise_is_the_smaller_at_a_quarter_of_the_charge() -> None:
    for columns, epsilon, delta, neighbours in _GRID:
        asked = _request(columns, epsilon, delta, neighbours)
        taken = tree_terms(settled(asked, columns), columns)
        kinds = [noise_terms(asked, gaussian=g) for g in (False, True)[: 1 if delta == "0" else 2]]
        least = min(predicted_deviation(columns, 0.25, terms) for terms in kinds)
        assert predicted_deviation(columns, 0.25, taken) == least
        assert taken.loss == noise_terms(asked, gaussian=taken.gaussian).loss
        assert tree_terms(settled(settled(asked, columns), columns), columns) == taken


def test_at_the_whole_charge_it_would_be_another() -> None:
    """The twin: twelve columns, where that makes cells noisier by 1.8."""
    asked = _request(12, "1", "1e-6", Neighbours.ADD_REMOVE)
    whole, stage = tree_terms(asked, 12), tree_terms(settled(asked, 12), 12)
    assert (whole.gaussian, stage.gaussian) == (False, True)
    assert predicted_deviation(12, 0.25, whole) > 1.8 * predicted_deviation(12, 0.25, stage)


def _task(delta: int, **more: Any) -> TreeTask:
    given: dict[str, Any] = {"epsilon_nano": NANO, "delta_atto": delta, "neighbours": Neighbours.ADD_REMOVE, "rows": 40}
    task = plan_wide(table(*_COLUMNS, expected_rows=1_000), None, method="tree", target=None, **given, **more)
    assert isinstance(task, TreeTask)
    return task


def test_the_question_says_its_noise_where_it_is_another() -> None:
    old, new = _task(10**12, settled=False), _task(10**12)
    assert (old.mechanism, new.mechanism) == ("laplace", "gaussian")
    assert '"gaussian"' not in old.canonical
    assert '"gaussian":true' in new.canonical
    assert _task(0).canonical == _task(0, settled=False).canonical


@pytest.fixture
def curator(tmp_path: Path) -> Iterator[duckdp.Curator]:
    rng = np.random.default_rng(3)
    rows = pa.table({c.name: rng.random(1_000) for c in _COLUMNS})
    with duckdp.open({"t": rows}, ledger=tmp_path / "ledger") as opened:
        opened.protect("t", row_cap=2_000, expected_rows=1_000, bounds={c.name: (0, 1) for c in _COLUMNS})
        opened.budget(epsilon=10, delta="1e-4")
        opened.grant("ana", epsilon=10, delta="1e-4")
        yield opened


def _as_before(patched: pytest.MonkeyPatch) -> None:
    patched.setattr(buy, "settled", lambda asked, _: asked)


def test_what_was_bought_with_other_noise_is_given_again(
    curator: duckdp.Curator, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = curator.session("ana")
    with monkeypatch.context() as patched:
        _as_before(patched)
        old = session.synthesize("t", **_ASKED)
    spent = session.remaining_text()
    assert session.synthesize("t", **_ASKED).rows() == old.rows()
    assert session.remaining_text() == spent
    session.synthesize("t", **{**_ASKED, "epsilon": 1.5})
    assert session.remaining_text() != spent


def test_what_was_begun_with_other_noise_ends_with_it(curator: duckdp.Curator, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its charge is of pure epsilon: Gaussian noise after it would need a delta that nobody paid."""
    session = curator.session("ana")
    with monkeypatch.context() as patched:
        _as_before(patched)
        patched.setattr("duckdp.synthetic.tree.buy.grow.exact_scores", None)
        with pytest.raises(InternalError):
            session.synthesize("t", **_ASKED)
    spent = session.remaining_text()
    assert "delta=0.0001" in spent
    with monkeypatch.context() as patched:
        for module in ("tree.buy.counts", "unit.buy.purse"):
            patched.setattr(f"duckdp.synthetic.{module}.gaussian_noise", None)
        assert len(session.synthesize("t", **_ASKED).rows()) == 40
    assert session.remaining_text() == spent


def test_what_nobody_knows_of_before_is_another_question(
    curator: duckdp.Curator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The twin of both: a call that does not look for what its words bought before pays again."""
    session = curator.session("ana")
    with monkeypatch.context() as patched:
        _as_before(patched)
        session.synthesize("t", **_ASKED)
    spent = session.remaining_text()
    monkeypatch.setattr(Synthesize, "_before", lambda *_: [])
    session.synthesize("t", **_ASKED)
    assert session.remaining_text() != spent

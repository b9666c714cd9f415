"""Hostile values for every parameter of every public method, one at a time: a result, or a code and no charge."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import duckdb
import pytest

import duckdp
from duckdp.core.types import AccountantKind, Loss, Neighbours
from duckdp.errors import DuckDPError
from duckdp.ledger import Cap, Charge, ChargeRequest, Ledger, StoredStep
from duckdp.session import Session
from tests.above import AboveThreshold
from tests.hostile_values import HOSTILE, outcome
from tests.ledgers import ask

GROUPED = "SELECT name, count(*) AS n, avg(x) AS a FROM t GROUP BY name"
NANO = 10**9


@dataclass
class World:
    """What is called, with arguments that work."""

    folder: Path
    curator: duckdp.Curator
    session: Session
    other: Ledger
    made: int = 0
    undo: dict[str, Callable[[], object]] = field(default_factory=dict)

    def path(self) -> str:
        self.made += 1
        return str(self.folder / f"made{self.made}")

    def spent(self) -> tuple[int, ...]:
        state, other = self.curator.ledger.state(), self.other.state()
        return state.primary_spent, state.secondary_spent, other.primary_spent, other.secondary_spent


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    folder = tmp_path_factory.mktemp("hostile")
    with duckdb.connect(str(folder / "t.duckdb")) as con:
        con.execute("CREATE TABLE t AS SELECT i AS id, (i % 9)::DOUBLE AS x, 'n' || i % 3 AS name FROM range(400) r(i)")
        con.execute("CREATE TABLE u AS FROM t; CREATE TABLE w AS FROM t")
    with duckdp.open(str(folder / "t.duckdb")) as curator, Ledger.open(folder / "other.ledger") as other:
        declare(curator)
        session = curator.session("ana")
        session.smooth_summary("t", ["x"], name="s", epsilon=1, degree=3)
        session.synthesize("t", columns=["name"], name="made", epsilon=1, rows=10)
        other.set_budget(
            epsilon_nano=10**6 * NANO, delta_atto=0, neighbours=Neighbours.ADD_REMOVE, accountant=AccountantKind.BASIC
        )
        other.grant("ana", epsilon_nano=10**6 * NANO, delta_atto=0)
        other.grant("ben", epsilon_nano=10**6 * NANO, delta_atto=0)
        other.store_release(other.admit(ask("named", name="s", kind="summary")), "1")
        yield World(folder, curator, session, other)


def declare(curator: duckdp.Curator) -> None:
    unit = {"row_cap": 1000, "unit_key": "id", "unit": "person", "max_rows": 2}
    curator.protect("t", **unit, bounds={"x": (0, 9)}, domains={"name": ["n0", "n1", "n2"]})
    curator.protect("u", **unit, columns=["name"])
    curator.budget(epsilon=100_000, delta=0.5, raise_to=True, reason="test")
    for name in ("ana", "ben"):
        curator.grant(name, epsilon=100_000, delta=0.5, raise_to=True, reason="test")


def above(w: World) -> AboveThreshold:
    return AboveThreshold(name=w.path(), threshold=2, hits=1, epsilon_nano=2 * NANO)


def interaction(w: World) -> int:
    with w.session.interact(above(w), table=w.curator.table("t"), statement="above(2)") as talk:
        return talk.charge_id


def handle(w: World) -> int:
    return int(w.session.sparse_open("u", 3, epsilon=1)["handle"][0]) if isinstance(w, World) else 1


def weighted(w: World) -> int:
    return int(w.session.pmw_open("t", ["name"], epsilon=1, hits=3)["handle"][0]) if isinstance(w, World) else 1


def taken_up(w: World) -> Charge:
    return w.other.take_up(ask(w.path()), "1")


#: class -> method -> arguments that work. ``None``: not fuzzed, and why.
Cases = dict[str, Callable[["World"], dict[str, Any]] | str]

CURATOR: Cases = {
    "suggest": lambda _: {"table": "t", "form": "python"},
    "protect": lambda _: {
        "table": "w",
        "row_cap": 1000,
        "unit_key": "id",
        "unit": "person",
        "null_units": (),
        "max_rows": 2,
        "max_groups": None,
        "expected_rows": 10,
        "bounds": {"x": (0, 9)},
        "domains": {"name": ["n1"]},
        "columns": [],
        "nulls": {"x": 0},
        "other": {"name": "z"},
        "like": None,
        "constraints": [],
        "link": None,
        "unique": [],
        "reason": "r",
    },
    "link": lambda _: {"table": "w", "column": "x", "to": "t", "key": "id", "row_cap": 1000, "max_rows": 2},
    "protect_tables": lambda _: {
        "tables": {"w": {"row_cap": 1000, "unit_key": "id", "unit": "person", "max_rows": 2}},
        "keep": False,
        "reason": "r",
    },
    "amend": lambda _: {
        "table": "t",
        "reason": "r",
        "bounds": {"x": (0, 9)},
        "nulls": {"x": 0},
        "row_cap": 1000,
        "remove": [],
        "domains": {},
    },
    "unprotect": lambda _: {"table": "nothing", "reason": "r"},
    "publish": lambda _: {"table": "nothing", "columns": ["x"], "reason": "r"},
    "unpublish": lambda _: {"table": "nothing", "reason": "r"},
    "table": lambda _: {"name": "t"},
    "budget": lambda _: {
        "epsilon": 100_000,
        "delta": 0.5,
        "neighbours": "add_remove",
        "accountant": "basic",
        "raise_to": True,
        "reason": "r",
    },
    "grant": lambda _: {
        "analyst": "zoe",
        "epsilon": 100_000,
        "delta": 0.5,
        "raise_to": True,
        "reason": "r",
        "per_month": None,
        "per_month_delta": None,
    },
    "team": lambda _: {
        "name": "ateam",
        "epsilon": 100_000,
        "delta": 0.5,
        "members": None,
        "per_month": None,
        "per_month_delta": None,
        "raise_to": True,
        "reason": "r",
    },
    "accountants": lambda _: {"analyst": "ana", "delta": "1e-6"},
    "history": lambda _: {"analyst": "ana", "since": None, "kind": None, "last": 10},
    "export_history": lambda w: {"path": w.path(), "form": "csv"},
    "end_interaction": lambda w: {"charge": interaction(w), "reason": "r"},
    "revoke": lambda _: {"analyst": "nobody", "reason": "r"},
    "freeze": lambda _: {"reason": "r"},
    "unfreeze": lambda _: {"reason": "r"},
    "share": lambda _: {"name": "s", "owner": "ana", "to": "ben"},
    "refresh": lambda _: {"reason": "r"},
    "charges": lambda _: {"analyst": "ana", "limit": 10, "before": None},
    "session": lambda _: {"analyst": "ana"},
    "connect": lambda _: {"analyst": "ana", "isolated": False},
    "front": lambda _: {"analyst": "ana"},
    "close": "takes nothing",
}

TERMS = {
    "epsilon": 1,
    "delta": 1e-8,
    "error": None,
    "mechanism": "auto",
    "parameters": (),
    "tolerance": None,
    "min_units": None,
}
CALL = {"table": "t", "epsilon": 1, "predicate": None, "fresh": False}
WEIGHTS = {"epsilon": 1, "hits": 3, "threshold": None}
TOLD = {"table": "u", "epsilon": 1, "predicate": None}
ABOVE = {"threshold": 3, "hits": 1, "values": False}
PAIR = {"x": "x", "y": "x * x", "delta": 0, "groups": None}
ODDS = {"target": "x > 3", "features": ["x"], "ridge": 0.1}
SPREAD = {"x": "x", "bins": 3, "delta": 0, "groups": None}
COUNTS = {"most": 5, "delta": 0, "groups": None}
MATRIX = {"columns": ["x", "x * x"], "delta": 0, "groups": None}
LINES = {"target": "x * x", "features": ["x"], "delta": 0, "ridge": 0.0, "groups": None}
BLOCKS = {"aggregate": "avg(x)", "blocks": 5, "low": 0.0, "high": 9.0, "method": "auto", "more": ["mad(x)"]}
CENTERS = {"columns": ["x"], "k": 2, "method": "auto", "moves": 1, "blocks": None}
WORKLOAD = {"columns": ["name"], "questions": ["name = 'n1'"], "epsilon": 1, "rounds": 1}
NET = {"table": "t", "columns": ["x"], "questions": ["x > 0"]}
SUMMARY = {"table": "t", "columns": ["x"], "epsilon": 1, "delta": 0, "smoothness": None, "degree": 3}
TABLE = {
    "epsilon": 1,
    "delta": 0,
    "columns": ["name"],
    "smoothness": None,
    "degree": None,
    "method": "auto",
    "target": None,
    "rows": 10,
    "purpose": "tables",
}
EDGES = {
    "table": "t",
    "start": "name",
    "end": "name",
    "weight": "x",
    "epsilon": 1,
    "predicate": None,
    "method": "auto",
    "intervals": False,
}
SESSION: Cases = {
    "sql": lambda _: {"text": GROUPED, **TERMS, "fresh": False},
    "explain": lambda _: {"text": GROUPED, **TERMS},
    "noisy_count": lambda _: {**CALL, "unit": False, "error": None},
    "explain_noisy_count": lambda _: {"table": "t", "epsilon": 1, "predicate": None, "unit": False, "error": None},
    "mst_cost": lambda _: {**EDGES, "fresh": False},
    "explain_mst_cost": lambda _: EDGES,
    "explain_median_smooth": lambda _: {
        "table": "t",
        "column": "x",
        "epsilon": 1,
        "delta": 0,
        "predicate": None,
        "quantile": 0.5,
        "groups": None,
        "intervals": False,
    },
    "median_smooth": lambda _: {**CALL, "column": "x", "delta": 0, "quantile": 0.5, "groups": None, "intervals": False},
    "marginals": lambda _: {"table": "t", "columns": ["x"], "epsilon": 1, "k": 1, "delta": 0, "fresh": False},
    "explain_marginals": lambda _: {"table": "t", "columns": ["x"], "epsilon": 1, "k": 1, "delta": 0},
    "small_database": lambda _: {**NET, "epsilon": 1, "size": 2, "fresh": False},
    "explain_small_database": lambda _: {**NET, "epsilon": 1, "size": 2},
    "smooth_summary": lambda w: {
        **SUMMARY,
        "name": f"s{w.made}",
        "basis": "auto",
        "interactions": None,
        "weights": "smooth",
        "noise": "auto",
        "per": None,
        "across": False,
        "ranges": False,
        "fresh": False,
    },
    "explain_summary": lambda _: {
        **SUMMARY,
        "basis": "auto",
        "interactions": None,
        "weights": "smooth",
        "noise": "auto",
        "per": None,
        "across": False,
        "ranges": False,
    },
    "smooth_answer": lambda _: {
        "name": "s",
        "function": "x",
        "statistic": "mean",
        "tolerance": None,
        "method": "interpolation",
        "category": None,
    },
    "smooth_answers": lambda _: {
        "name": "s",
        "functions": ["x"],
        "statistic": "mean",
        "tolerance": None,
        "category": None,
        "simultaneous": False,
    },
    "synthesize": lambda _: {
        **TABLE,
        "source": "t",
        "name": None,
        "time_limit": 60.0,
        "fresh": False,
        "progress": None,
    },
    "table_report": lambda _: {"source": "made"},
    "explain_synthesize": lambda _: {**TABLE, "table": "t"},
    "bounds": lambda _: {**CALL, "column": "x"},
    "rows_per_unit": lambda _: {**CALL, "table": "u"},
    "groups_per_unit": lambda _: {**CALL, "table": "u", "keys": "name"},
    "top_k": lambda _: {**CALL, "table": "u", "keys": "name", "k": 1, "delta": 0},
    "choose": lambda _: {**CALL, "table": "u", "candidates": ["x > 1", "x < 0"], "k": 1, "delta": 0},
    "above_threshold": lambda _: {**CALL, "table": "u", "candidates": ["x > 1"], **ABOVE},
    "explain_above_threshold": lambda _: {**TOLD, "candidates": ["x > 1"], **ABOVE},
    "sparse_open": lambda _: {**CALL, "table": "u", **ABOVE},
    "explain_sparse_open": lambda _: {**TOLD, **ABOVE},
    "sparse_ask": lambda w: {"handle": handle(w), "predicate": "x > 1", "threshold": None},
    "quantiles": lambda _: {
        **CALL,
        "table": "u",
        "column": "x",
        "quantiles": [0.5],
        "groups": None,
        "intervals": True,
        "method": "auto",
        "step": None,
    },
    "explain_quantiles": lambda _: {
        "table": "u",
        "column": "x",
        "quantiles": [0.5],
        "epsilon": 1,
        "groups": None,
        "predicate": None,
        "intervals": True,
        "method": "auto",
        "step": None,
    },
    "pmw_open": lambda _: {"table": "t", "columns": ["name"], "fresh": False, **WEIGHTS},
    "explain_pmw_open": lambda _: {"table": "t", "columns": ["name"], **WEIGHTS},
    "pmw_answer": lambda w: {"handle": weighted(w), "predicate": "name = 'n1'"},
    "explain_top_k": lambda _: {"table": "u", "keys": "name", "k": 1, "epsilon": 1, "delta": 0, "predicate": None},
    "explain_choose": lambda _: {
        "table": "u",
        "candidates": ["x > 1", "x < 0"],
        "k": 1,
        "epsilon": 1,
        "delta": 0,
        "predicate": None,
    },
    **{name: lambda _: {**CALL, "table": "u", **PAIR} for name in ("covariance", "correlation")},
    **{f"explain_{name}": lambda _: {**TOLD, **PAIR} for name in ("covariance", "correlation")},
    **{name: lambda _: {**CALL, "table": "u", **SPREAD} for name in ("histogram", "cdf")},
    **{f"explain_{name}": lambda _: {**TOLD, **SPREAD} for name in ("histogram", "cdf")},
    "count_variance": lambda _: {**CALL, "table": "u", **COUNTS},
    "explain_count_variance": lambda _: {**TOLD, **COUNTS},
    "logistic_regression": lambda _: {**CALL, "table": "u", **ODDS},
    "explain_logistic_regression": lambda _: {**TOLD, **ODDS},
    "correlations": lambda _: {**CALL, "table": "u", **MATRIX},
    "explain_correlations": lambda _: {**TOLD, **MATRIX},
    "linear_regression": lambda _: {**CALL, "table": "u", **LINES},
    "explain_linear_regression": lambda _: {**TOLD, **LINES},
    "sample_aggregate": lambda _: {**CALL, **BLOCKS},
    "explain_sample_aggregate": lambda _: {**TOLD, "table": "t", **BLOCKS},
    "mwem": lambda _: {"table": "t", "fresh": False, **WORKLOAD},
    "explain_mwem": lambda _: {"table": "t", **WORKLOAD},
    "kmeans": lambda _: {**CALL, **CENTERS},
    "explain_kmeans": lambda _: {**TOLD, "table": "t", **CENTERS},
    "explain_bounds": lambda _: {"table": "t", "column": "x", "epsilon": 1, "predicate": None},
    "explain_rows_per_unit": lambda _: {"table": "u", "epsilon": 1, "predicate": None},
    "explain_groups_per_unit": lambda _: {"table": "u", "keys": "name", "epsilon": 1, "predicate": None},
    "export_summary": lambda w: {"name": "s", "path": w.path(), "category": None},
    "export_tables": lambda w: {"names": ["made"], "path": w.path(), "replace": False},
    "synthetic_report": lambda w: {"name": "made", "path": w.path()},
    "accountants": lambda _: {"delta": "1e-6"},
    "ledger": lambda _: {"most": 10, "before": None},
    "summaries": lambda _: {"most": 10, "after": None},
    **dict.fromkeys(("budget", "catalog", "give_up", "tables", "remaining_text"), "takes nothing"),
    "reserve": lambda _: {"epsilon": 1, "delta": 0},
    "interact": lambda w: {
        "task": above(w),
        "table": w.curator.table("t"),
        "statement": "above(2)",
        "fresh": False,
        "nonce": None,
    },
    "asking": "takes what duckdp makes",
}

BUDGET = {"epsilon_nano": 10**6 * NANO, "delta_atto": 0, "raise_to": True, "reason": "r"}
LEDGER: Cases = {
    "open": lambda w: {"path": w.path(), "create": True, "anchor": None},
    "repair_anchor": lambda w: {"path": w.other.path, "reason": "r", "anchor": None},
    "move_anchor": lambda w: {"anchor": f"{w.other.path}.anchor", "reason": "r"},
    "move": lambda _: {"address": "postgresql://nobody@127.0.0.1:1/none", "reason": "r", "anchor": None},
    "put_into_service": lambda _: {"reason": "r", "nothing_lost": False},
    "backup": lambda w: {"target": w.path()},
    "set_budget": lambda _: {**BUDGET, "neighbours": Neighbours.ADD_REMOVE, "accountant": AccountantKind.BASIC},
    "grant": lambda _: {**BUDGET, "analyst": "zoe", "month_epsilon_nano": None, "month_delta_atto": None},
    "limits": lambda _: {"analyst": "ana", "within": None},
    "repair_statements": lambda _: {"reason": "r"},
    "revoke": lambda _: {"analyst": "nobody", "reason": "r"},
    "freeze": lambda _: {"reason": "r"},
    "unfreeze": lambda _: {"reason": "r"},
    "save_table": lambda _: {"name": "t", "declaration": "{}", "reason": "r"},
    "save_tables": lambda _: {"declared": {"t": "{}"}, "review": None, "reason": "r"},
    "drop_table": lambda _: {"name": "nothing", "reason": "r"},
    "accept_source": lambda _: {"fingerprint": "one", "reason": "r", "read": None},
    "was_read": lambda _: {"mark": "one"},
    "share": lambda _: {"name": "s", "owner_analyst": "ana", "with_analyst": "ben", "reason": "r"},
    "log": lambda _: {"limit": 10, "before": None},
    "admit": lambda w: {"request": ask(w.path()), "new": False},
    "asked": lambda w: {"request": ask(w.path())},
    "store_release": lambda w: {"charge": w.other.admit(ask(w.path())), "payload": "1"},
    "stages": lambda w: {"charge": w.other.admit(ask(w.path()))},
    "store_stage": lambda w: {"charge": w.other.admit(ask(w.path())), "number": 0, "payload": "1"},
    "finish_release": lambda _: {"charge_id": 1, "payload": "2"},
    "fail": lambda w: {"charge": w.other.admit(ask(w.path()))},
    "require_open": lambda _: {"analyst": "ana"},
    "state_for": lambda _: {"analyst": "ana"},
    "remaining": lambda _: {"analyst": "ana", "within": None},
    "charges": lambda _: {"analyst": "ana", "limit": 10, "before": None, "after": None},
    "charge": lambda _: {"charge_id": 1},
    "payload": lambda _: {"charge_id": 1},
    "inventory": lambda _: {},
    "one_look": lambda _: {},
    "verify": lambda _: {"tell": lambda *_: None},
    "count_charges": lambda _: {"analyst": "ana"},
    "release": lambda _: {"analyst": "ana", "charge_id": 1},
    "objects": lambda _: {"analyst": "ana", "limit": 10, "after": ""},
    "knows": lambda _: {"analyst": "ana", "name": "s"},
    "object": lambda _: {"analyst": "ana", "name": "s"},
    "set_team": lambda _: {
        "team": "ateam",
        "cap": Cap(epsilon_nano=10**6 * NANO, delta_atto=0),
        "members": ["ana"],
        "raise_to": True,
        "reason": "r",
    },
    "reserve": lambda _: {"analyst": "ana", "epsilon_nano": NANO, "delta_atto": 0},
    "end_reservation": lambda w: {"reservation": w.other.reserve("ana", epsilon_nano=NANO, delta_atto=0)},
    "take_up": lambda w: {"request": ask(w.path()), "secret": "1", "claim": None},
    "past": lambda w: {"charge": taken_up(w)},
    "answered": lambda w: {"charge_id": taken_up(w).id, "question": "q"},
    "store_step": lambda w: {
        "charge": taken_up(w),
        "number": 1,
        "step": StoredStep(question="q", output="o"),
        "last": False,
    },
    "let_go": lambda w: {"charge": taken_up(w)},
    "end_interaction": lambda w: {"charge_id": taken_up(w).id, "reason": "r", "by_owner": True},
    **dict.fromkeys(
        ("state", "analysts", "teams", "tables", "declarations", "check_statements", "close"), "takes nothing"
    ),
}
#: Whose arguments are charges and what else only a ledger makes.
CHARGED = {
    "admit",
    "fail",
    "stages",
    "store_stage",
    "store_release",
    "take_up",
    "past",
    "answered",
    "store_step",
    "let_go",
    "end_interaction",
    "end_reservation",
    "interact",
}
REQUEST: dict[str, Any] = {
    "analyst": "ana",
    "key": "0" * 64,
    "loss": Loss(epsilon_nano=1),
    "mechanism": "m",
    "parameters": "{}",
    "statement": "s",
    "name": "n",
    "kind": "summary",
    "data_version": None,
    "catalog_version": None,
    "again": False,
}

FUNCTIONS: dict[str, Callable[[World], tuple[Callable[..., Any], dict[str, Any]]]] = {
    "open": lambda w: (
        _opened,
        {
            "data": str(w.folder / "t.duckdb"),
            "ledger": w.path(),
            "anchor": None,
            "snapshot": False,
            "memory": None,
            "progress": None,
        },
    ),
    "register": lambda w: (_registered, {"con": None, "curator": w.curator, "analyst": "ana"}),
    "owner.profile": lambda w: (duckdp.owner.profile, {"curator": w.curator, "table": "t", "exact": True}),
    "owner.compare": lambda w: (duckdp.owner.compare, {"curator": w.curator, "table": "t", "synthetic": {"x": [1.0]}}),
    "smooth.load": lambda w: (duckdp.smooth.load, {"path": _exported(w), "category": None}),
    "smooth.answer": lambda w: (
        duckdp.smooth.answer,
        {
            "summary": w.session.desk.summary("s"),
            "function": "x",
            "statistic": "mean",
            "tolerance": None,
            "method": "interpolation",
        },
    ),
    "smooth.answers": lambda w: (
        duckdp.smooth.answers,
        {"summary": w.session.desk.summary("s"), "functions": ["x"], "statistic": "mean", "tolerance": None},
    ),
    "Result.__getitem__": lambda w: (w.curator.charges().__getitem__, {"at": "charge"}),
    "Result.arrow": lambda w: (w.curator.charges().arrow, {"intervals": True}),
    "Result.typed": lambda w: (w.curator.charges().typed, {"intervals": True, "note": False}),
    "ChargeRequest": lambda _: (ChargeRequest, dict(REQUEST)),
}


def _opened(**given: Any) -> None:
    duckdp.open(**given).close()


def _registered(**given: Any) -> None:
    with duckdb.connect() as con:
        duckdp.register(**(given | ({"con": con} if given["con"] is None else {})))


def _exported(w: World) -> str:
    path = w.path()
    w.session.export_summary("s", path)
    return path


TARGETS: list[tuple[str, Cases]] = [("curator", CURATOR), ("session", SESSION), ("other", LEDGER)]


def _cases() -> list[tuple[str, str]]:
    named = [(target, name) for target, cases in TARGETS for name, case in cases.items() if callable(case)]
    return named + [("", name) for name in FUNCTIONS]


def test_every_public_method_is_here() -> None:
    for kind, cases in ((duckdp.Curator, CURATOR), (Session, SESSION), (Ledger, LEDGER)):
        public = {n for n, f in inspect.getmembers(kind) if not n.startswith("_") and inspect.isroutine(f)}
        assert public == set(cases), kind
        for name, case in cases.items():
            if callable(case) and name not in CHARGED:
                parameters = set(inspect.signature(getattr(kind, name)).parameters) - {
                    "self",
                    "more",
                    "changes",
                    "declared",
                }
                given = {p for p in case(_Blank()) if not p.startswith("more.")}  # type: ignore[arg-type]
                assert parameters <= given, name


class _Blank:
    made = 0
    folder = Path("/")

    def path(self) -> str:
        return "x"

    @property
    def other(self) -> Any:
        return type("", (), {"path": "x"})


#: What is no mistake of ours: a caller's function that raises; a file that exists; a row that does not; the ledger's
#: own code, which nobody else calls.
EXPECTED = {
    ("synthesize", "progress"): "raw",
    ("open", "progress"): "raw",
    ("save_tables", "review"): "raw",
    ("export_summary", "path"): "raw File",
    ("export_tables", "path"): "raw File",
    ("synthetic_report", "path"): "raw File",
    ("verify", "tell"): "raw",
    ("Result.__getitem__", "at"): "raw IndexError",
    ("finish_release", "charge_id"): "internal",
    ("store_stage", "number"): "internal",
}
#: A caller's function that is called while rows are made of what was bought: the charge stays, whatever it raises.
CALLED_LATER = {("synthesize", "progress")}
ALIASES = {
    "delta_atto": "delta",
    "epsilon_nano": "epsilon",
    "name": "table",
    "source": "columns",
    "at": "column",
    "columns": "weights",
    "tables": "protect",
    "members": "team",
    "charge_id": "charge",
}


@pytest.mark.parametrize(("target", "name"), _cases(), ids=lambda x: x)
def test_some_hostile_values(world: World, target: str, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(world.folder)
    assert_refused(world, target, name, every=7)


@pytest.mark.slow
@pytest.mark.parametrize(("target", "name"), _cases(), ids=lambda x: x)
def test_all_hostile_values(world: World, target: str, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(world.folder)
    assert_refused(world, target, name, every=1)


def assert_refused(world: World, target: str, name: str, *, every: int) -> None:
    """Each parameter in turn takes hostile values: all, or every n-th, other ones for each parameter."""
    function, given = _case(world, target, name)
    parameters = {p.removeprefix("more.") for p in given}
    parameters |= {ALIASES[p] for p in parameters if p in ALIASES}
    labels, wrong = list(HOSTILE), []
    for i, parameter in enumerate(given):
        for label in labels[i % every :: every]:
            arguments = dict(given) | {parameter: HOSTILE[label]()}
            for each in ("path", "target"):
                if each in given and each != parameter and name not in ("repair_anchor", "smooth.load", "synthesize"):
                    arguments[each] = world.path()
            arguments = {k.removeprefix("more."): v for k, v in arguments.items()}
            before = world.spent()
            refused, problem = outcome(lambda f=function, a=arguments: _close(f(**a)), parameters)  # type: ignore[misc]
            if problem is not None and problem.startswith(EXPECTED.get((name, parameter), "?")):
                problem = None
            if refused and before != world.spent() and (name, parameter) not in CALLED_LATER:
                problem = problem or "charged by a refused call"
            if problem is not None:
                wrong.append(f"{parameter} = {label}: {problem}")
            _restore(world, name)
    assert not wrong, f"{len(wrong)} of {name}:\n" + "\n".join(wrong[:12])


def _case(world: World, target: str, name: str) -> tuple[Callable[..., Any], dict[str, Any]]:
    if not target:
        return FUNCTIONS[name](world)
    case = dict(TARGETS)[target][name]
    assert callable(case)
    return getattr(getattr(world, target), name), case(world)


def _close(made: object) -> None:
    if isinstance(made, (Ledger, duckdp.Curator)):
        made.close()


def _restore(world: World, name: str) -> None:
    """What a call that worked may have changed."""
    if name in (
        "freeze",
        "unfreeze",
        "budget",
        "grant",
        "set_budget",
        "revoke",
        "refresh",
        "protect",
        "protect_tables",
        "amend",
        "unprotect",
    ):
        with suppress(DuckDPError):
            if world.curator.ledger.state().frozen:
                world.curator.unfreeze(reason="test")
            if world.other.state().frozen:
                world.other.unfreeze("test")
        with suppress(DuckDPError):
            declare(world.curator)

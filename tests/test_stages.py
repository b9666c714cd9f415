"""A release of several stages cannot be chosen from: a draw that anything follows from is stored, and stays.

Every task that reads or draws several times is ended at every read, within reads, before and after every draw and
every storing, by an interrupt or by the end of its process, and asked again.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import duckdp
from duckdp.compiler.outer.apart import take_apart
from duckdp.compiler.outer.several import SeveralTask, plan_parts, task_of
from duckdp.compiler.parse import parse_statement
from duckdp.compiler.pricing import Terms
from duckdp.compiler.quantile_levels import plan_quantiles
from duckdp.core.reads import Add, PrivateQuery
from duckdp.core.task import Stages, Task
from duckdp.core.types import NANO
from duckdp.errors import BudgetError, DuckDPError, InternalError
from duckdp.ledger import Ledger
from duckdp.smooth.buy.counted import plan_counted
from duckdp.smooth.buy.wishes import Wishes
from duckdp.synthetic.lp.buy.synthesis_task import plan_synthesis
from duckdp.synthetic.theorem.buy import plan_theorem
from duckdp.vault.engine import Engine
from tests.synthetic.plans import plan_wide

ROOT = Path(__file__).resolve().parents[1]
ROWS = 400
BOUNDS = {"a": (0, 1), "b": (0, 1), "c": (0, 1), "d": (0, 1)}


def make_rows() -> pa.Table:
    rng = np.random.default_rng(3)
    a = rng.random(ROWS)
    b = np.clip(a + 0.1 * rng.standard_normal(ROWS), 0, 1)
    flag = a + 0.2 * rng.standard_normal(ROWS) > 0.5
    return pa.table({"a": a, "b": b, "c": rng.random(ROWS), "d": 1 - b, "flag": flag})


def open_owner(folder: Path, neighbours: str = "add_remove", frame: pa.Table | None = None) -> duckdp.Curator:
    """A curator of one table; under REPLACE no column may be NULL, so that every row counts."""
    frame = make_rows() if frame is None else frame
    if neighbours == "replace":
        frame = frame.cast(pa.schema([f.with_nullable(False) for f in frame.schema]))
    owner = duckdp.open({"t": frame}, ledger=str(folder / f"{neighbours}.ledger"))
    owner.protect("t", row_cap=1000, bounds=BOUNDS, columns=["flag"])
    owner.budget(epsilon=10**6, delta="0.5", neighbours=neighbours)
    owner.grant("ana", epsilon=10**6, delta="0.5")
    return owner


def wide(method: str, **more: object) -> Callable[[duckdp.Curator], Task]:
    def plan(owner: duckdp.Curator) -> Task:
        given = {"epsilon_nano": 50 * NANO, "delta_atto": 0, "rows": 50, "target": "", "method": method, **more}
        return plan_wide(owner.table("t"), None, neighbours=owner.data.neighbours, **given)

    return plan


def linear(owner: duckdp.Curator) -> Task:
    return plan_synthesis(
        owner.table("t"),
        ["a", "b"],
        epsilon_nano=NANO,
        delta_atto=0,
        neighbours=owner.data.neighbours,
        rows=50,
        smoothness=None,
        degree=3,
    )


def theorem(owner: duckdp.Curator) -> Task:
    return plan_theorem(
        owner.table("t"),
        ["a"],
        epsilon_nano=NANO,
        delta_atto=0,
        neighbours=owner.data.neighbours,
        rows=50,
        smoothness=1,
    )


def counted(owner: duckdp.Curator) -> Task:
    return plan_counted(
        owner.table("t"),
        ["a", "b"],
        epsilon_nano=NANO,
        neighbours=owner.data.neighbours,
        delta_atto=0,
        wishes=Wishes(smoothness=1),
    )


def several(owner: duckdp.Curator) -> Task:
    text = "SELECT (SELECT count(*) FROM t WHERE flag), (SELECT avg(a) FROM t WHERE b < 0.5), (SELECT sum(d) FROM t)"
    found = take_apart(parse_statement(text), {"t": owner.table("t")}, text)
    assert found is not None
    terms, neighbours = Terms(epsilon=1), owner.session("ana").desk.neighbours
    task = task_of([price.plan for price in plan_parts(found.parts, terms, neighbours)])
    assert isinstance(task, SeveralTask)
    return task


def several_quantiles(owner: duckdp.Curator) -> Task:
    given = {"epsilon_nano": 50 * NANO, "neighbours": owner.data.neighbours, "intervals": True}
    return plan_quantiles(owner.table("t"), "a", [0.25, 0.5], None, **given)  # type: ignore[arg-type]


ASKED = {
    "tree": wide("tree"),
    "tree with a target": wide("tree", target="flag", epsilon_nano=NANO),
    "tree, Gaussian": wide("tree", epsilon_nano=NANO, delta_atto=10**12),
    "moments": wide("moments"),
    "moments with a target": wide("moments", target="flag"),
    "psi": wide("psi"),
    "linear program": linear,
    "theorem": theorem,
    "degree from the count": counted,
    "parts of a statement": several,
    "quantiles": several_quantiles,
}


class Stop(BaseException):
    """What ends an attempt, as an interrupt does."""


@dataclass
class Spy:
    """What happens in a release, in order; ends it at one of these moments.

    Attributes:
        at: which moment ends the attempt; none.
        raises: by what.
        moments: what happened: "read", "row", "draw", "drawn", "store", "stored".
        looks: number of the stage -> draws of it that something followed.
    """

    at: int = -1
    raises: type[BaseException] = KeyboardInterrupt
    moments: list[str] = field(default_factory=list)
    looks: dict[int, set[str]] = field(default_factory=dict)
    draws: list[tuple[int, str]] = field(default_factory=list)

    def tell(self, what: str) -> None:
        self.moments.append(what)
        if len(self.moments) - 1 == self.at:
            raise self.raises

    def begin(self, at: int = -1) -> None:
        """A new attempt."""
        self.at, self.moments, self.draws = at, [], []

    def reads(self) -> None:
        """A read may have been shaped by every draw of this attempt."""
        for number, payload in self.draws:
            self.looks.setdefault(number, set()).add(payload)


@pytest.fixture
def spy(monkeypatch: pytest.MonkeyPatch) -> Spy:
    found = Spy()
    run, drawn, store = Engine.run, Stages._drawn, Ledger.store_stage

    def watched_run(engine: Engine, query: PrivateQuery, charge: object) -> Iterator[object]:
        found.reads()
        found.tell("read")
        for row in run(engine, query, charge):
            yield row
            found.tell("row")

    def watched_draw(stages: Stages, draw: Callable[[], str]) -> str:
        found.reads()
        found.tell("draw")
        payload = drawn(stages, draw)
        found.draws.append((stages._number, payload))
        found.tell("drawn")
        return payload

    def watched_store(ledger: Ledger, charge: object, number: int, payload: str) -> str:
        found.tell("store")
        kept = store(ledger, charge, number, payload)
        found.tell("stored")
        return kept

    monkeypatch.setattr(Engine, "run", watched_run)
    monkeypatch.setattr(Stages, "_drawn", watched_draw)
    monkeypatch.setattr(Ledger, "store_stage", watched_store)
    return found


@pytest.fixture(params=["add_remove", "replace"])
def owner(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[duckdp.Curator]:
    with open_owner(tmp_path, request.param) as curator:
        yield curator


def ask(owner: duckdp.Curator, task: Task, name: str) -> str:
    """The payload of a release, as a session gets it."""
    session = owner.session("ana")
    return session.desk.perform(task, table=owner.table("t"), statement=name, fresh=True, nonce=name).payload


def stored_stages(owner: duckdp.Curator) -> list[str]:
    """Of the last charge."""
    rows = owner.ledger._store.read(
        lambda tx: tx.rows("SELECT payload FROM stage WHERE charge = (SELECT max(id) FROM charge) ORDER BY number")
    )
    return [row[0] for row in rows]


def replayed(task: Task, owner: duckdp.Curator, stages: list[str], payload: str) -> str:
    """What a release makes of its stored stages, without any private row; the last stage is in the release itself."""
    run = Stages(lambda _: pytest.fail("a read"), stored=lambda: stages)
    run._drawn = lambda _: payload  # type: ignore[method-assign]
    return task.work(owner.data.salt)(run)


def check_moment(owner: duckdp.Curator, task: Task, spy: Spy, name: str, at: int, raises: type[BaseException]) -> None:
    """End one release at a moment, ask again, and compare what came with what is stored."""
    spy.looks = {}
    spy.raises = raises
    spy.begin(at)
    try:
        ask(owner, task, name)
    except DuckDPError:
        assert len(spy.moments) > at
    else:  # its draws made it shorter than the release whose moments were counted
        assert len(spy.moments) <= at
        return
    before = stored_stages(owner)
    spy.begin()
    payload = ask(owner, task, name)
    after = stored_stages(owner)
    assert after[: len(before)] == before
    assert all(len(seen) == 1 for seen in spy.looks.values()), "a draw that was seen was exchanged"
    assert spy.moments.count("draw") == len(after) + (replayed(task, owner, after, "last") == "last") - len(before)
    assert replayed(task, owner, after, payload) == payload
    assert owner.ledger.charges()[-1].attempt == 2


def check_moments(owner: duckdp.Curator, spy: Spy, what: str, most: int) -> None:
    """At most so many moments of a release, from its first to its last."""
    task = ASKED[what](owner)
    spy.begin()
    ask(owner, task, "whole")
    moments = spy.moments
    at = [k for k, moment in enumerate(moments) if moment != "row" or moments[k - 1] != "row"]
    for k in sorted({*at[:: -(-len(at) // most)], at[-1]}):
        check_moment(owner, task, spy, f"{what} {k}", k, (KeyboardInterrupt, MemoryError, Stop)[k % 3])


SLOW = pytest.param("tree", marks=pytest.mark.slow)


@pytest.mark.parametrize("what", [SLOW, "moments with a target", "psi", "linear program", "quantiles"])
def test_no_draw_can_be_exchanged_once_something_followed_it(tmp_path: Path, spy: Spy, what: str) -> None:
    with open_owner(tmp_path) as owner:
        check_moments(owner, spy, what, 6)


@pytest.mark.parametrize("what", ["theorem", "degree from the count", "parts of a statement"])
def test_nor_where_a_count_decides_what_follows(owner: duckdp.Curator, spy: Spy, what: str) -> None:
    check_moments(owner, spy, what, 20)


@pytest.mark.slow
@pytest.mark.parametrize("what", ASKED)
def test_nor_at_any_moment_of_any_task(owner: duckdp.Curator, spy: Spy, what: str) -> None:
    check_moments(owner, spy, what, 10_000)


def test_the_draw_of_a_third_read_cannot_be_chosen(tmp_path: Path, spy: Spy) -> None:
    """The attack: ended at the third read, three times over, for one charge."""
    with open_owner(tmp_path) as owner:
        attack(owner, spy)


def attack(owner: duckdp.Curator, spy: Spy) -> None:
    task = ASKED["tree"](owner)
    for _ in range(3):
        spy.begin()
        ask_until_third_read(owner, task, spy)
    assert all(len(seen) == 1 for seen in spy.looks.values())
    with pytest.raises(BudgetError, match=r"^B106"):
        ask(owner, task, "attacked")


def ask_until_third_read(owner: duckdp.Curator, task: Task, spy: Spy) -> None:
    reads = spy.reads

    def third() -> None:
        reads()
        if spy.moments.count("read") == 2 or len(stored_stages(owner)) > 1:
            raise KeyboardInterrupt

    spy.reads = third  # type: ignore[method-assign]
    with pytest.raises(DuckDPError):
        ask(owner, task, "attacked")
    spy.reads = reads  # type: ignore[method-assign]


def test_a_ledger_that_stores_only_at_the_end_is_caught(
    tmp_path: Path, spy: Spy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The broken twin."""
    with open_owner(tmp_path) as owner:
        catch(owner, spy, monkeypatch)


def catch(owner: duckdp.Curator, spy: Spy, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Ledger, "store_stage", lambda *given: given[-1])
    task = ASKED["tree"](owner)
    spy.begin()
    ask(owner, task, "whole")
    second = [k for k, moment in enumerate(spy.moments) if moment == "read"][1]
    with pytest.raises(AssertionError, match="exchanged"):
        check_moment(owner, task, spy, "twin", second, KeyboardInterrupt)


# The process of an attempt: prints the stages that are stored, and ends at a moment without a word.
KILLED = """
import os, sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from tests import test_stages as ours
from duckdp.core.task import Stages
from duckdp.vault.engine import Engine
from duckdp.ledger import Ledger
from tests.served.elsewhere import serve_if_asked
serve_if_asked()
what, at = sys.argv[3], int(sys.argv[4])
count = [0]
def before(call):
    def counted(*given):
        count[0] += 1
        if count[0] == at:
            os._exit(9)
        return call(*given)
    return counted
with ours.open_owner(Path(sys.argv[2])) as owner:
    for kind, name in ((Engine, "run"), (Stages, "_drawn"), (Ledger, "store_stage"), (Ledger, "store_release")):
        setattr(kind, name, before(getattr(kind, name)))
    ours.ask(owner, ours.ASKED[what](owner), "killed")
"""


@pytest.mark.parametrize(("what", "at"), [("tree", 7), ("psi", 9), ("quantiles", 12)])
def test_what_a_killed_process_stored_is_taken_by_the_next(tmp_path: Path, spy: Spy, what: str, at: int) -> None:
    command = [sys.executable, "-c", KILLED, str(ROOT), str(tmp_path), what, str(at)]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    assert subprocess.run(command, env=environment, check=False).returncode == 9
    with open_owner(tmp_path) as owner:
        task, before = ASKED[what](owner), stored_stages(owner)
        assert before
        payload = ask(owner, task, "killed")
        after = stored_stages(owner)
        assert after[: len(before)] == before
        assert spy.moments.count("draw") == len(after) + (replayed(task, owner, after, "last") == "last") - len(before)
        assert replayed(task, owner, after, payload) == payload
        assert owner.ledger.charges()[-1].attempt == 2


def test_one_stage_costs_no_entry_of_its_own(curator: duckdp.Curator) -> None:
    """And its release is stored in as many transactions as before: one for the charge, one for the release."""
    written: list[int] = []
    store = curator.ledger._store
    before = store.read(lambda tx: tx.head().count)
    write = store.write
    store.write = lambda work: written.append(1) or write(work)  # type: ignore[method-assign]
    ana = curator.session("ana")
    ana.sql("SELECT count(*) AS n FROM visits", epsilon=1)
    ana.smooth_summary("visits", ["age"], epsilon=1, degree=3, name="ages")
    assert store.read(lambda tx: tx.head().count) - before == len(written) == 4
    assert store.read(lambda tx: tx.rows("SELECT * FROM stage")) == []


def test_private_rows_are_read_within_a_stage_only() -> None:
    stages = Stages(lambda _: [(1,)])
    query = PrivateQuery(sql="", parts=Add())
    with pytest.raises(InternalError):
        stages.read(query)
    assert stages.run(lambda: str(list(stages.read(query)))) == "[(1,)]"
    with pytest.raises(InternalError):
        stages.read(query)
    with pytest.raises(InternalError):
        stages.run(lambda: stages.run(lambda: ""))
    assert stages.last(lambda: "x") == "x"
    with pytest.raises(InternalError):
        stages.run(lambda: "after the last")


def test_what_is_stored_goes_on_and_not_what_was_drawn() -> None:
    """Two who hold the charge at once draw both; what was stored first is what both go on from."""
    stages = Stages(lambda _: [], stored=lambda: ["of an earlier one"], keep=lambda n, payload: f"{n}, not {payload}")
    assert stages.run(lambda: "drawn") == "of an earlier one"
    assert stages.run(lambda: "drawn") == "1, not drawn"


STORED = ["tree", "moments with a target", "psi"]


@pytest.mark.parametrize("what", STORED)
def test_stages_hold_nothing_of_the_rows_but_noisy_figures(tmp_path: Path, what: str) -> None:
    assert exact_figures(tmp_path, what) == []


@pytest.mark.parametrize(
    ("what", "where"),
    [
        ("tree", "synthetic.tree.buy.counts"),
        ("moments with a target", "synthetic.unit.buy.purse"),
        ("psi", "synthetic.unit.buy.purse"),  # its own noise is multiplied by a drawn start
    ],
)
def test_a_twin_whose_noise_is_nothing_is_caught(
    tmp_path: Path, what: str, where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for kind in ("laplace_noise", "cube_noise"):
        monkeypatch.setattr(f"duckdp.{where}.{kind}", lambda count, _: [0] * count, raising=False)
    assert exact_figures(tmp_path, what)


def exact_figures(folder: Path, what: str) -> list[tuple[object, ...]]:
    """Places of figures that are alike in five releases of each of two tables, and not the same in both.

    The noise spreads over 10^5 values and more. What follows from noisy figures may have few, as the centre of a column
    on a coarse grid: alike in three releases of one table in one of ten runs, so in five of both hardly ever.
    """
    plan = wide(what.split()[0], epsilon_nano=NANO // 10**4, target="flag" if "target" in what else "")
    other = make_rows().set_column(0, "a", pa.array(np.zeros(ROWS)))
    alike: list[dict[tuple[object, ...], float]] = []
    for name, frame in (("one", make_rows()), ("two", other)):
        (folder / name).mkdir()
        with open_owner(folder / name, frame=frame) as owner:
            task = plan(owner)
            releases = []
            for k in range(5):
                ask(owner, task, f"{k}")
                releases.append(dict(figures(json.loads(f"[{', '.join(stored_stages(owner))}]"))))
        held = {at: value for at, value in releases[0].items() if all(r.get(at) == value for r in releases)}
        for at in list(held):
            if at[-1] == "deviation" and all(r.get((at[0], "tuple", 1)) == 1.0 for r in releases):
                del held[at]  # that of the noise: noisy numbers of rows below 1 count as 1
        alike.append(held)
    one, two = alike
    assert one and two
    return [at for at, value in one.items() if at in two and value != two[at] and not is_small(value)]


def is_small(value: float) -> bool:
    """Counts of bins and places, which noise decides."""
    return value == int(value) and abs(value) <= 100


def figures(raw: object, at: tuple[object, ...] = ()) -> Iterator[tuple[tuple[object, ...], float]]:
    """Numbers of a JSON value by their places."""
    if isinstance(raw, (dict, list)):
        for key, value in raw.items() if isinstance(raw, dict) else enumerate(raw):
            yield from figures(value, (*at, key))
    elif isinstance(raw, (int, float)):
        yield at, float(raw)

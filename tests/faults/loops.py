"""Fault loops: the n-th call fails, for every n, and after the fault everything goes on.

Run with the library loaded: ``python -m tests.faults.loops FOLDER SPECIFICATION`` (see ``Loop``); prints findings.

One round: a scenario's folder is made from its template, its act runs while the n-th call of some classes fails (once
or from then on), and then, the fault gone,

- whatever left the act was an error of ours, and none of those that condemn a ledger (B202, B203, B204) or call it
  somebody else's;
- the same process goes on, the act is done again, and others can write;
- every file that has its final name is whole, and nothing else lies there;
- what was acknowledged is there, charged once, answered once; the sums fit; no file is left open.

Rounds go on until the fault finds no call left to fail.
"""

from __future__ import annotations

import errno
import json
import shutil
import sqlite3
import sys
import traceback
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path

import duckdp
from duckdp.errors import DuckDPError
from duckdp.ledger import Charge, ChargeRow, Ledger, StoredRelease, anchor, connections
from tests.faults.library import Call, Faults, Way
from tests.ledgers import NANO, ask, set_up

KEPT = Path(__file__).resolve().parents[1] / "fixtures" / "ledgers"
COST = 1000
MOST_FOUND = 10  # then a loop ends
NEVER = 10**9  # no act has so many calls
ROOM = 600_000  # bytes of SQLite's that suffice for any act
KEPT_NAMES = {"other", *(n + s for n in ("a.ledger", "copy.ledger") for s in ("", ".anchor", ".locks", ".statements"))}
CONDEMNING = ("B201", "B202", "B203", "B204", "B205")


@dataclass(frozen=True, kw_only=True)
class Loop:
    """Which calls fail, how, and at how many n.

    Attributes:
        scenario: its name.
        calls: their classes; none: SQLite may take only n bytes more than it has.
        error: which they fail with.
        way: how they fail.
        times: how often; -1: from then on.
        rounds: at most so many, evenly over all calls; 0: each of them.
        number: of the loop; where the first of a few falls.
    """

    scenario: str
    calls: tuple[str, ...]
    error: str = "EIO"
    way: str = "BEFORE"
    times: int = 1
    rounds: int = 0
    number: int = 0


@dataclass
class Round:
    """A scenario's state in one round; ``answers`` are the acknowledged payloads by question."""

    folder: Path
    ledger: Ledger | None = None
    charge: Charge | None = None
    answers: dict[str, str] = field(default_factory=dict)
    spent: int = 0  # what was charged before the act, in 1e-9

    @property
    def path(self) -> Path:
        return self.folder / "a.ledger"

    @property
    def open(self) -> Ledger:
        assert self.ledger is not None
        return self.ledger


# ---- scenarios -------------------------------------------------------------------------------------------------------


class Scenario:
    """What is done under faults: a ledger with two answered questions stands open, unless it says otherwise."""

    opened = True
    asks: tuple[str, ...] = ()  # questions of the act: each may be charged once

    def template(self, folder: Path) -> None:
        """Files to begin each round with."""
        with Ledger.open(folder / "a.ledger") as ledger:
            set_up(ledger, 1000 * NANO)
            for question in ("first", "second"):
                answer(ledger, question, f"{question} answer")

    def begin(self, this: Round) -> None:
        """Before the fault."""
        this.answers = {"first": "first answer", "second": "second answer"}
        this.spent = 2 * COST
        if self.opened:
            this.ledger = Ledger.open(this.path, create=False)

    def act(self, this: Round) -> None:
        """Under the fault; what it is told it notes in ``this.answers``."""

    def again(self, this: Round) -> None:
        """The fault is gone: the same must succeed."""
        self.act(this)

    def end(self, this: Round) -> None:
        """The round is over."""
        if this.ledger is not None:
            this.ledger.close()

    def check(self, this: Round) -> None:
        """What only this scenario knows."""

    def is_new(self, row: ChargeRow) -> bool:
        """Whether a charge was made by the act."""
        return row.key in {ask(question).key for question in self.asks}


class Charging(Scenario):
    asks = ("new",)

    def act(self, this: Round) -> None:
        this.charge = None
        this.open.admit(ask("new", COST))

    def again(self, this: Round) -> None:
        this.answers["new"] = answer(this.open, "new", "late")


class Storing(Scenario):
    asks = ("new",)

    def begin(self, this: Round) -> None:
        super().begin(this)
        found = this.open.admit(ask("new", COST))
        assert isinstance(found, Charge)
        this.charge = found

    def act(self, this: Round) -> None:
        assert this.charge is not None
        try:
            this.answers["new"] = this.open.store_release(this.charge, "drawn").payload
        except DuckDPError:
            with suppress(DuckDPError):
                this.open.fail(this.charge)
            raise

    def again(self, this: Round) -> None:
        payload = answer(this.open, "new", "drawn again")
        assert this.answers.setdefault("new", payload) == payload, "a second answer was given"


class Staging(Storing):
    stage = ""

    def act(self, this: Round) -> None:
        assert this.charge is not None
        self.stage = ""
        self.stage = this.open.store_stage(this.charge, 0, "drawn stage")

    def again(self, this: Round) -> None:
        assert this.charge is not None
        stage = this.open.store_stage(this.charge, 0, "another stage")
        assert self.stage in ("", stage), "a second stage was drawn"
        this.answers["new"] = this.open.store_release(this.charge, f"{stage} and the rest").payload


class Finishing(Scenario):
    def act(self, this: Round) -> None:
        charge = next(row.id for row in this.open.charges() if row.key == ask("first").key)
        this.answers["first"] = this.open.finish_release(charge, "finished").payload
        assert this.answers["first"] == "finished"


class Giving(Scenario):
    """What is stored is given again, and listed."""

    def act(self, this: Round) -> None:
        assert answer(this.open, "first", "another") == "first answer"
        assert len(this.open.charges()) == 2
        this.open.remaining("ana")


class Owning(Scenario):
    """The owner's changes."""

    def act(self, this: Round) -> None:
        ledger = this.open
        ledger.grant("bob", epsilon_nano=NANO, delta_atto=0)
        ledger.save_table("visits", "{}")
        ledger.freeze("for a test")
        ledger.unfreeze("for a test")


class Checkpointing(Scenario):
    """So many transactions that the journal is brought into the file again and again."""

    asks = tuple(f"many {i}" for i in range(6))

    def act(self, this: Round) -> None:
        for question in self.asks:
            this.answers[question] = answer(this.open, question, question * 50)


class Verifying(Scenario):
    """All of the ledger is checked, and listed."""

    def act(self, this: Round) -> None:
        this.open.verify()
        this.open.analysts()
        this.open.log()


class Asking(Scenario):
    """An analyst's session asks two questions, by SQL and by a function, of data that nothing is wrong with."""

    opened = False
    texts = ("SELECT count(*) FROM visits WHERE age > 30", "SELECT sex, avg(age) FROM visits GROUP BY sex")

    def template(self, folder: Path) -> None:
        super().template(folder)
        with self._curator(folder) as curator:
            curator.protect(
                "visits",
                unit_key="patient",
                max_rows=3,
                row_cap=10_000,
                bounds={"age": (0, 110)},
                domains={"sex": ["F", "M"]},
            )
            curator.budget(epsilon=1000, delta="0.000001")

    def begin(self, this: Round) -> None:
        super().begin(this)
        self.curator = self._curator(this.folder)
        self.told = dict[str, str]()
        this.ledger = self.curator.ledger

    def act(self, this: Round) -> None:
        session = self.curator.session("ana")
        for text in self.texts:
            given = repr(session.sql(text, epsilon="0.000001").rows())
            assert self.told.setdefault(text, given) == given, "a second answer was given"
        session.remaining_text()

    def end(self, this: Round) -> None:
        self.curator.close()

    def is_new(self, row: ChargeRow) -> bool:
        return row.statement in self.texts

    def _curator(self, folder: Path) -> duckdp.Curator:
        return duckdp.open(KEPT / "version_2" / "visits.parquet", ledger=folder / "a.ledger")


class Creating(Scenario):
    opened = False

    def template(self, folder: Path) -> None:
        pass

    def begin(self, this: Round) -> None:
        pass

    def act(self, this: Round) -> None:
        Ledger.open(this.path).close()

    def again(self, this: Round) -> None:
        with Ledger.open(this.path) as ledger:
            set_up(ledger, 1000 * NANO)


class Opening(Scenario):
    """A ledger whose process was killed: its journal is not in the file."""

    opened = False

    def template(self, folder: Path) -> None:
        super().template(folder)
        with Ledger.open(folder / "a.ledger") as ledger:
            ledger.freeze("in the journal")
            ledger.unfreeze("in the journal")
            for name in ("a.ledger", "a.ledger-wal"):
                shutil.copy(folder / name, folder / f"{name}.kept")
        for name in ("a.ledger", "a.ledger-wal"):
            (folder / f"{name}.kept").rename(folder / name)

    def act(self, this: Round) -> None:
        with Ledger.open(this.path, create=False) as ledger:
            assert len(ledger.charges()) == 2


class OpeningUnanchored(Opening):
    """The crash fell between the commit and the anchor."""

    def template(self, folder: Path) -> None:
        super().template(folder)
        kept = (folder / "a.ledger.anchor").read_bytes()
        lines = [kept[: anchor.LENGTH], kept[anchor.LENGTH :]]
        (folder / "a.ledger.anchor").write_bytes(min(lines))  # counts have a fixed length


class Repairing(Opening):
    """The owner writes a lost anchor anew."""

    def template(self, folder: Path) -> None:
        super().template(folder)
        (folder / "a.ledger.anchor").write_bytes(b"lost")

    def act(self, this: Round) -> None:
        Ledger.repair_anchor(this.path, "for a test")


class Closing(Scenario):
    def act(self, this: Round) -> None:
        this.open.admit(ask("first", COST))
        this.open.close()

    def again(self, this: Round) -> None:
        this.open.close()
        this.ledger = Ledger.open(this.path, create=False)


class BackingUp(Scenario):
    def act(self, this: Round) -> None:
        this.open.backup(this.folder / "copy.ledger")

    def again(self, this: Round) -> None:
        if not (this.folder / "copy.ledger").exists():
            self.act(this)

    def check(self, this: Round) -> None:
        with Ledger.open(this.folder / "copy.ledger", create=False) as copy:
            assert copy.state().backup
            assert len(copy.charges()) == 2


class Elsewhere(Scenario):
    """Charges, with the anchor on another disk."""

    asks = ("new",)

    def template(self, folder: Path) -> None:
        (folder / "other").mkdir()
        super().template(folder)
        with Ledger.open(folder / "a.ledger") as ledger:
            ledger.move_anchor(folder / "other" / "anchor", reason="for a test")
        (folder / "a.ledger.anchor").unlink()

    def act(self, this: Round) -> None:
        self.again(this)

    def again(self, this: Round) -> None:
        this.answers["new"] = answer(this.open, "new", "late")


class Moving(Scenario):
    """The owner keeps the anchor elsewhere from now on."""

    def template(self, folder: Path) -> None:
        super().template(folder)
        (folder / "other").mkdir()

    def act(self, this: Round) -> None:
        this.open.move_anchor(this.folder / "other" / "anchor", reason="for a test")


class Restoring(Scenario):
    """A backup takes the place of its original."""

    def template(self, folder: Path) -> None:
        super().template(folder)
        with Ledger.open(folder / "a.ledger") as ledger:
            ledger.backup(folder / "copy.ledger")
        for suffix in ("", ".anchor"):
            (folder / f"copy.ledger{suffix}").replace(folder / f"a.ledger{suffix}")

    def act(self, this: Round) -> None:
        this.open.put_into_service(reason="for a test", nothing_lost=True)

    def again(self, this: Round) -> None:
        if this.open.state().backup is not None:
            self.act(this)


class Migrating(Scenario):
    """A kept ledger of an earlier version."""

    opened = False

    def __init__(self, version: str) -> None:
        self.version = version

    def template(self, folder: Path) -> None:
        for kept, name in (("keyed.db", "a.ledger"), ("keyed.anchor", "a.ledger.anchor")):
            shutil.copy(KEPT / self.version / kept, folder / name)

    def begin(self, this: Round) -> None:
        with closing(sqlite3.connect(f"file:{this.path}?mode=ro", uri=True)) as connection:
            this.spent = connection.execute("SELECT primary_spent FROM dataset").fetchone()[0]

    def act(self, this: Round) -> None:
        Ledger.open(this.path, create=False).close()


SCENARIOS: dict[str, Callable[[], Scenario]] = {
    "charge": Charging,
    "store": Storing,
    "stage": Staging,
    "finish": Finishing,
    "give": Giving,
    "own": Owning,
    "verify": Verifying,
    "ask": Asking,
    "checkpoint": Checkpointing,
    "create": Creating,
    "open": Opening,
    "unanchored": OpeningUnanchored,
    "repair": Repairing,
    "close": Closing,
    "backup": BackingUp,
    "elsewhere": Elsewhere,
    "move": Moving,
    "restore": Restoring,
    **{f"migrate-{path.name}": (lambda name=path.name: Migrating(name)) for path in sorted(KEPT.glob("version_*"))},
}


def answer(ledger: Ledger, question: str, payload: str) -> str:
    """The stored answer, or the one that is stored now."""
    found = ledger.admit(ask(question, COST))
    return (found if isinstance(found, StoredRelease) else ledger.store_release(found, payload)).payload


# ---- the loop --------------------------------------------------------------------------------------------------------


def run(loop: Loop, faults: Faults, folder: Path) -> dict[str, object]:
    """All rounds of a loop: how many there were, and what was wrong in which."""
    scenario = SCENARIOS[loop.scenario]()
    template, place = folder / "template", folder / "round"
    place.mkdir()
    scenario.template(place)  # where it is used: an anchor elsewhere has an absolute path
    place.rename(template)
    rounds, found, codes, step, at = 0, list[str](), set[str](), 0, NEVER
    while True:
        this = Round(place)
        shutil.copytree(template, place)
        try:
            codes.add(_round(scenario, loop, faults, this, at))
        except Exception as error:  # noqa: BLE001 - whatever it is, it is a finding
            where = [f"{frame.name}:{frame.lineno}" for frame in traceback.extract_tb(error.__traceback__)[-5:]]
            found.append(f"{loop.scenario} {loop} at {at}: {type(error).__name__}: {error} in {' '.join(where)}"[:700])
        finally:
            scenario.end(this)
            shutil.rmtree(place, ignore_errors=True)
        if len(found) >= MOST_FOUND or (step and not faults.fired):
            break
        rounds += faults.fired > 0
        if step:
            at += step
            continue
        calls = faults.counted if loop.calls else ROOM
        step = max(calls // loop.rounds, 1) if loop.rounds else 1 if loop.calls else ROOM // 100
        at = 1 + loop.number % step
    shutil.rmtree(template)
    return {"rounds": rounds, "found": found, "codes": sorted(codes - {""})}


def _round(scenario: Scenario, loop: Loop, faults: Faults, this: Round, at: int) -> str:
    files = faults.open_files
    scenario.begin(this)
    problem: Exception | None = None
    calls = {Call[name] for name in loop.calls}
    failing = faults.failing(calls, at, getattr(errno, loop.error), Way[loop.way], loop.times)
    with failing if calls else faults.without_memory(at):
        try:
            scenario.act(this)
        except Exception as error:  # noqa: BLE001 - judged below, when the fault is gone
            problem = error
    if not calls:
        faults.fired = problem is not None
    code = _code(problem)
    problem = None  # whoever keeps an error keeps the charges in its frames
    _others_can_write(this.path)
    scenario.again(this)
    if this.ledger is not None:
        _judge(scenario, this, this.ledger)
        scenario.end(this)
    with Ledger.open(this.path, create=False) as again:
        _judge(scenario, this, again)
        again.verify()
    scenario.check(this)
    if faults.open_files > files:
        raise AssertionError(f"{faults.open_files - files} files are left open")
    litter = sorted(path.name for path in this.folder.iterdir() if path.name not in KEPT_NAMES)
    if litter and not (calls & {Call.UNLINK, Call.LOOK, Call.OPEN} or _journal_left(litter)):
        raise AssertionError(f"left behind: {litter}")
    return code


def _code(problem: Exception | None) -> str:
    if problem is None:
        return ""
    if not isinstance(problem, DuckDPError):
        raise problem
    if problem.code in CONDEMNING or "not a ledger" in str(problem):
        raise AssertionError(f"a passing fault condemned the ledger: {problem}") from problem
    return problem.code


def _journal_left(litter: list[str]) -> bool:
    return all(name.endswith(("-wal", "-shm")) and ".new-" not in name for name in litter)


def _others_can_write(path: Path) -> None:
    if not path.exists():
        return
    with closing(sqlite3.connect(path, timeout=1, isolation_level=None)) as connection:
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("ROLLBACK")


def _judge(scenario: Scenario, this: Round, ledger: Ledger) -> None:
    """Everything acknowledged is there, and nothing was paid twice."""
    state = ledger.state()
    new = [row for row in ledger.charges() if scenario.is_new(row)]
    if len({row.key for row in new}) != len(new) or state.primary_spent != this.spent + COST * len(new):
        raise AssertionError(f"spent {state.primary_spent}, {len(new)} new charges")
    for question, payload in this.answers.items():
        if (given := answer(ledger, question, "another")) != payload:
            raise AssertionError(f"{question}: {given}, not {payload}")
    if ledger.state().primary_spent != state.primary_spent:
        raise AssertionError("something was charged again")


def main(folder: str, specification: str) -> None:
    """Run loops, given as JSON."""
    faults = Faults(folder)
    loops = [Loop(**{**given, "calls": tuple(given["calls"])}) for given in json.loads(specification)]
    if any("MEMORY" in loop.calls for loop in loops):
        faults.watch_memory()
    connections._PRAGMAS = (*connections._PRAGMAS, "PRAGMA wal_autocheckpoint = 10")
    connections.BUSY_SECONDS = anchor.LOCK_SECONDS = 0.05
    print(json.dumps([run(loop, faults, Path(folder)) for loop in loops]))


if __name__ == "__main__":
    main(*sys.argv[1:])

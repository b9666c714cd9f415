"""The oracle of flipped bits: a ledger with something of everything, and a script that asks it for everything.

A flip is judged by what comes of it: each step of the script ends as it does on the ledger as it was, or with a coded
error of the ledger. A step that ends in another way is an answer, a charge or a limit that a flip changed.
"""

from __future__ import annotations

import os
import random
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from duckdp.core.types import AccountantKind, Neighbours
from duckdp.errors import DuckDPError
from duckdp.ledger import Charge, Ledger, StoredRelease, StoredStep
from duckdp.ledger.types import Cap
from tests.ledgers import NANO, answer, ask, key

SUFFIXES = ("", "-wal", ".anchor")
DAMAGE = frozenset({"B202", "B203", "B204", "B207"})
WRITES = {"redeem", "staged", "ended", "goes on", "to a team", "name it", "share it", "grant", "declare"}
Outcome = tuple[str, Any]


@contextmanager
def folder() -> Iterator[Path]:
    """A folder in memory where there is one: what is tested here does not depend on a disk."""
    where = "/dev/shm" if os.path.isdir("/dev/shm") else None
    with tempfile.TemporaryDirectory(dir=where) as name:
        yield Path(name)


def build(path: Path, charges: int = 120) -> None:
    """Something of everything, with trees of several levels and payloads of several pages."""
    with Ledger.open(path) as ledger:
        ledger.set_budget(
            epsilon_nano=10**6 * NANO,
            delta_atto=10**15,
            neighbours=Neighbours.ADD_REMOVE,
            accountant=AccountantKind.BASIC,
        )
        for analyst in ("ana", "ben", "cai", "dot"):
            ledger.grant(analyst, epsilon_nano=10**5 * NANO, delta_atto=10**14)
        ledger.accept_source("first", read="mark")
        ledger.save_tables({"visits": '{"max_rows": 8}', "staff": '{"max_rows": 2}', "gone": "{}"})
        ledger.drop_table("gone", "no longer")
        for k in range(charges):
            answer(ledger, ask(f"q{k}", analyst=("ana", "ben")[k % 3 == 0]), f"secret {k} " + "x" * (k % 7 * 900))
        ledger.save_table("staff", '{"max_rows": 3}', reason="more of them")
        for name in ("ages", "costs"):
            answer(ledger, ask(name, name=name, kind="summary"), f"payload of {name}")
            ledger.share(name, "ana", "cai")
        for k, fails in enumerate((1, 2, 3, 3)):
            for _ in range(fails):
                ledger.fail(ledger.admit(ask(f"fails {k}", name=f"held_{k}", kind="summary")))
        answer(ledger, ask("takes it", name="held_3", kind="synthetic"), "took the name")
        staged = ledger.admit(ask("staged"))
        for number in range(3):
            ledger.store_stage(staged, number, f"stage {number} " + "y" * 100)
        ledger.fail(staged)
        made = answer(ledger, ask("made", name="made", kind="synthetic"), "from this")
        ledger.finish_release(made.charge_id, "made of it " + "z" * 5000)
        build_limits(ledger)
        build_interactions(ledger)
        ledger.revoke("dot", "left")


def build_limits(ledger: Ledger) -> None:
    """Teams and months, with charges in them; reservations of which one ended and one is its holder's no more."""
    cap = Cap(epsilon_nano=10**4 * NANO, delta_atto=10**14, month_epsilon_nano=10**3 * NANO, month_delta_atto=10**13)
    for analyst in ("eli", "fay"):
        ledger.grant(analyst, epsilon_nano=cap.epsilon_nano, delta_atto=cap.delta_atto, month_epsilon_nano=10**3 * NANO)
    ledger.set_team("nurses", cap, members=["eli", "fay"])
    ledger.set_team("guests", Cap(epsilon_nano=10**4 * NANO, delta_atto=10**14), members=["eli"])
    for k in range(3):
        answer(ledger, ask(f"of a team {k}", analyst=("eli", "fay")[k % 2], delta_atto=7), f"to a team {k}")
    ended = ledger.reserve("eli", epsilon_nano=20 * NANO, delta_atto=10**9)
    answer(ledger, ask("reserved", analyst="eli", reservation=ended.id), "within it")
    ledger.end_reservation(ended)
    left = ledger.reserve("fay", epsilon_nano=30 * NANO, delta_atto=10**9)
    answer(ledger, ask("left", analyst="fay", reservation=left.id), "within the other")


def build_interactions(ledger: Ledger) -> None:
    """Interactive releases: one that ended, one that goes on, with secrets."""
    for name in ("ended", "goes on"):
        charge = ledger.take_up(ask(name, analyst="eli"), f"{name} begins")
        for number in range(1, 4):
            step = StoredStep(question=key(f"{name} {number}"), output=f"output {number}", secret=f"secret {number}")
            ledger.store_step(charge, number, step, last=(name, number) == ("ended", 3))
        ledger.let_go(charge)


def steps(ledger: Ledger) -> Iterator[tuple[str, Callable[[], Any]]]:
    """Everything that is asked: reads, what was answered, what was not, limits."""
    yield "state", ledger.state
    yield "analysts", ledger.analysts
    yield "tables", ledger.tables
    yield "declarations", ledger.declarations
    yield "was read", lambda: (ledger.was_read("mark"), ledger.was_read("another"))
    yield "log", lambda: ledger.log(1000)
    yield "charges", ledger.charges
    yield "page", lambda: (ledger.charges("ana", limit=5, before=40), ledger.charges("ben", limit=5, after=20))
    for analyst in ("ana", "ben", "cai", "dot", "eli", "fay", "eve"):
        yield f"remaining {analyst}", lambda a=analyst: ledger.remaining(a)
        yield f"objects {analyst}", lambda a=analyst: ledger.objects(a)
    for name in ("ages", "costs", "made", "held_0", "held_3", "none"):
        for analyst in ("ana", "cai"):
            yield f"object {name} {analyst}", lambda a=analyst, n=name: ledger.object(a, n)
    yield "teams", ledger.teams
    for analyst in ("ana", "eli", "fay"):
        yield f"limits {analyst}", lambda a=analyst: ledger.limits(a)
    yield "release", lambda: [ledger.release("ana", k) for k in (2, 3, 5, 86)]
    for k in range(0, 120, 7):
        yield f"again {k}", lambda k=k: ledger.admit(ask(f"q{k}", analyst=("ana", "ben")[k % 3 == 0]))
    yield "again ages", lambda: ledger.admit(ask("ages", name="ages", kind="summary"))
    yield "again made", lambda: ledger.admit(ask("made", name="made", kind="synthetic"))
    yield "final", lambda: ledger.admit(ask("fails 2", name="held_2", kind="summary"))
    yield "taken", lambda: ledger.admit(ask("another", name="ages", kind="summary"))
    yield "stopped", lambda: ledger.admit(ask("another", analyst="dot"))
    yield "too much", lambda: ledger.admit(ask("too much", epsilon_nano=10**5 * NANO - 50 * NANO))
    # what writes
    yield "redeem", lambda: answered(ledger, "fails 0", "later", name="held_0", kind="summary")
    yield "staged", lambda: staged(ledger)
    yield "ended", lambda: ledger.past(ledger.take_up(ask("ended", analyst="eli"), ""))
    yield "goes on", lambda: stepped(ledger)
    yield "to a team", lambda: answered(ledger, "of a team 3", "to a team 3", analyst="fay", delta_atto=7)
    yield "limits after", lambda: [(row.scope, row.spent, row.remaining) for row in ledger.limits("fay")]
    for k in range(3):
        yield f"new {k}", lambda k=k: answered(ledger, f"new {k}", f"answer {k}")
    yield "name it", lambda: answered(ledger, "named", "a summary", name="named", kind="summary")
    yield "share it", lambda: ledger.share("named", "ana", "ben")
    yield "grant", lambda: ledger.grant("eve", epsilon_nano=NANO, delta_atto=0)
    yield "declare", lambda: ledger.save_table("more", "{}")
    yield "spent", lambda: (ledger.state().primary_spent, ledger.remaining("ana").primary, ledger.count_charges())
    yield "after", lambda: [(c.id, c.analyst, c.key, c.state, c.primary_cost) for c in ledger.charges()]
    yield "objects after", lambda: [(row.name, row.charge_id) for row in ledger.objects("ben")]


def answered(ledger: Ledger, question: str, payload: str, **more: Any) -> Any:
    """The charge of a question that is not answered yet, and its answer."""
    charge = ledger.admit(ask(question, **more))
    if isinstance(charge, StoredRelease):
        return charge
    return charge.id, charge.attempt, ledger.store_release(charge, payload).payload


def staged(ledger: Ledger) -> Any:
    charge = ledger.admit(ask("staged"))
    assert isinstance(charge, Charge)
    found = ledger.stages(charge), ledger.store_stage(charge, 3, "stage 3")
    return charge.id, charge.attempt, found, ledger.store_release(charge, "staged answer").payload


def stepped(ledger: Ledger) -> Any:
    """An interactive release that is gone on with: what was answered, and one question more."""
    charge = ledger.take_up(ask("goes on", analyst="eli"), "")
    past = ledger.past(charge)
    more = [
        ledger.store_step(charge, len(past[0]), StoredStep(question=key(question), output="another"))
        for question in ("goes on 2", "goes on 4")
    ]
    ledger.let_go(charge)
    return charge.id, charge.attempt, past, more


def outcome(step: Callable[[], Any]) -> Outcome:
    """How a step ends; whatever is no error of ours is raised."""
    try:
        return "gives", step()
    except DuckDPError as error:
        return error.code, None


def tell(path: Path, between: Callable[[], None] | None = None) -> dict[str, Outcome]:
    """Open a ledger and run the script; with ``between``, do that when it is open and has been used."""
    found: dict[str, Outcome] = {}
    try:
        ledger = Ledger.open(path, create=False)
    except DuckDPError as error:
        return {"open": (error.code, None)}
    with ledger:
        if between is not None:
            outcome(lambda: ledger.admit(ask("q3", analyst="ben")))
            outcome(ledger.state)
            between()
        for name, step in steps(ledger):
            found[name] = outcome(step)
            if found[name][0] in DAMAGE and name in WRITES:
                break  # what follows depends on it
            if found[name][0] in DAMAGE and name.startswith("new"):
                break
    return found


def differing(found: dict[str, Outcome], wanted: dict[str, Outcome]) -> list[str]:
    """Steps that ended in another way, and not in an error of the ledger."""
    return [name for name, seen in found.items() if seen[0] not in DAMAGE and seen != wanted[name]]


def was_seen(found: dict[str, Outcome]) -> bool:
    """Some step ended in an error of the ledger."""
    return any(seen[0] in DAMAGE for seen in found.values())


def copy(path: Path, target: Path) -> None:
    """The files of a ledger, and nothing else under that name."""
    for suffix in (*SUFFIXES, "-shm"):
        Path(f"{target}{suffix}").unlink(missing_ok=True)
    for suffix in SUFFIXES:
        if os.path.exists(f"{path}{suffix}"):
            shutil.copy(f"{path}{suffix}", f"{target}{suffix}")


def flip(file: Path, at: int, by: int) -> None:
    """Change one byte."""
    with open(file, "r+b") as opened:
        opened.seek(at)
        old = opened.read(1)[0]
        opened.seek(at)
        opened.write(bytes([old ^ by]))


def masks(seed: int) -> Iterator[int]:
    """What to change a byte by: mostly one bit."""
    choose = random.Random(seed)
    while True:
        yield 1 << choose.randrange(8) if choose.random() < 0.7 else choose.randrange(1, 256)

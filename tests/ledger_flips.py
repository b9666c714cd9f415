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
from duckdp.ledger import Charge, Ledger, StoredRelease
from tests.ledgers import NANO, answer, ask

SUFFIXES = ("", "-wal", ".anchor")
DAMAGE = frozenset({"B202", "B203", "B204", "B207"})
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
        ledger.revoke("dot", "left")


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
    for analyst in ("ana", "ben", "cai", "dot", "eve"):
        yield f"remaining {analyst}", lambda a=analyst: ledger.remaining(a)
        yield f"objects {analyst}", lambda a=analyst: ledger.objects(a)
    for name in ("ages", "costs", "made", "held_0", "held_3", "none"):
        for analyst in ("ana", "cai"):
            yield f"object {name} {analyst}", lambda a=analyst, n=name: ledger.object(a, n)
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
            if found[name][0] in DAMAGE and name in {"redeem", "staged", "name it", "share it", "grant", "declare"}:
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

"""Power losses: crash images of a recorded trace, each opened and compared with what was acknowledged by then."""

from __future__ import annotations

import random
import shutil
from dataclasses import dataclass, field
from pathlib import Path

from duckdp.errors import DuckDPError
from duckdp.ledger import Charge, Ledger, anchor
from duckdp.ledger.charges import MAX_ATTEMPTS
from tests.faults.disk import Disk, Kind, Record, read_trace, write_image
from tests.faults.workload import COST, ELSEWHERE
from tests.ledgers import ask, key

COPY = "copy.ledger"


@dataclass
class Told:
    """What was acknowledged up to some point of a trace."""

    opened: bool = False
    ready: bool = False  # it has a budget and a grant
    copied: bool = False
    charged: dict[str, int] = field(default_factory=dict)  # question -> charge
    staged: dict[str, dict[int, str]] = field(default_factory=dict)
    released: dict[str, str] = field(default_factory=dict)

    def hear(self, record: Record) -> None:
        """Take in a mark."""
        match record.words:
            case ["opened"]:
                self.opened = True
            case ["set up"]:
                self.ready = True
            case ["copied", _]:
                self.copied = True
            case ["charged", question, charge]:
                self.ready = True
                self.charged[question] = charge
            case ["staged", question, number, payload]:
                self.staged.setdefault(question, {})[number] = payload
            case ["released", question, payload]:
                assert self.released.setdefault(question, payload) == payload, "a second answer to one question"


def losses(
    trace: Path,
    folder: Path,
    images: int,
    seed: int,
    *,
    before: Path | None = None,
    told: Told | None = None,
) -> list[str]:
    """Make crash images all along a trace, and tell what any of them lost.

    Args:
        trace: of the workload.
        folder: where the workload ran, and the images are put.
        images: how many, besides the worst case at each mark.
        seed: of the points and of what is on the disk.
        before: what the folder held at the beginning.
        told: what was acknowledged before.
    """
    chance = random.Random(seed)
    records = list(read_trace(trace))
    moments = [chance.randrange(len(records)) for _ in range(images)]
    moments += [chance.choice(_after_syncs(records)) for _ in range(images // 4)]
    at: dict[int, int] = {}
    for moment in moments:
        at[moment] = at.get(moment, 0) + 1
    disk, found = Disk(folder, before), list[str]()
    told = Told(opened=before is not None) if told is None else told
    target = folder  # what ran there is over, and an anchor elsewhere has an absolute path
    for number, record in enumerate(records):
        disk.replay(record)
        worst = record.kind == Kind.MARK
        if worst:
            told.hear(record)
        crashes = [disk.certain()] if worst else []
        crashes += [disk.after_a_crash(chance) for _ in range(at.get(number, 0))]
        for image in crashes:
            shutil.rmtree(target, ignore_errors=True)
            write_image(image, target)
            problem = lost(target, told)
            if problem:
                found.append(f"record {number} ({record.kind.name}): {problem}")
                if len(found) >= 20:
                    return found
    return found


def _after_syncs(records: list[Record]) -> list[int]:
    """Where something new is certain, and much that came meanwhile is not."""
    return [number for number, record in enumerate(records) if record.kind == Kind.SYNC_END] or [0]


def lost(folder: Path, told: Told) -> str:
    """What is wrong with a crash image; "" if nothing is."""
    path = folder / "a.ledger"
    try:
        if not path.exists():
            return "the ledger is missing" if told.opened else ""
        known = {name: anchor.read(str(path), name and str(folder / name)) for name in ("", ELSEWHERE)}
        counts = {name and str(folder / name): at.count for name, at in known.items() if at is not None}
        if told.opened and not counts:
            return "the anchor is missing"
        with Ledger.open(path, create=False) as ledger:
            held = ledger._store.read(lambda tx: ledger._store.anchors.places(tx))
            least = min(counts.get(place.file, 0) for place in held)
            problem = _missing(ledger, told, least) or _goes_on(ledger, told)
            ledger.verify()
        if not problem and (folder / COPY).exists():
            with Ledger.open(folder / COPY, create=False) as copy:
                problem = "" if copy.state().backup else "the copy is in service"
        elif not problem and told.copied:
            problem = "the copy is missing"
    except DuckDPError as error:
        return f"{error.code}: {error}"
    return problem


def _missing(ledger: Ledger, told: Told, anchored: int) -> str:
    """An acknowledged charge, stage or release that is not there, or not under the anchor."""
    rows = {row.id: row for row in ledger.charges()}
    by_key = {row.key: row for row in reversed(rows.values())}  # the first of each
    seqs = ledger._store.read(
        lambda tx: {
            (row[0], row[1]): row[2]
            for row in tx.rows(
                "SELECT kind, json_extract(detail, '$.charge'), seq FROM event "
                "WHERE kind IN ('charge', 'release', 'stage')"
            )
        }
    )
    for question, charge in told.charged.items():
        if charge not in rows or rows[charge].key != key(question):
            return f"the charge of {question} is lost"
        if seqs["charge", charge] > anchored:
            return f"the charge of {question} is not anchored"
    for question, payload in told.released.items():
        row = by_key.get(key(question))
        if row is None or row.state != "released":
            return f"the release of {question} is lost"
        if ledger.release(row.analyst, row.id).payload != payload:
            return f"the release of {question} is another one"
        if seqs["release", row.id] > anchored:
            return f"the release of {question} is not anchored"
    if ledger.state().primary_spent != sum(row.primary_cost for row in rows.values()):
        return "the sums do not fit"
    return ""


def _goes_on(ledger: Ledger, told: Told) -> str:
    """What was answered is given again, free; what was only charged is redeemed, free; a new question is charged."""
    if not told.ready:
        return ""
    spent = ledger.state().primary_spent
    final = {row.key for row in ledger.charges() if row.attempt == MAX_ATTEMPTS and row.state != "released"}
    for question in [*list(told.charged)[-3:], *list(told.released)[-1:]]:
        if key(question) in final and question not in told.released:
            continue
        found = ledger.admit(ask(question, COST))
        if not isinstance(found, Charge):
            continue
        if question in told.released:
            return f"{question} would be answered twice"
        stages = ledger.stages(found)
        if any(stages[n : n + 1] != [payload] for n, payload in told.staged.get(question, {}).items()):
            return f"a stage of {question} is lost"
        ledger.store_release(found, "after the crash")
    if ledger.state().primary_spent != spent:
        return "something was charged twice"
    ledger.store_release(ledger.admit(ask("after the crash", COST)), "x")
    return "" if ledger.state().primary_spent == spent + COST else "a new question was not charged"

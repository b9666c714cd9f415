"""The order that every acknowledgement must follow, read off a trace.

    write to the journal -> its sync, begun after -> write to the anchor, after that -> its sync -> acknowledged

Several acknowledgements may share one such chain (a group commit); none goes without.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.faults.disk import Disk, Kind, Record, read_trace
from tests.faults.workload import ELSEWHERE
from tests.ledgers import ask

JOURNAL, ANCHOR = "a.ledger-wal", "a.ledger.anchor"
ANCHORS = (ANCHOR, ELSEWHERE)  # both, where that is in force which was written last


@dataclass
class Chains:
    """What happened to the journal and the anchor so far, by number of record.

    Attributes:
        syncs: of either file: (end, begin), as they end.
        anchored: writes to the anchor.
        first: the first write to the journal that holds a text.
    """

    syncs: dict[str, list[tuple[int, int]]] = field(default_factory=lambda: {JOURNAL: [], ANCHOR: []})
    anchored: list[int] = field(default_factory=list)
    first: dict[bytes, int] = field(default_factory=dict)

    def problem(self, text: bytes) -> str:
        """What is missing of the chain behind an acknowledgement; "" if nothing is."""
        if text not in self.first:
            return "was never written to the journal"
        synced = _covered(self.syncs[JOURNAL], self.first[text])
        if synced is None:
            return "the journal was not synced after it was written"
        moved = bisect_right(self.anchored, synced)
        if moved == len(self.anchored):
            return "the anchor was not moved after the journal's sync"
        if _covered(self.syncs[ANCHOR], self.anchored[moved]) is None:
            return "the anchor was not synced after it was moved"
        return ""


def disorders(trace: Path, folder: Path, before: Path | None = None) -> tuple[int, list[str]]:
    """How many acknowledgements a trace holds, and those that came too early."""
    records = list(read_trace(trace))
    texts = {text for record in records if record.kind == Kind.MARK for text in [_text(record)] if text}
    disk, chains, begun, found, told = Disk(folder, before), Chains(), dict[int, int](), list[str](), 0
    for number, record in enumerate(records):
        disk.replay(record)
        match record.kind:
            case Kind.WRITE:
                name = disk.file_of(record.handle)
                if name in ANCHORS:
                    chains.anchored.append(number)
                elif name == JOURNAL:
                    new = [text for text in texts if text not in chains.first and text in record.data]
                    chains.first |= dict.fromkeys(new, number)
            case Kind.SYNC_BEGIN:
                begun[record.offset] = number
            case Kind.SYNC_END:
                name = disk.file_of(record.handle)
                name = ANCHOR if name in ANCHORS else name
                if name in chains.syncs:
                    chains.syncs[name].append((number, begun[record.offset]))
            case Kind.MARK if text := _text(record):
                told += 1
                if problem := chains.problem(text):
                    found.append(f"record {number}: {record.words[:2]} {problem}")
    return told, found


def _text(record: Record) -> bytes:
    """What the acknowledged transaction wrote, and nothing before it did: a key, or a random answer."""
    match record.words:
        case ["charged", question, _]:
            return ask(question).key.encode()
        case ["staged", _, _, payload] | ["released", _, payload]:
            return payload[:64].encode()  # a long one goes on in other pages
    return b""


def _covered(syncs: Sequence[tuple[int, int]], write: int) -> int | None:
    """The end of the first sync that began after a write."""
    return next((end for end, begin in syncs if begin > write), None)

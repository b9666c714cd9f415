"""Single flipped bytes in the ledger, its journal and its anchor, before it is opened and while it is.

None changes an answer, a charge or a limit; none gives a raw error; verify finds the rest, wherever a byte says
something. (It does not find: pages and gaps that are free, what free blocks held, the header's fields that SQLite keeps
for itself, see ``sqlite_pages.UNSAID`` and ``UNREAD``; and in the anchor the older of its two lines.)
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from duckdp.errors import DuckDPError
from duckdp.ledger import Ledger, chain, tx
from tests import ledger_flips as flips
from tests.sqlite_pages import UNREAD, Pages

SHORT, LONG = 60, 10_000


class Bench:
    """A ledger, what it says, and a place to harm copies of it."""

    def __init__(self, folder: Path) -> None:
        self.base, self.work = folder / "base.ledger", folder / "work.ledger"
        flips.build(self.base)
        self.wanted = self.told(lambda: None)

    def told(self, harm: Callable[[], None], between: Callable[[], None] | None = None) -> dict[str, flips.Outcome]:
        flips.copy(self.base, self.work)
        harm()
        return flips.tell(self.work, between)

    def is_found_by_verify(self, harm: Callable[[], None]) -> bool:
        flips.copy(self.base, self.work)
        harm()
        try:
            with Ledger.open(self.work, create=False) as ledger:
                ledger.verify()
        except DuckDPError as error:
            assert error.code in flips.DAMAGE, error
            return True
        return False


@pytest.fixture(scope="module")
def bench() -> Iterator[Bench]:
    with flips.folder() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(chain, "now", lambda: "2026-11-22T21:00:00Z")  # no month ends between two runs of the script
        yield Bench(folder)


def places(used: set[int], size: int, count: int, seed: int) -> Iterator[tuple[int, int]]:
    """(offset, mask): bytes that say something, mostly those that lead somewhere (the first of each page)."""
    choose, masks, listed = random.Random(seed), flips.masks(seed), sorted(used)
    heads = [at for at in listed if at % 4096 < 160]
    for _ in range(count):
        kind = choose.random()
        pool = heads if kind < 0.4 else listed
        yield (choose.choice(pool) if kind < 0.95 else choose.randrange(size)), next(masks)


def check_main_file(bench: Bench, count: int, seed: int) -> None:
    data = bench.base.read_bytes()
    used = Pages(data).used
    unseen = []
    for at, by in places(used, len(data), count, seed):
        harm = partial(flips.flip, bench.work, at, by)
        found = bench.told(harm)
        assert flips.differing(found, bench.wanted) == [], (at, by)
        says = at in used and by & ~UNREAD.get(at, 0)
        if says and not flips.was_seen(found) and not bench.is_found_by_verify(harm):
            unseen.append((at, by))
    assert unseen == []


def check_while_open(bench: Bench, count: int, seed: int) -> None:
    """In the file, or where the newest pages are, in the journal."""
    choose, masks = random.Random(seed), flips.masks(seed)
    for _ in range(count):
        name = bench.work if choose.random() < 0.5 else Path(f"{bench.work}-wal")

        def harm(name: Path = name) -> None:
            if size := name.stat().st_size:
                flips.flip(name, choose.randrange(size), next(masks))

        found = bench.told(lambda: None, harm)
        assert flips.differing(found, bench.wanted) == []


def check_journal(bench: Bench, count: int, seed: int) -> None:
    """A journal that was left by a crash."""
    with flips.folder() as folder:
        crashed = folder / "crashed.ledger"
        flips.copy(bench.base, bench.work)
        with Ledger.open(bench.work) as ledger:
            ledger.revoke("cai", "left")
            ledger.grant("cai", epsilon_nano=10**14, delta_atto=10**14, raise_to=True, reason="back")
            flips.answer(ledger, flips.ask("in the journal"), "from the journal")
            flips.copy(bench.work, crashed)
        flips.copy(crashed, bench.work)
        wanted = flips.tell(bench.work)
        size = Path(f"{crashed}-wal").stat().st_size
        choose, masks = random.Random(seed), flips.masks(seed)
        for _ in range(count):
            at, by = choose.randrange(size), next(masks)
            flips.copy(crashed, bench.work)
            flips.flip(Path(f"{bench.work}-wal"), at, by)
            assert flips.differing(flips.tell(bench.work), wanted) == [], (at, by)


def check_anchor(bench: Bench, count: int, seed: int) -> None:
    size = Path(f"{bench.base}.anchor").stat().st_size
    choose, masks = random.Random(seed), flips.masks(seed)
    for _ in range(count):
        at, by = choose.randrange(size), next(masks)
        found = bench.told(lambda at=at, by=by: flips.flip(Path(f"{bench.work}.anchor"), at, by))
        assert flips.differing(found, bench.wanted) == [], (at, by)


CHECKS = {"file": check_main_file, "open": check_while_open, "journal": check_journal, "anchor": check_anchor}


@pytest.mark.parametrize(("what", "count"), [("file", SHORT), ("open", 15), ("journal", 10), ("anchor", 10)])
def test_no_flip_changes_what_the_ledger_says(bench: Bench, what: str, count: int) -> None:
    CHECKS[what](bench, count, seed=20260)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("what", "count"), [("file", LONG * 7 // 10), ("open", LONG // 10), ("journal", LONG // 10), ("anchor", LONG // 10)]
)
def test_no_flip_of_ten_thousand(bench: Bench, what: str, count: int) -> None:
    CHECKS[what](bench, count, seed=2026)


def test_no_bit_of_the_header_says_that_the_ledger_is_something_else(bench: Bench) -> None:
    """Each is unseen, as what SQLite keeps for itself, or damage: none is a newer version, or another file."""
    for at in range(40, 100):
        for bit in range(8):
            harm = partial(flips.flip, bench.work, at, 1 << bit)
            flips.copy(bench.base, bench.work)
            harm()
            ending = flips.outcome(lambda: Ledger.open(bench.work, create=False).close())[0]
            assert ending in {"gives", *flips.DAMAGE}, (at, bit)


def test_the_script_says_the_same_twice(bench: Bench) -> None:
    assert bench.told(lambda: None) == bench.wanted
    assert {code for code, _ in bench.wanted.values()} == {"gives", "B101", "B102", "B103", "B106", "C110", "C111"}


def test_flips_are_noticed_by_the_seals(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """The broken twin: without them a flip in a row that is used changes what is said."""
    at = bench.base.read_bytes().index(b"SELECT q7")
    harm = partial(flips.flip, bench.work, at, 1)
    assert flips.was_seen(bench.told(harm))
    monkeypatch.setattr(tx, "fits", lambda *_: True)
    assert flips.differing(bench.told(harm), bench.wanted) == ["charges"]

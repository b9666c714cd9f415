"""Where the anchor of a ledger is: in the file beside it, in a file elsewhere, or with a command.

The choice is an event of the chain, so a ledger that is opened without a word about it goes on with the anchor that it
has: a file is used, a command must be given again (B208), since nothing is ever executed because a file says so.
While it is changed, both the old anchor and the new one are in force: a crash leaves none behind.

Detects: a ledger that does not hold what its anchor knows, at opening and at every charge. With a command the charge
         is committed first and refused before anything leaves; nothing is read of the data.
"""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from duckdp.errors import LedgerError, ParameterError
from duckdp.ledger import anchor, anchor_command, chain, files
from duckdp.ledger.anchor import Position
from duckdp.ledger.tx import Tx

Where = str | os.PathLike[str] | Sequence[str]


class Place(NamedTuple):
    """A place of an anchor; neither: the file beside the ledger.

    Attributes:
        file: its absolute path.
        command: its words; the first is the absolute path of the program.
    """

    file: str = ""
    command: tuple[str, ...] = ()

    def __str__(self) -> str:
        if self.command:
            return f"the command {shlex.join(self.command)}"
        return f'the file "{self.file}"' if self.file else "the file beside the ledger"


BESIDE = Place()
BESIDE_ALONE = (BESIDE,)


def place_of(path: str, where: Where | None) -> Place | None:
    """The place that was given; ``<ledger>.anchor`` means beside the ledger.

    Raises:
        ParameterError: P107. LedgerError: B205, B207.
    """
    if where is None:
        return None
    if isinstance(where, (list, tuple)):
        return Place(command=anchor_command.words_of(where))
    name = files.resolve(where, "anchor")
    if name == path + anchor.SUFFIX:
        return BESIDE
    if os.path.dirname(name) == os.path.dirname(path):
        raise ParameterError(
            "P107", "anchor", name, "lies in the ledger's folder and would be restored with it. Name a file elsewhere."
        )
    files.refuse_network(name)
    return Place(file=name)


def text_of(places: Iterable[Place]) -> str | None:
    """The places as the ledger keeps them; None is the file beside it alone."""
    listed = [{"command": list(p.command)} if p.command else {"file": p.file} for p in places]
    return None if listed == [{"file": ""}] else json.dumps(listed)


def places_in(text: str | None, path: str) -> tuple[Place, ...]:
    """The inverse of :func:`text_of`.

    Raises:
        LedgerError: B202.
    """
    if text is None:
        return BESIDE_ALONE
    try:
        return tuple(Place(file=p.get("file", ""), command=tuple(p.get("command", ()))) for p in _list(text))
    except (ValueError, TypeError, AttributeError):
        raise chain.damaged(path, "where its anchor is cannot be read") from None


class Anchors:
    """The anchors of a ledger that is open in this process.

    Args:
        path: of the ledger.
        given: what its opener said of the anchor, if anything.
    """

    def __init__(self, path: str, given: Place | None = None) -> None:
        self.path = path
        self.said = given
        self.commands = {given} if given is not None and given.command else set()  # that may be run
        self.instead: Place | None = None  # the owner's repair: whatever the ledger says
        self._believed: dict[Place, Position] = {}  # what a command keeps, which this ledger was seen to hold
        self._opened: dict[Place, int] = {}  # files, from the beginning of a transaction to its end
        self._behind: set[Place] = set()  # commands that failed to follow a commit

    def places(self, tx: Tx, *, opening: bool = False) -> tuple[Place, ...]:
        """The anchors in force; ``opening``: the owner is told which.

        Raises:
            LedgerError: B208, a command that was not given, or not what was given.
        """
        dataset = tx.dataset()
        if dataset["backup"] is not None:
            return BESIDE_ALONE  # a backup has the anchor beside it alone, wherever its original's is
        if self.instead is not None:
            return (self.instead,)
        found = places_in(dataset["anchor"], self.path)
        if found is not BESIDE_ALONE or self.said is not None:
            self.require_given(found, opening=opening)
        return found

    def require_given(self, found: Sequence[Place], *, opening: bool = True) -> None:
        """The places in force are what was given.

        Raises:
            LedgerError: B208.
        """
        if self.said not in (None, *found) or any(p.command and p not in self.commands for p in found):
            raise _another(self.path, found, opening=opening)

    def read(self, place: Place, opened: int | None = None) -> Position | None:
        """What an anchor knows; None if it is missing or empty.

        Raises:
            LedgerError: B204, B209.
        """
        if not place.command:
            return anchor.read(self.path, place.file or None, opened)
        return anchor_command.exchange(self.path, place.command, None, None)

    def require(self, tx: Tx, place: Place, known: Position) -> None:
        """The ledger holds what an anchor of it knows; only such a position of a command is ever replaced.

        Raises:
            LedgerError: B203.
        """
        require_contained(self.path, tx, known)
        self._believed[place] = known

    def ready(self, tx: Tx) -> None:
        """A command that failed has caught up with what is committed; before that nothing more is charged.

        Raises:
            LedgerError: B203, B204, B209.
        """
        for place in self._behind and self._behind & set(self.places(tx)):
            self.advance(tx, place, tx.head())

    def require_newest(self, tx: Tx, places: Iterable[Place]) -> None:
        """The ledger holds what its anchors know; commands are asked when they are moved, after the commit.

        Files stay open for their move, until :meth:`let_go`.

        Raises:
            LedgerError: B203, B204.
        """
        for place in places:
            if not place.command:
                opened = anchor.open_both(self.path, place.file or None)
                if opened is not None:
                    self._opened[place] = opened
                known = self.read(place, opened)
                if known is None:
                    raise self.missing(place)
                self.require(tx, place, known)

    def let_go(self) -> None:
        """The transaction ended; again is harmless."""
        while self._opened:
            anchor.close(self._opened.popitem()[1])

    def advance(self, tx: Tx, place: Place, head: Position, *, create: bool = False, replace: bool = False) -> None:
        """Move an anchor forward to a committed position, durably.

        Args:
            tx: of the ledger as it is committed now, in which what a command knows is looked for.
            place: of the anchor.
            head: the position.
            create: begin the anchor if it knows nothing; else that is an error.
            replace: overwrite a damaged file.

        Raises:
            LedgerError: B203, B204, B207, B209.
        """
        if not place.command:
            anchor.advance(
                self.path,
                head,
                file=place.file or None,
                create=create,
                replace=replace,
                opened=self._opened.get(place),
                hold=lambda known: self._require_still(tx, place, known),
            )
            return
        self._behind.add(place)
        while True:
            believed = self._believed.get(place)
            kept = anchor_command.exchange(self.path, place.command, believed, head)
            if kept is None and not create:
                raise self.missing(place)
            if kept == believed != head:
                raise anchor_command.silent(self.path)  # it does not keep what it is given
            assert kept is not None
            self.require(tx, place, kept)
            if kept.count >= head.count:
                self._behind.discard(place)
                return

    def _require_still(self, tx: Tx, place: Place, known: Position) -> None:
        """Between the look at an anchor and its move, another ledger of the same past may have moved it.

        Raises:
            LedgerError: B203.
        """
        if known != self._believed.get(place):
            self.require(tx, place, known)

    def set_back(self, place: Place, head: Position) -> None:
        """Move an anchor wherever it stands: its ledger is gone, and this one takes its place.

        Raises:
            LedgerError: B203, of another data set; B204, B207, B209.
        """
        if not place.command:
            anchor.advance(self.path, head, file=place.file or None, create=True, back=True)
            return
        known = self.read(place)
        if known is not None and known.dataset_id != head.dataset_id:
            raise anchor.rolled_back(self.path, "the ledger belongs to another data set than its anchor")
        if anchor_command.exchange(self.path, place.command, known, head) != head:
            raise anchor_command.silent(self.path)
        self._believed[place] = head

    def missing(self, place: Place) -> LedgerError:
        """The error for an anchor that knows nothing."""
        if place.command:
            return anchor_command.silent(self.path)
        return anchor.damaged(self.path, place.file)


def require_contained(path: str, tx: Tx, known: Position) -> None:
    """The anchor's position must be on the ledger's chain.

    Raises:
        LedgerError: B203.
    """
    dataset = tx.dataset()
    if known.dataset_id != dataset["id"]:
        raise anchor.rolled_back(path, "the ledger belongs to another data set than its anchor")
    if known.count == dataset["events"] and known.digest == dataset["head"]:
        return
    row = tx.one("SELECT hash FROM event WHERE seq = ?", known.count)
    if row is None:
        raise anchor.rolled_back(
            path, f"the ledger holds {tx.head().count} entries where its anchor knows of {known.count}"
        )
    if row["hash"] != known.digest:
        raise anchor.rolled_back(path, "the ledger has another history than its anchor")


def _list(text: str) -> list[dict[str, Any]]:
    found = json.loads(text)
    if not isinstance(found, list) or not found:
        raise ValueError(text)
    return found


def _another(path: str, found: Sequence[Place], *, opening: bool) -> LedgerError:
    if not opening:  # analysts are not told
        text = f'the anchor of the ledger "{path}" is another one now. The data owner opens it again, with anchor=....'
        return LedgerError("B208", text, path=path)
    places = " and ".join(map(str, found))
    return LedgerError(
        "B208",
        f'the anchor of the ledger "{path}" is {places}. Give that as anchor=..., or change it with '
        "Ledger.move_anchor and a reason.",
        path=path,
    )

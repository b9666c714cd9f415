"""The history of a ledger from its beginning, and beside it the charges, whose order is that of the history.

Memory: a few bytes for each charge. What may be many and has no order of its own (names, shares, the directory) is kept
as a sum of keyed digests of 128 bits: equal sums are equal sets but for a chance of 2**-128 times their size.
"""

from __future__ import annotations

import json
from array import array
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from duckdp.ledger import chain, directory, schema
from duckdp.ledger.retold import Retold
from duckdp.ledger.seals import SIZE, Damage, Row, seal_of
from duckdp.ledger.storage import Stored, stream
from duckdp.ledger.tx import Tx, fits

_STATES = {"open": 0, "failed": 1, "released": 2}
_SHARE = 10_000  # events between two words about progress


@dataclass(kw_only=True)
class Marks:
    """What the history says of each charge, by its id: state, attempts, stages, whether its release was finished."""

    states: bytearray = field(default_factory=lambda: bytearray(1))
    attempts: bytearray = field(default_factory=lambda: bytearray(1))
    stages: array[int] = field(default_factory=lambda: array("L", [0]))
    finished: bytearray = field(default_factory=lambda: bytearray(1))

    def add(self, state: str, attempt: int, stages: int, finished: bool) -> None:
        """Take note of the next charge."""
        self.states.append(_STATES[state])
        self.attempts.append(attempt)
        self.stages.append(stages)
        self.finished.append(finished)


class Sum:
    """A multiset of small tuples, as a sum of keyed digests."""

    def __init__(self, salt: bytes) -> None:
        self._salt = salt
        self.value = 0

    def add(self, *item: Any, times: int = 1) -> None:
        """Enter an item, or take it out with ``times=-1``."""
        digest = seal_of(self._salt, "", item)
        self.value = (self.value + times * int.from_bytes(digest, "big")) % 2 ** (8 * SIZE)


def _is_consistent(charge: Row) -> bool:
    """A charge vouches for a release and for stages if, and only if, it has them; what they are, their events say."""
    released, staged = charge["released"] is not None, charge["staged"] is not None
    return (released, staged) == (charge["state"] == "released", charge["stages"] > 0)


class Replay:
    """What the tables must say.

    Args:
        connection: to the ledger, within a transaction.
        sealed: rows carry seals, and the chain names holders and names.
    """

    def __init__(self, connection: Stored, *, sealed: bool) -> None:
        row = connection.execute("SELECT * FROM dataset").fetchone()
        if row is None:
            raise Damage("it has no data set")
        self.connection, self.sealed = connection, sealed
        self.dataset: Row = dict(row)
        self.salt: bytes = self.dataset["salt"]
        self.tx = Tx(connection)
        if sealed:
            self.tx.dataset()
        self.said, self.stand = Marks(), Marks()
        self.payloads = Counter[str]()
        self.spent: dict[str, list[int]] = defaultdict(lambda: [0, 0, 0])  # by analyst: sums, and number of charges
        self.charged_under: dict[int, None] = {}  # versions of the catalog, in order
        self.budget: dict[str, Any] | None = None
        self.frozen: str | None = None
        self.anchor: str | None = None
        self.backup: str | None = None
        self.caps: dict[str, dict[str, Any]] = {}
        self.revoked: dict[str, str | None] = {}
        self.tables: dict[str, int] = {}
        self.declared: dict[int, tuple[str, str]] = {}
        self.ended: dict[int, int] = {}
        self.catalog_version = 0
        self.source: tuple[int, str | None] = (0, None)
        self.read: str | None = None
        self.events = self.actions = 0
        self.version = 0  # which wrote the entry before, as far as rows tell
        self.head = ""
        self._staged: dict[int, str] = {}  # of the charges whose stages are not all told yet
        self._unmarked: set[tuple[str, str]] = set()  # names that may be free one day, of rows that do not
        self.objects, self.shares, self.entries = Sum(self.salt), Sum(self.salt), Sum(self.salt)
        self.retold = Retold(connection, self.salt)
        self._charges = stream(connection, "SELECT * FROM charge ORDER BY id")

    def run(self) -> Iterator[float]:
        """Replay all; yields the share that is done.

        Raises:
            Damage: the first contradiction. KeyError, TypeError, ValueError: an entry cannot be read.
        """
        many = max(self.dataset.get("events") or 0, 1)
        before = chain.genesis(self.dataset)
        columns = chain.COLUMNS + (", action, version" if self.sealed else "")
        for row in stream(self.connection, f"SELECT {columns} FROM event ORDER BY seq"):
            self.events += 1
            if row[0] != self.events or not chain.is_link(before, row):
                raise Damage(f"entry {self.events} of its history was altered")
            before, kind = row[6], row[2]
            self.actions += kind not in chain.MACHINE
            self._tell(kind, row[3], json.loads(row[4]), row[5])
            if self.sealed and not self._is_marked(kind, row[7], row[8]):
                raise Damage(f"entry {self.events} of its history was altered")
            if self.events % _SHARE == 0:
                yield min(self.events / many, 1.0)
        self.head = before
        if self.sealed and self.version != schema.SEALED:
            raise Damage("when its rows were sealed is lost")
        if self._charges.fetchone() is not None:
            raise Damage("a charge was added")

    def _is_marked(self, kind: str, action: object, version: object) -> bool:
        """Whether an entry's number among the owner's actions, and the version that wrote it, are as they must be."""
        if self.events == 1:
            self.version = schema.UNMARKED if version == schema.UNMARKED else schema.SEALED
        return (action, version) == (None if kind in chain.MACHINE else self.actions, self.version)

    def _begin_seals(self) -> None:
        """Here a ledger of an earlier version was brought to the one from which on rows are sealed."""
        if self.version != schema.UNMARKED:
            raise Damage("when its rows were sealed was altered")
        self.version = schema.SEALED
        self.retold.begin_months()

    def _tell(self, kind: str, subject: str, detail: dict[str, Any], reason: str | None) -> None:
        match kind:
            case "charge":
                self._charge(subject, detail)
            case "redeem":
                self._redeem(detail)
            case "fail":
                self._set_state(detail["charge"], "failed")
            case "stage" | "release" | "finish":
                self._payload(kind, detail)
            case "hold":
                self._hold(detail)
            case "budget":
                self.budget = detail
            case "freeze" | "unfreeze":
                self.frozen = reason if kind == "freeze" else None
            case "grant":
                self.caps[subject], self.revoked[subject] = detail, None
            case "seal":
                self._begin_seals()
            case "team" | "reserve" | "unreserve" | "turn" | "step" | "ended" | "end":
                self.retold.tell(kind, subject, detail)
            case "revoke":
                self.revoked[subject] = reason
            case "table" | "drop_table":
                self._declare(kind, subject, detail)
            case "source":
                self.source, self.read = (detail["version"], detail["fingerprint"]), detail.get("read")
            case "name" | "free" | "share":
                self._name(kind, subject, detail)
            case "create" | "repair_anchor" | "anchor":
                self.anchor = detail.get("anchor", self.anchor)
            case "copy":
                self.backup = detail["at"]
            case "move":
                self.backup, self.anchor = detail["mark"], detail["anchor"]
            case "restored" | "moved":
                self.backup = None
            case "backup" | "look" | "restoring" | "statements":
                pass
            case _:
                raise ValueError(kind)

    # ---- charges -----------------------------------------------------------------------------------------------------

    def _charge(self, subject: str, detail: dict[str, Any]) -> None:
        """A charge: its row is the next one, and is what it was."""
        found = self._charges.fetchone()
        row: Row = {} if found is None else dict(found)
        number = len(self.said.states)
        if not row or row["id"] != number or detail["charge"] != number or row["analyst"] != subject:
            raise Damage("a charge was added or removed")
        if chain.charge_digest(row) != detail["digest"]:
            raise Damage(f"charge {number} was altered")
        spent = self.spent[subject]
        for place, cost in enumerate((row["primary_cost"], row["secondary_cost"], 1)):
            spent[place] += cost
        self.retold.charge(row, detail)
        self.charged_under.pop(row["catalog_version"], None)
        self.charged_under[row["catalog_version"]] = None
        self.said.add("open", 1, 0, False)
        if self.sealed and not _is_consistent(row):
            raise Damage(f"charge {number} was altered")
        self.stand.add(row["state"], row["attempt"], row.get("stages", 0), row.get("finished") is not None)
        if self.sealed:
            if not fits(self.salt, "charge", row) or row["number"] != spent[2]:
                raise Damage(f"charge {number} was altered")
            if row["attempt"] == 1 and detail.get("holder", row["holder"]) != row["holder"]:
                raise Damage(f"the holder of charge {number} was altered")
            self.entries.add(directory.charge(self.salt, subject, row["key"]), number)
            if "name" in detail:
                self._name("name", subject, detail)

    def _redeem(self, detail: dict[str, Any]) -> None:
        charge, attempt = detail["charge"], detail["attempt"]
        if attempt != self.said.attempts[charge] + 1:
            raise Damage(f"the attempts of charge {charge} were altered")
        self.said.attempts[charge] = attempt
        self._set_state(charge, "open")
        if self.sealed and "holder" in detail and attempt == self.stand.attempts[charge]:
            self._require_holder(charge, detail["holder"])

    def _hold(self, detail: dict[str, Any]) -> None:
        """What was true of a charge without a release when the chain began to name holders and failures."""
        charge = detail["charge"]
        self._set_state(charge, detail["state"])
        if self.said.attempts[charge] == self.stand.attempts[charge]:
            self._require_holder(charge, detail["holder"])

    def _require_holder(self, charge: int, holder: str) -> None:
        row = self.connection.execute("SELECT holder FROM charge WHERE id = ?", (charge,)).fetchone()
        if row is None or row[0] != holder:
            raise Damage(f"the holder of charge {charge} was altered")

    def _set_state(self, charge: int, state: str) -> None:
        if self.said.states[charge] == _STATES["released"]:
            raise Damage(f"the state of charge {charge} was altered")
        self.said.states[charge] = _STATES[state]

    def _payload(self, kind: str, detail: dict[str, Any]) -> None:
        """A stage, a release or what was made of it: it is there, as it was."""
        charge, digest = detail["charge"], detail["digest"]
        table, where, key = "finished" if kind == "finish" else kind, "charge = ?", [charge]
        if kind == "stage":
            where, key = "charge = ? AND number = ?", [charge, detail["number"]]
            if detail["number"] != self.said.stages[charge]:
                raise Damage(f"the stages of charge {charge} were altered")
            self.said.stages[charge] += 1
            self._stage(charge, digest)
        elif kind == "release":
            self._set_state(charge, "released")
        else:
            self.said.finished[charge] += 1
        row = self.connection.execute(f"SELECT payload FROM {table} WHERE {where}", key).fetchone()
        if row is None or not chain.vouches(digest, row[0]):
            raise Damage(f"the {'release' if kind != 'stage' else 'stages'} of charge {charge} was altered or removed")
        self.payloads[table] += 1
        if self.sealed and kind != "stage":
            column = "released" if kind == "release" else "finished"
            row = self.connection.execute(f"SELECT {column} FROM charge WHERE id = ?", (charge,)).fetchone()
            if row is None or row[0] != digest:
                raise Damage(f"charge {charge} was altered")

    def _stage(self, charge: int, digest: str) -> None:
        """A charge's row vouches for all of its stages: with the last one, it is known for what."""
        staged = self._staged[charge] = chain.digest(self._staged.pop(charge, None), digest)
        if self.sealed and self.said.stages[charge] == self.stand.stages[charge]:
            del self._staged[charge]
            row = self.connection.execute("SELECT staged FROM charge WHERE id = ?", (charge,)).fetchone()
            if row is None or row[0] != staged:
                raise Damage(f"the stages of charge {charge} were altered")

    # ---- declarations and names --------------------------------------------------------------------------------------

    def _declare(self, kind: str, subject: str, detail: dict[str, Any]) -> None:
        version = detail["version"]
        if subject in self.tables or kind == "drop_table":
            self.ended[self.tables.pop(subject)] = version
        if kind == "table":
            self.tables[subject] = version
            self.declared[version] = (subject, detail["digest"])
        self.catalog_version = version

    def _name(self, kind: str, subject: str, detail: dict[str, Any]) -> None:
        """Names and shares, from when on the chain tells them all."""
        if not self.sealed:
            return
        if kind == "share":
            self._share(detail["owner"], subject, detail["with"], detail.get("charge"))
            return
        times = 1 if kind == "name" else -1
        version = self._version_of(kind, subject, detail)
        self.objects.add(subject, detail["name"], detail["charge"], version, times=times)
        self.entries.add(directory.named(subject, detail["name"]), detail["charge"], times=times)
        for reader in detail.get("readers", ()):
            self._share(subject, detail["name"], reader, detail["charge"], times)

    def _version_of(self, kind: str, subject: str, detail: dict[str, Any]) -> int:
        """Which version a name's row says: those that were there when rows were sealed are told with their readers."""
        name = (subject, detail["name"])
        if kind == "free":
            marked = name not in self._unmarked
            self._unmarked.discard(name)
            return schema.SEALED if marked else schema.UNMARKED
        if "readers" not in detail:
            return schema.SEALED
        if self.said.states[detail["charge"]] != _STATES["released"]:
            self._unmarked.add(name)
        return schema.UNMARKED

    def _share(self, owner: str, name: str, reader: str, charge: int | None, times: int = 1) -> None:
        if charge is not None:  # shares of earlier versions stand beside the name, where the chain begins to tell them
            self.shares.add(owner, name, reader, times=times)
            self.entries.add(directory.shared(reader, name), charge, times=times)

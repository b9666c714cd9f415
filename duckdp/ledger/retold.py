"""What the history says of months, teams, reservations and interactive releases, compared with their rows."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Protocol

from duckdp.ledger import chain, directory
from duckdp.ledger.seals import Damage, Row
from duckdp.ledger.storage import Stored
from duckdp.ledger.tx import fits

_SPENT = ("primary_spent", "secondary_spent", "month", "primary_month_spent", "secondary_month_spent")


class _Sum(Protocol):
    def add(self, *item: Any, times: int = 1) -> None: ...


@dataclass
class _Spent:
    """What is counted to an analyst or a team."""

    total: list[int] = field(default_factory=lambda: [0, 0])
    month: str = ""
    monthly: list[int] = field(default_factory=lambda: [0, 0])

    def add(self, cost: tuple[int, int], month: str) -> None:
        if self.month != month:
            self.month, self.monthly = month, [0, 0]
        for place, units in enumerate(cost):
            self.total[place] += units
            self.monthly[place] += units if month else 0

    def listed(self) -> list[Any]:
        return [*self.total, self.month, *self.monthly]


class Retold:
    """Filled event by event, in order.

    Args:
        connection: to the ledger.
        salt: of the data set.
    """

    def __init__(self, connection: Stored, salt: bytes) -> None:
        self._connection, self._salt = connection, salt
        self._teams: dict[str, dict[str, Any]] = {}
        self._members: dict[str, list[str]] = {}
        self._spent: dict[tuple[str, str], _Spent] = {}
        self._month = ""
        self._holder: str | None = None  # of the last charge
        self._held: dict[int, list[int]] = {}  # of the reservations that live
        self._reservations = 0
        self._turns: dict[int, tuple[int, str | None]] = {}  # by charge, with the holder if the history names it
        self._stepped: dict[int, tuple[int, str | None]] = {}
        self._ended: dict[int, str] = {}

    def begin_months(self) -> None:
        """A ledger of an earlier version begins to count months."""
        self._month = ""
        for spent in self._spent.values():
            spent.month, spent.monthly = "", [0, 0]

    def charge(self, row: Row, detail: dict[str, Any]) -> None:
        """A charge: counted to its analyst and its teams, in its month, and within its reservation."""
        self._holder = detail.get("holder")
        cost, self._month = (row["primary_cost"], row["secondary_cost"]), detail.get("month", "")
        for key in [("analyst", row["analyst"]), *(("team", team) for team in detail.get("teams", ()))]:
            self._spent.setdefault(key, _Spent()).add(cost, self._month)
        if "reservation" in detail:
            held = self._held[detail["reservation"]]
            held[:] = [before - units for before, units in zip(held, cost, strict=True)]

    def tell(self, kind: str, subject: str, detail: dict[str, Any]) -> None:
        """Any other event that is of concern here."""
        match kind:
            case "team":
                self._teams[subject] = dict.fromkeys(chain.MONTH_COLUMNS) | detail
                self._members[subject] = self._teams[subject].pop("members")
            case "reserve":
                self._reserve(detail)
            case "unreserve":
                self._unreserve(detail)
            case "turn":
                self._turns[detail["charge"]] = (detail["turn"], detail["holder"])
            case "step":
                self._step(detail)
            case "ended" | "end":
                self._ended[detail["charge"]] = detail["why"]

    def fits(self, dataset: Row, caps: dict[str, dict[str, Any]], entries: _Sum) -> Iterator[tuple[str, bool]]:
        """What is wrong where it does not fit, and whether it does; teams are added to the directory's entries."""
        analysts, teams = self._rows("analyst"), self._rows("team")
        for name in teams:
            entries.add(directory.team(name), 0)
        yield "a month's limit was altered", self._months_fit(analysts, caps)
        yield "a team was altered, added or removed", self._teams_fit(analysts, teams)
        yield (
            "what was spent of a team or a month is not the sum of the charges",
            self._sums_fit(dataset, analysts, teams),
        )
        yield "a reservation was altered, added or removed", self._reservations_fit(dataset)
        yield "an interactive release was altered, added or removed", self._interactions_fit()

    def _rows(self, table: str) -> dict[str, Row]:
        rows = (dict(row) for row in self._connection.execute(f"SELECT * FROM {table}"))
        return {row["name"]: row for row in rows}

    def _one(self, sql: str, *values: object) -> Row | None:
        found = self._connection.execute(sql, values).fetchone()
        return None if found is None else dict(found)

    # ---- as it is told -----------------------------------------------------------------------------------------------

    def _reserve(self, detail: dict[str, Any]) -> None:
        number = detail["reservation"]
        row = self._one("SELECT * FROM reservation WHERE id = ?", number)
        columns = ("id", "analyst", "epsilon_nano", "delta_atto", "at")
        if row is None or number != self._reservations + 1:
            raise Damage("a reservation was added or removed")
        if chain.digest(*(row[c] for c in columns), *detail["held"], row["holder"]) != detail["digest"]:
            raise Damage(f"reservation {number} was altered")
        self._reservations, self._held[number] = number, list(detail["held"])

    def _unreserve(self, detail: dict[str, Any]) -> None:
        number = detail["reservation"]
        row = self._one("SELECT * FROM reservation WHERE id = ?", number)
        held = self._held.pop(number)
        said = [*held, detail["why"]]
        if row is None or [row["primary_held"], row["secondary_held"], row["ended"]] != said or not self._fits(row):
            raise Damage(f"reservation {number} was altered")

    def _step(self, detail: dict[str, Any]) -> None:
        charge, number = detail["charge"], detail["number"]
        count, stepped = self._stepped.get(charge, (0, None))
        found = self._connection.execute(
            "SELECT * FROM step WHERE charge = ? AND number = ?", (charge, number)
        ).fetchone()
        if number != count or found is None or chain.digest(*found) != detail["digest"]:
            raise Damage(f"the steps of charge {charge} were altered")
        self._stepped[charge] = (count + 1, chain.digest(stepped, detail["digest"]))
        if number == 0:  # told right after its charge, with whose holder it begins
            self._turns[charge] = (1, self._holder)

    # ---- at the end --------------------------------------------------------------------------------------------------

    def _months_fit(self, analysts: dict[str, Row], caps: dict[str, dict[str, Any]]) -> bool:
        return all(
            row[column] == caps.get(name, {}).get(column)
            for name, row in analysts.items()
            for column in chain.MONTH_COLUMNS
        )

    def _teams_fit(self, analysts: dict[str, Row], teams: dict[str, Row]) -> bool:
        stand = {name: {column: row[column] for column in self._teams.get(name, {})} for name, row in teams.items()}
        told = {name: json.dumps(members) for name, members in self._members.items()}
        members = {name: row["members"] for name, row in teams.items()}
        of = {name: sorted(team for team, inside in self._members.items() if name in inside) for name in analysts}
        joined = all(row["teams"] == json.dumps(of[name]) for name, row in analysts.items())
        sealed = all(fits(self._salt, "team", row) for row in teams.values())
        return sealed and joined and stand == self._teams and members == told

    def _sums_fit(self, dataset: Row, analysts: dict[str, Row], teams: dict[str, Row]) -> bool:
        rows = {("analyst", name): row for name, row in analysts.items()}
        rows |= {("team", name): row for name, row in teams.items()}
        same = all(
            [row[column] for column in _SPENT] == self._spent.get(key, _Spent()).listed() for key, row in rows.items()
        )
        return same and set(self._spent) <= set(rows) and dataset["month"] == self._month

    def _reservations_fit(self, dataset: Row) -> bool:
        count = self._connection.execute("SELECT count(*) FROM reservation").fetchone()[0]
        rows = [dict(row) for row in self._connection.execute("SELECT * FROM reservation WHERE ended IS NULL")]
        held = {row["id"]: [row["primary_held"], row["secondary_held"]] for row in rows}
        counted = (dataset["reservations"], dataset["reserved"]) == (count, len(rows)) and count == self._reservations
        return counted and held == self._held and all(self._fits(row) for row in rows)

    def _fits(self, row: Row) -> bool:
        return fits(self._salt, "reservation", row)

    def _interactions_fit(self) -> bool:
        rows = [dict(row) for row in self._connection.execute("SELECT * FROM interaction")]
        steps = self._connection.execute("SELECT count(*) FROM step").fetchone()[0]
        if {row["charge"] for row in rows} != set(self._turns) or steps != sum(n for n, _ in self._stepped.values()):
            return False
        return all(self._is_told(row) for row in rows)

    def _is_told(self, row: Row) -> bool:
        turn, holder = self._turns[row["charge"]]
        ended = self._ended.get(row["charge"])
        told = (turn, self._stepped[row["charge"]], ended)
        if (
            not fits(self._salt, "interaction", row)
            or (row["turn"], (row["steps"], row["stepped"]), row["ended"]) != told
        ):
            return False
        return row["holder"] == "" if ended is not None else holder is None or row["holder"] == holder

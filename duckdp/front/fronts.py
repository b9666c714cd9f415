"""The analysts' own instances of one data set: one each, made when it is first needed, ended with the data set."""

from __future__ import annotations

import threading

from duckdp.catalog.table import Table
from duckdp.desk.desk import Desk
from duckdp.front.front import Front
from duckdp.process.ending import take_all
from duckdp.process.forks import closed
from duckdp.vault.dataset import DataSet
from duckdp.vault.engine import WHAT


class Fronts:
    """One instance per analyst, never shared.

    Args:
        data: whose end ends them.
    """

    def __init__(self, data: DataSet) -> None:
        self._data = data
        self._made: dict[str, Front] = {}
        self._making = threading.RLock()
        data.life.faces.append(self)

    def of(self, analyst: str) -> Front:
        """The analyst's instance, made if there is none that works; whether they may ask is asked with each call.

        Raises:
            BudgetError: B102, B103, where it is made. LedgerError: B211, B212.
        """
        life = self._data.life
        life.require()
        with self._making:
            found = self._made.get(analyst)
            if found is None or found.ended:
                if found is not None:
                    found.close()
                desk = Desk(self._data, analyst)
                desk.require_grant()
                self._made[analyst] = found = Front(desk)
        if life.closing:  # perhaps after all others were closed
            found.close()
            raise closed(WHAT)
        return found

    def variable(self, analyst: str, name: str) -> str | None:
        """What the analyst has SET in their instance, if there is one."""
        found = self._made.get(analyst)
        return None if found is None else found.variable(name)

    def add_stub(self, table: Table) -> None:
        """Show a protected table's columns in all instances."""
        for front in list(self._made.values()):
            front.add_stub(table)

    def refuse(self) -> None:
        """Let nothing be asked of them any more."""
        for front in list(self._made.values()):
            front.refuse()

    def close(self) -> None:
        """Close them; again is harmless."""
        take_all(front.close for front in list(self._made.values()))
        self._made.clear()

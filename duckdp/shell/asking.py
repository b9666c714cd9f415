"""What a prompt wants of whoever answers: the owner's rehearsal in this process, or a server."""

from __future__ import annotations

from typing import Protocol

from duckdp.result import MOST_SHOWN, Result


class Asker(Protocol):
    """One analyst's statements, wherever they are answered.

    Attributes:
        name: of the analyst.
    """

    name: str

    @property
    def epsilon(self) -> str | None:
        """What a statement costs unless it says otherwise."""

    def set_epsilon(self, text: str) -> None:
        """Set what the statements that follow cost."""

    @property
    def delta(self) -> str:
        """The delta of statements over protected tables."""

    def set_delta(self, text: str) -> None:
        """Set what the statements that follow cost."""

    def left(self) -> str:
        """What is left to be spent, in words."""

    def tables(self) -> list[str]:
        """Names of the protected tables."""

    def columns(self) -> list[str]:
        """Names of the protected tables' columns."""

    def own(self) -> list[str]:
        """Names of the analyst's own tables and views."""

    def catalog(self) -> Result:
        """What is declared, a row a column, the table's name first."""

    def budget(self) -> Result:
        """What was granted, was spent and is left."""

    def ledger(self) -> Result:
        """The analyst's own charges, oldest first."""

    def summaries(self) -> Result:
        """Stored summaries and synthetic tables."""

    def explain(self, text: str) -> Result:
        """Plan, cost and expected error of a statement; free."""

    def run(self, text: str, *, most: int | None = MOST_SHOWN) -> Result:
        """Run one statement; Ctrl-C interrupts it."""

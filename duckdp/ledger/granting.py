"""The part of the ledger's interface that is about caps: analysts, teams, months, and what is left."""

from __future__ import annotations

from collections.abc import Sequence

from duckdp.ledger import budgets, standing
from duckdp.ledger.store import Store
from duckdp.ledger.types import AnalystState, Cap, LimitRow, Remaining, TeamState


class Granting:
    """Methods of ``Ledger``; each is one transaction."""

    _store: Store

    def analysts(self) -> list[AnalystState]:
        """All analysts that were ever granted something."""
        return self._store.read(lambda tx: standing.analysts(tx))

    def teams(self) -> list[TeamState]:
        """All teams, with their members."""
        return self._store.read(lambda tx: standing.teams(tx))

    def grant(
        self,
        analyst: str,
        *,
        epsilon_nano: int,
        delta_atto: int,
        month_epsilon_nano: int | None = None,
        month_delta_atto: int | None = None,
        raise_to: bool = False,
        reason: str | None = None,
    ) -> None:
        """Let an analyst spend up to a cap within the total; again with equal values is harmless.

        Args:
            analyst: their name.
            epsilon_nano: the cap, epsilon in 1e-9.
            delta_atto: the cap, delta in 1e-18.
            month_epsilon_nano: the most of it in a calendar month (UTC); None: no such limit.
            month_delta_atto: the same; all of delta where it is not given.
            raise_to: this may raise the cap or the month's part.
            reason: why, kept in the log; demanded with raise_to.

        Raises:
            ParameterError: P105 the name, P107 more than the data set's total, or a month more than the cap.
            BudgetError: B107 no total yet, B104 below what was spent, B105 raised, or granted again after a
                revocation, without raise_to and a reason.
        """
        cap = Cap(
            epsilon_nano=epsilon_nano,
            delta_atto=delta_atto,
            month_epsilon_nano=month_epsilon_nano,
            month_delta_atto=month_delta_atto,
        )
        self._store.write(lambda tx: budgets.grant(tx, analyst, cap, raise_to=raise_to, reason=reason))

    def set_team(
        self,
        team: str,
        cap: Cap,
        *,
        members: Sequence[str] | None = None,
        raise_to: bool = False,
        reason: str | None = None,
    ) -> None:
        """Give a team of analysts a cap of its own within the total; again with equal values is harmless.

        A charge counts in full against each team of which the analyst is a member when it is made, however many these
        are, and stays counted there.

        Args:
            team: its name.
            cap: for ever, and for a month if it has such a part.
            members: all of them; None: as before.
            raise_to: this may raise the cap.
            reason: kept in the log; demanded with raise_to, and when a member leaves.

        Raises:
            ParameterError: P105, P107. BudgetError: B102 a member without a grant, B104, B105, B107.
        """
        self._store.write(lambda tx: budgets.set_team(tx, team, cap, members, raise_to=raise_to, reason=reason))

    def revoke(self, analyst: str, reason: str) -> None:
        """Stop an analyst: nothing more is charged, and nothing stored is given out.

        Raises:
            BudgetError: B102, unknown analyst.
        """
        self._store.write(lambda tx: budgets.revoke(tx, analyst, reason))

    def remaining(self, analyst: str, within: int | None = None) -> Remaining:
        """What an analyst can still spend: what fits all limits, less what reservations hold.

        Args:
            analyst: who.
            within: a reservation of this process's; then what is left of it.

        Raises:
            BudgetError: B102, B107, B109.
        """
        return self._store.read(lambda tx: standing.remaining(tx, analyst, within))

    def limits(self, analyst: str, within: int | None = None) -> list[LimitRow]:
        """The limits that an analyst's charges must fit, beside the data set's total.

        Raises:
            BudgetError: B102, B107, B109.
        """
        return self._store.read(lambda tx: standing.limit_rows(tx, analyst, within))

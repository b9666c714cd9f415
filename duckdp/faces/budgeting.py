"""What the data owner says of budgets: the total, caps of analysts and teams, and stopping everything or someone."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import asdict

from duckdp.catalog.table import Table
from duckdp.core.types import AccountantKind, Loss, Neighbours, parse_choice, parse_delta, parse_epsilon
from duckdp.errors import CatalogError
from duckdp.ledger import Ledger
from duckdp.ledger.types import read_cap, read_members

_LOG = logging.getLogger("duckdp")  # on stderr, unless told otherwise


class Budgeting(ABC):
    """Methods of ``Curator`` that set budgets, and stop them."""

    ledger: Ledger

    @property
    @abstractmethod
    def tables(self) -> Mapping[str, Table]:
        """Declarations of the protected tables, by lower-case name."""

    def budget(
        self,
        *,
        epsilon: object,
        delta: object = 0,
        neighbours: str = "add_remove",
        accountant: str = "basic",
        raise_to: bool = False,
        reason: str | None = None,
    ) -> None:
        """Set what all analysts together may spend on this data set, for ever. Idempotent.

        Args:
            epsilon: the total.
            delta: the total; for Gaussian noise, keys without a domain, and the zcdp accountant.
            neighbours: "add_remove" or "replace" (unit = row; the number of rows is public).
            accountant: "basic" or "zcdp" (more queries for the same total; needs delta > 0).
            raise_to: allow a larger total than before.
            reason: for the log; needed with raise_to.

        Raises:
            BudgetError: B104, B105. CatalogError: C105, C109. ParameterError: P101, P102, P107.
        """
        relation, kind = (
            parse_choice(Neighbours, "neighbours", neighbours),
            parse_choice(AccountantKind, "accountant", accountant),
        )
        if relation is Neighbours.REPLACE and any(t.unit_key is not None for t in self.tables.values()):
            raise CatalogError(
                "C105", 'neighbours="replace" protects rows. Protect tables without unit_key, or say "add_remove".'
            )
        before, nano, atto = self.ledger.state(), parse_epsilon(epsilon, total=True), parse_delta(delta)
        self.ledger.set_budget(
            epsilon_nano=nano,
            delta_atto=atto,
            neighbours=relation,
            accountant=kind,
            raise_to=raise_to,
            reason=reason,
        )
        if nano < (before.epsilon_nano or 0) or atto < (before.delta_atto or 0):
            was = Loss(epsilon_nano=before.epsilon_nano or 0, delta_atto=before.delta_atto or 0)
            now = Loss(epsilon_nano=nano, delta_atto=atto)
            _LOG.warning("the total is lowered from %s to %s; raising it again needs raise_to and a reason", was, now)

    def grant(
        self,
        analyst: str,
        *,
        epsilon: object,
        delta: object = 0,
        per_month: object = None,
        per_month_delta: object = None,
        raise_to: bool = False,
        reason: str | None = None,
    ) -> None:
        """Let an analyst in, up to a cap within the total. Idempotent.

        Args:
            analyst: their name.
            epsilon: the cap, for ever.
            delta: the cap, for ever.
            per_month: the most of epsilon in a calendar month (UTC); by default all of it.
            per_month_delta: the same of delta.
            raise_to: allow a larger cap than before, or more in a month.
            reason: for the log; needed with raise_to.

        Raises:
            BudgetError: B104, B105, B107. ParameterError: P101, P102, P105, P107.
        """
        cap = read_cap(epsilon, delta, per_month, per_month_delta)
        self.ledger.grant(analyst, **asdict(cap), raise_to=raise_to, reason=reason)

    def team(
        self,
        name: str,
        *,
        epsilon: object,
        delta: object = 0,
        members: Iterable[str] | None = None,
        per_month: object = None,
        per_month_delta: object = None,
        raise_to: bool = False,
        reason: str | None = None,
    ) -> None:
        """Give some analysts a cap that they share, beside their own and within the total. Idempotent.

        What is charged to members while they are members is, all of it together, private to the team's cap. An analyst
        may be in several teams; a charge counts in full against each, and stays there when its analyst leaves.

        Args:
            name: of the team.
            epsilon: the cap, for ever.
            delta: the cap, for ever.
            members: all of them; by default those that it has.
            per_month: the most of epsilon in a calendar month (UTC); by default all of it.
            per_month_delta: the same of delta.
            raise_to: allow a larger cap than before, or more in a month.
            reason: for the log; needed with raise_to, and when a member leaves.

        Raises:
            BudgetError: B102, B104, B105, B107. ParameterError: P101, P102, P105, P107.
        """
        given = read_members(members)
        cap = read_cap(epsilon, delta, per_month, per_month_delta)
        self.ledger.set_team(name, cap, members=given, raise_to=raise_to, reason=reason)

    def end_interaction(self, charge: int, *, reason: str) -> None:
        """End a release that goes on question by question: it answers nothing new. Its charge stays spent."""
        self.ledger.end_interaction(charge, reason)

    def revoke(self, analyst: str, *, reason: str = "revoked by the owner") -> None:
        """Stop one analyst: no new charges until a new grant."""
        self.ledger.revoke(analyst, reason)

    def freeze(self, *, reason: str = "frozen by the owner") -> None:
        """Stop every analyst: no new charges until ``unfreeze``."""
        self.ledger.freeze(reason)

    def unfreeze(self, *, reason: str) -> None:
        """Let analysts be charged again after ``freeze``."""
        self.ledger.unfreeze(reason)

    def share(self, name: str, *, owner: str, to: str) -> None:
        """Let another analyst use a stored summary or synthetic table of ``owner``."""
        self.ledger.share(name, owner, to)

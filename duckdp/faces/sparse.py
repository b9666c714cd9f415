"""The dp functions that answer question after question, as Python methods of a session (``calls.py``)."""

from __future__ import annotations

from collections.abc import Sequence

from duckdp.arguments import checked_methods, checks_itself
from duckdp.faces.files import Files
from duckdp.result import Result


@checked_methods
class SparseCalls(Files):
    """Methods of ``Session``; each charges what its SQL function charges."""

    @checks_itself
    def above_threshold(
        self,
        table: str,
        candidates: Sequence[str],
        threshold: int,
        *,
        epsilon: object = None,
        hits: int = 1,
        values: bool = False,
        predicate: str | None = None,
        fresh: bool = False,
    ) -> Result:
        """Which predicates of a list, in its order, a threshold of units fulfil, up to a number of ``hits``.

        ``values`` gives a noisy count of each hit, for half of epsilon.
        """
        return self._ask("dp_above_threshold", locals())

    @checks_itself
    def explain_above_threshold(
        self,
        table: str,
        candidates: Sequence[str],
        threshold: int,
        *,
        epsilon: object = None,
        hits: int = 1,
        values: bool = False,
        predicate: str | None = None,
    ) -> Result:
        """What :meth:`above_threshold` would do and cost; free."""
        return self._ask("dp_explain_above_threshold", locals())

    @checks_itself
    def sparse_open(
        self,
        table: str,
        threshold: int,
        *,
        epsilon: object = None,
        hits: int = 1,
        values: bool = False,
        predicate: str | None = None,
        fresh: bool = False,
    ) -> Result:
        """Pay for a handle that answers any number of questions (:meth:`sparse_ask`), up to a number of ``hits``."""
        return self._ask("dp_sparse_open", locals())

    @checks_itself
    def explain_sparse_open(
        self,
        table: str,
        threshold: int,
        *,
        epsilon: object = None,
        hits: int = 1,
        values: bool = False,
        predicate: str | None = None,
    ) -> Result:
        """What :meth:`sparse_open` would give and cost; free."""
        return self._ask("dp_explain_sparse_open", locals())

    @checks_itself
    def sparse_ask(self, handle: int, predicate: str, *, threshold: int | None = None) -> Result:
        """Whether the units that fulfil a predicate reach the threshold of a handle; it paid for the answer."""
        return self._ask("dp_sparse_ask", locals())

    @checks_itself
    def pmw_open(
        self,
        table: str,
        columns: Sequence[str],
        *,
        epsilon: object = None,
        hits: int = 10,
        threshold: int | None = None,
        fresh: bool = False,
    ) -> Result:
        """Pay for a handle that answers any number of counts and sums over some columns (:meth:`pmw_answer`).

        ``hits`` answers are measured, where the weights are wrong; with the last it ends.
        """
        return self._ask("dp_pmw_open", locals())

    @checks_itself
    def explain_pmw_open(
        self,
        table: str,
        columns: Sequence[str],
        *,
        epsilon: object = None,
        hits: int = 10,
        threshold: int | None = None,
    ) -> Result:
        """What :meth:`pmw_open` would give and cost; free."""
        return self._ask("dp_explain_pmw_open", locals())

    @checks_itself
    def pmw_answer(self, handle: int, predicate: str) -> Result:
        """About how many units fulfil a predicate, by a handle's weights or measured; it paid for the answer.

        ``predicate`` may be a number of each row as well, from 0 to 1 for all values of the handle's columns: what all
        units come to in all, NULL as 0, of a unit with several rows the largest.
        """
        return self._ask("dp_pmw_answer", locals())

"""The dp functions that split units into blocks, as Python methods of a session (``calls.py``)."""

from __future__ import annotations

from typing import Literal

from duckdp.arguments import checked_methods, checks_itself
from duckdp.faces.files import Files
from duckdp.result import Result

Method = Literal["auto", "mean", "median", "center"]


@checked_methods
class BlockCalls(Files):
    """Methods of ``Session``; each charges what its SQL function charges."""

    @checks_itself
    def sample_aggregate(
        self,
        table: str,
        aggregate: str,
        *,
        epsilon: object = None,
        blocks: int | None = None,
        low: float | None = None,
        high: float | None = None,
        method: Method = "auto",
        predicate: str | None = None,
        fresh: bool = False,
    ) -> Result:
        """An aggregate of all rows, such as ``corr(x, y)``, from those of ``blocks`` of privacy units.

        Values of blocks are clamped to ``low`` .. ``high``, by default what follows from declarations, and combined by
        ``method``: "mean" (with an interval), "median" or "center"; "auto" chooses by public figures.
        """
        return self._ask("dp_sample_aggregate", locals())

    @checks_itself
    def explain_sample_aggregate(
        self,
        table: str,
        aggregate: str,
        *,
        epsilon: object = None,
        blocks: int | None = None,
        low: float | None = None,
        high: float | None = None,
        method: Method = "auto",
        predicate: str | None = None,
    ) -> Result:
        """What :meth:`sample_aggregate` would do and cost; free."""
        return self._ask("dp_explain_sample_aggregate", locals())

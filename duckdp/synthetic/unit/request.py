"""Public parameters of a release of sums over unit columns."""

from __future__ import annotations

from dataclasses import dataclass

from duckdp.catalog.table import check_positive
from duckdp.core.types import Neighbours
from duckdp.errors import ParameterError

MAX_ROWS = 20_000  # that are fitted: Gauss-Newton steps take a few matrices of rows x columns floats each
MAX_COLUMNS = 400  # unit columns: the sums of all their pairs are 80,000, streamed as 640 KB a row


@dataclass(frozen=True, kw_only=True)
class Request:
    """What a release of sums over unit columns is asked for; public.

    Attributes:
        columns: d, unit columns.
        expected_rows: public guess of the number of rows; it decides what is bought, never how private it is.
        epsilon_nano, delta_atto: the charge.
        neighbours: the relation.
        rows: m, synthetic rows.
        target: position of the label column, whose values are -1 and 1, or None.
        named: whether a user named it; False in stored releases of earlier versions alone, which took one unasked.
        signs: columns whose values are -1 and 1.
        groups: columns of which exactly one is 1 in every row, the others -1: the values of a domain.
        gaussian: the noise of its moments, where that was settled for more columns than these; of a tree's tables,
            where a stage's share of the charge settled it (``tree.spending.settled``); else None.
        counted: whether the values of domains may be counted by themselves; False in releases of earlier versions.
    """

    columns: int
    expected_rows: int
    epsilon_nano: int
    delta_atto: int = 0
    neighbours: Neighbours = Neighbours.ADD_REMOVE
    rows: int = 2000
    target: int | None = None
    named: bool = True
    signs: tuple[int, ...] = ()
    groups: tuple[tuple[int, ...], ...] = ()
    gaussian: bool | None = None
    counted: bool = False

    def __post_init__(self) -> None:
        check_positive("columns", self.columns, MAX_COLUMNS)
        check_positive("expected_rows", self.expected_rows, 2**62)
        check_positive("rows", self.rows, MAX_ROWS)
        if self.columns < 2:
            raise ParameterError("P107", "columns", self.columns, "must be at least 2.")
        if self.target is not None and not 0 <= self.target < self.columns:
            raise ParameterError("P107", "target", self.target, "must be the position of one of the columns.")

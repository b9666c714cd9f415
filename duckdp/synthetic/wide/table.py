"""What a wide synthesis takes and gives."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from duckdp.catalog import check_positive
from duckdp.core.types import Neighbours, parse_delta, parse_epsilon
from duckdp.errors import ParameterError
from duckdp.synthetic.wide.features import Floats
from duckdp.synthetic.wide.start import uniforms

MAX_ROWS = 20_000
MAX_COLUMNS = 400


@dataclass(frozen=True, kw_only=True)
class Request:
    """Public parameters of a wide synthetic table.

    Attributes:
        columns: d, unit columns.
        expected_rows: public guess of the number of rows; it decides what is bought, never how private it is.
        epsilon_nano, delta_atto: the charge.
        neighbours: the relation.
        rows: m, synthetic rows.
        target: position of the label column, whose values are -1 and 1, or None.
        named: whether a user named it; else it is the only column of two values, beside numbers.
        signs: columns whose values are -1 and 1.
        groups: columns of which exactly one is 1 in every row, the others -1: the values of a domain.
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

    def __post_init__(self) -> None:
        check_positive("columns", self.columns, MAX_COLUMNS)
        check_positive("expected_rows", self.expected_rows, 2**62)
        check_positive("rows", self.rows, MAX_ROWS)
        if self.columns < 2:
            raise ParameterError("P107", "columns", self.columns, "must be at least 2.")
        if self.target is not None and not 0 <= self.target < self.columns:
            raise ParameterError("P107", "target", self.target, "must be the position of one of the columns.")


def request(
    columns: int, *, expected_rows: int, epsilon: object, delta: object = 0,
    neighbours: Neighbours = Neighbours.ADD_REMOVE, rows: int = 2000, target: int | None = None,
    signs: tuple[int, ...] = (), groups: tuple[tuple[int, ...], ...] = (),
) -> Request:  # fmt: skip
    """A request from what users type.

    Raises:
        ParameterError: P101, P102, P107.
    """
    return Request(
        columns=columns, expected_rows=expected_rows, epsilon_nano=parse_epsilon(epsilon),
        delta_atto=parse_delta(delta), neighbours=neighbours, rows=rows, target=target,
        signs=signs, groups=groups,
    )  # fmt: skip


@dataclass(frozen=True, kw_only=True, eq=False)
class WideTable:
    """A synthetic table in unit columns: public.

    Attributes:
        unit: float[m, d] in [-1, 1]; a label column holds -1 and 1.
        misfit: root mean square distance of its moments from the wanted ones.
        bought: per stage, its name, the number of moments, and its share of the charge.
    """

    unit: Floats
    misfit: float
    bought: tuple[tuple[str, int, Fraction], ...]


def round_groups(unit: Floats, groups: list[list[int]]) -> Floats:
    """One-hot columns back to one 1 and otherwise -1 per group, by chances (1 + u) / 2 scaled to sum 1.

    Rows are visited in random order and choose with equispaced levels, so shares are kept to about a row.
    """
    found, rows = unit.copy(), len(unit)
    for group in groups:
        chances = np.maximum(1e-9, 1 + unit[:, group])
        cumulated = np.cumsum(chances / chances.sum(axis=1, keepdims=True), axis=1)
        levels = (np.argsort(uniforms(rows, 1)[:, 0]) + 0.5) / rows
        at = np.minimum((levels[:, None] > cumulated).sum(axis=1), len(group) - 1)
        found[:, group] = -1.0
        found[np.arange(rows), np.array(group)[at]] = 1.0
    return found


def round_signs(unit: Floats, columns: list[int]) -> Floats:
    """Columns of two values back to -1 and 1, each by one offset: m (1 + mean) / 2 of them are 1, to within one row."""
    found = unit.copy()
    offsets = uniforms(1, len(columns))[0] if columns else np.zeros(0)
    orders = np.argsort(uniforms(len(unit), len(columns)), axis=0) if columns else np.zeros((0, 0), dtype=np.intp)
    for k, column in enumerate(columns):
        chance = (1 + unit[orders[:, k], column]) / 2
        reached = np.floor(np.cumsum(chance) + offsets[k])
        up = np.diff(reached, prepend=np.floor(offsets[k])) > 0
        found[orders[:, k], column] = np.where(up, 1.0, -1.0)
    return found

"""Declared columns as unit columns, and back: what a wide synthetic table is made of.

    number, date   u in [-1, 1] by the bounds; 0 where it is NULL
    boolean        -1 and 1; 0 where it is NULL
    domain         one column per value, 1 for the row's value and -1 otherwise; NULL, and values outside a domain
                   that names no other, are a value of their own. Bounds beside it only clamp
    listed domain  for trees alone, where there would be too many columns: one, the value's place, in equal steps
    nullable       beside a number, date or boolean: 1 where it is NULL, -1 otherwise

Every row counts, whatever it holds, so that under REPLACE the number of rows stays public.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from duckdp.catalog.table import Column, Kind, Scalar
from duckdp.errors import ParameterError, QueryError
from duckdp.smooth.axes import MAX_VALUES, Axis, Floats, as_number, from_number, make_axis, values_inside
from duckdp.synthetic.unit.request import MAX_COLUMNS
from duckdp.synthetic.unit.structure import Structure
from duckdp.synthetic.unit.unit_rows import round_groups, round_signs

_RAKINGS = 50  # rounds of proportional fitting of rows to their margins
MAX_LISTED = 20_000  # values of all domains of a tree: each is a noisy count
_FEW = 3  # values of a domain that always has a column for each: a target's two, and NULL
_LEAST_SHARE = 0.02  # of rows that are not NULL, when values are scaled up by it
_NEAR_ENDS = 0.999  # means of values that are not NULL, at most
_MOST_DOUBLINGS = 6.0  # of the power that moves their values to their mean: 1/64 to 64,
_ROUNDED = 1e-13  # of a column's range: rounding errors of a value that is mapped to [-1, 1] and back
_HALVINGS = 40  # found to six times 2^-39 in so many steps


@dataclass(frozen=True, kw_only=True)
class Part:
    """One declared column's place among the unit columns.

    Attributes:
        column: the declared one.
        axis: its bounds, or its values.
        form: "number" (dates too), "sign" or "choice".
        values: of a choice, None standing for NULL.
        start: its first unit column.
        nullable: whether the next unit column says that it is NULL.
        listed: whether a choice is one unit column.
    """

    column: Column
    axis: Axis
    form: Literal["number", "sign", "choice"]
    values: tuple[Scalar, ...]
    start: int
    nullable: bool
    listed: bool = False

    @property
    def width(self) -> int:
        """How many unit columns it takes."""
        if self.listed:
            return 1
        return len(self.values) if self.form == "choice" else 1 + self.nullable

    @property
    def label(self) -> int | None:
        """The unit column that tells the values of a column of two values apart, else None."""
        if self.form == "choice":
            return self.start + 1 if len([v for v in self.values if v is not None]) == 2 else None
        whole = self.column.integral and self.axis.upper - self.axis.lower == 1 and not self.nullable
        return self.start if self.form == "sign" or whole else None

    def place(self, own: Floats) -> NDArray[np.int64]:
        """Places of the values of a choice, int[m], from its unit columns, float[m, width]."""
        if self.listed:
            return np.rint((own[:, 0] + 1) / 2 * (len(self.values) - 1)).astype(np.int64)
        return np.asarray(own.argmax(axis=1), dtype=np.int64)

    def unit(self, places: NDArray[np.int64]) -> Floats:
        """The inverse of :meth:`place`."""
        if self.listed:
            return np.asarray(2 * places / (len(self.values) - 1) - 1, dtype=np.float64)[:, None]
        found = np.full((len(places), self.width), -1.0)
        found[np.arange(len(places)), places] = 1.0
        return found


@dataclass(frozen=True, kw_only=True)
class UnitColumns:
    """All of them, in order.

    Attributes:
        parts: of the columns that are modelled.
        structure: what these have to do with the table's own columns; None where they are the same.
    """

    parts: tuple[Part, ...]
    structure: Structure | None = None

    @property
    def columns(self) -> tuple[Column, ...]:
        """The table's own columns, which rows are made of."""
        return tuple(p.column for p in self.parts) if self.structure is None else self.structure.columns

    @property
    def count(self) -> int:
        """How many unit columns there are, d."""
        return self.parts[-1].start + self.parts[-1].width

    @cached_property
    def names(self) -> list[str]:
        """The names of the unit columns in SQL."""
        return [f"u{i}" for i in range(self.count)]

    @property
    def numbers(self) -> list[int]:
        """Unit columns of numbers and dates."""
        return [p.start for p in self.parts if p.form == "number"]

    @property
    def nulls(self) -> dict[int, int]:
        """Unit column of a number -> the one that says it is NULL."""
        return {p.start: p.start + 1 for p in self.parts if p.form == "number" and p.nullable}

    @property
    def groups(self) -> tuple[tuple[int, ...], ...]:
        """Unit columns of each domain: one of them is 1 in every row."""
        return tuple(
            tuple(range(p.start, p.start + p.width)) for p in self.parts if p.form == "choice" and not p.listed
        )

    @property
    def signs(self) -> tuple[int, ...]:
        """Unit columns whose values are -1 and 1; not a boolean that may be NULL, which is 0 then."""
        found = [i for group in self.groups for i in group]
        found += [p.start for p in self.parts if p.form == "sign" and not p.nullable]
        return tuple(found + [p.start + 1 for p in self.parts if p.form != "choice" and p.nullable])

    def place_of(self, name: str) -> int:
        """Unit column of a column of two values, for a target: of a domain, that of its second value.

        Raises:
            ParameterError: P107, not one of the columns, or of more than two values.
        """
        for part in self.parts:
            if part.column.name.lower() == str(name).lower() and part.label is not None:
                return part.label
        raise ParameterError("P107", "target", name, "must be one of the columns, of two values.")

    def part_at(self, place: int) -> int:
        """Which declared column a unit column belongs to."""
        return next(i for i, p in enumerate(self.parts) if p.start <= place < p.start + p.width)

    def oppose(self, unit: Floats, target: int) -> None:
        """Make the first value of a target with a domain the opposite of its second, in place."""
        if any(p.form == "choice" and p.start + 1 == target for p in self.parts):
            unit[:, target - 1] = -unit[:, target]

    def decode(
        self, unit: Floats, *, rounded: bool = False, steps: Mapping[str, int] | None = None
    ) -> dict[str, NDArray[Any]]:
        """Rows in the columns' own types.

        Args:
            unit: float[m, d] in [-1, 1].
            rounded: whether categories, booleans and NULLs are -1 and 1 already, and numbers are values of rows that
                have one; else they are chances, and a NULL counted as 0 in its number.
            steps: of a column's range, that dates keep when they move to the weekday made for them.
        """
        if rounded:
            return self._restored({p.column.name: _values(p, unit, unit, scaled=False) for p in self.parts}, steps)
        groups = [list(group) for group in self.groups]
        unit = unit.copy()
        for group in groups:
            unit[:, group] = _raked(unit[:, group])
        signs = [p.start for p in self.parts if p.form == "sign"]
        signs += [p.start + 1 for p in self.parts if p.form != "choice" and p.nullable]
        whole = round_groups(round_signs(unit, signs), groups) if groups else round_signs(unit, signs)
        return self._restored({p.column.name: _values(p, unit, whole, scaled=True) for p in self.parts})

    def _restored(
        self, made: dict[str, NDArray[Any]], steps: Mapping[str, int] | None = None
    ) -> dict[str, NDArray[Any]]:
        return made if self.structure is None else self.structure.restore(made, steps)


def make_units(columns: Sequence[Column], *, tree: bool = False, structure: Structure | None = None) -> UnitColumns:
    """Unit columns of declared ones.

    Args:
        columns: declared, or those that a structure models.
        tree: whether large domains may be listed; they are if there would be too many unit columns otherwise.
        structure: which one, where there is one.

    Raises:
        QueryError: Q401, neither bounds nor a domain. ParameterError: P107, too many.
    """
    parts = _lay(columns, listed=False)
    if tree and _width(parts) > MAX_COLUMNS:
        parts = _lay(columns, listed=True)
        values = sum(len(p.values) for p in parts)
        if values > MAX_LISTED:
            rule = f"have domains of {values} values in all; a tree takes at most {MAX_LISTED}. Name fewer columns."
            raise ParameterError("P107", "columns", [c.name for c in columns][:50], rule)
    count = _width(parts)
    if not (1 if tree else 2) <= count <= MAX_COLUMNS:
        rule = f"make {count} unit columns (one per value of a domain); a synthetic table has 2 to {MAX_COLUMNS}."
        way = "" if tree else f", or take method := 'tree': {MAX_VALUES} values a domain, {MAX_LISTED} in all"
        rule = f"{rule} Name fewer{way}."
        raise ParameterError("P107", "columns", [c.name for c in columns][:50], rule)
    return UnitColumns(parts=parts, structure=structure)


def _lay(columns: Sequence[Column], *, listed: bool) -> tuple[Part, ...]:
    parts: list[Part] = []
    start = 0
    for column in columns:
        part = _part(column, start)
        parts.append(replace(part, listed=listed and len(part.values) > _FEW))
        start += parts[-1].width
    return tuple(parts)


def _width(parts: Sequence[Part]) -> int:
    return parts[-1].start + parts[-1].width


def _raked(unit: Floats) -> Floats:
    """A domain's unit columns so changed that chances sum to 1 in each row, and keep each value's share of all rows.

    Alternating scaling of rows and columns; without it, rows where several values are likely would take from the
    frequent ones.
    """
    chances = np.maximum(1e-6, (1 + unit) / 2)
    shares = chances.mean(axis=0)
    shares /= shares.sum()
    for _ in range(_RAKINGS):
        chances /= chances.sum(axis=1, keepdims=True)
        chances *= shares / chances.mean(axis=0)
    chances /= chances.sum(axis=1, keepdims=True)
    return np.asarray(2 * chances - 1)


def _part(column: Column, start: int) -> Part:
    if column.kind is Kind.BOOLEAN and column.domain is None:
        axis = make_axis(column, 2)
        return Part(column=column, axis=axis, form="sign", values=(), start=start, nullable=column.nullable)
    if column.domain is not None:
        axis = make_axis(replace(column, lower=None, upper=None, domain=_inside(column)), 2)
        assert axis.values is not None
        missing = None not in axis.values and (column.nullable or column.other is None)
        values = (*axis.values, *((None,) if missing else ()))
        return Part(column=column, axis=axis, form="choice", values=values, start=start, nullable=False)
    if column.lower is None or column.upper is None:
        raise QueryError(
            "Q401",
            f'column "{column.name}" has neither bounds nor a domain, so nothing about it can be released. The '
            "data owner declares them with protect(bounds=...) or protect(domains=...).",
        )
    axis = Axis(
        name=column.name,
        kind=column.kind,
        degree=2,
        lower=as_number(column.lower),
        upper=as_number(column.upper),
        integral=column.integral,
    )
    return Part(column=column, axis=axis, form="number", values=(), start=start, nullable=column.nullable)


def _inside(column: Column) -> tuple[Scalar, ...]:
    """The values of a domain that clamped rows may have: those within the bounds, if any are."""
    found = values_inside(column)
    return tuple(v for v in column.domain or () if v is None or v in found) if found else column.domain or ()


def _values(part: Part, unit: Floats, rounded: Floats, *, scaled: bool) -> NDArray[Any]:
    if part.form == "choice":
        own = rounded[:, part.start : part.start + part.width]
        chosen = part.place(own)
        known = np.empty(len(part.values), dtype=object)
        known[:] = part.values
        if None in part.values and not part.column.nullable:  # values outside the domain; the type has no NULL for them
            null = part.values.index(None)
            counts = np.bincount(chosen, minlength=len(known))
            counts[null] = -1
            chosen = np.where(chosen == null, counts.argmax(), chosen)
        return np.asarray(known[chosen])
    missing = rounded[:, part.start + 1] > 0 if part.nullable else np.zeros(len(unit), dtype=bool)
    if part.form == "sign":
        found: NDArray[Any] = (rounded[:, part.start] > 0).astype(object)
    else:
        own = _present(unit[:, part.start], missing) if scaled and missing.any() else unit[:, part.start]
        found = _numbers(part, np.clip(own, -1, 1))
    if not missing.any():
        return found
    found = found.astype(object)
    found[missing] = None
    return found


def _present(unit: Floats, missing: NDArray[np.bool_]) -> Floats:
    """A number's unit column over rows of which some have NULL, as values of those that have one: float[m].

    A NULL counted as 0 in the column, so the values of the others have the mean of all rows over their share. Made rows
    may have got their NULLs where u is 0 (pairs link the two), or anywhere, and then every u is too small. So they are
    scaled up by what the mean asks for, between nothing and the inverse share; what that leaves is made good by a power
    of (1 + u) / 2, which keeps values within bounds and their order.
    """
    share = max(_LEAST_SHARE, 1 - float(missing.mean()))
    mean = float(np.clip(unit.mean() / share, -_NEAR_ENDS, _NEAR_ENDS))
    own = unit[~missing]
    if not len(own):
        return unit
    factor = float(np.clip(mean / own.mean(), 1, 1 / share)) if own.mean() * mean > 0 else 1.0
    place = (1 + np.clip(unit * factor, -1, 1)) / 2
    low, high = -_MOST_DOUBLINGS, _MOST_DOUBLINGS  # of the power; the mean falls as it grows
    for _ in range(_HALVINGS):
        power = (low + high) / 2
        if 2 * float((place[~missing] ** 2**power).mean()) - 1 > mean:
            low = power
        else:
            high = power
    return np.asarray(2 * place**2 ** ((low + high) / 2) - 1)


def piles(column: Column) -> list[float]:
    """Values that rows of a number may pile up at: its bounds, 0, and what NULL is read as; none of dates."""
    if column.kind is not Kind.NUMBER or column.lower is None or column.upper is None:
        return []
    lower, upper = as_number(column.lower), as_number(column.upper)
    inside = [0.0] if column.null_value is None else [0.0, as_number(column.null_value)]
    return sorted({lower, upper, *(v for v in inside if lower < v < upper)})


def _numbers(part: Part, unit: Floats) -> NDArray[Any]:
    column, x = part.column, part.axis.from_unit(unit)
    for value in piles(column) if not column.integral else []:  # what rounding moved a little
        x = np.where(np.abs(x - value) <= _ROUNDED * (part.axis.upper - part.axis.lower), value, x)
    if column.kind in (Kind.DATE, Kind.TIMESTAMP):
        made = np.empty(len(x), dtype=object)
        made[:] = [from_number(v, column.kind) for v in x.tolist()]
        return made
    if column.integral:
        whole = np.rint(x)
        return whole.astype(np.int64) if np.abs(whole).max(initial=0) < 2**62 else whole.astype(object)
    decimal = re.fullmatch(r"DECIMAL\(\d+,\s*(\d+)\)", column.type.upper())
    return np.asarray(np.clip(np.round(x, int(decimal[1])), part.axis.lower, part.axis.upper) if decimal else x)

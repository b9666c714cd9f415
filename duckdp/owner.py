"""For the data owner alone: exact figures of the real table, by itself or beside those of a synthetic one.

Privacy: NONE. Everything this module gives is computed from the real rows without noise; releasing any of it, or
choosing by it what to release, breaks the guarantee. Nothing else in duckdp imports it, and neither a session nor SQL
leads to it: who calls it holds the curator, and with it the data.

Real rows are read as every private query reads them (declared columns, clamped, NULL rule applied; a unit's rows all
count; values outside a domain stand under its label for others). Per column::

    total variation   half the l1 distance of the shares of values, or of 20 equal bins and NULL, dimensionless
    correlation gap   |corr_real - corr_synthetic| of two columns' codes: numbers and dates themselves (NULL as the
                      mean), otherwise one indicator per value; a constant has correlation 0
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from duckdp.arguments import checked
from duckdp.catalog.table import Column, Kind, Table
from duckdp.compiler.printing import UNIT, Parameters, print_rows, quote
from duckdp.errors import CatalogError, ParameterError
from duckdp.ledger.looks import note_look
from duckdp.result import columns_as_lists, plain_result
from duckdp.smooth.axes import Floats, as_number
from duckdp.synthetic.report import html_page as page

if TYPE_CHECKING:
    from duckdp.curator import Curator

WARNING = "NOT PRIVATE: exact figures of the real table; must not be released"
LEVELS = (0.05, 0.25, 0.5, 0.75, 0.95)  # of the quantiles that are compared
MOST_CODED = 20  # indicators per column
NAMES = ("column", "figure", "real", "synthetic")
VOID = "Bounds, domains, max_rows or max_groups read off the data void the guarantee; dp_bounds finds them privately"
# Of the quantiles that are shown, least and largest value included.
PROFILE_LEVELS = (0, 0.001, 0.01, 0.05, 0.5, 0.95, 0.99, 0.999, 1)
UNIT_LEVELS, PROFILE_MOST = (0.5, 0.9, 0.99, 1), (1, 2, 5, 10, 20, 50, 100)
# Headings of the profile of columns.
COLUMN_FIGURES = ("column", "type", "NULL", "distinct", "least", *(f"{q:.1%}" for q in PROFILE_LEVELS[1:-1]), "most")
UNIT_FIGURES = ("per unit", "50%", "90%", "99%", "most", *(f"beyond {most}" for most in PROFILE_MOST))


@dataclass(frozen=True, kw_only=True, repr=False)
class Distribution:
    """One column of one table.

    Attributes:
        missing: share of NULLs.
        mean, deviation: of numbers and dates (days or microseconds since 1970), else None.
        quantiles: at LEVELS, in the same units; empty where there is no mean.
    """

    missing: float
    mean: float | None
    deviation: float | None
    quantiles: tuple[float, ...]


@dataclass(frozen=True, kw_only=True, repr=False)
class ColumnComparison:
    """One column of both tables; ``shares`` are those of the bars ``labels``, of the same bins in both."""

    column: str
    kind: Kind
    real: Distribution
    synthetic: Distribution
    total_variation: float
    labels: tuple[str, ...]
    real_shares: tuple[float, ...]
    synthetic_shares: tuple[float, ...]

    def figures(self) -> list[tuple[str, str, str]]:
        """Each figure as (its name, of the real rows, of the synthetic ones), as text."""
        a, b = self.real, self.synthetic
        found = [("NULL", page.show_number(a.missing), page.show_number(b.missing))]
        if a.mean is not None and b.mean is not None:
            found.insert(0, ("mean", page.show_place(a.mean, self.kind), page.show_place(b.mean, self.kind)))
            found.insert(1, ("standard deviation", _shown(a.deviation), _shown(b.deviation)))
            for level, x, y in zip(LEVELS, a.quantiles, b.quantiles, strict=True):
                found.append((f"quantile {level}", page.show_place(x, self.kind), page.show_place(y, self.kind)))
        return [*found, ("total variation", "", page.show_number(self.total_variation))]


@dataclass(frozen=True, kw_only=True, repr=False)
class Comparison:
    """NOT PRIVATE: exact figures of the real table; must not be released.

    Attributes:
        table: its name.
        real_rows, synthetic_rows: numbers of rows.
        columns: those that both tables have.
        worst_pair: (column, column, correlation gap), or None with one column.
    """

    table: str
    real_rows: int
    synthetic_rows: int
    columns: tuple[ColumnComparison, ...]
    worst_pair: tuple[str, str, float] | None

    @cached_property
    def text(self) -> str:
        """Aligned plain text; the first line is the warning."""
        blocks = ["\n".join(page.printable(line) for line in (WARNING, self._title(), *self._pair()))]
        for c in self.columns:
            blocks.append(str(plain_result(NAMES, [(c.column, *figures) for figures in c.figures()])))
        return "\n\n".join(blocks) + "\n"

    @cached_property
    def html(self) -> str:
        """One self-contained page; the first line carries the warning, and so does its first paragraph."""
        body = [page.paragraph(WARNING, mark=True), *(page.paragraph(line) for line in self._pair())]
        for c in self.columns:
            series = [("real", c.real_shares), ("synthetic", c.synthetic_shares)]
            body += [page.heading(c.column), page.table(NAMES[1:], c.figures()), page.bars(c.labels, series)]
        return page.page(self._title(), body, first=WARNING)

    def __str__(self) -> str:
        return self.text

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return self.html

    def _title(self) -> str:
        return f"{self.table}: {self.real_rows:,} real rows, {self.synthetic_rows:,} synthetic rows"

    def _pair(self) -> list[str]:
        if self.worst_pair is None:
            return []
        a, b, gap = self.worst_pair
        return [f"Worst pair: the correlation of {a} and {b} differs by {gap:.4g}."]


@dataclass(frozen=True, kw_only=True, repr=False)
class Profile:
    """NOT PRIVATE: exact figures of the real table, unclamped; must not be released, nor declared.

    Attributes:
        table: its name.
        rows: its rows that have a unit, if it has a unit_key.
        columns: rows of COLUMN_FIGURES, one per visible column.
        units: rows of UNIT_FIGURES: of rows per unit, and of groups per unit by each column that is listed or text.
    """

    table: str
    rows: int
    columns: tuple[tuple[Any, ...], ...]
    units: tuple[tuple[Any, ...], ...]

    @cached_property
    def text(self) -> str:
        """Aligned plain text; the first line is the warning, the second what follows from it."""
        blocks = ["\n".join([WARNING, VOID, page.printable(f"{self.table}: {self.rows:,} rows")])]
        blocks.append(str(plain_result(COLUMN_FIGURES, self.columns)))
        if self.units:
            blocks.append(str(plain_result(UNIT_FIGURES, self.units)))
        return "\n\n".join(blocks) + "\n"

    def __str__(self) -> str:
        return self.text

    __repr__ = __str__


@checked
def profile(curator: Curator, table: str, *, exact: bool = False) -> Profile:
    """Exact figures of a protected table. NOT PRIVATE: for the owner's eyes; bounds read off them void the guarantee.

    The look is noted in the ledger before a row is read. Quantiles are of the values as they are, not clamped.

    Args:
        curator: who holds the data.
        table: name of the protected table.
        exact: must be said: the private way is ``bounds``, ``rows_per_unit`` and ``groups_per_unit`` of a session.

    Raises:
        CatalogError: C101, unknown table; C104, the source changed. ParameterError: P107, without ``exact=True``.
    """
    declared = curator.table(table)
    if exact is not True:
        rule = (
            "must be True: these figures are NOT PRIVATE. The private way, charged to a grant of your own: "
            'curator.session("you").bounds(table, column, epsilon=...), rows_per_unit, groups_per_unit.'
        )
        raise ParameterError("P107", "exact", exact, rule)
    curator.data.require_current()
    note_look(curator.ledger, declared.name, [c.name for c in declared.columns])
    cursor = curator.engine.owners_cursor()
    try:
        count, columns = 0, []
        for column in declared.columns:
            raw = replace(column, lower=None, upper=None, null_value=None)
            count, figures = _profile_column(cursor, declared, raw)
            columns.append(figures)
        units = []
        if declared.unit_key is not None:
            listed = [c for c in declared.columns if _listed(c)]
            units = [_per_unit(cursor, declared, column) for column in (None, *listed)]
    finally:
        cursor.close()
    return Profile(table=declared.name, rows=count, columns=tuple(columns), units=tuple(units))


def _profile_column(cursor: Any, table: Table, column: Column) -> tuple[int, tuple[Any, ...]]:
    parameters = Parameters()
    rows, x = print_rows(table, (column,), parameters, unit=False), f"r.{quote(column.name)}"
    ordered = column.kind not in (Kind.TEXT, Kind.BOOLEAN)
    levels = ", ".join(map(str, PROFILE_LEVELS))
    quantiles = f"quantile_disc({x}, [{levels}])" if ordered else "NULL"
    sql = f"SELECT count(*), count({x}), count(DISTINCT {x}), {quantiles} FROM {rows} AS r"
    count, known, distinct, found = cursor.execute(sql, parameters.values).fetchone()
    shown = [page.printable(v) for v in found] if found is not None else [None] * len(PROFILE_LEVELS)
    missing = page.show_number(1 - known / count) if count else None
    return count, (column.name, column.type, missing, distinct, *shown)


def _per_unit(cursor: Any, table: Table, column: Column | None) -> tuple[Any, ...]:
    """Rows, or values of a column, per unit; and the share of them beyond each of PROFILE_MOST."""
    parameters = Parameters()
    rows = print_rows(table, () if column is None else (column,), parameters, unit=True)
    what = "count(*)" if column is None else f"count(DISTINCT r.{quote(column.name)})"
    lost = ", ".join(f"sum(greatest(u.c - {most}, 0)) / sum(u.c)" for most in PROFILE_MOST)
    counted = f"(SELECT {what} AS c FROM {rows} AS r GROUP BY r.{UNIT})"
    levels = ", ".join(map(str, UNIT_LEVELS))
    sql = f"SELECT quantile_disc(u.c, [{levels}]), {lost} FROM {counted} AS u"
    quantiles, *shares = cursor.execute(sql, parameters.values).fetchone()
    name = "rows" if column is None else f"groups by {column.name}"
    return (name, *(quantiles or [None] * len(UNIT_LEVELS)), *(None if s is None else round(s, 6) for s in shares))


@checked
def compare(curator: Curator, table: str, synthetic: object) -> Comparison:
    """Compare a synthetic table with the real one. NOT PRIVATE: for the owner's eyes, never to be released.

    Args:
        curator: who holds the data.
        table: name of the protected table.
        synthetic: a Result, an Arrow table, or values by column name; its columns must be declared.

    Raises:
        CatalogError: C101, unknown table; C102, a column that is not declared; C104, the source changed.
        ParameterError: P107, no table, no columns or no rows.
    """
    declared = curator.table(table)
    curator.data.require_current()
    made = columns_as_lists(synthetic, "synthetic")
    columns = []
    for name in made:
        column = declared.column(name)
        if column is None:
            raise CatalogError("C102", f'column "{name[:63]}" is not declared for "{table}".', table=table, column=name)
        columns.append(column)
    parameters = Parameters()
    rows = print_rows(declared, tuple(columns), parameters, unit=False)
    cursor = curator.engine.owners_cursor()
    try:
        found = cursor.execute(f"SELECT r.* FROM {rows} AS r", parameters.values).fetchall()
    finally:
        cursor.close()
    if not found:
        raise ParameterError("P107", "table", table, "must have rows to compare with.")
    real = {c.name: _mapped(c, list(v)) for c, v in zip(columns, zip(*found, strict=True), strict=True)}
    return Comparison(
        table=declared.name,
        real_rows=len(found),
        synthetic_rows=len(next(iter(made.values()))),
        columns=tuple(_compare(c, real[n], made[n]) for n, c in zip(made, columns, strict=True)),
        worst_pair=_worst_pair(columns, list(real.values()), list(made.values())),
    )


def _mapped(column: Column, values: list[Any]) -> list[Any]:
    """Values outside a domain under its label for them, as releases have them."""
    if column.domain is None or column.other is None:
        return values
    known = {*column.domain, None}  # NULL stays NULL: releases count it apart, or leave the row out
    return [v if v in known else column.other for v in values]


def _compare(column: Column, real: list[Any], made: list[Any]) -> ColumnComparison:
    if _listed(column):
        labels, p, q = _share_values(real, made)
    else:
        labels, p, q = _share_bins(column, real, made)
    return ColumnComparison(
        column=column.name,
        kind=column.kind,
        real=_distribution(column, real),
        synthetic=_distribution(column, made),
        total_variation=float(np.abs(p - q).sum() / 2),
        labels=labels,
        real_shares=tuple(p.tolist()),
        synthetic_shares=tuple(q.tolist()),
    )


def _listed(column: Column) -> bool:
    return column.domain is not None or column.kind in (Kind.TEXT, Kind.BOOLEAN)


def _numbers(column: Column, values: list[Any]) -> Floats:
    """Numbers, days or microseconds; NaN for NULL."""
    dates = column.kind in (Kind.DATE, Kind.TIMESTAMP)
    try:
        return np.array([math.nan if v is None else as_number(v) if dates else float(v) for v in values])
    except (TypeError, ValueError, OverflowError, AttributeError):
        raise ParameterError("P107", "synthetic", column.name, f"must hold values of {column.type}.") from None


def _distribution(column: Column, values: list[Any]) -> Distribution:
    missing = sum(v is None for v in values) / len(values)
    if column.kind in (Kind.TEXT, Kind.BOOLEAN) or missing == 1:
        return Distribution(missing=missing, mean=None, deviation=None, quantiles=())
    x = _numbers(column, [v for v in values if v is not None])
    quantiles = tuple(np.quantile(x, LEVELS).tolist())
    return Distribution(missing=missing, mean=float(x.mean()), deviation=float(x.std()), quantiles=quantiles)


def _share_values(real: list[Any], made: list[Any]) -> tuple[tuple[str, ...], Floats, Floats]:
    a, b = Counter(real), Counter(made)
    values = list((a + b).keys())
    p = np.array([a[v] / len(real) for v in values])
    q = np.array([b[v] / len(made) for v in values])
    return tuple(page.printable(v) for v in values), p, q


def _share_bins(column: Column, real: list[Any], made: list[Any]) -> tuple[tuple[str, ...], Floats, Floats]:
    """Shares of equal bins between the bounds, or the extremes where there are none, and of NULL."""
    x, y = _numbers(column, real), _numbers(column, made)
    known = np.concatenate([x, y])
    known = known[~np.isnan(known)]
    if column.lower is not None and column.upper is not None:
        lower, upper = as_number(column.lower), as_number(column.upper)
    else:
        lower, upper = float(known.min(initial=0.0)), float(known.max(initial=0.0))
    edges = page.bin_edges(lower, upper)
    shares = []
    for values in (x, y):
        kept = np.clip(values[~np.isnan(values)], edges[0], edges[-1])
        counts = np.append(np.histogram(kept, bins=edges)[0], len(values) - len(kept))
        shares.append(np.asarray(counts / len(values), dtype=np.float64))
    ends = [page.show_place(e, column.kind) for e in edges.tolist()]
    labels = [f"{ends[i]} to {ends[i + 1]}" for i in range(len(ends) - 1)]
    return (*labels, "NULL"), shares[0], shares[1]


def _worst_pair(
    columns: Sequence[Column], real: list[list[Any]], made: list[list[Any]]
) -> tuple[str, str, float] | None:
    """The two columns whose correlations differ most."""
    owners: list[int] = []
    coded: tuple[list[Floats], list[Floats]] = ([], [])
    for i, column in enumerate(columns):
        codes = _codes(column, real[i], made[i])
        owners += [i] * len(codes)
        for a, b in codes:
            coded[0].append(a)
            coded[1].append(b)
    gaps = np.abs(_correlations(coded[0]) - _correlations(coded[1]))
    own = np.array(owners)
    gaps[own[:, None] == own[None, :]] = -1.0
    if gaps.max() < 0:
        return None
    first, second = divmod(int(np.argmax(gaps)), len(owners))
    return columns[owners[first]].name, columns[owners[second]].name, float(gaps[first, second])


def _codes(column: Column, real: list[Any], made: list[Any]) -> list[tuple[Floats, Floats]]:
    if not _listed(column):
        return [(_filled(_numbers(column, real)), _filled(_numbers(column, made)))]
    chosen = [v for v, _ in Counter([*real, *made]).most_common(MOST_CODED)]
    return [(np.array([float(v == c) for v in real]), np.array([float(v == c) for v in made])) for c in chosen]


def _filled(x: Floats) -> Floats:
    known = x[~np.isnan(x)]
    return np.where(np.isnan(x), known.mean() if len(known) else 0.0, x)


def _correlations(columns: list[Floats]) -> Floats:
    """float[k, k]; 0 where a column is constant."""
    x = np.stack(columns)
    x = x - x.mean(axis=1, keepdims=True)
    norms = np.linalg.norm(x, axis=1)
    x = x / np.where(norms > 1e-9 * np.sqrt(x.shape[1]), norms, np.inf)[:, None]
    return np.asarray(x @ x.T)


def _shown(value: float | None) -> str:
    return "" if value is None else page.show_number(value)

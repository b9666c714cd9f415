"""Tables for the comparison with peers: declared columns, rows in DuckDB, and the same rows as units and as codes."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import duckdb
import numpy as np
from numpy.typing import NDArray

from duckdp.bench.declared_columns import declared
from duckdp.bench.tables_data import read_columns
from duckdp.catalog.table import Table
from duckdp.synthetic.unit.features import Floats

BINS = 10  # per numeric column, where errors of two-way tables are measured
_ADULT_BOUNDS: dict[str, tuple[float, float]] = {
    "age": (0, 100),
    "education_num": (1, 16),
    "capital_gain": (0, 100_000),
    "capital_loss": (0, 5000),
    "hours_per_week": (0, 100),
}
_ADULT_CHOICES = ("workclass", "marital_status", "occupation", "relationship", "race", "sex", "native_country")
Values = NDArray[np.generic]


@dataclass(frozen=True, kw_only=True, eq=False)
class Case:
    """One data set of the comparison, with its declarations.

    Attributes:
        numbers: name -> (DuckDB type, lower, upper, values float[n]).
        choices: name -> (domain, values object[n], None for NULL).
        label: name of the label, BOOLEAN.
        truth: bool[n], its values.
    """

    numbers: dict[str, tuple[str, float, float, Floats]]
    choices: dict[str, tuple[tuple[str, ...], NDArray[np.object_]]]
    label: str
    truth: NDArray[np.bool_]

    @property
    def rows(self) -> int:
        """How many rows the whole set has."""
        return len(self.truth)

    @property
    def sizes(self) -> list[int]:
        """Codes per binned column: numbers, choices (NULL a code of its own where the set has it), label."""
        return [BINS] * len(self.numbers) + [len(v) for v in self._listed] + [2]

    @property
    def _listed(self) -> list[list[str | None]]:
        return [[*d, *([None] if any(v is None for v in x) else [])] for d, x in self.choices.values()]

    @cached_property
    def unit(self) -> Floats:
        """All rows as unit rows, float[n, d], the label last."""
        raw: dict[str, Values] = {name: x for name, (_, _, _, x) in self.numbers.items()}
        raw |= {name: x for name, (_, x) in self.choices.items()}
        return self.to_unit(raw | {self.label: self.truth})

    def to_unit(self, columns: dict[str, NDArray[np.generic]]) -> Floats:
        """Columns by name as unit rows."""
        found = [
            2 * (np.asarray(columns[n], dtype=np.float64) - low) / (high - low) - 1
            for n, (_, low, high, _) in self.numbers.items()
        ]
        for name, listed in zip(self.choices, self._listed, strict=True):
            place = {v: i for i, v in enumerate(listed)}
            codes = np.array([place.get(v, 0) for v in columns[name].tolist()])  # NULL where the set has none
            found += [np.where(codes == i, 1.0, -1.0) for i in range(len(listed))]
        found.append(np.where(np.asarray(columns[self.label], dtype=bool), 1.0, -1.0))
        return np.column_stack(found)

    @property
    def _groups(self) -> list[list[int]]:
        start, groups = len(self.numbers), []
        for listed in self._listed:
            groups.append(list(range(start, start + len(listed))))
            start += len(listed)
        return groups

    def encode(self, unit: Floats) -> NDArray[np.int64]:
        """Rows as codes: int[m, columns]."""
        places = (unit[:, : len(self.numbers)] + 1) / 2 * BINS
        numbers = np.clip(np.floor(places + 1e-9).astype(np.int64), 0, BINS - 1)
        groups = [np.argmax(unit[:, g], axis=1) for g in self._groups]
        return np.column_stack([numbers, *groups, unit[:, -1] > 0]).astype(np.int64)

    def decode(self, codes: NDArray[np.int64]) -> Floats:
        """The inverse, numbers at the middle of their bin."""
        unit, count = np.full((len(codes), self.unit.shape[1]), -1.0), len(self.numbers)
        unit[:, :count] = (codes[:, :count] + 0.5) / BINS * 2 - 1
        for k, group in enumerate(self._groups):
            unit[np.arange(len(codes)), np.array(group)[codes[:, count + k]]] = 1.0
        unit[:, -1] = np.where(codes[:, -1] > 0, 1.0, -1.0)
        return unit

    def table(self, rows: int) -> Table:
        """The declaration that an owner would make."""
        columns = [declared(n, t, lower=low, upper=high) for n, (t, low, high, _) in self.numbers.items()]
        for (name, (domain, _)), listed in zip(self.choices.items(), self._listed, strict=True):
            columns.append(declared(name, "VARCHAR", domain=domain, nullable=None in listed))
        columns.append(declared(self.label, "BOOLEAN"))
        return Table(
            name="t", relation=("memory", "main", "t"), columns=tuple(columns), row_cap=10 * rows, expected_rows=rows
        )

    def store(self, con: duckdb.DuckDBPyConnection, chosen: NDArray[np.intp]) -> None:
        """Create the table ``t`` of the chosen rows."""
        frame: dict[str, Values] = {n: x[chosen] for n, (_, _, _, x) in self.numbers.items()}
        frame |= {n: x[chosen] for n, (_, x) in self.choices.items()}
        con.register("frame", frame | {self.label: self.truth[chosen]})
        items = ", ".join(f'"{c.name}"::{c.type} AS "{c.name}"' for c in self.table(1).columns)
        con.execute(f"CREATE TABLE t AS SELECT {items} FROM frame")
        con.unregister("frame")


def ctg(folder: Path) -> Case:
    """CTG: numbers with their smallest and largest values as bounds (DR_count has one value: left out), NSP > 1."""
    raw = read_columns("ctg", folder)
    numbers = {}
    for name, values in raw.items():
        x = np.asarray(values, dtype=np.float64)
        if name != "NSP" and x.min() < x.max():
            whole = np.issubdtype(values.dtype, np.integer)
            numbers[name] = ("INTEGER" if whole else "DOUBLE", float(x.min()), float(x.max()), x)
    return Case(numbers=numbers, choices={}, label="sick", truth=np.asarray(raw["NSP"], dtype=np.float64) > 1)


def adult(folder: Path) -> Case:
    """Adult without fnlwgt and education (education_num says it)."""
    raw = read_columns("adult", folder)
    numbers = {
        n: ("INTEGER", low, high, np.clip(np.asarray(raw[n], dtype=np.float64), low, high))
        for n, (low, high) in _ADULT_BOUNDS.items()
    }
    return Case(
        numbers=numbers,
        choices={n: _choice(raw[n]) for n in _ADULT_CHOICES},
        label="rich",
        truth=np.array([v == ">50K" for v in raw["income"].tolist()]),
    )


def nursery(folder: Path) -> Case:
    """Nursery: eight categories; the label is spec_prior."""
    raw = read_columns("nursery", folder)
    return Case(
        numbers={},
        choices={n: _choice(v) for n, v in raw.items() if n != "class"},
        label="special",
        truth=np.array([v == "spec_prior" for v in raw["class"].tolist()]),
    )


def _choice(values: NDArray[np.generic]) -> tuple[tuple[str, ...], NDArray[np.object_]]:
    masked = np.ma.getmaskarray(np.ma.asarray(values))
    found = np.empty(len(values), dtype=object)
    found[:] = [None if m or v is None else str(v) for v, m in zip(np.ma.getdata(values).tolist(), masked, strict=True)]
    return tuple(sorted({v for v in found.tolist() if v is not None})), found

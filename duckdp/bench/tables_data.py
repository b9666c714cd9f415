"""The data sets of the experiments as rows in [-1, 1]^d.

Numbers are mapped by their minimum and maximum (the paper's way, which looks at the data), NOM's by their published
[0, 1]; categories of NUR become indicators -1 and 1, those of NOM the numbers m, n, s = -1, 0, 1; NUR's class is one
number more. NOM is a fixed sample of 20,643 of the set's rows: every one whose place, times the golden ratio, has the
smallest fractional parts (the paper's own cut is not known).
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import duckdb
import numpy as np
from numpy.typing import NDArray

from duckdp.synthetic.unit.features import Floats

DATA = Path(__file__).resolve().parents[3] / "shared" / "data"
NOM_ROWS = 20_643  # of the set NOM in the paper
_CLASSES = {"not_recom": 0.0, "very_recom": 1.0, "priority": 2.0, "spec_prior": 3.0}
_LETTERS = {"m": 0.0, "n": 0.5, "s": 1.0}
_COPIES = ("countryname_including", "geocodercountrynamecode_including")


@dataclass(frozen=True, kw_only=True, eq=False)
class Data:
    """One of the paper's data sets, on unit columns.

    Attributes:
        name: the paper's.
        unit: float[n, d].
        columns: d names.
        label: float[n] of -1 and 1, or None.
        without: columns that a classifier may not see, since they are the label in another form.
    """

    name: str
    unit: Floats
    columns: tuple[str, ...]
    label: Floats | None = None
    without: tuple[str, ...] = ()

    @property
    def groups(self) -> tuple[tuple[int, ...], ...]:
        """Places of the indicators "name=value" of each category, among the columns a classifier may see too."""
        found: dict[str, list[int]] = {}
        for i, name in enumerate(self.columns):
            if "=" in name:
                found.setdefault(name.split("=")[0], []).append(i)
        return tuple(map(tuple, found.values()))

    def features_and_label(self) -> Floats:
        """Columns a classifier may see, and the label as the last one: float[n, d']."""
        assert self.label is not None
        kept = [i for i, name in enumerate(self.columns) if name not in self.without]
        return np.column_stack([self.unit[:, kept], self.label])


def load(name: str, folder: Path = DATA) -> Data:
    """CTG, NUR, NOM or WDBC."""
    return {"CTG": _ctg, "NUR": _nur, "NOM": _nom, "WDBC": _wdbc}[name](folder)


def read_columns(name: str, folder: Path) -> dict[str, NDArray[np.generic]]:
    """The columns of a Parquet file."""
    with duckdb.connect() as con:
        found: dict[str, NDArray[np.generic]] = con.execute(
            "SELECT * FROM read_parquet(?)", [str(folder / f"{name}.parquet")]
        ).fetchnumpy()
    return found


def _between(x: NDArray[np.generic]) -> Floats:
    values = np.asarray(x, dtype=np.float64)
    low, high = values.min(), values.max()
    return np.zeros(len(values)) if low == high else 2 * (values - low) / (high - low) - 1


def _ctg(folder: Path) -> Data:
    raw = read_columns("ctg", folder)
    label = np.where(np.asarray(raw["NSP"], dtype=np.float64) > 1, 1.0, -1.0)
    unit = np.column_stack([_between(v) for v in raw.values()])
    return Data(name="CTG", unit=unit, columns=tuple(raw), label=label, without=("NSP",))


def _wdbc(folder: Path) -> Data:
    raw = {k: v for k, v in read_columns("wdbc", folder).items() if k != "diagnosis"}
    return Data(name="WDBC", unit=np.column_stack([_between(v) for v in raw.values()]), columns=tuple(raw))


def _nur(folder: Path) -> Data:
    raw = read_columns("nursery", folder)
    kept = np.asarray(raw["class"] != "recommend")
    names, columns = [], []
    for name, values in raw.items():
        if name == "class":
            continue
        for value in sorted(set(values.tolist())):
            names.append(f"{name}={value}")
            columns.append(np.where(values[kept] == value, 1.0, -1.0))
    code = np.array([_CLASSES[c] for c in raw["class"][kept].tolist()])
    label = np.where(code == _CLASSES["spec_prior"], 1.0, -1.0)
    unit = np.column_stack([*columns, 2 * code / 3 - 1])
    return Data(name="NUR", unit=unit, columns=(*names, "class"), label=label, without=("class",))


def _nom(folder: Path) -> Data:
    raw = {k: v for k, v in read_columns("nomao", folder).items() if k not in _COPIES}
    columns = []
    for values in raw.values():
        if values.dtype == object:
            columns.append(np.array([2 * _LETTERS[v] - 1 for v in values.tolist()]))
        else:
            columns.append(np.asarray(values, dtype=np.float64))
    names = tuple(raw)
    at = names.index("label")
    for i, name in enumerate(names):
        if name != "label" and raw[name].dtype != object:
            columns[i] = 2 * columns[i] - 1
    order = np.argsort((np.arange(len(columns[0])) * 0.6180339887498949) % 1, kind="stable")[:NOM_ROWS]
    unit = np.clip(np.column_stack(columns)[np.sort(order)], -1, 1)
    return Data(name="NOM", unit=unit, columns=names, label=unit[:, at].copy(), without=("label",))

"""AIM and MST, as OpenDP offers them, beside ``auto``: same rows, relation ADD_REMOVE, epsilon and delta.

::

    pip install "opendp[mbi]" polars pandas       # an environment of its own, with duckdp: it brings jax
    python -m duckdp.bench.tables_peers --set CTG --method MST

Columns are cut into bins for the peers (ten for a number); their rows are the bins' middles. Judged by the two-way
marginals of the binned columns (total variation, average of all pairs), the smooth queries, and the AUC of a logistic
regression that learns on the synthetic half and is tested on the real other one.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from duckdp.bench.tables_data import DATA, load, memory_sums, read_columns
from duckdp.bench.tables_queries import area_under_curve, draw_queries, learn, worst_relative
from duckdp.core.accountant import rho_for
from duckdp.core.types import PICO, Neighbours, parse_delta, parse_epsilon
from duckdp.synthetic.wide.auto import make_table
from duckdp.synthetic.wide.features import Floats
from duckdp.synthetic.wide.start import uniforms
from duckdp.synthetic.wide.table import request, round_groups

BINS = 10
METHODS = ("auto", "auto target", "MST", "AIM")
_BOUNDS = {
    "age": (0, 100), "education_num": (1, 16), "capital_gain": (0, 100_000), "capital_loss": (0, 5000),
    "hours_per_week": (0, 100),
}  # fmt: skip
Codes = NDArray[np.int64]


@dataclass(frozen=True, kw_only=True, eq=False)
class Binned:
    """A table both ways.

    Attributes:
        unit: float[n, d], the label last.
        groups: unit columns of each category column.
    """

    unit: Floats
    groups: list[list[int]]

    @property
    def numbers(self) -> list[int]:
        """Unit columns that are numbers."""
        used = {i for group in self.groups for i in group}
        return [i for i in range(self.unit.shape[1] - 1) if i not in used]

    @property
    def sizes(self) -> list[int]:
        """Codes per binned column."""
        return [BINS] * len(self.numbers) + [len(g) for g in self.groups] + [2]

    def encode(self, unit: Floats) -> Codes:
        """Rows as codes: int[m, columns]."""
        numbers = np.clip(((unit[:, self.numbers] + 1) / 2 * BINS).astype(np.int64), 0, BINS - 1)
        groups = [np.argmax(unit[:, g], axis=1) for g in self.groups]
        return np.column_stack([numbers, *groups, unit[:, -1] > 0]).astype(np.int64)

    def decode(self, codes: Codes) -> Floats:
        """The inverse, numbers at the middle of their bin."""
        unit = np.full((len(codes), self.unit.shape[1]), -1.0)
        count = len(self.numbers)
        unit[:, self.numbers] = (codes[:, :count] + 0.5) / BINS * 2 - 1
        for k, group in enumerate(self.groups):
            unit[np.arange(len(codes)), np.array(group)[codes[:, count + k]]] = 1.0
        unit[:, -1] = np.where(codes[:, -1] > 0, 1.0, -1.0)
        return unit


def ctg(folder: Path) -> Binned:
    """CTG, all columns numbers, NSP > 1 the label."""
    return Binned(unit=load("CTG", folder).features_and_label(), groups=[])


def adult(folder: Path) -> Binned:
    """Adult without fnlwgt and education (education_num says it), null a category of its own."""
    raw = read_columns("adult", folder)
    columns = [np.clip(2 * (raw[n].astype(float) - lo) / (hi - lo) - 1, -1, 1) for n, (lo, hi) in _BOUNDS.items()]
    groups = []
    for name in ("workclass", "marital_status", "occupation", "relationship", "race", "sex", "native_country"):
        text = np.array([str(v) for v in np.ma.filled(np.ma.asarray(raw[name], dtype=object), "?").tolist()])
        values = sorted(set(text.tolist()))
        groups.append(list(range(len(columns), len(columns) + len(values))))
        columns.extend(np.where(text == v, 1.0, -1.0) for v in values)
    label = np.where(np.array([str(v) for v in raw["income"].tolist()]) == ">50K", 1.0, -1.0)
    return Binned(unit=np.column_stack([*columns, label]), groups=groups)


def marginal_error(first: Codes, second: Codes, sizes: Sequence[int]) -> float:
    """Average total variation distance of all two-way marginals."""
    found = []
    for i, j in combinations(range(len(sizes)), 2):
        cells = sizes[i] * sizes[j]
        one, two = (np.bincount(c[:, i] * sizes[j] + c[:, j], minlength=cells) / len(c) for c in (first, second))
        found.append(float(np.abs(one - two).sum() / 2))
    return float(np.mean(found))


def peer_rows(name: str, codes: Codes, sizes: Sequence[int], rho: float, rows: int) -> Codes:
    """Rows by AIM or MST, at rho of zCDP.

    Raises:
        SystemExit: the peers are not installed; the text says how.
    """
    try:
        import opendp.prelude as dp
        import polars as pl
        from opendp.extras import mbi
    except ImportError:
        raise SystemExit('the peers need: pip install "opendp[mbi]" polars pandas') from None
    dp.enable_features("contrib")
    names = [f"c{i}" for i in range(len(sizes))]
    frame: Any = pl.LazyFrame({n: codes[:, i] for i, n in enumerate(names)}, schema=dict.fromkeys(names, pl.Int64))
    context = dp.Context.compositor(
        data=frame, privacy_unit=dp.unit_of(contributions=1), privacy_loss=dp.loss_of(rho=rho),
        split_evenly_over=1,
    )  # fmt: skip
    algorithm = {"AIM": mbi.AIM, "MST": mbi.MST}[name]()
    keys = {n: list(range(size)) for n, size in zip(names, sizes, strict=True)}
    table = context.query().contingency_table(keys=keys, algorithm=algorithm).release()
    made: Any = table.synthesize(rows=rows)
    made = made.collect() if hasattr(made, "collect") else made
    return np.column_stack([_without_null(made[n].to_numpy()) for n in names])


def _without_null(values: NDArray[Any]) -> Codes:
    """Codes; the peers add a bin for null to every column, which here goes to the column's most frequent code."""
    known = np.array([v is not None and v == v for v in values.tolist()])
    usual = np.bincount(values[known].astype(np.int64)).argmax() if known.any() else 0
    return np.array([int(v) if k else usual for v, k in zip(values.tolist(), known, strict=True)], dtype=np.int64)


def compare(data: Binned, methods: Sequence[str], *, epsilon: str, delta: str, rows: int, queries: int) -> list[str]:
    """One line per method: two-way error, query errors, AUC, seconds; learnt on one half, which queries are about."""
    order = np.argsort(uniforms(1, len(data.unit))[0])
    half = len(order) // 2
    train, test = data.unit[order[:half]], data.unit[order[half:]]
    asked = draw_queries(train.shape[1], queries)
    truth, codes = asked.answers(train), data.encode(train)
    rho = rho_for(parse_epsilon(epsilon), parse_delta(delta)) / PICO  # the same conversion for all
    other = marginal_error(codes, data.encode(test), data.sizes)
    lines = [f"n={half} d={train.shape[1]} epsilon={epsilon} delta={delta} m={rows}"]
    lines.append(_line("other half", other, worst_relative(asked.answers(test), truth), _area(train, test), 0.0))
    for name in methods:
        start = time.perf_counter()
        if name.startswith("auto"):
            target = train.shape[1] - 1 if name.endswith("target") else None
            wanted = request(
                train.shape[1], expected_rows=half, epsilon=epsilon, delta=delta, neighbours=Neighbours.ADD_REMOVE,
                rows=rows, target=target,
            )  # fmt: skip
            made = make_table(wanted, memory_sums(train)).unit
            made = round_groups(made, data.groups)
        else:
            made = data.decode(peer_rows(name, codes, data.sizes, rho, rows))
        seconds = time.perf_counter() - start
        error = marginal_error(codes, data.encode(made), data.sizes)
        lines.append(_line(name, error, worst_relative(asked.answers(made), truth), _area(made, test), seconds))
    return lines


def main(argv: Sequence[str] | None = None) -> int:
    """Print the comparison."""
    parser = argparse.ArgumentParser(prog="duckdp.bench.tables_peers", description="AIM and MST beside auto.")
    parser.add_argument("--set", action="append", choices=["CTG", "ADULT"], help="both by default")
    parser.add_argument("--method", action="append", choices=list(METHODS), help="all by default")
    parser.add_argument("--epsilon", default="1")
    parser.add_argument("--delta", default="1e-6")
    parser.add_argument("--rows", type=int, default=4000)
    parser.add_argument("--queries", type=int, default=1000)
    parser.add_argument("--data", type=Path, default=DATA)
    options = parser.parse_args(argv)
    for name in options.set or ["CTG", "ADULT"]:
        data = {"CTG": ctg, "ADULT": adult}[name](options.data)
        methods = options.method or list(METHODS)
        lines = compare(
            data, methods, epsilon=options.epsilon, delta=options.delta, rows=options.rows, queries=options.queries
        )
        sys.stdout.write("\n".join([name, *lines]) + "\n\n")
    return 0


def _area(train: Floats, test: Floats) -> float:
    if np.all(train[:, -1] > 0) or np.all(train[:, -1] <= 0):
        return 0.5
    return area_under_curve(test[:, :-1] @ learn(train), test[:, -1])


def _line(name: str, two_way: float, errors: Floats, area: float, seconds: float) -> str:
    cells = " ".join(f"{v:7.4f}" for v in errors)
    return f"  {name:11s} two-way {two_way:.4f}  queries {cells}  AUC {area:.3f}  {seconds:.1f} s"


if __name__ == "__main__":
    raise SystemExit(main())

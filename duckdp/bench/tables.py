"""The paper's experiments with synthetic tables: Tables 4 and 5, and WDBC of the slides.

::

    python -m duckdp.bench.tables --quick          minutes
    python -m duckdp.bench.tables                  as the paper: 10,000 queries, 20 rounds

Pure epsilon, weights of the queries normalised to sum 1, relative errors only. The paper's Definition 1 is REPLACE, but
the noise it prints, Lap(R / (n epsilon)) for R moments, keeps epsilon under ADD_REMOVE alone, and under REPLACE up to
twice that: all three are shown. What each line shows: ``paper`` its printed figures; ``auto`` (REPLACE), ``auto 2e``
(REPLACE, at twice epsilon), ``auto +-1`` (ADD_REMOVE; n is noised within epsilon) and ``psi`` (REPLACE) ours, by the
product's own way from a DuckDB table to the released one (``tables_path``), and the seconds that takes; ``sample`` as
many true rows. AUCs are under REPLACE.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from decimal import Decimal
from pathlib import Path as File

import numpy as np

from duckdp.bench.tables_data import DATA, Data, load
from duckdp.bench.tables_path import Path
from duckdp.bench.tables_queries import SIGMAS, Queries, area_under_curve, draw_queries, learn, worst_relative
from duckdp.core.types import Neighbours
from duckdp.synthetic.unit.features import Floats
from duckdp.synthetic.unit.uniforms import uniforms

EPSILONS = ("0.1", "1", "10")
PAPER_ERRORS = {
    ("NOM", "0.1"): (0.6800, 0.2192, 0.1138, 0.0657, 0.0433),
    ("NOM", "1"): (0.4600, 0.1286, 0.0521, 0.0373, 0.0237),
    ("NOM", "10"): (0.1660, 0.0594, 0.0109, 0.0128, 0.0077),
    ("NUR", "0.1"): (0.0057, 0.0018, 0.0015, 0.0004, 0.0001),
    ("NUR", "1"): (0.0018, 0.0008, 0.0003, 0.0004, 0.0001),
    ("NUR", "10"): (0.0042, 0.0001, 0.0001, 0.0006, 0.0001),
    ("CTG", "0.1"): (0.8590, 0.3871, 0.1981, 0.1139, 0.0770),
    ("CTG", "1"): (0.8007, 0.2923, 0.1597, 0.0891, 0.0560),
    ("CTG", "10"): (0.3881, 0.1184, 0.0602, 0.0415, 0.0165),
    ("WDBC", "1"): (0.293, 0.070, 0.035, 0.022, 0.016),
}
PAPER_AREAS = {
    "NOM": (0.9353, 0.6328, 0.7959, 0.8491),
    "NUR": (0.9081, 0.5361, 0.7748, 0.8164),
    "CTG": (0.9755, 0.5309, 0.5853, 0.6116),
}
WAYS = (
    ("auto", "auto", Neighbours.REPLACE, 1),
    ("auto 2e", "auto", Neighbours.REPLACE, 2),
    ("auto +-1", "auto", Neighbours.ADD_REMOVE, 1),
    ("psi", "psi", Neighbours.REPLACE, 1),
)  # name, method, relation, times epsilon
Groups = tuple[tuple[int, ...], ...]
Maker = Callable[[Floats, str], Floats]


def by_path(method: str, rows: int, groups: Groups = (), neighbours: Neighbours = Neighbours.REPLACE) -> Maker:
    """What ``dp_synthesize`` gives, as a function of (rows, epsilon)."""

    def make(unit: Floats, epsilon: str) -> Floats:
        return Path(unit=unit, rows=rows, method=method, groups=groups, neighbours=neighbours).make(epsilon)

    return make


def true_rows(unit: Floats, rows: int) -> Floats:
    """A subsample, or a bootstrap where there are not enough rows."""
    if len(unit) >= 4 * rows:
        return np.asarray(unit[np.argsort(uniforms(1, len(unit))[0])[:rows]])
    return np.asarray(unit[(uniforms(1, rows)[0] * len(unit)).astype(np.int64)])


def error_table(data: Data, epsilons: Sequence[str], *, queries: int, rounds: int, rows: int) -> list[str]:
    """Lines of Table 4 for one set: worst relative errors, averages of the rounds, and seconds per table."""
    asked = draw_queries(data.unit.shape[1], queries)
    truth = asked.answers(data.unit)
    lines = [f"{data.name} n={len(data.unit)} d={data.unit.shape[1]} m={rows} Q={queries} rounds={rounds}"]
    lines.append(
        _line("sample", "", [worst_relative(asked.answers(true_rows(data.unit, rows)), truth) for _ in range(rounds)])
    )
    for epsilon in epsilons:
        lines.append(_line("paper", epsilon, [np.array(PAPER_ERRORS[data.name, epsilon])]))
        for name, method, relation, times in WAYS:
            maker = by_path(method, rows, data.groups, relation)
            found, seconds = _errors(data.unit, str(times * Decimal(epsilon)), maker, asked, truth, rounds)
            lines.append(f"{_line(name, epsilon, found)}  {seconds:.1f} s")
    return lines


def area_table(data: Data, epsilons: Sequence[str], *, rounds: int, rows: int) -> list[str]:
    """Lines of Table 5 for one set: AUC on the real other half, average and least of the rounds."""
    whole = data.features_and_label()
    d = whole.shape[1]
    paper = PAPER_AREAS[data.name]
    halves = [_halves(whole) for _ in range(rounds)]
    real = [_area(train, test) for train, test in halves]
    lines = [f"{data.name} n={len(whole) // 2} d={d}", f"  non-private  ours {np.mean(real):.3f}  paper {paper[0]:.3f}"]
    for epsilon, printed in zip(EPSILONS, paper[1:], strict=True):
        if epsilon not in epsilons:
            continue
        cells = [f"  epsilon {epsilon:4s}  paper {printed:.3f}"]
        for name, target in (("with target", f"c{d - 1}"), ("none", None)):
            start = time.perf_counter()
            made = [
                Path(unit=train, label=True, rows=rows, groups=data.groups).make(epsilon, target=target)
                for train, _ in halves
            ]
            seconds = (time.perf_counter() - start) / rounds
            found = [_area(m, test) for m, (_, test) in zip(made, halves, strict=True)]
            cells.append(f"{name} {np.mean(found):.3f} +-{np.std(found) / rounds**0.5:.3f} ({seconds:.1f} s)")
        lines.append("  ".join(cells))
    return lines


def main(argv: Sequence[str] | None = None) -> int:
    """Print the paper's tables, measured again."""
    parser = argparse.ArgumentParser(prog="duckdp.bench.tables", description="The paper's synthetic tables.")
    parser.add_argument("--quick", action="store_true", help="1,000 queries, 3 rounds")
    parser.add_argument("--data", type=File, default=DATA, help="folder of the Parquet files")
    parser.add_argument("--only", action="append", choices=["errors", "areas", "wdbc"], help="which; all by default")
    parser.add_argument("--set", action="append", choices=["CTG", "NUR", "NOM"], help="which; all by default")
    parser.add_argument("--epsilon", action="append", choices=EPSILONS, help="which; all by default")
    parser.add_argument("--rounds", type=int, help="default 20")
    parser.add_argument("--rows", type=int, default=2000, help="m, synthetic rows; default 2000")
    options = parser.parse_args(argv)
    queries, rounds = (1000, 3) if options.quick else (10_000, options.rounds or 20)
    only, names = options.only or ["errors", "areas", "wdbc"], options.set or ["CTG", "NUR", "NOM"]
    epsilons = options.epsilon or EPSILONS
    sys.stdout.write(f"worst relative error for sigma = {SIGMAS}\n")
    for name in names if "errors" in only else []:
        _show(error_table(load(name, options.data), epsilons, queries=queries, rounds=rounds, rows=options.rows))
    if "wdbc" in only:
        _show(error_table(load("WDBC", options.data), ("1",), queries=queries, rounds=rounds, rows=options.rows))
    for name in names if "areas" in only else []:
        _show(area_table(load(name, options.data), epsilons, rounds=rounds, rows=options.rows))
    return 0


def _errors(
    unit: Floats, epsilon: str, make: Maker, asked: Queries, truth: Floats, rounds: int
) -> tuple[list[Floats], float]:
    found, seconds = [], 0.0
    for _ in range(rounds):
        start = time.perf_counter()
        rows = make(unit, epsilon)
        seconds += time.perf_counter() - start
        found.append(worst_relative(asked.answers(rows), truth))
    return found, seconds / rounds


def _halves(whole: Floats) -> tuple[Floats, Floats]:
    order = np.argsort(uniforms(1, len(whole))[0])
    half = len(whole) // 2
    return whole[order[:half]], whole[order[half:]]


def _area(train: Floats, test: Floats) -> float:
    if np.all(train[:, -1] > 0) or np.all(train[:, -1] <= 0):
        return 0.5
    return area_under_curve(test[:, :-1] @ learn(train), test[:, -1])


def _line(name: str, epsilon: str, found: list[Floats]) -> str:
    cells = "  ".join(f"{v:8.4f}" for v in np.mean(found, axis=0))
    return f"  {name:8s} {epsilon:>4s} {cells}"


def _show(lines: list[str]) -> None:
    sys.stdout.write("\n".join(lines) + "\n\n")
    sys.stdout.flush()


if __name__ == "__main__":
    raise SystemExit(main())

"""``duckdp bench smooth``: what a summary costs in time, and how good its answers are."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable

from duckdp.bench import accuracy, answers, coverage, moments, noises
from duckdp.bench.measure import Grid, as_markdown, as_text, machine, show_grid

MILLION = 1_000_000  # rows


def main(argv: list[str]) -> int:
    """Print the tables; returns 1 when a limit was missed and --check was given."""
    options = _options().parse_args(argv)
    sys.stdout.write(f"duckdp bench smooth: {machine()}\n")
    held = True
    for name in options.part or PARTS:
        held = PARTS[name](options) and held
    return 0 if held or not options.check else 1


def _moments(options: argparse.Namespace) -> bool:
    show, held = as_markdown if options.markdown else as_text, True
    for rows in (MILLION,) if options.quick else (MILLION, 10 * MILLION):
        report = moments.suite(rows, options.repeat if rows == MILLION else max(1, options.repeat // 2))
        held = held and all(line.holds for line in report.lines)
        sys.stdout.write(f"\n{show(report)}\n")
    if options.large:
        sys.stdout.write(f"\n{show(moments.large_file())}\n")
    return held


def _answers(options: argparse.Namespace) -> bool:
    head, *rows = answers.table(repeat=options.repeat)
    return _print(Grid(title="Answers from a summary, d = 2, t = 16, text to interval", head=head, rows=rows), options)


def _noises(options: argparse.Namespace) -> bool:
    held = _print(noises.noises(), options) and _print(noises.kernel_errors(), options)
    return held and _print(noises.worst_pairs(), options)


def _accuracy(options: argparse.Namespace) -> bool:
    runs = 3 if options.quick else accuracy.RUNS
    grid, laws = accuracy.accuracy(runs, accuracy.SIZES[::2] if options.quick else accuracy.SIZES)
    if options.plot:
        accuracy.plot(laws, options.plot)
    return _print(grid, options)


def _queries(options: argparse.Namespace) -> bool:
    return _print(noises.against_queries(queries=200 if options.quick else noises.QUERIES), options)


def _coverage(options: argparse.Namespace) -> bool:
    sets, releases = (list(coverage.SETS)[-1:], 20) if options.quick else (list(coverage.SETS), coverage.RELEASES)
    return _print(coverage.coverage(sets, releases), options)


def _print(grid: Grid, options: argparse.Namespace) -> bool:
    sys.stdout.write(f"\n{show_grid(grid, markdown=options.markdown)}\n")
    sys.stdout.flush()
    return grid.holds


PARTS: dict[str, Callable[[argparse.Namespace], bool]] = {
    "moments": _moments,
    "answers": _answers,
    "noises": _noises,
    "accuracy": _accuracy,
    "queries": _queries,
    "coverage": _coverage,
}


def _options() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="duckdp bench smooth", description="Measure summaries on this machine.")
    parser.add_argument("--part", action="append", choices=list(PARTS), help="which; all by default")
    parser.add_argument("--repeat", type=int, default=5, help="runs of each timing, default 5")
    parser.add_argument("--quick", action="store_true", help="fewer sizes and runs (a minute)")
    parser.add_argument("--large", action="store_true", help="also 100,000,000 rows of Parquet under 1 GB")
    parser.add_argument("--plot", metavar="PNG", help="draw the accuracy law (needs matplotlib)")
    parser.add_argument("--markdown", action="store_true", help="tables to paste into a document")
    parser.add_argument("--check", action="store_true", help="exit code 1 when a limit is missed")
    return parser

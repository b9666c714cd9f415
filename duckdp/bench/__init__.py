"""``duckdp bench``: what privacy costs in time, against plain DuckDB and against the same bounding written by hand.

``duckdp bench smooth`` measures summaries, ``duckdp bench synthetic`` the tables of the paper's experiments,
``duckdp bench synthetic compare`` the default against every method on public sets, ``duckdp bench synthetic program``
the linear program, ``duckdp bench synthetic dashboards`` dashboard queries, ``duckdp bench quantiles`` quantiles by
every way we know, ``duckdp bench sensitivity`` smooth sensitivity, ``duckdp bench questions`` ten thousand questions by
every way, ``duckdp bench tpch`` joins shaped like TPC-H's, ``duckdp bench ledger`` ledgers of many charges,
``duckdp bench serve`` a server under load, and ``duckdp bench smartnoise`` the same questions of SmartNoise SQL.

Everything is measured in one run, in turn, on generated data in a temporary file; ratios are of medians. ::

    queries.py   the table and the SQL          suites.py     counts, groups, overhead
    memory.py    memory and crossing rows       measure.py    timing and tables
    smooth.py    summaries: moments.py (time), answers.py, noises.py, accuracy.py (the law of the error)
    program.py   the linear program of synthetic tables
    tables.py    the paper's tables 4 and 5: tables_data.py, tables_queries.py; tables_peers.py (another environment)
    compare.py   auto against every method: compare_sets.py, compare_scores.py
    quantile_errors.py  quantiles: errors and times of every way
    sensitivity.py  smooth sensitivity against its formulas: quantiles, intervals, spanning trees
    many_questions.py  ten thousand questions of three kinds at one charge, by every way
    serve.py     a server under load, and the parts of its processor time
    engines.py   one machine beside Apache Spark: time, memory, bytes moved, to 10^8 rows
    tpch.py      joins shaped like TPC-H's, private and bounded by hand: tpch_data.py
    ledger.py    ledgers of 1,000 to 1,000,000 charges; ledger_served.py  a ledger in PostgreSQL beside one in a file
    dashboards.py  three dashboard queries on synthetic tables, a join among them
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable

from duckdp.bench.measure import Report, as_markdown, as_text, machine
from duckdp.bench.queries import Size, Workload
from duckdp.bench.suites import counts, groups, overhead, tiny

__all__ = ["main", "run"]

SUITES: dict[str, Callable[[Workload, int], Report]] = {"counts": counts, "groups": groups, "overhead": overhead}


def run(name: str, size: Size, repeat: int) -> Report:
    """Run one suite on fresh data; "overhead" takes a tiny table."""
    size = tiny(size.groups) if name == "overhead" else size
    with tempfile.TemporaryDirectory(prefix="duckdp-bench-") as folder:
        workload = Workload(folder, size)
        try:
            return SUITES[name](workload, repeat)
        finally:
            workload.close()


def main(argv: list[str]) -> int:
    """Run the benchmarks that were named, and print their tables.

    Args:
        argv: options, without the command's name.

    Returns:
        0, or 1 when a limit was missed and --check was given.
    """
    if argv and argv[0] in (
        "smooth",
        "synthetic",
        "ledger",
        "quantiles",
        "sensitivity",
        "questions",
        "tpch",
        "serve",
        "smartnoise",
    ):
        return _others(argv)
    options = _options().parse_args(argv)
    size = Size(rows=options.rows, units=options.units, groups=options.groups)
    sys.stdout.write(f"duckdp bench: {machine()}\n{size.rows:,} rows, {size.units:,} units, {size.groups} groups\n")
    show = as_markdown if options.markdown else as_text
    missed = False
    for name in options.suite or list(SUITES):
        report = run(name, size, options.repeat)
        missed = missed or not all(line.holds for line in report.lines)
        sys.stdout.write(f"\n{show(report)}\n")
    if options.memory:
        _show_memory(options.groups)
    return 1 if missed and options.check else 0


def _others(argv: list[str]) -> int:
    """The suites with commands of their own."""
    if argv[0] == "smooth":
        from duckdp.bench.smooth import main as smooth

        return smooth(argv[1:])
    if argv[0] == "ledger":
        from duckdp.bench.ledger import main as ledger

        return ledger(argv[1:])
    if argv[0] == "quantiles":
        from duckdp.bench.quantile_errors import main as quantiles

        return quantiles(argv[1:])
    if argv[0] == "serve":
        from duckdp.bench.serve import main as serve

        return serve(argv[1:])
    if argv[0] == "smartnoise":
        from duckdp.bench.smartnoise import main as smartnoise

        return smartnoise(argv[1:])
    if argv[0] == "sensitivity":
        from duckdp.bench.sensitivity import main as sensitivity

        return sensitivity(argv[1:])
    if argv[0] == "questions":
        from duckdp.bench.many_questions import main as questions

        return questions(argv[1:])
    if argv[0] == "tpch":
        from duckdp.bench.tpch import main as tpch

        return tpch(argv[1:])
    if argv[1:2] == ["dashboards"]:
        from duckdp.bench.dashboards import main as dashboards

        return dashboards(argv[2:])
    if argv[1:2] == ["compare"]:
        from duckdp.bench.compare import main as compared

        return compared(argv[2:])
    if argv[1:2] == ["program"]:
        from duckdp.bench.program import main as program

        return program(argv[2:])
    from duckdp.bench.tables import main as tables

    return tables(argv[1:])


def _options() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="duckdp bench",
        description="Measure duckdp on this machine.",
        epilog="More, each with --help of its own: duckdp bench smooth (summaries), duckdp bench synthetic (the "
        "paper's tables), duckdp bench synthetic compare (auto against every method), duckdp bench synthetic program "
        "(the linear program), duckdp bench synthetic dashboards (BI), duckdp bench quantiles (by every way), duckdp "
        "bench questions (many, by every way), duckdp bench sensitivity (smooth sensitivity), duckdp bench ledger "
        "(many charges), duckdp bench serve (a server under load).",
    )
    parser.add_argument("--suite", action="append", choices=list(SUITES), help="which; all by default")
    for name, number in (("rows", 1_000_000), ("units", 400_000), ("groups", 10), ("repeat", 15)):
        parser.add_argument(f"--{name}", type=_positive, default=number, help=f"default {number}")
    parser.add_argument("--memory", action="store_true", help="also memory, 100,000 to 10,000,000 rows (minutes)")
    parser.add_argument("--markdown", action="store_true", help="tables to paste into a document")
    parser.add_argument("--check", action="store_true", help="exit code 1 when a limit is missed")
    return parser


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError("must be at least 1")
    return number


def _show_memory(groups: int) -> None:
    from duckdp.bench.memory import table

    rows = table(groups)
    sys.stdout.write(
        "\n" + "\n".join("| " + " | ".join(row) + " |" for row in [rows[0], ("---",) * 5, *rows[1:]]) + "\n"
    )

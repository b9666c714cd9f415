"""``duckdp bench synthetic compare``: ``auto`` against every method, on public sets on which nothing was tuned.

::

    pip install "duckdp[bench]"
    duckdp bench synthetic compare                        a quick look: three sets, epsilon 1, one table a cell
    duckdp bench synthetic compare --full --cells FILE    all cells, medians of five tables; hours; goes on where it was

Tables are made as ``dp_synthesize('t', epsilon, delta, rows := all)`` makes them, ADD_REMOVE. A cell is the error of
``auto`` over that of the best method (``compare_scores``), the median of its tables each; means and correlations count
above the sampling error, and for the model the area that ``auto`` loses is told instead. What ``auto`` resolves to is
one of the methods: its tables are that method's own.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import median
from typing import Any

import duckdb
import numpy as np

from duckdp.bench.compare_scores import MEASURES, Truth
from duckdp.bench.compare_sets import REPORTED, TUNING, PublicSet, load_set
from duckdp.bench.measure import Grid, machine, read_rows, show_grid
from duckdp.core.task import Stages
from duckdp.core.types import Neighbours, parse_delta, parse_epsilon
from duckdp.errors import DuckDPError
from duckdp.synthetic.asked import Asked
from duckdp.synthetic.methods import TableTask, plan_table
from duckdp.synthetic.stored import complete, read_synthesis

EPSILONS = ("0.5", "1", "3", "10")
DELTAS = ("0", "1e-6")
METHODS = ("tree", "moments")  # "psi" and the program of few columns on request
TABLES = 5  # a cell
MOST_MEAN, MOST_CELL, MOST_MODEL = 1.25, 2.0, 0.02  # aims: geometric mean, cell, area that is lost
_LEAST = 1e-4  # of an error in a ratio
_Q = (0.5, 0.95)  # quantiles of errors over their bars that are shown
_QUICK = ("cards", "slid", "rotterdam")
Line = dict[str, Any]


def plan(given: PublicSet, method: str, epsilon: str, delta: str) -> TableTask:
    """The purchase that a call would make."""
    asked = Asked(
        table=given.table(),
        columns=None,
        epsilon_nano=parse_epsilon(epsilon),
        delta_atto=parse_delta(delta),
        neighbours=Neighbours.ADD_REMOVE,
        rows=given.count,
    )
    return plan_table(asked, method)


def run_cell(truth: Truth, method: str, epsilon: str, delta: str) -> Line:
    """Make a table, and measure it."""
    task = plan(truth.given, method, epsilon, delta)
    start = time.process_time()
    with duckdb.connect(":memory:", config={"threads": 1}) as con:
        truth.given.store(con)
        con.execute("SET enable_progress_bar = false")
        payload = task.work(1)(Stages(lambda query: read_rows(con, query)))
    payload = complete(payload)
    made, bars = read_synthesis(payload), json.loads(payload).get("bars")
    seconds = time.process_time() - start
    held = {} if bars is None else {"bars": truth.covered(made.columns, bars)}
    return {"seconds": round(seconds, 2), **truth.measure(made.columns), **held}


def run_cells(
    sets: Sequence[str],
    methods: Sequence[str],
    charges: Sequence[tuple[str, str]],
    tables: int,
    cells: Path | None,
) -> Iterator[Line]:
    """The cells that are asked for: stored ones, and those that are measured now and stored."""
    known = _load(cells)
    for name in sets:
        truth = Truth.of(load_set(name))
        for epsilon, delta in charges:
            for method in methods:
                for turn in range(tables):
                    key = f"{name} {method} {epsilon} {delta} {turn}"
                    if key not in known:
                        try:
                            line = run_cell(truth, method, epsilon, delta)
                        except DuckDPError as refused:
                            line = {"refused": refused.code}
                        known[key] = {"cell": key, **line}
                        _keep(cells, known[key])
                    yield {"set": name, "method": method, "epsilon": epsilon, "delta": delta, **known[key]}
            yield {
                "set": name,
                "auto": _resolved(truth.given, epsilon, delta),
                "epsilon": epsilon,
                "delta": delta,
                "floors": truth.floors,
            }


def _resolved(given: PublicSet, epsilon: str, delta: str) -> str:
    return plan(given, "auto", epsilon, delta).describe()[0].removeprefix("method: ").split(",")[0]


def _load(cells: Path | None) -> dict[str, Line]:
    if cells is None or not cells.exists():
        return {}
    return {line["cell"]: line for line in map(json.loads, cells.read_text(encoding="utf-8").splitlines())}


def _keep(cells: Path | None, line: Line) -> None:
    if cells is not None:
        with cells.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")


def ratios(lines: Sequence[Line]) -> list[Line]:
    """Per set and charge: what ``auto`` is, and its errors over the best method's."""
    found = []
    for settled in (line for line in lines if "auto" in line):
        charge = (settled["set"], settled["epsilon"], settled["delta"])
        own = [x for x in lines if "tv1" in x and (x["set"], x["epsilon"], x["delta"]) == charge]
        by_method = {
            m: {k: median(x[k] for x in own if x["method"] == m) for k in MEASURES} for m in {x["method"] for x in own}
        }
        if settled["auto"] not in by_method:
            continue
        auto, line = by_method[settled["auto"]], {k: settled[k] for k in ("set", "epsilon", "delta", "auto")}
        for measure in MEASURES[:-1]:
            floor = max(_LEAST, settled["floors"].get(measure, 0.0))
            best = min(max(floor, m[measure]) for m in by_method.values())
            line[measure] = max(floor, auto[measure]) / best
        line["model"] = max(0.0, max(m["model"] for m in by_method.values()) - auto["model"])
        found.append(line)
    return found


def as_grid(found: Sequence[Line]) -> Grid:
    """A line per set and charge, then the geometric means."""
    rows = [
        [f"{x['set']} {x['epsilon']} {x['delta']}", x["auto"], *(f"{x[m]:.2f}" for m in MEASURES), _missed(x)]
        for x in found
    ]
    for delta in sorted({x["delta"] for x in found}):
        own = [x for x in found if x["delta"] == delta]
        means = [math.exp(float(np.mean([math.log(x[m]) for x in own]))) for m in MEASURES[:-1]]
        whole = math.exp(float(np.mean(np.log(means))))
        lost = float(np.mean([x["model"] for x in own]))
        late = "MISSED" if whole > MOST_MEAN else ""
        rows.append([f"mean at delta {delta}", f"{whole:.2f}", *(f"{m:.2f}" for m in means), f"{lost:.3f}", late])
    return Grid(title="auto over the best method", head=("set, epsilon, delta", "auto", *MEASURES, ""), rows=rows)


def _missed(line: Line) -> str:
    late = [m for m in MEASURES[:-1] if line[m] > MOST_CELL] + ["model"] * (line["model"] > MOST_MODEL)
    return f"MISSED {' '.join(late)}" if late else ""


def absolute(lines: Sequence[Line]) -> Grid:
    """A line per set, charge and method: the median of its tables' errors, and of their seconds."""
    keys = list(dict.fromkeys((x["set"], x["epsilon"], x["delta"], x["method"]) for x in lines if "tv1" in x))
    rows = []
    for key in keys:
        own = [x for x in lines if "tv1" in x and (x["set"], x["epsilon"], x["delta"], x["method"]) == key]
        cells = [f"{median(x[m] for x in own):.4f}" for m in (*MEASURES, "seconds")]
        rows.append([f"{key[0]} {key[1]} {key[2]}", key[3], *cells])
    return Grid(title="errors", head=("set, epsilon, delta", "method", *MEASURES, "s"), rows=rows)


def coverage(lines: Sequence[Line]) -> Grid:
    """How many error bars hold, and how large errors are beside them."""
    rows = []
    for method in dict.fromkeys(x["method"] for x in lines if "bars" in x):
        for what in ("tv1", "means"):
            found = [v for x in lines if x.get("method") == method and "bars" in x for v in x["bars"][what]]
            if found:
                held = float(np.mean(np.array(found) <= 1))
                rows.append(
                    [method, what, f"{len(found)}", f"{held:.1%}", *(f"{np.quantile(found, q):.2f}" for q in _Q)]
                )
    head = ("method", "error bars of", "how many", "hold", "median error / bar", "95% of them below")
    return Grid(title="error bars (95%)", head=head, rows=rows)


def main(argv: Sequence[str]) -> int:
    """Measure what is asked for and is not stored, and print the comparison.

    Args:
        argv: options, without the command's name.

    Returns:
        0.
    """
    parser = argparse.ArgumentParser(prog="duckdp bench synthetic compare", description=__doc__.split("\n")[0])
    parser.add_argument("--full", action="store_true", help="all reported sets and charges, five tables a cell")
    parser.add_argument("--set", action="append", choices=[*REPORTED, *TUNING], help="which")
    parser.add_argument("--tuning", action="store_true", help="the sets that methods may be tuned on")
    parser.add_argument("--method", action="append", help=f"which; {', '.join(METHODS)} by default")
    parser.add_argument("--epsilon", action="append", choices=EPSILONS, help="which")
    parser.add_argument("--delta", action="append", choices=DELTAS, help="which")
    parser.add_argument("--tables", type=int, help="a cell")
    parser.add_argument("--cells", type=Path, help="file of cells: what is in it is not measured again")
    parser.add_argument("--errors", action="store_true", help="the errors themselves too")
    parser.add_argument("--markdown", action="store_true", help="tables to paste into a document")
    options = parser.parse_args(argv)
    sets = options.set or (list(TUNING) if options.tuning else list(REPORTED) if options.full else list(_QUICK))
    epsilons = options.epsilon or (EPSILONS if options.full else ("1",))
    deltas = options.delta or DELTAS
    charges = [(epsilon, delta) for epsilon in epsilons for delta in deltas]
    tables = options.tables or (TABLES if options.full else 1)
    lines = list(run_cells(sets, options.method or METHODS, charges, tables, options.cells))
    sys.stdout.write(f"{machine()}\n")
    for grid in ([absolute(lines)] if options.errors else []) + [as_grid(ratios(lines)), coverage(lines)]:
        sys.stdout.write(f"\n{show_grid(grid, markdown=options.markdown)}\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))

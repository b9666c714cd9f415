"""One machine beside Apache Spark: ``python -m duckdp.bench.engines FOLDER --rows 10000000 [--spark]``.

Parquet of four columns (a key of 10 rows a unit, a whole number, a DOUBLE, one of four texts) is written to the folder
once. Each question is asked once, charge and noise included, of a data set that is opened in this process: seconds by
the clock, processor seconds of it and of everything that it started (Java, workers), the largest sum of their memory,
what of it is shared counted once, and what Spark moved between its tasks. With ``--cap 4096`` all of them are killed as
soon as a look, five a second, finds more than so many MiB: what was measured to its end stayed below.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

import duckdb

import duckdp
from duckdp.bench.measure import machine

ANALYST = "bench"
FILE_ROWS = 12_500_000  # of one file, at most
UNIT_ROWS = 10  # rows a unit, about
LOOK = 0.2  # seconds between two looks at memory
TICKS = os.sysconf("SC_CLK_TCK")  # of processor time, a second
COUNT = "SELECT count(*) FROM visits"
GROUPS = "SELECT kind, count(*), sum(cost), avg(age) FROM visits GROUP BY kind"
HEAD = ("question", "s", "processor s", "of these Java", "peak MiB", "moved MiB")
QUESTIONS: dict[str, Callable[[Any], object]] = {
    "count by unit": lambda ana: ana.sql(COUNT, epsilon=1),
    "four groups: count, sum, average": lambda ana: ana.sql(GROUPS, epsilon=1),
    "summary, two columns, smoothness 16": lambda ana: ana.smooth_summary(
        "visits", ["age", "cost"], epsilon=1, smoothness=16, name="s"
    ),
    "table by a tree, three columns": lambda ana: ana.synthesize(
        "visits", epsilon=1, columns=["age", "cost", "kind"], method="tree", rows=1000, name="t"
    ),
}


@dataclass(frozen=True, kw_only=True)
class Used:
    """What something took: seconds by the clock and of processors, MiB at most, MiB moved between tasks."""

    wall: float
    java: float
    others: float
    peak: float
    moved: float


def generate(folder: str, rows: int) -> str:
    """The rows as Parquet files in a folder of their own; those that are there stay."""
    place = os.path.join(folder, f"visits-{rows}")
    if os.path.isdir(place):
        return place
    draft = tempfile.mkdtemp(dir=folder)
    with duckdb.connect(config={"memory_limit": "2GB", "temp_directory": draft}) as con:
        for number, start in enumerate(range(0, rows, FILE_ROWS)):
            draw = [f"system.main.hash(i + {k * rows})" for k in (0, 7, 13, 29)]
            con.execute(
                f"COPY (SELECT ({draw[0]} % {max(rows // UNIT_ROWS, 1)})::INTEGER AS pid, "
                f"({draw[1]} % 100)::INTEGER AS age, round(({draw[2]} % 500000) / 100.0, 2)::DOUBLE AS cost, "
                f"['a', 'b', 'c', 'd'][1 + ({draw[3]} % 4)::INTEGER] AS kind "
                f"FROM range({start}, {min(start + FILE_ROWS, rows)}) AS r(i)) "
                f"TO '{draft}/{number}.parquet' (FORMAT parquet, ROW_GROUP_SIZE 500000)"
            )
    os.rename(draft, place)
    return place


@contextmanager
def session(settings: dict[str, str]) -> Iterator[Any]:
    """Spark on two cores of this machine."""
    from pyspark.sql import SparkSession

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.master("local[2]")
    for name, value in settings.items():
        builder = builder.config(name, value)
    found = builder.getOrCreate()
    found.sparkContext.setLogLevel("OFF")
    try:
        yield found
    finally:
        found.stop()


class Meter:
    """Measures what runs within :meth:`measure`, processes that it starts included.

    Args:
        spark: whose tasks move bytes; None: nothing moves.
        cap: MiB of all processes above which they are killed; None: no bound.
    """

    def __init__(self, spark: Any = None, cap: int | None = None) -> None:
        self._spark = spark
        self._cap = cap
        self._peak = 0

    def measure(self, run: Callable[[], object]) -> Used:
        """Run something once, and say what it took."""
        ended = threading.Event()
        self._peak = 0
        watching = threading.Thread(target=self._watch, args=(ended,), daemon=True)
        watching.start()
        times, moved, start = _seconds(), self._moved(), time.perf_counter()
        try:
            run()
        finally:
            wall = time.perf_counter() - start
            ended.set()
            watching.join()
        java, others = (after - before for after, before in zip(_seconds(), times, strict=True))
        return Used(wall=wall, java=java, others=others, peak=self._peak / 2**10, moved=self._moved() - moved)

    def _watch(self, ended: threading.Event) -> None:
        while not ended.wait(LOOK):
            processes = _tree()
            self._peak = max(self._peak, sum(map(_memory, processes)))
            if self._cap is not None and self._peak > self._cap * 2**10:
                sys.stderr.write(f"killed: {self._peak / 2**10:.0f} MiB are more than {self._cap}\n")
                sys.stderr.flush()
                for process in reversed(processes):
                    os.kill(process, signal.SIGKILL)

    def _moved(self) -> float:
        if self._spark is None:
            return 0.0
        stages = self._spark._jsc.sc().statusStore().stageList(None, False, False, self._nothing(), None)
        return float(sum(stages.apply(i).shuffleWriteBytes() for i in range(stages.size()))) / 2**20

    def _nothing(self) -> Any:
        return self._spark.sparkContext._gateway.new_array(self._spark._jvm.double, 0)


def _tree() -> list[int]:
    """This process and all below it."""
    above: dict[int, int] = {}
    for name in filter(str.isdigit, os.listdir("/proc")):
        with suppress(OSError):
            above[int(name)] = int(_fields(int(name))[1])
    found = [os.getpid()]
    for one in found:
        found += [child for child, parent in above.items() if parent == one]
    return found


def _fields(process: int) -> list[str]:
    """Of /proc/N/stat, what follows the process's name: state, parent, ..."""
    with open(f"/proc/{process}/stat") as file:
        return file.read().rpartition(")")[2].split()


def _seconds() -> tuple[float, float]:
    """Processor seconds of Java, and of all others, those that ended included."""
    found = [0.0, 0.0]
    for process in _tree():
        with suppress(OSError):
            fields = [int(field) for field in _fields(process)[11:15]]  # user, system, and those of children that ended
            with open(f"/proc/{process}/comm") as file:
                java = file.read().strip() == "java"
            own, ended = sum(fields[:2]) / TICKS, sum(fields[2:]) / TICKS
            found[0 if java else 1] += own
            found[1] += ended
    return found[0], found[1]


def _memory(process: int) -> int:
    """KiB, what is shared divided among those that share it."""
    with suppress(OSError), open(f"/proc/{process}/smaps_rollup") as file:
        return next((int(line.split()[1]) for line in file if line.startswith("Pss:")), 0)
    return 0


def ask(curator: duckdp.Curator, meter: Meter, rows: int, names: list[str]) -> Iterator[tuple[str, Used]]:
    """Declare the table, and ask."""
    curator.protect(
        "visits",
        unit_key="pid",
        max_rows=30,
        row_cap=rows * 2,
        bounds={"age": (0, 100), "cost": (0, 5000)},
        domains={"kind": ["a", "b", "c", "d"]},
    )
    curator.budget(epsilon=100)
    curator.grant(ANALYST, epsilon=100)
    analyst = curator.session(ANALYST)
    for name in names:
        yield name, meter.measure(lambda name=name: QUESTIONS[name](analyst))  # type: ignore[misc]


def show(name: str, used: Used) -> None:
    """A line of the table, as soon as it is known."""
    cells = (f"{used.wall:.1f}", f"{used.java + used.others:.1f}", f"{used.java:.1f}", f"{used.peak:.0f}")
    sys.stdout.write(f"| {name} | {' | '.join(cells)} | {used.moved:.0f} |\n")
    sys.stdout.flush()


def main(argv: list[str]) -> int:
    """Measure one engine at one size."""
    options = argparse.ArgumentParser(prog="python -m duckdp.bench.engines")
    options.add_argument("folder")
    options.add_argument("--rows", type=lambda text: int(float(text)), default=10**6)
    options.add_argument("--spark", action="store_true")
    options.add_argument("--memory", default="3GB", help="of DuckDB; on Spark of each task's")
    options.add_argument("--cap", type=int, metavar="MIB", help="of all processes together; above it they are killed")
    options.add_argument("--question", action="append", choices=list(QUESTIONS))
    told = options.parse_args(argv)
    path, names = generate(told.folder, told.rows), told.question or list(QUESTIONS)
    engine = "Spark, local[2]" if told.spark else "one process"
    limits = f"{told.memory}, {'no cap' if told.cap is None else f'killed above {told.cap} MiB'}"
    sys.stdout.write(f"{machine()}\n{told.rows:,} rows, {engine}, {limits}, load {os.getloadavg()[0]:.0f}\n")
    sys.stdout.write(f"| {' | '.join(HEAD)} |\n{'|---' * len(HEAD)}|\n")
    with tempfile.TemporaryDirectory(prefix="duckdp-bench-") as folder:
        ledger = os.path.join(folder, "a.ledger")
        opened: Callable[[], duckdp.Curator]
        if told.spark:
            settings = {"spark.driver.memory": "1g", "spark.duckdp.memory": told.memory, "spark.local.dir": folder}
            settings |= {"spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false"}
            with session(settings) as spark:
                opened = lambda: duckdp.open(spark, tables={"visits": path}, ledger=ledger)  # noqa: E731
                _measure(Meter(spark, told.cap), opened, told, names)
        else:
            source = {"visits": f"{path}/*.parquet"}
            opened = lambda: duckdp.open(source, ledger=ledger, memory=told.memory)  # noqa: E731
            _measure(Meter(cap=told.cap), opened, told, names)
    sys.stdout.write(f"load {os.getloadavg()[0]:.0f}\n")
    return 0


def _measure(meter: Meter, opened: Callable[[], duckdp.Curator], told: argparse.Namespace, names: list[str]) -> None:
    found: list[duckdp.Curator] = []
    show("opened", meter.measure(lambda: found.append(opened())))
    with found[0] as curator:
        for name, used in ask(curator, meter, told.rows, names):
            show(name, used)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

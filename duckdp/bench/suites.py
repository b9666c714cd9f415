"""The suites: counts, groups, overhead."""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise

from duckdp.bench import queries
from duckdp.bench.measure import Case, Line, Report, compare, from_times
from duckdp.bench.queries import ANALYST, AVERAGES, EPSILON, Size, Workload
from duckdp.compiler.pricing import Terms, price
from duckdp.compiler.release import SelectTask
from duckdp.curator import Curator
from duckdp.desk.desk import Performed
from duckdp.ledger import Charge, ChargeRequest

STAGES = ("parse and plan", "print SQL", "charge (durable)", "private read", "noise", "store (durable)", "evaluate")
MOST_OVERHEAD_MS = 10.0  # milliseconds of a private query beyond the same query without privacy
LARGE = 1_000_000  # rows from which the limits on ratios hold
FSYNCS = 4  # of a question: the charge and the release, each in the ledger's journal and in its anchor
#: What a private query may take beyond others, milliseconds (None: shown): what is taken off, how many times.
BEYOND: tuple[tuple[str, dict[str, int], float | None], ...] = (
    ("private count", {"fsync of 4 KB": FSYNCS, "hand-written group-by": 1}, 2.0),
    ("private count", {"fsync of 4 KB": FSYNCS, "hand-written count": 1}, None),
    ("private group-by", {"fsync of 4 KB": FSYNCS, "hand-written group-by": 1}, 4.5),
    ("dp_noisy_count in SQL", {"private count": 1}, 2.0),
    ("dp_query in SQL, count", {"private count": 1}, 2.0),
    ("dp_query in SQL, group-by", {"private group-by": 1}, 2.0),
)


def counts(workload: Workload, repeat: int) -> Report:
    """A private count of all rows against plain and hand-written SQL."""
    count = "SELECT count(*) FROM visits"
    cases = [
        Case(name="plain count", run=_direct(workload, queries.plain_count())),
        Case(name="hand-written keyed count", run=_direct(workload, queries.hand_count())),
        Case(name="private count, unit = row", run=_private(workload.rows, count), limits={"plain count": None}),
        Case(
            name="private count, keyed",
            run=_private(workload.keyed, count),
            limits={"hand-written keyed count": _most(workload, 2), "plain count": None},
        ),
    ]
    return Report(title="Count, text to result, charge included", lines=compare(cases, repeat))


def groups(workload: Workload, repeat: int) -> Report:
    """Private count, average and sum per region against plain and hand-written SQL."""
    size = workload.size
    cases = [
        Case(name="plain group-by", run=_direct(workload, queries.plain_groups())),
        Case(name="hand-written", run=_direct(workload, queries.hand_groups(size))),
        Case(name="hand-written, 3 groups", run=_direct(workload, queries.hand_few_groups(size))),
        Case(
            name="private, unit = row",
            run=_private(workload.rows, AVERAGES.format(table="visits")),
            limits={"plain group-by": None},
        ),
        Case(
            name="private, keyed",
            run=_private(workload.keyed, AVERAGES.format(table="visits")),
            limits={"hand-written": _most(workload, 2), "plain group-by": None},
        ),
        Case(
            name="private, keyed, 3 groups",
            run=_private(workload.keyed, AVERAGES.format(table="visits_few")),
            limits={"hand-written, 3 groups": _most(workload, 2), "hand-written": _most(workload, 8)},
        ),
    ]
    return Report(title="Count, average, sum per group, text to result, charge included", lines=compare(cases, repeat))


def overhead(workload: Workload, repeat: int) -> Report:
    """What a private query costs on a tiny table, and where the time goes; the disk's fsync beside it."""
    curator = workload.keyed
    count, grouped = "SELECT count(*) FROM visits", AVERAGES.format(table="visits")
    con = curator.connect(ANALYST)
    front = f"epsilon := {EPSILON}, fresh := true"
    session = curator.session(ANALYST)
    session.sql(count, epsilon=EPSILON)
    cases = [
        Case(name="fsync of 4 KB", run=_fsync(os.path.join(workload.folder, "synced"))),
        Case(name="hand-written count", run=_direct(workload, queries.hand_count())),
        Case(name="hand-written group-by", run=_direct(workload, queries.hand_groups(workload.size))),
        Case(name="private count", run=_private(curator, count), most_ms=MOST_OVERHEAD_MS),
        Case(name="private count, answered again", run=lambda: session.sql(count, epsilon=EPSILON)),
        Case(name="private group-by", run=_private(curator, grouped), most_ms=MOST_OVERHEAD_MS),
        Case(
            name="dp_noisy_count in SQL",
            run=lambda: con.execute(f"SELECT dp_noisy_count('visits', {front})").fetchall(),
        ),
        Case(name="dp_query in SQL, count", run=lambda: con.execute(f"FROM dp_query($${count}$$, {front})").fetchall()),
        Case(
            name="dp_query in SQL, group-by",
            run=lambda: con.execute(f"FROM dp_query($${grouped}$$, {front})").fetchall(),
        ),
    ]
    lines = compare(cases, repeat)
    lines += beyond(lines)
    for name, text in (("count", count), ("group-by", grouped)):
        lines += stages(curator, text, name, repeat)
    con.close()
    return Report(title=f"Fixed overhead, table of {workload.size.rows} rows", lines=lines)


def beyond(lines: Sequence[Line]) -> list[Line]:
    """What is left of a private query's time without the disk's and the same query's by hand, or in Python."""
    found, left = {line.name: line for line in lines}, []
    for name, less, most in BEYOND:
        what = " and ".join(f"{n} x {other}" if n > 1 else other for other, n in less.items())
        median, least = (
            getattr(found[name], of) - sum(n * getattr(found[other], of) for other, n in less.items())
            for of in ("median_ms", "least_ms")
        )
        left.append(Line(name=f"  {name}, beyond {what}", median_ms=median, least_ms=least, most_ms=most))
    return left


def stages(curator: Curator, text: str, name: str, repeat: int) -> list[Line]:
    """The way of one statement, stage by stage: what ``Session.sql`` does, less its checks."""
    runs = [_staged(curator, f"{text} -- {i}") for i in range(repeat + 1)][1:]
    return [from_times(f"  {name}: {stage}", [run[i] for run in runs]) for i, stage in enumerate(STAGES)]


def _staged(curator: Curator, text: str) -> list[float]:
    desk, clock = curator.session(ANALYST).desk, [time.perf_counter()]
    plan = price(desk.read(text), Terms(epsilon=EPSILON), desk.neighbours).plan
    clock.append(time.perf_counter())
    task = SelectTask(plan=plan)
    query = task.query(curator.data.salt)
    clock.append(time.perf_counter())
    key = hashlib.sha256(f"{task.canonical}{os.urandom(16).hex()}".encode()).hexdigest()
    request = ChargeRequest(
        analyst=ANALYST,
        key=key,
        loss=task.loss,
        mechanism=task.mechanism,
        parameters=json.dumps(task.parameters),
        statement=text,
        kind="query",
    )
    charge = curator.ledger.admit(request)
    assert isinstance(charge, Charge)
    clock.append(time.perf_counter())
    rows = list(curator.engine.run(query, charge))
    clock.append(time.perf_counter())
    payload = task.release(rows)
    clock.append(time.perf_counter())
    stored = curator.ledger.store_release(charge, payload)
    clock.append(time.perf_counter())
    desk.result(plan, Performed(payload=stored.payload, charge_id=charge.id, stored=False))
    clock.append(time.perf_counter())
    return [end - start for start, end in pairwise(clock)]


def tiny(groups: int) -> Size:
    """The table on which only the overhead is left."""
    return Size(rows=10, units=5, groups=groups)


def _most(workload: Workload, ratio: float) -> float | None:
    """A limit, on tables so large that the fixed overhead does not decide."""
    return ratio if workload.size.rows >= LARGE else None


def _direct(workload: Workload, sql: str) -> Callable[[], object]:
    cursor = workload.cursor()
    return lambda: cursor.execute(sql).fetchall()


def _private(curator: Curator, text: str) -> Callable[[], object]:
    session = curator.session(ANALYST)
    turns = iter(range(10**9))  # a text of its own each time: nothing is parsed, planned or answered before
    return lambda: session.sql(f"{text} -- {next(turns)}", epsilon=EPSILON, fresh=True)


def _fsync(path: str) -> Callable[[], object]:
    return partial(_write_and_sync, path)


def _write_and_sync(path: str) -> None:
    file = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        os.pwrite(file, os.urandom(4096), 0)
        os.fsync(file)
    finally:
        os.close(file)

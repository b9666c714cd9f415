"""Mutation suite: every listed change of a privacy-critical line must make a fast test fail.

    python -m tests.mutants.run                 all that are not settled yet, one at a time
    python -m tests.mutants.run additive ledger only those whose file or name holds one of the words
    python -m tests.mutants.run -k "purse: l1"  only those whose name holds this
    python -m tests.mutants.run --anew          what was settled before as well
    python -m tests.mutants.run --whole         what the named tests let live meets the whole fast suite

Each mutant is the package copied to a folder of its own with one snippet replaced; the tests that are named for it run
there, the one that caught it last first (``caught.json``, written by ``--note``). A mutant whose tests pass has
survived: a test of meaning is missing. Mutants that change nothing that anybody could observe are listed apart, with
the reason (``EQUIVALENT``), and are not run.

Caught means that a test ran and failed: by an assertion, or by an error of the package that the test did not expect,
and that the same test passes where nothing was changed, in the same kind of folder. A test that could not be collected,
a full disk, a limit that was hit are no verdict. Limits are of processor time: a busy machine changes no verdict.

What was found is kept in a file that git does not know (``.mutants/results.jsonl``): a run that was stopped goes on
where it was. What was caught stands as long as the mutant and its file stay what they are, anything else as long as the
files of its tests, and what tests are written with, do too; ``--anew`` believes nothing.

A list of our own, not a library: generators (mutmut, cosmic-ray) make thousands of mutants, most of them in messages,
and each would meet 5,000 tests; here each line was chosen because privacy hangs on it.
"""

from __future__ import annotations

import argparse
import collections
import compileall
import contextlib
import functools
import hashlib
import importlib
import json
import os
import pathlib
import resource
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from tests.mutants.mutant import Mutant
from tests.mutants.mutants import EQUIVALENT, LISTS

ROOT = pathlib.Path(__file__).resolve().parents[2]
RESULTS, PASSES = ROOT / ".mutants" / "results.jsonl", ROOT / ".mutants" / "passes.jsonl"
NOTED = pathlib.Path(__file__).with_name("caught.json")
PARTS = ("duckdp", "tests", "sql", "examples", "pyproject.toml", "README.md", "docs", "LICENSE", "Makefile")
CPU_SECONDS = 900  # of one mutant's tests; several times what the slowest need
WALL_SECONDS = 600  # beside four times the processor's: against a test that waits for ever
#: Imported once, before each mutant's process is forked: more than half of what its tests would take.
SHARED = (
    "duckdb",
    "hypothesis.strategies",
    "numpy",
    "opendp.prelude",
    "pandas",
    "pyarrow",
    "pytest",
    "scipy.optimize",
    "scipy.special",
    "scipy.stats",
    "sqlglot.dialects.duckdb",
)
CAUGHT, ALIVE, UNCLEAR = "caught", "SURVIVED", "NO VERDICT"
#: What a test raises when its surroundings fail it, not the package.
SURROUNDINGS = (OSError, MemoryError, ImportError, SyntaxError, Warning, EOFError, RecursionError)


@dataclass(frozen=True)
class Result:
    """What became of a mutant: by which test, how it failed, and the processor seconds that its tests took."""

    name: str
    fate: str
    test: str
    how: str
    seconds: float
    key: str


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("words", nargs="*", help="only mutants whose list, file or name holds one of these")
    parser.add_argument("-k", dest="part", default="", help="only mutants whose name holds this")
    parser.add_argument("--anew", action="store_true", help="run what is settled as well")
    parser.add_argument("--whole", action="store_true", help="let survivors meet the whole fast suite")
    parser.add_argument("--note", action="store_true", help="write which test caught what to caught.json")
    parser.add_argument("--settled", action="store_true", help="run nothing: confirm and show what was run before")
    parser.add_argument("--unconfirmed", action="store_true", help="leave for later whether tests pass without faults")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--cpu", type=int, default=CPU_SECONDS, help="seconds of processor time for one mutant")
    given = parser.parse_args()
    chosen = [
        m
        for part, mutants in LISTS.items()
        for m in mutants
        if given.part in m.name and (not given.words or any(w in f"{part} {m.file} {m.name}" for w in given.words))
    ]
    settled = {r.key: r for r in ([] if given.anew else _kept())}
    keys = {m.name: (_key(m, with_tests=False), _key(m, with_tests=True)) for m in chosen}
    found = {m.name: settled[k] for m in chosen for k in keys[m.name] if k in settled}
    if given.settled:
        chosen = [m for m in chosen if m.name in found]
    waiting, start = [m for m in chosen if m.name not in found], time.monotonic()
    with _folder() as folder:
        for mutant, fate, test, how, seconds in run(waiting, folder, given):
            print(f"{fate:10} {seconds:6.1f} s  {mutant.name}  [{how or '-'}] {test}", flush=True)
            key = keys[mutant.name][0 if fate == CAUGHT else 1]
            found[mutant.name] = Result(mutant.name, fate, test, how, round(seconds, 1), key)
            _keep(RESULTS, asdict(found[mutant.name]))
        if given.unconfirmed:
            table(chosen, found, time.monotonic() - start)
            return 2
        passing = confirmed({r.test for r in found.values() if r.fate == CAUGHT}, folder)
    for name, result in found.items():
        if result.fate == CAUGHT and result.test not in passing:
            found[name] = replace(result, fate=UNCLEAR, how="fails without the fault too")
    table(chosen, found, time.monotonic() - start)
    if given.note:
        caught = json.loads(NOTED.read_text()) | {r.name: r.test for r in found.values() if r.fate == CAUGHT}
        names = [m.name for mutants in LISTS.values() for m in mutants]
        NOTED.write_text(json.dumps({n: caught[n] for n in names if n in caught}, indent=0, ensure_ascii=False) + "\n")
    return 0 if all(r.fate == CAUGHT for r in found.values()) else 1


@contextlib.contextmanager
def _folder() -> Iterator[pathlib.Path]:
    """What mutants are copies of: the tree as it is now, since work on it goes on."""
    for name in SHARED:
        importlib.import_module(name)
    with tempfile.TemporaryDirectory(prefix="mutants-") as text:
        folder = pathlib.Path(text)
        for part in PARTS:
            copy = shutil.copytree if (ROOT / part).is_dir() else shutil.copy
            copy(ROOT / part, folder / part)
        compileall.compile_dir(folder / "duckdp", quiet=2)  # once for all
        yield folder


def confirmed(tests: Iterable[str], folder: pathlib.Path) -> set[str]:
    """Those of the tests that pass where nothing was changed: what they catch, the fault did."""
    known = {(p["test"], p["of"]) for p in _read(PASSES)}
    marks = {test: _digest([(ROOT / test.partition("::")[0]).read_text(encoding="utf-8")]) for test in tests}
    left = sorted(test for test, mark in marks.items() if (test, mark) not in known)
    if left:
        pid = _fork(None, folder, left, argparse.Namespace(whole=False, cpu=20 * CPU_SECONDS), every=True)
        os.wait4(pid, 0)
        failed, ended = {f["test"] for f in _told(folder, pid)}, (folder / f"{pid}.ended").exists()
        _clear(folder, pid)
        for test in left:
            if ended and test not in failed:
                known.add((test, marks[test]))
                _keep(PASSES, {"test": test, "of": marks[test]})
    return {test for test, mark in marks.items() if (test, mark) in known}


def run(
    mutants: Sequence[Mutant], folder: pathlib.Path, given: argparse.Namespace
) -> Iterator[tuple[Mutant, str, str, str, float]]:
    """What became of each mutant, in a process each, so many at a time: fate, test, how it failed, seconds."""
    noted: dict[str, str] = json.loads(NOTED.read_text())
    waiting, running = list(reversed(mutants)), dict[int, Mutant]()
    try:
        while waiting or running:
            while waiting and len(running) < given.jobs:
                mutant = waiting.pop()
                first = [noted[mutant.name]] if mutant.name in noted else []
                pid = _fork(mutant, folder, [*first, *mutant.tests], given, first=len(first))
                running[pid] = mutant
            pid, status, used = os.wait4(-1, 0)
            if pid not in running:
                continue
            mutant = running.pop(pid)
            fate, test, how = verdict(os.waitstatus_to_exitcode(status), _told(folder, pid))
            _clear(folder, pid)
            yield mutant, fate, test, how, used.ru_utime + used.ru_stime
    finally:
        for pid in running:
            _clear(folder, pid)


def verdict(code: int, failures: Sequence[dict[str, str]]) -> tuple[str, str, str]:
    """Fate, test and how it failed, from pytest's exit code and the failures that were noted.

    >>> verdict(0, [])
    ('SURVIVED', '', '')
    >>> verdict(1, [{"test": "a.py::b", "kind": "assertion", "how": "AssertionError"}])
    ('caught', 'a.py::b', 'AssertionError')
    >>> verdict(1, [{"test": "a.py::b", "kind": "surroundings", "how": "OSError"}])
    ('NO VERDICT', 'a.py::b', 'OSError')
    >>> verdict(-signal.SIGXCPU, [])
    ('NO VERDICT', '', 'SIGXCPU')
    """
    if code == 0:
        return ALIVE, "", ""
    if code < 0:
        return UNCLEAR, "", signal.Signals(-code).name
    if code != 1 or not failures:  # pytest: 1 is "tests failed"; else they could not be run
        return UNCLEAR, failures[0]["test"] if failures else "", f"exit code {code}"
    last = failures[-1]
    return CAUGHT if last["kind"] in ("assertion", "error") else UNCLEAR, last["test"], last["how"]


def table(chosen: Sequence[Mutant], found: dict[str, Result], seconds: float) -> None:
    """Print what is left alive first, then the numbers of each list."""
    for mutant in chosen:
        if found[mutant.name].fate != CAUGHT:
            result = found[mutant.name]
            print(f"\n{result.fate} {mutant.name} ({result.how or 'all passed'} {result.test})")
            print(f"    {mutant.file}: {mutant.old!r} -> {mutant.new!r}")
    print(f"\n{'list':12} {'mutants':>8} {CAUGHT:>8} {ALIVE:>9} {UNCLEAR:>11} {'CPU s':>8}")
    whole: collections.Counter[str] = collections.Counter()
    for name, mutants in LISTS.items():
        results = [found[m.name] for m in mutants if m.name in found]
        fates = collections.Counter(r.fate for r in results) | collections.Counter(
            {"mutants": len(results), "seconds": round(sum(r.seconds for r in results))}
        )
        whole += fates
        if results:
            print(_line(name, fates))
    print(_line("all", whole))
    caught = [r for r in found.values() if r.fate == CAUGHT]
    asserted = sum(r.how in _ASSERTIONS for r in caught)
    print(f"caught by an assertion: {asserted}, by an error that no test expects: {len(caught) - asserted}")
    print(f"equivalent, listed with why: {len(EQUIVALENT)}; this run took {seconds:.0f} s")


def _line(name: str, n: collections.Counter[str]) -> str:
    return f"{name:12} {n['mutants']:8} {n[CAUGHT]:8} {n[ALIVE]:9} {n[UNCLEAR]:11} {n['seconds']:8}"


# ---- what is kept


def _key(mutant: Mutant, *, with_tests: bool) -> str:
    """A result stands as long as this stays."""
    files = [mutant.file, *(sorted({t.partition("::")[0] for t in mutant.tests}) if with_tests else [])]
    parts = [mutant.old, mutant.new, *((ROOT / f).read_text(encoding="utf-8") for f in files)]
    return _digest([*parts, *(_helpers() if with_tests else [])])


@functools.cache
def _helpers() -> tuple[str, ...]:
    """What tests are written with: the cases that they go through among it."""
    files = sorted((ROOT / "tests").rglob("*.py"))
    return tuple(
        f.read_text(encoding="utf-8") for f in files if not f.name.startswith("test_") and f.parent != NOTED.parent
    )


def _digest(parts: Sequence[str]) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:32]


def _kept() -> list[Result]:
    return [Result(**raw) for raw in _read(RESULTS)]


def _read(file: pathlib.Path) -> list[dict[str, Any]]:
    if not file.is_file():
        return []
    return [json.loads(line) for line in file.read_text().splitlines() if line.endswith("}")]


def _keep(file: pathlib.Path, raw: dict[str, Any]) -> None:
    file.parent.mkdir(exist_ok=True)
    with file.open("a") as opened:
        opened.write(json.dumps(raw) + "\n")


# ---- a mutant's process


def _fork(
    mutant: Mutant | None,
    folder: pathlib.Path,
    tests: Sequence[str],
    given: argparse.Namespace,
    *,
    first: int = 0,
    every: bool = False,
) -> int:
    pid = os.fork()
    if not pid:
        _child(mutant, folder, tests, given, first=first, every=every)
    return pid


def _clear(folder: pathlib.Path, pid: int) -> None:
    """End what a mutant's tests left running, and remove its folder."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)
    shutil.rmtree(folder / str(pid), ignore_errors=True)
    for suffix in ("failed", "ended"):
        (folder / f"{pid}.{suffix}").unlink(missing_ok=True)


def _told(folder: pathlib.Path, pid: int) -> list[dict[str, str]]:
    file = folder / f"{pid}.failed"
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


def _child(
    mutant: Mutant | None,
    folder: pathlib.Path,
    tests: Sequence[str],
    given: argparse.Namespace,
    *,
    first: int,
    every: bool,
) -> None:
    """Run a mutant's tests and end this process by pytest's exit code."""
    code = 3
    try:
        os.setpgid(0, 0)
        resource.setrlimit(resource.RLIMIT_CPU, (given.cpu, resource.RLIM_INFINITY))
        signal.alarm(WALL_SECONDS + 4 * given.cpu)
        pathlib.Path("/proc/self/oom_score_adj").write_text("900")
        place = folder / str(os.getpid())
        _plant(mutant, folder, place)
        for name in [n for n in sys.modules if n.split(".")[0] in ("duckdp", "tests")]:
            del sys.modules[name]
        os.chdir(place)
        os.environ |= {"PYTHONPATH": str(place), "PYTHONDONTWRITEBYTECODE": "1"}
        sys.dont_write_bytecode = True
        sys.path[:] = [str(place), *(p for p in sys.path if pathlib.Path(p or ".").resolve() != ROOT)]
        nothing = os.open(os.devnull, os.O_RDWR)
        for stream in (0, 1, 2):
            os.dup2(nothing, stream)
        note = _Note(place.with_suffix(".failed"))
        for these in (
            tests[:first],
            tests[first:],
            ["tests"] if given.whole else [],
        ):  # what is not there any more (4, 5) says nothing yet
            if these and (code := _tested(place, these, note, every=every)) not in (0, 4, 5):
                break
        place.with_suffix(".ended").touch()
    finally:
        os._exit(code)


class _Note:
    """Notes each failure, with what was raised, in a file."""

    def __init__(self, file: pathlib.Path) -> None:
        self._file = file

    def pytest_exception_interact(self, node: Any, call: Any, report: Any) -> None:
        import pytest

        error, kind = call.excinfo.value, "error"
        leaves = _leaves(error)
        if any(isinstance(e, (AssertionError, pytest.fail.Exception)) for e in leaves):
            kind = "assertion"
        elif any(isinstance(e, SURROUNDINGS) for e in leaves) or getattr(report, "when", "") == "collect":
            kind = "surroundings"
        with self._file.open("a") as file:
            file.write(json.dumps({"test": node.nodeid, "kind": kind, "how": type(error).__name__}) + "\n")


_ASSERTIONS = ("AssertionError", "Failed", "ExceptionGroup")


def _leaves(error: BaseException) -> list[BaseException]:
    return [e for part in error.exceptions for e in _leaves(part)] if isinstance(error, BaseExceptionGroup) else [error]


def _tested(place: pathlib.Path, tests: Sequence[str], note: _Note, *, every: bool) -> int:
    import pytest

    options = ["-q", *([] if every else ["-x"]), "-p", "no:cacheprovider", "--rootdir", str(place)]
    quiet = ["-W", "ignore::pytest.PytestAssertRewriteWarning"]
    return int(pytest.main([*options, *quiet, *tests], plugins=[note]))


def _plant(mutant: Mutant | None, folder: pathlib.Path, place: pathlib.Path) -> None:
    place.mkdir()
    shutil.copytree(folder / "duckdp", place / "duckdp")  # with what was compiled, which knows the times of its sources
    # The tests too, by hard links: through a symbolic one their own path would lead to the folder without the fault,
    # and every process that they start would run the package there.
    shutil.copytree(folder / "tests", place / "tests", copy_function=os.link)
    for name in PARTS[2:]:
        os.symlink(folder / name, place / name)
    if mutant is not None:
        target = place / mutant.file
        target.write_text(mutant.applied(target.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())

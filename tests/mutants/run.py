"""Mutation suite: every listed change of a privacy-critical line must make a fast test fail.

    python -m tests.mutants.run                 all, two at a time
    python -m tests.mutants.run additive ledger only those whose file or name holds one of the words
    python -m tests.mutants.run --whole         what the named tests let live meets the whole fast suite

Each mutant is the package copied to a folder of its own with one snippet replaced; the tests that are named for it run
there. A mutant whose tests pass has survived: a test of meaning is missing. Mutants that change nothing that anybody
could observe are listed apart, with the reason (``EQUIVALENT``), and are not run.

A list of our own, not a library: generators (mutmut, cosmic-ray) make thousands of mutants, most of them in messages,
and each would meet 4,000 tests; here each line was chosen because privacy hangs on it.
"""

from __future__ import annotations

import argparse
import compileall
import importlib
import os
import pathlib
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence

from tests.mutants.mutant import Mutant
from tests.mutants.mutants import MUTANTS

ROOT = pathlib.Path(__file__).resolve().parents[2]
SECONDS = 900  # a mutant that hangs its tests is caught
#: Imported once, before each mutant's process is forked: more than half of what its tests would take.
SHARED = (
    "duckdb", "hypothesis.strategies", "numpy", "opendp.prelude", "pandas", "pyarrow", "pytest", "scipy.optimize",
    "scipy.special", "scipy.stats", "sqlglot.dialects.duckdb",
)  # fmt: skip
CAUGHT, ALIVE, BROKEN = "caught", "SURVIVED", "NOT RUN"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("words", nargs="*", help="only mutants whose file or name holds one of these")
    parser.add_argument("--whole", action="store_true", help="let survivors meet the whole fast suite")
    parser.add_argument("--jobs", type=int, default=2)
    given = parser.parse_args()
    chosen = [m for m in MUTANTS if not given.words or any(w in f"{m.file} {m.name}" for w in given.words)]
    for name in SHARED:
        importlib.import_module(name)
    start, found = time.monotonic(), {}
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        for mutant, fate, seconds in run(chosen, pathlib.Path(folder), given.jobs, whole=given.whole):
            found[mutant.name] = fate
            print(f"{fate:8} {seconds:6.1f} s  {mutant.name}", flush=True)
    left = [m for m in chosen if found[m.name] != CAUGHT]
    print(f"{len(chosen) - len(left)} of {len(chosen)} mutants caught in {time.monotonic() - start:.0f} s")
    for mutant in left:
        print(f"{found[mutant.name]} {mutant.name}: {mutant.file}: {mutant.old!r} -> {mutant.new!r}")
    return 1 if left else 0


def run(
    mutants: Sequence[Mutant], folder: pathlib.Path, jobs: int, *, whole: bool
) -> Iterator[tuple[Mutant, str, float]]:
    """What became of each mutant, in a process each, so many at a time; and its seconds."""
    package = pathlib.Path(shutil.copytree(ROOT / "duckdp", folder / "duckdp"))
    compileall.compile_dir(package, quiet=2)  # once for all
    waiting, running = list(reversed(mutants)), dict[int, tuple[Mutant, float]]()
    while waiting or running:
        while waiting and len(running) < jobs:
            mutant = waiting.pop()
            pid = os.fork()
            if not pid:
                _child(mutant, package, folder / str(os.getpid()), whole)
            running[pid] = mutant, time.monotonic()
        pid, status = os.wait()
        mutant, begun = running.pop(pid)
        shutil.rmtree(folder / str(pid), ignore_errors=True)
        code = os.waitstatus_to_exitcode(status)  # pytest: 1 is "tests failed"; else they could not be run
        fate = ALIVE if code == 0 else CAUGHT if code in (1, -signal.SIGALRM) else BROKEN
        yield mutant, fate, time.monotonic() - begun


def _child(mutant: Mutant, package: pathlib.Path, place: pathlib.Path, whole: bool) -> None:
    """Run a mutant's tests and end this process by pytest's exit code."""
    signal.alarm(SECONDS)
    _plant(mutant, package, place)
    for name in [n for n in sys.modules if n.split(".")[0] in ("duckdp", "tests")]:
        del sys.modules[name]
    os.chdir(place)
    os.environ |= {"PYTHONPATH": str(place), "PYTHONDONTWRITEBYTECODE": "1"}
    sys.dont_write_bytecode = True
    sys.path[:] = [str(place), *(p for p in sys.path if pathlib.Path(p or ".").resolve() != ROOT)]
    nothing = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(nothing, stream)
    code = 3
    try:
        code = _tested(place, mutant.tests)
        if code == 0 and whole:
            code = _tested(place, ("tests",))
    finally:
        os._exit(code)


def _tested(place: pathlib.Path, tests: tuple[str, ...]) -> int:
    import pytest

    return int(
        pytest.main(
            [
                "-q",
                "-x",
                "-p",
                "no:cacheprovider",
                "-W",
                "ignore::pytest.PytestAssertRewriteWarning",
                "--rootdir",
                str(place),
                *tests,
            ]
        )
    )


def _plant(mutant: Mutant, package: pathlib.Path, place: pathlib.Path) -> None:
    place.mkdir()
    shutil.copytree(package, place / "duckdp")  # with what was compiled, which knows the times of its sources
    for name in ("tests", "sql", "examples", "pyproject.toml", "README.md"):
        os.symlink(ROOT / name, place / name)
    target = place / mutant.file
    target.write_text(mutant.applied(target.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())

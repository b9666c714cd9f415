"""Mutation suite: every listed change of a privacy-critical line must make a fast test fail.

    python tests/mutants/run.py                 all, two at a time
    python tests/mutants/run.py additive ledger only those whose file or name holds one of the words
    python tests/mutants/run.py --whole         what the named tests let live meets the whole fast suite

Each mutant is the package copied to a folder of its own with one snippet replaced; the tests that are named for it run
there. A mutant whose tests pass has survived: a test of meaning is missing. Mutants that change nothing that anybody
could observe are listed apart, with the reason (``EQUIVALENT``), and are not run.

A list of our own, not a library: generators (mutmut, cosmic-ray) make thousands of mutants, most of them in messages and
costs of no privacy concern, and each would meet 4,000 tests; here each line was chosen because privacy hangs on it.
"""

from __future__ import annotations

import argparse
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor

ROOT = pathlib.Path(__file__).resolve().parents[2]
if __package__ in (None, ""):  # run as a script
    sys.path.insert(0, str(ROOT))

from tests.mutants.mutant import Mutant
from tests.mutants.mutants import MUTANTS

SECONDS = 900  # a mutant that hangs its tests is caught


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("words", nargs="*", help="only mutants whose file or name holds one of these")
    parser.add_argument("--whole", action="store_true", help="let survivors meet the whole fast suite")
    parser.add_argument("--jobs", type=int, default=2)
    given = parser.parse_args()
    chosen = [m for m in MUTANTS if not given.words or any(w in f"{m.file} {m.name}" for w in given.words)]
    with ThreadPoolExecutor(given.jobs) as pool:
        alive = [m for m, dead in zip(chosen, pool.map(lambda m: is_caught(m, whole=given.whole), chosen)) if not dead]
    print(f"{len(chosen) - len(alive)} of {len(chosen)} mutants caught")
    for mutant in alive:
        print(f"SURVIVED {mutant.name}: {mutant.file}: {mutant.old!r} -> {mutant.new!r}")
    return 1 if alive else 0


def is_caught(mutant: Mutant, *, whole: bool = False) -> bool:
    """Whether a test fails on the mutant."""
    start = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="mutant-") as folder:
        place = pathlib.Path(folder) / "tree"
        _plant(mutant, place)
        code = _test(place, mutant.tests)
        if code == 0 and whole:
            code = _test(place, ("tests",))
    # pytest: 1 is "tests failed", 2 an error of collection (the mutant broke an import); anything else is our mistake
    if code not in (0, 1, 2):
        raise SystemExit(f"{mutant.name}: its tests could not be run (pytest exit {code})")
    print(f"{'caught  ' if code else 'SURVIVED'} {time.monotonic() - start:6.1f} s  {mutant.name}", flush=True)
    return code != 0


def _plant(mutant: Mutant, place: pathlib.Path) -> None:
    place.mkdir()
    shutil.copytree(ROOT / "duckdp", place / "duckdp", ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("tests", "sql", "examples", "pyproject.toml", "README.md"):
        os.symlink(ROOT / name, place / name)
    target = place / mutant.file
    target.write_text(mutant.applied(target.read_text(encoding="utf-8")), encoding="utf-8")


def _test(place: pathlib.Path, tests: tuple[str, ...]) -> int:
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "--rootdir", str(place), *tests]
    environment = os.environ | {"PYTHONPATH": str(place), "PYTHONDONTWRITEBYTECODE": "1"}
    try:
        done = subprocess.run(
            command, cwd=place, env=environment, timeout=SECONDS, capture_output=True, check=False
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return 1
    return done.returncode


if __name__ == "__main__":
    sys.exit(main())

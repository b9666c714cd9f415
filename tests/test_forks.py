"""Children of a process that queries in eight threads: none hangs or crashes, and none touches what is its parent's."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


def fork(folder: Path, times: int, seconds: int) -> str:
    # with more threads, OpenBLAS may leave a thread of the parent hanging that computes as another one forks
    environment = os.environ | {"PYTHONPATH": str(ROOT), "OPENBLAS_NUM_THREADS": "1"}
    command = [
        sys.executable,
        "-X",
        "faulthandler",
        "-W",
        "ignore",
        "-m",
        "tests.forking",
        str(folder),
        str(times),
        "1",
    ]
    done = subprocess.run(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=environment,
        cwd=ROOT,
        timeout=seconds,
        check=False,
    )
    return "".join(done.stdout.splitlines(keepends=True)[-60:])


@pytest.mark.slow
def test_children_of_a_busy_process(tmp_path: Path) -> None:
    assert fork(tmp_path, 5, 900) == "5 of 5 children ended well\n"


@pytest.mark.slow
def test_a_hundred_children_of_a_busy_process(tmp_path: Path) -> None:
    assert fork(tmp_path, 100, 5400) == "100 of 100 children ended well\n"

"""What the command-line tests share: a small clinic, an in-process runner, a fresh process, the demo run once."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import duckdb
import pytest
from click.testing import CliRunner, Result

from duckdp.cli import main

ROOT = Path(__file__).parent.parent.parent
PROTECT_LINE = (
    "--unit-key patient --max-rows 4 --max-groups 1 --row-cap 100000 --expected-rows 4000 --bound age=0:110 "
    "--bound cost=0:500 --domain sex=F,M --column city"
)
PROTECT = PROTECT_LINE.split()

Run = Callable[..., Result]
Process = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def run() -> Run:
    """``duckdp`` in this process."""

    def call(*arguments: object, text: str | None = None) -> Result:
        return CliRunner().invoke(main, [str(a) for a in arguments], input=text)

    return call


def environment(**more: str) -> dict[str, str]:
    """For a fresh process that finds this checkout, without colour."""
    path = os.pathsep.join(p for p in (str(ROOT), os.environ.get("PYTHONPATH")) if p)
    return {**os.environ, "PYTHONPATH": path, "NO_COLOR": "1", **more}


@pytest.fixture(scope="session")
def process() -> Process:
    """``duckdp`` in a process of its own, warnings as errors, without a terminal."""

    def call(*arguments: object, cwd: Path, text: str = "") -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-W", "error", "-m", "duckdp", *(str(a) for a in arguments)]
        return subprocess.run(
            command, cwd=cwd, input=text, capture_output=True, text=True, timeout=120, env=environment(), check=False
        )

    return call


def run_code(code: str, folder: Path) -> str:
    """What a fresh Python process prints that runs ``code`` in ``folder``; it must succeed."""
    command = [sys.executable, "-c", code]
    done = subprocess.run(
        command, cwd=folder, env=environment(), capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """An unprotected clinic."""
    path = tmp_path / "clinic.duckdb"
    with duckdb.connect(str(path)) as con:
        con.execute(
            "CREATE TABLE visits AS SELECT (i % 1000)::INT AS patient, (i % 90)::INT AS age, "
            "(i % 400)::DOUBLE AS cost, CASE WHEN i % 2 = 0 THEN 'F' ELSE 'M' END AS sex, "
            "'c' || (i % 3) AS city FROM range(4000) r(i)"
        )
    return path


@pytest.fixture
def clinic(file: Path, run: Run) -> Path:
    """A protected clinic with budget 5 and ana's 2."""
    for arguments in (
        ["protect", file, "visits", *PROTECT],
        ["budget", file, "--epsilon", "5", "--delta", "1e-5"],
        ["grant", file, "ana", "--epsilon", "2", "--delta", "1e-6"],
    ):
        done = run(*arguments)
        assert done.exit_code == 0, done.output
    return file


@pytest.fixture(scope="session")
def demo(tmp_path_factory: pytest.TempPathFactory, process: Process) -> tuple[Path, str]:
    """The demo's folder and what it printed."""
    place = tmp_path_factory.mktemp("demo")
    done = process("demo", "--folder", "story", cwd=place)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return place / "story", done.stdout

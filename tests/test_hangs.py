"""A test that hangs ends its worker with a traceback of every thread: the others still report, and the run fails."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
HANGING = """
    import threading

    def test_before():
        pass

    def test_hangs():
        def waits_for_nothing():
            threading.Event().wait()

        waits_for_nothing()

    def test_after():
        pass
"""


def run(folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """The run of a file of tests, one of which hangs, under our options with a shorter limit."""
    (folder / "test_three.py").write_text(textwrap.dedent(HANGING))
    command = [sys.executable, "-m", "pytest", "-c", str(ROOT / "pyproject.toml"), "--rootdir", str(folder)]
    command += ["-p", "no:cacheprovider", "-o", "faulthandler_timeout=3", *options, "-v", "test_three.py"]
    plain = {k: v for k, v in os.environ.items() if not k.startswith("PYTEST_")}  # of the run that this test is in
    return subprocess.run(command, cwd=folder, env=plain, capture_output=True, text=True, timeout=600)


def test_a_hanging_test_ends_and_the_others_report(tmp_path: Path) -> None:
    found = run(tmp_path, "-n", "2")
    shown = found.stdout + found.stderr
    assert found.returncode == 1, shown
    assert "1 failed, 2 passed" in found.stdout, shown
    assert "crashed while running 'test_three.py::test_hangs'" in found.stdout, shown
    assert "in waits_for_nothing" in shown, shown  # the traceback says where


def test_the_limit_is_set(pytestconfig: pytest.Config) -> None:
    assert float(pytestconfig.getini("faulthandler_timeout")) > 0
    assert pytestconfig.getini("faulthandler_exit_on_timeout") is True

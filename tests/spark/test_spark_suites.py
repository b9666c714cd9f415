"""Suites of attacks, and neighbours through the whole path, over rows in Spark: run as they are, by a plugin."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.spark.everywhere import NOT_THERE

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]
ROOT = Path(__file__).resolve().parents[2]
#: Files whose tests go through a session in this process; the least number of sources that each opens.
SUITES = {
    "tests/adversary/test_planted_secrets.py": 20,
    "tests/adversary/test_identity.py": 10,
    "tests/adversary/test_escapes.py": 3,
    "tests/adversary/test_injection.py": 1,
    "tests/adversary/test_costly.py": 1,
    "tests/adversary/test_more_attacks.py": 2,
    "tests/adversary/test_relational_attacks.py": 2,
}


@pytest.mark.parametrize("suite", SUITES)
def test_a_suite_holds_over_rows_in_spark(suite: str) -> None:
    path = os.pathsep.join([str(ROOT), *filter(None, sys.path)])
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "tests.spark.everywhere", suite]
    done = subprocess.run(
        command, cwd=ROOT, env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout[-4000:]
    opened = re.search(r"opened over Spark: (\d+)", done.stdout)
    assert opened is not None, "the plugin was not there"
    assert int(opened[1]) >= SUITES[suite], "it ran on one machine"


def test_what_is_left_out_is_there() -> None:
    """Each name that is left out is of a test or a file, so that none is left out for ever by a name of before."""
    files = {str(file.relative_to(ROOT)): file.read_text() for file in ROOT.glob("tests/*/test_*.py")}
    for name in NOT_THERE:
        if name.endswith(".py"):
            assert f"tests/{name}" in files, name
        else:
            assert any(f"def {name}(" in text for text in files.values()), name

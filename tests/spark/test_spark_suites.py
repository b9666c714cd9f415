"""Every suite of attacks and of privacy that goes through a session, over rows in Spark: run as they are, by a plugin.

Of audits it sets how often each table is asked (``DUCKDP_RUNS``), by what tells the twins: a lower bound of epsilon at
a chance of 10^-9 tells a unit whose rows all count, and a tenth of the noise, from 600 answers of each table; half of
the noise from 4,000 (it was 1.46 at least in 20 simulated audits of counts, where 1 is claimed; from 3,000 1.32, from
2,000 .87); of counts in groups, which are left out, not always. More would tell nothing of Spark: noise is drawn by the
curator, the same for every engine.

Where a read follows from noise, each is another job, and none is remembered: these have 300, of which the same bound
comes to 1.84 for tables that every answer tells apart, and came to 1.63 at least for twins of statistics (.70 for those
of MWEM, which have 600).
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.spark.everywhere import NOT_THERE

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]
ROOT = Path(__file__).resolve().parents[2]
LEAST, FEW, MANY = 300, 600, 4000  # answers of each table, of an audit; see above


@dataclass(frozen=True, kw_only=True)
class Suite:
    """What is run of a file.

    Attributes:
        least: sources that it opens.
        runs: answers of each table, where it is an audit.
        test: the one of its tests that opens any; empty: all are run.
    """

    least: int
    runs: int = FEW
    test: str = ""


SUITES = {
    "tests/adversary/test_planted_secrets.py": Suite(least=20),
    "tests/adversary/test_identity.py": Suite(least=10),
    "tests/adversary/test_escapes.py": Suite(least=3),
    "tests/adversary/test_injection.py": Suite(least=1),
    "tests/adversary/test_costly.py": Suite(least=1),
    "tests/adversary/test_more_attacks.py": Suite(least=2),
    "tests/adversary/test_relational_attacks.py": Suite(least=2),
    "tests/privacy/test_blocks_privacy.py": Suite(least=12),
    "tests/privacy/test_bounds_privacy.py": Suite(least=14),
    "tests/privacy/test_end_to_end.py": Suite(least=30, runs=MANY),
    "tests/privacy/test_kmeans_privacy.py": Suite(least=10, runs=LEAST),
    "tests/privacy/test_mwem_privacy.py": Suite(least=6),
    "tests/privacy/test_pmw_privacy.py": Suite(least=8),
    "tests/privacy/test_statistics_privacy.py": Suite(least=18, runs=LEAST),
    "tests/privacy/test_summary_privacy.py": Suite(least=6, test="test_through_the_sql_function"),
}


@pytest.mark.parametrize("suite", SUITES)
def test_a_suite_holds_over_rows_in_spark(suite: str) -> None:
    path = os.pathsep.join([str(ROOT), *filter(None, sys.path)])
    known = SUITES[suite]
    what = f"{suite}::{known.test}" if known.test else suite
    options = ["-q", "-p", "no:cacheprovider", "-p", "tests.spark.everywhere", "-m", "slow or not slow"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options, what],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": path, "DUCKDP_RUNS": str(known.runs)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-4000:]
    opened = re.search(r"opened over Spark: (\d+)", done.stdout)
    assert opened is not None, "the plugin was not there"
    assert int(opened[1]) >= known.least, "it ran on one machine"


def test_what_is_left_out_is_there() -> None:
    """Each name that is left out is of a test or a file, so that none is left out for ever by a name of before."""
    files = {str(file.relative_to(ROOT)): file.read_text() for file in ROOT.glob("tests/*/test_*.py")}
    for name in NOT_THERE:
        file, _, test = name.partition("::") if "::" in name or name.endswith(".py") else ("", "", name)
        texts = [text for path, text in files.items() if path == f"tests/{file}" or not file]
        assert texts, name
        assert any(f"def {test.partition('[')[0]}(" in text for text in texts) or not test, name


def test_no_suite_that_goes_through_a_session_is_forgotten() -> None:
    """Each file of both folders that opens a source, by itself or by a helper, is run or left out by name."""
    for folder in ("adversary", "privacy"):
        for file in sorted((ROOT / "tests" / folder).glob("test_*.py")):
            name = f"{folder}/{file.name}"
            told = (f"tests/{name}" in SUITES) + (name in NOT_THERE)
            assert told == _opens(file, set()), name


def _opens(file: Path, seen: set[Path]) -> bool:
    """Whether a file of the tests, or one that it imports, opens a source."""
    seen.add(file)
    text = file.read_text()
    if "duckdp.open(" in text:
        return True
    names = re.findall(r"^ *from (tests[\w.]*) import (\w+)", text, re.MULTILINE)
    near = {ROOT / f"{name.replace('.', '/')}.py" for module, part in names for name in (module, f"{module}.{part}")}
    return any(_opens(one, seen) for one in near if one.exists() and one not in seen)

"""Each example runs by itself in an empty folder and prints what it promises."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
EXPECTED = {
    "01_first_query.py": [" ± ", "cost: epsilon=0.5 (charge 1)", "expected error (95%)"],
    "02_budget.py": ["B101: ", "B105: ", "cost: nothing", "epsilon=0.1 left"],
    "03_smooth_summary.py": ["mean of age", "epsilon=1"],
    "04_synthetic.py": ["people.parquet", "visits"],
    "05_dashboard.py": ["epsilon=2", "#", "free"],
    "06_kernel_density.py": ["density of age", "soft bins", "skewness", "epsilon=1"],
    "07_regression.py": ["largest standard error", "visits a year at age 64", "epsilon=2"],
}


def test_every_example_is_tested() -> None:
    assert sorted(p.name for p in (ROOT / "examples").glob("*.py")) == sorted(EXPECTED)


@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_example(name: str, tmp_path: Path) -> None:
    file = ROOT / "examples" / name
    assert file.read_text().count("\n") < 60
    path = os.pathsep.join(p for p in (str(ROOT), os.environ.get("PYTHONPATH")) if p)
    done = subprocess.run(
        [sys.executable, "-W", "error", str(file)], cwd=tmp_path, capture_output=True, text=True, timeout=60,
        check=False, env={**os.environ, "PYTHONPATH": path},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    for part in EXPECTED[name]:
        assert part in done.stdout, part

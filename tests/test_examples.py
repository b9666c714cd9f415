"""All examples run one after the other in one folder, and each prints what it promises."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
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
    "08_dashboard_file.py": ["first calls a month", "visits a year", "who called", " ± "],
}
PICTURES = {"08_dashboard_file.py": "dashboard.png"}
LEAST_DRAWN = 0.15  # of a picture's points


def test_every_example_is_tested() -> None:
    assert sorted(p.name for p in (ROOT / "examples").glob("*.py")) == sorted(EXPECTED)


def test_no_two_examples_share_a_ledger() -> None:
    """Also where the examples run in any order, or in several processes."""
    texts = [p.read_text() for p in sorted((ROOT / "examples").glob("*.py"))]
    ledgers = [set(re.findall(r"[\w./]+\.ledger", text)) for text in texts]
    assert all(len(names) == 1 for names in ledgers)
    assert len(set.union(*ledgers)) == len(texts)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One folder for all."""
    return tmp_path_factory.mktemp("examples")


@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_example(name: str, folder: Path) -> None:
    file = ROOT / "examples" / name
    assert file.read_text().count("\n") < 60
    path = os.pathsep.join(p for p in (str(ROOT), os.environ.get("PYTHONPATH")) if p)
    done = subprocess.run(
        [sys.executable, "-W", "error", str(file)],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        env={**os.environ, "PYTHONPATH": path},
    )
    assert done.returncode == 0, done.stderr
    for part in EXPECTED[name]:
        assert part in done.stdout, part
    if name in PICTURES:
        assert drawn(folder / PICTURES[name]) > LEAST_DRAWN


def drawn(path: Path) -> float:
    """Share of a PNG's points that are not white; needs matplotlib, as the example does."""
    from matplotlib.image import imread

    points = imread(path)
    assert points.shape[0] >= 300
    assert points.shape[1] >= 1000
    return float(np.mean(np.any(points[..., :3] < 0.99, axis=-1)))


def test_pictures_of_the_readme_show_something(tmp_path: Path) -> None:
    from matplotlib import pyplot

    assert drawn(ROOT / "examples" / "pictures" / "dashboard.png") > LEAST_DRAWN
    figure, axes = pyplot.subplots(1, 3, figsize=(15, 4))  # the check can fail: axes with nothing in them
    for axis in axes:
        axis.set(title="first calls a month, by topic", xticks=range(12))
    figure.savefig(tmp_path / "empty.png", dpi=110)
    pyplot.close(figure)
    assert drawn(tmp_path / "empty.png") < LEAST_DRAWN / 2

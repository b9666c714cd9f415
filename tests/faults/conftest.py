"""The interposed library, compiled once a run."""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.library import build

if sys.platform != "linux":  # the library stands before glibc's calls
    collect_ignore_glob = ["test_*.py"]

MEMORY = Path("/dev/shm")


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The compiled library."""
    return build(tmp_path_factory.mktemp("faults"))


@pytest.fixture
def folder() -> Iterator[Path]:
    """An empty folder, in memory where there is one: what a real sync takes tells nothing here."""
    made = Path(tempfile.mkdtemp(prefix="duckdp-faults-", dir=MEMORY if MEMORY.is_dir() else None))
    yield made.resolve()
    shutil.rmtree(made)

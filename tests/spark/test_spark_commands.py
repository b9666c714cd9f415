"""The command line and the server over rows in Spark: the address of a cluster names its tables."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from urllib.parse import quote

import pyarrow as pa
import pytest

from duckdp.client import connect
from duckdp.serve.serving import users_beside
from tests.serve.conftest import PASSWORD, start
from tests.spark.clusters import cluster, write_rows

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]
ROWS = pa.table({"pid": list(range(500)), "age": [i % 80 for i in range(500)]})


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """An address with its tables; what is set for the session is in the file that Spark reads."""
    folder = tmp_path_factory.mktemp("commands")
    settings = folder / "conf"
    settings.mkdir()
    told = {"spark.driver.bindAddress": "127.0.0.1", "spark.driver.host": "127.0.0.1"}
    (settings / "spark-defaults.conf").write_text("".join(f"{name} {value}\n" for name, value in told.items()))
    path = write_rows(folder / "people", ROWS, 2)
    before = dict(os.environ)
    here = os.pathsep.join([str(Path(__file__).resolve().parents[2]), *filter(None, sys.path)])
    os.environ |= {"SPARK_CONF_DIR": str(settings), "PYTHONPATH": here, "PYSPARK_PYTHON": sys.executable}
    try:
        with cluster(folder / "work") as address:
            yield f"{address}?people={quote(path)}"
    finally:
        os.environ.clear()
        os.environ.update(before)


def run(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "duckdp", *words], capture_output=True, text=True, check=False)


def test_commands_and_the_server_answer_of_rows_in_spark(source: str, tmp_path: Path) -> None:
    ledger = str(tmp_path / "a.ledger")
    where = ("--ledger", ledger)
    terms = ("--unit-key", "pid", "--max-rows", "1", "--row-cap", "1000", "--bound", "age=0:100")
    for words in (
        ("protect", source, "people", *terms, *where),
        ("budget", source, "--epsilon", "50", *where),
        ("grant", source, "ana", "--epsilon", "50", *where),
    ):
        done = run(*words)
        assert done.returncode == 0, done.stderr
    asked = ("--analyst", "ana", "--epsilon", "5", "--format", "csv", *where)
    answered = run("query", source, "SELECT count(*) AS n FROM people", *asked)
    assert answered.returncode == 0, answered.stderr
    assert 480 < float(answered.stdout.splitlines()[1].split(",")[0]) < 520
    explained = run("explain", source, "SELECT count(*) AS n FROM people", *asked[:4], *where)
    assert "parts by a hash of the unit's key" in explained.stdout
    refused = run("query", source, "SELECT count(DISTINCT age) AS n FROM people", *asked)
    assert refused.returncode == 1
    assert re.search(r"^Q405: ", refused.stderr, re.MULTILINE)  # what Java says while it starts comes before it
    users_beside(ledger).add("ana", PASSWORD)
    server = start(source, ledger)
    try:
        with closing(connect(f"postgres://ana@127.0.0.1:{server.port}/d", password=PASSWORD, epsilon=5)) as con:
            cursor = con.cursor()
            cursor.execute("SELECT count(*) AS n FROM people WHERE age < 40")
            assert 220 < float(cursor.fetchall()[0][0]) < 300
            cursor.execute("SELECT count(*) AS n FROM people")  # bought above by the command line: free here
            assert 480 < float(cursor.fetchall()[0][0]) < 520
    finally:
        assert server.stop() == 0
    assert run("budget", source, *where).stdout.count("\n")

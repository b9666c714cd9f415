"""Bytes of a source changed at random: it is refused before any charge, or every paid read succeeds.

An engine that reads such bytes might end its process, so they are read in another one.
"""

from __future__ import annotations

import random
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest

from tests.adversary import hostile

ROOT = Path(__file__).resolve().parents[2]
TIMES = ("short", 6), pytest.param("long", 300, marks=pytest.mark.slow)
FIRST = {"short": 0, "long": 1000}  # seeds
ABOUT = ("s", "d"), ("i",), ("ts", "b", "s"), ("x",)


def good_bytes(kind: str, folder: Path) -> bytes:
    """A source without fault."""
    if kind == "database":
        return Path(hostile.make(folder, "CREATE INDEX by_i ON t (i)", rows=2000)).read_bytes()
    columns = hostile.good()
    if kind == "plain":
        path = hostile.write(folder, columns, use_dictionary=False, compression="snappy", data_page_version="2.0")
    elif kind == "dictionary":
        path = hostile.write(folder, columns)
    else:
        path = str(folder / "t.parquet")
        with duckdb.connect() as con:
            con.register("frame", pa.table(columns))
            con.execute(f"COPY frame TO '{path}'")
    return Path(path).read_bytes()


def changed(content: bytes, seed: int) -> bytes:
    """Some bytes of it flipped, blanked or drawn; of a database those of its headers and used blocks alike."""
    draw, found = random.Random(seed), bytearray(content)
    for _ in range(draw.choice([1, 1, 1, 2, 8])):
        headers = len(found) > 100_000 and draw.random() < 0.3
        place = draw.randrange(12_288) if headers else draw.randrange(len(found))
        found[place] = draw.choice([found[place] ^ (1 << draw.randrange(8)), draw.randrange(256), 0, 255])
    return bytes(found)


def attempt(kind: str, first: int, times: int) -> None:
    """In the other process: say what becomes of each."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        content = good_bytes(kind, folder)
        for seed in range(first, first + times):
            place = folder / str(seed)
            place.mkdir()
            path = place / ("t.duckdb" if kind == "database" else "t.parquet")
            path.write_bytes(changed(content, seed))
            errors = hostile.outcome(str(path), place, about=ABOUT[seed % len(ABOUT)])
            print(seed, *sorted({e.code for e in errors}) or ["read"], flush=True)


@pytest.mark.parametrize("kind", ["plain", "dictionary", "duckdb", "database"])
@pytest.mark.parametrize(("form", "times"), TIMES)
def test_changed_bytes_never_fail_a_paid_read(kind: str, form: str, times: int) -> None:
    code = f"from tests.adversary.test_hostile_bytes import attempt\nattempt({kind!r}, {FIRST[form]}, {times})"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, (done.stdout.splitlines()[-1:], done.stderr[-2000:])
    told = Counter(line.split(maxsplit=1)[1] for line in done.stdout.splitlines())
    assert sum(told.values()) == times
    assert set(told) <= {"C108", "C105", "read"}, told
    assert form == "short" or min(told["C108"], told["read"]) > times / 50, told

"""A world with planted secrets: cells, keys and numbers of rows that must never be seen outside a released value."""

from __future__ import annotations

import re
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import duckdb
import pytest

import duckdp
from duckdp import Session
from duckdp.errors import DuckDPError

ROWS = 4861  # a prime: seen in an error text, it was leaked
PERSONS = 1627
SECRETS = ("alice_7f3", "Zanzibar", "918273", "31415.9", "1987-06-05", str(ROWS), str(PERSONS), "8675309")
BOUNDS = {"age": (0, 110), "cost": (0, 5000), "born": ("1900-01-01", "2020-12-31")}


@dataclass(frozen=True)
class World:
    """A data owner's file and ledger, and who is let in."""

    path: Path
    ledger: Path
    curator: duckdp.Curator

    def open(self) -> duckdp.Curator:
        """A further curator of the same data and ledger."""
        return duckdp.open(self.path, ledger=self.ledger)

    def charges(self) -> int:
        """Charges so far."""
        return len(self.curator.ledger.charges())


def make_file(path: Path, rows: int = ROWS, persons: int = PERSONS) -> None:
    with duckdb.connect(str(path)) as con:
        con.execute(
            f"CREATE TABLE visits AS SELECT 8675309 + i % {persons} AS patient_id, "
            "CAST(20 + i % 60 AS INTEGER) AS age, "
            "CASE WHEN i = 7 THEN 31415.9 ELSE CAST(i * 7 % 5000 AS DOUBLE) END AS cost, ['F', 'M'][1 + i % 2] AS sex, "
            "CASE WHEN i % 9 = 0 THEN 'alice_7f3' ELSE 'n' || (i % 4) END AS name, "
            "CASE WHEN i = 11 THEN 'Zanzibar' ELSE 'Bern' END AS town, DATE '1987-06-05' AS born, 918273 AS code "
            f"FROM range({rows}) AS t(i)"
        )


def protect(curator: duckdp.Curator) -> None:
    curator.protect(
        "visits",
        unit_key="patient_id",
        max_rows=4,
        row_cap=100_000,
        expected_rows=5000,
        bounds=BOUNDS,
        domains={"sex": ["F", "M"]},
        columns=["name", "town", "code"],
    )


def make_world(folder: Path) -> Iterator[World]:
    path, ledger = folder / "clinic.duckdb", folder / "clinic.ledger"
    make_file(path)
    with duckdp.open(path, ledger=ledger) as curator:
        protect(curator)
        curator.budget(epsilon=100, delta="1e-5")
        curator.grant("ana", epsilon=50, delta="1e-6")
        curator.grant("bob", epsilon=50, delta="1e-6")
        yield World(path, ledger, curator)


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    yield from make_world(tmp_path)


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """One world for all refusals of a module, where nothing is charged."""
    yield from make_world(tmp_path_factory.mktemp("shared"))


@pytest.fixture
def ana(world: World) -> Session:
    return world.curator.session("ana")


@pytest.fixture
def con(world: World) -> duckdb.DuckDBPyConnection:
    return world.curator.connect("ana")


def everything(error: BaseException) -> str:
    """All that a traceback, a debugger or a log of the error could show, its past included."""
    parts, seen, queue = ["".join(traceback.format_exception(error))], set(), [error]
    while queue:
        one = queue.pop()
        if id(one) in seen:
            continue
        seen.add(id(one))
        parts += [str(one), repr(one), repr(one.args), repr(vars(one))]
        parts += [repr(frame.f_locals) for frame, _ in traceback.walk_tb(one.__traceback__) if _ours(frame)]
        queue += [e for e in (one.__cause__, one.__context__) if e is not None]
    return "\n".join(parts)


def _ours(frame: object) -> bool:
    return "/duckdp/" in frame.f_code.co_filename  # type: ignore[attr-defined]


def leaks(text: str) -> list[str]:
    """Secrets in a text."""
    # digits also occur in addresses and digests, and those of a number of rows in a clock's seconds (4861.25, where a
    # number of rows would be 4861 or 4861.0) and in the folders that pytest numbers
    return [
        s for s in SECRETS if re.search(rf"(?<![0-9A-Za-z])(?<!/pytest-){re.escape(s)}(?![0-9A-Za-z]|\.\d*[1-9])", text)
    ]


@pytest.fixture
def refused(capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture) -> Iterator[Callable]:
    """Run something that must fail with one of the codes, and show no secret anywhere."""

    def run(work: Callable[[], object], *codes: str) -> BaseException:
        with pytest.raises((DuckDPError, duckdb.Error)) as caught:
            work()
        text = everything(caught.value)
        assert not leaks(text), text
        if codes:
            found = getattr(caught.value, "code", str(caught.value))
            assert any(code in found for code in codes), found
        return caught.value

    yield run
    out, err = capfd.readouterr()
    assert not leaks(out + err + caplog.text)

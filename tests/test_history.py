"""The history as the owner reads it: in a terminal, as a Result, as files that DuckDB reads."""

from __future__ import annotations

import datetime as dt
import itertools
import json
import os
import re
import sqlite3
import stat
import subprocess
import sys
from collections import Counter
from decimal import Decimal
from pathlib import Path

import duckdb
import pexpect
import pytest
from click.testing import CliRunner

import duckdp
from duckdp.cli import main
from duckdp.errors import DuckDPError
from duckdp.faces import exporting
from duckdp.faces.exporting import COLUMNS
from duckdp.ledger import Ledger, history
from tests.ledgers import ask, set_up
from tests.statements import make_clinic
from tests.test_ledger_full_disk import full_at

ROOT = Path(__file__).resolve().parents[1]
HOSTILE = (
    '=HYPERLINK("http://x","y")',
    "+1",
    "-1+2",
    "@SUM(A1)",
    "\t=1",
    "\x1b[2J\x1b]0;owned\x07",
    'a\nb,"c"',
    "\r=1",
    "\u202eevil",
    "NULL",
    "",
    "'",
    "é\U0001f986",
    "\ud800",
    "\x00",
)


@pytest.fixture
def clinic(tmp_path: Path) -> str:
    """A clinic with three charges, acts, and statements of every kind."""
    path = make_clinic(tmp_path, "ana", "bea")
    with duckdp.open(path) as curator:
        ana, bea = curator.session("ana"), curator.session("bea")
        for where in (30, 40):
            ana.sql(f"SELECT count(*) FROM visits WHERE age > {where}", epsilon="0.125")
        bea.sql("SELECT count(*) FROM visits", epsilon="0.000001")
        bea.sql("SELECT count(*) FROM visits", epsilon="0.000001")
        bea.budget()
        for text in HOSTILE:
            with pytest.raises(DuckDPError):
                ana.noisy_count(text, epsilon="0.1")
            curator.ledger.statements.note("ana", "refused", text, "Q101")
        curator.revoke("bea", reason="=cmd|' /C calc'!A0")
    return path


def call(*arguments: object) -> str:
    done = CliRunner().invoke(main, ["ledger", *map(str, arguments)])
    assert done.exit_code == 0, done.output
    return done.output


def test_acts_say_what_was_limited_and_who_is_in_a_team(clinic: str) -> None:
    with duckdp.open(clinic) as curator:
        curator.grant("ana", epsilon=1, per_month="0.5", raise_to=True, reason="slower")
        curator.team("lab", epsilon=1, per_month="0.25", members=["ana", "bea"])
        curator.team("lab", epsilon=1, per_month="0.25", members=["ana"], reason="left")
        curator.team("lab", epsilon=1, per_month="0.25", members=[], reason="over")
    shown = json.loads(call("history", clinic, "--kind", "act", "--last", 4, "--format", "json"))
    assert [entry["what"] for entry in shown] == [
        "team lab epsilon=1, epsilon=0.25 a month, members none: over",
        "team lab epsilon=1, epsilon=0.25 a month, members ana: left",
        "team lab epsilon=1, epsilon=0.25 a month, members ana bea",
        "grant ana epsilon=1, epsilon=0.5 a month: slower",
    ]


def test_filters(clinic: str) -> None:
    with duckdp.open(clinic) as curator:
        everything = curator.history(last=1000)
        kinds = Counter(everything["kind"])
        assert kinds == {"charge": 3, "act": 7, "free": 2, "refused": 2 * len(HOSTILE)}
        for kind in kinds:
            assert set(curator.history(kind=kind, last=1000)["kind"]) == {kind}
            assert len(curator.history(kind=kind, last=1000)) == kinds[kind]
        assert len(curator.history(kind=["charge", "act"])) == 10
        assert Counter(curator.history(analyst="bea")["kind"]) == {"charge": 1, "act": 2, "free": 2}
        assert len(curator.history(last=3)) == 3
        assert curator.history(last=3).rows() == everything.rows()[:3]
        assert everything["at"] == sorted(everything["at"], reverse=True)
        now = dt.datetime.now(dt.UTC)
        for since in (
            now + dt.timedelta(hours=1),
            "9998-01-01",
            dt.date(9999, 12, 31),
            (now + dt.timedelta(hours=1)).isoformat(),
        ):
            assert len(curator.history(since=since)) == 0
        for since in ("2026-01-01", dt.date(2020, 1, 1), now - dt.timedelta(hours=1), "2020-01-01T00:00+05:30"):
            assert len(curator.history(since=since, last=1000)) == len(everything)
        assert curator.history(kind="charge", analyst="bea").rows()[0][2:] == (
            "charge",
            "epsilon=1e-6",
            "charge 3: answered",
            "SELECT count(*) FROM visits",
        )


WRONG: list[dict[str, object]] = [
    {"last": 0},
    {"last": True},
    {"last": "3"},
    {"last": 10**10},
    {"since": "yesterday"},
    {"since": 3},
    {"kind": "x"},
    {"kind": 3},
    {"kind": []},
    {"analyst": "No Name"},
    {"analyst": 3},
    {"since": dt.datetime.min.replace(tzinfo=dt.timezone(dt.timedelta(hours=9)))},
]


@pytest.mark.parametrize("given", WRONG)
def test_wrong_filters_are_coded(clinic: str, given: dict[str, object]) -> None:
    with duckdp.open(clinic) as curator, pytest.raises(DuckDPError, match=r"^P10[57]: "):
        curator.history(**given)


def test_merging_pages_is_sorting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However small the pages, both directions give every entry once, in the order of time."""
    times = iter(f"2026-01-01T00:00:{i * 7 % 60:02}Z" if i > 30 else f"2025-01-01T00:{i:02}:00Z" for i in range(10**6))
    monkeypatch.setattr("duckdp.ledger.chain.now", lambda: next(times))
    with Ledger.open(tmp_path / "a.ledger") as ledger:
        set_up(ledger, ana=10**10, bea=10**10)
        for i in range(23):
            ledger.store_release(ledger.admit(ask(i, 1000, "ana" if i % 3 else "bea")), "42")
            ledger.statements.note("ana", "free", f"s{i}", "answered", asked=1.7e9 + i // 4)
        entries = {}
        for page in (1, 2, 7, 2000):
            monkeypatch.setattr("duckdp.ledger.history.PAGE", page)
            monkeypatch.setattr("duckdp.ledger.statement_check.PAGE", page)
            for newest_first in (True, False):
                walk = itertools.islice(history.walk(ledger, newest_first=newest_first), 100)  # of 50: one too many
                found = [(e.kind, e.number, e.who) for e in walk]
                assert len(found) == len(set(found)) == 23 + 23 + 4
                assert entries.setdefault(newest_first, found) == found
        statements = [number for kind, number, _ in entries[False] if kind == "free"]
        assert statements == sorted(statements)


def test_nothing_printed_moves_the_cursor(clinic: str) -> None:
    for shown in (
        call("history", clinic, "--last", 1000),
        call("history", clinic, "--format", "json"),
        call("history", clinic, "--format", "csv"),
    ):
        assert all(c.isprintable() or c == "\n" for c in shown), repr(shown)
        assert "\\x1b[2J" in shown


def test_the_command(clinic: str) -> None:
    lines = call("history", clinic, "--kind", "charge", "--kind", "act").splitlines()
    assert lines[0].split() == ["at", "who", "kind", "cost", "outcome", "what"]
    assert [line.split()[2] for line in lines[2:]].count("charge") == 3
    assert any(line.endswith("revoke bea: =cmd|' /C calc'!A0") for line in lines)
    assert lines[-1].endswith("create")
    assert len(call("history", clinic, "--last", 2).splitlines()) == 4
    assert "--since" in call("history", "--help")
    rows = json.loads(call("history", clinic, "--format", "json", "--kind", "charge"))
    assert [row["cost"] for row in rows] == ["epsilon=1e-6", "epsilon=0.125", "epsilon=0.125"]
    for wrong in (["--since", "x"], ["--last", "0"], ["--analyst", "No"]):
        done = CliRunner().invoke(main, ["ledger", "history", clinic, *wrong])
        assert (done.exit_code, done.output[:3]) == (1, "P10")


def test_a_terminal_gets_pages(clinic: str) -> None:
    environment = {**os.environ, "PAGER": "head -n 7", "TERM": "dumb", "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "duckdp", "ledger", "history", clinic]
    child = pexpect.spawn(command[0], command[1:], env=environment, dimensions=(10, 200), encoding="utf-8", timeout=900)
    lines = child.read().splitlines()
    child.close()
    assert child.exitstatus == 0
    assert len(lines) == 7  # of forty, whatever comes first: what is of one second and what is not depends on the clock
    assert (lines[0].split()[:3], set(lines[1])) == (["at", "who", "kind"], {"-", " "})
    assert all(re.match(r"20\d\d-\d\d-\d\dT", line) for line in lines[2:])


# ---- export ----------------------------------------------------------------------------------------------------------


def rows_of(ledger: str) -> list[dict[str, object]]:
    """What an export must hold, read from the files by SQLite alone."""
    made: list[dict[str, object]] = []
    with sqlite3.connect(ledger) as con, sqlite3.connect(f"{ledger}.statements") as log:
        con.row_factory = log.row_factory = sqlite3.Row
        for row in con.execute("SELECT * FROM charge"):
            made.append(
                {
                    "kind": "charge",
                    "at_utc": row["at"],
                    "analyst": row["analyst"],
                    "number": row["id"],
                    "statement": row["statement"],
                    "outcome": row["state"],
                    "charge": row["id"],
                    "epsilon": Decimal(row["epsilon_nano"]).scaleb(-9),
                    "delta": Decimal(row["delta_atto"]).scaleb(-18),
                    "rho": Decimal(row["rho_pico"]).scaleb(-12),
                    "delta_zcdp": Decimal(row["delta_zcdp_atto"]).scaleb(-18),
                    "charge_kind": row["kind"],
                    "mechanism": row["mechanism"],
                    "parameters": row["parameters"],
                    "question": row["key"],
                    "data_version": row["data_version"],
                    "catalog_version": row["catalog_version"],
                    "attempt": row["attempt"],
                }
            )
        for row in con.execute("SELECT * FROM event WHERE action IS NOT NULL"):
            made.append(
                {
                    "kind": "act",
                    "at_utc": row["at"],
                    "number": row["action"],
                    "act": row["kind"],
                    "subject": row["subject"],
                    "reason": row["reason"],
                    "detail": row["detail"],
                }
            )
        for row in log.execute("SELECT * FROM statement"):
            made.append(
                {
                    "kind": row["kind"],
                    "at_utc": row["at"],
                    "analyst": row["who"],
                    "number": row["number"],
                    "statement": row["text"],
                    "outcome": row["outcome"],
                    "charge": row["charge"],
                }
            )
    for found in made:
        found["at_utc"] = dt.datetime.fromisoformat(str(found["at_utc"])).replace(tzinfo=None)
    return made


def key(row: dict[str, object]) -> tuple[object, ...]:
    return tuple(str(row.get(name)) for name in COLUMNS)


def read(path: Path, types: bool = False) -> list[dict[str, object]]:
    with duckdb.connect() as con:
        shape = ", ".join(f"'{name}': '{kind}'" for name, (kind, _) in COLUMNS.items())
        source = (
            f"'{path}'"
            if path.suffix == ".parquet"
            else f"read_csv('{path}', columns = {{{shape}}}, header = true, allow_quoted_nulls = false)"
        )
        done = con.execute(f"FROM {source}")
        assert done.description is not None
        names = [d[0] for d in done.description]
        assert not types or [str(d[1]) for d in done.description] == [kind for kind, _ in COLUMNS.values()]
        return [dict(zip(names, row, strict=True)) for row in done.fetchall()]


def test_parquet_has_everything_as_it_is(clinic: str, tmp_path: Path) -> None:
    assert call("export", clinic, tmp_path / "all.parquet").endswith("all.parquet: 42 entries\n")
    found, wanted = read(tmp_path / "all.parquet", types=True), rows_of(str(tmp_path / "clinic.ledger"))
    assert sorted(map(key, found)) == sorted(map(key, wanted))
    assert [row["at_utc"] for row in found] == sorted(row["at_utc"] for row in wanted)
    assert sum(row["epsilon"] or 0 for row in found) == Decimal("0.250001")


def test_csv_has_everything_made_safe(clinic: str, tmp_path: Path) -> None:
    call("export", clinic, tmp_path / "all.csv")
    found, wanted = read(tmp_path / "all.csv"), rows_of(str(tmp_path / "clinic.ledger"))
    for row in wanted:
        for name, value in row.items():
            if isinstance(value, str):
                row[name] = duckdp.texts.csv_cell(value)
    assert sorted(map(key, found)) == sorted(map(key, wanted))
    with duckdb.connect() as con:  # as text, without being told types
        cells = con.execute(f"FROM read_csv('{tmp_path}/all.csv', all_varchar = true)").fetchall()
    assert not [cell for row in cells for cell in row if cell and (cell[0] in "=+-@\t\r" or "\x1b" in cell)]


def test_secrets_stay(clinic: str, tmp_path: Path) -> None:
    with duckdp.open(clinic) as curator:
        curator.session("ana").smooth_summary("visits", ["age"], epsilon=1, degree=4, name="s")
        curator.export_history(tmp_path / "a.csv")
        curator.export_history(tmp_path / "a.parquet")
        salt = curator.ledger.salt
    with sqlite3.connect(tmp_path / "clinic.ledger") as con:
        payloads = [row[0] for row in con.execute("SELECT payload FROM release")]
        holders = {row[0] for row in con.execute("SELECT holder FROM charge")}
    written = (tmp_path / "a.csv").read_text() + str(read(tmp_path / "a.parquet"))
    assert len(payloads) == 4
    assert not [secret for secret in (*payloads, *holders, salt.hex()) if secret in written]


@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_a_file_is_whole_or_not_there(clinic: str, tmp_path: Path, form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    target = tmp_path / "out" / f"all.{form}"
    target.parent.mkdir()
    with duckdp.open(clinic) as curator:
        curator.session("ana").budget()
        assert curator.ledger.statements.flush()  # the log's journal is there
        for size in (0, 10, 1000, 3000):
            with full_at(size), pytest.raises(DuckDPError, match=r"^P107: path"):
                curator.export_history(target)
            assert os.listdir(target.parent) == []
        walk = exporting.walk

        def interrupted(*args: object, **named: object) -> object:
            for count, entry in enumerate(walk(*args, **named)):
                if count == 20:
                    raise KeyboardInterrupt
                yield entry

        with monkeypatch.context() as patch:
            patch.setattr(exporting, "walk", interrupted)
            patch.setattr(exporting, "BATCH", 5)
            with pytest.raises(KeyboardInterrupt):
                curator.export_history(target)
        assert os.listdir(target.parent) == []
        assert curator.export_history(target) == 43
        assert stat.S_IMODE(target.stat().st_mode) == 0o600
        before = target.read_bytes()
        for other in (target, str(target)):
            with pytest.raises(DuckDPError, match="exists and is not overwritten"):
                curator.export_history(other)
        os.symlink(tmp_path / "nowhere", tmp_path / "link.csv")
        with pytest.raises(DuckDPError, match="exists and is not overwritten"):
            curator.export_history(tmp_path / "link.csv")
        assert target.read_bytes() == before
        assert os.listdir(target.parent) == [target.name]


@pytest.mark.parametrize("path", ["", "a\0b", "\ud800.csv", b"a.csv", 3, None, "nowhere/at/all.csv", "/"])
def test_wrong_paths_are_coded(clinic: str, path: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with duckdp.open(clinic) as curator, pytest.raises(DuckDPError, match=r"^P107: "):
        curator.export_history(path)


def test_a_quoted_path_and_the_form(clinic: str, tmp_path: Path) -> None:
    odd = tmp_path / 'it\'s; a "name".CSV'
    with duckdp.open(clinic) as curator:
        assert curator.export_history(odd) == 42
        assert odd.read_text().startswith("kind,at_utc,analyst,")
        for name in ("a.json", "a.xlsx", "a.txt", "a", "csv", ".csv"):
            with pytest.raises(
                DuckDPError, match=r'must end in \.csv or \.parquet\. With .* say form="csv" or form="parquet"\.$'
            ):
                curator.export_history(tmp_path / name)
            assert not (tmp_path / name).exists()
        assert curator.export_history(tmp_path / "a.json", form="csv") == 42
        assert curator.export_history(tmp_path / "b.csv", form="parquet") == 42
        with pytest.raises(DuckDPError, match=r"^P107: form"):
            curator.export_history(tmp_path / "c.csv", form="xlsx")
    assert (tmp_path / "b.csv").read_bytes()[:4] == b"PAR1"


def test_a_wrong_ending_at_the_command_line(clinic: str, tmp_path: Path) -> None:
    done = CliRunner().invoke(main, ["ledger", "export", clinic, str(tmp_path / "all.json")])
    assert done.exit_code == 1
    assert done.stderr.endswith("must end in .csv or .parquet. With another ending give --format.\n")


def test_the_help_names_every_column() -> None:
    shown = call("export", "--help")
    assert not [name for name in COLUMNS if name not in shown.replace("\n", " ")]


def test_a_damaged_log_is_told_and_charges_are_still_listed(clinic: str, tmp_path: Path) -> None:
    (tmp_path / "clinic.ledger.statements").write_bytes(b"x" * 9000)
    with duckdp.open(clinic) as curator:
        with pytest.raises(DuckDPError, match=r"^B20[27]: "):
            curator.history()
        with pytest.raises(DuckDPError, match=r"^B20[27]: "):
            curator.export_history(tmp_path / "a.csv")
        assert not (tmp_path / "a.csv").exists()
        assert len(curator.history(kind=["charge", "act"])) == 10


MANY = """
import resource, sys
from duckdp.faces import exporting
from duckdp.core.types import Loss
from duckdp.ledger.history import Entry
from duckdp.ledger.types import ChargeRow
loss = Loss(epsilon_nano=7)
known = {"analyst": "ana", "kind": "query", "mechanism": "laplace", "parameters": "{}", "state": "released"}
known |= {"loss": loss, "attempt": 1, "primary_cost": 7, "secondary_cost": 0, "data_version": 1, "catalog_version": 1}
known["at"] = "2026"
def walk(ledger, newest_first):
    for i in range(count):
        row = ChargeRow(id=i, statement=f"{i} " * 60, key=f"{i:064}", **known)
        yield Entry(kind="charge", at="2026-01-01T00:00:00Z", number=i, who="ana", row=row)
exporting.walk = walk
peaks = []
for count in (10_000, int(sys.argv[2])):
    assert exporting.export_history(None, f"{sys.argv[1]}/{count}.{sys.argv[3]}") == count
    peaks.append(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024)
print(peaks[1] - peaks[0])
"""


def grown(folder: Path, count: int, form: str) -> int:
    command = [sys.executable, "-c", MANY, str(folder), str(count), form]
    return int(subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout)


@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_memory_does_not_grow_with_the_ledger(tmp_path: Path, form: str) -> None:
    assert grown(tmp_path, 60_000, form) < 60  # MB; what is added is 40 MB of text, twice that as objects


@pytest.mark.slow
@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_memory_at_a_million_charges(tmp_path: Path, form: str) -> None:
    assert grown(tmp_path, 1_000_000, form) < 150  # MB; the rows are 400 MB of text

"""Each command does its work, says its errors with a code, and may be repeated."""

from __future__ import annotations

import json
import shlex
import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path

import duckdb
import pytest

import duckdp
from tests.cli.conftest import PROTECT, ROOT, Process, Run, environment
from tests.pages import GUIDE

COUNT = "SELECT sex, count(*) AS n FROM visits GROUP BY sex"


def test_help_and_version_are_fast_and_name_every_command(run: Run) -> None:
    shown = run("--help").output
    for name in (
        "protect",
        "budget",
        "grant",
        "revoke",
        "freeze",
        "unfreeze",
        "refresh",
        "suggest",
        "ledger",
        "share",
        "explain",
        "query",
        "catalog",
        "shell",
        "demo",
        "bench",
    ):
        assert f"\n  {name} " in shown
        if name != "bench":
            assert run(name, "--help").exit_code == 0
    assert "0.1.0" in run("--version").output
    code = "import sys, duckdp.cli; print(sorted({'duckdb', 'numpy', 'rich', 'sqlglot', 'opendp'} & set(sys.modules)))"
    assert subprocess.check_output([sys.executable, "-c", code], env=environment(), text=True).strip() == "[]"


def test_suggest_prints_a_call_to_fill_in(run: Run, file: Path) -> None:
    assert 'curator.protect(\n    "visits"' in run("suggest", file).output
    assert run("suggest", file, "visits").exit_code == 0
    assert run("suggest", file, "nothing").stderr.startswith("C101: ")


def test_protect_prints_what_is_public_and_may_be_repeated(run: Run, file: Path) -> None:
    first = run("protect", file, "visits", *PROTECT)
    assert first.exit_code == 0
    for part in (
        "visits: protected. All of this is public:",
        "all rows of one patient",
        "at most 4 of them",
        "from 0 to 110",
        "one of F, M",
        "at most 100,000 rows, about 4,000 expected",
    ):
        assert part in first.output
    assert run("protect", file, "visits", *PROTECT).output == first.output
    assert run("catalog", file).output == first.output


def test_protect_reads_a_toml_file_and_the_command_line_goes_first(run: Run, file: Path, tmp_path: Path) -> None:
    told = tmp_path / "protect.toml"
    told.write_text(
        'table = "visits"\nunit_key = "patient"\nmax_rows = 4\nrow_cap = 100000\ncolumns = ["city"]\n'
        '[bounds]\nage = [0, 110]\n[domains]\nsex = ["F", "M"]\n[nulls]\nage = 40\n'
    )
    done = run("protect", file, "--from", told, "--max-rows", "2", "--domain", "city=c0,c1", "--other", "city=else")
    assert done.exit_code == 0, done.output
    for part in ("at most 2 of them", "NULL read as 40", "one of c0, c1; others as else"):
        assert part in done.output
    told.write_text("row_cap = 1\nwrong = 2\n")
    assert run("protect", file, "visits", "--from", told).stderr.startswith("P107: --from 'wrong'")
    told.write_text("row_cap = = 1\n")
    assert run("protect", file, "visits", "--from", told).stderr.startswith("P107: --from ")


def test_values_take_the_type_of_their_column(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "t.duckdb"
    with duckdb.connect(str(path)) as con:
        con.execute("CREATE TABLE t (code VARCHAR, level INTEGER, flag BOOLEAN, day DATE, moment TIMESTAMP)")
    done = run(
        "protect",
        path,
        "t",
        "--row-cap",
        10,
        "--domain",
        'code=1,"2,3",NULL',
        "--domain",
        "level=1,2",
        "--domain",
        "flag=true,false",
        "--bound",
        "day=2020-01-01:2020-12-31",
        "--bound",
        "moment=2020-01-01T00:00:00..2020-12-31T12:00:00",
    )
    assert done.exit_code == 0, done.output
    for part in ("one of 1, 2,3, NULL", "one of 1, 2", "one of True, False", "from 2020-01-01 to 2020-12-31"):
        assert part in done.output


def test_budget_is_set_shown_and_raised_only_with_a_reason(run: Run, file: Path) -> None:
    assert run("protect", file, "visits", *PROTECT).exit_code == 0
    assert "no budget has been set" in run("budget", file).output
    shown = run("budget", file, "--epsilon", "5").output
    assert "add_remove" in shown
    assert run("budget", file, "--epsilon", "5").output == shown
    refused = run("budget", file, "--epsilon", "6")
    assert (refused.exit_code, refused.stdout) == (1, "")
    assert refused.stderr.startswith("B105: ")
    assert run("budget", file, "--epsilon", "6", "--raise", "--reason", "more sites").exit_code == 0
    assert "more sites" in run("ledger", "log", file).output
    assert run("budget", file, "--epsilon", "nan").stderr.startswith("P101: ")


def test_grant_revoke_freeze_unfreeze(run: Run, clinic: Path) -> None:
    ask = ("query", clinic, COUNT, "--analyst", "ana", "--epsilon", "0.1")
    assert run(*ask).exit_code == 0
    assert run("freeze", clinic, "--reason", "holiday").exit_code == 0
    assert run(*ask).stderr.startswith("B103: ")
    assert "frozen" in run("budget", clinic).output
    assert run("unfreeze", clinic).exit_code == 2
    assert run("unfreeze", clinic, "--reason", "back").exit_code == 0
    assert run(*ask).exit_code == 0
    assert run("revoke", clinic, "ana").exit_code == 0
    assert run(*ask).stderr.startswith("B103: ")
    assert run("revoke", clinic, "nobody").stderr.startswith("B102: ")


def test_budgets_work_while_the_source_is_locked(run: Run, clinic: Path) -> None:
    with duckdb.connect(str(clinic)):
        assert run("freeze", clinic).exit_code == 0
        assert run("ledger", clinic).exit_code == 0
        assert run("catalog", clinic).stderr.startswith("C107: ")


def test_query_prints_tables_csv_and_json(run: Run, clinic: Path) -> None:
    ask = ("query", clinic, COUNT, "--analyst", "ana", "--epsilon", "0.5")
    table = run(*ask)
    assert " ± " in table.output
    assert "cost: epsilon=0.5 (charge 1); epsilon=1.5" in table.output
    rows = json.loads(run(*ask, "--format", "json").stdout)
    assert [r["sex"] for r in rows] == ["F", "M"]
    assert set(rows[0]) == {"sex", "n", "n_standard_error", "n_low", "n_high", "note"}
    assert "rows of each" in rows[0]["note"]
    text = run(*ask, "--format", "csv")
    assert text.stdout.splitlines()[0] == "sex,n,n_standard_error,n_low,n_high,note"
    assert text.stderr.startswith("cost: nothing (stored release of charge 1)")
    assert run(*ask, "--fresh").exit_code == 0
    assert len(json.loads(run("ledger", clinic, "--format", "json").stdout)) == 2


def test_query_by_error_from_stdin_and_over_no_protected_table(run: Run, clinic: Path) -> None:
    done = run("query", clinic, "-", "--analyst", "ana", "--error", "50", text=COUNT)
    assert "± 50" in done.output
    assert run("query", clinic, "SELECT 40 + 2 AS x", "--analyst", "ana").output.split() == ["x", "--", "42"]
    called = run("query", clinic, "FROM dp_noisy_count('visits')", "--analyst", "ana", "--epsilon", "0.1")
    assert (called.exit_code, "cost: epsilon=0.1 (charge " in called.output) == (0, True), called.output
    wrong = run("query", clinic, "SELECT nope", "--analyst", "ana")
    assert wrong.exit_code == 1
    assert "Q105: Binder Error" in wrong.stderr
    assert "Traceback" not in wrong.output


@pytest.mark.parametrize(
    ("sql", "more", "code"),
    [
        ("SELECT * FROM visits", ["--epsilon", "1"], "Q302"),
        ("SELECT count(*) FROM visits", [], "P101"),
        ("SELECT count(*) FROM visits", ["--epsilon", "3"], "B101"),
        ("SELECT count(*) FROM visits; SELECT 1", ["--epsilon", "1"], "Q102"),
        ("FROM dp_noisy_count('nope', epsilon := 1)", [], "C101"),
    ],
)
def test_refusals_are_one_coded_line(run: Run, clinic: Path, sql: str, more: list[str], code: str) -> None:
    done = run("query", clinic, sql, "--analyst", "ana", *more)
    assert (done.exit_code, done.stdout) == (1, "")
    assert f"{code}: " in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_usage_errors_exit_2(run: Run, clinic: Path) -> None:
    assert run("query", clinic, COUNT).exit_code == 2
    assert run("protect", clinic).exit_code == 2
    assert run("protect", clinic, "visits").exit_code == 2
    assert run("nothing").exit_code == 2


def test_explain_is_free(run: Run, clinic: Path) -> None:
    done = run("explain", clinic, COUNT, "--analyst", "ana", "--error", "20")
    assert "expected error (95%)" in done.output
    assert json.loads(run("ledger", clinic, "--format", "json").stdout) == []


def test_ledger_shows_all_charges_and_escapes_statements(run: Run, clinic: Path) -> None:
    evil = "SELECT count(*) AS n FROM visits WHERE city = '\x1b[2J\u202e'"
    assert run("query", clinic, evil, "--analyst", "ana", "--epsilon", "0.01").exit_code == 0
    with duckdp.open(clinic) as curator:
        for i in range(45):  # more than a printed answer has lines
            curator.session("ana").sql(f"SELECT count(*) FROM visits WHERE age > {i}", epsilon="0.001")
    for style in ("table", "csv", "json"):
        shown = run("ledger", clinic, "--format", style).stdout
        assert "\x1b" not in shown
        assert "\u202e" not in shown
        assert "age > 44" in shown
    assert "x1b[2J" in run("ledger", clinic).output
    assert " ana " not in run("ledger", "show", clinic, "--analyst", "ben").output


def test_csv_cells_are_no_formulas(run: Run, clinic: Path) -> None:
    shown = run("query", clinic, "SELECT '=1+1' AS a, -5 AS b", "--analyst", "ana", "--format", "csv").stdout
    assert shown.splitlines()[1] == "'=1+1,-5"


def test_ledger_backup_and_repair(run: Run, clinic: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy.ledger"
    told = run("ledger", "backup", clinic, copy).output
    assert told.startswith(f"backup: {copy}, {copy}.anchor: keep them together.")
    assert run("query", clinic, "SELECT age FROM visits", "--analyst", "ana", "--epsilon", "0.1").exit_code  # logged
    told = run("ledger", "backup", clinic, tmp_path / "second").output
    assert sorted(told.split(": ")[1].split(", ")) == sorted(map(str, tmp_path.glob("second*")))
    assert sqlite3.connect(copy).execute("SELECT count(*) FROM sqlite_master").fetchone()[0] > 0
    assert run("ledger", "backup", clinic, copy).stderr.startswith("B207: ")
    anchor = clinic.with_name("clinic.ledger.anchor")
    anchor.unlink()
    assert run("ledger", clinic).stderr.startswith("B204: ")
    assert run("ledger", "repair", clinic).exit_code == 2
    assert run("ledger", "repair", clinic, "--reason", "the disk was restored").exit_code == 0
    assert run("ledger", clinic).exit_code == 0


def test_a_backup_is_the_way_out_of_damage(run: Run, clinic: Path, tmp_path: Path) -> None:
    """What B202 says is done, word by word."""
    ask = ("query", clinic, COUNT, "--analyst", "ana", "--epsilon", "0.1")
    stored = run(*ask).stdout.split("cost")[0]
    assert run("ledger", "backup", clinic, tmp_path / "copy").exit_code == 0
    ledger = clinic.with_name("clinic.ledger")
    with ledger.open("r+b") as file:
        file.seek(4096)
        file.write(b"\xa5" * 4096)
    told = run(*ask).stderr
    assert told.startswith("B202: ")
    assert "put a backup in its place, with its anchor, and call duckdp ledger restore SOURCE --reason ...;" in told
    for file in clinic.parent.glob("clinic.ledger*"):
        file.unlink()
    for end in ("", ".anchor"):
        shutil.copy(tmp_path / f"copy{end}", f"{ledger}{end}")
    assert run("ledger", "restore", clinic, "--reason", "damaged").exit_code == 0
    assert run(*ask).stdout.split("cost")[0] == stored


def test_the_restoring_that_the_guide_describes_works(run: Run, clinic: Path, tmp_path: Path) -> None:
    text = GUIDE.read_text()
    after = text[text.index("A backup says that it is one") :]
    lines = [line.split("#")[0].strip() for line in after.splitlines()[1:9] if line.startswith("    ")]
    assert len(lines) == 6
    ask = ("query", clinic, COUNT, "--analyst", "ana", "--epsilon", "0.1")
    other, ledger = tmp_path / "other", clinic.with_name("clinic.ledger")
    other.mkdir()
    stored = run(*ask).stdout.split("cost")[0]
    assert run("query", clinic, "SELECT age FROM visits", "--analyst", "ana", "--epsilon", "0.1").exit_code  # logged
    for i, line in enumerate(lines):
        words = [str(other / w[11:]) if w.startswith("/mnt/other/") else w for w in shlex.split(line)]
        words = [str(clinic.with_name(w)) if w.startswith("clinic.") else w for w in words]
        if words[0] == "cp":
            shutil.copy(words[1], words[2])
        else:
            words = ["7" if w == "12" else w for w in words]
            done = run(*words[1:])
            assert done.exit_code == 0, done.output
        if i == 0:
            for end in ("", ".anchor", ".statements"):
                ledger.with_name(ledger.name + end).unlink()
        if i == 3:
            assert run(*ask).stderr.startswith("B210: ")
            assert run("unfreeze", clinic, "--reason", "go on").stderr.startswith("B210: ")
    assert run(*ask).stdout.split("cost")[0] == stored
    assert "lost" in run("ledger", clinic).output
    assert run(*ask, "--fresh").exit_code == 0


def test_the_anchor_may_be_elsewhere(run: Run, clinic: Path, tmp_path: Path) -> None:
    disk, kept = tmp_path / "disk", tmp_path / "kept"
    disk.mkdir()
    file, words = disk / "clinic.anchor", shlex.join([str(ROOT / "examples" / "keep-anchor.sh"), str(kept)])
    show = ("ledger", "anchor", clinic)
    assert "beside the ledger" in run(*show).output
    assert run(*show, "--to", file).exit_code == 2
    assert run(*show, "--to", file, "--to-command", words, "--reason", "both").exit_code == 2
    assert str(file) in run(*show, "--to", file, "--reason", "a disk of its own").output
    assert "a disk of its own" in run("ledger", "log", clinic).output
    assert run("ledger", clinic, "--anchor", file).exit_code == 0
    assert run("ledger", clinic, "--anchor", disk / "other").stderr.startswith("B208: ")
    for wrong in ("'", "", "/nowhere/keep it"):
        told = run("ledger", clinic, "--anchor-command", wrong).stderr
        assert told.startswith("P107: --anchor-command ")
        assert "[" not in told  # words, not a list of Python
    assert "'--reason'" in run("ledger", "anchor", clinic, "--to", file).stderr
    if shutil.which("flock") is None:
        return
    assert str(kept) in run(*show, "--to-command", words, "--reason", "another machine").output
    assert run("ledger", clinic).stderr.startswith("B208: ")
    assert run("ledger", clinic, "--anchor", file, "--anchor-command", words).exit_code == 2
    ask = ("query", clinic, COUNT, "--analyst", "ana", "--epsilon", "0.1")
    assert run(*ask, "--anchor-command", words).exit_code == 0
    kept.unlink()
    assert run(*ask, "--anchor-command", words).stderr.startswith("B204: ")
    reason = ("--reason", "that machine is gone")
    assert (
        run("ledger", "repair", clinic, "--anchor", f"{clinic.with_name('clinic.ledger')}.anchor", *reason).exit_code
        == 0
    )
    assert run(*ask).exit_code == 0


def test_refresh_accepts_changed_data(run: Run, clinic: Path) -> None:
    with duckdb.connect(str(clinic)) as con:
        con.execute("INSERT INTO visits SELECT * REPLACE (patient + 5000 AS patient) FROM visits")
    ask = ("query", clinic, COUNT, "--analyst", "ana", "--epsilon", "0.1")
    assert run(*ask).stderr.startswith("C104: ")
    assert run("refresh", clinic).exit_code == 2
    assert "data version 2" in run("refresh", clinic, "--reason", "new month").output
    assert run(*ask).exit_code == 0


def test_share_lets_another_analyst_use_a_summary(run: Run, clinic: Path) -> None:
    assert run("grant", clinic, "ben", "--epsilon", "0.1").exit_code == 0
    buy = "FROM dp_smooth_summary('visits', ['age'], epsilon := 0.5, degree := 3, name := 'ages')"
    assert run("query", clinic, buy, "--analyst", "ana").exit_code == 0
    ask = ("query", clinic, "FROM dp_smooth_answer('ages', 'age')", "--analyst", "ben")
    assert "C110: " in run(*ask).stderr
    assert run("share", clinic, "ages", "--owner", "ana", "--to", "ben").exit_code == 0
    assert run(*ask).exit_code == 0


def test_parquet_with_a_ledger_of_its_own(run: Run, file: Path, tmp_path: Path) -> None:
    parquet, ledger = tmp_path / "visits.parquet", tmp_path / "own.ledger"
    with duckdb.connect(str(file), read_only=True) as con:
        con.execute(f"COPY visits TO '{parquet}'")
    assert run("catalog", parquet).stderr.startswith("P107: ")
    assert run("protect", parquet, "visits", *PROTECT, "--ledger", ledger).exit_code == 0
    assert run("budget", parquet, "--ledger", ledger, "--epsilon", "1").exit_code == 0


def test_errors_in_a_fresh_process(process: Process, tmp_path: Path) -> None:
    done = process("catalog", "nowhere.duckdb", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith('C108: there is no file "nowhere.duckdb"')
    assert not (tmp_path / "nowhere.ledger").exists()
    done = process("ledger", "nowhere.duckdb", cwd=tmp_path)
    assert done.stderr.startswith("B207: ")


def test_bench_is_found_or_says_so(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "duckdp.bench", None)
    done = run("bench")
    assert done.exit_code == 1
    assert done.stderr.startswith("P107: bench=")


def test_ledger_verify_says_what_it_checked_or_found(run: Run, clinic: Path) -> None:
    for number in range(3):
        run("query", clinic, f"SELECT count(*) FROM visits WHERE age > {number}", "--analyst", "ana", "--epsilon", 0.1)
    shown = run("ledger", "verify", clinic)
    assert shown.exit_code == 0
    assert shown.output.startswith("sound: ")
    assert "3 charges, 3 releases" in shown.output
    with sqlite3.connect(clinic.with_suffix(".ledger")) as connection:
        connection.execute("DROP TRIGGER release_update")
        connection.execute("UPDATE release SET payload = '{}' WHERE charge = 2")
        connection.execute(
            "CREATE TRIGGER release_update BEFORE UPDATE ON release BEGIN SELECT RAISE(ABORT, 'append-only'); END"
        )
    connection.close()
    found = run("ledger", "verify", clinic)
    assert found.exit_code == 1
    assert found.stderr.startswith("B202: ")
    assert "charge 2" in found.stderr


def test_ledger_listings_go_by_pages(run: Run, clinic: Path) -> None:
    for number in range(5):
        run("query", clinic, f"SELECT count(*) FROM visits WHERE age > {number}", "--analyst", "ana", "--epsilon", 0.1)
    first = run("ledger", clinic, "--limit", 2, "--format", "json")
    assert [row["charge"] for row in json.loads(first.stdout)] == [4, 5]
    assert first.stderr == "there are earlier charges: --before 4\n"
    second = run("ledger", clinic, "--limit", 3, "--before", 4, "--format", "json")
    assert ([row["charge"] for row in json.loads(second.stdout)], second.stderr) == ([1, 2, 3], "")
    acts = json.loads(run("ledger", "log", clinic, "--format", "json").stdout)
    page = run("ledger", "log", clinic, "--limit", 1, "--format", "json")
    assert json.loads(page.stdout) == acts[:1]
    before = page.stderr.split()[-1]
    assert json.loads(run("ledger", "log", clinic, "--before", before, "--format", "json").stdout) == acts[1:]

"""The shell through a pipe and on a terminal."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path
from typing import cast

import duckdb
import pexpect
import pytest

from duckdp.functions import FUNCTIONS
from duckdp.shell.commands import COMMANDS, Prompt
from duckdp.shell.statements import split
from tests.cli.conftest import Process, environment, run_code

PROMPT = r"ana \[epsilon=[0-9.]+, delta=1e-6 left\]> "


def shell(process: Process, clinic: Path, text: str, *more: str) -> subprocess.CompletedProcess[str]:
    return process("shell", clinic, "--analyst", "ana", *more, cwd=clinic.parent, text=text)


def test_private_and_ordinary_sql_through_a_pipe(process: Process, clinic: Path) -> None:
    done = shell(
        process,
        clinic,
        "SELECT sex, count(*) AS n,\n  avg(age) -- ; not yet\nFROM visits GROUP BY sex; SELECT 'a;b' AS x;\n"
        "CREATE TABLE mine AS SELECT sex, count(*) AS n FROM visits GROUP BY sex;\nSELECT count(*) AS kept FROM mine;\n"
        "SELECT dp_noisy_count('visits', epsilon := 0.25) AS c;\nSUMMARIZE mine;\nDESCRIBE visits;\n"
        "EXPLAIN SELECT count(*) FROM visits;\nSELECT 7 AS unfinished",
        "--epsilon",
        "0.5",
    )
    assert (done.returncode, done.stderr) == (0, "")
    for part in (
        " ± ",
        "a;b",
        "cost: epsilon=0.5 (charge 1); epsilon=1.5",
        "cost: epsilon=0.5 (charge 2)",
        "cost: epsilon=0.25 (charge 3); epsilon=0.75",
        "expected error (95%)",
        "unfinished\n",
    ):
        assert part in done.stdout, part
    assert ">" not in done.stdout.replace("=>", "")  # no prompt


def test_errors_have_codes_and_it_goes_on(process: Process, clinic: Path) -> None:
    done = shell(
        process,
        clinic,
        "SELECT count(*) FROM visits;\nSELECT * FROM visits;\nSELEC 1;\nSELECT nope;\nSELECT nope FROM visits;\n"
        "SELECT dp_noisy_count('visits', epsilon := -1);\nSELECT dp_noisy_count('visits', epsilon := 50);\n.nope\n"
        ".epsilon x\nSELECT 'still here' AS x;\n",
    )
    assert done.returncode == 1
    codes = [line.split(":")[0] for line in done.stderr.splitlines() if line[4:5] == ":"]
    assert codes == ["P101", "Q302", "Q101", "Q105", "Q207", "P101", "B101", "P107", "P101"]
    assert "Q105: Binder Error" in done.stderr
    assert "still here" in done.stdout
    assert "Traceback" not in done.stderr


def test_dot_commands(process: Process, clinic: Path) -> None:
    (clinic.parent / "more.sql").write_text("SELECT 'from a file' AS x;\n.read more.sql\n")
    done = shell(
        process,
        clinic,
        ".help\n.tables\n.schema visits\n.budget\n.epsilon 0.1\n.delta 1e-8\n"
        "SELECT city, count(*) FROM visits GROUP BY 1;\n"
        ".explain SELECT count(*) FROM visits;\n.ledger\n.summaries\n.mode json\nSELECT 1 AS one;\n.mode csv\n"
        "SELECT 2 AS two;\n.mode markdown\nSELECT 'a|b' AS bar;\n.save kept.csv\n.save kept.parquet\n.save kept.csv\n"
        ".save kept.txt\n.mode csv\nCREATE TABLE t (a INT);\n.schema t\n.mode table\n.read more.sql\n.quit\n"
        "SELECT 'never' AS x;\n",
    )
    for part in (
        ".mode table|csv|json",
        "\nvisits        protected",
        "granted",
        "epsilon of a statement: 0.1",
        "delta of a statement: 1e-8",
        "groups with fewer than about",
        "scale",
        '[{"one": 1}]',
        "two\n2\n",
        "| bar |\n|---|\n| a\\|b |\n",
        "1 rows in kept.parquet",
        "a,INTEGER",
        "from a file",
    ):
        assert part in done.stdout, part
    assert "never" not in done.stdout
    assert "P107: files read each other without end" in done.stderr
    assert done.stderr.count("P107: file='kept.") == 2  # it is there already; and no such form
    assert (clinic.parent / "kept.csv").read_text() == "bar\na|b\n"
    assert duckdb.sql(f"FROM '{clinic.parent / 'kept.parquet'}'").fetchall() == [("a|b",)]


def test_help_names_every_dp_function_by_what_it_costs() -> None:
    """A list by hand had seven of twelve."""
    text = " ".join(str(COMMANDS[".help"][2](cast("Prompt", None), "")).split())
    costing, _, free = text.partition("take their own")
    for spec in FUNCTIONS.values():
        place = costing if spec.costs != "nothing" else free
        assert spec.explains or spec.name in place, spec.name


def test_set_variable_sets_epsilon_too(process: Process, clinic: Path) -> None:
    done = shell(process, clinic, "SET VARIABLE dp_epsilon = 0.3;\nSELECT count(*) AS n FROM visits;\n.epsilon\n")
    assert (done.returncode, done.stderr) == (0, "")
    assert "cost: epsilon=0.3 (charge 1)" in done.stdout
    assert done.stdout.endswith("epsilon of a statement: 0.3\n")


@pytest.mark.parametrize(
    ("text", "statements", "rest"),
    [
        ("SELECT 1; SELECT 2;", ["SELECT 1", "SELECT 2"], ""),
        ("SELECT ';' ; x", ["SELECT ';'"], " x"),
        ("SELECT 'it''s;'; ", ["SELECT 'it''s;'"], " "),
        ("SELECT e'\\';'; ", ["SELECT e'\\';'"], " "),
        ('SELECT ";" -- ;\n;', ['SELECT ";" -- ;'], ""),
        ("/* ; /* ; */ ; */ SELECT 1;", ["/* ; /* ; */ ; */ SELECT 1"], ""),
        ("SELECT $$;$$, $a$;$$;$a$;", ["SELECT $$;$$, $a$;$$;$a$"], ""),
        ("SELECT '", [], "SELECT '"),
        ("/* ;", [], "/* ;"),
        ("SELECT $1;", ["SELECT $1"], ""),
        (";;", [], ""),
    ],
)
def test_where_a_statement_ends(text: str, statements: list[str], rest: str) -> None:
    assert split(text) == (statements, rest)


def test_on_a_terminal(clinic: Path, tmp_path: Path) -> None:
    state = tmp_path / "state"
    command = ["-W", "error", "-m", "duckdp", "shell", str(clinic), "--analyst", "ana", "--epsilon", "0.5"]
    env = environment(XDG_STATE_HOME=str(state), TERM="xterm")
    child: pexpect.spawn[str] = pexpect.spawn(
        sys.executable, command, env=env, encoding="utf-8", timeout=120, dimensions=(40, 200)
    )
    child.expect("not a security boundary")
    child.expect(PROMPT)
    child.sendline("SELECT count(*) AS n")
    child.expect(r"\.\.\.> ")
    child.sendline("FROM visits;")
    child.expect(r" ± \d+")
    child.expect("epsilon=1.5, delta=1e-6 left]> ".replace("]", r"\]"))
    child.sendline("SELECT 1 +")
    child.expect(r"\.\.\.> ")
    child.sendintr()  # drops the unfinished statement
    child.expect(PROMPT)
    child.sendline("SELECT sum(a.range * b.range) FROM range(10000000) a, range(10000000) b;")
    child.expect(r"b;\r\n")
    wait = 1
    while child.expect([pexpect.TIMEOUT, "INTERRUPT|E102"], timeout=wait) == 0:
        child.sendintr()  # once would do, if it did not come before the query began
        wait = 20  # and twice in a row may reach the shell between two prompts, where it ends it
    child.expect(PROMPT)
    child.send(".bud\t\n")  # completion
    child.expect("granted")
    child.expect(PROMPT)
    child.sendeof()
    child.expect(pexpect.EOF)
    child.wait()  # close() ends a process that does not end within 0.1 s
    child.close()
    assert child.exitstatus == 0
    history = state / "duckdp" / "history"
    assert stat.S_IMODE(os.stat(history).st_mode) == 0o600
    assert history.read_text().splitlines()[0] == "SELECT count(*) AS n FROM visits;"


INTERRUPTED = """
import os, signal, sys, threading, time
import duckdb, duckdp
from duckdp.shell import Shell
con = duckdb.connect("big.duckdb")
con.execute("CREATE TABLE t AS SELECT i // 2 AS k, i % 100 AS x FROM range(4000000) r(i)")
con.close()
said = []
with duckdp.open("big.duckdb") as curator:
    curator.protect("t", unit_key="k", max_rows=2, row_cap=10**8, bounds={"x": (0, 100)})
    curator.budget(epsilon=1)
    curator.grant("ana", epsilon=1)
    def stop():
        while not curator.engine._running:
            time.sleep(0.001)
        os.kill(os.getpid(), signal.SIGINT)
    shell = Shell(curator, "ana", out=said.append, err=said.append)
    shell.analyst.set_epsilon("0.5")
    ask = "SELECT var_samp(x), sum(x * x), avg(sqrt(x)), sum(x) FILTER (WHERE x > 3) FROM t"
    threading.Thread(target=stop, daemon=True).start()
    shell.run(ask)
    shell.run(ask)
print(chr(10).join(said))
"""


def test_an_interrupted_private_read_keeps_its_charge_and_can_be_redeemed(tmp_path: Path) -> None:
    told = run_code(INTERRUPTED, tmp_path)
    assert "a charge that was made stays" in told
    assert "E102: the query was interrupted; its charge stays" in told
    assert "Charge 1 stays spent." in told
    assert "(charge 1); epsilon=0.5 left" in told


SOLVING = """
import os, signal
import duckdb, duckdp
from duckdp.shell import Shell
con = duckdb.connect("xy.duckdb")
x, y = "(i * 37 % 100) / 100.0::DOUBLE AS x", "(i % 100) / 100.0::DOUBLE AS y"
con.execute(f"CREATE TABLE t AS SELECT {x}, {y} FROM range(3000) r(i)")
con.close()
said, stopped = [], []
with duckdp.open("xy.duckdb") as curator:
    curator.protect("t", row_cap=9000, bounds={"x": (0, 1), "y": (0, 1)})
    curator.budget(epsilon=1)
    curator.grant("ana", epsilon=1)
    shell = Shell(curator, "ana", out=said.append, err=said.append)
    def stop(stage, share):
        if stage == "program" and not stopped:
            stopped.append(share)
            os.kill(os.getpid(), signal.SIGINT)
            while curator.engine._running:
                watch = next(iter(curator.engine._running))
                watch.check()  # until the interrupt has arrived
    curator.on_progress = stop
    made = "dp_synthesize('t', epsilon := 1, degree := 6, method := 'lp', rows := 70, name := 'made')"
    ask = f"SELECT count(*) AS rows FROM {made}"
    shell.run(ask)
    shell.run(ask)
    print([(c.state, str(c.loss)) for c in curator.ledger.charges()])
print(chr(10).join(said))
"""


def test_an_interrupted_solve_keeps_what_was_paid_and_goes_on(tmp_path: Path) -> None:
    told = run_code(SOLVING, tmp_path)
    assert "E102" in told
    assert "[('released', 'epsilon=1')]" in told
    assert told.index("E102") < told.index("70")

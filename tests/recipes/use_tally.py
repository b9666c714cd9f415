"""Run in a copy of the package that has the toy function ``tally``: every face has it."""

from __future__ import annotations

import pathlib
import sys

import duckdb
from click.testing import CliRunner

import duckdp
import duckdp.errors
from duckdp.cli import main
from duckdp.functions.macros import complete
from duckdp.shell.loop import Shell

folder = pathlib.Path(sys.argv[1])
assert pathlib.Path(duckdp.__file__).is_relative_to(folder)
path = str(folder / "t.duckdb")
BAD = ("'t', 'a'", "'t', ['a'], step := 'x'", "'t', ['a'], loud := 3", "'t', ['a'], more := 7", "'t', [NULL]")


def faces(owner: duckdp.Curator) -> int:
    con, ana = owner.connect("ana"), owner.session("ana")
    [(first,)] = ana.tally("t", ["a"], epsilon=1).rows()
    assert con.execute("FROM dp_tally('t', ['a'], epsilon := 1)").fetchall() == [(first,)]
    assert con.execute("SELECT dp_tally('t', ['a'], epsilon := 1, more := ['b'])").fetchall() == [(first,)]
    told = [("tally of a, b by 3",), ("cost: epsilon=1",)]
    assert con.execute("FROM dp_explain_tally('t', ['a'], epsilon := 1, step := 3, more := ['b'])").fetchall() == told
    assert ana.explain_tally("t", ["a"], epsilon=1, step=3, more=["b"]).rows() == told
    assert ana.tally.__doc__ == "A noisy number of rows, and some texts."
    con.execute("SET VARIABLE dp_epsilon = 1")
    ana.sql("SET VARIABLE dp_epsilon = 1")
    assert con.execute("SELECT dp_tally('t', ['a'])").fetchall() == ana.tally("t", ["a"]).rows() == [(first,)]
    return first


def refusals(owner: duckdp.Curator) -> None:
    con, ana = owner.connect("ana"), owner.session("ana")
    for call in BAD:
        for name in ("dp_tally", "dp_explain_tally"):
            try:
                con.execute(f"FROM {name}({call}, epsilon := 2)").fetchall()
            except duckdb.Error as error:
                assert "P107" in str(error), error
            else:
                raise AssertionError(call)
    for given in ({"also": "a"}, {"step": "x"}, {"loud": 3}, {"more": 7}, {"table": 1}):
        try:
            ana.tally(**{"table": "t", "also": ["a"], "epsilon": 2, **given})
        except duckdp.errors.ParameterError as error:
            assert error.code == "P107"
            assert error.name in given
        else:
            raise AssertionError(given)


def shell(owner: duckdp.Curator) -> None:
    prompt = Shell(owner, "ana", out=print, err=print)
    assert {"dp_tally", "dp_explain_tally"} <= set(prompt._words())
    assert complete("FROM dp_tally('t', ['a'], epsilon := 1, ") == ["step :=", "more :=", "loud :=", "fresh :="]


def commands(first: int) -> None:
    words = [path, "t", "a", "c", "--analyst", "ana", "--epsilon", "1"]
    done = CliRunner().invoke(main, ["ask", "tally", *words, "--format", "csv"])
    assert done.stdout.splitlines()[1].split(",")[0] == str(first), done.output
    done = CliRunner().invoke(main, ["ask", "explain-tally", *words, "--step", "3", "--more", "b", "--more", "d"])
    assert "tally of a, c, b, d by 3" in done.output, done.output
    assert CliRunner().invoke(main, ["ask", "tally", *words, "--step", "x"]).output.startswith("P107: step='x'")
    assert "how many rows are one" in CliRunner().invoke(main, ["ask", "tally", "--help"]).output.lower()
    assert "explain-tally" in CliRunner().invoke(main, ["ask", "--help"]).output


with duckdb.connect(path) as made:
    made.execute("CREATE TABLE t AS SELECT i AS x FROM range(400) r(i)")
with duckdp.open(path) as opened:
    opened.protect("t", row_cap=1000)
    opened.budget(epsilon=10)
    opened.grant("ana", epsilon=10)
    count = faces(opened)
    refusals(opened)
    shell(opened)
    assert len(opened.ledger.charges()) == 1
commands(count)
print("used")

"""Apache Superset: what its charts send, as texts; and Superset itself, driven by its API (slow).

``DUCKDP_SUPERSET`` names a folder with an environment that has ``examples/superset/requirements.txt``; else the slow
test makes one, which takes minutes.
"""

from __future__ import annotations

import os
import re
import runpy
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

import duckdp
from duckdp.serve.statements import plain_dates
from tests.serve.conftest import PASSWORD, Served, make_clinic, start

FOLDER = Path(__file__).resolve().parents[2] / "examples" / "superset"
VIRTUAL = "(SELECT\n  sex,\n  COUNT(*) AS n\nFROM visits\nGROUP BY\n  sex) AS virtual_table"
# Each is how one of its charts, filters or looks at columns asks, {table}: a table that it was given.
SHAPES = (
    "SELECT sex AS sex, count(*) AS n FROM main.{table} GROUP BY sex ORDER BY n DESC LIMIT 10",
    "SELECT sex AS sex, AVG(cost) AS \"AVG(cost)\" FROM main.{table} WHERE sex IN ('F') GROUP BY sex LIMIT 1000",
    "SELECT DATE_TRUNC('month', day) AS day, sex AS sex, count(*) AS n FROM main.{table} "
    "GROUP BY DATE_TRUNC('month', day), sex LIMIT 1000",
    "SELECT sex AS sex, count(*) AS n FROM main.{table} WHERE day >= TO_DATE('2024-03-01', 'YYYY-MM-DD') "
    "AND day < TO_DATE('2024-07-01', 'YYYY-MM-DD') GROUP BY sex LIMIT 1000",
    "SELECT count(*) AS n FROM main.{table} WHERE NOT (sex IN ('F')) AND (age < 30) LIMIT 50000",
    "SELECT sex AS sex, count(*) AS n FROM main.{table} GROUP BY sex HAVING ((count(*) > 10)) LIMIT 1000 OFFSET 1",
    "SELECT DISTINCT sex AS sex FROM main.{table} LIMIT 1000",  # a filter's list of values
    'SELECT sex AS sex, AVG(cost) AS "AVG(cost)" FROM main.{table} JOIN (SELECT sex AS sex__, AVG(cost) AS mme_inner__ '
    "FROM main.{table} GROUP BY sex ORDER BY mme_inner__ DESC LIMIT 1) AS series_limit ON sex = sex__ "
    'GROUP BY sex ORDER BY "AVG(cost)" DESC LIMIT 1000',  # its limit of series
)
OVER_ANSWERS = (
    f"SELECT sex AS sex, sum(n) AS n FROM {VIRTUAL} GROUP BY sex LIMIT 1000",
    f"SELECT sex AS sex, n AS n FROM {VIRTUAL} LIMIT 1000",
    f"SELECT sum(n) AS n FROM {VIRTUAL} WHERE sex IN ('F') ORDER BY n DESC LIMIT 10",
    f"SELECT sex AS sex FROM {VIRTUAL} GROUP BY sex LIMIT 1000",
    f"SELECT sex AS sex, max(n) AS n FROM {VIRTUAL} GROUP BY sex HAVING ((max(n) > 100)) LIMIT 1000",
)


@pytest.fixture(scope="module")
def clinic(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A server whose analyst has a synthetic table too."""
    source, ledger = make_clinic(tmp_path_factory.mktemp("superset"))
    with duckdp.open(source, ledger=ledger) as owner:
        owner.session("ana").synthesize("visits", epsilon=1, rows=200, name="people", method="tree")
    found = start(source, ledger, "--grid", "0")
    yield found
    assert found.stop() == 0


def spent(con: psycopg.Connection[Any]) -> str:
    (row,) = con.execute("SELECT spent FROM dp_budget").fetchall()
    return str(row[0])


@pytest.mark.parametrize("table", ["people", "visits"])
def test_its_charts_are_answered(clinic: Served, table: str) -> None:
    """Over a synthetic table free, over a protected one each at what is SET, once."""
    with psycopg.connect(clinic.dsn() + " options='-c dp.epsilon=0.125'", autocommit=True) as con:
        before = spent(con)
        for shape in SHAPES:
            assert con.execute(shape.format(table=table)).description is not None, shape
        paid = spent(con)
        assert (paid == before) == (table == "people")
        for shape in SHAPES:
            con.execute(shape.format(table=table))
        assert spent(con) == paid


#: "Group remaining as Others" beside a limit of series, and what its refusal tells to write, with t and k filled in.
WITH_OTHERS = (
    "SELECT day AS day, CASE WHEN (series_limit.sex__ IS NOT NULL) THEN sex ELSE 'Others' END AS sex, count(*) AS n "
    "FROM main.visits LEFT OUTER JOIN (SELECT sex AS sex__, count(*) AS mme_inner__ FROM main.visits GROUP BY sex "
    "ORDER BY mme_inner__ DESC LIMIT 1) AS series_limit ON sex = sex__ GROUP BY day, "
    "CASE WHEN (series_limit.sex__ IS NOT NULL) THEN sex ELSE 'Others' END ORDER BY n DESC LIMIT 1000"
)


def test_remaining_groups_as_others_are_refused_with_a_way_that_works(clinic: Served) -> None:
    with psycopg.connect(clinic.dsn() + " options='-c dp.epsilon=0.125'", autocommit=True) as con:
        before = spent(con)
        with pytest.raises(psycopg.Error, match='Switch "Group remaining as Others" off') as caught:
            con.execute(WITH_OTHERS)
        assert spent(con) == before
        way = (
            str(caught.value).partition("put answers together: ")[2].partition(". \n")[0].partition("\n")[0].rstrip(".")
        )
        way = (
            way.replace("SELECT k, ", "SELECT sex AS k, ")
            .replace("FROM t ", "FROM visits WHERE age < 61 ")
            .replace("<= 5", "<= 1")
        )
        rows = dict(con.execute(way).fetchall())
        assert set(rows) in ({"F", "Others"}, {"M", "Others"})
        assert spent(con) != before


def test_a_virtual_data_set_is_paid_for_once(clinic: Served) -> None:
    """Charts, filters and sorts over a private query all follow from its one answer."""
    with psycopg.connect(clinic.dsn("bob") + " options='-c dp.epsilon=0.125'", autocommit=True) as con:
        assert spent(con) == "epsilon=0"
        answers = [con.execute(text).fetchall() for text in OVER_ANSWERS]
        assert spent(con) == "epsilon=0.125"
        (first, rows, *_) = answers
        assert dict(first) == dict(rows) and answers[2] == [(dict(rows)["F"],)]
        con.execute(OVER_ANSWERS[0].replace("visits", "visits WHERE age < 50"))  # another question
        assert spent(con) == "epsilon=0.25"


def test_a_date_of_postgresql_is_the_date(clinic: Served) -> None:
    with psycopg.connect(clinic.dsn(), autocommit=True) as con:
        text = "SELECT to_date('2024-02-29', 'YYYY-MM-DD')::text, 'to_date(''2024-02-29'', ''YYYY-MM-DD'')', "
        text += "TO_TIMESTAMP('2024-02-29 01:02:03.000004', 'YYYY-MM-DD HH24:MI:SS.US')::text"
        assert con.execute(text).fetchall() == [
            ("2024-02-29", "to_date('2024-02-29', 'YYYY-MM-DD')", "2024-02-29 01:02:03.000004")
        ]
        for other in ("'2024-02-29', 'DD'", "'29.02.2024', 'YYYY-MM-DD'", "'2024-02-29 00:00:00', 'YYYY-MM-DD'"):
            with pytest.raises(psycopg.Error):
                con.execute(f"SELECT to_date({other})")


CALL, LITERAL = "to_date('2024-02-29', 'YYYY-MM-DD')", "DATE '2024-02-29'".ljust(35)
TEXTS = (  # in which nothing is a call
    "'{}'".format(CALL.replace("'", "''")),
    "e'\\'{}'".format(CALL.replace("'", "\\'")),
    f'"{CALL}"',
    f"$${CALL}$$",
    f"$a$ $$ {CALL} $a$",
    f"-- {CALL}\n",
    f"/* /* */ {CALL} */",
    f"a.{CALL}",
    f"my_{CALL}",
    f'"a"{CALL}',
    CALL.replace("02-29'", "02-29 10:00:00'"),
    CALL.replace("-DD'", "-DD HH24:MI:SS'"),
    CALL.replace("-DD'", "'"),
    CALL.replace("24-", "24/"),
)


def test_dates_of_postgresql_alone_become_literals() -> None:
    """Where they stand alone; texts, names and comments stay, and so do the places of all that follows."""
    assert len(CALL) == len(LITERAL)
    for text in (CALL, CALL.upper(), CALL.replace("DD')", "DD' )")):
        assert plain_dates(f"({text}), {CALL}") == f"({LITERAL.ljust(len(text))}), {LITERAL}"
    for text in TEXTS:
        assert plain_dates(text) == text
        assert plain_dates(f"{CALL} {text} {CALL}") == f"{LITERAL} {text} {LITERAL}"
    times = {
        "to_date('2024-02-29 10:00:00', 'YYYY-MM-DD HH24:MI:SS')": "DATE '2024-02-29'",
        "to_timestamp('2024-02-29', 'YYYY-MM-DD')": "TIMESTAMP '2024-02-29'",
        "to_timestamp('2024-02-29 10:00:00', 'YYYY-MM-DD HH24:MI:SS')": "TIMESTAMP '2024-02-29 10:00:00'",
        "to_timestamp('2024-02-29 10:00:00.5', 'YYYY-MM-DD HH24:MI:SS.US')": "TIMESTAMP '2024-02-29 10:00:00.5'",
    }
    for text, literal in times.items():
        assert plain_dates(text) == literal.ljust(len(text))
    for wrong in ("00', 'YYYY-MM-DD HH24:MI:SS.US'", "00.5', 'YYYY-MM-DD HH24:MI:SS'"):
        assert plain_dates(f"to_timestamp('2024-02-29 10:00:{wrong})") == f"to_timestamp('2024-02-29 10:00:{wrong})"


# ---- Superset itself ------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def superset(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a Superset that runs."""
    folder = tmp_path_factory.mktemp("bi")
    given = os.environ.get("DUCKDP_SUPERSET")
    programs = Path(given or folder / "env") / "bin"
    if given is None:
        subprocess.run([sys.executable, "-m", "venv", folder / "env"], check=True)
        install = [programs / "python", "-m", "pip", "install", "-q", "-r", FOLDER / "requirements.txt"]
        subprocess.run(install, check=True, timeout=3000)
    config = folder / "superset_config.py"
    config.write_text(
        f'SECRET_KEY = "{os.urandom(32).hex()}"\nSQLALCHEMY_DATABASE_URI = "sqlite:///{folder}/superset.db"\n'
    )
    env = {**os.environ, "SUPERSET_CONFIG_PATH": str(config), "SUPERSET_HOME": str(folder), "FLASK_APP": "superset"}
    admin = [
        "--username",
        "admin",
        "--firstname",
        "a",
        "--lastname",
        "b",
        "--email",
        "a@b.example",
        "--password",
        "admin",
    ]
    for words in (["db", "upgrade"], ["fab", "create-admin", *admin], ["init"]):
        subprocess.run([programs / "superset", *words], env=env, check=True, capture_output=True, timeout=900)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    with open(folder / "log", "w") as log:
        process = subprocess.Popen([programs / "superset", "run", "-p", str(port)], env=env, stdout=log, stderr=log)
    address = f"http://127.0.0.1:{port}"
    for _ in range(120):
        try:
            urllib.request.urlopen(f"{address}/health", timeout=5).close()
            break
        except OSError:
            time.sleep(1)
    yield address
    process.terminate()
    process.wait(60)


@pytest.mark.slow
def test_superset_makes_a_dashboard(superset: str, clinic: Served, capsys: pytest.CaptureFixture[str]) -> None:
    """Database, data sets, charts and dashboard by its API; every chart has rows, and asking again costs nothing."""
    board = runpy.run_path(str(FOLDER / "board.py"))
    asked = "SELECT sex, count(*) AS people FROM visits GROUP BY sex"
    board["main"].__globals__["PRIVATE"] = asked
    board["main"].__globals__["charts"] = lambda people, private: [
        ("a", "table", private, {"query_mode": "raw", "all_columns": ["sex", "people"]}),
        ("b", "table", people, {"query_mode": "raw", "all_columns": ["sex", "age"]}),
    ]
    word = PASSWORD.replace(" ", "%20")
    server = f"postgresql+psycopg2://ana:{word}@127.0.0.1:{clinic.port}/clinic?options=-c%20dp.epsilon%3D0.1"
    board["main"](superset, server)
    assert re.search(r"/superset/dashboard/\d+/", capsys.readouterr().out)
    client = board["Superset"](superset, "admin", "admin")
    sets = {one["table_name"]: one["id"] for one in client.get("dataset/")["result"]}
    metric = board["metric"]
    with psycopg.connect(clinic.dsn(), autocommit=True) as con:
        before = None
        for _ in range(2):
            for name, column in (("people by share, server", "sum(people)"), ("people", "count(*)")):
                query = {"columns": ["sex"], "metrics": [metric(column, "n")], "filters": [], "row_limit": 100}
                body = {"datasource": {"id": sets[name], "type": "table"}, "force": True, "queries": [query]}
                (found,) = client.post("chart/data", body)["result"]
                assert {row["sex"] for row in found["data"]} == {"F", "M"}
            before = before or spent(con)
            assert spent(con) == before

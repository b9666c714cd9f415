"""Who asks is who registered the functions: no SQL changes the account, and a token is no bearer cheque."""

from __future__ import annotations

import base64
import json
import re
from collections import Counter
from dataclasses import replace
from typing import Any

import duckdb
import pytest

import duckdp
from duckdp.errors import DuckDPError, ParameterError
from duckdp.front import binder
from tests.adversary.conftest import World, protect

FRESH = "dp_noisy_count('visits', epsilon := 0.01, fresh := true)"
BIND = "SELECT __dp_bind('dp_noisy_count', ['visits', '0.01', NULL, 'false', NULL, '{fresh}'], [])"


def payers(world: World) -> Counter[str]:
    return Counter(c.analyst for c in world.curator.ledger.charges())


FORGERIES = (
    "SET VARIABLE dp_user = 'bob'",
    "SET VARIABLE analyst = 'bob'",
    "SET VARIABLE dp_analyst = 'bob'",
    "CREATE SCHEMA bob",
    "CREATE TABLE dp_user AS SELECT 'bob' AS analyst",
    "CREATE MACRO current_user() AS 'bob'",
    "CREATE MACRO getvariable(x) AS '0.01'",
    "CREATE MACRO current_setting(x) AS 'bob'",
    "SET search_path = 'main'",
    "CREATE MACRO session_user() AS 'bob'",
    "CREATE MACRO coalesce2(a, b) AS 'bob'",
    "USE memory",
    "CREATE SCHEMA ana",
    "CREATE OR REPLACE MACRO dp_budget() AS TABLE SELECT 'bob' AS analyst",
)


def test_a_token_is_for_the_columns_that_it_was_bound_to(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Bound before a declaration changed, run after: nothing is charged, and no column is read as another."""
    con, plain = world.curator.connect("ana"), binder.plan_texts
    bound = con.execute(BIND.format(fresh="true")).fetchone()[0]  # type: ignore[index]
    token = re.search(r"__dp_rows\('([^']+)'\)", bound)[1]  # type: ignore[index]

    def changed(*call: Any) -> Any:
        found = plain(*call)
        return replace(found, columns=[*found.columns[1:], found.columns[0]])

    with monkeypatch.context() as patched:
        patched.setattr(binder, "plan_texts", changed)
        world.curator.grant("zoe", epsilon=1)  # somebody wrote to the ledger: the plan is made anew
        [(problem,)] = con.execute("SELECT __dp_ask(?)", [token]).fetchall()
    assert problem.startswith("C103: ")
    assert not payers(world)
    assert con.execute("SELECT __dp_ask(?)", [token]).fetchall() == [("",)]
    assert payers(world) == {"ana": 1}


def test_no_statement_changes_who_pays(world: World) -> None:
    con = world.curator.connect("ana")
    for forgery in FORGERIES:
        try:
            con.execute(forgery)
        except duckdb.Error:
            continue
    for name in ("bob", "ana', 'bob", '{"analyst": "bob"}'):
        for call in ("dp_noisy_count", "dp_noisy_count:bob", "bob"):
            try:
                text = con.execute(
                    "SELECT __dp_bind(?, ['visits', '0.01', NULL, 'false', NULL, 'true'], [[?]])", [call, name]
                )
                token = re.search(r"'([^']+)'", text.fetchone()[0])  # type: ignore[index]
                con.execute("SELECT __dp_ask(?)", [token[1] if token else ""]).fetchall()
            except duckdb.Error:
                continue
    con.execute(f"SELECT {FRESH}").fetchall()
    assert payers(world)["ana"] >= 1
    assert set(payers(world)) == {"ana"}


def test_a_macro_replaced_in_one_cursor_changes_no_other_analysts_instance(world: World) -> None:
    ana, bob = world.curator.connect("ana"), world.curator.connect("bob")
    ana.execute("CREATE OR REPLACE MACRO dp_noisy_count(t, epsilon := NULL, fresh := true) AS 42")
    assert ana.execute(f"SELECT {FRESH}").fetchall() == [(42,)]
    bob.execute(f"SELECT {FRESH}").fetchall()
    assert payers(world) == {"bob": 1}


def test_each_analyst_has_an_instance_of_their_own(world: World) -> None:
    ana, bob = world.curator.connect("ana"), world.curator.connect("bob")
    ana.execute("CREATE TABLE mine AS SELECT 1; SET VARIABLE dp_epsilon = 0.5")
    with pytest.raises(duckdb.CatalogException):
        bob.execute("FROM mine")
    assert bob.execute("SELECT getvariable('dp_epsilon')").fetchone() == (None,)
    assert bob.execute("SELECT analyst FROM dp_budget").fetchone() == ("bob",)
    assert bob.execute("SELECT count(*) FROM dp_ledger()").fetchone() == (0,)


def test_functions_cannot_be_registered_over_ours(world: World) -> None:
    con = world.curator.connect("ana")
    with pytest.raises(duckdb.Error):
        con.create_function("__dp_ask", lambda _: "", ["VARCHAR"], "VARCHAR")
    with pytest.raises(ParameterError, match="P107"):
        duckdp.register(con, world.curator, analyst="bob")
    con.execute(f"SELECT {FRESH}").fetchall()
    assert payers(world) == {"ana": 1}


def test_an_instance_with_foreign_functions_of_our_names_is_refused(world: World) -> None:
    with duckdb.connect() as con:
        for name in ("__dp_bind",):
            con.create_function(name, lambda a, b, c: "bob", ["VARCHAR", "VARCHAR[]", "VARCHAR[]"], "VARCHAR")
        with pytest.raises((ParameterError, duckdb.Error)):
            duckdp.register(con, world.curator, analyst="ana")


# ---- tokens -------------------------------------------------------------------------------------------------------


def token_of(con: duckdb.DuckDBPyConnection, fresh: str = "true") -> str:
    text = con.execute(BIND.format(fresh=fresh)).fetchone()[0]  # type: ignore[index]
    return re.search(r"'([^']+)'", text)[1]  # type: ignore[index]


def asked(con: duckdb.DuckDBPyConnection, token: str) -> str:
    return con.execute("SELECT __dp_ask(?)", [token]).fetchone()[0]  # type: ignore[index]


def count_of(con: duckdb.DuckDBPyConnection, token: str) -> list[int]:
    return con.execute("SELECT __dp_i64(?, 0)", [token]).fetchone()[0]  # type: ignore[index]


def alterations(token: str) -> dict[str, str]:
    body, _, mac = token.rpartition(".")
    call = json.loads(base64.urlsafe_b64decode(body))
    call[1][1] = "0.000001"
    cheaper = base64.urlsafe_b64encode(json.dumps(call).encode()).decode()
    return {
        "cheaper": f"{cheaper}.{mac}",
        "no mac": body,
        "empty mac": f"{body}.",
        "short mac": token[:-1],
        "empty": "",
        "only a dot": ".",
        "mac of nothing": f".{mac}",
        "upper case": f"{body}.{mac.upper()}x",
        "dots": "." * 50,
        "another nonce": f"{body[:-8]}AAAAAAA=.{mac}",
        "huge": "A" * 1_000_000 + "." + mac,
        "unicode": "é" * 100 + "." + mac,
        "not base64": f"%%%.{mac}",
        "doubled": token + token,
        "spaced": token + " ",
        "quoted": "'" + token,
    }


@pytest.mark.parametrize("how", alterations(base64.urlsafe_b64encode(b'["a", ["b", "c"]]').decode() + ".0"))
def test_an_altered_token_gives_nothing_and_costs_nothing(how: str, shared: World) -> None:
    con = shared.curator.connect("ana")
    altered = alterations(token_of(con))[how]
    assert asked(con, altered) == "P107: token='...': was not made by this connection."
    assert con.execute("SELECT __dp_rows(?)[1][1]", [altered]).fetchone() == (asked(con, altered),)
    for fetch in ("__dp_i64", "__dp_f64", "__dp_text", "__dp_bool"):
        with pytest.raises(duckdb.InvalidInputException) as caught:
            con.execute(f"SELECT {fetch}(?, 0)", [altered])
        assert ".py" not in str(caught.value)
    assert not payers(shared)


def test_a_token_is_worth_nothing_elsewhere(world: World) -> None:
    ana, bob = world.curator.connect("ana"), world.curator.connect("bob")
    token = token_of(ana)
    assert asked(bob, token).startswith("P107")
    with duckdb.connect() as con, world.open() as second:
        duckdp.register(con, world.curator, analyst="ana")
        assert asked(con, token).startswith("P107")  # another instance of the same analyst
        assert asked(second.connect("ana"), token).startswith("P107")  # another curator
    assert not payers(world)


def test_a_replayed_token_is_the_same_answer(world: World) -> None:
    con = world.curator.connect("ana")
    token = token_of(con)
    first = count_of(con, token)
    for _ in range(3):
        assert count_of(con, token) == first
        assert asked(con, token) == ""
    binder = world.curator.front("ana")._binder
    binder._answers.clear()  # forgotten: it comes from the ledger
    assert count_of(con, token) == first
    assert payers(world) == {"ana": 1}


def test_a_column_of_another_type_or_beyond_the_last_is_refused(world: World) -> None:
    con = world.curator.connect("ana")
    token = token_of(con)
    for call in ("__dp_f64(?, 0)", "__dp_text(?, 0)", "__dp_bool(?, 1)", "__dp_i64(?, 9)", "__dp_i64(?, -1)"):
        with pytest.raises(duckdb.InvalidInputException) as caught:
            con.execute(f"SELECT {call}", [token])
        assert ".py" not in str(caught.value)
    assert con.execute(
        "SELECT __dp_i64(NULL, 0), __dp_f64(?, NULL), __dp_ask(NULL), __dp_rows(NULL)", [token]
    ).fetchall() == [(None,) * 4]


def test_internal_functions_take_anything_without_a_python_trace(world: World) -> None:
    con = world.curator.connect("ana")
    for call in (
        "__dp_bind(NULL, NULL, NULL)",
        "__dp_bind('', [], [])",
        "__dp_bind('dp_query', [NULL], NULL)",
        "__dp_bind('prepare', ['x'], [])",
        "__dp_bind('__init__', ['x'], [['y']])",
        "__dp_bind('dp_ledger', ['a'], [['b']])",
        "__dp_bind('dp_noisy_count', [NULL, NULL, NULL, NULL, NULL, NULL], [])",
        "__dp_bind(repeat('x', 1000000), [], [])",
    ):
        text = con.execute(f"SELECT {call}").fetchone()[0]  # type: ignore[index]
        assert text.startswith("SELECT * FROM query(system.main.error('P107: ") or "error('C101: " in text
    assert con.execute("SELECT __dp_bind('dp_speaker', NULL, NULL)").fetchone()
    assert not payers(world)


# ---- what is stored -------------------------------------------------------------------------------------------------


def code(work: object) -> tuple[str, str]:
    with pytest.raises(DuckDPError) as caught:
        work()  # type: ignore[operator]
    return caught.value.code, caught.value.message


def test_stored_things_are_their_buyers(world: World) -> None:
    ana, bob = world.curator.session("ana"), world.curator.session("bob")
    ana.smooth_summary("visits", ["age"], name="mine", epsilon=1, degree=3)
    unknown = code(lambda: bob.smooth_answer("nothing", "age"))
    theirs = code(lambda: bob.smooth_answer("mine", "age"))
    assert unknown[0] == theirs[0] == "C110"
    assert unknown[1].replace("nothing", "mine") == theirs[1]
    assert code(lambda: bob.synthesize("mine", rows=10))[0] == "C110"
    assert "mine" not in str(bob.summaries())
    assert bob.smooth_summary("visits", ["age"], name="mine", epsilon=1, degree=2).cost == "epsilon=1"  # own name space
    stored = world.curator.ledger.charges("ana")[0].id
    assert code(lambda: world.curator.ledger.release("bob", stored))[0] == "C110"
    world.curator.share("mine", owner="ana", to="ana")


def test_a_name_is_never_overwritten(world: World) -> None:
    ana = world.curator.session("ana")
    ana.smooth_summary("visits", ["age"], name="mine", epsilon=1, degree=3)
    before = ana.smooth_answer("mine", "age").rows()
    for other in ({"epsilon": 2, "degree": 3}, {"epsilon": 1, "degree": 4}):
        assert code(lambda o=other: ana.smooth_summary("visits", ["age"], name="mine", **o))[0] == "C111"  # type: ignore[misc]
    assert code(lambda: ana.synthesize("visits", columns=["age"], name="mine", epsilon=1, rows=10))[0] == "C111"
    assert ana.smooth_summary("visits", ["age"], name="mine", epsilon=1, degree=3).cost == "nothing"
    assert ana.smooth_answer("mine", "age").rows() == before
    assert world.charges() == 1
    for name in ("../x", "a b", "A", "", "x" * 64, "a;drop", "a\n"):
        assert code(lambda n=name: ana.smooth_summary("visits", ["age"], name=n, epsilon=1))[0] == "P105"  # type: ignore[misc]
    for name in (7, None):
        assert code(lambda n=name: ana.smooth_summary("visits", ["age"], name=n, epsilon=1))[0] == "P107"  # type: ignore[misc]


def test_equal_questions_of_two_analysts_are_two_charges(world: World) -> None:
    answers = {n: world.curator.session(n).noisy_count("visits", epsilon="0.01").rows() for n in ("ana", "bob")}
    assert payers(world) == {"ana": 1, "bob": 1}
    again = {n: world.curator.session(n).noisy_count("visits", epsilon="0.01").rows() for n in ("ana", "bob")}
    assert again == answers


def test_revoked_and_frozen_stop_stored_answers_too(world: World) -> None:
    ana, con = world.curator.session("ana"), world.curator.connect("ana")
    ana.smooth_summary("visits", ["age"], name="mine", epsilon=1, degree=3)
    ana.noisy_count("visits", epsilon="0.1")
    ways = [
        lambda: ana.noisy_count("visits", epsilon="0.1"),
        lambda: ana.smooth_answer("mine", "age"),
        lambda: ana.catalog(),
        lambda: ana.sql("SELECT count(*) FROM visits", epsilon=1),
        lambda: ana.synthesize("mine", rows=5),
        lambda: ana.explain("SELECT count(*) FROM visits", epsilon=1),
        lambda: ana.noisy_count("no_such_table", epsilon=1),
        lambda: ana.summaries(),
    ]
    statements = (
        "FROM dp_noisy_count('visits', epsilon := 0.1)",
        "FROM dp_catalog",
        "FROM dp_smooth_answer('mine', 'age')",
    )
    world.curator.freeze(reason="audit")
    assert {code(way)[0] for way in ways} == {"B103"}
    world.curator.unfreeze(reason="done")
    for way in ways[:2]:
        way()
    world.curator.revoke("ana")
    assert {code(way)[0] for way in ways} == {"B103"}
    for statement in statements:
        with pytest.raises(duckdb.InvalidInputException, match=r"^Invalid Input Error: B103: "):
            con.execute(statement).fetchall()
    assert code(lambda: world.curator.session("ana"))[0] == "B103"


def test_strangers_learn_nothing(world: World) -> None:
    assert code(lambda: world.curator.session("eve"))[0] == "B102"
    assert code(lambda: world.curator.connect("eve"))[0] == "B102"
    with duckdb.connect() as con:
        assert code(lambda: duckdp.register(con, world.curator, analyst="eve"))[0] == "B102"
        assert not con.execute("FROM duckdb_functions() WHERE function_name LIKE '%dp_%' AND NOT internal").fetchall()
    assert code(lambda: world.curator.session("Ana'--"))[0] == "P105"


def test_without_a_budget_nothing_works(world: World, tmp_path: object) -> None:
    with duckdp.open(world.path, ledger=world.ledger.with_suffix(".second")) as curator:
        protect(curator)
        assert code(lambda: curator.session("ana"))[0] in ("B102", "B107")
        assert code(lambda: curator.grant("ana", epsilon=1))[0] == "B107"

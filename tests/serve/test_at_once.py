"""Private questions that a server answers at once: what the macro gives, at one charge, with the same refusals."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest

import duckdp
from duckdp.catalog.table import plain_type
from duckdp.front.binder import Binder
from duckdp.front.crossing import read_rows
from duckdp.functions.calling import texts_of
from duckdp.functions.macros import literal
from duckdp.functions.spec import FUNCTIONS
from duckdp.texts import sql_text
from tests.serve.conftest import make_clinic

AT_ONCE = [
    ("SELECT count(*) AS n FROM visits WHERE age > 30", {}),
    ("SELECT count(*), avg(cost), sum(age) AS s, max(age) FROM visits", {"intervals": "true"}),
    ("SELECT sex, count(*) AS n, avg(cost) AS c FROM visits GROUP BY sex ORDER BY n DESC", {}),
    ("SELECT sex, count(*) AS n FROM visits GROUP BY ALL", {"min_units": "20", "intervals": "true"}),
    ("SELECT date_trunc('month', day) AS month, count(*) AS n FROM visits GROUP BY 1 ORDER BY 1", {}),
    ("SELECT age > 40 AS old, count(DISTINCT patient_id) AS n FROM visits GROUP BY 1", {"mechanism": "laplace"}),
    ("SELECT count(*) AS n FROM visits", {"error": "30"}),
]
BY_DUCKDB = [
    "WITH a AS (SELECT sex, count(*) AS n FROM visits GROUP BY sex) SELECT max(n) FROM a",  # DuckDB computes it
    "SELECT day, age, count(*) FROM visits GROUP BY day, age",  # too many cells
]
NOT_OURS = ["SELECT count(*) FROM nothing", "SELECT count(*) FROM visits; SELECT 1"]
REFUSED = [
    ("SELECT * FROM visits", {}),
    ("SELECT count(nothing) FROM visits", {}),
    ("SELECT count(*) FROM visits WHERE age > 31", {"epsilon": "1000000"}),
    ("SELECT count(*) FROM visits", {"mechanism": "none"}),
    ("SELECT count(*) FROM visits", {"epsilon": "x"}),
    ("SELECT count(*) FROM visits", {"tolerance": "x"}),
]


@pytest.fixture(scope="module")
def curator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[duckdp.Curator]:
    """Of the clinic."""
    source, ledger = make_clinic(tmp_path_factory.mktemp("clinic"))
    with duckdp.open(source, ledger=ledger) as found:
        yield found


@pytest.fixture(scope="module")
def binder(curator: duckdp.Curator) -> Binder:
    """Of ana's, as her process has one."""
    return Binder(curator.session("ana").desk)


def by_macro(curator: duckdp.Curator, text: str, terms: dict[str, str]) -> tuple[list[Any], list[tuple[str, str]]]:
    given = "".join(f", {name} := {sql_text(value)}" for name, value in terms.items())
    with curator.connect("ana") as con:
        done = con.execute(f"SELECT * FROM dp_query({sql_text(text)}{given})")
        columns = [(d[0], str(d[1])) for d in done.description]
        return done.fetchall(), columns


@pytest.mark.parametrize(("text", "terms"), AT_ONCE)
def test_an_answer_at_once_is_the_one_of_the_macro(
    curator: duckdp.Curator, binder: Binder, text: str, terms: dict[str, str]
) -> None:
    terms = {"intervals": "false", **({} if "error" in terms else {"epsilon": "0.5"}), **terms}
    before = curator.ledger.count_charges()
    found = binder.query(text, terms)
    assert found is not None and found.problem is None and found.read
    assert curator.ledger.count_charges() == before + 1
    rows, columns = by_macro(curator, text, terms)  # the stored release
    assert curator.ledger.count_charges() == before + 1
    assert [repr(row) for row in read_rows(found.columns, found.rows)] == [repr(row) for row in rows]
    assert [(name, plain_type(kind)) for name, kind in found.columns] == columns


@pytest.mark.parametrize("text", BY_DUCKDB)
def test_what_duckdb_has_a_part_in_is_bound_and_not_charged(curator: duckdp.Curator, binder: Binder, text: str) -> None:
    before = curator.ledger.count_charges()
    assert binder.query(text, {"epsilon": "0.5", "intervals": "false"}) is None
    assert curator.ledger.count_charges() == before


@pytest.mark.parametrize("text", NOT_OURS)
def test_what_is_no_question_is_left_to_the_macro_which_refuses_it(
    curator: duckdp.Curator, binder: Binder, text: str
) -> None:
    terms = {"epsilon": "0.5", "intervals": "false"}
    before, noted = curator.ledger.count_charges(), len(curator.history(kind="refused", last=1000))
    assert binder.query(text, terms) is None
    assert len(curator.history(kind="refused", last=1000)) == noted
    with pytest.raises(duckdb.Error):
        by_macro(curator, text, terms)
    assert len(curator.history(kind="refused", last=1000)) == noted + 1
    assert curator.ledger.count_charges() == before


@pytest.mark.parametrize(("text", "terms"), REFUSED)
def test_refusals_are_those_of_the_macro(
    curator: duckdp.Curator, binder: Binder, text: str, terms: dict[str, str]
) -> None:
    terms = {"epsilon": "0.5", "intervals": "false", **terms}
    before = curator.ledger.count_charges()
    noted = len(curator.history(kind="refused", last=1000))
    found = binder.query(text, terms)
    assert found is not None and found.problem is not None and not found.rows
    assert len(curator.history(kind="refused", last=1000)) == noted + 1
    with pytest.raises(duckdb.Error) as raised:
        by_macro(curator, text, terms)
    assert found.problem in str(raised.value)
    assert curator.ledger.count_charges() == before


def test_who_has_no_grant_any_more_is_refused(tmp_path: Path) -> None:
    source, ledger = make_clinic(tmp_path)
    with duckdp.open(source, ledger=ledger) as owner:
        binder = Binder(owner.session("ana").desk)
        terms = {"epsilon": "0.5", "intervals": "false"}
        assert binder.query("SELECT count(*) FROM visits", terms).problem is None  # type: ignore[union-attr]
        owner.revoke("ana", reason="left")
        for given in (terms, {**terms, "intervals": "maybe"}):  # before anything is said of the arguments
            found = binder.query("SELECT count(*) FROM visits", given)
            assert found is not None and str(found.problem).startswith("B103") and not found.read


def test_what_is_planned_by_one_look_is_charged_by_the_last(tmp_path: Path) -> None:
    """A look that lasts sees nothing of what is written meanwhile; a charge does."""
    source, ledger = make_clinic(tmp_path)
    with duckdp.open(source, ledger=ledger) as owner:
        session = owner.session("ana")
        with session.desk.one_look():
            session.desk.require_grant()
            owner.revoke("ana", reason="left")
            session.desk.require_grant()
            with pytest.raises(duckdp.errors.BudgetError, match="B103"):
                session.noisy_count("visits", epsilon="0.1")
        assert not owner.ledger.charges()
        with pytest.raises(duckdp.errors.BudgetError, match="B103"):
            session.desk.require_grant()


def test_arguments_by_name_have_the_defaults_of_the_macro() -> None:
    """All functions of SQL without lists, so that no default is told in two ways."""
    for name, spec in FUNCTIONS.items():
        known = spec.of("sql")
        if any(p.kind.listed for p in known):
            continue
        for parameter, text in zip(known, texts_of(name, {}), strict=True):
            if not parameter.placed:
                said = literal(parameter.default)
                assert duckdb.sql(f"SELECT ({said})::VARCHAR").fetchall() == [(text,)], (name, parameter.name)

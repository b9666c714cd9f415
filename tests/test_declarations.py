"""Declarations that would break a bound, or drop rows without a word, are refused or read rightly."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from decimal import Decimal
from enum import IntEnum, StrEnum
from pathlib import Path
from typing import Any, NamedTuple

import duckdb
import numpy as np
import polars
import pytest

import duckdp
from duckdp.arguments import declared, plain
from duckdp.compiler.parse import parse_statement
from duckdp.core.types import AccountantKind, Neighbours
from duckdp.errors import CatalogError, DuckDPError, ParameterError, QueryError
from tests.gate import clinic, column, exact_answer, load, plan_for

COMMON = {"row_cap": 100, "unit_key": "pid", "max_rows": 2}


@pytest.fixture
def owner(tmp_path: Path) -> Iterator[duckdp.Curator]:
    path = str(tmp_path / "odd.duckdb")
    with duckdb.connect(path) as con:
        con.execute(
            "CREATE TABLE t (pid INTEGER, other INTEGER, a INTEGER, f FLOAT, big BIGINT, st STRUCT(a INTEGER), "
            '"__unit" INTEGER); '
            "INSERT INTO t SELECT i % 5, i, i, 0.1, 9007199254740993, {'a': i}, i FROM range(20) x(i); "
            "CREATE VIEW renamed AS SELECT other AS pid, a FROM t; "
            "CREATE VIEW field AS SELECT pid, a FROM t WHERE st.a > 3; "
            "CREATE VIEW shown AS SELECT pid, st.a AS a FROM t; CREATE VIEW good AS SELECT pid, a FROM t WHERE t.f > 0"
        )
    with duckdp.open(path, ledger=str(tmp_path / "odd.ledger")) as curator:
        yield curator


@pytest.mark.parametrize(("view", "code"), [("renamed", "C105"), ("field", "C106"), ("shown", "C106")])
def test_views_that_name_other_columns_are_refused(owner: duckdp.Curator, view: str, code: str) -> None:
    """The base table has a column of that very name, so another unit or another filter would be used in silence."""
    with pytest.raises(CatalogError) as caught:
        owner.protect(view, bounds={"a": (0, 10)}, **COMMON)  # type: ignore[arg-type]
    assert caught.value.code == code


def test_views_may_name_their_table(owner: duckdp.Curator) -> None:
    assert owner.protect("good", bounds={"a": (0, 10)}, **COMMON).filter is not None  # type: ignore[arg-type]


def test_a_column_cannot_stand_for_the_unit(owner: duckdp.Curator) -> None:
    with pytest.raises(CatalogError) as caught:
        owner.protect("t", columns=["__unit"], **COMMON)  # type: ignore[arg-type]
    assert caught.value.code == "C105"


def test_domains_are_exact_as_they_are_read(owner: duckdp.Curator) -> None:
    with pytest.raises(ParameterError) as caught:  # two values, one DOUBLE: rows would count twice
        owner.protect("t", domains={"big": [2**53, 2**53 + 1]}, **COMMON)  # type: ignore[arg-type]
    assert caught.value.code == "P104"
    for text in ("a\x00", "\ud800"):
        with pytest.raises(DuckDPError):
            owner.protect("t", domains={"st": [text]}, **COMMON)  # type: ignore[arg-type]
    [f] = owner.protect("t", domains={"f": [0.1]}, **COMMON).columns  # type: ignore[arg-type]
    assert f.domain == (0.10000000149011612,)


@pytest.mark.parametrize(
    ("domain", "other", "wanted"),
    [
        ((None,), None, {None: 2}),
        ((1, None), None, {1: 1, None: 2}),
        ((1, None), 9, {1: 1, None: 2, 9: 1}),
        ((1,), 9, {1: 1, 9: 1}),
        ((1, 9), 9, {1: 1, 9: 1}),
        (tuple(range(200)), None, {1: 1, 3: 1}),
    ],
)
@pytest.mark.parametrize("unit_key", ["pid", None])
def test_null_and_other_in_a_domain(domain, other, wanted, unit_key, con: duckdb.DuckDBPyConnection) -> None:
    table = clinic(columns=(column("a", "INTEGER", domain=domain, other=other),), unit_key=unit_key, max_groups=10)
    load(con, table, [(1, 1), (2, 3), (3, None), (4, None)])
    keys, counts = exact_answer(plan_for("SELECT a, count(*) FROM clinic GROUP BY a", table), con)
    assert {k: n for k, n in zip(keys.values, counts.values, strict=True) if n} == wanted


def test_infinities_never_make_a_row_more_than_the_domain(con: duckdb.DuckDBPyConnection) -> None:
    """inf - inf is NaN, which no interval shows: a further row crossing would tell that somebody has an infinity."""
    table = clinic(columns=(column("x", "DOUBLE"),))
    load(con, table, [(1, float("inf")), (2, float("nan")), (3, 2.0)])
    for key in ("floor(tanh(x - x))", "floor(x * 0)", "sign(x) * 0"):
        plan = plan_for(f"SELECT {key} AS k, count(*) FROM clinic GROUP BY k", table)
        assert sum(exact_answer(plan, con)[1].values) <= 3


def test_no_plan_lets_the_noise_leave_its_range() -> None:
    """Near the edge of the sampler's range, success would depend on the data."""
    refused = 0
    for epsilon in (f"{1e-6 * 1.15**i:.9f}" for i in range(60)):
        try:
            plan = plan_for(
                "SELECT avg(age) FROM clinic", clinic(row_cap=1), epsilon=epsilon, delta="1e-18", mechanism="gaussian"
            )
        except ParameterError:
            refused += 1
            continue
        assert all(
            n is None or 100 * n.scale + m.largest < 2**62 for m, n in zip(plan.measures, plan.noises, strict=True)
        )
    assert 0 < refused < 60


@pytest.mark.parametrize("epsilon", ["0.01", "0.5", "10"])
def test_gaussian_noise_serves_averages(epsilon: str) -> None:
    plan = plan_for(
        "SELECT avg(cost), var_samp(age) FROM clinic",
        clinic(max_groups=20, max_rows=5),
        epsilon=epsilon,
        mechanism="gaussian",
    )
    assert plan.family == "gaussian"


def test_statements_do_not_reach_the_log(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG):
        parse_statement("EXPLAIN SELECT '\x1b[31m' FROM clinic")
        with pytest.raises(QueryError):
            plan_for("SELECT sum(age IGNORE NULLS) FROM clinic", clinic())
    assert not caplog.records


@pytest.mark.parametrize("text", ["SELECT '\ud800'", 'SELECT 1 AS "\udfff"', "SELECT 'a\x00'"])
def test_what_is_no_text_is_no_statement(text: str) -> None:
    with pytest.raises(QueryError) as caught:
        parse_statement(text)
    assert caught.value.code == "Q101"


def test_the_session_pays_once_for_one_question_in_any_order(curator: duckdp.Curator) -> None:
    ana = curator.session("ana")
    first = ana.sql("SELECT sex, sum(cost), avg(age) FROM visits GROUP BY sex", epsilon=1)
    again = ana.sql("select AVG(v.age) as a, Sum(cost) b, sex from visits v group by sex order by a", epsilon="1.0")
    assert again.cost == "nothing"
    assert dict(zip(*(c.values for c in (first.columns[0], first.columns[1])), strict=True)) == dict(
        zip(*(c.values for c in (again.columns[2], again.columns[1])), strict=True)
    )
    assert curator.ledger.state().accountant is AccountantKind.BASIC
    assert curator.ledger.state().neighbours is Neighbours.ADD_REMOVE


def test_figures_of_classes_that_callers_have(owner: duckdp.Curator) -> None:
    """Enums, named tuples and frames of other libraries stand for what they hold: the declaration is the plain one."""

    class Ends(NamedTuple):
        lower: int
        upper: int

    class Text(StrEnum):
        one = "1"
        two = "2"

    class Number(IntEnum):
        one = 1
        two = 2

    plain = {"bounds": {"a": (0, 10)}, "domains": {"big": [1, 2]}, "row_cap": 100}
    wanted = owner.protect("t", **plain).declaration  # type: ignore[arg-type]
    told = {"a": Ends(0, 10)}
    for domain in (list(Number), tuple(Number), polars.Series([1, 2])):
        assert owner.protect("t", bounds=told, domains={"big": domain}, row_cap=100).declaration == wanted  # type: ignore[dict-item]
    found = declared(duckdp.Curator.protect, {"domains": {"name": list(Text)}})
    assert [type(value) for value in found["domains"]["name"]] == [str, str]


def test_flags_of_numpy_are_flags(owner: duckdp.Curator) -> None:
    owner.budget(epsilon=1)
    owner.budget(epsilon=2, raise_to=np.True_, reason="more")  # type: ignore[arg-type]
    assert owner.ledger.state().epsilon_nano == 2 * 10**9


OF_NUMPY = (
    np.byte,
    np.short,
    np.intc,
    np.int_,
    np.longlong,
    np.ubyte,
    np.ushort,
    np.uintc,
    np.uint,
    np.ulonglong,
    np.half,
    np.single,
    np.double,
    np.longdouble,
)


@pytest.mark.parametrize("kind", OF_NUMPY, ids=lambda kind: kind.__name__)
def test_numbers_of_numpy_are_numbers(owner: duckdp.Curator, kind: Callable[[int], object]) -> None:
    """Of every width, longlong and longdouble among them, wherever a number is taken."""
    two: Any = kind(2)
    whole = {} if "float" in kind.__name__ or kind in (np.half, np.longdouble) else {"row_cap": kind(100)}
    unit = {"unit_key": "pid", "max_rows": kind(2), "null_units": [kind(3)]} if whole else {}
    given: dict[str, Any] = {"row_cap": 100, **whole, **unit}
    declared_ = owner.protect(
        "t", bounds={"a": (kind(0), kind(20))}, domains={"big": [kind(1), two]}, nulls={"a": two}, **given
    )
    told = [
        (type(v), v)
        for c in declared_.columns
        for v in (c.lower, c.upper, c.null_value, *(c.domain or ()))
        if v is not None
    ]
    assert sorted(v for _, v in told) == [0, 1, 2, 2, 20]
    assert {t for t, _ in told} == {int}
    assert declared_.row_cap == 100
    owner.budget(epsilon=kind(20))  # type: ignore[arg-type]
    owner.grant("ana", epsilon=kind(20))  # type: ignore[arg-type]
    ana = owner.session("ana")
    ana.sql("SELECT count(*) FROM t WHERE a > ?", epsilon=two, parameters=[two])
    ana.noisy_count("t", epsilon=kind(1))  # type: ignore[arg-type]
    ana.synthesize("t", epsilon=1, columns=["big"], rows=5, time_limit=kind(60))  # type: ignore[arg-type]
    assert sorted(c.loss.epsilon_nano for c in owner.ledger.charges()) == [10**9, 10**9, 2 * 10**9]
    assert repr(plain(two)) == ("2" if whole else "2.0")


def test_decimals_stand_for_numbers(owner: duckdp.Curator) -> None:
    """DuckDB gives a DECIMAL's values so, and an owner lists what it gave."""
    bounds, domain = (Decimal("0.0"), Decimal(20)), [Decimal(1), Decimal("2.0")]
    made = owner.protect("t", bounds={"a": bounds}, domains={"big": domain}, row_cap=100)
    (a,), (big,) = ([c for c in made.columns if c.name == name] for name in ("a", "big"))
    assert (a.lower, a.upper, big.domain) == (0, 20, (1, 2))
    for value in (Decimal("NaN"), Decimal("sNaN"), Decimal("Infinity"), "x"):
        with pytest.raises(ParameterError, match="must be a number"):
            owner.protect("t", domains={"big": [value]}, row_cap=100)
        with pytest.raises(ParameterError, match="must be two numbers"):
            owner.protect("t", bounds={"a": (value, 3)}, row_cap=100)
    for value, told in ((Decimal(2**53 + 1), "must be a whole number"), (Decimal("1e400"), r"1E\+400.*at most")):
        with pytest.raises(ParameterError, match=told):
            owner.protect("t", domains={"big": [value]}, row_cap=100)


@pytest.mark.parametrize("domain", [1, 1.5, True, "x", b"x", object()], ids=lambda value: type(value).__name__)
def test_a_domain_is_a_list(owner: duckdp.Curator, domain: Any) -> None:
    owner.protect("t", columns=["a"], row_cap=100)
    for declare in (owner.protect, owner.amend):
        with pytest.raises(ParameterError) as refused:
            declare("t", domains={"a": domain}, row_cap=100)
        assert refused.value.code == "P104"


@pytest.mark.parametrize(
    "path", ["x" * 100_000, "x" * 256, "é" * 128 + ".html", "x/" * 3000], ids=lambda p: str(len(p))
)
def test_a_path_that_no_file_system_holds_is_refused(owner: duckdp.Curator, path: str) -> None:
    """By every method that takes one: it was an OSError, which shows the whole of it."""
    owner.budget(epsilon=1)
    owner.grant("ana", epsilon=1)
    ana = owner.session("ana")
    for call in (
        lambda: ana.export_summary("s", path),
        lambda: ana.export_tables(["s"], path),
        lambda: ana.synthetic_report("s", path),
        lambda: owner.export_history(path),
        lambda: owner.ledger.backup(path),
        lambda: duckdp.open(path),
        lambda: duckdp.open({}, ledger=path),
        lambda: duckdp.smooth.load(path),
    ):
        with pytest.raises(DuckDPError) as refused:
            call()
        assert refused.value.code == "P107"
        assert len(str(refused.value)) < 400


def test_only_numbers_of_numpy_itself_are_taken() -> None:
    class Odd(np.float64):
        def __float__(self) -> float:
            raise ZeroDivisionError

    for value in (Odd(1), np.zeros(1), np.datetime64("2020-01-01"), np.complex128(1), np.str_("x"), "x", None):
        assert plain(value) is value
    assert plain(np.True_) is True

"""Extreme values of every parameter of every public call: coded errors alone, and nothing charged by a refused call."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import Any

import duckdb
import pytest

import duckdp
from duckdp.curator import Curator
from duckdp.errors import DuckDPError, InternalError, ParameterError
from duckdp.faces.calls import Calls
from duckdp.session import Session

TINY = 5e-324
EXTREMES: list[object] = [
    None,
    True,
    False,
    0,
    -1,
    1,
    10**400,
    -(10**400),
    2**63,
    0.0,
    -0.0,
    TINY,
    1e-320,
    1e-18,
    5e-19,
    1e-9,
    1e-7,
    0.5,
    1e308,
    math.nan,
    math.inf,
    -math.inf,
    "",
    " ",
    "x",
    "nan",
    "-inf",
    "1e-999999999",
    "1e999999999",
    "0x10",
    "1_0",
    "١",
    "1" * 70,
    Decimal("NaN"),
    Decimal("sNaN"),
    Decimal("1e-30"),
    b"1",
    [],
    [1],
    {},
    {"n": 0.0},
    {"n": TINY},
    {"n": math.nan},
    {"m": 1},
    (),
    object(),
    complex(1, 1),
    "\x00",
    "\ud800",
    "1e-18",
    "2e-18",
    "1e-17",
    "0.000001",
    100,
    1e6,
]
GROUPED = "SELECT name, count(*) AS n, avg(x) AS a FROM t GROUP BY name"
CALLS: dict[str, dict[str, Any]] = {
    "sql": {"text": GROUPED, "epsilon": 1, "delta": 1e-8},
    "explain": {"text": GROUPED, "epsilon": 1, "delta": 1e-8},
    "noisy_count": {"table": "t", "epsilon": 1},
    "median_smooth": {"table": "t", "column": "x", "epsilon": 1},
    "smooth_summary": {"table": "t", "columns": ["x"], "name": "s", "epsilon": 1, "degree": 3},
    "explain_summary": {"table": "t", "columns": ["x"], "epsilon": 1, "degree": 3},
    "smooth_answer": {"name": "s", "function": "x"},
    "smooth_answers": {"name": "s", "functions": ["x"]},
    "explain_synthesize": {"table": "t", "epsilon": 1},
}
MORE = {"smooth_summary": ("basis", "interactions", "weights", "noise", "per")}


@pytest.fixture(scope="module")
def curator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Curator]:
    con = duckdb.connect()
    con.execute(
        "CREATE TABLE t AS SELECT i AS id, (i % 9)::DOUBLE AS x, i::DOUBLE AS small, 'n' || i % 3 AS name FROM "
        "range(400) r(i)"
    )
    with duckdp.open(con, ledger=str(tmp_path_factory.mktemp("extremes") / "e.ledger")) as made:
        made.protect("t", row_cap=1000, bounds={"x": (0, 9), "small": (0, TINY)}, columns=["name"])
        made.budget(epsilon=100_000, delta=0.5)
        made.grant("ana", epsilon=100_000, delta=0.5)
        yield made


def _refused_or_done(session: Session, call: Callable[[], object]) -> str | None:
    """None when the call was fine; else what is wrong."""
    before = len(session.desk.own_charges())
    try:
        call()
    except InternalError as error:
        return f"internal: {error}"
    except DuckDPError as error:
        made = session.desk.own_charges()[before:]
        return None if not made else f"charged by a refused call: {error}"
    except BaseException as error:  # noqa: BLE001 - what this test looks for
        return f"raw {type(error).__name__}: {error}"
    return None


def _parameters(method: str) -> list[str]:
    listed = list(inspect.signature(getattr(Calls, method, None) or getattr(Session, method)).parameters)
    return [p for p in listed if p not in ("self", "more", "progress")] + list(MORE.get(method, ()))


@pytest.mark.parametrize("method", sorted(CALLS))
def test_every_parameter_of_every_call(curator: Curator, method: str) -> None:
    session = curator.session("ana")
    if method.startswith("smooth_answer"):
        session.smooth_summary("t", ["x"], name="s", epsilon=1, degree=3)
    wrong = []
    for parameter in _parameters(method):
        for value in EXTREMES:
            for mechanism in ("auto", "gaussian") if method in ("sql", "explain") else (None,):
                given = CALLS[method] | ({"mechanism": mechanism} if mechanism else {})
                given = given | {parameter: value}
                problem = _refused_or_done(session, lambda g=given: getattr(session, method)(**g))  # type: ignore[misc]
                if problem is not None:
                    wrong.append((parameter, value, mechanism, problem))
    assert wrong == [], wrong[:5]


STATEMENTS = [
    "SELECT sum({x}) FROM t",
    "SELECT avg({x}) FROM t",
    "SELECT var_samp(x * {x}) FROM t",
    "SELECT count(*) FROM t WHERE x > {x}",
    "SELECT sum(least(greatest(x, 0), {x})) FROM t",
    "SELECT floor(x / {x}) AS k, count(*) FROM t GROUP BY k",
    "SELECT sum(small), avg(small), stddev_pop(small + {x}) FROM t",
    "SELECT count(*) / {x}, count(*) ** {x} FROM t",
    "SELECT count(*) FROM t LIMIT {x}",
    "SELECT round(avg(x), {x}) FROM t",
    "SELECT count(*) AS n FROM t HAVING n > {x}",
    "SELECT CASE WHEN x > {x} THEN {x} ELSE -{x} END AS k, count(*) FROM t GROUP BY k",
    "SELECT sum(x % {x}) FROM t",
]
NUMBERS = [
    "0",
    "1e-320",
    "5e-324",
    "1e-100",
    "9.9e-101",
    "1e100",
    "1.1e100",
    "1e300",
    "1e308",
    "1e400",
    "1e-400",
    "0.1",
    "9007199254740993",
    "1" + "0" * 200,
    "NULL",
    "-1",
    ".5",
    "'inf'::DOUBLE",
    "true",
]


@pytest.mark.parametrize("text", STATEMENTS)
def test_extreme_numbers_in_statements(curator: Curator, text: str) -> None:
    session = curator.session("ana")
    for number in NUMBERS:
        statement = text.format(x=number)
        assert _refused_or_done(session, lambda s=statement: session.sql(s, epsilon=1)) is None, statement  # type: ignore[misc]
        assert _refused_or_done(session, lambda s=statement: session.sql(s, error=5)) is None, statement  # type: ignore[misc]


def test_the_reported_cases(curator: Curator) -> None:
    session = curator.session("ana")
    for text, terms, code in (
        (GROUPED, {"epsilon": 1, "delta": 1e-18, "mechanism": "gaussian"}, "P102"),
        ("SELECT sum(small) FROM t", {"epsilon": 1}, "P104"),
        ("SELECT sum(1e-320) FROM t", {"epsilon": 1}, "P104"),
    ):
        with pytest.raises(ParameterError) as caught:
            session.sql(text, **terms)  # type: ignore[arg-type]
        assert caught.value.code == code
    assert session.sql(GROUPED, epsilon=1, delta=1e-18) is not None  # Laplace noise takes no delta

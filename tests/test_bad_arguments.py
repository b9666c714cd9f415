"""Each argument of each mechanism given as what it must not be: coded words, nothing charged, ``explain`` alike.

Cases are generated: every parameter of every dp function that releases something has bad values here, by its name,
and a parameter without any fails a test. Odd values of the wrong type: ``test_declared_hostile``; odd data:
``test_bad_input``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

import duckdb
import pyarrow as pa
import pytest

import duckdp
from duckdp.functions import FUNCTIONS
from duckdp.functions.spec import REQUIRED, Spec

#: What the others are given, as SQL, while one is bad.
GOOD: Mapping[str, str] = {
    "table": "'t'",
    "column": "'x'",
    "x": "'x'",
    "y": "'y'",
    "start": "'start'",
    "end": "'town'",
    "weight": "'x'",
    "target": "'y'",
    "aggregate": "'kurtosis(x)'",
    "source": "'t'",
    "function": "'x'",
    "keys": "'town'",
    "epsilon": "1",
    "threshold": "3",
    "statement": "'SELECT count(*) FROM t'",
    "features": "['x']",
    "columns": "['x']",
    "functions": "['x', 'x * x']",
    "candidates": "['x > 1', 'x > 2']",
    "quantiles": "[0.5]",
    "questions": "[$$town = 'a'$$]",
    "rows": "10",
    "k": "2",
    "predicate": "'x > 1'",
}
#: Of functions, where those do not fit.
OWN: Mapping[str, Mapping[str, str]] = {
    "dp_logistic_regression": {"target": "'y > 5'"},
    "dp_sample_aggregate": {"low": "0", "high": "9", "blocks": "20"},
    "dp_mwem": {"columns": "['town']"},
    "dp_small_database": {"columns": "['town']", "size": "3"},
    "dp_pmw_open": {"columns": "['town']", "threshold": "30"},
    "dp_marginals": {"columns": "['start', 'town']"},
    "dp_correlations": {"columns": "['x', 'y']"},
    "dp_sparse_ask": {"handle": "{sparse}", "predicate": "'x > 7'"},
    "dp_pmw_answer": {"handle": "{pmw}", "predicate": "$$town = 'a'$$"},
    "dp_smooth_answer": {"name": "'s'"},
    "dp_smooth_answers": {"name": "'s'"},
    "dp_choose": {"k": "1"},
    "dp_smooth_summary": {"name": "'new'"},
}
_NAMES = ("'nope'", "''", "'x; SELECT 1'", "NULL")
_TEXTS = ("'nope > 1'", "'x >'", "'x > 1; SELECT 2'", "'count(*) > 1'")
_LISTS = ("[]", "['nope']", "[NULL]", "['']", "NULL")
_NUMBERS = ("'nan'", "'inf'", "'nan'::DOUBLE", "'-inf'::DOUBLE", "'x'")
_COUNTS = ("0", "-1", "0.5", "'nan'", "1000000000000", "170141183460469231731687303715884105727")
_FLAGS = ("'maybe'", "2")
_WORDS = ("'nope'", "''")
BAD: Mapping[str, Sequence[str]] = {
    **dict.fromkeys(("table", "column", "x", "y", "start", "end", "weight", "keys", "source", "name"), _NAMES),
    **dict.fromkeys(("target", "function"), ("'nope'", "'x +'", "''", "NULL")),
    "aggregate": ("'nope(x)'", "'kurtosis(nope)'", "'kurtosis('", "''", "NULL"),
    "statement": ("'SELECT'", "'SELECT sum(nope) FROM t'", "'SELECT x FROM t'", "''", "'DROP TABLE t'"),
    **dict.fromkeys(("predicate",), _TEXTS),
    **dict.fromkeys(("groups", "per"), ("'nope'", "'note'", "'town, town'")),
    "category": ("'nope'",),
    **dict.fromkeys(("columns", "features"), (*_LISTS, "['x', 'x']", "['x', NULL]")),
    "functions": (*_LISTS, "['x', NULL]"),
    **dict.fromkeys(("candidates", "questions"), (*_LISTS, "['x > 1', 'x > 1']", "['x > 1', 'x  >  1']", "['x >']")),
    "quantiles": ("[]", "[0.5, 0.5]", "[NULL]", "['nan'::DOUBLE]", "[-0.1]", "[1.1]", "NULL"),
    "more": ("['nope(x)']", "[NULL]", "['kurtosis(x)', 'kurtosis(x)']"),
    "epsilon": ("0", "-1", "'nan'", "'inf'", "101", "'1e-9'", "'x'"),
    "delta": ("1", "-0.1", "'nan'", "'inf'", "'x'"),
    **dict.fromkeys(("threshold", "quantile", "low", "high", "ridge", "tolerance", "time_limit", "step"), _NUMBERS),
    "error": (*_NUMBERS, "0", "-1"),
    **dict.fromkeys(("hits", "rounds", "size", "bins", "blocks", "moves", "k", "most", "rows", "min_units"), _COUNTS),
    **dict.fromkeys(("degree", "smoothness", "interactions"), _COUNTS),
    **dict.fromkeys(("unit", "fresh", "intervals", "across", "ranges", "values", "simultaneous"), _FLAGS),
    **dict.fromkeys(("method", "mechanism", "noise", "basis", "weights", "statistic", "purpose"), _WORDS),
    "handle": ("{bens}", "{other}", "{ended}", "999999", "0", "-1", "'x'"),
}
#: They mean something there: (function, parameter) -> values that are answered.
MEANT: Mapping[tuple[str, str], Sequence[str]] = {
    ("dp_query", "min_units"): ("1000000000000",),  # more than there are: nothing is told
    ("dp_smooth_summary", "name"): ("'nope'",),  # of a new one
    ("dp_synthesize", "name"): ("'nope'", "NULL"),
    ("dp_synthesize", "columns"): ("NULL",),  # all
    ("dp_synthesize", "target"): ("''", "NULL"),  # none
    ("dp_smooth_answers", "functions"): ("[]",),  # no answers
}
CODED = re.compile(r"^[\w ]+ Error: (?:P|C|Q|B)\d{3}: ")
ASKING = {name: spec for name, spec in FUNCTIONS.items() if spec.costs != "nothing" and "explain" not in name}
ASKING |= {n: FUNCTIONS[n] for n in ("dp_sparse_ask", "dp_pmw_answer", "dp_smooth_answer", "dp_smooth_answers")}
#: Of functions whose explanation has another name.
EXPLAIN = {"dp_query": "dp_explain", "dp_smooth_summary": "dp_explain_summary"}
TOWNS = ["a", "b", "c", "d"]


@pytest.fixture(scope="module")
def curator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[duckdp.Curator]:
    rows = [(i, i % 10, (7 * i) % 10, TOWNS[i % 4], TOWNS[i // 4 % 4], f"n{i % 3}") for i in range(60)]
    names = ("person", "x", "y", "start", "town", "note")
    frame = pa.table({name: [row[i] for row in rows] for i, name in enumerate(names)})
    with duckdp.open({"t": frame}, ledger=str(tmp_path_factory.mktemp("bad") / "t.ledger")) as owner:
        owner.protect(
            "t",
            unit_key="person",
            max_rows=2,
            row_cap=100,
            expected_rows=60,
            bounds={"x": (0, 10), "y": (0, 10)},
            domains={"start": TOWNS, "town": TOWNS},
            columns=["note"],
        )
        owner.budget(epsilon=10_000, delta="0.01")
        owner.grant("ana", epsilon=5_000, delta="0.005")
        owner.grant("ben", epsilon=100)
        owner.session("ana").smooth_summary("t", ["x"], epsilon=1, degree=3, name="s")
        yield owner


@pytest.fixture(scope="module")
def handles(curator: duckdp.Curator) -> dict[str, dict[str, int]]:
    """By function: an open handle, one of another analyst, one of the other kind, an ended one."""
    ana, ben = curator.session("ana"), curator.session("ben")
    sparse = ana.sparse_open("t", 1_000_000, epsilon=1)["handle"][0]
    pmw = ana.pmw_open("t", ["town"], epsilon=1)["handle"][0]
    ended = ana.sparse_open("t", -1_000_000, epsilon=1, hits=1)["handle"][0]
    assert ana.sparse_ask(ended, "x > 1")["above"] == [True]
    spent = ana.pmw_open("t", ["town"], epsilon=1, hits=1, threshold=1)["handle"][0]
    asked = (ana.pmw_answer(spent, f"town = 'c' AND {n} = {n}")["measured"][0] for n in range(200))
    assert any(asked)
    given = {"sparse": sparse, "pmw": pmw}
    bens, bens_pmw = ben.sparse_open("t", 5, epsilon=1), ben.pmw_open("t", ["town"], epsilon=1)
    return {
        "dp_sparse_ask": {**given, "bens": bens["handle"][0], "other": pmw, "ended": ended},
        "dp_pmw_answer": {**given, "bens": bens_pmw["handle"][0], "other": sparse, "ended": spent},
    }


def call(name: str, spec: Spec, bad: str, value: str) -> str:
    """The arguments of a call in SQL, one of them bad, as the function of this name takes them."""
    own, parts = OWN.get(name, {}), list[str]()
    for p in spec.of("sql"):
        if p.name == bad:
            parts.append(f"{p.sql} := {value}")
        elif p.name in own or p.default is REQUIRED or p.name == "epsilon":
            parts.append(f"{p.sql} := {own.get(p.name) or GOOD[p.name]}")
    return ", ".join(parts)


CASES = [(name, p.name) for name, spec in ASKING.items() for p in spec.of("sql")]


def test_every_argument_has_bad_values() -> None:
    assert {parameter for _, parameter in CASES} <= set(BAD)


@pytest.mark.parametrize("name", ASKING)
def test_without_a_bad_argument_it_is_answered(
    curator: duckdp.Curator, handles: dict[str, dict[str, int]], name: str
) -> None:
    """The twin: what is refused below is refused for the one argument."""
    text = call(name, ASKING[name], "", "").format(**handles.get(name, {}))
    assert curator.connect("ana").execute(f"FROM {name}({text})").fetchall() is not None


@pytest.mark.parametrize(("name", "parameter"), CASES)
def test_a_bad_argument_is_coded_and_free(
    curator: duckdp.Curator, handles: dict[str, dict[str, int]], name: str, parameter: str
) -> None:
    explain = EXPLAIN.get(name) or name.replace("dp_", "dp_explain_", 1)
    wrong, before = list[str](), len(curator.ledger.charges())
    con = curator.connect("ana")
    for value in BAD[parameter]:
        if value in MEANT.get((name, parameter), ()):
            continue
        asked = [name]
        if explain in FUNCTIONS and any(p.name == parameter for p in FUNCTIONS[explain].of("sql")):
            asked.append(explain)
        for each in asked:
            text = call(name, FUNCTIONS[each], parameter, value).format(**handles.get(name, {}))
            try:
                con.execute(f"FROM {each}({text})").fetchall()
                wrong.append(f"answered: {each}({text})")
            except duckdb.Error as error:
                if not CODED.match(f"Error: {error}") and not CODED.match(str(error)):
                    wrong.append(f"{each}({text}): {str(error)[:200]}")
    assert not wrong, "\n".join(wrong)
    assert len(curator.ledger.charges()) == before

"""What is aggregated over the groups of an answer is noted, with how many there are, empty ones included."""

from __future__ import annotations

import pytest

from duckdp.compiler.outer import over_groups
from duckdp.compiler.outer.apart import take_apart
from duckdp.compiler.parse import parse_statement
from tests.relational import tables

KNOWN = tables()
DAILY = "SELECT at, count(*) AS n FROM visits GROUP BY at"
NOTE = "aggregated once more: {} groups, empty ones included"


def notes(text: str) -> list[str]:
    """Of all parts, in their order."""
    found = take_apart(parse_statement(text), KNOWN, text)
    assert found is not None
    return [note for part in found.parts for note in part.told]


@pytest.mark.parametrize(
    ("text", "groups"),
    [
        (f"SELECT avg(n) FROM ({DAILY})", [91]),
        (f"SELECT count(*), max(n) - min(n) FROM ({DAILY})", [91]),
        (f"WITH a AS ({DAILY}) SELECT month(at), median(n) FROM a GROUP BY 1", [91]),
        (f"WITH a AS ({DAILY}), b AS (SELECT n * 2 AS n FROM a WHERE n > 0) SELECT count(*) FROM b", [91]),
        (f"SELECT at, n FROM ({DAILY}) WHERE n > (SELECT avg(n) FROM ({DAILY}))", [91]),
        (f"SELECT count_if(n > 3) + sum(n) FROM ({DAILY})", [91]),
        ("SELECT avg(n) FROM (SELECT quarter(at) AS q, month(at) AS m, count(*) AS n FROM visits GROUP BY 1, 2)", [3]),
        (
            "SELECT avg(n) FROM (SELECT d.day, d.label, count(*) AS n FROM visits v JOIN days d ON d.day = v.day "
            "GROUP BY 1, 2)",
            [10],
        ),
        (f"SELECT avg(n) FROM ({DAILY} UNION ALL SELECT at, count(*) FROM visits WHERE paid GROUP BY at)", [91, 91]),
        (f"SELECT sum(n) FROM ({DAILY})", []),  # nothing is added by what is about 0
        (f"SELECT at, n, avg(n) OVER () FROM ({DAILY})", []),  # its rows show how many there are
        (DAILY, []),
        ("SELECT avg(n) FROM (SELECT count(*) AS n FROM visits)", []),
        ("SELECT avg(k) FROM (SELECT pid, count(*) AS k FROM visits GROUP BY pid)", []),  # of units: one question
        (f"SELECT avg(s) FROM (SELECT month(at) AS m, sum(n) AS s FROM ({DAILY}) GROUP BY 1)", []),
    ],
)
def test_what_is_aggregated_again_has_a_note(text: str, groups: list[int]) -> None:
    assert notes(text) == [NOTE.format(n) for n in groups]


def test_open_keys_have_no_empty_groups() -> None:
    known = {**KNOWN, "visits": KNOWN["visits"]}
    text = "SELECT avg(n) FROM (SELECT day * 1000003 AS d, count(*) AS n FROM visits GROUP BY 1)"
    found = take_apart(parse_statement(text), known, text)
    assert found is not None
    assert [len(p.told) for p in found.parts] == [1 if p.group_count is not None else 0 for p in found.parts]


def test_a_twin_that_looks_at_no_cte_misses_it(monkeypatch: pytest.MonkeyPatch) -> None:
    text = f"WITH a AS ({DAILY}) SELECT avg(n) FROM a"
    assert notes(text) == [NOTE.format(91)]
    old = over_groups._parts
    monkeypatch.setattr(over_groups, "_parts", lambda node, _, *more: old(node, {}, *more))
    assert notes(text) == []

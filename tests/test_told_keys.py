"""Keys of no declared domain, end to end: more of them are told by weights of units, and what was bought stays free."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import pytest

import duckdp
from duckdp.compiler import plan as plan_module
from duckdp.compiler import unit_weights
from duckdp.mechanisms.key_weights import KeyWeights, weigh_keys

KEYS, UNITS, LIMIT = 5, 80, 400  # keys that many units have, each of them that key alone; and how many might count
# At epsilon 1, delta 1e-8 and that limit each is, by weights, 6 deviations above the threshold (of Laplace noise 50
# scales), by the number of units as far below: chance decides in less than 1 of 10^7 runs. With 2 groups at epsilon 9
# all of them are far above either.
ALL = "SELECT drug FROM {} GROUP BY drug"
MEANS = "SELECT drug, avg(age) FROM {} GROUP BY drug"
COUNTED = f"{ALL} HAVING count(DISTINCT patient) > -1000"
PARTS = "SELECT max(n), (SELECT count(*) FROM {0}) FROM (SELECT drug, count(*) AS n FROM {0} GROUP BY drug)"
TWO = f"{PARTS} CROSS JOIN (SELECT count(*) FROM (SELECT age, drug FROM {{0}} GROUP BY age, drug)) AS c"


@pytest.fixture
def curator(tmp_path: Path) -> Iterator[duckdp.Curator]:
    rows = duckdb.sql(
        f"SELECT i::INTEGER AS patient, 'd' || (i % {KEYS}) AS drug, (i % 90)::INTEGER AS age "
        f"FROM range({KEYS * UNITS}) r(i) "
        "UNION ALL SELECT 1000000 + i // 3, 'rare' || i, 50 FROM range(300) r(i)"
    ).to_arrow_table()
    with duckdp.open({"wide": rows, "narrow": rows}, ledger=str(tmp_path / "drugs.ledger")) as owner:
        for name, groups in (("wide", LIMIT), ("narrow", 2)):
            owner.protect(
                name,
                unit_key="patient",
                max_rows=1,
                max_groups=groups,
                row_cap=10_000,
                bounds={"age": (0, 90)},
                columns=["drug"],
            )
        owner.budget(epsilon=1000, delta=1e-5)
        owner.grant("ana", epsilon=900, delta=9e-6)
        yield owner


def told(owner: duckdp.Curator, text: str, mechanism: str) -> set[str]:
    found = owner.session("ana").sql(text.format("wide"), epsilon=1, delta=1e-8, mechanism=mechanism)
    return {row[0] for row in found.fetchall()}


@pytest.mark.parametrize("mechanism", ["laplace", "gaussian"])
def test_weights_tell_the_keys_of_units_with_few_of_them(curator: duckdp.Curator, mechanism: str) -> None:
    assert told(curator, ALL, mechanism) == {f"d{i}" for i in range(KEYS)}
    assert told(curator, COUNTED, mechanism) == set()


def test_twin_whose_units_weigh_one_is_noticed(curator: duckdp.Curator, monkeypatch: pytest.MonkeyPatch) -> None:
    def ones(*given: Any, **more: Any) -> KeyWeights:
        found = weigh_keys(*given, **more)
        return replace(found, levels=tuple((keys, found.levels[-1][1]) for keys, _ in found.levels))

    monkeypatch.setattr(unit_weights, "weigh_keys", ones)
    assert told(curator, ALL, "gaussian") == set()


def asked(owner: duckdp.Curator, text: str, **more: Any) -> tuple[list[Any], bool, int]:
    """Rows, whether a note tells of weights, and how many charges there are, by a session of its own."""
    found = owner.session("ana").sql(text.format("narrow"), epsilon=9, delta=1e-8, **more)
    return found.fetchall(), any("weighs" in note for note in found.notes), len(owner.ledger.charges())


@pytest.mark.parametrize("text", [ALL, MEANS, PARTS, TWO])
def test_what_was_bought_before_weights_is_given_again(
    curator: duckdp.Curator, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(plan_module, "_weighted", lambda plan, _: plan)
        before = asked(curator, text)
    rows, weighed, charges = before
    assert rows
    assert (weighed, charges) == (False, 1)
    assert asked(curator, text) == before
    again, weighed, charges = asked(curator, text, fresh=True)
    assert len(again) == len(rows)
    assert (weighed, charges) == (True, 2)
    assert asked(curator, text) == (rows, False, 2)


@pytest.mark.parametrize("text", [MEANS, PARTS])
def test_what_is_bought_today_is_given_again(curator: duckdp.Curator, text: str) -> None:
    first = asked(curator, text)
    assert first[1:] == (True, 1)
    assert asked(curator, text) == first
    assert asked(curator, COUNTED)[1:] == (False, 2)  # another question

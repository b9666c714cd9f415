"""dp_top_k and dp_choose as users have them: SQL, session, charges, explain, refusals; what a unit can change."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from scipy import stats

import duckdp
from duckdp.compiler.choice import PredicateChoice, ValueChoice
from duckdp.compiler.common_keys import HeavyHittersTask
from duckdp.core.types import Neighbours
from duckdp.errors import InternalError
from duckdp.mechanisms import top_k as mechanism
from duckdp.mechanisms.heavy_hitters import HeavyHitters
from duckdp.mechanisms.noisy_counts import NoisyCounts
from tests.gate import clinic, load, shared
from tests.privacy.choices import chosen, hitters, top_k
from tests.privacy.draws import KEYED, REPLACE, ROWS, _random_row
from tests.privacy.neighbouring import neighbouring

Rows = list[tuple[Any, ...]]
PREDICATES = ("age > 40", "sex = 'F'", "cost < 1000 OR town = 'Bern'", "level IS NULL", "smoker")
TASKS = {
    "values of units": lambda: top_k(KEYED, "sex, town", picks=2),
    "values of units, where": lambda: top_k(KEYED, "level", "age > 30"),
    "values of rows": lambda: top_k(ROWS, "town", picks=2),
    "values of rows replaced": lambda: top_k(ROWS, "town", neighbours=REPLACE),
    "values of rows at once": lambda: top_k(ROWS, "sex, town", picks=6),
    "values of units at once": lambda: top_k(replace(KEYED, max_groups=2), "sex, town", picks=8),
    "predicates of units": lambda: chosen(KEYED, PREDICATES),
    "predicates of units, where": lambda: chosen(KEYED, PREDICATES, "age > 30"),
    "predicates of rows": lambda: chosen(ROWS, PREDICATES),
    "predicates of rows replaced": lambda: chosen(ROWS, PREDICATES, neighbours=REPLACE),
}


# ---- what a unit can change


def scores(task: ValueChoice | PredicateChoice, rows: Sequence[tuple[Any, ...]], sql: str | None = None) -> list[int]:
    """The exact counts that meet the mechanism."""
    met: list[list[int]] = []
    with shared() as con, pytest.MonkeyPatch.context() as patch:
        load(con, clinic(), list(rows))
        for kind in (mechanism.TopK, NoisyCounts):
            patch.setattr(kind, "choose", lambda self, exact: met.append(list(exact)) or [0] * self.picks)
        query = task.query(7)
        task.release(con.execute(sql or query.sql, list(query.parameters)).fetchall())
    return met[0]


def changes(task: ValueChoice | PredicateChoice, seed: int, sql: str | None = None) -> list[list[int]]:
    """What neighbours change in every score: a unit with up to 30 rows comes, or (REPLACE) a row becomes another."""
    return [
        [after - before for before, after in zip(scores(task, rows, sql), scores(task, other, sql), strict=True)]
        for rows, other in neighbouring(task.table, task.neighbours, seed, 6)
    ]


@pytest.mark.parametrize("name", TASKS)
def test_a_unit_changes_every_count_by_at_most_1_and_all_one_way(name: str) -> None:
    task = TASKS[name]()
    moved = [change for seed in range(2) for change in changes(task, seed)]
    assert task.top.monotone == (task.neighbours is not REPLACE)
    allowed = {0, 1} if task.top.monotone else {-1, 0, 1}
    assert {m for change in moved for m in change} <= allowed
    assert any(any(change) for change in moved)


def test_values_of_a_unit_are_few_where_noise_is_drawn_at_once() -> None:
    """As many as max_groups; the twin counts all of them."""
    task, twin = TASKS["values of units at once"](), 0
    assert task.bounds_units
    assert not TASKS["values of units"]().bounds_units
    for seed in range(3):
        assert all(0 <= sum(change) <= 2 for change in changes(task, seed))
        broken = changes(task, seed, task.query(7).sql.replace("place <= 2", "place > 0"))
        twin = max(twin, *(sum(change) for change in broken))
    assert twin > 2


def test_twins_that_count_rows_are_caught() -> None:
    values, predicates = TASKS["values of units"](), TASKS["predicates of units"]()
    twins = (
        (values, values.query(7).sql.replace("SELECT DISTINCT", "SELECT")),
        (predicates, predicates.query(7).sql.replace("system.main.max(", "system.main.sum(")),
    )
    for task, sql in twins:
        assert sql != task.query(7).sql
        assert max(m for seed in range(4) for change in changes(task, seed, sql) for m in change) > 1


@pytest.mark.parametrize("name", [n for n in TASKS if n != "values of units at once"])
def test_the_counts_are_those_of_plain_sql(name: str) -> None:
    task, rng = TASKS[name](), random.Random(5)
    rows = [(rng.choice([None, *range(20)]), *_random_row(rng)) for _ in range(200)]
    found = scores(task, rows)
    units = "count(*)" if task.table.unit_key is None else "count(DISTINCT pid)"
    where = " AND age > 30" if task.where is not None else ""
    known = "pid IS NOT NULL" if task.table.unit_key is not None else "TRUE"
    with duckdb.connect() as con:
        load(con, clinic(), rows)
        if isinstance(task, PredicateChoice):
            conditions = list(PREDICATES)
        else:
            conditions = [
                " AND ".join(
                    f"{k.name} IS NOT DISTINCT FROM {literal(v)}" for k, v in zip(task.keys, values, strict=True)
                )
                for values in map(task.values, range(task.candidates))
            ]
        asked = [f"SELECT {units} FROM clinic WHERE {known} AND ({c}){where}" for c in conditions]
        expected = [con.execute(text).fetchall()[0][0] for text in asked]
    if isinstance(task, ValueChoice):  # what stands for all other values is not in plain SQL
        every = map(task.values, range(task.candidates))
        plain = [not any(k.other is not None and k.other in values for k in task.keys) for values in every]
        found, expected = ([n for n, use in zip(part, plain, strict=True) if use] for part in (found, expected))
    assert found == expected
    assert any(found)


def literal(value: object) -> str:
    return "NULL" if value is None else repr(value)


# ---- as users have them


@pytest.fixture
def curator(tmp_path: Path) -> Iterator[duckdp.Curator]:
    towns = ["Bern"] * 600 + ["Genf"] * 300 + ["Uri"] * 100
    rows = pa.table(
        {"town": towns, "age": [i % 90 for i in range(1000)], "person": list(range(1000)), "name": ["n"] * 1000}
    )
    with duckdp.open({"t": rows}, ledger=str(tmp_path / "t.ledger")) as owner:
        owner.protect(
            "t",
            unit_key="person",
            max_rows=1,
            row_cap=10_000,
            domains={"town": ["Uri", "Genf", "Bern"]},
            bounds={"age": (0, 110)},
            columns=["name"],
        )
        owner.budget(epsilon=500, delta="1e-4")
        owner.grant("ana", epsilon=400, delta="1e-5")
        yield owner


def test_sql_and_session_give_the_same_and_pay_once(curator: duckdp.Curator) -> None:
    con, ana = curator.connect("ana"), curator.session("ana")
    first = ana.top_k("t", "town", 2, epsilon=2)
    assert first.rows() == [(1, "Bern", first["within"][0]), (2, "Genf", first["within"][0])]
    assert con.execute("FROM dp_top_k('t', 'town', 2, epsilon := 2)").fetchall() == first.rows()
    best = con.execute("SELECT value FROM dp_choose('t', ['age < 30', 'age >= 20'], epsilon := 2)").fetchall()
    assert best == [("age >= 20",)]
    both = ana.choose("t", ["age < 30", "age >= 20"], epsilon=2, k=2)
    assert both["value"] == ["age >= 20", "age < 30"]
    pairs = ana.top_k("t", ["town", "age < 45"], 1, epsilon=4)
    assert [c.name for c in pairs.columns] == ["rank", "value_1", "value_2", "within"]
    assert [c.type for c in pairs.columns] == ["BIGINT", "VARCHAR", "BOOLEAN", "BIGINT"]
    assert len(ana.ledger().rows()) == 4


def test_delta_is_spent_only_where_it_helps(curator: duckdp.Curator) -> None:
    ana = curator.session("ana")
    assert "delta" not in ana.top_k("t", "town", 1, epsilon=1, delta="1e-6").cost
    many = [f"age < {i}" for i in range(1, 60)]
    assert "delta=1e-6" in ana.choose("t", many, epsilon=1, k=40, delta="1e-6").cost
    plain, less = (ana.explain_choose("t", many, epsilon=1, k=40, delta=d).rows()[0][0] for d in (0, "1e-6"))
    assert "permute-and-flip with epsilon=0.025" in plain
    assert "exponential with epsilon=0.05" in less


def test_explain_costs_nothing_and_says_how_good_it_is(curator: duckdp.Curator) -> None:
    con, ana = curator.connect("ana"), curator.session("ana")
    lines = [r[0] for r in ana.explain_top_k("t", "town", 2, epsilon="0.5").rows()]
    assert lines == [r[0] for r in con.execute("FROM dp_explain_top_k('t', 'town', 2, epsilon := 0.5)").fetchall()]
    within = ana.top_k("t", "town", 2, epsilon="0.5")["within"][0]
    assert f"at most {within:,} values of person" in lines[-2]
    assert "  protects: all rows of one person (add_remove)" in lines
    assert "  reads: t" in lines
    assert ana.remaining_text().startswith("epsilon=399.5")


# ---- values that nobody declared


def undeclared(tmp_path: Path, **protected: Any) -> duckdp.Curator:
    towns = ["Bern"] * 900 + ["Genf"] * 500 + ["Uri"] * 300 + [f"rare {i}" for i in range(300)]
    table = {"town": towns, "size": [len(t) for t in towns], "person": [i // 2 for i in range(2000)]}
    owner = duckdp.open({"t": pa.table(table)}, ledger=str(tmp_path / "t.ledger"))
    owner.protect("t", row_cap=10_000, columns=["town", "size"], **protected)
    owner.budget(epsilon=500, delta="1e-4")
    owner.grant("ana", epsilon=400, delta="1e-5")
    return owner


@pytest.mark.parametrize(
    ("protected", "way"),
    [
        ({}, ("Laplace noise for each key at once",) * 2),
        ({"unit_key": "person", "max_rows": 2, "max_groups": 40}, ("one after", "Gaussian noise for each key at once")),
    ],
)
def test_values_of_no_declared_domain_are_told_where_many_have_them(
    tmp_path: Path, protected: dict[str, Any], way: tuple[str, str]
) -> None:
    with undeclared(tmp_path, **protected) as owner:
        ana, con = owner.session("ana"), owner.connect("ana")
        for k, words in zip((5, 100), way, strict=True):
            assert words in ana.explain_top_k("t", "town", k, epsilon=2, delta="1e-8").rows()[0][0]
        many = ana.top_k("t", "town", 100, epsilon=2, delta="1e-8")
        assert set(many["value"]) <= {"Bern", "Genf", "Uri"}
        assert many["value"][0] == "Bern"
        found = ana.top_k("t", "town", 5, epsilon=2, delta="1e-8")
        assert found["value"] == ["Bern", "Genf", "Uri"]  # the fourth and fifth are nobody's
        assert found["rank"] == [1, 2, 3]
        assert "delta=1e-8" in found.cost
        asked = "FROM dp_top_k('t', 'town', 5, epsilon := 2, delta := 1e-8)"
        assert con.execute(asked).fetchall() == found.rows()
        assert con.execute(asked.replace("5,", "2,")).fetchall()[0][1] == "Bern"
        pairs = ana.top_k("t", ["size", "town"], 2, epsilon=4, delta="1e-8")
        assert (pairs["value_1"], pairs["value_2"]) == ([4, 4], ["Bern", "Genf"])
        none = ana.top_k("t", "town", 5, epsilon=2, delta="1e-8", predicate="size > 5")
        assert none.rows() == []
        assert [c.name for c in none.columns] == ["rank", "value", "within"]
        assert con.execute(asked.replace(", 5", ", 5, predicate := 'size > 5'")).fetchall() == []


def hitters_scores(task: HeavyHittersTask, rows: Rows, salt: int = 7, sql: str | None = None) -> dict[Any, int]:
    with shared() as con:
        load(con, clinic(), list(rows))
        query = task.query(salt)
        return {tuple(keys): n for *keys, n in con.execute(sql or query.sql, list(query.parameters)).fetchall()}


def moved(task: HeavyHittersTask, rows: Rows, other: Rows, sql: str | None = None) -> list[int]:
    """How far the number of units of each key is apart."""
    here, there = hitters_scores(task, list(rows), sql=sql), hitters_scores(task, list(other), sql=sql)
    return [abs(here.get(k, 0) - there.get(k, 0)) for k in {*here, *there}]


def test_a_unit_has_few_keys_and_changes_each_by_at_most_1() -> None:
    """Of units with many rows and keys: as many keys as max_groups, one each; of rows one key."""
    twin = often = 0
    for table, most, keys in (
        (replace(KEYED, max_groups=3), 3, "name, age"),
        (KEYED, 3, "name"),
        (ROWS, 1, "name, age"),
    ):
        table = replace(table, max_groups=most)
        task = hitters(table, keys)
        for seed in range(2):
            for rows, other in neighbouring(table, Neighbours.ADD_REMOVE, seed, 6):
                assert max(moved(task, rows, other), default=0) <= 1
                assert sum(moved(task, rows, other)) <= most
                sql = task.query(7).sql
                twin = max(twin, sum(moved(task, rows, other, sql.replace(f"place <= {most}", "place > 0"))))
                each = sql.replace("SELECT DISTINCT", "SELECT").replace(f"place <= {most}", "place <= 3")
                often = max(often, *moved(task, rows, other, each), 0)
    assert often > 1
    assert twin > 3


@pytest.mark.parametrize(
    ("call", "words"),
    [
        ("dp_top_k('t', 'name', 1001, epsilon := 1, delta := 1e-8)", "P107: k=1001: must be at most 1,000"),
        ("dp_top_k('t', 'name', 1, epsilon := 1, delta := 1e-18)", "P102"),
        ("dp_top_k('t', 'name', 1, epsilon := 1)", "P107: keys='name': has no declared domain"),
        ("dp_top_k('t', 'town', 4, epsilon := 1)", "P107: k=4: must be at most 3"),
        ("dp_top_k('t', 'town', 0, epsilon := 1)", "P107: k="),
        ("dp_top_k('t', 'town, town', 1, epsilon := 1)", "Q201"),
        ("dp_top_k('t', 'count(*)', 1, epsilon := 1)", "Q301"),
        ("dp_top_k('t', '', 1, epsilon := 1)", "Q1"),
        ("dp_top_k('t', 'town', 1)", "P101"),
        ("dp_top_k('t', 'age, age + 1, age + 2, town', 1, epsilon := 1)", "counts, more than"),
        ("dp_choose('t', [], epsilon := 1)", "P107: candidates=0: must not be empty"),
        ("dp_choose('t', ['age < 3', 'age  <  3'], epsilon := 1)", "stands twice"),
        ("dp_choose('t', ['age'], epsilon := 1)", "Q"),
        ("dp_choose('t', ['age < 3', 'nobody = 1'], epsilon := 1)", "Q"),
        ("dp_choose('t', ['age < 3'], epsilon := 1, k := 2)", "P107: k=2: must be at most 1"),
        (
            "dp_choose('t', list_transform(range(1001), lambda i: 'age < ' || i), epsilon := 1)",
            "at most 1,000 predicates",
        ),
        ("dp_choose('t', ['age < 3'], epsilon := 0.0000001)", "P101"),
        ("dp_choose('t', ['age < 3', 'age > 3'], epsilon := 1, delta := 2)", "P102"),
    ],
)
def test_refusals_are_coded_and_free(curator: duckdp.Curator, call: str, words: str) -> None:
    con = curator.connect("ana")
    with pytest.raises(duckdb.Error) as error:
        con.execute(f"FROM {call}").fetchall()
    assert words in str(error.value)
    assert curator.session("ana").remaining_text().startswith("epsilon=400,")


def test_an_empty_table_gives_some_value(tmp_path: Path) -> None:
    rows = pa.table({"town": pa.array([], pa.string())})
    with duckdp.open({"t": rows}, ledger=str(tmp_path / "t.ledger")) as owner:
        owner.protect("t", row_cap=100, domains={"town": ["Uri", "Genf"]})
        owner.budget(epsilon=100)
        owner.grant("ana", epsilon=100)
        found = owner.session("ana").top_k("t", "town", 2, epsilon=1)["value"]
        assert sorted(found) == ["Genf", "Uri"]
        seen = {
            owner.session("ana").choose("t", ["town = 'Uri'", "town = 'Genf'"], epsilon=1, fresh=True)["value"][0]
            for _ in range(60)
        }
        assert len(seen) == 2


def test_one_unit_with_all_rows_counts_once() -> None:
    rows = [(1, *_random_row(random.Random(3)))] * 500
    assert max(scores(TASKS["values of units"](), rows)) == 1
    assert max(scores(chosen(KEYED, ("age >= 0", "age < 0")), rows)) == 1


# ---- what is refused is not charged, and costs little


@pytest.mark.parametrize("delta", ["0", "1e-12", "1e-9", "1e-7"])
def test_what_is_left_of_a_pick_is_known_before_the_charge(curator: duckdp.Curator, delta: str) -> None:
    ana, charged = curator.session("ana"), curator.ledger.count_charges()
    many = [f"age > {i}" for i in range(60)]
    for epsilon in ("0.000001", "0.00001", "0.00003", "0.0001"):
        for k in (1, 2, 7, 13, 40):
            try:
                ana.explain_choose("t", many, epsilon=epsilon, k=k, delta=delta)
            except duckdp.errors.ParameterError as error:
                assert error.code == "P101"
                with pytest.raises(duckdp.errors.ParameterError, match="P101"):
                    ana.choose("t", many, epsilon=epsilon, k=k, delta=delta)
            else:
                ana.choose("t", many, epsilon=epsilon, k=k, delta=delta)
                charged += 1
            assert curator.ledger.count_charges() == charged


def test_delta_never_leaves_a_pick_less() -> None:
    rng = random.Random(3)
    for _ in range(3000):
        terms = {"picks": rng.randint(1, 60), "candidates": 60, "monotone": True}
        terms["epsilon_nano"] = max(round(10 ** rng.uniform(3, 9)), terms["picks"])
        pure = mechanism.TopK(**terms, delta_atto=0)
        assert mechanism.TopK(**terms, delta_atto=round(10 ** rng.uniform(2, 17))).share >= pure.share > 0


def test_long_lists_are_refused_before_they_are_read(curator: duckdp.Curator, monkeypatch: pytest.MonkeyPatch) -> None:
    ana, con, read = curator.session("ana"), curator.connect("ana"), []
    monkeypatch.setattr("duckdp.functions.planned.parse_scalar", lambda text: read.append(text) or pytest.fail("read"))
    long = [f"age > {i} OR age > {'1' * 18_000}" for i in range(8)]
    with pytest.raises(duckdp.errors.ParameterError, match=r"P107.*candidates.*bytes"):
        ana.explain_choose("t", long, epsilon=1)
    with pytest.raises(duckdb.Error, match=r"P107.*arguments.*bytes"):
        con.execute("FROM dp_explain_choose('t', $1, epsilon := 1)", [long * 6])
    assert not read


def test_a_plan_keeps_no_list_of_all_candidates() -> None:
    wide = top_k(KEYED, "age, age + 200", picks=1)
    size = wide.candidates
    assert size == len(wide.keys[0].domain) * len(wide.keys[1].domain) > 10_000
    listed = list(product(*(key.domain for key in wide.keys)))
    for place in (0, 1, 111, 112, size // 2, size - 1):
        assert wide.values(place) == listed[place]
    assert not any(isinstance(value, (list, tuple)) and len(value) == size for value in vars(wide).values())


def test_another_domain_is_another_question() -> None:
    task = top_k(KEYED, "town", picks=1)
    (key,) = task.keys
    assert key.domain is not None
    for domain in (key.domain[::-1], key.domain[1:], (*key.domain, "Chur")):
        assert replace(task, keys=(replace(key, domain=domain),)).canonical != task.canonical
    with pytest.raises(InternalError, match="other candidates"):
        task.read("[99]")


OWN, RUNS = 0.016, 30  # delta of a question; questions of each, within a delta of 1


def own_told(folder: Path, **changed: int) -> int:
    """How often a value that one person alone has is told, in SQL."""
    folder.mkdir()
    with duckdp.open({"t": pa.table({"town": ["own"]})}, ledger=str(folder / "t.ledger")) as owner:
        owner.protect("t", row_cap=100, columns=["town"])
        owner.budget(epsilon=500, delta="0.9999")
        owner.grant("ana", epsilon=400, delta="0.99")
        con = owner.connect("ana")
        asked = f"FROM dp_top_k('t', 'town', 3, epsilon := 1, delta := {OWN}, fresh := true)"
        return sum(len(con.execute(asked).fetchall()) for _ in range(RUNS))


def test_what_one_person_has_is_told_as_seldom_as_delta_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert stats.binom.sf(own_told(tmp_path / "a") - 1, RUNS, OWN) > 1e-9
    monkeypatch.setattr(HeavyHitters, "tau", 1)  # the broken twin: whatever has noise above 0
    assert stats.binom.sf(own_told(tmp_path / "b") - 1, RUNS, OWN) < 1e-9

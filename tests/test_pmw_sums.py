"""Sums of a number from 0 to 1, asked of public weights: exact sums, their law, intervals, refusals, older handles."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import combinations_with_replacement, product
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest

import duckdp
from duckdp.compiler import unit_counts
from duckdp.compiler.parse import parse_scalar
from duckdp.compiler.scope import read_linear
from duckdp.compiler.unit_counts import GRID, count_units, in_units, print_placed, sum_rounding
from duckdp.core.types import NANO
from duckdp.errors import DuckDPError
from duckdp.mechanisms.multiplicative_weights import MultiplicativeWeights
from duckdp.session import Session
from tests.gate import clinic, load, shared
from tests.mechanisms.test_multiplicative_weights import made, transcripts
from tests.mechanisms.test_sparse_vector import law_of
from tests.privacy.draws import KEYED, ROWS, _random_row
from tests.privacy.thresholds import weights

COLUMNS = ["town", "age", "smoker"]
SUMS = (
    "age / 99.0",
    "CASE WHEN town = 'a' THEN 0.5 ELSE 0 END",
    "CASE WHEN town = 'b' AND smoker THEN age / 99.0 END",
    "CAST(smoker AS INT) * age * age / 9801",
    "CASE WHEN age > 50 THEN (age - 50) / 60 ELSE 0 END",
    "1 - age / 99",
    "0.3",
)
HALF, WHOLE = GRID // 2, GRID


def people(count: int = 20_000) -> pa.Table:
    rng = random.Random(8)
    towns = rng.choices(["a", "b", "c", None], [8, 4, 2, 1], k=count)
    ages = [rng.choice([None, *range(20, 100)]) for _ in towns]
    return pa.table({"town": towns, "age": ages, "smoker": [rng.random() < 0.2 for _ in towns], "free": ages})


@pytest.fixture(scope="module")
def rows() -> pa.Table:
    return people()


@pytest.fixture
def curator(tmp_path: Path, rows: pa.Table) -> Iterator[duckdp.Curator]:
    with duckdp.open({"t": rows}, ledger=str(tmp_path / "t.ledger")) as owner:
        domains = {"town": ["a", "b", "c"]}
        owner.protect("t", row_cap=100_000, domains=domains, bounds={"age": (0, 99)}, columns=["smoker", "free"])
        owner.budget(epsilon=500)
        owner.grant("ana", epsilon=400)
        yield owner


def opened(session: Session, **terms: Any) -> int:
    return int(session.pmw_open("t", COLUMNS, **{"epsilon": 2, **terms})["handle"][0])


def sums(table: Any, texts: Sequence[str], rows: Sequence[tuple[Any, ...]]) -> list[int]:
    """S of each question, in parts of the grid, of rows in DuckDB."""
    query = count_units(table, None, [read_linear(parse_scalar(text), table, text) for text in texts])
    with shared() as con:
        load(con, clinic(), list(rows))
        (found,) = con.execute(query.sql, list(query.parameters)).fetchall()
    return [int(cell or 0) for cell in found]


# ---- what is read


OF_ROWS = ("age / 110.0", "CASE WHEN sex = 'F' THEN 0.7 END", "CAST(smoker AS INT) * 0.3", "1 - age / 110")


@pytest.mark.parametrize("table", [KEYED, ROWS], ids=["units", "rows"])
def test_a_unit_moves_every_sum_by_at_most_1_and_all_the_same_way(table: Any) -> None:
    rng, most = random.Random(5), 0
    rows = [(rng.choice([None, *range(12)]), *_random_row(rng)) for _ in range(40)]
    for _ in range(12):
        other = [*rows, *((99, *_random_row(rng)) for _ in range(1 if table.unit_key is None else 20))]
        before, after = sums(table, OF_ROWS, rows), sums(table, OF_ROWS, other)
        moves = [b - a for a, b in zip(before, after, strict=True)]
        assert all(0 <= move <= WHOLE for move in moves)
        question = read_linear(parse_scalar(OF_ROWS[0]), table, "")
        whole = [in_units(question, b) - in_units(question, a) for a, b in zip(before, after, strict=True)]
        assert set(whole) <= {0, 1}
        most = max(most, *moves)
    assert most > 0.6 * WHOLE


def test_a_number_above_1_is_cut_and_where_it_is_not_the_sum_moves_by_2(monkeypatch: pytest.MonkeyPatch) -> None:
    """No number that is refused gets here; if one did, it would cost no more than is paid."""
    rows, one_more = [(1, *_random_row(random.Random(1)))], (99, *_random_row(random.Random(2)))

    def moved() -> list[int]:
        texts = ("2.0", "-3", "1e200")
        pairs = zip(sums(KEYED, texts, rows), sums(KEYED, texts, [*rows, one_more]), strict=True)
        return [after - before for before, after in pairs]

    assert moved() == [WHOLE, 0, WHOLE]
    monkeypatch.setattr(unit_counts, "_parts", lambda value: f"CAST({print_placed(value)} AS HUGEINT)")
    with pytest.raises(duckdb.Error):
        moved()  # 1e200 does not even fit
    assert sums(KEYED, ("2.0",), [*rows, one_more])[0] - sums(KEYED, ("2.0",), rows)[0] == 2 * WHOLE


@pytest.mark.parametrize("table", [KEYED, ROWS], ids=["units", "rows"])
def test_sums_are_duckdbs(table: Any) -> None:
    """Of each unit the largest of its rows, NULL as 0; rows without a unit do not count."""
    rng = random.Random(9)
    rows = [(rng.choice([None, *range(30)]), *_random_row(rng)) for _ in range(300)]
    with duckdb.connect() as con:
        load(con, clinic(), rows)
        name = ".".join(f'"{part}"' for part in table.relation)
        for text, found in zip(OF_ROWS, sums(table, OF_ROWS, rows), strict=True):
            age = "(CASE WHEN age IS NOT NULL THEN least(greatest(CAST(age AS DOUBLE), 0), 110) END)"
            value = f"coalesce({text.replace('age', age)}, 0)"
            unit = "" if table.unit_key is None else f" WHERE {table.unit_key} IS NOT NULL GROUP BY {table.unit_key}"
            value = value if table.unit_key is None else f"max({value})"
            ((true,),) = con.execute(f"SELECT sum(v) FROM (SELECT {value} AS v FROM {name}{unit})").fetchall()
            assert abs(found / GRID - float(true)) < 300 / GRID + 1e-9, text


def test_what_is_read_is_rounded_to_the_nearest_unit() -> None:
    number, predicate = (read_linear(parse_scalar(t), ROWS, t) for t in ("0.5", "TRUE"))
    assert [in_units(number, s) for s in (None, 0, HALF - 1, HALF, WHOLE, WHOLE + HALF - 1)] == [0, 0, 0, 1, 1, 1]
    assert [in_units(predicate, s) for s in (None, 7)] == [0, 7]
    assert max(abs(in_units(number, s) - s / GRID) for s in range(0, 3 * WHOLE, WHOLE // 97)) <= sum_rounding(0)


# ---- its law


def _worst(values: Sequence[int]) -> float:
    """Largest change of a log-chance between neighbours of at most three units, whose numbers are these parts."""
    vector, worst = made(1).vector, 0.0
    law, number = law_of(vector), read_linear(parse_scalar("0.5"), ROWS, "")
    for data in (d for size in range(3) for d in combinations_with_replacement(values, size)):
        for more in values:
            before, after = in_units(number, sum(data)), in_units(number, sum(data) + more)
            for guesses in product((0.0, 1.5), repeat=2):
                pair = [transcripts(law, [q, q], guesses, 1) for q in (before, after)]
                for here, there in (pair, pair[::-1]):
                    for said, p in here.items():
                        if p > 1e-12:
                            worst = max(worst, abs(math.log(p / there[said])) if there.get(said) else math.inf)
    return worst


def test_the_loss_of_sums_is_at_most_the_claim_and_values_up_to_2_are_caught() -> None:
    claim = sum(made(1).vector.shares[:2]) / NANO
    fine = (0, GRID // 3, HALF - 1, HALF, WHOLE)
    assert 0.3 * claim < _worst(fine) <= claim + 1e-9
    assert _worst((*fine, 2 * WHOLE)) > claim


def test_noise_in_whole_units_needs_whole_sums(monkeypatch: pytest.MonkeyPatch) -> None:
    """What meets the mechanism is a whole number whatever the numbers are: the parts of a unit cannot be read off."""
    met: list[Any] = []
    monkeypatch.setattr(MultiplicativeWeights, "reply", lambda *given: met.append(given[1]) or _Told())
    task, text = weights(ROWS), "CASE WHEN sex = 'F' THEN 0.3 ELSE 0.9 END"
    from duckdp.core.steps import Past

    past = Past(outputs=('{"total": 3}',), secrets=("0",))
    task.question(task.read(text), text).draw(lambda _: [(7 * WHOLE + 12345,)], past)
    assert met == [7]
    assert type(met[0]) is int


class _Told:
    value, measured = 1.0, False


# ---- as users have it


def test_answers_are_within_their_intervals_and_the_same_again_free(curator: duckdp.Curator, rows: pa.Table) -> None:
    ana, con = curator.session("ana"), curator.connect("ana")
    handle, wrong, measured = opened(ana, hits=20), 0, 0
    for text in SUMS:
        found = ana.pmw_answer(handle, text)
        estimate = found.estimates()[0]["value"]
        (true,) = duckdb.sql(f"SELECT sum(coalesce({text}, 0)) FROM rows").fetchall()[0]
        wrong += not estimate.low <= true <= estimate.high
        measured += found["measured"][0]
        shown = con.execute(f"FROM dp_pmw_answer({handle}, $${text}$$)").fetchall()[0]
        assert shown == (*found.rows()[0], estimate.standard_error, estimate.low, estimate.high)
        assert ana.pmw_answer(handle, f" {text.replace(' ', '  ')} ").rows() == found.rows()
    assert wrong <= 5  # of 7, each missed with 5%: by chance once in 10^7 runs
    assert 0 < measured < 8
    assert ana.remaining_text() == "epsilon=398 left"
    curator.ledger.verify()


def test_the_interval_has_the_rounding_and_that_of_a_predicate_has_none(curator: duckdp.Curator) -> None:
    ana, law = curator.session("ana"), MultiplicativeWeights(hits=10, epsilon_nano=2 * NANO)
    handle = opened(ana)
    widths = {}
    for text in ("0.4", "age > 98", "age / 9900.0", "TRUE"):
        found, estimate = ana.pmw_answer(handle, text), ana.pmw_answer(handle, text).estimates()[0]["value"]
        base = law.measured_error if found["measured"][0] else law.unmeasured_error
        widths[text] = round(estimate.high - estimate.value - base, 3)
    assert widths == {"0.4": 0.5, "age > 98": 0.0, "age / 9900.0": 0.5, "TRUE": 0.0}
    told = "\n".join(row[0] for row in ana.explain_pmw_open("t", COLUMNS, epsilon=2).rows())
    assert "a sum of numbers from 0 to 1 is rounded: within 0.5 more" in told


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("age", "is from 0 to 99 over the columns' values, and must be from 0 to 1 to be added up. Divide by 99.0."),
        ("age / 50", "Divide by 1.98."),
        ("age / 99.0 - 0.5", "Subtract -0.5, and divide by 1.0."),
        ("CAST(smoker AS INT) + 1", "Divide by 2.0."),
        ("1.0000001", "Divide by 1.0000001"),
        ("1 / (age - age)", "is beyond all numbers for some values of its columns. Clamp it"),
        ("CAST('nan' AS DOUBLE)", "Q202"),
        ("'nan'::DOUBLE * age", "Q202"),
        ("town", "Q203: line 1, col 1: a question must be a condition or a number."),
        ("'a'", "Q203"),
        ("DATE '2020-01-01'", "Q203"),
        ("free / 99.0", 'reads "free", which is none of the columns'),
        ("nope / 99.0", "Q207"),
        ("sum(age) / 1e9", "Q301"),
        ("random()", "Q202"),
        ("", "Q101"),
    ],
)
def test_what_is_no_such_number_is_refused_before_anything_is_drawn(
    curator: duckdp.Curator, text: str, words: str
) -> None:
    ana = curator.session("ana")
    handle = opened(ana)
    with pytest.raises(DuckDPError) as error:
        ana.pmw_answer(handle, text)
    assert words in str(error.value)
    with curator.connect("ana") as con, pytest.raises(duckdb.Error) as shown:
        con.execute(f"FROM dp_pmw_answer({handle}, $${text}$$)").fetchall()
    assert words in str(shown.value)
    ((count,),) = curator.ledger._store.read(lambda tx: tx.rows("SELECT count(*) FROM step WHERE charge = ?", handle))
    assert count == 1  # the secret threshold alone


@pytest.mark.parametrize("text", ["(age) / 99.0", "(age / 50) / 1.98", "(age / 99.0 - 0.5 - -0.5) / 1.0", "NULL", "1"])
def test_the_ways_out_are_taken_and_so_is_null(curator: duckdp.Curator, text: str) -> None:
    ana = curator.session("ana")
    assert ana.pmw_answer(opened(ana, hits=30), text).estimates()[0]["value"].low >= 0


def test_null_counts_as_0_in_cells_and_in_rows() -> None:
    task, text = weights(ROWS, "level, sex"), "CASE WHEN level IS NULL THEN NULL WHEN sex = 'M' THEN 1 ELSE 0.5 END"
    sizes = [len(key.domain or ()) for key in task.keys]
    cube = np.asarray(task.asked(task.read(text), text)).reshape(sizes)
    domains = [list(key.domain or ()) for key in task.keys]
    assert (cube[domains[0].index(None)] == 0).all()
    others = [i for i, value in enumerate(domains[0]) if value is not None]
    assert (cube[others, domains[1].index("M")] == 1).all()
    assert cube.max() == 1
    rng = random.Random(3)
    rows = [(i, *_random_row(rng)) for i in range(60)]
    (found,) = sums(ROWS, ("CASE WHEN age > 60 THEN NULL ELSE 1 END",), rows)
    assert found % WHOLE == 0
    assert 0 < found < 60 * WHOLE


# ---- what was bought before


def test_predicates_are_known_by_the_texts_of_before_and_sums_by_others() -> None:
    task = weights(ROWS)
    assert task.question(task.read("sex = 'F'"), "sex = 'F'").canonical == json.dumps(
        ["count", unit_text(task, "sex = 'F'")]
    )
    number = "CASE WHEN sex = 'F' THEN 1 ELSE 0 END"
    assert json.loads(task.question(task.read(number), number).canonical)[0] == "sum"
    texts = ("sex = 'F'", number, "0.5", "0.25", "CASE WHEN sex = 'F' THEN 0.5 END")
    assert len({task.question(task.read(t), t).canonical for t in texts}) == len(texts)


def unit_text(task: Any, text: str) -> str:
    from duckdp.compiler.expression import show

    return show(task.read(text))


def test_measured_predicates_of_a_handle_are_gone_on_from() -> None:
    """Outputs as an earlier version stored them, with a sum after them, and a predicate after that."""
    from duckdp.core.steps import Past

    task = weights(ROWS, threshold=20, hits=5, epsilon_nano=100 * NANO)
    before = ('{"total": 400}', '{"value": 300, "measured": true, "left": 4, "predicate": "sex = \'F\'"}')
    text = "CASE WHEN sex = 'F' THEN 0.5 ELSE 0.25 END"

    def said(text: str, exact: int, *outputs: str) -> dict[str, Any]:
        step = task.question(task.read(text), text).draw(
            lambda _: [(exact,)], Past(outputs=(*before, *outputs), secrets=("0",))
        )
        return dict(json.loads(step.output))

    fits = said(text, 175 * WHOLE)
    assert (round(fits["value"], 6), fits["measured"]) == (175, False)  # 300 halves and 100 quarters
    found = said("CASE WHEN sex = 'F' THEN 0.5 END", 20 * WHOLE)
    assert (found["measured"], found["left"]) == (True, 3)
    assert abs(found["value"] - 20) < 15
    after = json.dumps({**found, "value": 20})
    assert round(said("sex = 'F'", 40, after)["value"]) == 40


def test_the_last_hit_of_a_sum_ends_it(curator: duckdp.Curator) -> None:
    ana = curator.session("ana")
    handle = opened(ana, hits=1, threshold=100)
    assert ana.pmw_answer(handle, "CASE WHEN town = 'a' THEN 0.25 END").rows()[0][1:] == (True, 0)
    with pytest.raises(DuckDPError, match="B108"):
        ana.pmw_answer(handle, "age / 99.0")
    assert Fraction(ana.pmw_answer(handle, "CASE WHEN town = 'a' THEN 0.25 END")["value"][0]).denominator == 1

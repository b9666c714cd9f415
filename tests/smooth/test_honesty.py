"""Intervals against the truth over random functions and tables: smooth and rough, many laws, all kinds of columns."""

import datetime as dt
import math

import pytest

from duckdp.core.types import Neighbours
from duckdp.smooth.answer import answer, answers
from tests.smooth.expressions import analytic, generator, rough
from tests.smooth.tables import column, connect, summarize, table

LEVEL = 0.95
NUMBERS = (
    "random()",
    "0.37",
    "power(random(), 4)",
    "1 - power(random(), 6)",
    "round(random())",
    "2 * random() - 0.5",
    "0.5 + random() / 50",
    "CASE WHEN random() < 0.9 THEN 0.111 ELSE random() END",
)
EXTRA = {
    "age": (column("age", 0, 110, "BIGINT", nullable=False), "(random() * 120)::BIGINT"),
    "kids": (column("kids", 0, 4, "INTEGER", nullable=False), "(random() * 4)::INTEGER"),
    "sex": (
        column("sex", None, None, "VARCHAR", nullable=False, domain=("F", "M")),
        "['F', 'M'][1 + (random() > 0.3)::INTEGER]",
    ),
    "smoker": (column("smoker", None, None, "BOOLEAN", nullable=False), "random() < 0.2"),
    "born": (
        column("born", dt.date(1950, 1, 1), dt.date(2020, 1, 1), "DATE", nullable=False),
        "DATE '1950-01-01' + (random() * 25000)::INTEGER",
    ),
}
ABOUT = {
    "age": ("age / 110.0", "CAST(age > 40 AS INTEGER)", "ln(age + 1)", "age % 7"),
    "kids": ("kids", "power(kids, 2)", "CAST(kids = 2 AS INTEGER)"),
    "sex": ("CAST(sex = 'F' AS INTEGER)", "length(sex)"),
    "smoker": ("CAST(smoker AS DOUBLE)", "CASE WHEN smoker THEN 2 ELSE -1 END"),
    "born": (
        "year(born) / 2000.0",
        "CAST(month(born) = 5 AS INTEGER)",
        "date_diff('day', DATE '1985-01-01', born) / 9000.0",
    ),
}


def random_table(rng):
    """(declared columns, SQL of the rows, SQL of the clamped rows, number of rows)."""
    names = ["x", "y"][: rng.integers(1, 3)]
    known = [column(name, nullable=False) for name in names]
    made = [f"{rng.choice(NUMBERS)} AS {name}" for name in names]
    clamped = [f"greatest(0, least(1, {name})) AS {name}" for name in names]
    if rng.random() < 0.6:
        name = str(rng.choice(list(EXTRA)))
        known.append(EXTRA[name][0])
        made.append(f"{EXTRA[name][1]} AS {name}")
        clamped.append(f"least(age, 110) AS {name}" if name == "age" else name)
    rows = round(10 ** rng.uniform(0, 5))
    return known, f"SELECT {', '.join(made)} FROM range({rows})", f"SELECT {', '.join(clamped)} FROM t", rows


def random_function(rng, known):
    names = [c.name for c in known if c.name in ("x", "y")]
    text = rough(rng, names) if rng.random() < 0.4 else analytic(rng, names, int(rng.integers(1, 4)))
    for c in known:
        if c.name in ABOUT:
            text = f"({text}) {rng.choice(['+', '*', '-'])} {rng.choice(ABOUT[c.name])}"
    return text


def covered(tables, functions, seed, level):
    """(pairs, pairs whose interval holds the truth, the same without the approximation error, tables with a miss)."""
    rng = generator(seed)
    pairs = hits = broken = missed = 0
    for turn in range(tables):
        known, rows, clamped, _ = random_table(rng)
        with connect() as con:
            con.execute(f"CREATE TABLE t AS {rows}")
            summary = summarize(
                con,
                table(*known),
                [c.name for c in known],
                degree=int(rng.integers(2, 9)),
                epsilon=float(rng.choice([0.5, 1, 10, 50])),
                neighbours=list(Neighbours)[turn % 2],
            )
            texts = [random_function(rng, known) for _ in range(functions)]
            statistic = ("mean", "sum")[turn // 2 % 2]
            aggregate = "avg" if statistic == "mean" else "sum"
            items = ", ".join(f"{aggregate}(CAST(({text}) AS DOUBLE))" for text in texts)
            truth = con.execute(f"SELECT {items} FROM ({clamped}) AS t").fetchone()
        many = answers(summary, texts, statistic=statistic, level=level)
        found = [answer(summary, text, statistic=statistic, level=level) for text in texts] if turn % 9 == 0 else many
        before = pairs - hits
        for one, true in zip(found, truth, strict=True):
            if one.value is None:
                continue  # no interval is claimed
            slack = 1e-9 * (1 + abs(true))  # of DuckDB's own float sums
            pairs += 1
            hits += one.low - slack <= true <= one.high + slack
            error = one.approximation_error
            broken += one.low + error - slack <= true <= one.high - error + slack
        missed += pairs - hits > before
    return pairs, hits, broken, missed


def test_intervals_hold_the_truth():
    """Ten answers of a table share its noise: one in 1,000 tables may have a miss, so 4 of 18 once in 3 * 10^8 runs."""
    pairs, hits, broken, missed = covered(18, 10, 1, 0.9999)
    assert pairs >= 120
    assert missed <= 3
    assert broken < hits - 0.15 * pairs


@pytest.mark.slow
def test_ten_thousand_intervals_hold_the_truth():
    """Answers of a table share its noise: at worst all of them miss together, once in 1 / (1 - LEVEL) tables.

    So misses are at most answers times a binomial number, which passes its mean by 7 deviations once in 10^8 runs.
    """
    tables, functions = 500, 22
    pairs, hits, broken, _ = covered(tables, functions, 2, LEVEL)
    assert pairs >= 10_000
    assert pairs - hits <= functions * ((1 - LEVEL) * tables + 7 * math.sqrt(LEVEL * (1 - LEVEL) * tables))
    assert broken < 0.8 * pairs

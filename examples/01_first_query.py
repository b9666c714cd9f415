"""Protect a table, ask a first question, read its error bars; what it would cost is known beforehand."""

from importlib.resources import files

import duckdp

care = str(files("duckdp.demo") / "data" / "rand_hie.parquet")  # person-years of a health insurance experiment
with duckdp.open({"care": care}, ledger="first_query.ledger") as curator:
    # The data owner declares; every figure is public, and none is read off the data.
    curator.protect(
        "care",
        unit_key="person",
        max_rows=5,
        max_groups=1,
        row_cap=100_000,
        expected_rows=20_000,
        bounds={"age": (0, 65), "income": (0, 30_000)},
        domains={"health": ["excellent", "good", "fair", "poor"]},
    )
    curator.budget(epsilon=4)
    curator.grant("ana", epsilon=2)

    # The analyst asks.
    ana = curator.session("ana")
    question = "SELECT health, count(*) AS n, avg(income) AS income FROM care GROUP BY health"
    print(ana.explain(question, epsilon=0.5), "\n")
    answer = ana.sql(question, epsilon=0.5)
    print(answer, "\n")

    # As plain values, with intervals, or as a data frame.
    for row in answer.estimates():
        print(f"{row['health']}: {row['income'].low:,.0f} to {row['income'].high:,.0f}")
    print(answer.arrow().column_names)

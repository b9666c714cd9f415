"""A synthetic table: one charge, then an ordinary file for any tool."""

from importlib.resources import files

import duckdb

import duckdp

care = str(files("duckdp.demo") / "data" / "rand_hie.parquet")
with duckdp.open({"care": care}, ledger="synthetic.ledger") as curator:
    bounds = {"age": (0, 65), "md_visits": (0, 30)}
    curator.protect("care", unit_key="person", max_rows=5, row_cap=100_000, bounds=bounds)
    curator.budget(epsilon=2)
    curator.grant("ana", epsilon=2)
    ana = curator.session("ana")
    made = ana.synthesize("care", epsilon=1, columns=["age", "md_visits"], name="people")
    people = made.arrow()
    print(made.remaining)

duckdb.sql("COPY people TO 'people.parquet'")
print("people.parquet:")
print(
    duckdb.sql(
        "SELECT 10 * floor(age / 10) AS age, count(*) AS people, round(avg(md_visits), 1) AS visits "
        "FROM 'people.parquet' GROUP BY 1 ORDER BY 1"
    )
)

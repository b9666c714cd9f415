"""A dashboard over the analyst's own DuckDB: private answers are bought once, kept as tables, and drawn for free."""

from importlib.resources import files

import duckdp

care = str(files("duckdp.demo") / "data" / "rand_hie.parquet")
with duckdp.open({"care": care}, ledger="dashboard.ledger") as curator:
    curator.protect(
        "care",
        unit_key="person",
        max_rows=5,
        row_cap=100_000,
        bounds={"age": (0, 65), "md_visits": (0, 30)},
        domains={"sex": ["female", "male"]},
    )
    curator.budget(epsilon=4)
    curator.grant("ana", epsilon=2)

    con = curator.connect("ana")
    con.execute("SET VARIABLE dp_epsilon = 1")  # what a call costs unless it says otherwise
    con.execute(
        "CREATE TABLE bands AS FROM dp_query($$SELECT sex, floor(age / 10) * 10 AS band, count(*) AS n FROM care "
        "GROUP BY sex, band$$)"
    )
    con.execute("CREATE TABLE visits AS FROM dp_query($$SELECT sex, avg(md_visits) AS visits FROM care GROUP BY sex$$)")

    # From here on everything is ordinary SQL on released values: free.
    for band, n in con.execute("SELECT band, sum(n) FROM bands GROUP BY band ORDER BY band").fetchall():
        print(f"age {band:2.0f}  {'#' * max(0, round(n / 150))} {n:,}")
    for sex, visits, error in con.execute("SELECT sex, visits, visits_standard_error FROM visits").fetchall():
        print(f"{sex}: {visits:.2f} visits a year, standard error {error:.2f}")
    print(con.execute("SELECT spent, remaining FROM dp_budget").fetchone())
    print("each question was charged once; drawing again is free")

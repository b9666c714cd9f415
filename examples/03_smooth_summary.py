"""One charge buys a summary of two columns; any number of smooth functions of them is then answered for free."""

from importlib.resources import files

import duckdp

care = str(files("duckdp.demo") / "data" / "rand_hie.parquet")
with duckdp.open({"care": care}, ledger="summary.ledger") as curator:
    bounds = {"age": (0, 65), "income": (0, 30_000)}
    curator.protect("care", unit_key="person", max_rows=5, row_cap=100_000, expected_rows=20_000, bounds=bounds)
    curator.budget(epsilon=2)
    curator.grant("ana", epsilon=2)

    con = curator.connect("ana")  # a DuckDB connection of the analyst's own: no private row is in it
    con.execute("FROM dp_smooth_summary('care', ['age', 'income'], epsilon := 1, degree := 8, name := 'ai')")

    functions = {
        "mean of age": "age",
        "mean of income": "income",
        "mean of age * income": "age * income",
        "weight near 40": "exp(-power((age - 40) / 20, 2))",
        "above 18, softly": "1 / (1 + exp((18 - age) / 6))",
    }
    for name, function in functions.items():
        value, low, high = con.execute("SELECT value, low, high FROM dp_smooth_answer('ai', $1)", [function]).fetchone()
        print(f"{name:22}{value:14,.4g}    from {low:,.4g} to {high:,.4g}")
    print(curator.charges("ana"))

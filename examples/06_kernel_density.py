"""One summary, many pictures: a kernel density, a histogram of soft bins, and moments, all free."""

from importlib.resources import files
from itertools import pairwise

import duckdp

care = str(files("duckdp.demo") / "data" / "rand_hie.parquet")
with duckdp.open({"care": care}, ledger="density.ledger") as curator:
    public = {"row_cap": 100_000, "expected_rows": 20_000, "bounds": {"age": (0, 65)}}
    curator.protect("care", unit_key="person", max_rows=5, **public)
    curator.budget(epsilon=1)
    curator.grant("ana", epsilon=1)
    con = curator.connect("ana")
    con.execute("FROM dp_smooth_summary('care', ['age'], epsilon := 1, degree := 32, name := 'ages')")

    # a Gaussian kernel of 4 years at every second year, in one statement
    centres = range(0, 66, 4)
    kernels = [f"exp(-power((age - {c}) / 4, 2) / 2) / (4 * sqrt(2 * 3.14159265))" for c in centres]
    rows = con.execute("SELECT value, low, high FROM dp_smooth_answers('ages', $1)", [kernels]).fetchall()
    print("density of age, 95% intervals")
    for centre, (value, low, high) in zip(centres, rows, strict=True):
        print(f"{centre:4}  {value:7.4f}  [{low:7.4f}, {high:7.4f}]  {'#' * round(max(0, value) * 1500)}")

    # soft bins: differences of logistic steps, summing to the number of rows
    edges = [0, 10, 20, 30, 40, 50, 65]
    steps = [f"1 / (1 + exp(({e} - age) / 1.5))" for e in edges[1:-1]]
    bins = [f"1 - {steps[0]}", *(f"{a} - {b}" for a, b in pairwise(steps)), steps[-1]]
    sums = "SELECT value, low, high FROM dp_smooth_answers('ages', $1, statistic := 'sum')"
    print("\nrows by age, soft bins")
    for (first, last), (value, low, high) in zip(pairwise(edges), con.execute(sums, [bins]).fetchall(), strict=True):
        print(f"{first:4} to {last:<3} {value:8,.0f}  [{low:8,.0f}, {high:8,.0f}]")

    # moments
    powers = [f"power(age, {k})" for k in (1, 2, 3)]
    rows = con.execute("SELECT value FROM dp_smooth_answers('ages', $1)", [powers]).fetchall()
    mean, second, third = (value for (value,) in rows)
    spread = (second - mean**2) ** 0.5
    skewness = (third - 3 * mean * spread**2 - mean**3) / spread**3
    print(f"\nmean {mean:.2f}, standard deviation {spread:.2f}, skewness {skewness:.2f}")
    print(curator.charges("ana"))

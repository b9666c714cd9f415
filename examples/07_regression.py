"""Least squares from a summary: the normal equations are means of products, so the regression is free."""

from importlib.resources import files

import numpy as np

import duckdp

care = str(files("duckdp.demo") / "data" / "rand_hie.parquet")
features = ["1", "age / 65", "income / 30000", "age * age / 4225"]
target = "md_visits"
with duckdp.open({"care": care}, ledger="regression.ledger") as curator:
    bounds = {"age": (0, 65), "income": (0, 30_000), "md_visits": (0, 20)}
    curator.protect("care", unit_key="person", max_rows=5, row_cap=100_000, expected_rows=20_000, bounds=bounds)
    curator.budget(epsilon=2)
    curator.grant("ana", epsilon=2)
    session = curator.session("ana")
    # total degree 5 holds every product of two features (degree 4) and of a feature with the target
    session.smooth_summary("care", list(bounds), epsilon=2, degree=5, basis="total_degree", name="regress")

    pairs = [(i, j) for i in range(len(features)) for j in range(i, len(features))]
    products = [f"({features[i]}) * ({features[j]})" for i, j in pairs] + [f"({f}) * {target}" for f in features]
    means = session.smooth_answers("regress", products).arrow()
    values, errors = (np.array(means[name].to_pylist()) for name in ("value", "standard_error"))

    a = np.zeros((len(features), len(features)))
    for (i, j), value in zip(pairs, values, strict=False):
        a[i, j] = a[j, i] = value
    b = values[len(pairs) :]
    weights = np.linalg.solve(a + 1e-3 * np.eye(len(b)), b)

    print("largest standard error of a mean:", f"{errors.max():.3g}")
    for feature, weight in zip(features, weights, strict=True):
        print(f"{feature:20} {weight:8.2f}")
    for age in (5, 25, 45, 64):
        x = np.array([1, age / 65, 0.4, age**2 / 4225])
        print(f"visits a year at age {age}: {x @ weights:.2f}")
    print(curator.charges("ana"))

"""Patients, their visits and drugs, and public regions, as Parquet for Spark; what their owner declares."""

from __future__ import annotations

from typing import Any

import duckdp

SECRET = "Cassiopeia"
TABLES = {
    "visits": "SELECT CASE WHEN i % 97 = 0 THEN NULL ELSE i % 300 END::INTEGER AS pid, i::BIGINT AS vid, "
    "(i * 7 % 90)::INTEGER AS age, (i * 13 % 5000)::DOUBLE AS cost, ['F', 'M'][1 + i % 2] AS sex, "
    f"'{SECRET}' || i AS name FROM range(4000) AS r(i)",
    "drugs": "SELECT (i * 7 % 5000)::BIGINT AS visit, (i % 20)::DOUBLE AS dose FROM range(6000) AS r(i)",
    "people": "SELECT i::INTEGER AS pid, (i % 5)::INTEGER AS region FROM range(320) AS r(i)",
    "regions": "SELECT i::INTEGER AS region, 'r' || (i % 2) AS land FROM range(5) AS r(i)",
}


def declare(curator: duckdp.Curator) -> None:
    terms: dict[str, Any] = {"max_rows": 64, "row_cap": 10_000}
    bounds = {"age": (0, 110), "cost": (0, 5000)}
    curator.protect(
        "visits",
        unit_key="pid",
        bounds=bounds,
        domains={"sex": ["F", "M"]},
        columns=["vid", "name"],
        unique=["vid"],
        **terms,
    )
    curator.protect("drugs", link="visit -> visits.vid", bounds={"dose": (0, 20)}, **terms)
    curator.protect("people", unit_key="pid", domains={"region": list(range(5))}, **terms)
    curator.publish("regions")
    curator.budget(epsilon=50)
    curator.grant("ana", epsilon=50)


def people(owner: duckdp.Curator) -> Any:
    owner.protect("people", unit_key="pid", max_rows=5, row_cap=10_000)
    owner.budget(epsilon=1)
    owner.grant("ana", epsilon=1)
    return owner.session("ana")

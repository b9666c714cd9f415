"""A Superset dashboard over a duckdp server, made by Superset's REST API: ``python board.py SUPERSET SQLALCHEMY_URL``.

    python board.py http://127.0.0.1:8088 \\
        'postgresql+psycopg2://ana:...@127.0.0.1:5433/clinic?options=-c%20dp.epsilon%3D0.1'
    python board.py http://127.0.0.1:8088 duckdb:////srv/board.duckdb   # what was bought, in a plain DuckDB file

Two data sets: the synthetic table "people", which is filtered freely and costs nothing, and a private query: its
charts, filters and sorts all follow from one answer, so they cost dp.epsilon once. In the file both are tables, "kept"
and "people_by_share". Needs the standard library alone; SUPERSET_USER and SUPERSET_PASSWORD name the administrator.
"""

from __future__ import annotations

import json
import os
import sys
import urllib.error
import urllib.request
from http.cookiejar import CookieJar
from typing import Any

PRIVATE = "SELECT sex, share, count(*) AS people FROM care GROUP BY sex, share"
BOUGHT = "SELECT sex, share, people FROM people_by_share"


class Superset:
    """Superset's API, logged in."""

    def __init__(self, address: str, user: str, password: str) -> None:
        self._address = address.rstrip("/")
        self._open = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(CookieJar())).open
        self._headers = {"Content-Type": "application/json", "Referer": self._address}
        login = {"username": user, "password": password, "provider": "db", "refresh": False}
        self._headers["Authorization"] = f"Bearer {self.post('security/login', login)['access_token']}"
        self._headers["X-CSRFToken"] = self.get("security/csrf_token/")["result"]

    def _call(self, method: str, path: str, body: object = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"{self._address}/api/v1/{path}", data, self._headers, method=method)
        try:
            with self._open(request, timeout=120) as found:
                return json.load(found)
        except urllib.error.HTTPError as error:
            raise SystemExit(f"{method} {path}: {error.code} {error.read().decode()[:2000]}") from None

    def get(self, path: str) -> Any:
        return self._call("GET", path)

    def post(self, path: str, body: object) -> Any:
        return self._call("POST", path, body)

    def put(self, path: str, body: object) -> Any:
        return self._call("PUT", path, body)


def metric(text: str, label: str) -> dict[str, Any]:
    """A metric written as SQL."""
    return {"expressionType": "SQL", "sqlExpression": text, "label": label, "optionName": f"metric_{label}"}


def charts(people: int, private: int) -> list[tuple[str, str, int, dict[str, Any]]]:
    """(title, kind, data set, form) of each chart."""
    bars = {"x_axis_sort_asc": True, "row_limit": 1000, "show_legend": True, "color_scheme": "supersetColors"}
    return [
        (
            "People by the share they pay (private)",
            "echarts_timeseries_bar",
            private,
            bars | {"x_axis": "share", "groupby": ["sex"], "metrics": [metric("sum(people)", "people")]},
        ),
        ("The private answer", "table", private, {"query_mode": "raw", "all_columns": ["sex", "share", "people"]}),
        (
            "Visits by month (synthetic)",
            "echarts_timeseries_line",
            people,
            bars
            | {
                "x_axis": "day",
                "time_grain_sqla": "P1M",
                "groupby": ["sex"],
                "metrics": [metric("count(*)", "people")],
                "adhoc_filters": [],
            },
        ),
        (
            "Visits a year by age (synthetic)",
            "echarts_timeseries_bar",
            people,
            bars
            | {
                "x_axis": {"expressionType": "SQL", "label": "decade", "sqlExpression": "floor(age / 10) * 10"},
                "xAxisForceCategorical": True,
                "groupby": [],
                "metrics": [metric("avg(md_visits)", "visits")],
            },
        ),
    ]


def layout(made: list[tuple[int, str]]) -> dict[str, Any]:
    """A dashboard of two rows with two charts each."""
    position: dict[str, Any] = {
        "DASHBOARD_VERSION_KEY": "v2",
        "ROOT_ID": {"type": "ROOT", "id": "ROOT_ID", "children": ["GRID_ID"]},
        "GRID_ID": {"type": "GRID", "id": "GRID_ID", "children": [], "parents": ["ROOT_ID"]},
    }
    for i in range(0, len(made), 2):
        row = f"ROW-{i}"
        position["GRID_ID"]["children"].append(row)
        position[row] = {
            "type": "ROW",
            "id": row,
            "children": [],
            "parents": ["ROOT_ID", "GRID_ID"],
            "meta": {"background": "BACKGROUND_TRANSPARENT"},
        }
        for number, title in made[i : i + 2]:
            chart = f"CHART-{number}"
            position[row]["children"].append(chart)
            position[chart] = {
                "type": "CHART",
                "id": chart,
                "children": [],
                "parents": ["ROOT_ID", "GRID_ID", row],
                "meta": {"chartId": number, "width": 6, "height": 50, "sliceName": title},
            }
    return position


def main(address: str, server: str) -> None:
    superset = Superset(address, os.environ.get("SUPERSET_USER", "admin"), os.environ.get("SUPERSET_PASSWORD", "admin"))
    in_file = server.startswith("duckdb")
    name, table, asked = ("file", "kept", BOUGHT) if in_file else ("server", "people", PRIVATE)
    database = superset.post(
        "database/", {"database_name": f"clinic, by {name}", "sqlalchemy_uri": server, "expose_in_sqllab": True}
    )["id"]
    of = {"database": database, "schema": "main"}
    people = superset.post("dataset/", of | {"table_name": table})["id"]
    private = superset.post("dataset/", of | {"table_name": f"people by share, {name}", "sql": asked})["id"]
    board = superset.post("dashboard/", {"dashboard_title": f"Care, by {name}", "published": True})["id"]
    made = []
    for title, kind, data, form in charts(people, private):
        params = json.dumps({**form, "viz_type": kind, "datasource": f"{data}__table"})
        body = {"slice_name": title, "viz_type": kind, "datasource_id": data, "datasource_type": "table"}
        number = superset.post("chart/", body | {"params": params, "dashboards": [board]})["id"]
        made.append((number, title))
    superset.put(f"dashboard/{board}", {"position_json": json.dumps(layout(made)), "json_metadata": "{}"})
    print(f"{address}/superset/dashboard/{board}/?standalone=2")


if __name__ == "__main__":
    main(*sys.argv[1:])

"""Every SELECT that the guide shows as SQL alone is one that the gate answers, on tables like those it speaks of."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import pytest

from duckdp.catalog.link import Link
from duckdp.catalog.public import Public
from duckdp.catalog.table import RawColumn, Table
from duckdp.compiler.outer.looked_up import with_single_values
from duckdp.compiler.outer.whole import read_whole
from duckdp.compiler.parse import parse_statement
from duckdp.errors import QueryError
from duckdp.vault.linking import carrier
from duckdp.vault.publishing import with_figures
from tests.gate import column

GUIDE = Path(__file__).parents[2] / "docs" / "guide.md"
DAYS = {"lower": dt.date(2024, 1, 1), "upper": dt.date(2024, 12, 31)}


def _table(name: str, *columns: object, unit: str = "patient_id") -> Table:
    return Table(
        name=name,
        relation=("memory", "main", name),
        columns=tuple(columns),  # type: ignore[arg-type]
        row_cap=100_000,
        unit_key=unit,
        unit_type="INTEGER",
        max_rows=4,
        max_groups=2,
    )


def _wards() -> Table:
    con = duckdb.connect()
    con.execute(
        "CREATE TABLE wards AS FROM (VALUES ('N', 'North', 'north', 12), ('S', 'South', 'x', 8)) "
        "t(ward, name, site, beds)"
    )
    raw = [RawColumn(name=r[0], type=r[1], nullable=True) for r in con.execute("DESCRIBE wards").fetchall()]
    bare = replace(_table("wards", *(column(c.name, c.type) for c in raw)), unit_key=None, unit_type=None, row_cap=1)
    return with_figures(con, replace(bare, public=Public(rows=0, digest="", source="")), raw, "")


TABLES = {
    "care": _table(
        "care",
        column("sex", "VARCHAR", domain=("F", "M")),
        column("age", "INTEGER", lower=0, upper=110),
        column("medical_dollars", "DOUBLE", lower=0, upper=1000),
    ),
    "visits": _table(
        "visits",
        column("department", "VARCHAR", domain=("a", "b")),
        column("ward", "VARCHAR", domain=("N", "S", "W")),
        column("emergency", "BOOLEAN"),
        column("visit_id", "INTEGER"),
        column("cost", "DOUBLE", lower=0, upper=1000),
        column("day", "DATE", **DAYS),
    ),
    "labs": _table(
        "labs",
        column("level", "DOUBLE", lower=0, upper=10),
        column("abnormal", "BOOLEAN"),
        column("day", "DATE", **DAYS),
        column("visit_id", "INTEGER"),
    ),
    "wards": _wards(),
}
TABLES["visits"] = replace(TABLES["visits"], unique=("visit_id",))
LINK = Link(column="visit_id", type="INTEGER", key="visit_id", parent=carrier(TABLES["visits"]))
TABLES["labs"] = replace(TABLES["labs"], link=LINK)


def _shown() -> list[str]:
    blocks = re.findall(r"```sql\n(.*?)```", GUIDE.read_text(), re.DOTALL)
    found = [text.strip().rstrip(";") for block in blocks for text in re.split(r"\n\s*\n", block)]
    return [text for text in found if re.match(r"(SELECT|WITH)\b", text) and "dp_" not in text]


@pytest.mark.parametrize("text", _shown())
def test_the_guide_shows_what_is_answered(text: str) -> None:
    statement = parse_statement(text)
    made = with_single_values(statement, TABLES, text, (), _public_answer)
    read_whole(statement if made is None else made, TABLES, text)


def _public_answer(table: Table, sql: str, values: Sequence[object]) -> list[tuple[Any, ...]]:
    assert table.name == "wards"
    return [("N",)] if "LIMIT 1 " in sql else [(3,)]


def test_enough_is_looked_at_and_what_is_refused_is_seen() -> None:
    assert len(_shown()) >= 11
    text = _shown()[0].replace("care", "nowhere")
    with pytest.raises(QueryError):
        read_whole(parse_statement(text), TABLES, text)

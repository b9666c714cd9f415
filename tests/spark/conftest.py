"""A session of Spark for each module, and curators of the same rows on Spark and on one machine."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import duckdb
import pytest

import duckdp
from tests.spark.clusters import session, write_rows
from tests.spark.patients import TABLES, declare


@pytest.fixture(scope="module")
def spark() -> Iterator[Any]:
    with session() as found:
        yield found


@pytest.fixture(scope="module")
def paths(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("rows")
    with duckdb.connect() as con:
        return {n: write_rows(folder / n, con.sql(sql).to_arrow_table()) for n, sql in TABLES.items()}


@pytest.fixture(scope="module")
def here(paths: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[duckdp.Curator]:
    files = {name: f"{path}/*.parquet" for name, path in paths.items()}
    with duckdp.open(files, ledger=str(tmp_path_factory.mktemp("here") / "a.ledger")) as curator:
        declare(curator)
        yield curator


@pytest.fixture(scope="module")
def there(spark: Any, paths: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[duckdp.Curator]:
    with duckdp.open(spark, tables=paths, ledger=str(tmp_path_factory.mktemp("there") / "a.ledger")) as curator:
        declare(curator)
        yield curator

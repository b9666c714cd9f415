"""Randomized response as functions of a DuckDB connection: ``sql/local.sql`` and what stands behind it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from duckdp.errors import ParameterError
from duckdp.local.reports import report_texts, response_of
from duckdp.mechanisms.randomized_response import ENCODINGS, Encoding
from duckdp.resources import read_sql
from duckdp.texts import sql_text

if TYPE_CHECKING:
    import duckdb

#: DuckDB keeps a bare pointer to a registered function: these must never be collected.
KEEP: list[Callable[..., Any]] = []


def register(con: duckdb.DuckDBPyConnection) -> None:
    """Make ``dp_randomize``, ``dp_randomize_unary`` and the functions that count their reports, on a connection.

    For whoever collects: a device, a form, a job that loads. No curator is needed, and nothing is charged. Noise is of
    the operating system, exact. Again is harmless.

    Args:
        con: of any DuckDB instance, for as long as it is open.

    Raises:
        ParameterError: P107, no connection of DuckDB's.
    """
    import duckdb

    if not isinstance(con, duckdb.DuckDBPyConnection):
        raise ParameterError("P107", "con", con, "must be a connection of DuckDB's.")
    known = con.execute("SELECT 1 FROM duckdb_functions() WHERE function_name = '__dp_randomize'").fetchall()
    if not known:
        _create_functions(con)
    for statement in read_sql("local.sql").split(";\n"):
        con.execute(statement)


def _create_functions(con: duckdb.DuckDBPyConnection) -> None:
    """The functions behind the macros; always volatile: none is folded, and each row has draws of its own."""
    make: Any = con.create_function
    for encoding in ENCODINGS:
        function, direct = _reporter(encoding), encoding == "direct"
        name, kind = ("__dp_randomize", "VARCHAR") if direct else ("__dp_randomize_unary", "VARCHAR[]")
        KEEP.append(function)
        given = ["VARCHAR", "VARCHAR[]", "VARCHAR"]
        make(name, function, given, kind, type="arrow", side_effects=True, null_handling="special")
    KEEP.extend((_estimates, _counting_sql))
    made = ["VARCHAR", "BIGINT", "BIGINT", "BIGINT", "VARCHAR"]
    make("__dp_randomized_estimate", _estimates, made, "DOUBLE[]")
    texts = ["VARCHAR", "VARCHAR", "VARCHAR", "VARCHAR[]", "VARCHAR"]
    make("__dp_randomized_sql", _counting_sql, texts, "VARCHAR", null_handling="special", side_effects=True)


def _reporter(encoding: Encoding) -> Callable[[Any, Any, Any], Any]:
    """Reports of a chunk of rows."""

    def report(values: Any, domains: Any, epsilons: Any) -> Any:
        import pyarrow as pa

        given, lists, costs = values.to_pylist(), domains.to_pylist(), epsilons.to_pylist()
        found: list[Any] = []
        for start, end in _runs(lists, costs):
            domain = _domain_of(lists[start])
            found += report_texts(given[start:end], domain, costs[start], encoding)
        return pa.array(found, pa.string() if encoding == "direct" else pa.list_(pa.string()))

    return report


def _runs(lists: Sequence[object], costs: Sequence[object]) -> list[tuple[int, int]]:
    """Stretches of rows with one domain and one epsilon: most often all of them."""
    starts = [i for i in range(len(lists)) if i == 0 or (lists[i], costs[i]) != (lists[i - 1], costs[i - 1])]
    return list(zip(starts, [*starts[1:], len(lists)], strict=True))


def _domain_of(given: Sequence[str | None] | None) -> list[str]:
    if given is None or any(name is None for name in given):
        raise ParameterError("P107", "domain", given, "must be a list of texts, none of them NULL.")
    return [str(name) for name in given]


def _estimates(encoding: str, values: int, reported: int, reports: int, epsilon: str) -> list[float]:
    names = [str(i) for i in range(values)]
    one = response_of(names, epsilon, "direct" if encoding == "direct" else "unary").estimate(reported, reports)
    return [one.value, one.standard_error, one.low, one.high]


def _counting_sql(
    encoding: str | None, table: str | None, column: str | None, domain: list[str | None] | None, epsilon: str | None
) -> str:
    """The SELECT that counts reports and estimates; what is wrong is refused before anything is counted."""
    names, chosen = _domain_of(domain), next(one for one in ENCODINGS if one == encoding)
    response_of(names, epsilon, chosen)
    if not table or not column:
        raise ParameterError("P107", "t", table, "must be the name of a table, and x that of its column of reports.")
    quoted, listed = '"' + column.replace('"', '""') + '"', ", ".join(sql_text(name) for name in names)
    member = "report" if chosen == "direct" else "unnest(report)"
    valid = f"report IN ({listed})"
    if chosen != "direct":  # a report that has a value twice, or NULL, was made by nobody here
        valid = f"list_has_all([{listed}], report) AND len(list_distinct(report)) = len(report)"
    kind = "VARCHAR" if chosen == "direct" else "VARCHAR[]"
    return (
        f"WITH reports AS (SELECT report FROM (SELECT {quoted}::{kind} AS report FROM query_table({sql_text(table)}))"
        f" WHERE {valid}), members AS (SELECT {member} AS value FROM reports),"
        " counts AS (SELECT value, count(*) AS reported FROM members GROUP BY value),"
        " whole AS (SELECT count(*) AS reports FROM reports),"
        f" named AS (SELECT value, place FROM (SELECT unnest([{listed}]) AS value,"
        f" unnest(range({len(names)})) AS place))"
        " SELECT value, e[1] AS people, e[2] AS standard_error, e[3] AS low, e[4] AS high FROM ("
        f"SELECT value, place, __dp_randomized_estimate({sql_text(chosen)}, {len(names)},"
        f" coalesce(reported, 0), reports, {sql_text(str(epsilon))}) AS e"
        " FROM named LEFT JOIN counts USING (value), whole) ORDER BY place"
    )

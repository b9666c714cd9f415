"""Ways out that refusals of public rows in a statement name: rows of constants, and single values of public tables."""

from __future__ import annotations

from duckdp.catalog.table import Kind

CONSTANTS = (
    "rows that a statement writes out are constants here. Write 1, -2.5, 'a', TRUE, DATE '2020-01-31', NULL or a "
    "parameter; what is computed belongs into the SELECT over them."
)
CONSTANTS_WIDTH = "the rows of VALUES differ in length. Write as many constants in each."


SINGLE_FORM = (
    "a subquery that gives one value of a public table is one SELECT with WHERE, and with ORDER BY and LIMIT where it "
    "takes a row. Write (SELECT avg(x) FROM public WHERE ...), or join the table."
)
SINGLE_COLUMN = "a subquery that stands for a value gives one column. Select one."
SINGLE_MANY = (
    "this subquery gives more than one row, where one value stands. Choose one: (SELECT max(x) FROM public), or WHERE, "
    "or LIMIT 1."
)
SINGLE_AGGREGATE = "of a public table count, sum, avg, min, max and median of one column stand here. Write avg(x)."
SINGLE_GROUPED = "a column stands beside an aggregate of all rows. Write min(x), or take it into the aggregate."
SINGLE_CORRELATED = (
    "this subquery names a column of the query around it, so it would have a value for each row. Join the public "
    "table: FROM protected p JOIN public q ON p.x = q.x, and name its column."
)


def single_rows(name: str, most: int) -> str:
    """That a public table is too long to be looked at."""
    return f'public "{name}" has more than {most:,} rows. Join it with the protected table, or write the value.'


def single_values(most: int) -> str:
    """That a statement asks for too many values of public rows."""
    return f"more than {most} subqueries here give a value of public rows. Join the public table, or write values."


def many_constants(most: int) -> str:
    """That a statement writes out too much."""
    return f"these rows have more than {most:,} constants. Ask the data owner to publish them as a table."


def constants_null(name: str) -> str:
    """That a column has no kind."""
    return f'column "{name[:63]}" of these rows is NULL in each. Leave it out.'


def constants_kinds(name: str, one: Kind, two: Kind) -> str:
    """That a column has two kinds."""
    rule = f'column "{name[:63]}" of these rows is a {one.value} in one and a {two.value} in another.'
    return f"{rule} Write constants of one kind: 1, 'a', DATE '2020-01-31'."

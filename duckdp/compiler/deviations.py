"""Where a row expression does not mean what DuckDB means by its text: all of it, each with its reason.

The tests compare random texts with DuckDB and let nothing pass but this (tests/compiler/test_meaning.py); docs/guide.md
lists it.
"""

from __future__ import annotations

from typing import NamedTuple


class Deviation(NamedTuple):
    """One difference: what happens here, and why."""

    what: str
    why: str


DEVIATIONS = (
    Deviation(
        "NaN is NULL, in columns and where an expression makes it (`x / x` at 0).",
        "A bound says nothing of NaN: it would count as the upper one.",
    ),
    Deviation(
        "Where DuckDB raises, the row has a value: NULL for a cast out of range and for `//` and `%` by 0, the sum "
        "itself for an integer overflow.",
        "An error would tell that the row is there.",
    ),
    Deviation(
        "Numbers are computed as DOUBLE: whole numbers beyond 2**53 and DECIMALs of more than 15 digits lose their "
        "last ones, as texts too, and `%` where a UBIGINT meets a DECIMAL is not rounded as DuckDB does.",
        "DOUBLE is the one type whose arithmetic never raises.",
    ),
    Deviation(
        "Sums and products of FLOATs keep the digits of DOUBLE inside aggregates.",
        "They are more exact so, and cost less; comparisons, rounding and keys are FLOAT as in DuckDB.",
    ),
    Deviation(
        "Strings are read up to 256 characters, and compared by their bytes whatever the collation.",
        "No row may cost more time than another.",
    ),
    Deviation(
        "Dates before year 1 and after 9999 are read as the first and last day between them; TRY_CAST of a text has "
        "NULL for them.",
        "Python has no others; and arithmetic on those never raises.",
    ),
    Deviation(
        "`date_trunc` of a DATE is a DATE.",
        "DuckDB 2 gives the TIMESTAMP of its midnight, which is equal to it.",
    ),
    Deviation(
        "A TIMESTAMP WITH TIME ZONE is the TIMESTAMP of its instant in UTC.",
        "What a row says must not depend on the time zone of the curator's machine.",
    ),
    Deviation(
        "`round(x, -n)` of a DECIMAL that is NULL is NULL.",
        "Where the type has fewer than n digits before the point, DuckDB 2.0 has 0, or NULL if no other row is read.",
    ),
    Deviation(
        "A BOOLEAN where a number stands is 0 or 1.",
        "DuckDB asks for a cast.",
    ),
)

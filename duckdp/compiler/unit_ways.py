"""Ways out of refusals about the privacy unit in a CASE, and about keys of links, whose values are of one unit each."""

from __future__ import annotations


def of_one_unit(name: str, unit: str | None) -> str:
    """That each group would be of one unit, so that none is shown."""
    return (
        f'each value of "{name}" is of one {unit}, and groups of one {unit} are not shown: the answer would be empty. '
        f"Ask about the groups together: SELECT avg(n), count(*) FROM (SELECT {name}, count(*) AS n FROM t GROUP BY "
        f"{name}); or group by another column."
    )


def unit_in_case(unit: str, *, distinct: bool) -> str:
    """That a count is of the unit under several conditions, or of something else too."""
    inner = f"DISTINCT {unit}" if distinct else unit
    return (
        f'"{unit}" names the privacy unit, and is counted where one condition holds. Write '
        f"count({inner}) FILTER (WHERE ...), with OR between conditions."
    )


def null_in_keys(name: str, *, without: bool) -> str:
    """That IN is NULL for rows of all units where one of them has no key.

    Args:
        name: of the key.
        without: rows that are not in the list are asked for.
    """
    no = "NOT " if without else ""
    return (
        f'"{name}" may be NULL, and {no}IN is NULL then, for rows of other units too. Write '
        f"{no}EXISTS (SELECT 1 FROM b WHERE b.{name} = a.{name} AND ...)."
    )

"""Rows in memory for trees: what DuckDB would count, and three columns of every form."""

import numpy as np

from duckdp.synthetic.tree.buy.null_counts import count_nulls
from duckdp.synthetic.unit.layout import make_units
from tests.smooth.tables import column


def memory_counts(codes):
    """Reads of rows of bins, int[n, columns]."""

    return lambda tables: tables.count(np.asarray(codes))


def memory_nulls(missing):
    """The read of rows with NULLs of rows in memory, bool[n, columns]."""

    return lambda columns: count_nulls([tuple(missing[:, list(columns)].T)], len(columns))


def three_columns(rows):
    """A number, a domain of three values and a boolean, linked; as unit columns and unit rows."""
    units = make_units(
        [
            column("x", 0, 10, nullable=False),
            column("city", None, None, "VARCHAR", domain=("a", "b", "c"), other="c", nullable=False),
            column("sick", None, None, "BOOLEAN", nullable=False),
        ]
    )
    rng = np.random.default_rng(11)
    place = rng.integers(0, 3, rows)
    unit = np.full((rows, units.count), -1.0)
    unit[:, 0] = np.clip(rng.normal(place / 2 - 0.6, 0.15), -1, 1)
    unit[np.arange(rows), 1 + place] = 1.0
    unit[:, 4] = np.where(rng.uniform(size=rows) < 0.1 + 0.4 * place, 1.0, -1.0)
    return units, unit

"""The SQL face: an analyst's own DuckDB, with the dp functions and no private row."""

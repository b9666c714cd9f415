"""The exact sums of a summary inside DuckDB: three ways, one planner (``moments``)."""

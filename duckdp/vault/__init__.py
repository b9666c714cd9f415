"""Where private rows are: sources, views, the engine, declarations checked against the real schema."""

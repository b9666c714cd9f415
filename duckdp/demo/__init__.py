"""``duckdp demo``, with its data."""

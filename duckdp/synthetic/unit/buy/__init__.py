"""The private side of releases over unit columns: reads, and exact sums -> noisy means for shares of one charge."""

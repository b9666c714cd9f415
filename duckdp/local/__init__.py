"""Randomized response: a column that is noised where it is collected, before anybody has it.

In this model nobody is trusted, the collector neither: each report is private by itself, at the epsilon that was given,
so what is made of reports is free, and no ledger counts it. The price is noise for every person: of n reports a count
is off by about sqrt(n) / epsilon, where a curator's is by 1 / epsilon. One person's reports add up: report once.

    register            dp_randomize and what counts its reports, on a DuckDB connection
    randomize           the same of a list, in Python
    randomized_counts   estimates from a list of reports
"""

from __future__ import annotations

from duckdp.local.registered import register
from duckdp.local.reports import randomize, randomized_counts

__all__ = ["randomize", "randomized_counts", "register"]

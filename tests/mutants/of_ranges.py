"""Faults in noisy tables of counts: more is lost than is charged, or an interval does not hold."""

from __future__ import annotations

from tests.mutants.mutant import Mutant, losses

_TABLES, _NESTED = "duckdp/mechanisms/noisy_tables.py", "duckdp/core/nested_tables.py"
_READ, _TASK, _CELLS = (
    "duckdp/smooth/sums/range_read.py",
    "duckdp/smooth/buy/range_task.py",
    "duckdp/smooth/range_cells.py",
)
_ANSWERS, _NEARER = "duckdp/smooth/range_answers.py", "duckdp/smooth/nearer.py"
_T, _T_NESTED, _T_RANGES = (
    ("tests/mechanisms/test_noisy_tables.py",),
    ("tests/core/test_nested_tables.py",),
    ("tests/smooth/test_ranges.py",),
)
_MIXED, _POOLED, _BARS = "duckdp/smooth/buy/mixed_task.py", "duckdp/smooth/pooled.py", "duckdp/core/kernelbars.py"
_NET, _NET_TASK = "duckdp/mechanisms/small_database.py", "duckdp/compiler/net_task.py"
_T_NET, _T_NET_TASK = ("tests/mechanisms/test_small_database.py",), ("tests/test_small_database.py",)
_MARGINALS = "duckdp/smooth/buy/marginal_task.py"
_T_MARGINALS, _T_MIXED = ("tests/test_marginals.py",), ("tests/smooth/test_mixed.py",)
_T_ALONE = ("tests/privacy/test_noise_alone.py",)
_T_LOSSES = losses(
    "ranges of units",
    "ranges, gaussian",
    "ranges of rows, replaced",
    "categories of units",
    "categories of rows",
    "categories, replaced",
    "marginals of units",
    "marginals, replaced",
)

# fmt: off
RANGES: tuple[Mutant, ...] = (
    Mutant("tables: a replaced row leaves no cell", _TABLES, "cells = max_rows << BITS, 2 if", "cells = max_rows << BITS, 1 if", _T),
    Mutant("tables: rows of a unit do not count", _TABLES, "max_rows << BITS, 2", "1 << BITS, 2", _T),
    Mutant("tables: each spends the whole", _TABLES, "laplace_scale(epsilon * share, one.l1)", "laplace_scale(epsilon, one.l1)", _T),
    Mutant("tables: each spends the whole rho", _TABLES, "gaussian_scale(rho * share, one.l2_squared)", "gaussian_scale(rho, one.l2_squared)", _T),
    Mutant("tables: one draw for all cells", _TABLES, "for z in draw(size, scale)]", "for z in draw(1, scale) * size]", (*_T_ALONE, *_T)),
    Mutant("tables: all variances alike", _NESTED, "np.array(self.variances)))", "1.0))", _T_NESTED),
    Mutant("ranges: exact cells", _TASK, "[value + z for value", "[value + 0 * z for value", _T_ALONE),
    Mutant("ranges: counts and sums each for the whole", _TASK, "epsilon_nano=epsilon_nano - for_counts,", "epsilon_nano=epsilon_nano,", _T_LOSSES),
    Mutant("ranges: Gaussian counts for the whole rho", _TASK, "left = rho - inner.loss.rho_pico", "left = rho", (*_T_RANGES, *_T_LOSSES)),
    Mutant("ranges: every row of a unit counts whole", _READ, 'weight = f"coalesce(system.main.sum(CAST(c.{WEIGHT} AS BIGINT)), 0)" if keyed', 'weight = f"system.main.count_star() * {1 << BITS}" if keyed', (*_T_RANGES, *_T_LOSSES)),
    Mutant("ranges: what a cell misses of its own edge", _READ, "CASE WHEN {x} >= system.main.list_extract", "CASE WHEN {x} > system.main.list_extract", _T_RANGES),
    Mutant("ranges: cells reach to the edges of whole numbers", _CELLS, "inner - 1 if self.step", "inner - 2 if self.step", _T_RANGES),
    Mutant("ranges: one end for both", _ANSWERS, "for side in (bounded.low, bounded.high)]", "for side in (bounded.low, bounded.low)]", _T_RANGES),
    Mutant("ranges: factors below 0 keep their ends", _ANSWERS, "(low, high) if term.factor >= 0 else (high, low)", "(low, high)", _T_RANGES),
    Mutant("ranges: NULL is not looked for", _NEARER, "    counts.look(number)\n", "", _T_RANGES),
    Mutant("categories: both releases for the whole", _MIXED, "whole(epsilon_nano - part)", "whole(epsilon_nano)", (*_T_MIXED, *_T_LOSSES)),
    Mutant("categories: of all rows twice", _POOLED, "of_joint[:size] -= share * np.diag(self._weights)", "of_joint[:size] -= 0 * np.diag(self._weights)", _T_MIXED),
    Mutant("categories: one noise is forgotten", _BARS, "sum(part.cumulants[0] for part in parts)", "sum(part.cumulants[0] for part in parts[:1])", _T_MIXED),
    Mutant("categories: steps of the other grid", _POOLED, "2.0 ** (base.bits - s.bits)", "2.0 ** (s.bits - base.bits)", _T_MIXED),
    Mutant("marginals: exact tables", _MARGINALS, "[value + z for value", "[value + 0 * z for value", _T_ALONE),
    Mutant("marginals: a row of a unit for each row", _MARGINALS, "change(table.max_rows if table.unit_key is not None else 1, neighbours)", "change(1, neighbours)", _T_LOSSES),
    Mutant("marginals: k is not of its identity", _MARGINALS, '["marginals", self.k, self.by_basis, *terms]', '["marginals"]', ("tests/privacy/test_identities.py",)),
    Mutant("net: scores are said to move by 1", _NET, "epsilon=epsilon, linf=self.size)", "epsilon=epsilon, linf=1)", _T_NET),
    Mutant("net: an exact total", _NET_TASK, "int(units or 0) + laplace_noise(1, self.scale)[0]", "int(units or 0)", _T_ALONE),
    Mutant("net: questions are not of its identity", _NET_TASK, "keys, asked, *terms])", "keys, *terms])", ("tests/privacy/test_identities.py",)),
    Mutant("net: the choice spends all", _NET_TASK, "Fraction(self.epsilon_nano, NANO) - self.for_total", "Fraction(self.epsilon_nano, NANO)", _T_NET_TASK),
    Mutant("net: a total below none", _NET_TASK, "min(max(0, noisy), LARGEST)", "min(noisy, LARGEST)", _T_NET_TASK),
    Mutant("net: places of cells of 16 bits", _NET, "dtype=np.int32)", "dtype=np.int16)", _T_NET),
    Mutant("net: the bound forgets the choice", _NET, "return near + 2 / epsilon", "return near + 0 / epsilon", _T_NET),
)

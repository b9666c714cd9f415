"""Faults in moments of pairs of columns: a unit changes more than is noised, intervals too short, two questions one."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

_MOMENTS, _ROWS = "duckdp/mechanisms/second_moments.py", "duckdp/compiler/moment_rows.py"
_TASK, _BARS = "duckdp/compiler/pair_moments.py", "duckdp/core/momentbars.py"
_PAIRS, _LINES = "duckdp/compiler/pair_statistics.py", "duckdp/functions/regressions.py"
_T, _T_LAW = ("tests/test_relations.py",), ("tests/mechanisms/test_second_moments.py",)
_T_BARS, _T_IDENTITIES = ("tests/core/test_momentbars.py",), ("tests/privacy/test_identities.py",)

MOMENTS: tuple[Mutant, ...] = (
    Mutant("moments: a replaced row changes once", _MOMENTS, "(2 if self.replaced else 1)", "1", _T_LAW),
    Mutant("moments: groups share no charge", _MOMENTS, "self.rows * self.groups * (", "self.rows * (", _T_LAW),
    Mutant(
        "moments: rounding of cells is free", _MOMENTS, "reach.times * (step + cells))", "reach.times * step)", _T_LAW
    ),
    Mutant(
        "moments: a replaced row is one point of the simplex",
        _MOMENTS,
        "return reach.groups * (2 if reach.replaced else 1) * (reach.rows",
        "return reach.groups * (reach.rows",
        _T_LAW,
    ),
    Mutant(
        "moments: products of a replaced row as of one that comes",
        _MOMENTS,
        "return 2 * _full(wanted) * step**2",
        "return numbers * step**2",
        _T_LAW,
    ),
    Mutant("moments: one product moves", _MOMENTS, "reach.groups * numbers * (", "reach.groups * (", _T_LAW),
    Mutant(
        "moments: the cube is drawn for one number",
        _MOMENTS,
        "cube_noise(len(self.wanted), self.rate)",
        "cube_noise(1, self.rate) * len(self.wanted)",
        _T_LAW,
    ),
    Mutant(
        "moments: all rows of a unit count", _ROWS, "WHEN n > {most} THEN {s} * {most} // n", "WHEN FALSE THEN 0", _T
    ),
    Mutant(
        "moments: all groups of a unit count",
        _ROWS,
        "return bounded if len(self.groups) <= table.max_groups else",
        "return bounded if len(self.groups) >= 0 else",
        _T,
    ),
    Mutant(
        "moments: places are not clamped",
        _ROWS,
        'u = f"system.main.least(system.main.greatest({place}, 0e0), 1e0)"',
        'u = f"CAST({place} AS DOUBLE)"',
        _T_LAW,
    ),
    Mutant("moments: only groups that are there", _ROWS, "for group in self.groups]", "for group in found]", _T),
    Mutant(
        "moments: intervals as if noise were half",
        _BARS,
        "statistic(moments - draws)",
        "statistic(moments - draws / 2)",
        _T_BARS,
    ),
    Mutant(
        "moments: draws without a value are left out",
        _BARS,
        "np.where(np.isnan(found), math.inf, found)",
        "found",
        _T_BARS,
    ),
    Mutant(
        "moments: an interval of the most likely half",
        _BARS,
        "beyond = len(draws), (1 - level) / 2",
        "beyond = len(draws), 0.25",
        _T_BARS,
    ),
    Mutant("moments: covariances over n", _PAIRS, "/ (count - 1)", "/ count", _T),
    Mutant("moments: the intercept is shrunk too", _LINES, "slopes @ middle[:-1]", "slopes @ middle[1:]", _T),
    Mutant(
        "moments: the columns are not of their identity",
        _TASK,
        "[show(a) for a in self.rows.arguments]]",
        "[]]",
        _T_IDENTITIES,
    ),
    Mutant(
        "moments: which of them is not of their identity", _TASK, "[list(p) for p in self.wanted]", "[]", _T_IDENTITIES
    ),
    Mutant(
        "moments: delta is not of their identity",
        _TASK,
        "self.delta_atto, self.neighbours.value]",
        "self.neighbours.value]",
        _T_IDENTITIES,
    ),
)

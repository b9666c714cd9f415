"""Faults in moments of pairs of columns: a unit changes more than is noised, intervals too short, two questions one."""

from __future__ import annotations

from tests.mutants.mutant import Mutant, losses

_MOMENTS, _ROWS = "duckdp/mechanisms/second_moments.py", "duckdp/compiler/moment_rows.py"
_TASK, _BARS = "duckdp/compiler/pair_moments.py", "duckdp/core/momentbars.py"
_PAIRS, _LINES = "duckdp/compiler/pair_statistics.py", "duckdp/functions/regressions.py"
_BINS, _T_BINS = "duckdp/compiler/bin_counts.py", ("tests/test_distributions.py",)
_STEPS, _T_STEPS = "duckdp/compiler/logistic_steps.py", ("tests/test_logistic.py",)
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
        "return bounded if self.count <= table.max_groups else",
        "return bounded if self.count >= 0 else",
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
    Mutant("bins: a replaced row moves once", _BINS, "l1=2 * step", "l1=step", _T_BINS),
    Mutant("bins: groups share no charge", _BINS, "l1=groups * rows", "l1=rows", _T_BINS),
    Mutant("bins: a unit is one row", _BINS, "else table.max_rows * step", "else step", _T_BINS),
    Mutant("bins: all rows of a unit count", _BINS, "system.main.greatest(w, {most})", "{most}", _T_BINS),
    Mutant("bins: all groups of a unit count", _BINS, "WHERE place <= {table.max_groups}", "WHERE place > 0", _T_BINS),
    Mutant(
        "bins: levels share no charge",
        _BINS,
        "levels = [level] * len(self.sizes)",
        "levels = [level]",
        losses("bins of units", "bins of units, levels", "bins of rows, levels", "bins of rows, replaced"),
    ),
    Mutant(
        "bins: only those that are there",
        _BINS,
        "np.zeros((self.count, self.bins.count), dtype=object)",
        "np.zeros((self.count, 1), dtype=object)",
        ("tests/privacy/test_draws.py", *_T_BINS),
    ),
    Mutant("bins: rows at an edge are below it", _BINS, "WHEN x >= {high} AND", "WHEN x > {high} AND", _T_BINS),
    Mutant("bins: edges are not of their identity", _BINS, "str(bins.width), bins.count", "bins.count", _T_IDENTITIES),
    Mutant(
        "bins: levels are not of their identity",
        _BINS,
        "bins.count, self.sizes, *terms",
        "bins.count, *terms",
        _T_IDENTITIES,
    ),
    Mutant(
        "bands: as if each end were alone",
        "duckdp/core/cdfbars.py",
        "largest = np.max(np.abs(other - shares) / sizes_, axis=1)",
        "largest = np.abs(other - shares)[:, 0] / sizes_[0] / 2",
        ("tests/core/test_nestedbins.py",),
    ),
    Mutant(
        "counts of units: each row is a unit",
        _TASK,
        "rows=table.max_rows if keyed and self.rows.most is None else 1",
        "rows=1",
        _T,
    ),
    Mutant(
        "logistic: every step for the whole epsilon",
        _STEPS,
        "share = int(SHARES[stage] * self.epsilon_nano)",
        "share = int(self.epsilon_nano)",
        _T_STEPS,
    ),
    Mutant(
        "logistic: a replaced row moves a sum once",
        _STEPS,
        "rows * (2 if self.neighbours is Neighbours.REPLACE else 1)",
        "rows",
        _T_STEPS,
    ),
    Mutant(
        "logistic: a unit is one row",
        _STEPS,
        "rows = 1 if self.table.unit_key is None else self.table.max_rows",
        "rows = 1",
        _T_STEPS,
    ),
    Mutant(
        "logistic: all rows of a unit count",
        _STEPS,
        "WHEN n > {most} THEN s{j} * {most} // n",
        "WHEN FALSE THEN 0",
        _T_STEPS,
    ),
    Mutant(
        "logistic: one number's noise for all",
        _STEPS,
        "zip(values, cube_noise(len(values), rate), strict=True)",
        "zip(values, cube_noise(1, rate) * len(values), strict=True)",
        (*_T_STEPS, *losses("logistic, of units", "logistic, of rows, replaced")),
    ),
    Mutant(
        "logistic: steps follow from exact sums",
        _STEPS,
        "return [value + z for value, z in",
        "return [value for value, z in",
        ("tests/privacy/test_noise_alone.py", *losses("logistic, of units")),
    ),
    Mutant(
        "logistic: the target is not of its identity",
        _STEPS,
        "[show(f) for f in self.features], show(self.target)]",
        "[show(f) for f in self.features]]",
        _T_IDENTITIES,
    ),
    Mutant(
        "logistic: the ridge is not of its identity",
        _STEPS,
        "*rows, repr(self.ridge), self.epsilon_nano",
        "*rows, self.epsilon_nano",
        _T_IDENTITIES,
    ),
)

"""Faults in noise by smooth sensitivity: its laws, bounds on its scale, groups, spanning trees."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

_NOISE, _BOUND, _TREE = (f"duckdp/mechanisms/{n}.py" for n in ("admissible_noise", "scale_bound", "spanning_tree"))
_TASK, _EDGES, _QUANTILE = (
    "duckdp/compiler/smooth_quantiles.py",
    "duckdp/compiler/edges.py",
    "duckdp/mechanisms/smooth_sensitivity.py",
)
_T_NOISE, _T_TREE = ("tests/mechanisms/test_admissible_noise.py",), ("tests/mechanisms/test_spanning_tree.py",)
_T_TASK, _T_EDGES = ("tests/test_median_smooth.py",), ("tests/test_graphs.py",)
_T_VARIATES, _T_IDENTITIES = ("tests/core/test_variates.py",), ("tests/privacy/test_identities.py",)

# fmt: off
SMOOTH: tuple[Mutant, ...] = (
    Mutant("student: dilation costs as the shift alone", _NOISE, "rest = epsilon - beta * (degrees - 1) / 2", "rest = epsilon", _T_NOISE),
    Mutant("student4: drawn as student2", _NOISE, '"student4": lambda: standard_student4(),', '"student4": lambda: standard_student2(),', _T_NOISE),
    Mutant("student4: another root", "duckdp/core/variates.py", "n * (3 * d - n) ** 2 << 2 * bits <= wanted * d**3", "n * (3 * d - n) ** 2 << 2 * bits <= wanted * d**3 >> 1", _T_VARIATES),
    Mutant("student4: a bound of 0", _NOISE, '"student4": 2.0**-40,', '"student4": 2.0**-160,', _T_NOISE),
    Mutant("bound: half of the steps", _BOUND, "math.ceil(self.grid * self.noise.beta) + 1)", "math.ceil(self.grid * self.noise.beta / 2) + 1)", _T_NOISE),
    Mutant("bound: without noise", _BOUND, "return exact + laplace_noise(1, self.scale)[0]", "return exact", _T_NOISE),
    Mutant("bound: the factor of a known scale", _BOUND, "self.scale / self.grid, 1 / self.grid, _FINE)", "0.0, 1 / self.grid, _FINE)", _T_NOISE),
    Mutant("smooth groups: epsilon whole in each", _TASK, "each, delta = Fraction(epsilon_nano, NANO * parts), delta_atto // parts", "each, delta = Fraction(epsilon_nano, NANO), delta_atto // parts", _T_TASK),
    Mutant("smooth groups: delta whole in each", _TASK, "each, delta = Fraction(epsilon_nano, NANO * parts), delta_atto // parts", "each, delta = Fraction(epsilon_nano, NANO * parts), delta_atto", _T_TASK),
    Mutant("smooth groups: replaced units lose half", _TASK, "(2 if neighbours is Neighbours.REPLACE else 1)", "1", _T_TASK),
    Mutant("smooth groups: a unit is one row", _TASK, "max_rows=rows.unit,", "max_rows=1,", _T_TASK),
    Mutant("smooth groups: the bound is free", _TASK, "noise = bound.noise\n", "noise = choose(each, growth)\n", _T_TASK),
    Mutant("smooth groups: groups are not of its identity", _TASK, "[show(k.expr) for k in rows.keys]]", "[]]", _T_IDENTITIES),
    Mutant("smooth: windows of the unit less", _QUANTILE, "w = (i + 1) * u\n", "w = i * u\n", _T_TASK),
    Mutant("smooth: nothing beyond the window in numpy", _QUANTILE, "        width[-1] = top\n", "        width[-1] = 0\n", _T_TASK),
    Mutant("tree: removals alone", _TREE, "return np.maximum(heaviest[:-1], spread[1:])", "return spread[1:]", _T_TREE),
    Mutant("tree: additions alone", _TREE, "return np.maximum(heaviest[:-1], spread[1:])", "return heaviest[:-1]", _T_TREE),
    Mutant("tree: a forest fewer", _TREE, "np.array(heaviest[1:] + [self.top]", "np.array(heaviest[:-1] + [self.top]", _T_TREE),
    Mutant("tree: forests that do not span", _TREE, "if len(f.weight) == spans else self.top", "if len(f.weight) else self.top", _T_TREE),
    Mutant("tree: a unit is one row", _TREE, "self.noise.decay * np.arange(len(terms))", "self.noise.decay * self.unit * np.arange(len(terms))", _T_TREE),
    Mutant("tree: parallel rows add up", _TREE, "        own = left[np.sort(lightest)]\n", "        own = left\n", _T_TREE),
    Mutant("tree: parts cost nothing", _TREE, "+ (self.vertices - 1 - len(forests[0].weight)) * self.top", "", _T_TREE),
    Mutant("edges: all of a unit's rows", _EDGES, "salt, self.tree.unit)", "salt, 10**6)", _T_EDGES),
    Mutant("edges: loops count", _EDGES, " AND a.id <> b.id", "", _T_EDGES),
    Mutant("edges: the way is not of its identity", _EDGES, "self.epsilon_nano, self.steps, self.public, self.intervals]", "self.epsilon_nano, self.steps]", _T_IDENTITIES),
)

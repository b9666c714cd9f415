"""Faults in several quantiles at once: more is lost than is charged, or what is read is not what the proof says."""

from __future__ import annotations

from tests.mutants.mutant import Mutant, losses

_MECHANISM, _TASK, _ROWS = (
    "duckdp/mechanisms/exponential_quantiles.py",
    "duckdp/compiler/quantile_levels.py",
    "duckdp/compiler/order_rows.py",
)
_STATEMENTS = "duckdp/compiler/order_statements.py"
_INTERVALS = "duckdp/mechanisms/quantile_intervals.py"
_T, _T_LAW = ("tests/test_quantiles.py",), ("tests/mechanisms/test_quantiles.py",)
_T_MEASURE = ("tests/mechanisms/test_cell_measure.py",)
_TREE, _TREE_TASK = "duckdp/mechanisms/tree_quantiles.py", "duckdp/compiler/quantile_tree.py"
_T_TREE = ("tests/mechanisms/test_tree_quantiles.py",)
_STEPS, _STEP_TASK = "duckdp/mechanisms/candidate_quantiles.py", "duckdp/compiler/quantile_steps.py"
_T_STEPS, _T_STEP_TASK = ("tests/mechanisms/test_candidate_quantiles.py",), ("tests/test_step_quantiles.py",)
_T_IDENTITIES = ("tests/privacy/test_identities.py",)

# fmt: off
QUANTILES: tuple[Mutant, ...] = (
    Mutant("quantiles: every aim at the median's rate", _MECHANISM, "(2 * max(self.a, self.b - self.a) * self.unit)", "(self.b * self.unit)", _T_LAW),
    Mutant("quantiles: one side's change of a weight", _MECHANISM, "(2 * max(self.a, self.b - self.a) * self.unit)", "(max(self.a, self.b - self.a) * self.unit)", _T_LAW),
    Mutant("quantiles: how deep a rank is counts twice", _MECHANISM, "// self.weight(-distance)", "// self.weight(-2 * distance)", _T_LAW),
    Mutant("quantiles: rows of a unit do not count", _MECHANISM, "max(self.a, self.b - self.a) * self.unit)", "max(self.a, self.b - self.a))", _T_LAW),
    Mutant("quantiles: every level for the whole epsilon", _TASK, "int(total * r / sum(roots) * (1 - 1e-12))", "int(total * (1 - 1e-12))", _T),
    Mutant("quantiles: replaced units lose half", _TASK, "(2 if self.neighbours is Neighbours.REPLACE else 1)", "1", _T),
    Mutant("quantiles: groups of a unit do not count", _TASK, "return self.rows.shared * (", "return (", _T),
    Mutant("quantiles: parts begin before their cut", _STATEMENTS, "(rows - remainder + step - 1) // step", "(rows - remainder + step) // step", _T),
    Mutant("quantiles: a block is counted among those above", _ROWS, "within = sorted({cut >> low for cut in cuts if cut & ((1 << low) - 1)})", "within = list[int]()", _T),
    Mutant("quantiles: rows without a value are the least", _ROWS, "WHEN {raw} <= 0 THEN 0 ELSE {raw} END)", "WHEN {raw} > 0 THEN {raw} ELSE 0 END)", _T),
    Mutant("quantiles: copies of another release", "duckdp/vault/shared_reads.py", "if self._made[place : place + 1] != [kept]:", "if len(self._made) <= place:", _T),
    Mutant("quantiles: all of a unit's rows", _ROWS, "print_chosen(each, ['g', 'x'], salt, self.unit)", "print_chosen(each, ['g', 'x'], salt, 10**6)", _T),
    Mutant("quantiles: all of a unit's groups", _ROWS, "WHERE r.place <= {self.shared})", "WHERE r.place > 0)", _T),
    Mutant("quantiles: groups are not of its identity", _TASK, "[show(k.expr) for k in rows.keys]]", "[]]", _T_IDENTITIES),
    Mutant("quantiles: which ones is not of its identity", _TASK, "asked = [[str(q) for q in self.quantiles], ", "asked = [len(self.quantiles), ", _T_IDENTITIES),
    Mutant("quantiles: the measure is not told of", _TASK, '*(["round"] if self.grid.measure.levels else [])', "*[]", _T),
    Mutant("quantiles: cells at a level's end count twice", "duckdp/mechanisms/cell_measure.py", "int((self.lower - width / 2) * of)", "int(self.lower * of)", _T_MEASURE),
    Mutant("quantiles: draws by another measure than weights", _MECHANISM, "return start + amount if measure is None else", "return start + amount if measure is not None else", _T_MEASURE),
    Mutant("tree: noise for one level", _TREE, "laplace_scale(self.epsilon, self.shape[1] * self.l1)", "laplace_scale(self.epsilon, self.l1)", _T_TREE),
    Mutant("tree: groups of a unit do not count", _TREE_TASK, "self.rows.unit * self.rows.shared * replaced", "self.rows.unit * replaced", losses("counted quantiles, in groups", "counted quantiles, replaced")),
    Mutant("tree: replaced units lose half", _TREE_TASK, "self.rows.unit * self.rows.shared * replaced", "self.rows.unit * self.rows.shared", losses("counted quantiles, in groups", "counted quantiles, replaced")),
    Mutant("tree: a node is passed for a tenth of the margin", _TREE, "beyond[i] > margin(", "beyond[i] > 0.1 * margin(", _T_TREE),
    Mutant("tree: a way ends a child too early", _TREE, "return i if upwards else i + 1", "return i", _T_TREE),
    Mutant("tree: noise is drawn anew for who looks again", _TREE, "self._known[level, node] = known", "self._known[node, level] = known", _T_TREE),
    Mutant("tree: draws follow from the ways", _TREE, "laplace_noise(self.draws(len(shares)), self.scale)", "laplace_noise(self.draws(len(shares)) + (len(counts) > 1), self.scale)", _T_TREE),
    Mutant("tree: rows without a value are the least", _TREE_TASK, "if leaf is not None and 0 <= group", "leaf = leaf or 0\n            if 0 <= group", _T),
    Mutant("candidates: every quantile at the median's rate", _STEPS, "return self.unit * max(a, b - a)", "return self.unit * -(-b // 2)", _T_STEPS),
    Mutant("candidates: rows of a unit do not count", _STEPS, "return self.unit * max(a, b - a)", "return max(a, b - a)", _T_STEPS),
    Mutant("candidates: scores that move one way", _STEPS, "epsilon=self.epsilon, linf=self.linf)", "epsilon=self.epsilon, linf=self.linf, monotone=True)", _T_STEPS),
    Mutant("candidates: replaced units lose half", _STEP_TASK, "self.rows.shared * (2 if self.neighbours is Neighbours.REPLACE else 1)", "self.rows.shared", _T_STEP_TASK),
    Mutant("candidates: groups of a unit do not count", _STEP_TASK, "self.rows.shared * (2 if", "(2 if", _T_STEP_TASK),
    Mutant("candidates: the step is not of its identity", _STEP_TASK, "keys, str(rows.step)]", "keys]", _T_IDENTITIES),
    Mutant("candidates: rows without a value are the least", _STEP_TASK, "if place is not None and 0 <= group", "place = place or 0\n            if 0 <= group", _T_STEP_TASK),
    Mutant("candidates: what was drawn before is paid for again", "duckdp/compiler/quantile_methods.py", "Choice(plan=flip, older=(drawn,), why", "Choice(plan=flip, why", _T_STEP_TASK),
    Mutant("candidates: round numbers are flipped as others are", "duckdp/compiler/quantile_methods.py", "return few and not ValueGrid(", "return few or not ValueGrid(", _T_STEP_TASK),
    Mutant("histogram: intervals end at the nearest whole number", "duckdp/functions/distributions.py", "high=math.ceil(noisy + (steps", "high=math.floor(noisy + (steps", ("tests/test_distributions.py",)),
    Mutant("intervals: more for counts than is left", _TASK, "return Fraction(self.epsilon_nano // 4, NANO)", "return Fraction(self.epsilon_nano // 2, NANO)", _T),
    Mutant("intervals: two draws of a part for one", _INTERVALS, "return 1 if quantiles == 1 else 2", "return 1", _T),
    Mutant("intervals: rows of a unit count once", _TASK, "laplace_scale(self._quarter, self.rows.unit)", "laplace_scale(self._quarter, 1)", _T),
    Mutant("intervals: levels for all of epsilon", _TASK, "self.epsilon_nano // 2 if self.intervals else", "self.epsilon_nano if self.intervals else", _T),
    Mutant("intervals: margins of one bin's noise", _INTERVALS, "below * moments(1 - share) + (bins - below) * moments(share)", "moments(share)", _T),
)

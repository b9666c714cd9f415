"""Faults in multiplicative weights: more is lost than is charged, or an answer is not what it says."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

_WEIGHTS, _STREAM = "duckdp/mechanisms/multiplicative_weights.py", "duckdp/compiler/weighted_stream.py"
_T, _T_PMW = ("tests/mechanisms/test_multiplicative_weights.py",), ("tests/test_pmw.py",)
_UNITS, _T_SUMS = "duckdp/compiler/unit_counts.py", ("tests/test_pmw_sums.py",)
_T_IDENTITIES = ("tests/privacy/test_identities.py",)

# fmt: off
WEIGHTS: tuple[Mutant, ...] = (
    Mutant("weights: comparisons as of counts that move one way", _WEIGHTS, "monotone=False, valued=True)", "monotone=True, valued=True)", _T),
    Mutant("weights: the comparisons spend all", _WEIGHTS, "rest = self.epsilon_nano - self.epsilon_nano // _TOTAL", "rest = self.epsilon_nano", _T),
    Mutant("weights: the total spends all", _WEIGHTS, "laplace_scale(Fraction(self.epsilon_nano // _TOTAL, NANO), 1)", "laplace_scale(Fraction(self.epsilon_nano, NANO), 1)", _T),
    Mutant("weights: an exact total", _WEIGHTS, "count + laplace_noise(1, self._total_scale)[0])", "count)", ("tests/privacy/test_noise_alone.py",)),
    Mutant("weights: a miss is answered exactly", _WEIGHTS, "return Reply(value=guess, measured=False)", "return Reply(value=count, measured=False)", (*_T, *_T_PMW)),
    Mutant("weights: a hit is answered exactly", _WEIGHTS, "return Reply(value=above.value, measured=True)", "return Reply(value=count, measured=True)", ("tests/privacy/test_noise_alone.py", *_T)),
    Mutant("weights: below is not looked at", _WEIGHTS, "if below.value is not None:", "if False:", _T),
    Mutant("weights: the sign of below", _WEIGHTS, "Reply(value=-below.value", "Reply(value=below.value", _T),
    Mutant("weights: the interval forgets the threshold's noise", _WEIGHTS, "return self.off + self.vector.miss_error() + 1", "return self.off // 2", _T),
    Mutant("weights: a share of nothing", _WEIGHTS, "share = min(max(share, least), 1 - least)", "share = min(max(share, 0.0), 1.0)", _T),
    Mutant("weighted stream: the threshold is drawn anew", _STREAM, "int(json.loads(past.secrets[0]))", "self.weights.begin()", _T_PMW),
    Mutant("weighted stream: hits of before are forgotten", _STREAM, "left = self.hits - len(standing.measured) - found.measured", "left = self.hits - found.measured", _T_PMW),
    Mutant("steps: a shorter list knows what came later", "duckdp/core/steps.py", "if place < self._length else None", "if place < len(self._shared.steps) else None", ("tests/test_interactive_growth.py",)),
    Mutant("steps: who went on otherwise is overwritten", "duckdp/core/steps.py", "            if there != more[: len(there)]:\n", "            if False:\n", ("tests/test_interactive_growth.py",)),
    Mutant("steps: a later list's past is an earlier one's", "duckdp/core/steps.py", "        if known > len(outputs):", "        if False:", ("tests/test_interactive_growth.py",)),
    Mutant("weighted stream: it never ends", _STREAM, "last=left == 0)", "last=False)", _T_PMW),
    Mutant("weighted stream: handles are one", _STREAM, "self.neighbours.value, self.opened]", "self.neighbours.value]", (*_T_IDENTITIES, *_T_PMW)),
    Mutant("weighted stream: hits are not of its identity", _STREAM, "terms = [self.threshold, self.hits, self.epsilon_nano", "terms = [self.threshold, self.epsilon_nano", _T_IDENTITIES),
    Mutant("weighted stream: columns are not of its identity", _STREAM, '["weighted stream", dump_table(self.table), keys, *terms]', '["weighted stream", dump_table(self.table), *terms]', _T_IDENTITIES),
    Mutant("weighted stream: a predicate of other columns", _STREAM, "    if other:\n", "    if False:\n", _T_PMW),
    Mutant("pmw sums: values are not cut", _UNITS, "system.main.least(system.main.greatest({print_placed(value)}, 0e0), {number(GRID)})", "{print_placed(value)}", _T_SUMS),
    Mutant("pmw sums: values below 0 count", _UNITS, "system.main.greatest({print_placed(value)}, 0e0)", "{print_placed(value)}", _T_SUMS),
    Mutant("pmw sums: what is compared has parts of units", _UNITS, "(2 * int(exact or 0) + GRID) // (2 * GRID)", "(2 * int(exact or 0) + GRID) / (2 * GRID)", _T_SUMS),
    Mutant("pmw sums: half units for whole ones", _UNITS, "(2 * int(exact or 0) + GRID) // (2 * GRID)", "(2 * int(exact or 0) + GRID) // GRID", _T_SUMS),
    Mutant("pmw sums: a number above 1 is taken", _STREAM, "if not (low >= 0 and high <= 1):", "if not low >= 0:", _T_SUMS),
    Mutant("pmw sums: a number below 0 is taken", _STREAM, "if not (low >= 0 and high <= 1):", "if not high <= 1:", _T_SUMS),
    Mutant("pmw sums: the interval forgets the rounding", "duckdp/functions/weights.py", "width = rounding + (", "width = (", _T_SUMS),
    Mutant("pmw sums: a sum is known as a count", _STREAM, 'else "sum"', 'else "count"', _T_SUMS),
    Mutant("pmw sums: the weights meet another share", _WEIGHTS, "inner = min(max((share - float(levels[0])) / width, least), 1 - least)", "inner = min(max(share, least), 1 - least)", _T),
)

"""Faults in sparse vectors: more is lost than is charged, a draw is drawn again, or two releases are one."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

_VECTOR, _ABOVE = "duckdp/mechanisms/sparse_vector.py", "duckdp/compiler/above_threshold.py"
_UNITS, _DESK = "duckdp/compiler/unit_counts.py", "duckdp/desk/interactive.py"
_FUNCTIONS = "duckdp/functions/thresholds.py"
_T_VECTOR, _T = ("tests/mechanisms/test_sparse_vector.py",), ("tests/test_sparse.py",)
_T_IDENTITIES, _T_DRAWS = ("tests/privacy/test_identities.py",), ("tests/privacy/test_draws.py",)

# fmt: off
SPARSE: tuple[Mutant, ...] = (
    Mutant("sparse vector: hits for one hit's noise", _VECTOR, "return self.hits if self.monotone else 2 * self.hits", "return 1 if self.monotone else 2", _T_VECTOR),
    Mutant("sparse vector: counts that move both ways, as if one way", _VECTOR, "return self.hits if self.monotone else 2 * self.hits", "return self.hits", _T_VECTOR),
    Mutant("sparse vector: the threshold spends all", _VECTOR, "_first(self) -> Fraction:\n        return Fraction(self.shares[0], NANO)", "_first(self) -> Fraction:\n        return Fraction(self.epsilon_nano, NANO)", _T_VECTOR),
    Mutant("sparse vector: questions spend all", _VECTOR, "return Fraction(self.shares[1], NANO * self._shifts)", "return Fraction(self.epsilon_nano, NANO * self._shifts)", _T_VECTOR),
    Mutant("sparse vector: values spend all, each", _VECTOR, "Fraction(self.shares[2], NANO * self.hits)", "Fraction(self.shares[2], NANO)", _T_VECTOR),
    Mutant("sparse vector: values are not paid for", _VECTOR, "rest = self.epsilon_nano - values", "rest = self.epsilon_nano", _T_VECTOR),
    Mutant("sparse vector: a threshold for each of a list", _VECTOR, "above = self._reaches(count, threshold, shift, noise)", "above = self._reaches(count, threshold, self.begin(), noise)", _T_VECTOR),
    Mutant("sparse vector: a threshold for each question", _VECTOR, "self._reaches(count, threshold, shift, geometric(self._rate))", "self._reaches(count, threshold, self.begin(), geometric(self._rate))", _T_VECTOR),
    Mutant("sparse vector: questions without noise", _VECTOR, "return count + noise >= threshold", "return count >= threshold", _T_VECTOR),
    Mutant("sparse vector: a list goes on after the last hit", _VECTOR, "            if hits == self.hits:\n                break\n", "", _T_VECTOR),
    Mutant("sparse vector: a miss has a value too", _VECTOR, "value=count + value if above and self.valued else None)", "value=count + value if self.valued else None)", _T_VECTOR),
    Mutant("sparse vector: a value is the one that was compared", _VECTOR, "        value = laplace_noise(1, self._scale)[0] if self.valued else 0\n", "        value = 0\n", _T_VECTOR),
    Mutant("sparse vector: a value is drawn for hits alone", _VECTOR, "value=count + value if above and self.valued else None)", "value=count + laplace_noise(1, self._scale)[0] if above and self.valued else None)", (*_T_VECTOR, *_T_DRAWS)),
    Mutant("units: rows count", _UNITS, 'f"system.main.max({h})"', 'f"system.main.sum({h})"', _T),
    Mutant("above threshold: replaced units move one way", _ABOVE, "monotone=self.neighbours is Neighbours.ADD_REMOVE", "monotone=True", _T),
    Mutant("above threshold: hits are not of its identity", _ABOVE, "given = [self.threshold, self.hits, self.valued", "given = [self.threshold, self.valued", _T_IDENTITIES),
    Mutant("above threshold: the threshold is not of its identity", _ABOVE, "given = [self.threshold, self.hits, self.valued", "given = [self.hits, self.valued", _T_IDENTITIES),
    Mutant("above threshold: predicates are not of its identity", _ABOVE, "[show(p) for p in self.predicates]])", "[]])", _T_IDENTITIES),
    Mutant("sparse stream: handles are one", _ABOVE, "*self._terms(), self.opened])", "*self._terms()])", (*_T_IDENTITIES, *_T)),
    Mutant("sparse stream: it never ends", _ABOVE, "last=left == 0)", "last=False)", _T),
    Mutant("sparse stream: the threshold is drawn anew", _ABOVE, 'int(json.loads(past.secrets[0]))', "self.vector.begin()", _T),
    Mutant("sparse stream: a question at another threshold is the same", _ABOVE, "json.dumps([show(predicate), wanted])", "json.dumps([show(predicate)])", _T),
    Mutant("sparse stream: hits of before are forgotten", _ABOVE, '(json.loads(past.outputs[-1])["left"] if past.outputs else self.hits) - look.above', "self.hits - look.above", _T),
    Mutant("handle: anybody's", "duckdp/desk/lookups.py", "if found is None or found.analyst != self.analyst:", "if found is None:", _T),
    Mutant("handle: of any charge", _FUNCTIONS, 'if charge.mechanism != MECHANISM or "opened" not in given:', "if False:", _T),
    Mutant("handle: of other declarations", _DESK, "if request.key != charge.key:", "if False:", _T),
    Mutant("handle: of older data", _DESK, "if data.require_current().data_version != charge.data_version:\n        raise _outdated()\n    request", "request", _T),
)

"""Faults in choices of values and of predicates: more is lost than is charged, or two questions are one."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

_TOP, _CHOICE = "duckdp/mechanisms/top_k.py", "duckdp/compiler/choice.py"
_PERMUTE, _EXPONENTIAL = "duckdp/mechanisms/noisy_maximum.py", "duckdp/mechanisms/exponential.py"
_T, _T_TOP = ("tests/test_choices.py",), ("tests/mechanisms/test_top_k.py",)
_HITTERS, _HITTERS_TASK = "duckdp/mechanisms/heavy_hitters.py", "duckdp/compiler/common_keys.py"
_T_HITTERS = ("tests/mechanisms/test_heavy_hitters.py",)
_T_IDENTITIES = ("tests/privacy/test_identities.py",)

# fmt: off
CHOICES: tuple[Mutant, ...] = (
    Mutant("top k: every pick for the whole epsilon", _TOP, "return Fraction(self.epsilon_nano // self.picks, NANO)", "return Fraction(self.epsilon_nano, NANO)", _T_TOP),
    Mutant("top k: every pick for the whole rho", _TOP, "math.isqrt(8 * (rho // self.picks) * PICO)", "math.isqrt(8 * rho * PICO)", _T_TOP),
    Mutant("top k: a pick of bounded range for a quarter of its rho", _TOP, "math.isqrt(8 * (rho", "math.isqrt(32 * (rho", _T_TOP),
    Mutant("top k: delta is not charged", _TOP, "delta_atto=self.delta_atto, rho_pico=self._rho", "delta_atto=0, rho_pico=self._rho", _T_TOP),
    Mutant("top k: scores that move both ways, flipped", _TOP, "choose_best(exact, epsilon=self.share, linf=1, monotone=self.monotone)", "choose_best(exact, epsilon=self.share, linf=1, monotone=True)", _T_TOP),
    Mutant("top k: scores that move both ways, exponential", _TOP, "linf=1, monotone=self.monotone, seen=seen)", "linf=1, monotone=True, seen=seen)", _T_TOP),
    Mutant("permute and flip: monotone by default", _PERMUTE, "(linf if monotone else 2 * linf)", "linf", (*_T_TOP, "tests/synthetic/wide/test_wide_release.py")),
    Mutant("exponential: monotone by default", _EXPONENTIAL, "(linf if monotone else 2 * linf)", "linf", (*_T_TOP, "tests/synthetic/wide/test_wide_tree_private.py")),
    Mutant("choice: replaced units move one way", _CHOICE, '"monotone": self.neighbours is Neighbours.ADD_REMOVE', '"monotone": True', _T),
    Mutant("choice of values: rows count", _CHOICE, 'f"(SELECT DISTINCT {UNIT}', 'f"(SELECT {UNIT}', _T),
    Mutant("choice of predicates: rows count", "duckdp/compiler/unit_counts.py", 'f"system.main.max({h})"', 'f"system.main.sum({h})"', _T),
    Mutant("choice: only what is there can be chosen", _CHOICE, "[counts.get(codes, 0) for codes in product(*map(key_codes, self.keys))]", "list(counts.values())", ("tests/privacy/test_draws.py", *_T)),
    Mutant("choice: k is not of its identity", _CHOICE, "terms = [self.picks, self.epsilon_nano", "terms = [self.epsilon_nano", _T_IDENTITIES),
    Mutant("choice: values are not of its identity", _CHOICE, "[[show(k.expr), digest_domain(k.domain), repr(k.other)] for k in self.keys]", "[]", _T_IDENTITIES),
    Mutant("choice: predicates are not of its identity", _CHOICE, "[show(p) for p in self.predicates])", "[])", _T_IDENTITIES),
    Mutant("choice: domains are not of its identity", _CHOICE, "digest_domain(k.domain), repr(k.other)]", "repr(k.other)]", _T),
    Mutant("noisy counts: noise for one value of a unit", "duckdp/mechanisms/noisy_counts.py", "return self.groups * (1 if self.monotone else 2)", "return 1 if self.monotone else 2", ("tests/mechanisms/test_noisy_counts.py",)),
    Mutant("noisy counts: replaced units move one way", "duckdp/mechanisms/noisy_counts.py", "return self.groups * (1 if self.monotone else 2)", "return self.groups", ("tests/mechanisms/test_noisy_counts.py",)),
    Mutant("choice of values: units with many values are as others", _CHOICE, "isinstance(self.top, NoisyCounts) and self.groups < self.candidates", "False", _T),
    Mutant("top k: zCDP where it leaves a pick nothing", _TOP, "return rho if self._exponential_share(rho) > self._pure_share else 0", "return rho", _T),
    Mutant("hitters: nobody's score as if for one own key", _HITTERS, "math.log(self.picks * self.groups / left)", "math.log(1 / left)", _T_HITTERS),
    Mutant("hitters: replaced units have own keys on one side", _HITTERS, "left = (delta if self.monotone else delta // 2)", "left = delta", _T_HITTERS),
    Mutant("hitters: noise for one key of a unit", _HITTERS, "self.groups * (1 if self.monotone else 2)", "(1 if self.monotone else 2)", _T_HITTERS),
    Mutant("hitters: all of delta for Gaussian noise's threshold", _HITTERS, "delta = self.delta_atto if family == \"laplace\" else self.delta_atto // 2", "delta = self.delta_atto", _T_HITTERS),
    Mutant("hitters: all of delta for the conversion of Gaussian noise", _HITTERS, "return rho_for(self.epsilon_nano, self.delta_atto // 2)", "return rho_for(self.epsilon_nano, self.delta_atto)", _T_HITTERS),
    Mutant("hitters: the floor is not in the threshold", _HITTERS, "return self.floor + self._above", "return 1 + self._above", _T_HITTERS),
    Mutant("hitters: all keys of a unit", "duckdp/compiler/unit_counts.py", "WHERE place <= {groups})", "WHERE place > 0)", _T),
    Mutant("hitters: rows count", "duckdp/compiler/unit_counts.py", "(SELECT DISTINCT {UNIT}", "(SELECT {UNIT}", _T),
    Mutant("hitters: delta is not of its identity", _HITTERS_TASK, "terms = [self.picks, self.epsilon_nano, self.delta_atto,", "terms = [self.picks, self.epsilon_nano,", _T_IDENTITIES),
    Mutant("anchor: what was opened is moved, whatever has its name", "duckdp/ledger/anchor.py", "if opened is not None and not _is_named(name, opened):", "if False:", ("tests/test_ledger_anchors.py::test_an_anchor_that_is_exchanged_during_a_transaction",)),
)

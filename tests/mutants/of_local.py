"""Faults in randomized response: a report tells more than its epsilon, or its draws know the value."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

_RESPONSE, _ARRAYS = "duckdp/mechanisms/randomized_response.py", "duckdp/core/noise_arrays.py"
_REPORTS, _REGISTERED = "duckdp/local/reports.py", "duckdp/local/registered.py"
_T, _T_LOCAL = ("tests/mechanisms/test_randomized_response.py",), ("tests/test_local.py",)

# fmt: off
LOCAL: tuple[Mutant, ...] = (
    Mutant("randomized response: others half as often", _RESPONSE, "kept[~kept] = bernoullis_exp(self.epsilon, int((~kept).sum()))", "kept[~kept] = bernoullis_exp(self.epsilon + 1, int((~kept).sum()))", _T),
    Mutant("randomized response: others never", _RESPONSE, "kept[~kept] = bernoullis_exp(self.epsilon, int((~kept).sum()))", "pass", (*_T, *_T_LOCAL)),
    Mutant("randomized response: no shift", _RESPONSE, "(wanted + offsets) % self.values)", "wanted)", _T),
    Mutant("randomized response: what is outside is the first value", _RESPONSE, "np.where(wanted == OUTSIDE, anything, (wanted", "np.where(wanted == OUTSIDE, 0, (wanted", _T),
    Mutant("unary: members half as often", _RESPONSE, "kept[heads] = bernoullis_exp(self.epsilon, int(heads.sum()))", "kept[heads] = bernoullis_exp(self.epsilon + 1, int(heads.sum()))", _T),
    Mutant("unary: the own member always", _RESPONSE, "sets[own, wanted[own]] = coins[own]", "sets[own, wanted[own]] = True", _T),
    Mutant("unary: the own member as drawn", _RESPONSE, "        sets[own, wanted[own]] = coins[own]\n", "", _T),
    Mutant("randomized response: draws for known values alone", _RESPONSE, "coins = uniforms_below(2, len(wanted)) == 1", "coins = np.resize(uniforms_below(2, int((wanted != OUTSIDE).sum()) or 1) == 1, len(wanted))", _T),
    Mutant("estimate: q is forgotten", _RESPONSE, "value = (reported - reports * q) / (p - q)", "value = reported / p", (*_T, *_T_LOCAL)),
    Mutant("estimate: no half count", _RESPONSE, "self._end(reported - 0.5, reports, -1), self._end(reported + 0.5, reports, 1)", "self._end(reported, reports, -1), self._end(reported, reports, 1)", _T),
    Mutant("estimate: half the deviations", _RESPONSE, "_DEVIATIONS = 1.959963984540054", "_DEVIATIONS = 0.98", _T),
    Mutant("events of exp: the rest is forgotten", _ARRAYS, "found[going[_bernoullis_exp(numerators, rest.denominator)]] = True", "found[going] = True", _T),
    Mutant("events of exp: whole rates are one", _ARRAYS, "for _ in range(whole):  # a rate", "for _ in range(min(whole, 1)):  # a rate", _T),
    Mutant("dp_randomize: folded", _REGISTERED, 'make(name, function, given, kind, type="arrow", side_effects=True, null_handling="special")', 'make(name, function, given, kind, type="arrow", side_effects=False, null_handling="special")', _T_LOCAL),
    Mutant("dp_randomize: what is NULL is told", _REGISTERED, 'make(name, function, given, kind, type="arrow", side_effects=True, null_handling="special")', 'make(name, function, given, kind, type="arrow", side_effects=True)', _T_LOCAL),
    Mutant("domain: values that stand twice", _REPORTS, "if len(set(domain)) != len(domain):", "if False:", _T_LOCAL),
)

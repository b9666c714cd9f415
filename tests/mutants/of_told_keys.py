"""Faults in weights of units for keys without a domain: a unit moves more than is paid for, or its own keys show."""

from __future__ import annotations

from tests.mutants.mutant import SHARES, Mutant

_WEIGHTS, _MEASURE = "duckdp/mechanisms/key_weights.py", "duckdp/compiler/unit_weights.py"
_PLAN, _EMIT, _THRESHOLD = "duckdp/compiler/plan.py", "duckdp/compiler/emit.py", "duckdp/mechanisms/threshold.py"
_T, _T_SQL = ("tests/mechanisms/test_key_weights.py",), ("tests/compiler/test_unit_weights.py",)
_T_TOLD = ("tests/test_told_keys.py",)

# fmt: off
TOLD_KEYS: tuple[Mutant, ...] = (
    Mutant("key weights: not normalised", _WEIGHTS, "most = one * groups // keys if", "most = one * groups if", _T),
    Mutant("key weights: of another norm", _WEIGHTS, "else math.isqrt(one * one * groups // keys)", "else one * groups // keys", _T),
    Mutant("key weights: rounded up", _WEIGHTS, "math.isqrt(one * one * groups // keys)", "math.isqrt(one * one * groups // keys) + 1", _T),
    Mutant("key weights: the threshold of one own key", _WEIGHTS, "tau = one + _steps_beyond(noise, _log_share(delta_atto, groups))", "tau = one + _steps_beyond(noise, _log_share(delta_atto, 1))", _T),
    Mutant("key weights: each own key has all of delta", _WEIGHTS, "share = _log_share(delta_atto, keys)", "share = _log_share(delta_atto, 1)", _T),
    Mutant("key weights: as the formula, whatever the threshold", _WEIGHTS, "most if fits else min(most, tau - _steps_beyond(noise, share))", "most", _T),
    Mutant("key weights: any below the threshold fits", _WEIGHTS, "fits = tau > most and log_tail(noise, tau - most) <= share", "fits = tau > most", _T),
    Mutant("key weights: the threshold of somebody with none", _WEIGHTS, "tau = one + _steps_beyond(", "tau = 1 + _steps_beyond(", _T),
    Mutant("threshold: half of a Laplace tail's exponent", _THRESHOLD, "return -t / noise.scale - math.log1p", "return -2 * t / noise.scale - math.log1p", _T),
    Mutant("unit weights: noise of one group", _MEASURE, "claim = Sensitivity(l1=groups * one, l2_squared=groups * one * one,", "claim = Sensitivity(l1=one, l2_squared=one * one,", (SHARES,)),
    Mutant("unit weights: the whole delta for the keys", _MEASURE, "delta_atto=calibration.loss.delta_zcdp_atto)", "delta_atto=calibration.loss.delta_atto)", (SHARES,)),
    Mutant("unit weights: all that the noise costs again", _MEASURE, "calibration.shares[0], claim)", "sum(calibration.shares), claim)", (SHARES,)),
    Mutant("unit weights: sums leave 64 bits", _MEASURE, "math.log2(row_cap * groups + ", "math.log2(1 + ", _T_SQL),
    Mutant("unit weights: of units with one group", _MEASURE, "if groups == 1 or bits < _LEAST_BITS:", "if bits < _LEAST_BITS:", _T_SQL),
    Mutant("unit weights: nobody tells how many units there are", _PLAN, " or any(map(units.serves, asked)):", ":", _T_SQL),
    Mutant("unit weights: not in the question", _PLAN, '**({"weights": weights} if (weights := [m.levels for m in self.measures if m.levels]) else {})', "**{}", _T_SQL),
    Mutant("emit: the weight of one group fewer", _EMIT, "WHEN own <= {groups} THEN {weight}", "WHEN own <= {groups} + 1 THEN {weight}", _T_SQL),
    Mutant("emit: groups of all units are one's own", _EMIT, "system.main.count() OVER (PARTITION BY {UNIT}) AS own", "system.main.count() OVER () AS own", _T_SQL),
    Mutant("emit: rows are groups", _EMIT, "system.main.count() OVER (PARTITION BY {UNIT}) AS own", "system.main.sum(system.main.count()) OVER (PARTITION BY {UNIT}) AS own", _T_SQL),
    Mutant("desk: what was bought before is told as today's", "duckdp/desk/desk.py", "plan.once if done.earlier else plan", "plan", _T_TOLD),
    Mutant("several: what was bought before is told as today's", "duckdp/functions/over_answers.py", "plans = once if done.earlier else plans", "plans = list(plans)", _T_TOLD),
)

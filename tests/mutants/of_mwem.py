"""Faults in weights for workloads: more is lost than is charged, what is exact is told, two questions are one."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

_MWEM, _TASK = "duckdp/mechanisms/mwem.py", "duckdp/compiler/workload.py"
_T, _T_IDENTITIES = ("tests/mechanisms/test_mwem.py",), ("tests/privacy/test_identities.py",)
_T_ALONE, _T_USED = ("tests/privacy/test_noise_alone.py",), ("tests/test_mwem.py",)

MWEM: tuple[Mutant, ...] = (
    Mutant(
        "mwem: rounds spend all",
        _MWEM,
        "(self.epsilon_nano - self.epsilon_nano // _TOTAL) //",
        "self.epsilon_nano //",
        _T,
    ),
    Mutant("mwem: a choice is free", _MWEM, "// (2 * self.rounds)", "// self.rounds", _T),
    Mutant("mwem: rounds cost one", _MWEM, "+ self.rounds * (bounded", "+ (bounded", _T),
    Mutant(
        "mwem: a measured count is exact",
        _MWEM,
        "return place, counts[place] + laplace_noise(1, self.noise.scale)[0]",
        "return place, counts[place]",
        (*_T, *_T_ALONE),
    ),
    Mutant(
        "mwem: an exact total", _MWEM, "max(1, count + laplace_noise(1, scale)[0])", "max(1, count)", (*_T, *_T_ALONE)
    ),
    Mutant(
        "mwem: scores that move by more",
        _MWEM,
        "scores = [abs(count - guess) for",
        "scores = [(count - guess) ** 2 for",
        _T,
    ),
    Mutant("mwem: scores that move one way", _MWEM, "linf=1)\n", "linf=1, monotone=True)\n", _T),
    Mutant(
        "mwem: rounds are not of its identity",
        _TASK,
        "terms = [self.rounds, self.epsilon_nano",
        "terms = [self.epsilon_nano",
        _T_IDENTITIES,
    ),
    Mutant(
        "mwem: questions are not of its identity",
        _TASK,
        "keys, [show(q) for q in self.questions], *terms]",
        "keys, *terms]",
        _T_IDENTITIES,
    ),
    Mutant("mwem: a question twice", _TASK, "if i not in {place for place, _ in known}]", "if i >= 0]", _T_USED),
)

"""A sample of an interactive mechanism: above threshold, a sparse vector that tells which of many counts are large.

Each question is a count, and the answer "above" or "below": a noisy count against a noisy threshold. It ends when it
has said "above" so often as was paid for; "below" costs nothing, however often.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from duckdp.core import noise
from duckdp.core.accountant import pure_rho
from duckdp.core.reads import PrivateQuery, Read
from duckdp.core.steps import Past
from duckdp.core.task import Question, Step
from duckdp.core.types import NANO, Loss


@dataclass(frozen=True, kw_only=True)
class AboveThreshold:
    """Which counts are about a threshold or more.

    With R ~ Lap(1 / e1) drawn once and N_i ~ Lap(c / e2) drawn for each question, discrete Laplace noise on integers,
    question i is answered "above" if q_i(D) + N_i >= T + R, else "below"; it ends at the c-th "above".

    Privacy:      e1 + e2 = epsilon, pure, for ADD_REMOVE, e1 = e2 = epsilon / 2.
    Assumes:      each q_i counts rows of a table whose privacy unit is a row, so it moves by 0 or 1, all of them in the
                  same direction, between neighbours; T and c are public.
    Proof sketch: let D' have one row more than D, so q_i(D') - q_i(D) is 0 or 1. Fix a transcript and so the questions.
                  Given R = r its probability is a product: P(N < T + r - q_i) for each "below", P(N >= T + r - q_i) for
                  each "above". From D to D', map r to r + 1, whose mass is less by at most e^-e1: each "below" is no
                  less likely, as q_i grew by at most 1; each "above" is less likely by at most e^(-e2 / c), as its
                  bound grew by 1 or 0. From D' to D, keep r: each "below" is no less likely, as q_i is no larger; each
                  "above" less likely by at most e^(-e2 / c). There are at most c "above".
    Numerics:     counts, T and noise are integers; the scales are rounded up to what the sampler's own map admits.
    Source:       Dwork, Roth, "The algorithmic foundations of differential privacy", 2014, Theorem 3.23; Lyu, Su, Li,
                  "Understanding the sparse vector technique for differential privacy", VLDB 2017 (monotone queries).

    Attributes:
        name: tells releases apart.
        threshold: T, rows.
        hits: c, how often it says "above".
        epsilon_nano: of all questions together, in 1e-9; even.
    """

    name: str
    threshold: int
    hits: int
    epsilon_nano: int

    @property
    def canonical(self) -> str:
        """Identity of the release."""
        return json.dumps(["above", self.name, self.threshold, self.hits, self.epsilon_nano])

    @property
    def loss(self) -> Loss:
        """Of all questions together."""
        return Loss(epsilon_nano=self.epsilon_nano, rho_pico=pure_rho(self.epsilon_nano))

    @property
    def mechanism(self) -> str:
        """Its name."""
        return "above_threshold"

    @property
    def parameters(self) -> dict[str, Any]:
        """Public."""
        return {"threshold": self.threshold, "hits": self.hits}

    def begin(self) -> str:
        """The noise of the threshold."""
        return json.dumps(draw(self._half, 1))

    def question(self, query: PrivateQuery, canonical: str) -> Question:
        """Is the count of a query about the threshold or more?"""

        def step(read: Read, past: Past) -> Step:
            shift = json.loads(past.secrets[0])
            ((count,),) = read(query)
            above = int(count) + draw(self._half, self.hits) >= self.threshold + shift
            left = self.hits - past.outputs.count("above")
            return Step(output="above" if above else "below", last=above and left == 1)

        return Question(canonical=canonical, draw=step)

    @property
    def _half(self) -> Fraction:
        return Fraction(self.epsilon_nano, 2 * NANO)


def draw(epsilon: Fraction, l1: int) -> int:
    """Discrete Laplace noise of scale l1 / epsilon."""
    return noise.laplace_noise(1, noise.laplace_scale(epsilon, l1))[0]

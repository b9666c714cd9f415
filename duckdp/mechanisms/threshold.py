"""Which grouping keys may be shown when they have no public domain: a threshold on the noisy number of units.

Shows a key iff its noisy number of distinct units is at least tau = 1 + t.

Privacy:      (epsilon, delta) together with the noise of the count: a key that only one of two neighbouring data sets
              has, has there one unit, and is shown with probability P(1 + Z >= tau) = P(Z >= t) <= delta / groups.
Assumes:      a unit reaches at most ``groups`` keys (bounded in compiler/emit.py), counts 1 in each, and keys with no
              unit never appear. REPLACE: the argument holds in each direction for the keys only that side has.
Proof sketch: let E be the event that no key of the one-sided set is shown; P(not E) <= groups * delta / groups.
              On E both outputs are functions of the noisy vector over common keys: additive.py's guarantee. The other
              way, the side with more keys shows none of them with a chance of at least 1 - delta, whatever the rest.
              With P and P' the chances of a set of outputs by the noise over common keys, P <= e^epsilon P' + delta_0:
              to be bounded is P - e^epsilon (1 - delta) P'. Where e^epsilon P' <= P <= 1 it is at most delta_0 + delta,
              else at most P - (1 - delta) P <= delta. (REPLACE: one key on each side has the same chance on both.)
Numerics:     P(Z >= t) = p^t / (1 + p), p = exp(-1/scale), for discrete Laplace; at most exp(-t^2 / (2 scale^2)) for
              discrete Gaussian (subgaussian: Canonne, Kamath, Steinke 2020, Corollary 17). t is rounded up and one is
              added against rounding of the logarithms.
Source:       Korolova, Kenthapadi, Mishra, Ntoulas (WWW 2009); Wilson et al. (PoPETs 2020), section 3.
"""

from __future__ import annotations

import math

from duckdp.core.errorbars import Noise
from duckdp.core.types import ATTO


def threshold(noise: Noise, *, delta_atto: int, groups: int) -> int:
    """The smallest threshold at which a group of one unit stays secret, but with probability delta.

    Args:
        noise: of the number of units.
        delta_atto: delta for the keys, in 1e-18, > 0.
        groups: most keys a unit reaches.

    >>> threshold(Noise("laplace", 1.0), delta_atto=10**10, groups=1)
    21
    """
    log_share = math.log(delta_atto) - math.log(ATTO) - math.log(groups)
    if noise.family == "laplace":
        t = noise.scale * (-log_share - math.log1p(math.exp(-1 / noise.scale)))
    else:
        t = noise.scale * math.sqrt(-2 * log_share)
    return 1 + max(1, math.ceil(t)) + 1

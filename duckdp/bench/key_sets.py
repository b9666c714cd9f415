"""``python -m duckdp.bench.key_sets``: how many keys of no declared domain are told, by today's threshold or others.

A made-up long tail: 100,000 units, each with a number of keys of its own (a Pareto law of exponent 1.2, at most 1,000),
drawn from a million keys of which the i-th has a share of about 1 / i. Of each unit ``groups`` keys count.

threshold   today's: noise on the number of units of each key, shown from tau on; the noisy numbers are the counts
weighted    a unit adds 1 / sqrt(n) to each of its n keys; Gaussian noise of l2 sensitivity 1, a threshold over all n
policy      the same, but units come one after the other and add only what a key lacks (Gopi et al. 2020, l2 descent)
sips        weighted, in three rounds: keys that were told leave, and weigh no more (Swanberg et al. 2023)

Only today's gives counts. The others give keys alone, so for the same charge their counts need a part of it: "and
counts" gives half of rho to either. Noise here is NumPy's, of doubles, for a comparison only.

Sources: Gopi, Gulhane, Kulkarni, Shen, Shokouhi, Yekhanin, "Differentially private set union" (ICML 2020);
Swanberg, Desfontaines, Haney, "DP-SIPS" (PETS 2023).
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.stats import norm

from duckdp.bench.measure import Grid, machine, show_grid
from duckdp.core.accountant import rho_for
from duckdp.core.errorbars import Noise
from duckdp.core.types import ATTO, NANO, PICO
from duckdp.mechanisms.threshold import threshold

UNITS, KEYS, MOST = 100_000, 1_000_000, 1_000  # units and keys of the made-up table, and keys of one unit
DELTA = ATTO // 10**8  # 1e-8
ROUNDS = (1.0, 3.0, 9.0)  # shares of rho of the rounds of sips
SLACK = 5.0  # deviations above the threshold to which a policy fills keys
Array = Any


@dataclass(frozen=True)
class Pairs:
    """Units with their keys that count, each pair once: by unit, in random order of units."""

    unit: Array
    key: Array


def made_up(groups: int, rng: np.random.Generator) -> Pairs:
    """The table, at most so many keys of a unit."""
    many = np.minimum(MOST, np.floor(rng.pareto(1.2, UNITS) + 1)).astype(int)
    unit = np.repeat(np.arange(UNITS), many)
    key = np.floor(KEYS ** rng.random(unit.size)).astype(int)  # P(key <= i) = log i / log KEYS
    pairs = np.unique(np.stack([unit, key], axis=1), axis=0)
    pairs = pairs[rng.permutation(len(pairs))]
    pairs = pairs[np.argsort(pairs[:, 0], kind="stable")]
    starts = np.searchsorted(pairs[:, 0], np.arange(UNITS))
    place = np.arange(len(pairs)) - starts[pairs[:, 0]]
    kept = pairs[place < groups]
    return Pairs(unit=kept[:, 0], key=kept[:, 1])


def counted(pairs: Pairs, epsilon: float, groups: int, family: str, rng: np.random.Generator) -> int:
    """Keys that today's threshold tells."""
    counts = np.bincount(pairs.key)
    counts = counts[counts > 0]
    if family == "laplace":
        noise = Noise("laplace", groups / epsilon)
        tau = threshold(noise, delta_atto=DELTA, groups=groups)
        return int(np.sum(counts + np.round(rng.laplace(0, noise.scale, counts.size)) >= tau))
    rho = rho_for(round(epsilon * NANO), DELTA // 2) / PICO
    noise = Noise("gaussian", float(np.sqrt(groups / (2 * rho))))
    tau = threshold(noise, delta_atto=DELTA // 2, groups=groups)
    return int(np.sum(counts + np.round(rng.normal(0, noise.scale, counts.size)) >= tau))


def room(sigma: float, groups: int, delta: float) -> float:
    """The threshold on weights: a unit's t keys that nobody else has weigh 1 / sqrt(t) each, and none is told."""
    t = np.arange(1, groups + 1)
    return float(np.max(1 / np.sqrt(t) - sigma * norm.ppf(-np.expm1(np.log1p(-delta) / t))))


def weighted(pairs: Pairs, rho: float, groups: int, delta: float, rng: np.random.Generator) -> Array:
    """Which keys are told, by their number; rho of the noise."""
    sigma = float(np.sqrt(1 / (2 * rho)))
    many = np.bincount(pairs.unit, minlength=UNITS)
    weights = np.bincount(pairs.key, 1 / np.sqrt(many[pairs.unit]))
    return _told(weights, sigma, room(sigma, groups, delta), rng)


def policy(pairs: Pairs, rho: float, groups: int, delta: float, rng: np.random.Generator) -> Array:
    """The same by l2 descent: a unit moves its keys towards the threshold and a little more, by at most 1 in l2."""
    sigma = float(np.sqrt(1 / (2 * rho)))
    tau = room(sigma, groups, delta)
    full, weights = tau + SLACK * sigma, np.zeros(int(pairs.key.max()) + 1)
    for keys in np.split(pairs.key, np.flatnonzero(np.diff(pairs.unit)) + 1):
        lacks = np.maximum(0.0, full - weights[keys])
        length = float(np.sqrt(np.sum(lacks**2)))
        if length > 0:
            weights[keys] += lacks / max(1.0, length)
    return _told(weights, sigma, tau, rng)


def sips(pairs: Pairs, rho: float, groups: int, delta: float, rng: np.random.Generator) -> Array:
    """Which keys are told by weights in three rounds, of which each leaves out those that were told before it."""
    found = np.zeros(0, dtype=int)
    for share in ROUNDS:
        part = share / sum(ROUNDS)
        told = weighted(pairs, rho * part, groups, delta * part, rng)
        found = np.concatenate([found, told])
        left = ~np.isin(pairs.key, told)
        pairs = Pairs(unit=pairs.unit[left], key=pairs.key[left])
    return found


def _told(weights: Array, sigma: float, tau: float, rng: np.random.Generator) -> Array:
    there = np.flatnonzero(weights)
    return there[weights[there] + rng.normal(0, sigma, there.size) >= tau]


WAYS = {"weighted": weighted, "policy": policy, "sips": sips}


def row(epsilon: float, groups: int, rng: np.random.Generator, many: int) -> list[str]:
    """A line of the table: keys told by each way, medians of some runs."""
    runs: dict[str, list[int]] = {}
    for _ in range(many):
        pairs = made_up(groups, rng)
        for family in ("laplace", "gaussian"):
            runs.setdefault(family, []).append(counted(pairs, epsilon, groups, family, rng))
        rho = rho_for(round(epsilon * NANO), DELTA // 2) / PICO
        for name, way in WAYS.items():
            for part in (1.0, 0.5):
                runs.setdefault(f"{name} {part}", []).append(len(way(pairs, rho * part, groups, DELTA / 2 / ATTO, rng)))
    return [f"{epsilon:g}", str(groups), *(f"{int(np.median(found)):,}" for found in runs.values())]


def main(argv: Sequence[str]) -> int:
    """Print the keys that each way tells; 0."""
    parser = argparse.ArgumentParser(prog="python -m duckdp.bench.key_sets", description="Compare thresholds.")
    parser.add_argument("--runs", type=int, default=3)
    many, rng = parser.parse_args(list(argv)).runs, np.random.default_rng(0)
    heads = [f"{name}{more}" for name in WAYS for more in ("", ", and counts")]
    rows = [row(epsilon, groups, rng, many) for epsilon in (0.1, 1.0, 3.0) for groups in (1, 10, 100)]
    grid = Grid(title="Keys told", head=["epsilon", "groups", "Laplace", "Gaussian", *heads], rows=rows)
    sys.stdout.write(f"duckdp key sets: {machine()}\n\n{show_grid(grid)}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""Queries and classifiers that synthetic tables are judged by, written in blocks of float32 matrix products."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.stats import rankdata

from duckdp.synthetic.unit.features import Floats
from duckdp.synthetic.unit.uniforms import uniforms

SIGMAS = (2, 4, 6, 8, 10)  # widths of the kernels, as the paper has them
KERNELS = 10  # J
_CENTRES = 10_000  # drawn, and evaluated, at a time
_BLOCK = 500  # centres, and rows, of one matrix
Singles = NDArray[np.float32]


@dataclass(frozen=True, kw_only=True, eq=False)
class Queries:
    """Mixtures of Gaussian kernels: weights of [0, 1] normalised to sum 1, centres uniform in the box.

    Attributes:
        centres: float32[Q J, d].
        weights: float32[Q, J].
    """

    centres: Singles
    weights: Singles

    def answers(self, rows: Floats) -> Floats:
        """Averages over rows: float[len(SIGMAS), Q]."""
        single = rows.astype(np.float32)
        squares = np.einsum("ij,ij->i", single, single)
        found = np.zeros((len(SIGMAS), len(self.weights)))
        for start in range(0, len(self.centres), _CENTRES):
            part = self.centres[start : start + _CENTRES]
            kernels = _kernel_means(single, squares, part)
            first, last = start // KERNELS, (start + len(part)) // KERNELS
            mixed = kernels.reshape(len(SIGMAS), -1, KERNELS) * self.weights[first:last]
            found[:, first:last] = mixed.sum(axis=2)
        return found


def draw_queries(dimensions: int, count: int) -> Queries:
    """Random sums of Gaussian kernels, as the paper asks them."""
    weights = uniforms(count, KERNELS)
    blocks = -(-count * KERNELS // _CENTRES)
    centres = [(2 * uniforms(_CENTRES, dimensions) - 1).astype(np.float32) for _ in range(blocks)]
    return Queries(
        centres=np.concatenate(centres)[: count * KERNELS],
        weights=(weights / weights.sum(axis=1, keepdims=True)).astype(np.float32),
    )


def worst_relative(answers: Floats, truth: Floats) -> Floats:
    """Largest relative error of all queries: float[len(SIGMAS)]."""
    return np.asarray(np.max(np.abs(answers - truth) / truth, axis=1))


def learn(rows: Floats, ridge: float = 1e-2) -> Floats:
    """Logistic regression of the last column (by its sign) on the others: weights, float[d - 1]."""
    x, y = np.column_stack([rows[:, :-1], np.ones(len(rows))]), np.where(rows[:, -1] > 0, 1.0, -1.0)

    def loss(b: Floats) -> tuple[float, Floats]:
        margin = y * (x @ b)
        slope = -(x.T @ (y / (1 + np.exp(np.clip(margin, -500, 500))))) / len(x)
        penalty = np.append(b[:-1], 0.0)
        return float(np.logaddexp(0, -margin).mean() + ridge / 2 * (penalty @ penalty)), slope + ridge * penalty

    found = minimize(loss, np.zeros(x.shape[1]), jac=True, method="L-BFGS-B", options={"maxiter": 200})
    return np.asarray(found.x[:-1])


def area_under_curve(scores: Floats, label: Floats) -> float:
    """The area under the ROC curve; ties count half."""
    positive = label > 0
    p, n = int(positive.sum()), int((~positive).sum())
    return float((rankdata(scores)[positive].sum() - p * (p + 1) / 2) / (p * n))


def _kernel_means(rows: Singles, squares: Singles, centres: Singles) -> Floats:
    """In blocks that stay in the cache; kernels of sigma 2 and 4 are powers of that of 8."""
    own = np.einsum("ij,ij->i", centres, centres)
    found = np.zeros((len(SIGMAS), len(centres)))
    for low in range(0, len(centres), _BLOCK):
        part = slice(low, low + _BLOCK)
        for start in range(0, len(rows), _BLOCK):
            at = slice(start, start + _BLOCK)
            distance = squares[at, None] + own[part] - 2 * (rows[at] @ centres[part].T)
            eight = np.exp(distance * np.float32(-0.5 / 8**2))
            four = np.square(np.square(eight))
            kernels = {8: eight, 4: four, 2: np.square(np.square(four))}
            for k, sigma in enumerate(SIGMAS):
                kernel = kernels.get(sigma)
                kernel = np.exp(distance * np.float32(-0.5 / sigma**2)) if kernel is None else kernel
                found[k, part] += kernel.sum(axis=0)
    return found / len(rows)

"""The linear program: a distribution u on the support whose moments W u are closest to the noisy ones in l1.

    min sum_{r > 0} (p_r + q_r)   with   W u + p - q = b,   sum u = 1,   u, p, q >= 0

b_r is a noisy sum over the noisy count; row r = 0 is the mass and holds exactly. b is not clipped: clipping changes the
law of the noise. l1 is maximum likelihood for Laplace noise.

Numerics: HiGHS, interior point without crossover: among the best distributions it gives one in the middle, spread over
many points, where a vertex would sit on as few points as there are moments.
Source:   [J] Algorithm 3, step 20; without its rounding to a grid, which only bounds the number of bits.
"""

from __future__ import annotations

from dataclasses import dataclass

import highspy
import numpy as np
from scipy import sparse

from duckdp.errors import NumericalError
from duckdp.smooth.basis import Floats

TIME_LIMIT = 60.0  # seconds
_STATUS = {
    highspy.HighsModelStatus.kTimeLimit: ("time limit", "Take a summary of a smaller degree or fewer columns."),
    highspy.HighsModelStatus.kInterrupt: ("interrupted", "Call again."),
}


@dataclass(frozen=True)
class Distribution:
    """What the program found.

    Attributes:
        weights: float[C], at least 0, sum 1.
        residual: l1 distance of its moments from the noisy ones, as means.
    """

    weights: Floats
    residual: float


def fit_distribution(moments: Floats, target: Floats) -> Distribution:
    """Solve the program.

    Args:
        moments: W, float[R, C]; row 0 is all ones.
        target: b, float[R]; target[0] is 1.

    Raises:
        NumericalError: N101, the solver did not reach an answer.
    """
    solver = highspy.Highs()
    for name, value in (
        ("output_flag", False), ("solver", "ipm"), ("run_crossover", "off"), ("threads", 1), ("time_limit", TIME_LIMIT)
    ):  # fmt: skip
        solver.setOptionValue(name, value)
    solver.passModel(_model(moments, target))
    solver.run()
    status = solver.getModelStatus()
    if status != highspy.HighsModelStatus.kOptimal:
        known, advice = _STATUS.get(status, (solver.modelStatusToString(status), "Take a summary of a smaller degree."))
        raise NumericalError("N101", f"the linear program was not solved ({known}).", status=known, advice=advice)
    weights = np.clip(np.array(solver.getSolution().col_value)[: moments.shape[1]], 0, None)
    weights /= weights.sum()
    return Distribution(weights, float(np.sum(np.abs(moments @ weights - target))))


def _model(moments: Floats, target: Floats) -> highspy.HighsLp:
    rows, points = moments.shape
    slack = sparse.vstack([sparse.csc_array((1, rows - 1)), sparse.eye_array(rows - 1)])
    matrix = sparse.hstack([sparse.csc_array(moments), slack, -slack], format="csc")
    model = highspy.HighsLp()
    model.num_row_, model.num_col_ = matrix.shape
    model.col_cost_ = np.concatenate([np.zeros(points), np.ones(2 * (rows - 1))])
    model.col_lower_ = np.zeros(matrix.shape[1])
    model.col_upper_ = np.full(matrix.shape[1], highspy.kHighsInf)
    model.row_lower_ = model.row_upper_ = target
    model.a_matrix_.format_ = highspy.MatrixFormat.kColwise
    model.a_matrix_.start_, model.a_matrix_.index_, model.a_matrix_.value_ = matrix.indptr, matrix.indices, matrix.data
    return model

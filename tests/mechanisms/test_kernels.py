"""Kernels of one column: nonnegative, a partition of unity, the inverse of each other, to the last few bits; twins."""

from decimal import Decimal, getcontext

import numpy as np
import pytest

from duckdp.mechanisms.kernels import ENTRY_ERROR, ColumnKernels, fejer_kernels, indicator_kernels

COUNTS = (1, 2, 3, 4, 5, 8, 13, 32, 100, 256)
PI = Decimal("3.14159265358979323846264338327950288419716939937510582097494459")


def at_points(kernels, u):
    """K_j(u): float[n, t]."""
    return np.polynomial.chebyshev.chebvander(u, len(kernels.to_kernels) - 1) @ kernels.to_kernels.T


def fejer_by_sines(count, angles):
    """The same from the closed form of Fejer's kernel of degree t, which is a square: float[n, t]."""
    nodes = (np.arange(count) + 0.5) * np.pi / count

    def square(b):
        half = np.sin(b / 2)
        near = np.abs(half) < 1e-9
        whole = np.sin((count + 1) * b / 2) ** 2 / np.where(near, 1.0, (count + 1) * half**2)
        return np.where(near, count + 1.0, whole)

    both = square(angles[:, None] - nodes) + square(angles[:, None] + nodes)
    return both / (2 * count)


@pytest.mark.parametrize("count", COUNTS)
def test_fejer_kernels_are_a_partition_of_unity(count):
    angles = np.linspace(0, np.pi, 1501)
    found = at_points(fejer_kernels(count), np.cos(angles))
    assert found.min() >= -1e-11
    assert np.abs(found.sum(axis=1) - 1).max() < 1e-11
    assert np.abs(found).sum(axis=1).max() < 1 + 1e-11
    assert (found**2).sum(axis=1).max() < 1 + 1e-11
    assert found == pytest.approx(fejer_by_sines(count, angles), abs=1e-10)


@pytest.mark.parametrize("count", COUNTS)
def test_indicators_tell_the_values(count):
    u = -np.cos(np.pi * np.arange(count) / max(1, count - 1))
    assert at_points(indicator_kernels(count), u) == pytest.approx(np.eye(count), abs=1e-11)


@pytest.mark.parametrize("kernels", [fejer_kernels, indicator_kernels])
@pytest.mark.parametrize("count", COUNTS)
def test_functions_follow_from_kernels(count, kernels):
    found = kernels(count)
    assert found.to_functions @ found.to_kernels == pytest.approx(np.eye(count), abs=1e-12)
    assert not found.to_kernels.flags.writeable


@pytest.mark.parametrize("count", COUNTS)
def test_noise_of_functions_of_a_column_is_uncorrelated_and_as_stated(count):
    """Independent noise of variance 1 in each kernel's sum: t, and t / (2 w_r^2)."""
    back = fejer_kernels(count).to_functions
    r = np.arange(count)
    stated = count / np.where(r > 0, 2.0, 1.0) / (1 - r / (count + 1)) ** 2
    assert back @ back.T == pytest.approx(np.diag(stated), rel=1e-12, abs=1e-9 * stated.max())


def cosine(turns, half):
    """cos(pi turns / half) to 40 digits."""
    getcontext().prec = 60
    x = PI * (turns % (2 * half)) / half
    total = term = Decimal(1)
    for k in range(1, 60):
        term *= -x * x / ((2 * k - 1) * (2 * k))
        total += term
    return total


@pytest.mark.parametrize("count", [2, 3, 8, 31])
def test_entries_are_within_their_error(count):
    found = fejer_kernels(count)
    for r in range(count):
        weight = 1 - Decimal(r) / (count + 1)
        for j in range(count):
            exact = cosine(r * (2 * j + 1), 2 * count)
            there = (2 if r else 1) * weight * exact / count
            assert abs(Decimal(float(found.to_kernels[j, r])) - there) <= Decimal(ENTRY_ERROR)
            back = Decimal(float(found.to_functions[r, j]))
            assert abs(back - exact / weight) <= Decimal(ENTRY_ERROR) * max(1, abs(1 / weight))
    listed = indicator_kernels(count)
    for r in range(count):
        for j in range(count):
            exact = cosine(r * (count - 1 - j), count - 1)
            half = (Decimal("0.5") if r in (0, count - 1) else 1) * (Decimal("0.5") if j in (0, count - 1) else 1)
            assert abs(Decimal(float(listed.to_functions[r, j])) - exact) <= Decimal(ENTRY_ERROR)
            assert abs(Decimal(float(listed.to_kernels[j, r])) - 2 * half * exact / (count - 1)) <= Decimal(ENTRY_ERROR)


def twin(count, weights):
    """Kernels with other weights of the degrees: a partition of unity still, but nonnegative or not."""
    r, j = np.arange(count), np.arange(count)
    cosines = np.cos(np.outer(r, 2 * j + 1) * np.pi / (2 * count))
    return ColumnKernels((np.where(r > 0, 2.0, 1.0) * weights * cosines.T) / count, cosines / weights[:, None])


@pytest.mark.parametrize("count", [3, 8, 32])
def test_twins_with_more_weight_on_high_degrees_are_negative_somewhere(count):
    """The next kernel up, whose last two terms do not vanish at the nodes; and Dirichlet's."""
    r, u = np.arange(count), np.cos(np.linspace(0, np.pi, 6001))
    for weights, beyond in ((1 - r / (count + 2), 1e-4), (np.ones(count), 0.1)):
        found = at_points(twin(count, weights), u)
        assert np.abs(found.sum(axis=1) - 1).max() < 1e-11
        assert np.abs(found).sum(axis=1).max() > 1 + beyond
    assert np.abs(at_points(twin(count, 1 - r / (count + 1)), u)).sum(axis=1).max() < 1 + 1e-11

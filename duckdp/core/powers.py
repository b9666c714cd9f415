"""Whole powers of enclosures, whatever encloses: each product is rounded outward by the enclosure itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, Self, TypeVar


class _Multiplies(Protocol):
    def __mul__(self, other: Self, /) -> Self: ...


Z = TypeVar("Z", bound=_Multiplies)


def by_squaring(z: Z, exponent: int, *, one: Z, square: Callable[[Z], Z]) -> Z:
    """z^n for n >= 0, by repeated squaring.

    Args:
        z: an enclosure.
        exponent: n.
        one: encloses 1.
        square: encloses squares more narrowly than a product of two that need not be the same.
    """
    found = None
    while exponent:
        if exponent % 2:
            found = z if found is None else found * z
        exponent //= 2
        if exponent:
            z = square(z)
    return one if found is None else found

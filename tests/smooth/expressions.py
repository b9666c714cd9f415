"""Random query functions: analytic ones, and others that bend or jump."""

import numpy as np


def analytic(rng, names, depth=3):
    """An expression over numbers x in [0, 1] that is analytic around every point of the domain."""
    if depth == 0 or rng.random() < 0.15:
        return rng.choice(names) if rng.random() < 0.75 else f"{rng.uniform(-2, 2):.3f}"
    a = analytic(rng, names, depth - 1)
    b = analytic(rng, names, depth - 1)
    shapes = (
        f"({a} + {b})",
        f"({a} - {b})",
        f"({a}) * ({b})",
        f"-({a})",
        f"exp(-power(({a}) * 0.7, 2))",
        f"exp(({a}) / 4)",
        f"({a}) / (3 + sin({b}))",
        f"sin({a})",
        f"cos({a} * 2)",
        f"power({a}, {rng.integers(0, 6)})",
        f"tanh({a})",
        f"atan({a})",
        f"ln(1.5 + power(sin({a}), 2))",
        f"sqrt(1.2 + cos({a}))",
        f"1 / (1 + exp({a}))",
        f"power(2 + sin({a}), {rng.uniform(-2, 2):.2f})",
        f"log10(2 + tanh({a}))",
        f"log2(3 + sin({b}))",
        f"({a}) / {rng.uniform(0.5, 3):.2f}",
    )
    return str(rng.choice(shapes))


def rough(rng, names, depth=2):
    """An expression that may bend or jump."""
    x, y = rng.choice(names), rng.choice(names)
    c = f"{rng.uniform(0, 1):.3f}"
    shapes = (
        f"CASE WHEN {x} > {c} THEN 1 ELSE 0 END",
        f"abs({x} - {c})",
        f"greatest({x}, {c}) - {y}",
        f"floor({x} * 7)",
        f"CAST({x} BETWEEN {c} AND 0.9 AS INTEGER)",
        f"least({x}, {y})",
        f"round({x}, 1) * {y}",
        f"CAST({x} * 5 AS INTEGER)",
        f"exp(-power(({x} - {c}) / 0.01, 2))",
        f"sqrt(abs({x} - {c}))",
        f"CASE WHEN {x} < {c} THEN {y} ELSE -{y} END",
        f"sign({x} - {c})",
    )
    one = str(rng.choice(shapes))
    return one if depth == 0 or rng.random() < 0.5 else f"{one} + {analytic(rng, names, depth)}"


def generator(seed):
    """A generator for test inputs."""
    return np.random.default_rng(seed)

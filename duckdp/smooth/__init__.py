"""Smooth-query summaries: one charge, any number of answers.

The noisy sums of a basis of smooth functions are released once; every answer afterwards is free. One thing, one file::

    axes          columns in [-1, 1]
    basis         the functions, and how far one privacy unit can move their sums
    degree        how many of them;  predicted  which, and how many, where the analyst leaves it open
    moments       their exact sums as one SQL query of our own
    shares, noise which noise, and how the budget is divided among the functions
    plan          the task: what a summary costs, and how it is made
    summary       what is released
    grouped       one summary per public group;  counted  a degree that follows from the count
    coefficients  a query function as a combination of the basis: interpolation (nodes, terms, parts), with a proved
                  error where it can be had (proved, bernstein, cells), least squares, jackson, tradeoff, batch
    expansion     the same by the factors of analytic functions, many at once (shapes, factored; separate, factors)
    structured    sums of products of functions of one column that may jump or bend, between polynomials (onesided)
    answer        a value with its error bar;  advice  what would help where approximation outweighs noise

Nothing here reads private rows: a desk runs the query that ``moments`` prints and hands the rows to ``summary``.

Source: Wang, Jin, Fan, Zhang, Huang, Zhong, Wang, "Differentially private data releasing for smooth queries", JMLR
17(51), 2016, Algorithms 1 and 2, with the noise scale of section 3.4.1 corrected (see ``basis``).
"""

from __future__ import annotations

import os

from duckdp.arguments import Scalar, checked
from duckdp.errors import CatalogError, ParameterError
from duckdp.smooth.answer import SmoothAnswer, answer, answers
from duckdp.smooth.payloads import open_stored
from duckdp.smooth.summary import SmoothSummary

__all__ = ["SmoothAnswer", "SmoothSummary", "answer", "answers", "load"]


@checked
def load(path: str | os.PathLike[str], category: Scalar | None = None) -> SmoothSummary:
    """Read an exported summary (``Session.export_summary``): public, and answered from without the data.

    ``category`` names a group of a file that holds one summary per group.

    >>> answer(load("ages.json"), "exp(-power((age - 40) / 10, 2))").value  # doctest: +SKIP
    0.31

    Raises:
        CatalogError: C105, damaged or from a newer version; C108, no such file. ParameterError: P107, path or category.
    """
    if not isinstance(path, (str, os.PathLike)):
        raise ParameterError("P107", "path", path, "must be the path of an exported summary.")
    try:
        with open(path, encoding="utf-8") as file:
            text = file.read()
    except (OSError, ValueError):  # a NUL in the path, or bytes that are no text
        raise CatalogError("C108", f'"{os.fspath(path)}" is not a file that can be read.') from None
    return open_stored(text, None if category is None else str(category), strict=True)

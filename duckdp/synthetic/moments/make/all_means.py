"""The best guess of every unit column's mean from what was released: post-processing."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from duckdp.errors import InternalError
from duckdp.synthetic.moments.domain_values import consistent
from duckdp.synthetic.moments.make.denoise import shrink_means
from duckdp.synthetic.moments.released import Released
from duckdp.synthetic.unit.features import Floats
from duckdp.synthetic.unit.request import Request


def all_means(request: Request, out: Released) -> Floats:
    """float[d]; those of domains' values from their counts, where these were bought."""
    if out.means is None:
        raise InternalError("a release without means")
    if out.choices is None:
        return shrink_means(out.means)
    inside = [i for group in request.groups for i in group]
    found = np.zeros(request.columns)
    found[outside_groups(request)] = shrink_means(out.means)
    counted = replace(out.choices, means=consistent(out.choices.means, request.groups))
    found[inside] = shrink_means(counted)
    return found


def outside_groups(request: Request) -> list[int]:
    """The unit columns that are not the value of a domain, ascending."""
    inside = {i for group in request.groups for i in group}
    return [i for i in range(request.columns) if i not in inside]


def mean_deviation(out: Released) -> float:
    """The root of the mean square of all means' deviations."""
    assert out.means is not None
    if out.choices is None:
        return out.means.deviation
    sizes = len(out.means.means), len(out.choices.means)
    squares = sizes[0] * out.means.deviation**2 + sizes[1] * out.choices.deviation**2
    return float((squares / sum(sizes)) ** 0.5)

"""Short ways to purchases over unit columns and to rows, for tests: as users' calls would plan them."""

import numpy as np

from duckdp.core.types import Neighbours, parse_delta, parse_epsilon
from duckdp.synthetic.asked import Asked
from duckdp.synthetic.methods import AUTO, choose_by_noise, plan_table
from duckdp.synthetic.moments.buy.links import collect
from duckdp.synthetic.moments.make.rows import make_rows
from duckdp.synthetic.moments.plan import make_plan
from duckdp.synthetic.psi.buy import collect_psi
from duckdp.synthetic.psi.make import make_psi_rows
from duckdp.synthetic.tree.plan import tree_terms
from duckdp.synthetic.unit.buy.purse import Purse
from duckdp.synthetic.unit.charge_terms import moment_terms
from duckdp.synthetic.unit.request import Request


def plan_wide(
    table,
    columns,
    *,
    epsilon_nano,
    delta_atto,
    neighbours,
    rows,
    method,
    target,
    purpose="tables",
    calendar=True,
    settled=True,
):
    """A task of a method for many columns; of the one that suits among those, for "auto"."""
    asked = Asked(
        table=table,
        columns=columns,
        epsilon_nano=epsilon_nano,
        delta_atto=delta_atto,
        neighbours=neighbours,
        rows=rows,
        target=target,
        purpose=purpose,
        calendar=calendar,
        settled=settled,
    )
    return choose_by_noise(asked) if method == AUTO else plan_table(asked, method)


def request(columns, *, expected_rows, epsilon, delta=0, neighbours=Neighbours.ADD_REMOVE, **more):
    """Public parameters from what users type."""
    return Request(
        columns=columns,
        expected_rows=expected_rows,
        epsilon_nano=parse_epsilon(epsilon),
        delta_atto=parse_delta(delta),
        neighbours=neighbours,
        **more,
    )


def open_purse(asked):
    """A full purse for moments."""
    return Purse.on(moment_terms(asked))


def open_tree_purse(asked, columns):
    """A full purse for a tree."""
    return Purse.on(tree_terms(asked, columns))


def make_table(asked, sums):
    """Rows by moments, from exact sums in memory."""
    purse = open_purse(asked)
    plan = make_plan(asked, purse)
    return make_rows(asked, plan, collect(asked, plan, purse, sums))


def make_psi_table(asked, sums, products):
    """Rows by private subspace iteration, from exact sums in memory."""
    return make_psi_rows(asked, collect_psi(asked, open_purse(asked), sums, products))


def encode(binning, unit):
    """Bins of unit rows, float[m, d] -> int[m]: what the SQL of ``tree.buy.bin_sql`` gives."""
    part = binning.part
    own = unit[:, part.start : part.start + part.width]
    if part.form == "choice":
        return part.place(own)
    place = (own[:, 0] + 1) / 2

    def floor(places):
        return np.minimum(np.floor(places), binning.bins - 1).astype(np.int64)

    if part.form == "sign":
        code = np.asarray(own[:, 0] > 0, dtype=np.int64)
    elif binning.span:
        code = floor(np.rint(place * binning.span) * binning.bins / binning.span)
    else:
        code = floor(place * binning.bins + 1e-9)  # what lies so little below an edge is at it
    return np.where(own[:, 1] > 0, binning.bins, code) if part.nullable else code

"""What an analyst's charges, or all, amount to by each accountant: read off the ledger, which replays to the same."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from importlib.util import find_spec

from duckdp.core import composition
from duckdp.core.types import Loss, show_decimal
from duckdp.ledger.ledger import Ledger
from duckdp.process.importing import importing
from duckdp.result import Result, plain_result

Way = Callable[[composition.Losses, int], float | None]
NAMES = ("accountant", "epsilon", "delta", "holds")
TYPES = ("VARCHAR", "DOUBLE", "VARCHAR", "VARCHAR")
PAGE = 2000  # charges that are read at once
ALWAYS = "always"
FILTER = "as a limit that was set before the first answer"
FIXED = "if every epsilon was settled before the first answer"
EXTRA = "dp_accounting"  # of the extra duckdp[accounting]
_FINEST = 1e-6  # step of a privacy loss distribution


def losses(ledger: Ledger, analyst: str | None = None) -> composition.Losses:
    """The losses of all charges, one analyst's or everybody's, and how many there are of each.

    Every row is checked against its seal as it is read; the memory taken does not grow with the ledger.
    """
    found: Counter[Loss] = Counter()
    after = 0
    while page := ledger.charges(analyst, limit=PAGE, after=after):
        found.update(row.loss for row in page)
        after = page[-1].id
    return found


def tell(found: composition.Losses, delta_atto: int) -> Result:
    """A row for each accountant: an epsilon with which the charges together are (epsilon, delta)-DP.

    Args:
        found: charges, by their loss.
        delta_atto: the total delta, in 1e-18. NULL where it does not suffice for the charges' own.

    Returns:
        accountant, epsilon (rounded up), delta, and on what it rests.
    """
    ways: list[tuple[str, Way, str]] = [
        ("basic", composition.basic, ALWAYS),
        ("zcdp", composition.zcdp, FILTER),
        ("advanced", composition.advanced, FIXED),
        ("optimal", composition.optimal, FIXED),
    ]
    if find_spec(EXTRA) is not None:
        ways.append(("pld", privacy_loss, FIXED))
    delta = show_decimal(delta_atto, 18)
    return plain_result(NAMES, [(name, way(found, delta_atto), delta, holds) for name, way, holds in ways], TYPES)


def privacy_loss(found: composition.Losses, delta_atto: int) -> float | None:
    """The same as ``optimal`` by privacy loss distributions of the package dp-accounting, an independent program."""
    with importing():
        from dp_accounting.pld import common, privacy_loss_distribution  # type: ignore[import-untyped]

    if delta_atto == 0 or not any(loss.epsilon_nano for loss in found):
        return composition.basic(found, delta_atto)
    step = max(composition.step_of(found) / 16, _FINEST)  # where floats make of 0.3 four times 0.1
    whole = None
    for loss, n in found.items():
        terms = common.DifferentialPrivacyParameters(float(loss.epsilon), float(loss.delta))
        one = privacy_loss_distribution.from_privacy_parameters(terms, value_discretization_interval=step)
        many = one.self_compose(n)
        whole = many if whole is None else whole.compose(many)
    assert whole is not None
    epsilon = float(whole.get_epsilon_for_delta(delta_atto * 1e-18))
    return composition.rounded_up(epsilon)

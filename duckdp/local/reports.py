"""Reports of values, and estimates from them: lists in, lists out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from fractions import Fraction
from itertools import chain

from duckdp.arguments import Scalar, checked, checked_untold
from duckdp.core.types import NANO, parse_epsilon
from duckdp.errors import ParameterError
from duckdp.mechanisms.randomized_response import OUTSIDE, Encoding, RandomizedResponse
from duckdp.result import Estimate, Result, ResultColumn


@checked_untold("values")
def randomize(
    values: Sequence[Scalar | None], domain: Sequence[str], *, epsilon: object, encoding: Encoding = "direct"
) -> list[str] | list[list[str]]:
    """A report of each value, drawn anew with every call: keep what it gives.

    Args:
        values: of one person each; compared with the domain as texts. What is outside of it, None too, is reported as
            anything.
        domain: the k values, public.
        epsilon: of each report.
        encoding: "direct": one value each; "unary", for large k: a list of values each. Less noise has "direct" up to
            about k = 3 e^epsilon + 2.

    Raises:
        ParameterError: P101, P107; no error quotes a value.
    """
    return report_texts([None if value is None else str(value) for value in values], domain, epsilon, encoding)


@checked
def randomized_counts(
    reports: Sequence[str | Sequence[str]], domain: Sequence[str], *, epsilon: object, encoding: Encoding = "direct"
) -> Result:
    """How many of those who reported have each value: unbiased, with 95% intervals.

    Args:
        reports: as :func:`randomize` gave them, with the same domain, epsilon and encoding; others are left out.
        domain: the k values.
        epsilon: of each report.
        encoding: of the reports.

    Raises:
        ParameterError: P101, P107.
    """
    response, names = response_of(domain, epsilon, encoding), list(domain)
    given = [[report] if isinstance(report, str) else list(report) for report in reports]
    known, single = set(names), encoding == "direct"
    members = [m for m in given if known.issuperset(m) and len(set(m)) == len(m) == (1 if single else len(m))]
    left_out = len(given) - len(members)
    counts = Counter(chain.from_iterable(members))
    found = [response.estimate(counts[name], len(members)) for name in names]
    estimates = [
        Estimate(value=one.value, standard_error=one.standard_error, low=one.low, high=one.high, exact=False)
        for one in found
    ]
    columns = [
        ResultColumn(name="value", type="VARCHAR", values=names),
        ResultColumn(name="people", type="DOUBLE", values=[one.value for one in found], estimates=estimates),
    ]
    notes = [f"{left_out:,} reports are none of this domain and encoding, and were left out"] if left_out else []
    return Result(columns=columns, source=f"{len(members):,} reports, each of epsilon={epsilon}", notes=notes)


def report_texts(
    values: Iterable[str | None], domain: Sequence[str], epsilon: object, encoding: Encoding
) -> list[str] | list[list[str]]:
    """Reports of texts; see :func:`randomize`."""
    response, names = response_of(domain, epsilon, encoding), list(domain)
    places = {name: place for place, name in enumerate(names)}
    found = response.report([OUTSIDE if value is None else places.get(value, OUTSIDE) for value in values])
    if encoding == "direct":
        return [names[place] for (place,) in found]
    return [[names[place] for place in report] for report in found]


def response_of(domain: Sequence[str], epsilon: object, encoding: Encoding) -> RandomizedResponse:
    """The mechanism, if its figures are in order.

    Raises:
        ParameterError: P101, P107.
    """
    if isinstance(domain, str) or not all(isinstance(name, str) for name in domain):
        raise ParameterError("P107", "domain", domain, "must be a list of texts.")
    if len(set(domain)) != len(domain):
        raise ParameterError("P107", "domain", len(domain), "must differ: one of them stands twice.")
    return RandomizedResponse(encoding=encoding, values=len(domain), epsilon=Fraction(parse_epsilon(epsilon), NANO))

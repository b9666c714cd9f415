"""Terms of private questions that a connection has SET, looked at where they are SET: ``dp.epsilon`` and its like.

Each is an argument of ``dp_query`` and is read as that is declared; what the question then makes of it, such as whether
a delta is allowed with it, is said of the question.
"""

from __future__ import annotations

from collections.abc import Mapping

from duckdp.core.types import parse_delta, parse_epsilon
from duckdp.errors import ParameterError
from duckdp.functions.spec import FUNCTIONS
from duckdp.serve.sqlstates import Refused

#: By the argument of dp_query that each one is; see docs/sql.md.
TERMS = ("epsilon", "delta", "error", "tolerance", "mechanism", "min_units", "intervals", "fresh")
#: What a statement that works has in the place of a value that does not.
_EXAMPLES = {
    "epsilon": "0.1",
    "delta": "1e-8",
    "error": "20",
    "tolerance": "20",
    "mechanism": "auto",
    "min_units": "10",
}
_FLAGS = dict.fromkeys(("on", "true", "1", "yes"), "true") | dict.fromkeys(("off", "false", "0", "no"), "false")


def require_term(name: str) -> str:
    """The term that a setting is, of ``dp.epsilon`` its epsilon.

    Raises:
        Refused: 42704, there is none of that name.
    """
    if name[3:] not in TERMS:
        raise Refused("42704", f'there is no "{name[:63]}".', f"There are dp.{', dp.'.join(TERMS)}.")
    return name[3:]


def read_term(name: str, value: str) -> str:
    """A term's value as ``dp_query`` takes it.

    >>> read_term("dp.intervals", "on"), read_term("dp.epsilon", "0.1")
    ('true', '0.1')

    Raises:
        Refused: 42704, there is none of that name; 22023, a value that cannot be.
    """
    term = require_term(name)
    if term in ("intervals", "fresh"):
        if value.lower() not in _FLAGS:
            raise Refused("22023", f"{name} is on or off, not {value[:63]}.", f"SET {name} = on;")
        return _FLAGS[value.lower()]
    try:
        _check(term, value)
    except ParameterError as error:
        raise Refused("22023", f"{error.code}: {_told(name, value)}: {error.rule}", _way_out(name)) from None
    return value


def none_set(terms: Mapping[str, str]) -> Refused:
    """A private question that nobody said the cost of: on a connection without it, or a call, which says it itself."""
    if "epsilon" in terms:
        message = "P101: epsilon=None: dp.epsilon is for SELECTs alone: a call of a dp function says what it may cost."
        return Refused("22023", message, "Write epsilon := 0.1 in the call.")
    return Refused("22023", "P101: dp.epsilon is not SET: say what a question may cost.", _way_out("dp.epsilon"))


def _told(name: str, value: str) -> str:
    return f"{name}='{value[:63]}'"


def _way_out(name: str) -> str:
    return f"SET {name} = {_EXAMPLES[name[3:]]};"


def _check(term: str, value: str) -> None:
    kind = next(p.kind for p in FUNCTIONS["dp_query"].of("sql") if p.sql == term)
    read = kind.read(term, value)
    if term == "epsilon":
        parse_epsilon(value)
    elif term == "delta":
        parse_delta(value)
    elif kind.choices and value not in kind.choices:
        raise ParameterError("P107", term, value, f"must be one of {', '.join(kind.choices)}.")
    elif term in ("error", "tolerance") and read <= 0:
        raise ParameterError("P106", term, value, "must be a positive number, the widest 95% half-width.")

"""Calls of dp functions as the faces have them: from texts, from values, and in the words of SQL."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from duckdp.desk.asking import call_text
from duckdp.functions.planned import Planned
from duckdp.functions.spec import FUNCTIONS, REQUIRED, Parameter, Spec, unknown

if TYPE_CHECKING:
    from duckdp.desk.desk import Desk

Texts = Sequence[str | None]
Lists = Sequence[Sequence[str | None] | None]


def plan_texts(desk: Desk, name: str, texts: Texts, lists: Lists) -> Planned:
    """Plan a call by name as SQL hands it over: text arguments, and those that are lists; touches no data.

    Raises:
        ParameterError: P107, no such function, or wrong arguments; and what the function raises.
    """
    spec = FUNCTIONS.get(name)
    if spec is None:
        raise unknown(name)
    return spec.plan(desk, spec.read_texts(texts, lists))


def texts_of(name: str, given: Mapping[str, str]) -> list[str | None]:
    """Arguments by their names in SQL as the texts that :func:`plan_texts` takes, of a function without lists.

    What is not given is its default, as the macro of that name has it.
    """
    spec = FUNCTIONS[name]
    found: list[str | None] = []
    for parameter in spec.of("sql"):
        default = parameter.default
        text = str(default).lower() if isinstance(default, bool) else str(default)
        found.append(given.get(str(parameter.sql), None if default is None or default is REQUIRED else text))
    return found


def describe_texts(name: str, texts: Texts, lists: Lists) -> str:
    """A call as :func:`plan_texts` takes it, in words of SQL; what is left out, or is the default, is not shown.

    >>> describe_texts("dp_noisy_count", ["care", "0.1", None, "false", None, "false"], [])
    "dp_noisy_count('care', epsilon := '0.1')"
    """
    spec = FUNCTIONS.get(name)
    if spec is None or len(texts) != len(spec.of("sql")) or len(lists) != sum(p.kind.listed for p in spec.of("sql")):
        return call_text(name[:64], texts, {})
    rest = iter(lists)
    given: dict[str, object] = {}
    for parameter, text in zip(spec.of("sql"), texts, strict=True):
        listed = next(rest) if parameter.kind.listed else None
        given[parameter.name] = text if listed is None else list(listed)
    return describe(spec, given)


def describe(spec: Spec, given: Mapping[str, object]) -> str:
    """A call in words of SQL, from raw arguments by the names of the fields."""
    placed = [given.get(p.name) for p in spec.parameters if p.placed]
    named = {
        p.sql or p.name: given[p.name]
        for p in spec.parameters
        if not p.placed and p.name in given and not _is_default(p, given[p.name])
    }
    while placed and placed[-1] is None:
        placed.pop()
    return call_text(spec.name, placed, named)


def _is_default(parameter: Parameter, value: object) -> bool:
    """Whether an argument says what is said without it; runs no code of a caller's object."""
    default = None if parameter.default is REQUIRED else parameter.default
    if value is None or value is default:
        return value is default
    if type(value) is str:  # as SQL hands it over
        return value.lower() == str(default).lower()
    return type(value) is type(default) and value == default

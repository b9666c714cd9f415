"""Words that the ledger keeps: names of analysts, teams and stored objects, and reasons."""

from __future__ import annotations

import re

from duckdp.errors import ParameterError

NAME_RULE = "must match [a-z_][a-z0-9_]{0,62}."
#: Who is charged with what may have been spent after a backup; nobody else's name.
LOST = "lost_with_the_original"

_NAME = re.compile(r"[a-z_][a-z0-9_]{0,62}")


def check_name(value: object, name: str = "name") -> str:
    """Return ``value`` if it is a legal name of an analyst or of a stored object.

    Raises:
        ParameterError: P105.
    """
    if not isinstance(value, str) or not _NAME.fullmatch(value):
        raise ParameterError("P105", name, value, NAME_RULE)
    return value


def check_analyst(value: object, name: str = "analyst") -> str:
    """Return ``value`` if an analyst may be let in under it.

    Raises:
        ParameterError: P105.
    """
    if value == LOST:
        rule = "stands for what may have been spent after a backup. Give the analyst another name."
        raise ParameterError("P105", name, value, rule)
    return check_name(value, name)


def check_reason(value: object) -> str:
    """Return ``value`` if it is a reason worth keeping: text that is not blank.

    Raises:
        ParameterError: P107.
    """
    if not isinstance(value, str) or not value.strip() or len(value) > 1000:
        raise ParameterError("P107", "reason", value, "must be a text of 1 to 1000 characters; it is kept in the log.")
    return value

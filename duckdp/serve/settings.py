"""What a connection has SET: terms of private questions, and what PostgreSQL's clients expect to be there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from duckdp.serve.price_terms import TERMS, read_term, require_term
from duckdp.serve.sqlstates import Refused

VERSION = "16.0 (duckdp)"
#: Reported at the beginning, and when they change.
REPORTED = (
    "server_version",
    "server_encoding",
    "client_encoding",
    "application_name",
    "DateStyle",
    "IntervalStyle",
    "TimeZone",
    "integer_datetimes",
    "standard_conforming_strings",
    "is_superuser",
    "default_transaction_read_only",
    "in_hot_standby",
)
ALL_SHOWN = ("name", "setting", "description")
_FIXED = {
    "server_version": VERSION,
    "server_version_num": "160000",
    "server_encoding": "UTF8",
    "integer_datetimes": "on",
    "standard_conforming_strings": "on",
    "is_superuser": "off",
    "default_transaction_read_only": "off",
    "in_hot_standby": "off",
    "transaction_isolation": "repeatable read",
    "transaction isolation level": "repeatable read",
    "max_identifier_length": "63",
    "lc_collate": "C",
    "lc_ctype": "C",
}
#: What clients set and what changes nothing here.
_TAKEN = (
    *("jit", "geqo", "enable_seqscan", "synchronous_commit", "role", "transaction_read_only", "timezone", "work_mem"),
    *("cursor_tuple_fraction", "check_function_bodies", "default_tablespace", "xmloption", "random_page_cost"),
    *(
        "enable_nestloop",
        "enable_hashjoin",
        "enable_mergejoin",
        "max_parallel_workers_per_gather",
        "transaction_timeout",
    ),
)
_DEFAULTS = {
    "client_encoding": "UTF8",
    "application_name": "",
    "DateStyle": "ISO, MDY",
    "IntervalStyle": "postgres",
    "TimeZone": "UTC",
    "search_path": '"$user", public',
    "statement_timeout": "0",
    "lock_timeout": "0",
    "idle_in_transaction_session_timeout": "0",
    "extra_float_digits": "1",
    "bytea_output": "hex",
    "client_min_messages": "notice",
    "row_security": "on",
    "default_transaction_isolation": "repeatable read",
}


@dataclass
class Settings:
    """What one connection has SET so far.

    Args:
        user: who it speaks for.
    """

    user: str
    _set: dict[str, str] = field(default_factory=dict)
    _first: dict[str, str] = field(default_factory=dict)

    def take(self, name: str, value: str) -> None:
        """Set what came with the connection; what means nothing here is passed over, a term that cannot be is kept.

        The first question is refused for such a term, by its name and in its words: a connection that does not come up
        says less.
        """
        try:
            self.set(name, value)
        except Refused:
            if name[3:] in TERMS and name.startswith("dp."):
                self._put(name, value)

    def begin(self) -> None:
        """What is SET now came with the connection: it is what RESET goes back to."""
        self._first = dict(self._set)

    def set(self, name: str, value: str | None) -> str | None:
        """Set, or reset, one; returns its proper name where clients want to be told of the change.

        Raises:
            Refused: 22023, a value that cannot be; 55P02, it is fixed.
        """
        if name == "all" and value is None:
            self.reset()
            return None
        if name.startswith("dp."):
            self._set_term(name, value)
            return None
        proper = next((n for n in (*_FIXED, *_DEFAULTS) if n.lower() == name), name)
        if proper in _FIXED:
            if value is not None and value.lower() != _FIXED[proper].lower():
                raise Refused("55P02", f'parameter "{proper}" cannot be changed; it is {_FIXED[proper]}.')
            return None
        if (
            proper == "client_encoding"
            and value is not None
            and value.lower().replace("-", "") not in ("utf8", "unicode")
        ):
            raise Refused("22023", f"client_encoding {value[:63]} is not offered.", "Take UTF8.")
        if proper not in _DEFAULTS and "." not in proper and proper not in _TAKEN:
            raise Refused("42704", f'unrecognized configuration parameter "{name[:63]}"')
        self._put(proper, value)
        return proper if proper in REPORTED else None

    def show(self, name: str) -> str:
        """A setting's value, SET or by default.

        Raises:
            Refused: 42704, there is none of that name.
        """
        if name.startswith("dp."):
            require_term(name)
            return self._set.get(name, "")
        if name in ("session_authorization", "role"):
            return self.user
        for known in (self._set, _FIXED, _DEFAULTS):
            for key, value in known.items():
                if key.lower() == name:
                    return value
        raise Refused("42704", f'unrecognized configuration parameter "{name[:63]}"')

    def all(self) -> list[tuple[object, ...]]:
        """What SHOW ALL shows (:data:`ALL_SHOWN`): of private questions what was SET, and all else."""
        named = {**_DEFAULTS, **_FIXED, **self._set}
        return [(name, named[name], "") for name in sorted(named, key=str.lower) if " " not in name]

    def terms(self) -> Mapping[str, str]:
        """What was SET of private questions, by argument."""
        return {n: self._set[f"dp.{n}"] for n in TERMS if f"dp.{n}" in self._set}

    def reset(self) -> None:
        """Forget all that was SET since the connection began."""
        self._set = dict(self._first)

    def _put(self, name: str, value: str | None) -> None:
        value = self._first.get(name) if value is None else value
        if value is None:
            self._set.pop(name, None)
        else:
            self._set[name] = value[:1000]

    def _set_term(self, name: str, value: str | None) -> None:
        require_term(name)
        self._put(name, None if value is None else read_term(name, value))

"""The bound values of one statement that reads private rows, and the secret that keys its choices."""

from __future__ import annotations

from dataclasses import dataclass, field

from duckdp.errors import InternalError


@dataclass
class Parameters:
    """Bound values of one statement, in order of their $n.

    Attributes:
        values: of $1, $2, ...
        key: 64 secret bits for choices among a unit's rows inside the statement, or None: there are none.
    """

    values: list[object] = field(default_factory=list)
    key: int | None = field(default=None, repr=False)

    def bind(self, value: object) -> str:
        """Add a value; returns its placeholder."""
        self.values.append(value)
        return f"${len(self.values)}"

    @property
    def salt(self) -> int:
        """The secret that keys the choice of a unit's rows."""
        if self.key is None:
            raise InternalError("rows are chosen in a read without a key")
        return self.key

"""An indented plan as a drawn tree, for reading: what hangs on what."""

from __future__ import annotations

from collections.abc import Sequence


def drawn(lines: Sequence[str]) -> str:
    """Lines, each two spaces deeper than what it belongs to, with branches in place of the spaces.

    >>> print(drawn(["release", "  reads", "    visits", "  measure"]))
    release
    ├─ reads
    │  └─ visits
    └─ measure
    """
    depths = [(len(line) - len(line.lstrip(" "))) // 2 for line in lines]
    found = []
    for i, (line, depth) in enumerate(zip(lines, depths, strict=True)):
        prefix = ""
        for level in range(1, depth + 1):
            goes_on = _goes_on(depths[i + 1 :], level)
            if level == depth:
                prefix += "├─ " if goes_on else "└─ "
            else:
                prefix += "│  " if goes_on else "   "
        found.append(prefix + line.lstrip(" ").replace("\n", " "))
    return "\n".join(found)


def _goes_on(below: Sequence[int], level: int) -> bool:
    """Whether a line of this level follows before one that is further out."""
    return next((depth for depth in below if depth <= level), 0) == level

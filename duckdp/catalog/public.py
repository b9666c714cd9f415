"""What is computed of a public table's rows: they are no one's, so all of it may be known and follow the data.

A public row that a private one is joined with repeats it, and so repeats its unit's contribution: how often, by which
columns, is the one figure of public rows that privacy rests on.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

MOST_TOGETHER = 50_000  # values that are listed, rows by columns: ten years of days in twelve columns, 0.3 MB of text


@dataclass(frozen=True, kw_only=True)
class Public:
    """Rows that are no one's.

    Attributes:
        rows: how many.
        digest: of what they contain.
        source: fingerprint of the source that they were read of; of another source nothing here is known.
        alike: the most rows that are equal in some columns, none of them NULL: ((columns, rows), ...).
        listed: names of columns whose values together are known; () where that is no short list.
        together: which these are, each once, by their places in the domains of those columns: "0,3;1,3". A text, as
            a declaration is stored and loaded whole.
    """

    rows: int
    digest: str
    source: str
    alike: tuple[tuple[tuple[str, ...], int], ...] = ()
    listed: tuple[str, ...] = ()
    together: str = ""

    def most_alike(self, columns: Collection[str]) -> int:
        """An upper bound of the rows that are equal in all of the columns.

        >>> Public(rows=9, digest="", source="", alike=((("a",), 3), (("a", "b"), 1))).most_alike({"a"})
        3
        """
        given = {c.lower() for c in columns}
        return min([self.rows, *(n for names, n in self.alike if {c.lower() for c in names} <= given)])

    @classmethod
    def load(cls, raw: Mapping[str, Any]) -> Self:
        """What a declaration's JSON says."""
        alike = tuple((tuple(names), int(n)) for names, n in raw["alike"])
        return cls(**{**raw, "alike": alike, "listed": tuple(raw.get("listed", ()))})


def write_together(domains: Mapping[str, Sequence[Any]], rows: Collection[Sequence[Any]]) -> dict[str, Any]:
    """What rows have together in some columns, for :class:`Public`; nothing where that is no short list.

    Args:
        domains: names of the columns, and all values of each.
        rows: a value for each of them.

    >>> write_together({"a": (5, 7), "b": ("x", None)}, [(7, None), (5, "x"), (7, None)])
    {'listed': ('a', 'b'), 'together': '0,0;1,1'}
    >>> write_together({"a": (5, 7)}, [(6,)])
    {}
    """
    if not domains or not 0 < len(rows) * len(domains) <= MOST_TOGETHER:
        return {}
    places = [{value: place for place, value in enumerate(domain)} for domain in domains.values()]
    if any(value not in of for row in rows for of, value in zip(places, row, strict=True)):
        return {}  # the source changed between two reads: nothing is answered by its figures then
    found = sorted({tuple(of[value] for of, value in zip(places, row, strict=True)) for row in rows})
    return {"listed": tuple(domains), "together": ";".join(",".join(map(str, row)) for row in found)}


def read_together(public: Public, domains: Mapping[str, Sequence[Any]]) -> list[tuple[Any, ...]]:
    """The combinations of values that rows have in the columns that are listed.

    Args:
        public: what is known of the rows.
        domains: of all of these columns.

    >>> of = {"a": (5, 7), "b": ("x", None)}
    >>> read_together(Public(rows=2, digest="", source="", listed=("a", "b"), together="0,0;1,1"), of)
    [(5, 'x'), (7, None)]
    """
    rows = public.together.split(";") if public.together else []
    own = [domains[name] for name in public.listed]
    return [tuple(of[int(place)] for of, place in zip(own, row.split(","), strict=True)) for row in rows]

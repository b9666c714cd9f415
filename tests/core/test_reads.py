"""core/reads.py: what parts of each kind combine to, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from duckdp.core.reads import Add, AddByKey, AddInLists, Gather, OfAllRows, Parts, PrivateQuery
from duckdp.errors import InternalError

BY_NAME = AddByKey(keys=1)
BY_TWO = AddByKey(keys=2)
IN_ANY_ORDER = AddByKey(keys=2, ordered=False)
LARGE = 2**126

COMBINED: list[tuple[Parts, list[list[tuple[Any, ...]]], list[tuple[Any, ...]]]] = [
    (Add(), [[(1, LARGE)], [(2, LARGE)], [(0, -1)]], [(3, 2 * LARGE - 1)]),
    (Add(), [[(None, 1)], [(None, None)]], [(None, 1)]),
    (
        BY_NAME,
        [[("a", 1), ("c", 2)], [], [("b", 5), ("c", 7), (None, 1)], [(None, 2)]],
        [("a", 1), ("b", 5), ("c", 9), (None, 3)],
    ),
    (BY_NAME, [[], []], []),
    (BY_NAME, [[(-0.0, 1)], [(0.0, 2), (1.5, 1)]], [(0.0, 3), (1.5, 1)]),
    (
        BY_TWO,
        [[(1, 1, 1), (2, 0, 1)], [(1, 0, 1), (2, 0, 4), (2, None, 2), (None, 7, 1)]],
        [(1, 0, 1), (1, 1, 1), (2, 0, 5), (2, None, 2), (None, 7, 1)],
    ),
    (
        IN_ANY_ORDER,
        [[(2, -0.0, 1), (1, 1.0, 1)], [(None, 7.0, 1), (2, None, 2), (2, 0.0, 4), (1, 0.0, 1)]],
        [(1, 0.0, 1), (1, 1.0, 1), (2, 0.0, 5), (2, None, 2), (None, 7.0, 1)],
    ),
    (
        AddInLists(),
        [[([3, 1], [10, 20], [1, -1])], [(None, None, None)], [([3, -1], [5, 6], [0, 2])]],
        [([-1, 1, 3], [6, 20, 15], [2, -1, 1])],
    ),
    (AddInLists(), [[(None, None)], [(None, None)]], [(None, None)]),
    (Gather(), [[(1, 2.5)], [], [(1, 2.5), (0, 0.0)]], [(1, 2.5), (1, 2.5), (0, 0.0)]),
]
N = 7654321  # a figure of private rows
REFUSED: list[tuple[Parts, list[list[tuple[Any, ...]]]]] = [
    *(
        (kind, []) for kind in (Add(), BY_NAME, IN_ANY_ORDER, AddInLists(), Gather())
    ),  # the empty table's rows come from a part too
    (Add(), [[(N,)], []]),
    (Add(), [[(N,), (N,)]]),
    (Add(), [[(N,)], [(N, N)]]),
    *((Add(), [[(value,)], [(N,)]]) for value in (N + 0.5, True, str(N), [N])),
    (BY_NAME, [[("b", N), ("a", N)]]),
    (BY_NAME, [[("a", N)], [(None, N), ("b", N)]]),
    (BY_NAME, [[("a", N)], [("a", N, N)]]),
    (BY_NAME, [[("a", N + 0.5)], [("b", N)]]),
    (BY_TWO, [[(2, 1, N), (1, 1, N)]]),
    (IN_ANY_ORDER, [[(2, 1, N)], [(2, 1, N, N)]]),
    (AddInLists(), [[([N], [N])], [([N], [N], [N])]]),
    (AddInLists(), [[([N], [N])], []]),
    (OfAllRows("a rank"), [[(N,)]]),
]


@pytest.mark.parametrize(("kind", "parts", "whole"), COMBINED)
def test_parts_combine(kind: Parts, parts: list[list[tuple[Any, ...]]], whole: list[tuple[Any, ...]]) -> None:
    query = PrivateQuery(sql="", parts=kind)
    found = list(query.combine(parts))
    assert repr(found) == repr(whole)
    assert list(query.combine([found])) == found


@pytest.mark.parametrize(("kind", "parts"), REFUSED)
def test_what_is_no_part_is_refused_without_a_word_of_it(kind: Parts, parts: list[list[tuple[Any, ...]]]) -> None:
    with pytest.raises(InternalError) as caught:
        list(kind.combine(parts))
    assert str(N) not in str(caught.value)


def test_keyed_rows_are_combined_as_they_come() -> None:
    """Open keys are as many as the data has: no part is held in memory."""
    taken: list[int] = []

    def part(first: int) -> Any:
        for k in range(first, 10**6, 2):
            taken.append(k)
            yield (k, 1)

    combined = BY_NAME.combine([part(0), part(1)])
    assert [next(combined) for _ in range(5)] == [(k, 1) for k in range(5)]
    assert len(taken) < 12

"""The empty instance serves one caller at a time, and an interrupted one is not served for ever."""

from __future__ import annotations

import contextlib
import threading

from duckdp.catalog.table import Column, Kind
from duckdp.compiler import images
from duckdp.compiler.expression import ColumnRef
from tests.interruptions import interrupted, steps

WITHIN = ("compiler/images.py", "compiler/empty.py", "process", str(contextlib.__file__))
ATOM = ColumnRef(Column(name="a", source="", type="VARCHAR", kind=Kind.TEXT))


def image() -> tuple[object, ...]:
    images._image.cache_clear()
    return images.image(ATOM, {ATOM: ("a", "b")})


def test_an_interrupt_anywhere_leaves_the_instance_to_others() -> None:
    """The error keeps its traceback and all frames, as a shell does, and with them whatever they hold."""
    image()  # what is made on first use
    points = steps(image, WITHIN)
    assert points > 20
    kept, found = [], []
    for at in range(1, points + 1):
        kept.append(interrupted(image, at, WITHIN))
        other = threading.Thread(target=lambda: found.append(image()), daemon=True)
        other.start()
        other.join(60)
        assert len(found) == at, at
    assert set(found) == {("a", "b")}
    assert sum(error is not None for error in kept) > points // 2

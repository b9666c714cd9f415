"""Each dp function is declared once: what is generated from it is as it stands, and the methods are as it says."""

from __future__ import annotations

import inspect
from pathlib import Path

import pytest

from duckdp.faces import calls
from duckdp.functions import FUNCTIONS
from duckdp.functions.spec import REQUIRED
from duckdp.functions.write import generated
from duckdp.session import Session

ROOT = Path(__file__).parent.parent


@pytest.mark.parametrize("name", generated())
def test_what_is_generated_is_as_the_declarations_say(name: str) -> None:
    assert (ROOT / name).read_text(encoding="utf-8") == generated()[name], "run python -m duckdp.functions.write"


@pytest.mark.parametrize("name", FUNCTIONS)
def test_each_method_is_as_declared(name: str) -> None:
    """Names, order, defaults, and which may be given by place."""
    spec = FUNCTIONS[name]
    method = inspect.unwrap(getattr(Session, spec.method))
    found = list(inspect.signature(method).parameters.values())[1:]
    wanted = spec.of("python")
    assert [p.name for p in found] == [p.python for p in wanted]
    assert [REQUIRED if p.default is p.empty else p.default for p in found] == [p.default for p in wanted]
    assert [p.kind is p.POSITIONAL_OR_KEYWORD for p in found] == [p.placed for p in wanted]
    assert [type(p.default) for p in found if p.default is not p.empty] == [
        type(p.default) for p in wanted if p.default is not REQUIRED
    ]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_each_method_is_written_down(name: str) -> None:
    """With types, for people and type checkers."""
    method = inspect.unwrap(getattr(Session, FUNCTIONS[name].method))
    assert inspect.getsourcefile(method) in (calls.__file__, inspect.getsourcefile(Session))
    assert method.__code__.co_name == FUNCTIONS[name].method
    assert all(p.annotation is not p.empty for p in list(inspect.signature(method).parameters.values())[1:])
    assert method.__doc__

"""The drawn plan: its branches say what hangs on what, the parts of the cost add up, and no data shows in it."""

from __future__ import annotations

import random
import re

import pytest

from duckdp.compiler import drawn as drawn_module
from duckdp.compiler.describe import describe_plan
from duckdp.compiler.drawn import drawn
from tests.gate import clinic, plan_for


def depths(text: str) -> list[int]:
    """How deep each line hangs, read off its branches; a branch must come from a line above it."""
    found, above = [], ""
    for line in text.split("\n"):
        prefix = re.match(r"(?:│  |   )*(?:├─ |└─ )?", line)
        assert prefix is not None
        for at, sign in enumerate(prefix[0]):
            if sign in "│├└":  # its line goes on, or begins at the end of what it hangs on
                assert above[at : at + 1] in ("│", "├") or at // 3 == len(found) - 1 or at // 3 == found[-1]
        found.append(len(prefix[0]) // 3)
        above = prefix[0].ljust(300)
    return found


def trees() -> list[list[int]]:
    draw, found = random.Random(5), []
    for _ in range(200):
        tree = [0]
        for _ in range(draw.randint(0, 12)):
            tree.append(draw.randint(1, tree[-1] + 1))
        found.append(tree)
    return found


def test_branches_are_the_depths() -> None:
    for tree in trees():
        text = drawn([f"{'  ' * depth}x{i}" for i, depth in enumerate(tree)])
        assert depths(text) == tree
        lines = text.split("\n")
        for i, depth in enumerate(tree[1:], 1):  # the last of its parent's, and no other, is a corner
            after = next((d for d in tree[i + 1 :] if d <= depth), 0)
            assert lines[i][3 * depth - 3] == ("├" if after == depth else "└")


def test_a_twin_that_draws_no_last_branch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drawn_module, "_goes_on", lambda *_: True)
    with pytest.raises(AssertionError):
        test_branches_are_the_depths()


def test_what_was_typed_is_on_one_line() -> None:
    plan = plan_for("SELECT count(*) FROM clinic WHERE name = 'a\n└─ free'", clinic())
    assert len(drawn(describe_plan(plan)).split("\n")) == len(describe_plan(plan))


@pytest.mark.parametrize("mechanism", ["laplace", "gaussian"])
def test_the_parts_of_the_cost_add_up(mechanism: str) -> None:
    text = "SELECT sum(cost), median(age), count(DISTINCT pid) FROM clinic ORDER BY 1 LIMIT 3"
    lines = describe_plan(plan_for(text, clinic(), mechanism=mechanism))
    parts = [int(part) for line in lines for part in re.findall(r"(\d+)% of the cost", line)]
    assert len(parts) == 3 and 98 <= sum(parts) <= 101
    assert lines[-1] == "  then, free: ORDER BY, LIMIT of released figures"

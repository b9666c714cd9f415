"""What leaves follows the data through noise alone: with every noisy number held, all tables release the same bytes.

Each draw of noise, where it is added to an exact number, gives a public figure of its own in place of the sum, and
choices take a fixed place. Whatever still differs between tables that have nothing in common, in the release or in the
output of a stage, has gone past the noise: an exact count, a degree that follows from it, a cell that is noised only
where it is occupied. (Quantiles are not among these: their noise is scaled by the data, and is looked at in
mechanisms/test_smooth_sensitivity.py.)

And one draw is for one number: two numbers that share a draw give their difference away.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import duckdp
from duckdp.compiler.edges import SpanningTreeTask
from duckdp.compiler.per_unit import PerUnitTask
from duckdp.compiler.quantile import QuantileTask
from duckdp.compiler.release import SelectTask
from duckdp.compiler.smooth_quantiles import SmoothQuantilesTask
from duckdp.core.types import Neighbours
from duckdp.mechanisms import (
    additive,
    candidate_quantiles,
    exponential_quantiles,
    heavy_hitters,
    mwem,
    small_database,
    sparse_vector,
    top_k,
)
from duckdp.mechanisms.block_median import BlockMedian
from duckdp.mechanisms.center_of_attention import CenterOfAttention
from duckdp.mechanisms.center_of_vectors import CenterOfVectors
from duckdp.smooth.buy import counted
from duckdp.synthetic.moments.buy import strongest as best
from duckdp.synthetic.tree.buy import counts as tree_counts
from duckdp.synthetic.tree.buy import grow as tree
from duckdp.synthetic.tree.buy import products as tree_products
from duckdp.synthetic.tree.buy import resumed
from tests.gate import COLUMNS, clinic, plan_for
from tests.privacy.draws import LOW, REPLACE, ROWS, SLOW, TASKS, Case, Seen, connect, observe, tables
from tests.privacy.test_draws import _case
from tests.privacy.test_losses import _holder

SOME = "SELECT count(*), count(*) FILTER (WHERE smoker), count(score), avg(income) FILTER (WHERE age > 30) FROM clinic"
VIEW = clinic(unit_key=None, filter="smoker", base=COLUMNS)
#: Beside the usual ones: counts that only some rows enter, where the number of rows is public.
MORE = [
    (SelectTask, Case(name, lambda text=text, table=table: SelectTask(plan=plan_for(text, table, neighbours=REPLACE))))
    for name, text, table in (
        ("some rows of all", SOME, ROWS),
        ("rows by a predicate", f"{SOME} WHERE visits > 0", ROWS),
        ("rows by a key", "SELECT smoker, count(*), avg(income) FROM clinic GROUP BY smoker", ROWS),
        ("rows of a view", "SELECT count(*), avg(income) FROM clinic", VIEW),
    )
]
SCALED = (QuantileTask, SmoothQuantilesTask, SpanningTreeTask)
CASES = MORE + [(kind, case) for kind, cases in TASKS.items() for case in cases if kind not in SCALED]
PARAMETERS = [
    pytest.param(c, id=f"{k.__name__}-{c.name}", marks=[pytest.mark.slow] if c.name in SLOW else []) for k, c in CASES
]
NOISES = ("laplace_noise", "gaussian_noise", "cube_noise")
#: Modules whose noise is let alone: the samplers, and noise that the data scale (SCALED).
LEFT = {"duckdp.core.noise", "duckdp.mechanisms.cube", "duckdp.mechanisms.scale_bound", "duckdp.compiler.edges"}
PACKAGE = Path(duckdp.__file__).parent


def _noisy_modules() -> list[ModuleType]:
    """All that take noise by name, read off their texts: a stage that is new is among them."""
    paths = [p for p in PACKAGE.rglob("*.py") if "bench" not in p.parts and any(n in p.read_text() for n in NOISES)]
    names = {".".join(("duckdp", *p.relative_to(PACKAGE).with_suffix("").parts)) for p in paths}
    assert names > LEFT
    return [import_module(name) for name in sorted(names - LEFT)]


MODULES = _noisy_modules()
Held = list["Figure"]


class Figure(int):
    """A draw that gives a public figure of its own for whatever it is added to; it counts how often."""

    met: int

    def __radd__(self, exact: int) -> int:
        self.met += 1
        return int(self)


def _figures(count: int, scale: Any, held: Held) -> list[int]:
    rng = random.Random(len(held))  # other figures for every draw, of the size of the noise: all of them positive
    found = [Figure(abs(rng.gauss(0, 4)) * float(scale) + 20) for _ in range(count)]
    for figure in found:
        figure.met = 0
    held += found
    return list[int](found)


@contextmanager
def held_noise() -> Iterator[Held]:
    """Noise whose sums are public figures, in the order in which it is drawn."""
    held: Held = []
    with pytest.MonkeyPatch.context() as patch:
        for module in MODULES:
            for name in ("laplace_noise", "gaussian_noise"):
                if hasattr(module, name):
                    patch.setattr(module, name, lambda count, scale: _figures(count, scale, held))
            if hasattr(module, "cube_noise"):
                patch.setattr(module, "cube_noise", lambda size, rate: _figures(size, 1 / rate, held))
        # the threshold's noise meets every count by design, and none of them directly
        patch.setattr(sparse_vector.SparseVector, "begin", lambda _: 3)
        patch.setattr(sparse_vector, "geometric", lambda rate: _figures(1, 1 / rate, held)[0])
        patch.setattr(sparse_vector, "geometrics", lambda rate, count: _figures(count, 1 / rate, held))
        patch.setattr(BlockMedian, "release", lambda self, values: len(values))
        patch.setattr(CenterOfAttention, "release", lambda self, values: len(values))
        patch.setattr(CenterOfVectors, "release", lambda self, vectors: [len(vectors)] * self.size)
        # rows made of what was released, whose norm is a bound: of another draw each time
        patch.setattr(tree_products, "_SHORTEST", 10.0)
        # candidates are told by the ends of their part, which are public
        patch.setattr(exponential_quantiles, "_draw", lambda segments, last, *_: (segments[0][0] + last) // 2)
        for module, name in (
            (best, "choose_best"),
            (best, "choose_exponential"),
            (tree, "choose_exponential"),
            (mwem, "choose_exponential"),
            (top_k, "choose_best"),
            (candidate_quantiles, "choose_best"),
            (top_k, "choose_exponential"),
            (small_database, "choose_exponential"),
            (heavy_hitters, "choose_exponential"),
        ):
            patch.setattr(module, name, lambda scores, **_: len(scores) // 2)
        yield held


def released(case: Case, rows: Sequence[tuple[Any, ...]]) -> tuple[Seen, Held]:
    with connect(list(rows)) as con, held_noise() as held:
        seen = observe(case.make(), con)
    assert seen.failure is None, seen.failure
    return seen, held


def differences(case: Case) -> list[str]:
    """Where tables that have nothing in common, under REPLACE their number of rows, differ in what leaves."""
    task, found = case.make(), []
    known = tables()
    rows = [known["usual"], known["empty"], known["beyond row_cap"]]
    if not isinstance(task, PerUnitTask) and _holder(task, "neighbours").neighbours is Neighbours.REPLACE:
        rows = [known["usual"], known["extremes"][:300], [(i, *LOW) for i in range(300)]]
    first, *others = (released(case, part)[0] for part in rows)
    for other in others:
        if first.payload != other.payload:
            found.append("the release")
        found += [f"stage {i}" for i, (a, b) in enumerate(zip(first.outputs, other.outputs, strict=True)) if a != b]
    return found


@pytest.mark.parametrize("case", [p for p in PARAMETERS if not p.values[0].open_keys])  # type: ignore[attr-defined]
def test_what_leaves_follows_the_data_through_noise_alone(case: Case) -> None:
    assert differences(case) == []


@pytest.mark.parametrize("case", PARAMETERS)
def test_every_draw_is_for_one_number_and_the_order_on_the_disk_for_none(case: Case) -> None:
    """Drawn in vain is no harm where a bin may be missing; met twice is."""
    rows = tables()["usual"][:80]
    if case.open_keys:  # so many that they would come as they are found, not only as they hash
        rows = [(*row[:6], f"name {i}", *row[7:]) for i, row in enumerate(tables()["usual"])]
    (first, held), (again, _) = released(case, rows), released(case, rows[::-1])
    kind = type(case.make()).__name__
    chosen = (
        getattr(case.make(), "combination", "mean") != "mean"
        or "Choice" in kind
        or kind in ("QuantilesTask", "StepQuantileTask", "HeavyHittersTask")
    )
    assert held or chosen  # of which only the places chosen leave
    assert max((figure.met for figure in held), default=1) == 1
    # bins that there are not (bounds); what comes after the last hit, values of misses; nodes that two ways share
    spare = ("numbers", "dates", "of rows, replaced", "above", "stream", "weights", "counted quantiles")
    if held and not case.name.startswith(spare):
        assert min(figure.met for figure in held) == 1
    assert (first.payload, first.outputs) == (again.payload, again.outputs)


# ---- broken twins


def test_twin_that_stores_the_exact_count_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = tree_counts.measure

    def telling(tables: Any, purse: Any, share: Any, read: Any) -> Any:
        purse.rows = float(read(tables).sum())
        return plain(tables, purse, share, read)

    monkeypatch.setattr(resumed, "measure", telling)
    assert differences(_case("TreeTask", "tree, gaussian, target"))


def test_twin_whose_degree_is_that_of_the_exact_count_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = counted.CountedTask._noised
    monkeypatch.setattr(counted.CountedTask, "_noised", lambda self, exact, _: plain(self, exact, exact[0] << 3))
    assert differences(_case("CountedTask", "large epsilon"))


def test_twin_that_noises_only_what_is_there_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = additive.add_noise
    monkeypatch.setattr(
        "duckdp.compiler.release.add_noise",
        lambda values, noise: [z if v else 0 for v, z in zip(values, plain(values, noise), strict=True)],
    )
    assert differences(_case("SelectTask", "public keys"))

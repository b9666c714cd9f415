"""k-means as a task: centres from noisy counts of cells, moved to noisy means of what is nearest, and counted.

Privacy:      the charge's epsilon, pure, for both relations: the sum of what the stages cost.
Proof sketch: a stage reads by cells or centres that are public or follow from stages before, whose outputs are
              released, so stages compose adaptively. A unit has at most u = max_rows rows in what is read
              (cluster_rows.py), or 1 where rows are units; r = u if it comes or goes, 2 u if it is replaced.
              Cells: each row is in one of them, so counts change by at most r in l1: Laplace noise of r / epsilon each
              (``additive``). Which cells are counted is public: all that lie within those that were kept before.
              Blocks: ``mechanisms/center_of_vectors.py`` with the matching distance, of the centres of blocks of units
              (cluster_blocks.py). Moves: ``mechanisms/cluster_means.py``. Counts: each row is nearest to one centre: as
              cells.
              What is made of released counts (which are kept, the first centres) is post-processing.
How it splits: 1/10 for the counts of the end; where moves are made, 3/10 for all of them; the rest for the cells,
              evenly over their levels. A cell's width w errs by w^2 / 12 a column, and a cell's noise hides clusters of
              few rows: cells in all of about (rows epsilon / 10)^(2 d / (d + 2)), the balance of both for histograms
              (Su, Cao, Li, Bertino, Jin, "Differentially private k-means clustering", CODASPY 2016, with its
              constant). One move follows where its noise is predicted to be below 1/20 of a column's half range:
              measured on mixtures, d = 2 .. 8, k = 5 .. 10, more moves never paid for what they take.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, partial
from typing import Any, Literal

import numpy as np

from duckdp.catalog.table import Column, Table, dump_table
from duckdp.compiler.cluster_blocks import print_block_centers
from duckdp.compiler.cluster_cells import Held, cell_bits, levels, point, within
from duckdp.compiler.cluster_rows import PLACES, SIDE, Center, ClusterRows, Cut, code_of
from duckdp.compiler.expression import show
from duckdp.core.accountant import pure_rho
from duckdp.core.errorbars import Noise, half_width
from duckdp.core.noise import laplace_scale
from duckdp.core.task import Stages, Work
from duckdp.core.types import NANO, Loss, Neighbours
from duckdp.errors import ParameterError
from duckdp.mechanisms.additive import add_noise
from duckdp.mechanisms.center_of_vectors import CenterOfVectors
from duckdp.mechanisms.cluster_means import ClusterMeans
from duckdp.mechanisms.weighted_kmeans import weighted_kmeans
from duckdp.result import Estimate

Start = Literal["cells", "public", "blocks"]
MOST_COLUMNS = 10  # coordinates: cells of more columns hold few rows each
MOST_CENTERS = 100  # of one question: distances to each are columns of its SQL
MOST_MOVES = 20  # of all centres: each is a private read
_KEPT = 256  # cells of a level within which the next one looks
_CLEAR = 0.7  # of noise times ln(cells): a cell counts as held from there on
_STEADY = 0.05  # of a half range: predicted noise of a mean, up to which a move pays
_LEAST = 8  # standard deviations of a cluster's count from which it is moved


@dataclass(frozen=True, kw_only=True)
class KMeansTask:
    """Planned k-means (core/task.py); the module says how and why.

    Attributes:
        rows: what is read.
        k: how many centres.
        start: "cells": from noisy counts of cells; "public": from places that depend on nothing; "blocks": from the
            centre of attention of the centres of blocks.
        moves: how often all centres are moved to noisy means.
        epsilon_nano: the charge, in 1e-9.
        neighbours: relation of the data set.
        blocks: how many, of that start.
    """

    rows: ClusterRows
    k: int
    start: Start
    moves: int
    epsilon_nano: int
    neighbours: Neighbours
    blocks: int = 0

    @property
    def table(self) -> Table:
        """The protected table that is read."""
        return self.rows.table

    @property
    def of_all_rows(self) -> bool:
        """Whether parts of the rows do not tell what is read: centres of blocks are moved over and over."""
        return self.start == "blocks"

    @property
    def columns(self) -> tuple[Column, ...]:
        """Columns of numbers, which are the coordinates of each centre."""
        return self.rows.columns

    @property
    def changed(self) -> int:
        """r: rows that come and go with a unit, at most."""
        return self.rows.unit * (1 if self.neighbours is Neighbours.ADD_REMOVE else 2)

    @property
    def canonical(self) -> str:
        """The question's identity: equal for equal questions, and for no others."""
        of = [dump_table(self.table), [c.name for c in self.columns], show(self.rows.where)]
        terms = [self.k, self.start, self.blocks, self.moves, self.epsilon_nano, self.neighbours.value]
        shares = [str(share) for share in self.shares]  # what counts and means are read by
        return json.dumps(["k-means", *of, *terms, [list(cut) for cut in self.cuts], shares])

    @cached_property
    def cuts(self) -> tuple[Cut, ...]:
        """Levels of cells, from coarse to fine; public."""
        if self.start != "cells":
            return ()
        rows = self.table.expected_rows or self.table.row_cap
        bits = cell_bits(rows * self._cell_share / self.changed, len(self.columns), self.k)
        return levels(bits, len(self.columns))

    @property
    def _cell_share(self) -> float:
        return self.epsilon_nano / NANO * (0.6 if self.moves else 0.9)

    @cached_property
    def shares(self) -> tuple[Fraction, Fraction, Fraction]:
        """Epsilon of a level of cells or of the blocks, of a move, and of the counts; 0 of what there is none of.

        Raises:
            ParameterError: P101, nothing is left for one.
        """
        counts = self.epsilon_nano // 10
        rest = self.epsilon_nano - counts
        if self.start == "public":
            cells, move = 0, rest // max(1, self.moves)
        else:
            move = 3 * self.epsilon_nano // 10 // self.moves if self.moves else 0
            cells = (rest - move * self.moves) // max(1, len(self.cuts))
        if counts == 0 or (self.start != "public" and cells == 0) or (self.moves and move == 0):
            raise ParameterError(
                "P101", "epsilon", self.epsilon_nano / NANO, "is too small to be shared by the stages."
            )
        return Fraction(cells, NANO), Fraction(move, NANO), Fraction(counts, NANO)

    @property
    def reads(self) -> int:
        """How many private reads, one a stage."""
        return len(self.cuts) + (self.start == "blocks") + self.moves + 1

    @property
    def loss(self) -> Loss:
        """What all stages cost together."""
        cells, move, counts = (int(share * NANO) for share in self.shares)
        rho = max(1, len(self.cuts)) * pure_rho(cells) + self.moves * pure_rho(move) + pure_rho(counts)
        return Loss(epsilon_nano=self.epsilon_nano, rho_pico=min(rho, pure_rho(self.epsilon_nano)))

    @property
    def mechanism(self) -> str:
        """The mechanisms of the stages, for the ledger."""
        first = {"cells": [], "public": [], "blocks": ["smooth_sensitivity_student"]}[self.start]
        return ", ".join([*first, *(["cube"] if self.moves else []), "laplace"])

    @property
    def parameters(self) -> dict[str, Any]:
        """Public parameters, for the ledger."""
        what = {"columns": [c.name for c in self.columns], "where": show(self.rows.where), "k": self.k}
        return {**what, "levels": [list(cut) for cut in self.cuts], "blocks": self.blocks, "moves": self.moves}

    @cached_property
    def means(self) -> ClusterMeans:
        """What moves the centres, once."""
        return ClusterMeans(epsilon=self.shares[1], rows=self.changed, size=len(self.columns), side=SIDE)

    @cached_property
    def attention(self) -> CenterOfVectors:
        """What combines the centres of blocks."""
        return CenterOfVectors(
            epsilon_nano=int(self.shares[0] * NANO),
            changed=1 if self.neighbours is Neighbours.ADD_REMOVE else 2,
            cells=SIDE,
            size=self.k * len(self.columns),
            points=self.k,
        )

    @cached_property
    def cell_noise(self) -> Noise:
        """Law of the noise on the counts of cells, in rows."""
        return Noise("laplace", laplace_scale(self.shares[0], self.changed))

    @cached_property
    def count_noise(self) -> Noise:
        """Law of the noise on the counts of the end, in rows."""
        return Noise("laplace", laplace_scale(self.shares[2], self.changed))

    def require(self) -> None:
        """Nothing, if there is noise for every stage.

        Raises:
            ParameterError: P101, P103.
        """
        _ = self.count_noise.scale
        if self.cuts:
            _ = self.cell_noise.scale
        if self.start == "blocks":
            _ = self.attention.alpha
        if self.moves:
            _ = self.means.rate

    def describe(self) -> list[str]:
        """Lines of ``explain``; from public figures."""
        lines = []
        if self.cuts:
            cells = ", then ".join(f"{2 ** max(cut)} parts a column" for cut in self.cuts)
            lines.append(
                f"cells: {cells}, counts with noise of scale {self.cell_noise.scale:.4g}; centres of those held"
            )
        elif self.blocks:
            lines.append(f"blocks: {self.blocks:,}, k-means of each; the centre of attention of their centres")
        else:
            lines.append("centres begin at places that depend on nothing")
        if self.moves:
            lines.append(
                f"moves: {self.moves}, to noisy means; noise of {self.means.standard_error:.4g} rows on each count, "
                "and as many half ranges on sums"
            )
        lines.append(f"counts: noise of scale {self.count_noise.scale:.4g}, ± {half_width(self.count_noise):,} (95%)")
        return lines

    def work(self, salt: int) -> Work:
        """A stage for each level or for the blocks, each move, and the counts."""
        self.rows.counts(self.public_centers, salt)  # what cannot be printed is refused now
        self.require()

        def run(stages: Stages) -> str:
            centers, held = self.public_centers, [Held(cell=(0,) * len(self.columns), rows=0)]
            points: list[tuple[list[float], int]] = []
            coarser: Cut = (0,) * len(self.columns)
            for cut in self.cuts:
                inner = within([one.cell for one in held], coarser, cut)
                told = json.loads(stages.run(partial(self._cells, stages, salt, cut, coarser, held, inner)))
                points += self._left(held, told, len(inner) // len(held), coarser)
                held, coarser = [Held(cell=inner[i], rows=rows) for i, rows in told], cut
            if self.cuts:
                centers = self._first([*points, *(point(one, coarser) for one in held)])
            if self.start == "blocks":
                centers = json.loads(stages.run(partial(self._of_blocks, stages, salt)))
            sums: list[list[int]] = []
            for _ in range(self.moves):
                sums = json.loads(stages.run(partial(self._sums, stages, salt, centers)))
                centers = self._moved(centers, sums)
            return stages.last(lambda: self._payload(centers, sums, stages, salt))

        return run

    @cached_property
    def public_centers(self) -> list[list[int]]:
        """Places that fill the box evenly, whatever the data: multiples of irrational numbers, by column.

        (Roberts' sequence: the powers of the root of x^(d + 1) = x + 1.)
        """
        d, root = len(self.columns), 2.0
        for _ in range(64):
            root = (1 + root) ** (1 / (d + 1))
        return [[int((0.5 + (j + 1) / root ** (i + 1)) % 1.0 * PLACES) for i in range(d)] for j in range(self.k)]

    def read(self, payload: str) -> tuple[list[list[Estimate]], list[Estimate]]:
        """Centres, by coordinate, and counts, the largest first."""
        raw = json.loads(payload)
        width = half_width(self.count_noise)
        error = math.sqrt(self.count_noise.variance())
        order = sorted(range(self.k), key=lambda j: (-raw["counts"][j], raw["centers"][j]))
        centers, counts = [], []
        for j in order:
            sums, count = raw["sums"][j] if raw["sums"] else None, raw["counts"][j]
            centers.append([self._coordinate(i, place, sums) for i, place in enumerate(raw["centers"][j])])
            low, high = max(0, count - width), max(0, count + width)
            counts.append(Estimate(value=count, standard_error=error, low=low, high=high))
        return centers, counts

    def _coordinate(self, i: int, place: int, noisy: Sequence[int] | None) -> Estimate:
        """A centre's coordinate, with the interval of the mean that it was moved to last."""
        value = self.rows.value(i, place)
        if noisy is None:
            return Estimate(value=value)
        low, high = (self.rows.value(i, end) for end in self._intervals(noisy)[i])
        span, error = self.columns[i].interval, self.means.standard_errors(noisy)
        half = (span.upper - span.lower) / 2
        told = None if error is None else error[i] * half
        return Estimate(value=value, standard_error=told, low=min(low, value), high=max(high, value), exact=False)

    def _intervals(self, noisy: Sequence[int]) -> list[tuple[float, float]]:
        """Places between which the exact means lie, half a place of rounding included."""
        found = self.means.interval(noisy)
        return [((low + 1) / 2 * SIDE - 1, (high + 1) / 2 * SIDE + 1) for low, high in found]

    def _cells(
        self, stages: Stages, salt: int, cut: Cut, coarser: Cut, known: Sequence[Held], inner: Sequence[Center]
    ) -> str:
        """Which of the cells ``inner`` are held, and their noisy counts."""
        query = self.rows.cells(cut, coarser, [code_of(one.cell, coarser) for one in known], salt)
        counted = {int(code): int(rows) for code, rows in stages.read(query)}
        noisy = add_noise([counted.get(code_of(cell, cut), 0) for cell in inner], self.cell_noise)
        return json.dumps(self._held(noisy, last=cut == self.cuts[-1]))

    def _held(self, noisy: Sequence[int], *, last: bool) -> list[tuple[int, int]]:
        """Cells whose noisy counts are clear of noise, the largest first; at least one."""
        least = self.cell_noise.scale * math.log(max(2, len(noisy))) * (_CLEAR if last else 1.0)
        order = sorted(range(len(noisy)), key=lambda i: (-noisy[i], i))
        kept = [i for i in order if noisy[i] > least] or order[:1]
        return [(i, max(1, noisy[i])) for i in (kept if last else kept[:_KEPT])]

    def _left(
        self, held: Sequence[Held], told: Sequence[Sequence[int]], each: int, cut: Cut
    ) -> list[tuple[list[float], int]]:
        """Cells with more rows than those within them that were held: points of what is left, where it is clear."""
        left = [one.rows for one in held]
        for i, rows in told:
            left[i // each] -= rows
        least = self.cell_noise.scale * math.log(max(2, len(held)))
        return [point(Held(cell=one.cell, rows=n), cut) for one, n in zip(held, left, strict=True) if n > least]

    def _first(self, points: Sequence[tuple[list[float], int]]) -> list[list[int]]:
        """Centres of points with weights; places that depend on nothing, where there are too few points."""
        k = min(self.k, len(points))
        found = weighted_kmeans(np.array([at for at, _ in points]), np.array([float(rows) for _, rows in points]), k)
        return [[min(max(int(x), 0), SIDE) for x in center] for center in found] + self.public_centers[k:]

    def _of_blocks(self, stages: Stages, salt: int) -> str:
        """The centre of attention of the centres of blocks."""
        sets = [[place for center in self.public_centers for place in center]] * self.blocks
        for block, *places in stages.read(print_block_centers(self.rows, self.public_centers, self.blocks, salt)):
            if 0 <= block < self.blocks:
                sets[block] = [min(max(int(place), 0), SIDE) for place in places]
        found, each = self.attention.release(sets), len(self.columns)
        return json.dumps([found[i : i + each] for i in range(0, len(found), each)])

    def _sums(self, stages: Stages, salt: int, centers: Sequence[Center]) -> str:
        """Noisy rows and sums of what is nearest to each centre."""
        exact = [[0] * (1 + len(self.columns)) for _ in centers]
        for near, *figures in stages.read(self.rows.sums(centers, salt)):
            if 0 <= near < self.k:
                exact[near] = [int(figure) for figure in figures]
        return json.dumps(self.means.release(exact))

    def _moved(self, centers: Sequence[Center], noisy: Sequence[Sequence[int]]) -> list[list[int]]:
        moved = []
        for center, figures in zip(centers, noisy, strict=True):
            mean = self.means.mean(figures, _LEAST)
            places = center if mean is None else [math.floor((v + 1) / 2 * SIDE + 0.5) for v in mean]
            moved.append([min(max(int(place), 0), SIDE) for place in places])
        return moved

    def _payload(self, centers: Sequence[Center], sums: Sequence[Sequence[int]], stages: Stages, salt: int) -> str:
        """Centres with the noisy counts of what is nearest to them, and what they were moved by last."""
        exact = [0] * self.k
        for near, rows in stages.read(self.rows.counts(centers, salt)):
            if 0 <= near < self.k:
                exact[near] = int(rows)
        counts = add_noise(exact, self.count_noise)
        return json.dumps({"centers": [list(c) for c in centers], "counts": counts, "sums": [list(s) for s in sums]})


def steady_moves(rows: float, columns: int, k: int, epsilon: float, changed: int) -> int:
    """1 where the noise of a move is predicted to be small beside what it mends, else 0; from public figures."""
    error = math.sqrt((columns + 2) * (columns + 3) / 3) * changed / (0.3 * epsilon)
    return int(error * k <= _STEADY * rows)

"""Faults in k-means: a unit changes more than is noised, a stage is free, what is exact is told, two questions are one."""

from __future__ import annotations

from tests.mutants.mutant import Mutant, losses

_TASK, _ROWS, _BLOCKS = (f"duckdp/compiler/{name}.py" for name in ("kmeans", "cluster_rows", "cluster_blocks"))
_MEANS, _CENTER = (f"duckdp/mechanisms/{name}.py" for name in ("cluster_means", "center_of_vectors"))
_T, _T_MEANS = ("tests/test_kmeans.py",), ("tests/mechanisms/test_cluster_means.py",)
_T_CENTER = ("tests/mechanisms/test_center_of_vectors.py",)
_T_IDENTITIES = ("tests/privacy/test_identities.py",)
_T_ALONE = ("tests/privacy/test_noise_alone.py",)
_T_LOSSES = losses("centres of units", "centres of rows, replaced", "centres that are moved")

CLUSTERS: tuple[Mutant, ...] = (
    Mutant(
        "k-means: a replaced unit is one",
        _TASK,
        "return self.rows.unit * (1 if self.neighbours is Neighbours.ADD_REMOVE else 2)",
        "return self.rows.unit",
        (*_T_LOSSES, *_T),
    ),
    Mutant("k-means: rows of a unit are one", _TASK, "return self.rows.unit * (1 if", "return (1 if", _T_LOSSES),
    Mutant(
        "k-means: counts of cells without noise",
        _TASK,
        "noisy = add_noise([counted.get(code_of(cell, cut), 0) for cell in inner], self.cell_noise)",
        "noisy = [counted.get(code_of(cell, cut), 0) for cell in inner]",
        (*_T_ALONE, *_T_LOSSES),
    ),
    Mutant(
        "k-means: counts of the end without noise",
        _TASK,
        "counts = add_noise(exact, self.count_noise)",
        "counts = exact",
        (*_T_ALONE, *_T_LOSSES),
    ),
    Mutant(
        "k-means: every move takes all moves' share",
        _TASK,
        "move = 3 * self.epsilon_nano // 10 // self.moves if self.moves else 0",
        "move = 3 * self.epsilon_nano // 10 if self.moves else 0",
        _T,
    ),
    Mutant(
        "k-means: the counts are free",
        _TASK,
        "rest = self.epsilon_nano - counts",
        "rest = self.epsilon_nano",
        (*_T_LOSSES, *_T),
    ),
    Mutant(
        "k-means: places that are none of its centres",
        _TASK,
        "            if 0 <= near < self.k:\n                exact[near] = int(rows)",
        "            exact[near] = int(rows)",
        _T,
    ),
    Mutant(
        "k-means: how often centres move is not of its identity",
        _TASK,
        # its shares follow from that too
        "self.moves, self.epsilon_nano, self.neighbours.value]\n        shares = [str(share) for share in self.shares]",
        "self.epsilon_nano, self.neighbours.value]\n        shares = list[str]()",
        _T_IDENTITIES,
    ),
    Mutant(
        "k-means: all rows of a unit count",
        _ROWS,
        "        if keyed and not unit:\n",
        "        if keyed and not unit and not self.names:\n",
        (*_T_LOSSES, *_T),
    ),
    Mutant("k-means: NULL is the least place", _ROWS, 'f"{value} IS NOT NULL" for', 'f"TRUE" for', _T),
    Mutant(
        "k-means: rows of a unit in any block", _BLOCKS, "print_block(f'q.{UNIT}', salt", "print_block(listed, salt", _T
    ),
    Mutant(
        "cluster means: one row of a unit",
        _MEANS,
        "self.rows * self.side, self.size + 1)",
        "self.side, self.size + 1)",
        _T_MEANS,
    ),
    Mutant(
        "cluster means: the count is no coordinate",
        _MEANS,
        "(self.side * rows, *sums)",
        "(rows, *sums)",
        (f"{_T_MEANS[0]}::test_what_is_noised_is_side_times_the_rows_and_the_sums",),
    ),
    Mutant(
        "cluster means: an interval of half the noise",
        _MEANS,
        "q = self.reach(level)",
        "q = self.reach(level) // 2",
        _T_MEANS,
    ),
    Mutant(
        "vectors: balls that need not meet",
        _CENTER,
        "inner = (most + step) // 2 + 1",
        "inner = (most + step) // 2",
        _T_CENTER,
    ),
    Mutant(
        "vectors: the least radius of all",
        _CENTER,
        "held, place = inner + k * step, k * step",
        "held, place = inner + k * step, 0",
        _T_CENTER,
    ),
    Mutant(
        "vectors: both balls as small as one's own", _CENTER, "* (near + far) for", "* (near + near) for", _T_CENTER
    ),
    Mutant("vectors: widths as of one number", _CENTER, "/ (4 * self.size - 1)", "/ 3", _T_CENTER),
    Mutant(
        "vectors: shifts as of one number", _CENTER, "- 2 * (self.size - 1) * self.beta", "- 0 * self.beta", _T_CENTER
    ),
    Mutant(
        "vectors: sets in the order of the centre's",
        _CENTER,
        "for point in sorted(noisy[i",
        "for point in list(noisy[i",
        _T_CENTER,
    ),
)

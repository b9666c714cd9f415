"""The planted faults, by what they would break."""

from __future__ import annotations

from tests.mutants.mutant import Mutant
from tests.mutants.of_blocks import BLOCKS
from tests.mutants.of_choices import CHOICES
from tests.mutants.of_clusters import CLUSTERS
from tests.mutants.of_gate import GATE
from tests.mutants.of_hostile import HOSTILE
from tests.mutants.of_kernels import KERNELS
from tests.mutants.of_ledger import LEDGER
from tests.mutants.of_limits import LIMITS
from tests.mutants.of_local import LOCAL
from tests.mutants.of_mechanisms import MECHANISMS
from tests.mutants.of_moments import MOMENTS
from tests.mutants.of_mwem import MWEM
from tests.mutants.of_nothing import EQUIVALENT
from tests.mutants.of_numerics import NUMERICS
from tests.mutants.of_order import ORDER
from tests.mutants.of_outer import OUTER
from tests.mutants.of_pages import PAGES
from tests.mutants.of_quantiles import QUANTILES
from tests.mutants.of_ranges import RANGES
from tests.mutants.of_reads import READS
from tests.mutants.of_served import SERVED
from tests.mutants.of_shares import SHARES
from tests.mutants.of_smooth import SMOOTH
from tests.mutants.of_sparse import SPARSE
from tests.mutants.of_statements import STATEMENTS
from tests.mutants.of_told_keys import TOLD_KEYS
from tests.mutants.of_units import UNITS
from tests.mutants.of_weights import WEIGHTS

LISTS: dict[str, tuple[Mutant, ...]] = {
    "mechanisms": MECHANISMS,
    "reads": READS,
    "ledger": LEDGER,
    "limits": LIMITS,
    "served": SERVED,
    "units": UNITS,
    "gate": GATE,
    "outer": OUTER,
    "numerics": NUMERICS,
    "hostile": HOSTILE,
    "statements": STATEMENTS,
    "order": ORDER,
    "choices": CHOICES,
    "blocks": BLOCKS,
    "clusters": CLUSTERS,
    "sparse": SPARSE,
    "quantiles": QUANTILES,
    "smooth": SMOOTH,
    "local": LOCAL,
    "kernels": KERNELS,
    "weights": WEIGHTS,
    "mwem": MWEM,
    "moments": MOMENTS,
    "ranges": RANGES,
    "shares": SHARES,
    "pages": PAGES,
    "told keys": TOLD_KEYS,
}
MUTANTS: tuple[Mutant, ...] = tuple(mutant for mutants in LISTS.values() for mutant in mutants)


__all__ = ["EQUIVALENT", "LISTS", "MUTANTS"]

"""The persistent ledger: budgets, charges and releases of one data set, in one SQLite file.

::

    ledger.py    Ledger, the whole interface; each method is one transaction (granting.py, holding.py, keeping.py)
    charges.py   T  admit, redeem, release          budgets.py  T  the total, freeze, revoke
    limits.py    T  what a charge must fit          caps.py     T  of analysts, teams and months
    interactions.py  T  releases question by question, and their secrets
    reservations.py  T  headroom that is held       standing.py    what is left
    objects.py      declarations, source, names     chain.py    T  hash chain, verification at opening
    store.py     T  SQLite, transactions, errors    anchor.py   T  the head of the chain in a second file
    holders.py      who is still working            files.py       where the file lies
    locks.py        of charges, by the kernel
    backups.py      copies                          looks.py        of the owner at exact figures
    tx.py, types.py

A charge is on the disk before the data is read; a release is on the disk before it leaves.
"""

from duckdp.core.steps import StoredStep
from duckdp.ledger.holders import Claim
from duckdp.ledger.ledger import Ledger
from duckdp.ledger.types import (
    AnalystState,
    Cap,
    Charge,
    ChargeRequest,
    ChargeRow,
    DataSetState,
    DeclarationRow,
    Event,
    LimitRow,
    ObjectRow,
    Remaining,
    Reservation,
    Review,
    StoredRelease,
    TeamState,
)

__all__ = [
    "AnalystState",
    "Cap",
    "Charge",
    "ChargeRequest",
    "ChargeRow",
    "Claim",
    "DataSetState",
    "DeclarationRow",
    "Event",
    "Ledger",
    "LimitRow",
    "ObjectRow",
    "Remaining",
    "Reservation",
    "Review",
    "StoredRelease",
    "StoredStep",
    "TeamState",
]

"""The suite of tests/test_limits.py, on a server, where an edit is made by an intruder with all rights."""

import pytest

from duckdp.ledger import Ledger
from tests.ledgers import NANO, answer, ask, refused
from tests.test_limits import *  # noqa: F403
from tests.test_limits import EDITS, cap

pytestmark = [pytest.mark.usefixtures("served"), pytest.mark.slow]


@pytest.mark.parametrize("edit", EDITS)
def test_an_edit_is_refused_where_it_matters_and_found_by_verify(ledger, server, edit):
    ledger.set_team("lab", cap(8, 3), members=["ana", "ben"])
    ledger.grant("ana", epsilon_nano=10 * NANO, delta_atto=10**12, month_epsilon_nano=3 * NANO)
    held = ledger.reserve("ana", epsilon_nano=NANO, delta_atto=0)
    answer(ledger, ask("a", 2 * NANO))
    ledger.verify()
    with server.connect() as intruder:
        intruder.execute(f"SET search_path = {ledger.path.rpartition('=')[2]}; SET session_replication_role = replica")
        intruder.execute(edit)
    with refused("B202"):
        ledger.verify()
    # A curator that is open goes on from the rows that it holds, until somebody writes; whoever opens it reads them.
    with refused("B202"), Ledger.open(ledger.path, create=False) as again:
        again.admit(ask("b", 0))
    assert held

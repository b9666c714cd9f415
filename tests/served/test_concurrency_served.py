"""The suite of tests/test_ledger_concurrency.py, on a server, but for what is of files alone."""

import pytest

from tests.test_ledger_concurrency import *  # noqa: F403

pytestmark = [pytest.mark.usefixtures("served"), pytest.mark.slow]

# A child may open the ledger anew, who makes one gives its anchor, and locks are others: see test_faults_served.py.
del test_a_child_of_a_fork_uses_nothing_of_its_parents_ledger  # noqa: F821
del test_many_processes_may_create_the_same_ledger  # noqa: F821
del test_a_busy_ledger_says_so  # noqa: F821

"""The suite of tests/test_ledger_holders.py, on a server, but for what is of files alone."""

import pytest

from tests.test_ledger_holders import *  # noqa: F403

pytestmark = [pytest.mark.usefixtures("served"), pytest.mark.slow]

# There is no file of locks.
del test_the_file_of_locks_never_grows_and_is_nobody_elses  # noqa: F821
del test_a_lost_file_of_locks_is_made_anew  # noqa: F821
del test_a_file_of_locks_that_cannot_be_opened_is_a_coded_error_before_any_charge  # noqa: F821
del test_without_such_locks_the_life_of_the_process_decides  # noqa: F821
del test_a_lock_is_seen_by_other_processes_until_it_is_free  # noqa: F821

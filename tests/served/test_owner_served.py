"""The suite of tests/test_ledger_owner.py, on a server, but for what is of files alone."""

import pytest

from tests.test_ledger_owner import *  # noqa: F403

pytestmark = [pytest.mark.usefixtures("served"), pytest.mark.slow]

# There is no file, and no PRAGMA; what a server is checked for is in test_curators.py.
del test_files_are_for_the_owner_only  # noqa: F821
del test_what_cannot_be_made_is_told_by_its_own_name  # noqa: F821
del test_a_writer_that_connects_anew_writes_as_before  # noqa: F821
del test_closing_leaves_one_whole_file  # noqa: F821
del test_one_name_for_one_ledger  # noqa: F821
# No older version was ever on a server.
del test_a_new_version_of_the_schema_is_reached_step_by_step  # noqa: F821
del test_ledgers_of_older_versions_are_opened_and_their_answers_stay_free  # noqa: F821
# Its anchor is always a given one, by which a backup is known to be whole: nothing is charged as lost. Backups of
# ledgers on a server are in test_curators.py.
del test_a_backup_is_whole_and_answers_nothing_until_it_is_needed  # noqa: F821
del test_nobody_is_called_as_what_was_lost_is  # noqa: F821

"""The suite of tests/test_interactive.py, on a server, but for what is of files alone."""

import pytest

from tests.test_interactive import *  # noqa: F403

pytestmark = [pytest.mark.usefixtures("served"), pytest.mark.slow]

# These name the file in other processes.
del test_an_edit_is_refused_and_found_by_verify  # noqa: F821
del test_killed_processes_leave_one_threshold_and_one_answer_each  # noqa: F821
del test_killed_at_every_point  # noqa: F821

"""The suite of tests/test_limits_model.py, on a server."""

import pytest
from hypothesis import settings
from hypothesis.stateful import run_state_machine_as_test

from tests.test_limits_model import *  # noqa: F403
from tests.test_limits_model import Limits

pytestmark = [pytest.mark.usefixtures("served"), pytest.mark.slow]

_HISTORIES = (
    60  # a fifth of those in a file: each step is a hundred messages, and 300 took over an hour beside other work
)


def test_limits_for_long() -> None:
    run_state_machine_as_test(
        Limits, settings=settings(max_examples=_HISTORIES, stateful_step_count=40, deadline=None, database=None)
    )

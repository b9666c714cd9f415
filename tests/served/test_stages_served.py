"""The suite of tests/test_stages.py, on a server, but for what is of files alone."""

import pytest

from tests.test_stages import *  # noqa: F403

pytestmark = [pytest.mark.usefixtures("served"), pytest.mark.slow]

"""The suite of tests/test_stages.py, on a server."""

import pytest

from tests.test_stages import *  # noqa: F403

pytestmark = [pytest.mark.usefixtures("served"), pytest.mark.slow]

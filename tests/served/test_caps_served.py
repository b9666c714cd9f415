"""The suite of tests/test_caps.py, on a server."""

import pytest

from tests.test_caps import *  # noqa: F403

pytestmark = [pytest.mark.usefixtures("served"), pytest.mark.slow]

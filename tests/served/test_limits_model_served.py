"""The suite of tests/test_limits_model.py, on a server."""

import pytest

from tests.test_limits_model import *  # noqa: F403

pytestmark = [pytest.mark.usefixtures("served"), pytest.mark.slow]

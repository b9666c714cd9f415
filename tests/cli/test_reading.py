"""A person at a terminal sees how far reading a new source is."""

from __future__ import annotations

import pytest

from duckdp.cli.common import say_reading
from duckdp.vault.decoding import READING


def test_progress_goes_to_stderr_and_is_overwritten(capsys: pytest.CaptureFixture[str]) -> None:
    say_reading(READING, 0.255)
    say_reading("sampling", 0.5)
    out, err = capsys.readouterr()
    assert (out, err) == ("", "reading the source:  26%, Ctrl-C ends it\r")

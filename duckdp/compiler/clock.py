"""The day on which a statement is read: what now() and current_date mean in it, whatever the hour."""

from __future__ import annotations

import datetime as dt


def today() -> dt.date:
    """Today's date in UTC. A statement that names it is another question each day, and the same all day long."""
    return dt.datetime.now(dt.UTC).date()

"""Who has come and not yet logged in: how many there may be, from where, and for how long.

Strangers hold no more than half of the server's connections. Where that half is full, whoever has come next takes the
place of the one who has waited longest, once that one has had its seconds; and no address holds more than a share of
the places; one of IPv6 stands for its /64, which one host has whole. So who knows a password is let in while somebody
without one holds the door.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from ipaddress import IPv6Address, ip_address

PATIENCE = 15.0  # seconds until somebody has logged in
BUSY_PATIENCE = 2.0  # seconds after which a stranger's place may be taken by the next one, where all are taken
LEAST_EACH = 8  # places that one address may hold, however few there are
_HOST_BITS = 64  # of an address of IPv6, which its host chooses as it likes


def origin(address: str) -> str:
    """Whose an address is: of IPv6 all that one host may take are one."""
    try:
        found = ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if not isinstance(found, IPv6Address):
        return str(found)
    return str(found.ipv4_mapped or IPv6Address(int(found) >> _HOST_BITS << _HOST_BITS))


class Strangers:
    """The tasks of those who have not logged in.

    Args:
        most: connections of the server, of strangers and others together.
    """

    def __init__(self, most: int) -> None:
        self._places = most // 2 + 1
        self._each = max(LEAST_EACH, self._places // 4)
        self._waiting: dict[asyncio.Task[None], tuple[str, float]] = {}  # who came first is first
        self._from: Counter[str] = Counter()

    def __len__(self) -> int:
        return len(self._waiting)

    def admit(self, task: asyncio.Task[None], address: str) -> bool:
        """Whether there is a place for one more; whoever loses theirs by that is cancelled."""
        now, address = time.monotonic(), origin(address)
        if self._from[address] >= self._each:
            return False
        if len(self._waiting) >= self._places:
            oldest, (_, since) = next(iter(self._waiting.items()))
            if now - since < BUSY_PATIENCE:
                return False
            self.leave(oldest)
            oldest.cancel()
        self._waiting[task] = address, now
        self._from[address] += 1
        return True

    def leave(self, task: asyncio.Task[None]) -> None:
        """They are known now, or gone; again is harmless."""
        address, _ = self._waiting.pop(task, ("", 0.0))
        if address:
            self._from[address] -= 1
            if not self._from[address]:
                del self._from[address]

"""Bytes between a client and its conversation, as fast as the slower takes them; who asks nothing is let go."""

from __future__ import annotations

import asyncio
import socket
import time
from contextlib import suppress

PIECE = 1 << 16  # bytes


class _Ends:
    """Whether what passed by so far ends with a whole message: only then may another one follow."""

    def __init__(self) -> None:
        self._head = bytearray()
        self._left = 0
        self.asked = False  # whether what passed last waits for an answer

    @property
    def whole(self) -> bool:
        return not self._head and not self._left

    def pass_by(self, data: bytes) -> None:
        at = 0
        while at < len(data):
            if self._left:
                step = min(self._left, len(data) - at)
                self._left -= step
                at += step
                continue
            step = min(5 - len(self._head), len(data) - at)
            self._head += data[at : at + step]
            at += step
            if len(self._head) == 5:
                self._left = int.from_bytes(self._head[1:], "big") - 4
                self.asked = self._head[:1] != b"Z"  # ready for the next question
                self._head.clear()


async def relay(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, ours: socket.socket, idle: float | None = None
) -> str:
    """Pass bytes both ways until one side ends.

    Args:
        reader: of the client.
        writer: to it.
        ours: the server's end of the conversation.
        idle: seconds after which a client that asks nothing, or does not read its answer, is let go; None: never.

    Returns:
        "gone": the client knows; "ended": the conversation did by itself, between two messages; "idle".
    """
    inner_reader, inner_writer = await asyncio.open_connection(sock=ours, limit=PIECE)
    ends, over, last, unread = _Ends(), False, time.monotonic(), False

    async def up() -> None:
        nonlocal last
        while data := await reader.read(PIECE):
            last, ends.asked = time.monotonic(), True
            inner_writer.write(data)
            await inner_writer.drain()

    async def down() -> None:
        nonlocal over, last, unread
        while data := await inner_reader.read(PIECE):
            ends.pass_by(data)
            writer.write(data)
            last, unread = time.monotonic(), True
            await writer.drain()
            last, unread = time.monotonic(), False
        over = True

    async def wait(longest: float) -> None:
        while (ends.asked and not unread) or time.monotonic() - last < longest:
            await asyncio.sleep(min(1.0, longest / 4))

    tasks = [asyncio.create_task(up()), asyncio.create_task(down())]
    if idle is not None:
        tasks.append(asyncio.create_task(wait(idle)))
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        if tasks[0].done():
            if not over:  # the client has gone, or said that it goes: what is under way ends
                with suppress(OSError):
                    inner_writer.write_eof()
            return "gone"
        if over:
            return "ended" if ends.whole else "gone"
        return "gone" if tasks[1].done() or unread else "idle"
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        inner_writer.close()

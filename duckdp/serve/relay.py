"""Bytes between a client and its conversation, as fast as the slower of the two takes them."""

from __future__ import annotations

import asyncio
import socket
from contextlib import suppress

PIECE = 1 << 16  # bytes


class _Ends:
    """Whether what passed by so far ends with a whole message: only then may another one follow."""

    def __init__(self) -> None:
        self._head = bytearray()
        self._left = 0

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
                self._head.clear()


async def relay(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, ours: socket.socket) -> bool:
    """Pass bytes both ways until one side ends.

    Returns:
        False where the conversation ended by itself, between two messages, and the client knows nothing of it.
    """
    inner_reader, inner_writer = await asyncio.open_connection(sock=ours, limit=PIECE)
    ends, over = _Ends(), False

    async def up() -> None:
        while data := await reader.read(PIECE):
            inner_writer.write(data)
            await inner_writer.drain()

    async def down() -> None:
        nonlocal over
        while data := await inner_reader.read(PIECE):
            ends.pass_by(data)
            writer.write(data)
            await writer.drain()
        over = True

    tasks = [asyncio.create_task(up()), asyncio.create_task(down())]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        if not tasks[0].done():
            return not (over and ends.whole)
        if not over:  # the client has gone, or said that it goes: what is under way ends
            with suppress(OSError):
                inner_writer.write_eof()
        return True
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        inner_writer.close()

"""Which bytes of a SQLite file say something: pages in use, their headers, cells and overflow; the rest is free space.

Written from the published file format (sqlite.org/fileformat2.html).
"""

from __future__ import annotations

from collections.abc import Iterator

LEAF_TABLE, LEAF_INDEX, TABLE, INDEX = 13, 10, 5, 2
# Of the file's header: fields that say nothing of what is kept here. SQLite and its tools may set them as they like.
UNSAID = {
    *range(24, 28),  # counter of changes, of other journal modes
    *range(40, 44),  # counter of changes of the schema
    *range(44, 47),  # upper bytes of the schema's format, which nothing reads
    *range(48, 52),  # suggested size of the cache
    *range(56, 59),  # upper bytes of the text's encoding, which nothing reads
    *range(72, 92),  # reserved
    *range(92, 100),  # for which counter the size holds, and who wrote last
}
# Bits of other fields, by the byte they are in, that change nothing alone: without its lowest bit the encoding is the
# usual one, and its six upper bits are not read; 0 is as good as 2 for who may read and write; every format up to the
# present one is read.
UNREAD = {18: 0x02, 19: 0x02, 47: 0x07, 59: 0xFD}


class Pages:
    """A file as it lies there, without its journal.

    Attributes:
        used: offsets of bytes that say something.
    """

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.size = int.from_bytes(data[16:18], "big")
        self.used: set[int] = set(range(100)) - UNSAID
        self._seen: set[int] = set()
        self._tree(1)
        for root in self._roots():
            self._tree(root)

    def _roots(self) -> list[int]:
        import sqlite3
        from contextlib import closing

        with closing(sqlite3.connect(":memory:")) as connection:
            connection.deserialize(self.data[:18] + b"\x01\x01" + self.data[20:])
            return [row[0] for row in connection.execute("SELECT rootpage FROM sqlite_schema WHERE rootpage > 0")]

    def _number(self, at: int, length: int) -> int:
        return int.from_bytes(self.data[at : at + length], "big")

    def _varint(self, at: int) -> tuple[int, int]:
        value = 0
        for place in range(9):
            byte = self.data[at + place]
            if place == 8:
                return (value << 8) | byte, at + 9
            value = (value << 7) | (byte & 127)
            if byte < 128:
                return value, at + place + 1
        raise AssertionError

    def _tree(self, page: int) -> None:
        if page in self._seen:
            return
        self._seen.add(page)
        base = (page - 1) * self.size
        start = base + (100 if page == 1 else 0)
        kind = self.data[start]
        length = 12 if kind in (TABLE, INDEX) else 8
        count = self._number(start + 3, 2)
        self.used.update(range(start, start + length + 2 * count))
        for i in range(count):
            self._cell(kind, base, base + self._number(start + length + 2 * i, 2))
        if length == 12:
            self._tree(self._number(start + 8, 4))
        block = self._number(start + 1, 2)
        while block:  # a free block's head is read, its body is not
            self.used.update(range(base + block, base + block + 4))
            block = self._number(base + block, 2)

    def _cell(self, kind: int, base: int, at: int) -> None:
        first = at
        if kind in (TABLE, INDEX):
            self._tree(self._number(at, 4))
            at += 4
        if kind == TABLE:
            _, at = self._varint(at)
            self.used.update(range(first, at))
            return
        payload, at = self._varint(at)
        if kind == LEAF_TABLE:
            _, at = self._varint(at)
        local = self._local(payload, kind)
        self.used.update(range(first, at + local + (4 if local < payload else 0)))
        if local < payload:
            self._overflow(self._number(at + local, 4), payload - local)

    def _local(self, payload: int, kind: int) -> int:
        most = self.size - 35 if kind == LEAF_TABLE else (self.size - 12) * 64 // 255 - 23
        least = (self.size - 12) * 32 // 255 - 23
        if payload <= most:
            return payload
        kept = least + (payload - least) % (self.size - 4)
        return kept if kept <= most else least

    def _overflow(self, page: int, left: int) -> None:
        while page and left > 0:
            base = (page - 1) * self.size
            here = min(left, self.size - 4)
            self.used.update(range(base, base + 4 + here))
            left -= here
            page = self._number(base, 4)


def runs(offsets: set[int]) -> Iterator[tuple[int, int]]:
    """Offsets as ranges, to print."""
    start = end = -2
    for at in sorted(offsets):
        if at != end + 1:
            if start >= 0:
                yield start, end
            start = at
        end = at
    if start >= 0:
        yield start, end

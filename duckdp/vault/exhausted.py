"""Whether an engine ran out of memory, or of disk for what memory does not hold: one bit of what it said, and no word.

This file travels to the workers of a cluster beside :mod:`duckdp.vault.part_work`, so it imports nothing of ours.
Private reads write nothing but what their memory does not hold: whatever cannot be written is of that.
"""

from __future__ import annotations

import re

import duckdb

RAN_OUT = "a private read had not the memory, or the disk, for a part of the rows"  # said by a worker
#: How DuckDB begins to say it, of memory and of a temporary file that the disk has no room for: where a message begins,
#: no value of a row stands, as it may further on.
_SAID = re.compile(r"Out of Memory Error|(IO Error: )?Could not write file|IO Error: .*No space left on device")
#: Of Spark's: a worker of ours, Java's memory, what the driver takes of results, a disk of a shuffle.
_SPARK_SAID = (RAN_OUT, "java.lang.OutOfMemoryError", "spark.driver.maxResultSize", "No space left on device")


def ran_out(error: BaseException | str | None) -> bool:
    """Whether that is so, of an exception or of DuckDB's message; neither goes anywhere from here."""
    known = isinstance(error, (MemoryError, duckdb.OutOfMemoryException))
    return known or (error is not None and _SAID.match(str(error)) is not None)  # a stream's error has no type


def spark_ran_out(error: BaseException) -> bool:
    """The same of what Spark raises, whose text holds that of the worker."""
    return ran_out(error) or any(said in str(error) for said in _SPARK_SAID)

"""Do work that may take long and hears no Ctrl-C beside the main thread, which hears it.

A statement is two such works, it runs and it is fetched, and starting a thread takes longer than most of them. So a
thread that has done its work waits a while for the next. It is handed over in steps between any two of which an
interrupt may fall: then the work has not begun and never will, or it is ended before the interrupt goes on.
"""

from __future__ import annotations

import _thread
import os
import queue
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from types import FrameType
from typing import Any, TypeVar

T = TypeVar("T")
_LOOK = 0.2  # seconds between two looks at whether the work has ended
_IDLE_SECONDS = 10.0  # that a thread waits for work


def aside(work: Callable[[], T], interrupt: Callable[[], object]) -> T:
    """Do work in another thread where the main thread would wait for it.

    Args:
        work: done once.
        interrupt: ends it, from another thread.

    Returns:
        What ``work`` returns; whatever it raises is raised.

    Raises:
        KeyboardInterrupt: it was interrupted, and has ended.
    """
    if _thread.get_ident() != threading.main_thread().ident:  # Ctrl-C goes to the main thread alone
        return work()
    return beside(work, interrupt)


def beside(work: Callable[[], T], interrupt: Callable[[], object], meanwhile: Callable[[], object] | None = None) -> T:
    """As :func:`aside`, from any thread; ``meanwhile`` is called now and then, and what it raises ends the work."""
    job = _Job(work)
    try:
        _worker().jobs.put(job)
        while not job.ended:
            job.done.acquire(timeout=_LOOK)
            if meanwhile is not None and not job.ended:
                meanwhile()
    except BaseException:
        if not job.cancel():
            while not job.ended:  # an interrupt that comes before the statement has begun ends nothing
                interrupt()
                job.done.acquire(timeout=_LOOK)
        raise
    return job.value()  # type: ignore[no-any-return]


def _worker() -> _Worker:
    """A thread that has nothing to do; a new one if there is none."""
    with suppress(IndexError):
        return _idle.pop()
    worker = _Worker()
    _thread.start_new_thread(worker.serve, ())
    return worker


def is_idle(frame: FrameType) -> bool:
    """Whether a thread, whose innermost call within this package has this frame, is one that waits for work."""
    return frame.f_code is _Worker.next_job.__code__


class _Job:
    """Work, and what came of it.

    Attributes:
        ended: it was done, whatever came of it.
        done: held until then.
    """

    __slots__ = ("_error", "_value", "_work", "done", "ended")

    def __init__(self, work: Callable[[], Any]) -> None:
        self._work = [work]  # taken by whoever does it, or cancels it: one step
        self._value: Any = None
        self._error: BaseException | None = None
        self.ended = False
        self.done = _thread.allocate_lock()
        self.done.acquire()

    def cancel(self) -> bool:
        """Whether nobody has begun it; then nobody will."""
        try:
            self._work.pop()
        except IndexError:
            return False
        return True

    def run(self) -> None:
        try:
            work = self._work.pop()
        except IndexError:
            return
        try:
            self._value = work()
        except BaseException as error:  # noqa: BLE001 - raised where it is waited for
            self._error = error

    def finish(self) -> None:
        self.ended = True
        self.done.release()

    def value(self) -> Any:
        """What the work gave, or its error."""
        if self._error is None:
            return self._value
        error, self._error = self._error, None
        try:
            raise error
        finally:
            del error


class _Worker:
    """A thread that does one work after another, and ends when none comes."""

    def __init__(self) -> None:
        self.jobs: queue.SimpleQueue[_Job] = queue.SimpleQueue()

    def next_job(self) -> _Job | None:
        """The next work, or None where none comes."""
        try:
            return self.jobs.get(timeout=_IDLE_SECONDS)
        except queue.Empty:
            return None

    def serve(self) -> None:
        while True:
            job = self.next_job()
            if job is None:
                try:
                    _idle.remove(self)
                except ValueError:  # an interrupt fell between its being chosen and the work
                    _idle.append(self)
                    continue
                return
            job.run()
            _idle.append(self)  # before who waits goes on, and needs it again
            job.finish()
            del job  # it holds what the work was done with


_idle: deque[_Worker] = deque()

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_idle.clear)

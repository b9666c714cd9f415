"""Processes that charge and are killed: a nursery forks them, each writes to a pipe what it was acknowledged.

Run: ``python -m tests.faults.kills LEDGER WORKERS KILLS SEED``, or ``... race LEDGER WORKERS``. It prints what was
acknowledged. The nursery has imported everything and opened nothing, so a worker is there within milliseconds.
"""

from __future__ import annotations

import json
import os
import random
import secrets
import selectors
import signal
import sys
import time
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from duckdp.errors import BudgetError, InsufficientBudgetError
from duckdp.ledger import Charge, Ledger
from tests.faults.workload import COST
from tests.ledgers import ask

SHARED = 40  # questions that all workers ask, in turn with their own
SECONDS = 120.0  # without any acknowledgement: locked out


@dataclass
class Worker:
    """A process, the pipe it writes to, and the beginning of a line."""

    process: int
    pipe: int
    rest: bytes = b""


@dataclass
class Told:
    """What was acknowledged.

    Attributes:
        charged: how often each question was charged.
        released: the answers, by question.
        final: questions of which three holders were killed.
        refused: how often the budget did not suffice.
        contradictions: whatever must not happen.
    """

    charged: dict[str, int] = field(default_factory=dict)
    released: dict[str, str] = field(default_factory=dict)
    final: list[str] = field(default_factory=list)
    refused: int = 0
    contradictions: list[str] = field(default_factory=list)

    def hear(self, line: bytes) -> None:
        """Take in a line; the last one of a killed process may be torn."""
        match json.loads(line):
            case ["charged", question, attempt]:
                if attempt == 1:
                    self.charged[question] = self.charged.get(question, 0) + 1
            case ["released", question, payload]:
                if self.released.setdefault(question, payload) != payload:
                    self.contradictions.append(question)
            case ["final", question]:
                self.final.append(question)
            case ["refused"]:
                self.refused += 1
            case ["failed", what]:
                self.contradictions.append(what)


# ---- a worker --------------------------------------------------------------------------------------------------------


def work(path: str, name: str, count: int, say: Any) -> None:
    """Ask questions, every other one that all ask; say what comes back."""
    with Ledger.open(path, create=False) as ledger:
        for i in range(count):
            question = f"all{random.randrange(SHARED)}" if i % 2 else f"{name}-{i}"
            try:
                found = ledger.admit(ask(question, COST))
            except InsufficientBudgetError:
                say(["refused"])
                continue
            except BudgetError as error:
                if error.code != "B106":
                    raise
                say(["final", question])
                continue
            if isinstance(found, Charge):
                say(["charged", question, found.attempt])
                found = ledger.store_release(found, secrets.token_hex(16))
            say(["released", question, found.payload])


def start(path: str, name: str, count: int) -> Worker:
    """Fork a worker."""
    reading, writing = os.pipe()
    process = os.fork()
    if process:
        os.close(writing)
        return Worker(process, reading)
    os.close(reading)
    status = 1

    def say(words: list[Any]) -> None:
        os.write(writing, json.dumps(words).encode() + b"\n")  # short: at one stroke

    try:
        random.seed(os.getpid())
        work(path, name, count, say)
        status = 0
    except BaseException as error:  # noqa: BLE001 - told to the test
        say(["failed", f"{type(error).__name__}: {error}"])
    finally:
        os._exit(status)


# ---- the nursery -----------------------------------------------------------------------------------------------------


def kill_many(path: str, workers: int, kills: int, seed: int) -> Told:
    """Keep so many workers running, kill one at a random moment, again and again; then let the last ones end."""
    chance, told, names = random.Random(seed), Told(), iter(f"w{i}" for i in range(10**6))
    running = [start(path, next(names), 10**6) for _ in range(workers)]
    for _ in range(kills):
        _listen(running, told, chance.random() * 0.06, lines=1)
        victim = running.pop(chance.randrange(workers))
        os.kill(victim.process, signal.SIGKILL)
        os.waitpid(victim.process, 0)
        _drain(victim, told)
        running.append(start(path, next(names), 10**6))
    for worker in running:
        os.kill(worker.process, signal.SIGKILL)
        os.waitpid(worker.process, 0)
        _drain(worker, told)
    return told


def race(path: str, workers: int, count: int = 20) -> Told:
    """Workers that ask so many questions each, all at once."""
    told, running = Told(), [start(path, f"w{i}", count) for i in range(workers)]
    ends = time.monotonic() + SECONDS * 5
    while running and time.monotonic() < ends:
        _listen(running, told, 0.1)
        for worker in list(running):
            if os.waitpid(worker.process, os.WNOHANG)[0]:
                running.remove(worker)
                _drain(worker, told)
    if running:
        told.contradictions.append("locked out")
    return told


def _listen(running: list[Worker], told: Told, seconds: float, *, lines: int = 0) -> None:
    """Hear what the workers say for so long, and until so many lines came."""
    end, silent, heard = time.monotonic() + seconds, time.monotonic() + SECONDS, 0
    with selectors.DefaultSelector() as selector:
        for worker in running:
            selector.register(worker.pipe, selectors.EVENT_READ, worker)
        while selector.get_map() and (heard < lines or time.monotonic() < end):
            for key, _ in selector.select(max(end - time.monotonic(), 0.01)):
                came = _hear(key.data, told)
                heard += came or 0
                if came is None:  # it ended
                    selector.unregister(key.fileobj)
            if time.monotonic() > silent:
                told.contradictions.append("locked out")
                return


def _hear(worker: Worker, told: Told) -> int | None:
    """How many lines came; None at the end."""
    text = os.read(worker.pipe, 65536)
    *lines, worker.rest = (worker.rest + text).split(b"\n")
    for line in lines:
        told.hear(line)
    return len(lines) if text else None


def _drain(worker: Worker, told: Told) -> None:
    while text := os.read(worker.pipe, 65536):
        worker.rest += text
    for line in worker.rest.split(b"\n"):
        with suppress(ValueError):  # torn
            told.hear(line)
    os.close(worker.pipe)


def main(*arguments: str) -> None:
    """Run, and print what was acknowledged."""
    match arguments:
        case ["race", path, workers]:
            told = race(path, int(workers))
        case [path, workers, kills, seed]:
            told = kill_many(path, int(workers), int(kills), int(seed))
        case _:
            raise ValueError(arguments)
    print(json.dumps(told.__dict__))


if __name__ == "__main__":
    main(*sys.argv[1:])

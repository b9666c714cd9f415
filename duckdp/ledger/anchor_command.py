"""An anchor that is kept elsewhere by a command of the owner's: a register of one line, compared and set.

The command is started without a shell, in the folder "/", with few variables of the environment (``PASSED``), and reads
two lines from standard input: what we believe it keeps (empty: nothing), and what it is to keep instead. If it keeps
the first, it keeps the second from now on, durably. In either case it answers with one line, what it keeps then, and
ends with status 0. Asked with the same line twice it only answers. A line is a position of the chain as
``Position.line`` writes it; the command need not understand it.

Why compare and set: the register moves from a position only to one of a chain that holds it, since whoever moves it has
looked. So of two ledgers that went different ways from one past, one is refused for ever at its next charge, however
many processes have them open. (A register that kept the longest history would in time take the forgetful one.)

An answer that does not come in time, is too long, or is no such line is an error (B209), and what it says goes nowhere.
"""

from __future__ import annotations

import os
import select
import shutil
import signal
import subprocess
import time
from collections.abc import Sequence
from contextlib import suppress

from duckdp.errors import LedgerError, ParameterError
from duckdp.ledger.anchor import LENGTH, Position, damaged, parse_line

SECONDS = 20.0  # for one answer
#: What the command gets of the environment: where programs, keys and settings are, and nothing else that may be secret.
PASSED = (
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "SHELL",
    "LANG",
    "LC_ALL",
    "TZ",
    "SSH_AUTH_SOCK",
    "XDG_RUNTIME_DIR",
    "XDG_CONFIG_HOME",
    "KRB5CCNAME",
)
MOST_WORDS, MOST_CHARACTERS = 64, 4096

_RULE = (
    'must be the path of a file, or a command as a list of words, for example ["ssh", "keeper", "keep-anchor", '
    '"clinic"]; its program must be found.'
)


def words_of(given: Sequence[object]) -> tuple[str, ...]:
    """The words of a command, the program by its absolute path: found now, and the same one from then on.

    Raises:
        ParameterError: P107.
    """
    words = tuple(given[: MOST_WORDS + 1])
    plain = [w for w in words if isinstance(w, str) and w.isprintable()]
    if not words or len(plain) != len(words) or len(words) > MOST_WORDS or sum(map(len, plain)) > MOST_CHARACTERS:
        raise ParameterError("P107", "anchor", given, _RULE)
    program = shutil.which(plain[0])
    if program is None:
        raise ParameterError("P107", "anchor", given, _RULE)
    return os.path.abspath(program), *plain[1:]


def exchange(path: str, words: Sequence[str], believed: Position | None, wanted: Position | None) -> Position | None:
    """Compare and set: what the command keeps now.

    Args:
        path: of the ledger.
        words: the command.
        believed: what it keeps, as far as we know; None is nothing.
        wanted: what it is to keep if we are right; the same as ``believed`` only asks.

    Raises:
        LedgerError: B209.
    """
    try:
        process = subprocess.Popen(
            list(words),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd="/",
            env={name: os.environ[name] for name in PASSED if name in os.environ},
            start_new_session=True,
        )
    except (OSError, ValueError):
        raise _failed(path, "it cannot be started") from None
    try:
        answer = _talk(path, process, _line(believed) + _line(wanted))
    finally:
        _end(process)
    if answer == b"\n":
        return None
    kept = parse_line(answer)
    if kept is None:
        raise _failed(path, "what it answered is not a position")
    return kept


def silent(path: str) -> LedgerError:
    """The error for a command that keeps nothing where it should."""
    return damaged(path, "(a command)")


def _line(position: Position | None) -> bytes:
    return b"\n" if position is None else position.line()


def _talk(path: str, process: subprocess.Popen[bytes], question: bytes) -> bytes:
    """Ask and read the answer to its end, a line at most."""
    assert process.stdin is not None and process.stdout is not None
    deadline = time.monotonic() + SECONDS
    with suppress(BrokenPipeError):  # it need not read to answer; its answer is checked
        process.stdin.write(question)  # two lines fit into any pipe
        process.stdin.close()
    answer, source = b"", process.stdout.fileno()
    poll = select.poll()
    poll.register(source, select.POLLIN)
    while True:
        if not poll.poll(max(deadline - time.monotonic(), 0) * 1000):
            raise _failed(path, f"it did not answer within {SECONDS:g} seconds")
        part = os.read(source, LENGTH + 1)
        if not part:
            break
        answer += part
        if len(answer) > LENGTH:
            raise _failed(path, "it answered with more than one line")
    try:
        status = process.wait(max(deadline - time.monotonic(), 0.001))
    except subprocess.TimeoutExpired:
        raise _failed(path, f"it did not end within {SECONDS:g} seconds") from None
    if status != 0:
        raise _failed(path, f"it ended with status {status}")
    return answer


def _end(process: subprocess.Popen[bytes]) -> None:
    """Nothing of it goes on, nor of what it started in its own session."""
    if process.returncode is None:
        with suppress(OSError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    for stream in (process.stdin, process.stdout):
        assert stream is not None
        with suppress(OSError):
            stream.close()


def _failed(path: str, found: str) -> LedgerError:
    return LedgerError(
        "B209",
        f'the anchor command of the ledger "{path}" failed: {found}. Nothing leaves until it answers; see to it, and '
        "ask again.",
        path=path,
    )

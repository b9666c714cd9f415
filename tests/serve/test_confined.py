"""serve/lockdown.py: what the system refuses an analyst's process, whatever runs in it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time

import pytest

TRIES = {
    "open": "os.open('/etc/hostname', os.O_RDONLY)",
    "proc": "os.open('/proc/self/mem', os.O_RDWR)",
    "create": "os.open('/tmp/duckdp-escape', os.O_WRONLY | os.O_CREAT)",
    "list": "os.listdir('/')",
    "stat": "os.stat('/etc/passwd')",
    "unlink": "os.unlink('/tmp/nothing-of-that-name')",
    "mkdir": "os.mkdir('/tmp/duckdp-escape')",
    "socket": "socket.socket()",
    "unix": "socket.socket(socket.AF_UNIX)",
    "fork": "os.fork()",
    "exec": "os.execv('/bin/true', ['true'])",
    "kill": "os.kill(os.getppid(), 0)",
    "ptrace": "call(101, 16, os.getppid(), 0, 0)",
    "read another's memory": "call(310, os.getppid(), 0, 0, 0, 0, 0)",
    "mount": "call(165, 0, 0, 0, 0, 0)",
    "bpf": "call(321, 0, 0, 0)",
    "a file in memory": "os.memfd_create('x')",
    "io_uring": "call(425, 1, 0)",
    "raise limits": "resource.setrlimit(resource.RLIMIT_CORE, (1, 1))",
    "keys": "call(250, 0, 0, 0, 0, 0)",
    "a signal by a socket": "fcntl.fcntl(spare, 8, os.getppid())",
    "which signal": "fcntl.fcntl(spare, 10, 9)",
    "unshare": "call(272, 0x10000000)",
    "another filter": "call(317, 1, 0, 0)",
}
PROGRAM = """
import ctypes, fcntl, json, os, resource, socket, sys, threading
spare = socket.socketpair()[0]
libc = ctypes.CDLL(None, use_errno=True)
def call(*numbers):
    if libc.syscall(*numbers) < 0:
        raise OSError(ctypes.get_errno(), "refused")
from duckdp.serve.lockdown import lock
began, go = threading.Event(), threading.Event()
late = {}
def other():
    began.set(); go.wait()
    try: os.open('/etc/hostname', os.O_RDONLY); late['other'] = 0
    except OSError as error: late['other'] = error.errno
thread = threading.Thread(target=other); thread.start(); began.wait()
lock()
go.set(); thread.join()
found = dict(late)
for name, text in json.loads(sys.argv[1]).items():
    try: eval(text); found[name] = 0
    except OSError as error: found[name] = error.errno
    except ValueError: found[name] = 1  # of resource
def hold():
    try: return len(bytearray(6 * 2**30))
    except MemoryError: return 0
found['memory'] = hold()
done = []
one = threading.Thread(target=lambda: done.append(1)); one.start(); one.join()
found['threads'] = len(done)
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def found() -> dict[str, int]:
    """The error of each try in a process that is confined, 0 where it did what it should not."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, json.dumps(TRIES)], capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 0, done.stderr
    answer: dict[str, int] = json.loads(done.stdout)
    return answer


@pytest.mark.parametrize("name", TRIES)
@pytest.mark.skipif(os.uname().machine != "x86_64", reason="numbers of calls are those of x86-64")
def test_the_system_refuses(found: dict[str, int], name: str) -> None:
    assert found[name] == 1  # EPERM


def test_threads_that_ran_before_are_confined_too(found: dict[str, int]) -> None:
    assert found["other"] == 1


def test_memory_is_bounded_and_threads_still_start(found: dict[str, int]) -> None:
    assert found["memory"] == 0
    assert found["threads"] == 1


STOPPED = """
import select, socket
from duckdp.serve.lockdown import lock
ours, theirs = socket.socketpair()
waiting = select.poll()
waiting.register(ours, select.POLLIN)
lock()
print("ready", flush=True)
print(waiting.poll(1500), flush=True)
"""


def test_a_process_that_is_stopped_goes_on_afterwards() -> None:
    """The system goes on with what was interrupted by a call of its own, which was refused: waits failed with EPERM."""
    with subprocess.Popen([sys.executable, "-c", STOPPED], stdout=subprocess.PIPE, text=True) as held:
        assert held.stdout is not None
        assert held.stdout.readline() == "ready\n"
        time.sleep(0.2)
        held.send_signal(signal.SIGSTOP)
        time.sleep(0.1)
        held.send_signal(signal.SIGCONT)
        assert held.stdout.read() == "[]\n"


def test_without_it_the_tries_do_what_they_should_not() -> None:
    """The broken twin: the same program that never calls lock()."""
    tries = {name: TRIES[name] for name in ("open", "list", "stat", "socket", "kill")}
    program = PROGRAM.replace("\nlock()\n", "\n").replace("6 * 2**30", "1")  # which would take all the memory there is
    done = subprocess.run(
        [sys.executable, "-c", program, json.dumps(tries)], capture_output=True, text=True, check=False
    )
    answer = json.loads(done.stdout)
    assert {answer[name] for name in tries} == {0}

"""What the system lets an analyst's process do: compute, and use what it holds. Nothing else, whatever runs in it.

A filter of system calls (seccomp) answers EPERM to all that is not listed: no file is opened, no socket made, no
program started, no other process touched. Limits of the system bound memory, files' size (0) and what a crash leaves.
DuckDB is locked by its own settings too (``front``); this holds where those fail.

Linux on x86-64 and ARM64 alone: elsewhere there is no such filter, and :func:`lock` refuses.

Source: Linux, "Documentation/userspace-api/seccomp_filter.rst"; system call numbers of the two architectures.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import resource
import struct
import sys

MEMORY = 4 * 2**30  # bytes of address space; DuckDB's own limit is 1 GB
FILES = 512  # descriptors: connections
# What the filter answers: SECCOMP_RET_ALLOW, _ERRNO with EPERM, _KILL_PROCESS, _ERRNO with ENOSYS.
_ALLOW, _REFUSE, _KILL, _UNKNOWN = 0x7FFF0000, 0x00050000 | errno.EPERM, 0x80000000, 0x00050000 | errno.ENOSYS
_CLONE_THREAD = 0x00010000  # flag of clone(2)
_NO_NEW_PRIVS = 38  # option of prctl(2)
_AUDIT = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
_SECCOMP = {"x86_64": 317, "aarch64": 277}
# name: (x86-64, ARM64); None: not there
_CALLS: dict[str, tuple[int | None, int | None]] = {
    "read": (0, 63),
    "write": (1, 64),
    "close": (3, 57),
    "fstat": (5, 80),
    "poll": (7, None),
    "lseek": (8, 62),
    "mmap": (9, 222),
    "mprotect": (10, 226),
    "munmap": (11, 215),
    "brk": (12, 214),
    "rt_sigaction": (13, 134),
    "rt_sigprocmask": (14, 135),
    "rt_sigreturn": (15, 139),
    "readv": (19, 65),
    "writev": (20, 66),
    "select": (23, None),
    "sched_yield": (24, 124),
    "mremap": (25, 216),
    "madvise": (28, 233),
    "dup": (32, 23),
    "nanosleep": (35, 101),
    "getpid": (39, 172),
    "sendto": (44, 206),
    "recvfrom": (45, 207),
    "sendmsg": (46, 211),
    "recvmsg": (47, 212),
    "shutdown": (48, 210),
    "getsockname": (51, 204),
    "getpeername": (52, 205),
    "setsockopt": (54, 208),
    "getsockopt": (55, 209),
    "exit": (60, 93),
    "uname": (63, 160),
    "fcntl": (72, 25),
    "gettimeofday": (96, 169),
    "getrusage": (98, 165),
    "sysinfo": (99, 179),
    "times": (100, 153),
    "getuid": (102, 174),
    "getgid": (104, 176),
    "geteuid": (107, 175),
    "getegid": (108, 177),
    "sigaltstack": (131, 132),
    "arch_prctl": (158, None),
    "gettid": (186, 178),
    "futex": (202, 98),
    "sched_getaffinity": (204, 123),
    "set_tid_address": (218, 96),
    "restart_syscall": (219, 128),  # by which the system goes on with a wait after the process was stopped
    "clock_gettime": (228, 113),
    "clock_getres": (229, 114),
    "clock_nanosleep": (230, 115),
    "exit_group": (231, 94),
    "epoll_wait": (232, None),
    "epoll_ctl": (233, 21),
    "set_robust_list": (273, 99),
    "ppoll": (271, 73),
    "pselect6": (270, 72),
    "epoll_pwait": (281, 22),
    "eventfd2": (290, 19),
    "pipe2": (293, 59),
    "epoll_create1": (291, 20),
    "tgkill": (234, 131),  # abort() of this process; of others: their numbers are not known, and see _OWN
    "getcpu": (309, 168),
    "getrandom": (318, 278),
    "membarrier": (324, 283),
    "rseq": (334, 293),
}
# Numbers of system calls on the two.
_CLONE, _CLONE3 = (56, 220), (435, 435)
# Instructions of the filter.
_LOAD, _EQUAL, _AND_SET, _RETURN = 0x20, 0x15, 0x45, 0x06
_NUMBER, _ARCH, _FIRST_ARGUMENT, _SECOND_ARGUMENT = 0, 4, 16, 24  # bytes: offsets in what the filter sees
_FCNTL = (0, 1, 2, 3, 4, 1030)  # F_DUPFD, F_GETFD, F_SETFD, F_GETFL, F_SETFL, F_DUPFD_CLOEXEC


class UnconfinedError(OSError):
    """The system cannot hold this process."""


def require_possible() -> None:
    """Raise where the system has no such filter.

    Raises:
        UnconfinedError.
    """
    if sys.platform != "linux" or platform.machine() not in _AUDIT:
        raise UnconfinedError(errno.ENOSYS, "analysts' processes are confined on Linux (x86-64, ARM64) alone")


def lock() -> None:
    """Confine this process, all its threads included, for good.

    Raises:
        UnconfinedError: it could not be; the process must end.
    """
    require_possible()
    for limit, most in (
        (resource.RLIMIT_AS, MEMORY),
        (resource.RLIMIT_FSIZE, 0),
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_NOFILE, FILES),
    ):
        _, hard = resource.getrlimit(limit)
        most = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(limit, (most, most))
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_NO_NEW_PRIVS, 1, 0, 0, 0) != 0:
        raise UnconfinedError(ctypes.get_errno(), "no_new_privs was refused")
    program = filter_program(platform.machine(), os.getpid())
    lines = ctypes.create_string_buffer(program, len(program))
    head = ctypes.create_string_buffer(struct.pack("@HP", len(program) // 8, ctypes.addressof(lines)))
    if libc.syscall(_SECCOMP[platform.machine()], 1, 1, head) != 0:  # all threads, or none
        raise UnconfinedError(ctypes.get_errno(), "the filter of system calls was refused")


def filter_program(machine: str, process: int) -> bytes:
    """The filter, as the system reads it: what is listed is allowed, all else refused with EPERM."""
    which = 0 if machine == "x86_64" else 1
    lines = [(_LOAD, 0, 0, _ARCH), (_EQUAL, 1, 0, _AUDIT[machine]), (_RETURN, 0, 0, _KILL), (_LOAD, 0, 0, _NUMBER)]
    for name, numbers in _CALLS.items():
        number = numbers[which]
        if number is None:
            continue
        if name == "fcntl":  # flags and copies of descriptors alone: F_SETOWN and F_SETSIG would signal any process
            allowed = [(_EQUAL, 0, 1, command) for command in _FCNTL]
            lines += [(_EQUAL, 0, 2 + 2 * len(allowed), number), (_LOAD, 0, 0, _SECOND_ARGUMENT)]
            for line in allowed:
                lines += [line, (_RETURN, 0, 0, _ALLOW)]
            lines.append((_RETURN, 0, 0, _REFUSE))
        elif name == "tgkill":  # signals to this process alone
            lines += [
                (_EQUAL, 0, 4, number),
                (_LOAD, 0, 0, _FIRST_ARGUMENT),
                (_EQUAL, 0, 1, process),
                (_RETURN, 0, 0, _ALLOW),
                (_RETURN, 0, 0, _REFUSE),
            ]
        else:
            lines += [(_EQUAL, 0, 1, number), (_RETURN, 0, 0, _ALLOW)]
    lines += [
        (_EQUAL, 0, 1, _CLONE3[which]),  # its arguments lie where no filter sees them: libraries fall back to clone
        (_RETURN, 0, 0, _UNKNOWN),
        (_EQUAL, 0, 4, _CLONE[which]),  # threads alone
        (_LOAD, 0, 0, _FIRST_ARGUMENT),
        (_AND_SET, 0, 1, _CLONE_THREAD),
        (_RETURN, 0, 0, _ALLOW),
        (_RETURN, 0, 0, _REFUSE),
        (_RETURN, 0, 0, _REFUSE),
    ]
    return b"".join(struct.pack("=HBBI", *line) for line in lines)

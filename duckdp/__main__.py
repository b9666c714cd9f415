"""``duckdp`` and ``python -m duckdp``: the command line from its first line to its last.

Ctrl-C ends it at any time with code 130 and one line; so it does while modules are imported and while the process ends.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import FrameType

INTERRUPTED = 130  # exit code: 128 and the number of SIGINT, as shells have it
LATER = 0.02  # seconds until a Ctrl-C that nothing could hear is tried again


def run() -> None:
    """Run a command and end the process."""
    code: int = INTERRUPTED
    pressed: list[bool] = []
    told = False  # the command has said it itself
    try:
        try:
            _note_interrupts(pressed)
            code = _run()
            told = code == INTERRUPTED
        except KeyboardInterrupt:
            pressed.append(True)
        except Exception:
            if not pressed:  # else what was half imported may fail in any way
                raise
        if pressed and code != 0:
            code = INTERRUPTED
            if not told:
                _say("E102: interrupted. What was done stays; run it again.")
        _ignore_interrupts()
    except KeyboardInterrupt:
        _ignore_interrupts()
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):  # whoever read it is gone: Python would say so at the end
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
    sys.exit(code)


def _run() -> int:
    from duckdp.cli import main

    try:
        main.main(prog_name="duckdp")
    except SystemExit as error:
        return error.code if isinstance(error.code, int) else 0 if error.code is None else 1
    return 0


def _note_interrupts(pressed: list[bool]) -> None:
    """Ctrl-C is noted, and met again where it could not be raised.

    Python raises nothing in callbacks of the garbage collector; some compiled modules, DuckDB's among them, end the
    process when anything is raised into their beginning.
    """
    import signal
    from _thread import interrupt_main
    from threading import Timer

    def press(_: int, frame: FrameType | None) -> None:
        if _loads_compiled(frame):
            Timer(LATER, interrupt_main).start()
            return
        pressed.append(True)
        raise KeyboardInterrupt

    def again(unraisable: sys.UnraisableHookArgs) -> None:
        if unraisable.exc_type is KeyboardInterrupt:
            interrupt_main()
        else:
            sys.__unraisablehook__(unraisable)

    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, press)
        sys.unraisablehook = again


def _loads_compiled(frame: FrameType | None) -> bool:
    """Whether a compiled module is being loaded."""
    from importlib.machinery import ExtensionFileLoader

    while frame is not None:
        loads = frame.f_code.co_name in ("create_module", "exec_module")
        if loads and isinstance(frame.f_locals.get("self"), ExtensionFileLoader):
            return True
        frame = frame.f_back
    return False


def _ignore_interrupts() -> None:
    import signal

    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _say(text: str) -> None:
    try:
        sys.stderr.write(text + "\n")
    except (OSError, ValueError):
        return


if __name__ == "__main__":
    run()

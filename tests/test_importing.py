"""What is imported late is imported by one thread at a time."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

from tests.imports import ROOT

#: Whose commands are a process each.
ALONE = {"bench", "cli", "demo", "owner.py", "shell", "__main__.py"}

#: Two threads come from two sides: the first has a module and begins to import its package, and waits there until the
#: second has another module and waits for the package. Then the package wants that module.
CROSSING = """
import importlib.machinery, linecache, sys, threading, time
import duckdp
from duckdp.process.importing import importing

held, wrong = threading.Event(), []

class Slow:
    def find_spec(self, name, path=None, target=None):
        if name != "duckdp.smooth":
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path)
        execute = spec.loader.exec_module

        def slowly(module):
            held.set()
            while not waits(threads[1]):
                time.sleep(0.001)
            execute(module)

        spec.loader.exec_module = slowly
        return spec

def waits(thread):
    # for the package, or for its turn
    frame = sys._current_frames().get(thread.ident)
    line = "" if frame is None else linecache.getline(__file__, frame.f_lineno)
    return thread.ident in importlib._bootstrap._blocking_on or (
        frame is not None and frame.f_code.co_filename == __file__ and "with importing()" in line
    )

def first():
    with importing():
        import duckdp.smooth.answer

def second():
    assert held.wait(60)
    with importing():
        import duckdp.smooth.payloads

def run(work):
    try:
        work()
    except BaseException as error:
        wrong.append(type(error).__name__)

assert "duckdp.smooth" not in sys.modules
sys.meta_path.insert(0, Slow())
threads = [threading.Thread(target=run, args=(work,)) for work in (first, second)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
print(wrong)
"""


def test_two_threads_that_import_from_two_sides(tmp_path: Path) -> None:
    """Without the lock they end in Python's own errors, or wait for each other."""
    script = tmp_path / "crossing.py"
    script.write_text(CROSSING)
    command = [sys.executable, str(script)]
    environment = os.environ | {"PYTHONPATH": str(ROOT.parent)}
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, env=environment)
    assert done.stdout == "[]\n", done.stdout + done.stderr


def _late(tree: ast.AST) -> list[ast.stmt]:
    """Imports of our modules within functions, but those under the lock."""
    found: list[ast.stmt] = []
    for function in ast.walk(tree):
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            inside = {
                id(inner)
                for node in ast.walk(function)
                if isinstance(node, ast.With) and ast.unparse(node.items[0]) == "importing()"
                for inner in ast.walk(node)
            }
            for node in ast.walk(function):
                ours = isinstance(node, ast.ImportFrom) and str(node.module).startswith("duckdp")
                lock = ours and node.module == "duckdp.process.importing"  # type: ignore[attr-defined]
                by_name = isinstance(node, ast.Call) and ast.unparse(node.func).endswith("import_module")
                if (by_name or (ours and not lock)) and id(node) not in inside:
                    found.append(node)  # type: ignore[arg-type]
    return found


def test_every_late_import_waits_its_turn() -> None:
    assert _late(ast.parse("def f():\n    from duckdp.smooth import answer"))
    assert not _late(ast.parse("def f():\n    with importing():\n        from duckdp.smooth import answer"))
    wrong = [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for path in sorted(ROOT.rglob("*.py"))
        if path.relative_to(ROOT).parts[0] not in ALONE
        for node in _late(ast.parse(path.read_text()))
        if path.relative_to(ROOT).as_posix() != "functions/__init__.py"  # imports all of its own, within its own import
    ]
    assert wrong == []

"""What is imported late is imported by one thread at a time, and anew if Ctrl-C came meanwhile."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.imports import ROOT, modules

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


#: What a first question does without: each takes longer to import than the question to answer.
FIRST = """
import sys
import duckdb, duckdp

con = duckdb.connect(sys.argv[1])
con.execute("CREATE TABLE t AS SELECT range AS id, range % 10 AS x FROM range(100)")
con.close()
with duckdp.open(sys.argv[1]) as curator:
    curator.protect("t", unit_key="id", max_rows=1, row_cap=200, bounds={"x": (0, 10)})
    curator.budget(epsilon=1)
    curator.grant("ana", epsilon=1)
    curator.session("ana").sql("SELECT count(*), avg(x) FROM t", epsilon=0.1)
late = ("scipy.stats", "scipy.optimize", "scipy.sparse", "opendp.prelude", "polars", "duckdp.smooth")
print([name for name in late if name in sys.modules])
"""


def test_a_first_question_imports_nothing_that_it_does_without(tmp_path: Path) -> None:
    command = [sys.executable, "-c", FIRST, str(tmp_path / "clinic.duckdb")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.stdout.strip(), done.returncode) == ("[]", 0), done.stderr


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


#: An interrupted import leaves all modules that it had imported before, and is done anew.
AGAIN = """
import importlib, json, sys
import duckdp

wrong = []
names = json.loads(sys.argv[1])
for name in names:
    importlib.import_module(name)
for name in names:
    kept = sys.modules.pop(name)
    try:
        importlib.import_module(name)
    except Exception as error:
        wrong.append(f"{name}: {error}")
    sys.modules[name] = kept
print(wrong)
"""

#: All that is imported late, with Ctrl-C at some of the steps; each in a process of its own, in which nothing was yet.
#: What others made is imported before: numpy, for one, cannot be imported twice.
FIRST_USE = """
import json, os, shutil, sys, traceback
from pathlib import Path

import duckdb, numpy, pyarrow, scipy, sqlglot
import duckdp
from tests.interruptions import interrupted, steps

data, folder, rounds, start = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
assert not [name for name in sys.modules if name.startswith("duckdp.functions")]

def act():
    with duckdp.open(data, ledger=str(folder / "a.ledger")) as curator:
        curator.budget(epsilon=10)
        curator.grant("ana", epsilon=10)
        curator.protect("visits", unit_key="patient", max_rows=3, row_cap=10_000, bounds={"age": (0, 110)},
                        domains={"sex": ["F", "M"]})
        session = curator.session("ana")
        session.sql("SELECT sex, avg(age) FROM visits GROUP BY sex", epsilon=0.5).rows()
        session.smooth_summary("visits", ["age"], epsilon=0.1, degree=4, name="s").rows()
        session.synthesize("visits", epsilon=0.1, rows=5, columns=["sex"], method="tree", name="t").rows()
        curator.front("ana").sql("SELECT dp_noisy_count('visits', epsilon := 0.1)").rows()

def interrupt(at):
    error = interrupted(act, at, ("",))
    act()
    return error is not None

def alone(work):
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    ours, theirs = os.pipe()
    child = os.fork()
    if not child:
        try:
            found = work()
        except BaseException:
            found = traceback.format_exc()[-2000:]
        os.write(theirs, json.dumps(found).encode())
        os._exit(0)
    os.close(theirs)
    with open(ours, "rb") as told:
        found = told.read()
    os.waitpid(child, 0)
    return json.loads(found)

count = alone(lambda: steps(act, ("",)))
assert count > 20_000, count
every = count // rounds
found = {at: alone(lambda: interrupt(at)) for at in range(1 + start % every, count, every)}
print(json.dumps({at: told for at, told in found.items() if told is not True}))
"""


def _run(script: Path, *arguments: object) -> str:
    command = [sys.executable, str(script), *map(str, arguments)]
    environment = os.environ | {"PYTHONPATH": str(ROOT.parent), "OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, timeout=3600, env=environment)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_whatever_was_imported_can_be_imported_anew(tmp_path: Path) -> None:
    """Without its own process it would leave classes of two kinds behind."""
    script = tmp_path / "again.py"
    script.write_text(AGAIN)
    names = [name for name, path in modules().items() if path.relative_to(ROOT).parts[0] not in ALONE]
    assert len(names) > 300
    assert _run(script, json.dumps(names)) == "[]\n"


def interrupt_first_use(folder: Path, rounds: int) -> None:
    script = folder / "first_use.py"
    script.write_text(FIRST_USE)
    data = Path(__file__).parent / "fixtures" / "ledgers" / "version_2" / "visits.parquet"
    assert json.loads(_run(script, data, folder / "work", rounds, 13)) == {}


def test_first_use_that_is_interrupted_somewhere(tmp_path: Path) -> None:
    interrupt_first_use(tmp_path, 2)


@pytest.mark.slow
def test_first_use_that_is_interrupted_anywhere(tmp_path: Path) -> None:
    interrupt_first_use(tmp_path, 100)

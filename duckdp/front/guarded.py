"""What an analyst holds of a front: DuckDB's connection and relations, with errors that tell nothing of the curator.

DuckDB's errors about a statement (parser, binder, catalog, conversion, ...) are for whoever wrote it and pass. An error
inside DuckDB prints a stack of addresses and the paths of the curator's machine; a module that is missing prints a
Python traceback. Of these the kind stays and the text is a constant one. An error that ends the instance is reported,
so that the next connection gets a new instance.

This is for those who pass errors on (a server, a notebook for others): Python inside the process can reach anything.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from types import GeneratorType
from typing import Any

import duckdb

from duckdp.errors import ExecutionError, ParameterError
from duckdp.front.instance import Instance
from duckdp.functions.macros import signature
from duckdp.functions.spec import FUNCTIONS
from duckdp.process.aside import aside
from duckdp.process.attempt import INTERRUPTED

USER_FACING = (
    duckdb.ParserException,
    duckdb.SyntaxException,
    duckdb.BinderException,
    duckdb.CatalogException,
    duckdb.ConversionException,
    duckdb.OutOfRangeException,
    duckdb.TypeMismatchException,
    duckdb.InvalidInputException,
    duckdb.InvalidTypeException,
    duckdb.ConstraintException,
    duckdb.DependencyException,
    duckdb.SequenceException,
    duckdb.PermissionException,
    duckdb.TransactionException,
    duckdb.NotImplementedException,
    duckdb.InterruptException,
    duckdb.OutOfMemoryException,
    duckdb.ConnectionException,
    duckdb.ResourceInUseException,
)
WITHHELD = (
    "Q105: DuckDB failed on this statement, and its message is withheld because it may show addresses and paths of the "
    "curator's machine. Write the statement in another way."
)
ENDED = (
    "Q105: the analyst's own DuckDB instance ended by an error inside DuckDB, and what was made in it is gone. Nothing "
    "private is concerned. Take a new connection."
)
ZONED = (
    "Q105: a value with a time zone becomes a Python object only where the curator has the module pytz. Write "
    "CAST(... AS TIMESTAMP), or CAST(... AS VARCHAR)."
)
#: DuckDB's words for what a dp function cannot do there -> ours, with what does work.
WAYS_OUT = {
    "Cannot copy BoundSubqueryExpression": (
        "Q105: unnest cannot take a dp function itself apart. Write FROM dp_smooth_answer('s', 'x'), or SELECT unnest("
        "a) FROM (SELECT dp_smooth_answer('s', 'x') AS a)."
    ),
    "does not support lateral join column parameters": (
        "Q105: a dp function takes constants, no columns: what it asks does not depend on rows. Give many functions at "
        "once, FROM dp_smooth_answers('s', ['x', 'x * x']), a parameter ($1), or a variable that was SET before: SET "
        "VARIABLE f = (SELECT list(...) FROM ...); FROM dp_smooth_answers('s', getvariable('f'))."
    ),
    "Table function cannot contain subqueries": (
        "Q105: a dp function takes no subquery. SET VARIABLE v = (SELECT ...), then give getvariable('v')."
    ),
}
#: DuckDB's words for arguments that a dp function does not have, or not so many, or that are given twice.
_ARGUMENTS = re.compile(r'Macro "?(dp_\w+)"?\(\) (?:does not support|has named argument)')
#: What a text about a statement never holds by itself: frames, addresses, files of two folders or more.
_MACHINE = re.compile(
    r"Traceback \(most recent|Stack Trace|0x[0-9a-fA-F]{4,}|(?<![:\w./-])/(?:[\w.+-]+/){2,}[\w.+-]*"
)  # whole addresses and paths: who writes the beginning of one is not told the rest
#: How the text of each kind begins, for errors that Arrow hands on without their class.
_BEGINNINGS = {
    "Conversion Error": duckdb.ConversionException,
    "Out of Range Error": duckdb.OutOfRangeException,
    "Invalid Input Error": duckdb.InvalidInputException,
    "INTERRUPT Error": duckdb.InterruptException,
    "Constraint Error": duckdb.ConstraintException,
    "Out of Memory Error": duckdb.OutOfMemoryException,
    "Not implemented Error": duckdb.NotImplementedException,
    "FATAL Error": duckdb.FatalException,
}
_CODED = re.compile(r"\b[A-Z]\d{3}: ")
#: What runs a statement, or reads what is run while it is read.
_LONG = frozenset(
    (
        "execute",
        "executemany",
        "sql",
        "query",
        "from_query",
        "fetchall",
        "fetchdf",
        "df",
        "to_df",
        "fetchnumpy",
        "fetch_arrow_table",
        "to_arrow_reader",
        "fetch_record_batch",
        "arrow",
        "to_arrow_table",
        "pl",
        "show",
        "create",
        "insert_into",
        "to_table",
        "to_csv",
        "write_csv",
        "to_parquet",
        "write_parquet",
        "read_all",
    )
)
_LIVE: tuple[type, ...] = (duckdb.DuckDBPyConnection, duckdb.DuckDBPyRelation)
_APPENDERS = ("Appender", "QueryAppender")


def wrong_arguments(error: BaseException) -> ParameterError | None:
    """The refusal of a dp function's arguments that DuckDB's binder made, in our words: what the function takes."""
    found = _ARGUMENTS.search(str(error))
    spec = None if found is None else FUNCTIONS.get(found[1])
    if spec is None:
        return None
    taken = signature(spec).partition("(")[2][:-1]
    rule = f"takes {taken}; each once, by its place or by name (:=)." if taken else "takes no arguments."
    return ParameterError("P107", "function", spec.name, rule)


def told(error: BaseException, given: str = "") -> str:
    """What may be told of an error in a front.

    Args:
        error: as it was raised by DuckDB.
        given: what the analyst wrote; a path in it may be told.
    """
    text = str(error)
    if isinstance(error, duckdb.FatalException):
        return ENDED
    if "module 'pytz'" in text:
        return ZONED
    if (refusal := wrong_arguments(error)) is not None:
        return str(refusal)
    if way := next((w for words, w in WAYS_OUT.items() if words in text and (not given or "dp_" in given)), None):
        return way
    shown = text
    for part in set(_MACHINE.findall(text)):
        if part in given and part[0] in "/0":
            shown = shown.replace(part, "")
    return text if isinstance(error, USER_FACING) and not _MACHINE.search(shown) else WITHHELD


class Guarded:
    """Stands for a DuckDB connection, relation or appender; also for ``isinstance``.

    Args:
        inner: what it stands for.
        instance: where it lives.
        interrupt: ends what runs, when Ctrl-C comes; the connection's own by default.
    """

    __slots__ = ("__weakref__", "_inner", "_instance", "_interrupt")

    def __init__(self, inner: Any, instance: Instance, interrupt: Callable[[], object] | None = None) -> None:
        self._inner = instance.keep(inner)
        self._instance = instance
        self._interrupt: Callable[[], object] = interrupt or (lambda: inner.interrupt())

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        return type(self._inner)

    def __getattr__(self, name: str) -> Any:
        if (refused := self._instance.problem()) is not None and callable(getattr(type(self._inner), name, None)):
            return partial(_too_late, name, refused)
        with self._guard(name):
            found = getattr(self._inner, name)
        if not callable(found) or isinstance(found, type):
            return self._wrapped(found)

        def call(*args: Any, **named: Any) -> Any:
            return self._call(found, *args, **named)

        def call_aside(*args: Any, **named: Any) -> Any:
            return self._call(lambda *a, **n: aside(lambda: found(*a, **n), self._interrupt), *args, **named)

        return call_aside if name in _LONG else call

    def __dir__(self) -> list[str]:
        return dir(self._inner)

    def __enter__(self) -> Any:
        return self._call(self._inner.__enter__)

    def __exit__(self, *error: object) -> Any:
        return None if self._instance.problem() is not None else self._call(self._inner.__exit__, *error)

    def __len__(self) -> int:
        return int(self._call(lambda: aside(lambda: len(self._inner), self._interrupt)))

    def __contains__(self, key: object) -> bool:
        return bool(self._call(lambda: key in self._inner))

    def __getitem__(self, key: object) -> Any:
        return self._call(lambda: self._inner[key])

    def __repr__(self) -> str:
        refused = self._instance.problem()
        if refused is not None:
            return f"<{type(self._inner).__name__}: {refused}>"
        return str(self._call(lambda: aside(lambda: repr(self._inner), self._interrupt)))

    def __str__(self) -> str:
        return str(self._call(lambda: aside(lambda: str(self._inner), self._interrupt)))

    def __arrow_c_stream__(self, schema: object = None) -> Any:
        # read whole: an error inside a stream reaches its reader as Arrow words it, Python's traceback included
        return self._whole().__arrow_c_stream__(schema)

    def _whole(self) -> Any:
        return self.to_arrow_table()

    def _call(self, function: Callable[..., Any], *args: Any, **named: Any) -> Any:
        plain = [a._inner if issubclass(type(a), Guarded) else a for a in args]
        given = {k: v._inner if issubclass(type(v), Guarded) else v for k, v in named.items()}
        with self._guard(*plain, *given.values()):
            return self._wrapped(function(*plain, **given))

    def _wrapped(self, found: Any) -> Any:
        """What is alive, and may fail later, comes guarded."""
        if found is self._inner:
            return self
        if isinstance(found, _LIVE) or type(found).__name__ in _APPENDERS:
            return Guarded(found, self._instance, self._interrupt)
        if isinstance(found, GeneratorType):
            return self._read(found)
        if type(found).__name__ == "RecordBatchReader":
            return GuardedReader(found, self._instance, self._interrupt)
        return found

    def _read(self, rows: Iterator[Any]) -> Iterator[Any]:
        """Rows or batches one by one."""
        rows = iter(rows)
        while True:
            with self._guard():
                try:
                    row = next(rows)
                except StopIteration:
                    return
            yield row

    @contextmanager
    def _guard(self, *given: object) -> Iterator[None]:
        """Only told errors leave; Ctrl-C is E102."""
        problem: duckdb.Error | None = None
        interrupted = False
        try:
            with self._instance.asked():
                yield
        except KeyboardInterrupt:
            interrupted = True
        except duckdb.Error as error:
            problem = error
        except Exception as error:
            interrupted = isinstance(error, RuntimeError) and str(error) in INTERRUPTED
            problem = None if interrupted else _as_duckdb(error)
            if not interrupted and problem is None:
                raise  # of the call itself: a wrong number of arguments, an attribute that is not there
        if interrupted:
            raise ExecutionError("E102", None)
        if problem is not None:
            if isinstance(problem, duckdb.FatalException):
                self._instance.ended = True
            found = type(problem)(told(problem, " ".join(g for g in given if isinstance(g, str))))
            if (refused := self._instance.problem()) is not None and not _CODED.search(str(found)):
                found = duckdb.ConnectionException(refused)  # closed meanwhile
            try:
                raise found from None
            finally:  # a traceback, or whoever holds the error, would show what was withheld
                found.__context__ = None


def _as_duckdb(error: Exception) -> duckdb.Error | None:
    """DuckDB's error in what Arrow, polars or the system raised in its place; None: it is nobody's of these."""
    if not isinstance(error, OSError) and type(error).__module__.split(".")[0] not in ("pyarrow", "polars"):
        return None
    text = str(error)
    kinds = (kind for start, kind in _BEGINNINGS.items() if text.startswith(start))
    return next(kinds, duckdb.InternalException)(text)


def _too_late(name: str, refused: str, *_: object, **__: object) -> None:
    """What a method does after the end: closing and interrupting again is harmless."""
    if name not in ("close", "interrupt"):
        raise duckdb.ConnectionException(refused)


class GuardedReader(Guarded):
    """Stands for an Arrow reader of batches."""

    __slots__ = ()

    def __iter__(self) -> Iterator[Any]:
        return self._read(self._inner)

    def __next__(self) -> Any:
        return self._call(next, self._inner)

    def _whole(self) -> Any:
        return self.read_all()

"""One statement on an analyst's instance: what it gives, without knowing how it crosses the wire."""

from __future__ import annotations

import datetime as dt
import math
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, TypeVar

import duckdb

from duckdp.catalog.table import plain_type
from duckdp.compiler.parse import names_tables, parse_statement
from duckdp.errors import DuckDPError
from duckdp.front.crossing import Rows, read_rows
from duckdp.serve.catalog import is_catalog_question, rewritten
from duckdp.serve.lists import items_of_text
from duckdp.serve.making import take_apart
from duckdp.serve.price_terms import none_set
from duckdp.serve.readings import as_texts, readings
from duckdp.serve.settings import Settings
from duckdp.serve.sqlstates import Refused
from duckdp.serve.statements import substitute, words
from duckdp.serve.values import OIDS, Type, Untyped, type_of
from duckdp.texts import sql_text

_NUMBER = re.compile(r"-?(\d+(\.\d*)?|\.\d+)(e[+-]?\d+)?", re.IGNORECASE)
BATCH = 1_000  # rows that are fetched at once
_CHANGES = frozenset(("insert", "update", "delete", "create", "merge", "copy"))
# How DuckDB's postgres_query reads what it was given: the question within is asked, as it stands.
_SCANNED = re.compile(r'SELECT ((?:"(?:[^"]|"")*"(?!")(?:, )?)+) FROM \((.*)\) AS __unnamed_subquery', re.DOTALL)
# How tools ask for the columns of a table: without a call, so without an aggregate, and of one SELECT it has no rows
# whatever the data.
_NO_ROWS = re.compile(
    r"(?!.*(?:\b(?:union|intersect|except)\b|--|/\*))select\s[^();$]*\sfrom\s[^();$]*\s"
    r"(?:where\s+(?:false|0\s*=\s*1|1\s*=\s*[02]|1\s*(?:<>|!=)\s*1)|limit\s+0)",
    re.IGNORECASE | re.DOTALL,
)
_RETURNING = re.compile(r"\breturning\b", re.IGNORECASE)
T = TypeVar("T")
Columns = list[tuple[str, Type]]
Ask = Callable[[str, dict[str, str]], tuple[list[tuple[str, str]], Rows] | None]
_EXPLAIN: Columns = [("explain_key", type_of("VARCHAR")), ("explain_value", type_of("VARCHAR"))]


@dataclass
class Ran:
    """What a statement gave: rows, or none, and how it ends.

    Attributes:
        columns: of its rows; None where it gives none.
        tag: what PostgreSQL would say when it has ended; rows are counted into it.
    """

    columns: Columns | None
    tag: str
    _batches: Iterator[list[tuple[Any, ...]]] = field(default_factory=lambda: iter(()))
    _ahead: list[tuple[Any, ...]] = field(default_factory=list)
    ended: bool = False

    def take(self, most: int) -> list[tuple[Any, ...]]:
        """At most so many rows; fewer, or none, at the end (``ended``)."""
        while len(self._ahead) <= most:
            batch = next(self._batches, None)
            if not batch:
                self.ended = len(self._ahead) <= most
                break
            self._ahead += batch
        found, self._ahead = self._ahead[:most], self._ahead[most:]
        return found

    def batches(self) -> Iterator[list[tuple[Any, ...]]]:
        """All rows that are left."""
        if self._ahead:
            ahead, self._ahead = self._ahead, []
            yield ahead
        yield from self._batches
        self.ended = True


class Runner:
    """Runs statements of one connection.

    Args:
        cursor: of the analyst's instance, this connection's own.
        protected: lower-case names of protected tables, as they are now.
        settings: of the connection.
        fetch: told each statement before it runs, to bring what it names.
        ask: a private question and its terms; columns and rows, or None: it is bound as dp_query.
    """

    def __init__(
        self,
        cursor: duckdb.DuckDBPyConnection,
        protected: frozenset[str],
        settings: Settings,
        fetch: Callable[[str], None] = lambda _: None,
        ask: Ask = lambda *_: None,
    ) -> None:
        self.cursor, self.protected, self._settings, self._fetch_rows = cursor, protected, settings, fetch
        self._ask = ask

    def describe(self, text: str, values: Sequence[object]) -> Columns | None:
        """Columns that a statement would give; nothing is charged. None: none."""
        if self._is_empty(text):
            return self._columns(text, [])
        made, given = self._made(text, values)
        if not self._gives_rows(made):
            return None
        first = words(made, 1)[0]
        if first in _CHANGES:  # DuckDB describes none of them, and gives rows of those alone that say so
            if not _RETURNING.search(made):
                return None
            raise Refused("0A000", "RETURNING cannot be described before it runs.", "Send it as a simple query.")
        if first == "explain":
            return _EXPLAIN
        if first in ("pragma", "call", "show", "describe", "desc", "summarize", "execute"):
            if "dp_" in made.lower() or first in ("call", "execute"):
                raise Refused(
                    "0A000", f"{first.upper()} cannot be described before it runs.", "Send it as a simple query."
                )
            return self.run(text, values).columns
        return self._first(text, values, made, lambda made: self._columns(made, given))

    def run(self, text: str, values: Sequence[object]) -> Ran:
        """Run a statement; a question of private rows is charged here."""
        if self._is_empty(text):
            return Ran(columns=self._columns(text, []), tag="SELECT")
        if (asked := self._asked(text, values)) is not None:
            return asked
        made, given = self._made(text, values)
        gives_rows = self._gives_rows(made)
        self._fetch_rows(made)
        done = self._first(text, values, made, lambda made: self._executed(made, given))
        word = (words(text, 2) or [""])[0]
        if not gives_rows or (word in _CHANGES and [d[0] for d in done.description or []] == ["Count"]):
            return Ran(columns=None, tag=_tag(text, word, done))
        columns = [(str(d[0]), _type(str(d[0]), str(d[1]), text)) for d in done.description or []]
        return Ran(columns=columns, tag="SELECT", _batches=_fetch(done))

    def _first(
        self,
        text: str,
        values: Sequence[object],
        made: str,
        execute: Callable[[str], T],
    ) -> T:
        """Execute a question, whose parameters may be read in several ways."""

        def write(given: Sequence[object]) -> str:
            return made if given is values else self._made(text, given)[0]

        try:
            return _read(text, values, write, execute)
        except duckdb.Error as error:
            if "P101: epsilon=None: " in str(error):
                raise none_set(self._settings.terms()) from None
            raise

    def _asked(self, text: str, values: Sequence[object]) -> Ran | None:
        """A question of private rows, asked of the server at once; None: DuckDB has a part in it."""
        terms = self._settings.terms()
        if "epsilon" not in terms or words(text, 1) not in (["select"], ["with"], ["from"]):
            return None
        if not self._names_any(text) or _SCANNED.fullmatch(text.strip()):
            return None  # what only looks like a protected name, the server tells: it reads the statement anyway
        terms = {"intervals": "false", **terms}
        found = _read(text, values, lambda given: _question(text, given), lambda asked: self._ask(asked, terms))
        if found is None:
            return None
        columns, rows = found
        described = [(name, type_of(plain_type(kind))) for name, kind in columns]
        return Ran(columns=described, tag="SELECT", _batches=iter([read_rows(columns, rows)]))

    def _made(self, text: str, values: Sequence[object]) -> tuple[str, list[object]]:
        """The statement that runs: a question of private rows becomes a call of dp_query, or of dp_explain."""
        explained, kept = words(text, 1) == ["explain"], self._kept(text)
        inner = text.strip()[len("explain") :] if explained else text
        if kept is not None:
            question, _ = self._made(kept[1], values)
            return kept[0] + question, []
        if explained and words(inner, 1) == ["analyze"] and self._names_any(inner):
            raise Refused("0A000", "EXPLAIN ANALYZE would run the question.", "Write EXPLAIN.")
        if not self.is_private(inner):
            if is_catalog_question(text):
                text = rewritten(text)
            return text, list(values)
        scanned = _SCANNED.fullmatch(inner.strip())
        question = _question(scanned[2] if scanned else inner, values)
        terms = dict(self._settings.terms())
        if explained:
            terms = {k: v for k, v in terms.items() if k not in ("intervals", "fresh")}
        else:
            terms.setdefault("intervals", "false")
        given = "".join(f", {name} := {sql_text(value)}" for name, value in terms.items())
        columns = f"SELECT {scanned[1]} " if scanned and not explained else ""
        return f"{columns}FROM dp_{'explain' if explained else 'query'}({sql_text(question)}{given})", []

    def column_types(self, text: str) -> dict[str, str]:
        """Types of columns of the tables that a text may name, by lower-case name; of one name one type alone."""
        folded, found = text.lower(), dict[str, set[str]]()
        rows = self.cursor.execute(
            "SELECT lower(table_name), lower(column_name), data_type FROM duckdb_columns() WHERE NOT internal"
        ).fetchall()
        for table, column, kind in rows:
            if table in folded:
                found.setdefault(column, set()).add(kind)
        return {column: kinds.pop() for column, kinds in found.items() if len(kinds) == 1}

    def _executed(self, text: str, given: Sequence[object]) -> duckdb.DuckDBPyConnection:
        """Execute; parameters without a type are texts, or numbers where the text reckons with them."""
        if not any(isinstance(v, Untyped) for v in given):
            return self.cursor.execute(text, list(given))
        reckoned = {int(found[1] or found[2]) for found in _RECKONED.finditer(text)}
        return self.cursor.execute(
            text,
            as_texts([_number(v) if n in reckoned and isinstance(v, Untyped) else v for n, v in enumerate(given, 1)]),
        )

    def _columns(self, text: str, given: list[object]) -> Columns:
        rows = self._executed(f"DESCRIBE {text}", given).fetchall()
        return [(str(name), _type(str(name), str(kind), text)) for name, kind, *_ in rows]

    def _is_empty(self, text: str) -> bool:
        """Whether a question over protected tables has no rows by its form: it tells its columns, free."""
        return self._names_any(text) and _NO_ROWS.fullmatch(text.strip()) is not None

    def _kept(self, text: str) -> tuple[str, str] | None:
        """A statement that makes a table or view of a private question's answer: what comes before it, and it."""
        if words(text, 1) not in (["create"], ["insert"]) or not self._names_any(text):
            return None
        found = take_apart(text)
        return found if found is not None and self.is_private(found[1]) else None

    def _names_any(self, text: str) -> bool:
        folded = text.lower()
        return any(name in folded for name in self.protected)

    def is_private(self, text: str) -> bool:
        """Whether a statement is a question over protected tables."""
        if not self._names_any(text):
            return False
        try:
            tree = parse_statement(text)
        except DuckDPError:
            return False  # DuckDB says what is wrong with it; a protected table's stub gives no rows
        return tree.key not in ("describe", "create", "drop") and bool(names_tables(tree) & self.protected)

    def _gives_rows(self, text: str) -> bool:
        found = self.cursor.extract_statements(text)
        if len(found) != 1:
            raise Refused("42601", "one statement is expected here.")
        return duckdb.ExpectedResultType.QUERY_RESULT in found[0].expected_result_type


def _type(name: str, kind: str, text: str) -> Type:
    """A column's type. asyncpg asks about types it does not know, of which lists of types' numbers may be none."""
    return OIDS if name == "attrtypoids" and "typeinfo_tree" in text else type_of(kind)


def _read(
    text: str, values: Sequence[object], write: Callable[[Sequence[object]], str], execute: Callable[[str], T]
) -> T:
    """Execute a question with its parameters read as the first thing that its types allow."""
    refused: dict[str, duckdb.Error] = {}
    for given in readings(_with_lists(text, values)):
        written = write(given)
        if written in refused:
            continue
        try:
            return execute(written)
        except duckdb.Error as error:
            if "Q203: " not in str(error):
                raise
            refused[written] = error.with_traceback(None)
    try:
        raise list(refused.values())[:2][-1]  # where a number is none, what is said of it as a text says more
    finally:
        refused.clear()  # an error that its own frame holds would hold the connection open


def _number(value: str) -> object:
    return value if not _NUMBER.fullmatch(value) else int(value) if value.lstrip("-").isdigit() else Decimal(value)


_RECKONED = re.compile(r"\$(\d+)\s*[-+*/%]|[-+*/%]\s*\$(\d+)")
_LISTED = re.compile(r"\b(?:any|all)\s*\(\s*\$(\d+)", re.IGNORECASE)
_ONE_OF = re.compile(
    r"""('(?:[^']|'')*'|"(?:[^"]|"")*")"""
    r"|(=|<>|!=)\s*(any|all)\s*\(\s*(?:array\s*)?\[((?:'(?:[^']|'')*'(?!')|[^\[\]'\"])*)\]\s*(?:::\s*\w+\[\]\s*)?\)",
    re.IGNORECASE,
)


def _question(text: str, values: Sequence[object]) -> str:
    """A private question with its parameters as literals; a list that a value is one of, or none of, stands as IN.

    >>> _question("SELECT count(*) FROM v WHERE a = ANY($1) AND b <> ALL(ARRAY['x'])", [[1, 2]])
    "SELECT count(*) FROM v WHERE a IN (1, 2) AND b NOT IN ('x')"
    """

    def written(found: re.Match[str]) -> str:
        _, sign, every, items = found.groups()
        if sign is None or (sign == "=") != (every.lower() == "any") or not items.strip():
            return found[0]
        return f"{'IN' if sign == '=' else 'NOT IN'} ({items.strip()})"

    given = [_literal(v) for v in _with_lists(text, values)]
    return _ONE_OF.sub(written, substitute(text.strip(), given))


def _with_lists(text: str, values: Sequence[object]) -> Sequence[object]:
    """The parameters, of which those that are lists by the text are read as lists; the same where none is."""
    listed = {int(found[1]) for found in _LISTED.finditer(text)}
    return [_list_in(v) if n in listed else v for n, v in enumerate(values, 1)] if listed else values


def _list_in(value: object) -> object:
    """The list that a parameter without a type says, if it says one; one that is not there yet has an item."""
    if not isinstance(value, Untyped):
        return [None] if value is None else value
    try:
        return [None if item is None else Untyped(item) for item in items_of_text(value)]
    except ValueError:
        return value


def _fetch(done: duckdb.DuckDBPyConnection) -> Iterator[list[tuple[Any, ...]]]:
    while rows := done.fetchmany(BATCH):
        yield rows


def _tag(text: str, word: str, done: duckdb.DuckDBPyConnection) -> str:
    count = 0
    if done.description:
        row = done.fetchone()
        count = row[0] if row and isinstance(row[0], int) else 0
    match word:
        case "insert":
            return f"INSERT 0 {count}"
        case "update" | "delete":
            return f"{word.upper()} {count}"
        case "create" | "drop" | "alter":
            return " ".join(w.upper() for w in words(text, 2))
    return word.upper()


def _literal(value: object) -> str:
    """A parameter's value in a question's text; what it says is public."""
    match value:
        case None:
            return "NULL"
        case bool():
            return "TRUE" if value else "FALSE"
        case int() | Decimal():
            return f"({value})" if value < 0 else str(value)
        case float() if not math.isfinite(value):
            raise Refused("22003", f"{value} is no number to ask with.", "Leave out what is compared with it.")
        case float():
            return f"({value!r})" if value < 0 else repr(value)
        case Untyped() if _NUMBER.fullmatch(value):
            return f"({value})" if value.startswith("-") else str(value)
        case dt.datetime():
            plain = value if value.tzinfo is None else value.astimezone(dt.UTC).replace(tzinfo=None)
            return f"TIMESTAMP '{plain.isoformat(sep=' ')}'"
        case dt.date():
            return f"DATE '{value.isoformat()}'"
        case dt.timedelta():
            units = (("DAY", dt.timedelta(days=1)), ("SECOND", dt.timedelta(seconds=1)))
            name, unit = next((u for u in units if not value % u[1]), ("MICROSECOND", dt.timedelta.resolution))
            return f"INTERVAL {_literal(value // unit)} {name}"
        case list():
            return f"[{', '.join(map(_literal, value))}]"
    return sql_text(str(value))

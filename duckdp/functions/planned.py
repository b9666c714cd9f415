"""What a planned call of a dp function is."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from duckdp.catalog.table import Table
from duckdp.compiler.expression import Expr
from duckdp.compiler.parse import MAX_STATEMENT, parse_scalar
from duckdp.compiler.query import Key
from duckdp.compiler.scope import read_predicate
from duckdp.compiler.weighted_stream import read_of_cells
from duckdp.errors import ParameterError
from duckdp.result import Result, note_name, plain_result

NOTE = ("note", "VARCHAR")  # the caveat's column
MOST_CANDIDATES = 1_000  # predicates of one call: each is a column of the read


@dataclass(frozen=True, kw_only=True)
class Planned:
    """A validated call: its result's columns, and what to do when it runs.

    Attributes:
        columns: (name, DuckDB type) in order.
        run: takes the call's nonce (which makes ``fresh`` the same question when retried); may charge.
        intervals: whether error columns are among ``columns``, and the caveat where there is one.
        note: whether the last of ``columns`` is the caveat, whatever it is.
        rows: at most so many rows, by public figures; None: any number.
        parts: of an answer in several tables, the columns of each; ``columns`` are all of them, one after another.
        after: the SELECT over such tables that is the result, from the SELECTs that give them.
    """

    columns: list[tuple[str, str]]
    run: Callable[[str], Result]
    intervals: bool = False
    note: bool = False
    rows: int | None = None
    parts: Sequence[Sequence[tuple[str, str]]] = ()
    after: Callable[[Sequence[str]], str] | None = None


def lines_of(lines: Sequence[str]) -> Planned:
    """Lines of text as a call's answer: an explanation."""
    rows = [(line,) for line in lines]
    return Planned(columns=[("plan", "VARCHAR")], run=lambda _: plain_result(["plan"], rows), rows=len(rows))


def with_note(
    columns: Iterable[tuple[str, str]], run: Callable[[str], Result], *, noted: bool, rows: int | None = None
) -> Planned:
    """A call whose rows bring a caveat, or a note of where they go on, as their last column where there is one."""
    return Planned(columns=[*columns, *([NOTE] if noted else [])], run=run, note=noted, rows=rows)


def read_where(text: str | None, table: Table) -> Expr | None:
    """A predicate given as text."""
    return None if text is None else read_predicate(parse_scalar(text), table, text)


def read_predicates(texts: Sequence[str], table: Table) -> tuple[Expr, ...]:
    """Candidates given as texts: predicates of rows, in their order.

    Raises:
        ParameterError: P107, none, too many, or one of them stands twice. QueryError: Q1xx to Q3xx.
    """
    if not texts:
        raise ParameterError("P107", "candidates", 0, "must not be empty.")
    if len(texts) > MOST_CANDIDATES:
        raise ParameterError("P107", "candidates", len(texts), f"are at most {MOST_CANDIDATES:,} predicates.")
    size = sum(len(text.encode("utf-8", "surrogatepass")) for text in texts)
    if size > MAX_STATEMENT:
        rule = f"have {size:,} bytes, more than the {MAX_STATEMENT:,} of one statement. Ask for fewer at once."
        raise ParameterError("P107", "candidates", len(texts), rule)
    read = tuple(read_predicate(parse_scalar(text), table, text) for text in texts)
    if len(set(read)) != len(read):
        raise ParameterError("P107", "candidates", len(read), "must differ: one of them stands twice.")
    return read


def read_questions(
    texts: Sequence[str],
    table: Table,
    keys: Sequence[Key],
    most: int = MOST_CANDIDATES,
    read: Callable[[str, Table, Sequence[Key]], Expr] = read_of_cells,
) -> tuple[Expr, ...]:
    """Questions given as texts: predicates of the cells' columns, or what ``read`` takes, in their order.

    Raises:
        ParameterError: P107, none, more than ``most``, too long, of another column, or one of them stands twice.
        QueryError: Q1xx to Q3xx.
    """
    if not 0 < len(texts) <= most:
        raise ParameterError("P107", "questions", len(texts), f"must be between 1 and {most:,} predicates.")
    if sum(len(text.encode("utf-8", "surrogatepass")) for text in texts) > MAX_STATEMENT:
        rule = f"have more than the {MAX_STATEMENT:,} bytes of one statement. Ask for fewer at once."
        raise ParameterError("P107", "questions", len(texts), rule)
    questions = tuple(read(text, table, keys) for text in texts)
    if len(set(questions)) != len(questions):
        raise ParameterError("P107", "questions", len(questions), "must differ: one of them stands twice.")
    return questions


def predicate_text(predicate: str | None) -> str:
    """A predicate as the ledger shows it, after the other arguments."""
    return "" if predicate is None else f", predicate := {predicate}"


def with_errors(columns: list[tuple[str, str]], caveat: str | None = None) -> list[tuple[str, str]]:
    """Columns followed by the error columns of each, and one for a caveat."""
    errors = [
        (f"{n}_{s}" if n != "value" else s, "DOUBLE") for n, _ in columns for s in ("standard_error", "low", "high")
    ]
    return columns + errors + ([(note_name([n for n, _ in columns]), "VARCHAR")] if caveat is not None else [])

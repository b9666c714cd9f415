"""Analyst's text to one sqlglot statement, with places for error messages.

sqlglot is used as a parser only: nothing it prints is ever executed. What it accepts wrongly is caught by the
translation, which knows every node it allows.
"""

from __future__ import annotations

import logging
import re
import threading
from functools import lru_cache
from typing import NoReturn

from sqlglot import exp
from sqlglot.errors import SqlglotError
from sqlglot.tokens import Token, TokenType  # type: ignore[attr-defined]

from duckdp.compiler.tokens import TooManyStepsError, parse_tokens, read_tokens
from duckdp.errors import QueryError

MAX_STATEMENT = 64 * 1024  # bytes
MOST_CACHED = 4096  # characters; the tree of a statement of 64 KB takes several MB
MAX_DEPTH = 150  # levels of a statement's tree
MAX_NODES = 20_000  # nodes of a statement's tree
_HEAD = "SELECT "  # before a text that is no statement, so that it is read as one
_quiet = threading.local()

SPACED = 'Put a name with a space in double quotes: "a b".'


def _not_ours(_: logging.LogRecord) -> bool:
    """Keep what sqlglot logs of half-understood statements from the owner's terminal: it is an analyst's text."""
    return not getattr(_quiet, "on", False)


logging.getLogger("sqlglot").addFilter(_not_ours)


# Keywords of nodes that may hold no token with a place
_WORDS = {
    exp.Ordered: r"\border\s+by\b",
    exp.Interval: r"\binterval\b",
    exp.Qualify: r"\bqualify\b",
    exp.Limit: r"\blimit\b",
    exp.Offset: r"\boffset\b",
    exp.Where: r"\bwhere\b",
    exp.Having: r"\bhaving\b",
}


def parse_statement(text: str) -> exp.Expression:
    """Parse a text that is exactly one statement.

    Args:
        text: DuckDB SQL, at most 64 KB.

    Returns:
        The tree. It is cached: never change it.

    Raises:
        QueryError: Q101 not SQL, Q102 several statements, Q104 too long or nested too deeply.
    """
    return _parse_short(text) if len(text) <= MOST_CACHED else _parse_one(text)


@lru_cache(maxsize=256)
def _parse_short(text: str) -> exp.Expression:
    return _parse_one(text)


def _parse_one(text: str) -> exp.Expression:
    if len(text.encode("utf-8", "surrogatepass")) > MAX_STATEMENT:
        raise QueryError("Q104", f"the statement is longer than {MAX_STATEMENT} bytes. Split it.")
    if "\x00" in text or any("\ud800" <= c <= "\udfff" for c in text):
        raise QueryError("Q101", "the text holds characters that are not text.")
    _quiet.on = True
    try:
        statements = _parse(text)
    except SqlglotError as error:
        line, col = _error_place(error)
        raise QueryError(
            "Q101", "this is not SQL that duckdp can read. Check it from here on.", line=line, col=col
        ) from None
    except (RecursionError, TooManyStepsError):
        raise QueryError(
            "Q104", "the statement nests too deeply to be read. Put fewer parentheses, functions or CASEs in others."
        ) from None
    except (AttributeError, TypeError, ValueError, IndexError, KeyError):
        raise QueryError("Q101", "this is not SQL that duckdp can read.") from None
    finally:
        _quiet.on = False
    if not statements:
        raise QueryError("Q101", "the text holds no statement.")
    if len(statements) > 1:
        raise QueryError("Q102", "the text holds more than one statement. Send them one by one.")
    _check_size(statements[0])
    return statements[0]


def parse_scalar(text: str) -> exp.Expression:
    """Parse one scalar expression, for example a predicate; places in it are those of the text itself.

    Raises:
        QueryError: Q101, Q102, Q104 as :func:`parse_statement`.
    """
    (inner,) = _listed(text, "one scalar expression", most=1)
    if isinstance(inner, exp.Alias):
        raise QueryError("Q101", f"an alias has no place in a scalar expression. {SPACED}")
    return inner


def parse_list(text: str) -> list[exp.Expression]:
    """Parse expressions with commas between them, as :func:`parse_scalar` one."""
    return _listed(text, "a list of grouping expressions")


def _listed(text: str, what: str, most: int | None = None) -> list[exp.Expression]:
    try:
        statement = parse_statement(f"{_HEAD}{text}\n")
    except QueryError as error:
        if error.line != 1 or error.col is None:
            raise
        message = error.message.removeprefix(f"line 1, col {error.col}: ")
        raise QueryError(error.code, message, line=1, col=max(1, error.col - len(_HEAD))) from None
    extra = [k for k, v in statement.args.items() if v and k != "expressions"]
    found = [] if extra or not isinstance(statement, exp.Select) else statement.expressions
    if not found or (most is not None and len(found) > most) or not all(isinstance(e, exp.Expression) for e in found):
        raise QueryError("Q101", f"this is not {what}.")
    return [_moved(e) for e in found]


def _moved(node: exp.Expression) -> exp.Expression:
    """A tree like this one, as if nothing stood before the text: the parsed one is cached."""
    made = node.copy()
    for found in made.find_all(exp.Expression):
        for end in ("start", "end"):
            if found._meta and isinstance(found._meta.get(end), int):
                found._meta[end] -= len(_HEAD)
    return made


def place(node: exp.Expression, text: str | None) -> dict[str, int]:
    """Line and column (from 1) of a node's first token, when the parser kept it."""
    if text is None:
        return {}
    start = _start(node)
    if start is None:  # words that keep no place: by their keyword, or next to their neighbours
        word = next((w for kind, w in _WORDS.items() if isinstance(node, kind)), None)
        found = list(re.finditer(word, text, re.IGNORECASE)) if word is not None else []
        start = found[-1].start() if found else None
    above: exp.Expr | None = node.parent
    while start is None and above is not None:
        start, above = _start(above), above.parent
    if start is None:
        return {}
    before = text[:start]
    return {"line": before.count("\n") + 1, "col": start - (before.rfind("\n") + 1) + 1}


def _start(node: exp.Expr) -> int | None:
    """Where the first token of a node stands in the text, if one kept it."""
    for found in (node, *node.find_all(exp.Expression)):
        start = found.meta.get("start") if found._meta else None
        if isinstance(start, int):
            return start
    return None


def refuse(code: str, message: str, node: exp.Expression | None = None, text: str | None = None) -> NoReturn:
    """Raise a QueryError at a node."""
    where = place(node, text) if node is not None else {}
    raise QueryError(code, message, sql=text, line=where.get("line"), col=where.get("col"))


def _parse(text: str) -> list[exp.Expression]:
    return parse_tokens(_numbered(read_tokens(text)), text)


def _numbered(tokens: list[Token]) -> list[Token]:
    """Write each ? as $1, $2, ... in the order of the text: a tree may be read in another order, or twice."""
    found: list[Token] = []
    number = 0
    for i, token in enumerate(tokens):
        if token.token_type is TokenType.NUMBER and i + 1 < len(tokens) and tokens[i + 1].start == token.end + 1:
            _refuse_glued(tokens[i + 1])
        if token.token_type is not TokenType.PLACEHOLDER:
            found.append(token)
            continue
        number += 1
        for kind, shown in ((TokenType.PARAMETER, "$"), (TokenType.NUMBER, str(number))):
            found.append(Token(kind, shown, line=token.line, col=token.col, start=token.start, end=token.end))
    return found


def _refuse_glued(token: Token) -> None:
    """0xFF is 0 AS xFF to sqlglot and 255 to DuckDB."""
    if token.token_type is TokenType.VAR:
        raise QueryError(
            "Q101",
            "a number runs into a name; write a space, or the number in decimals.",
            line=token.line,
            col=token.col - len(token.text) + 1,
        )


def _check_size(tree: exp.Expression) -> None:
    depth, nodes, level = 0, 0, [tree]
    while level:
        depth, nodes = depth + 1, nodes + len(level)
        if depth > MAX_DEPTH or nodes > MAX_NODES:
            raise QueryError("Q104", f"the statement nests deeper than {MAX_DEPTH} or has over {MAX_NODES} parts.")
        level = [child for node in level for child in node.iter_expressions()]


def _error_place(error: SqlglotError) -> tuple[int | None, int | None]:
    errors = getattr(error, "errors", None) or [{}]
    line, col = errors[0].get("line"), errors[0].get("col")
    return (line, col) if isinstance(line, int) and isinstance(col, int) else (None, None)


def names_any(text: str, tables: set[str]) -> bool:
    """Whether a statement names one of the tables anywhere; DESCRIBE is for a table's stub.

    Raises:
        QueryError: Q101, Q102, Q104.
    """
    tree = parse_statement(text)
    return not isinstance(tree, exp.Describe) and bool(names_tables(tree) & tables)


def names_tables(tree: exp.Expression) -> set[str]:
    """Lower-case names of every relation that a statement mentions, at any depth."""
    return {t.name.lower() for t in tree.find_all(exp.Table)}

"""Analyst's text to tokens that are parsed in time proportional to their number.

The parser tries a type word before a bracket first as a type, then as a name or a function, and reads what stands in
the bracket each time: twice the time for each level, and 200 characters for an hour. So the tokens are bounded before
they are parsed, and the parser's own steps while it works. Each bound is several times what statements in use need.
The bounds stop the families known; a long search still finds others (joins without conditions). The count stops all:
of the parser's moves over tokens, and, where the parser is compiled and its moves cannot be counted, of the nodes it
makes, those given up included.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import zip_longest
from typing import Any

from sqlglot import exp
from sqlglot.dialects.dialect import Dialect
from sqlglot.errors import SqlglotError
from sqlglot.parser import Parser
from sqlglot.tokens import Token, TokenType  # type: ignore[attr-defined]

from duckdp.errors import QueryError

MAX_TOKENS = 20_000  # of a statement, before anything is parsed
MAX_BRACKETS = 64  # open at once
MAX_TYPED = 4  # of them after the name of a type, DECIMAL(, ARRAY[, MAP(, DATE (, or before FROM, (FROM t, (FROM
MAX_TYPES = 4  # names of types in a row: TIMESTAMP WITH TIME ZONE has two
MAX_CHAINED = 20_000  # calls of a function by a dot after a value, (a + b).f(), times all words and signs
MAX_LAMBDAS = 40_000  # of lambdas in each other (or -> of JSON), times all words and signs
MAX_TYPE_TEXT = 64  # characters of the text after one: INTERVAL '1 day', TIMESTAMP '2020-01-01 12:00:00'
# A text in use takes one or two steps for each token, two thirds at most for each character.
STEPS = 4  # for each character
MORE_STEPS = 2000

_DIALECT = Dialect.get_or_raise("duckdb")
# Subscripts stay as they are written. Else each one is counted from 0 anew, for which sqlglot finds the types of all
# that stands before it: f(a, a, ...)[1][1]... of 20 KB took minutes, in steps that nobody counts.
_DIALECT.INDEX_OFFSET = 0
_TYPES: frozenset[TokenType] = frozenset(_DIALECT.parser_class.TYPE_TOKENS)
_OPEN = {TokenType.L_PAREN, TokenType.L_BRACKET, TokenType.L_BRACE}
_CLOSE = {TokenType.R_PAREN, TokenType.R_BRACKET, TokenType.R_BRACE}
_NAMES = {TokenType.IDENTIFIER, TokenType.VAR}
_STAR_OPTIONS = {"EXCLUDE", "EXCEPT", "REPLACE", "RENAME"}
_PARSER: type[Parser] = _DIALECT.parser_class


class TooManyStepsError(Exception):
    """The parser goes back over the same tokens again and again."""


def read_tokens(text: str) -> list[Token]:
    """The tokens of a text.

    Raises:
        QueryError: Q101, Q104. SqlglotError: what no token is.
    """
    tokens: list[Token] = _DIALECT.tokenize(text)
    if len(tokens) > MAX_TOKENS:
        raise QueryError("Q104", f"the statement has over {MAX_TOKENS} words and signs. Split it.")
    check_tokens(tokens)
    return tokens


def parse_tokens(tokens: list[Token], text: str) -> list[exp.Expression]:
    """The statements of bounded tokens.

    Raises:
        TooManyStepsError, SqlglotError: and what else the parser meets in a text that is not SQL.
    """
    most = MORE_STEPS + STEPS * len(text)
    parser: Any = _parser_class()(dialect=_DIALECT, max_nodes=most)
    if type(parser) is not _PARSER:
        parser.steps = most
    return [s for s in parser.parse(tokens, text) if isinstance(s, exp.Expression)]


def check_tokens(tokens: list[Token]) -> None:
    """Refuse what the parser could go back over.

    Raises:
        QueryError: Q104.
    """
    _check_brackets(tokens)
    _check_types(tokens)
    _check_names(tokens)
    _check_chains(tokens)
    _check_lambdas(tokens)


@lru_cache(maxsize=1)
def _parser_class() -> type[Parser]:
    """The parser that counts its steps; sqlglot's own where that is compiled, which no class can refine."""

    def advance(self: Any, times: int = 1) -> None:
        self.steps -= 1
        if self.steps < 0:
            raise TooManyStepsError
        _PARSER._advance(self, times)

    try:
        counting = type("CountingParser", (_PARSER,), {"_advance": advance})
        counting(dialect=_DIALECT, max_nodes=1)
    except TypeError:  # a compiled class has no Python subclass: it says so at its birth, or at that of an instance
        return _PARSER
    return counting


def _check_brackets(tokens: list[Token]) -> None:
    """So many brackets in each other, and so many of them that the parser goes back over."""
    levels: list[int] = []  # of each bracket open: how many up to it stand after the name of a type or before FROM
    before: TokenType | None = None
    for token, after in zip_longest(tokens, tokens[1:]):
        kind = token.token_type
        typed = before in _TYPES or (after is not None and after.token_type is TokenType.FROM)
        if kind in _OPEN or (kind is TokenType.LT and before in _TYPES):
            levels.append((levels[-1] if levels else 0) + typed)
            if len(levels) > MAX_BRACKETS:
                raise _refusal(token, f"the statement nests too deeply: over {MAX_BRACKETS} brackets in each other")
            if levels[-1] > MAX_TYPED:
                what = f"over {MAX_TYPED} brackets of types, or before FROM, in each other (DECIMAL(, ARRAY[, (FROM)"
                raise _refusal(token, f"the statement nests too deeply: {what}")
        elif kind in _CLOSE and levels:
            levels.pop()
        before = kind


def _check_types(tokens: list[Token]) -> None:
    """So many names of types in a row, and short texts after them, which regular expressions take apart."""
    row = 0
    for token, after in zip_longest(tokens, tokens[1:]):
        kind = token.token_type
        if row and kind is TokenType.STRING and len(token.text) > MAX_TYPE_TEXT:
            raise _refusal(token, f"a text of more than {MAX_TYPE_TEXT} characters after the name of a type")
        if row and kind is TokenType.STAR and after is not None and after.text.upper() in _STAR_OPTIONS:
            raise _refusal(token, "a star with options after the name of a type")
        row = row + 1 if kind in _TYPES else 0
        if row > MAX_TYPES:
            raise _refusal(token, f"more than {MAX_TYPES} names of types in a row")
        if kind is TokenType.VECTOR and after is not None and after.token_type in _OPEN:
            raise _refusal(token, "VECTOR is no type of DuckDB's and no function")


def _check_names(tokens: list[Token]) -> None:
    """A quoted name, or several with dots, may be read as a type: the text in it as tokens again."""
    chain, quoted = "", False
    for token, after in zip_longest(tokens, tokens[1:]):
        kind = token.token_type
        if kind in _NAMES:
            chain, quoted = chain + token.text, quoted or kind is TokenType.IDENTIFIER
        elif kind is TokenType.DOT and chain:
            chain += "."
        if chain and (after is None or after.token_type not in _NAMES | {TokenType.DOT}):
            if quoted and ("(" in chain or "[" in chain or "<" in chain):
                try:
                    check_tokens(_DIALECT.tokenize(chain))
                except QueryError:
                    raise _refusal(token, "a quoted name that reads like types in each other") from None
                except SqlglotError:  # no tokens, no type
                    pass
            chain, quoted = "", False


def _check_chains(tokens: list[Token]) -> None:
    """Few functions called by a dot after a value: the parser looks at all of the value for each, in no step.

    A name before the dot, or several (``system.main.f(x)``), is small.
    """
    calls = 0
    for before, dot, _, bracket in zip(tokens, tokens[1:], tokens[2:], tokens[3:], strict=False):
        if dot.token_type is TokenType.DOT and bracket.token_type is TokenType.L_PAREN:
            named = before.token_type in _NAMES or before.text.isidentifier()
            calls += not named or before.token_type in _CLOSE | {TokenType.END}
            if calls * len(tokens) > MAX_CHAINED:
                raise _refusal(dot, "too many functions are called by a dot after a value")


def _check_lambdas(tokens: list[Token]) -> None:
    """Few lambdas in each other: for each one the parser looks for its names in all that stands within it."""
    levels = [0]  # arrows in each of the brackets open
    within = 0
    for token in tokens:
        kind = token.token_type
        if kind in _OPEN:
            levels.append(0)
        elif kind in _CLOSE and len(levels) > 1:
            within -= levels.pop()
        elif kind is TokenType.ARROW or token.text.lower() == "lambda":
            levels[-1] += 1
            within += 1
            if within * len(tokens) > MAX_LAMBDAS:
                raise _refusal(token, "too many lambdas in each other")


def _refusal(token: Token, what: str) -> QueryError:
    return QueryError(
        "Q104",
        f"{what}. Write it flatter, or in several statements.",
        line=token.line,
        col=max(1, token.col - len(token.text) + 1),
    )

"""Statements that keep what a question gives, taken apart: CREATE TABLE x AS, CREATE VIEW x AS, INSERT INTO x."""

from __future__ import annotations

from sqlglot.errors import SqlglotError
from sqlglot.tokens import Token, Tokenizer, TokenType  # type: ignore[attr-defined]

_BEGINS = (TokenType.SELECT, TokenType.WITH, TokenType.FROM, TokenType.L_PAREN)


def take_apart(text: str) -> tuple[str, str] | None:
    """What comes before the question, and the question; None of a statement of another kind.

    >>> take_apart("create or replace temp table kept as select count(*) from visits")
    ('create or replace temp table kept as ', 'select count(*) from visits')
    >>> take_apart("insert into kept (n) from visits select count(*)")
    ('insert into kept (n) ', 'from visits select count(*)')
    >>> take_apart("insert into kept values (1)")
    """
    try:
        tokens = Tokenizer(dialect="duckdb").tokenize(text)
    except SqlglotError:
        return None
    at = _of_create(tokens) if _is(tokens, 0, TokenType.CREATE) else _of_insert(tokens)
    if at is None or not (at < len(tokens) and tokens[at].token_type in _BEGINS):
        return None
    start = tokens[at].start
    return text[:start], text[start:]


def _of_create(tokens: list[Token]) -> int | None:
    """The place after the first AS outside brackets, of a table or a view."""
    kinds = [token.token_type for token in tokens[:5]]
    if TokenType.TABLE not in kinds and TokenType.VIEW not in kinds:
        return None
    depth = 0
    for at, token in enumerate(tokens):
        depth += (token.token_type == TokenType.L_PAREN) - (token.token_type == TokenType.R_PAREN)
        if depth == 0 and token.token_type == TokenType.ALIAS:
            return at + 1
    return None


def _of_insert(tokens: list[Token]) -> int | None:
    """The place after INSERT INTO, the table's name, and the columns' names in brackets."""
    if not (_is(tokens, 0, TokenType.INSERT) and _is(tokens, 1, TokenType.INTO)):
        return None
    at = 3
    while _is(tokens, at, TokenType.DOT):
        at += 2
    if _is(tokens, at, TokenType.L_PAREN) and not _is(tokens, at + 1, *_BEGINS):
        while at < len(tokens) and tokens[at].token_type != TokenType.R_PAREN:
            at += 1
        at += 1
    return at


def _is(tokens: list[Token], at: int, *kinds: TokenType) -> bool:
    return at < len(tokens) and tokens[at].token_type in kinds

"""Text to statements: where a semicolon ends one, and where it is part of a string, a name or a comment."""

from __future__ import annotations

import re

_OPENERS = re.compile(r"""(?P<end>;)|--|/\*|(?P<escape>\b[eE])?'|"|\$(?P<tag>[A-Za-z_]\w*)?\$""")
_BLOCK = re.compile(r"/\*|\*/")


def split(text: str) -> tuple[list[str], str]:
    """Cut text after each semicolon that ends a statement.

    Returns:
        The complete statements without their semicolon (empty ones left out), and the unfinished rest.

    >>> split("SELECT ';'; -- a; b")
    (["SELECT ';'"], ' -- a; b')
    >>> split("FROM dp_query($$SELECT 1;")
    ([], 'FROM dp_query($$SELECT 1;')
    """
    done: list[str] = []
    start = place = 0
    while (found := _OPENERS.search(text, place)) is not None:
        if found["end"]:
            if not blank(text[start : found.start()]):
                done.append(text[start : found.start()].strip())
            start = place = found.end()
            continue
        end = _end_of(text, found)
        if end is None:
            break
        place = end
    return done, text[start:]


def blank(text: str) -> bool:
    """Whether text holds nothing but space and comments.

    >>> blank(" -- nothing"), blank("/* no */ 1")
    (True, False)
    """
    return not re.sub(r"--[^\n]*|/\*.*?\*/", "", text, flags=re.DOTALL).strip()


def _end_of(text: str, opener: re.Match[str]) -> int | None:
    """Where a string, quoted name or comment ends; None if it does not."""
    mark, start = opener[0], opener.end()
    if mark == "--":
        end = text.find("\n", start)
        return len(text) if end < 0 else end
    if mark == "/*":
        return _end_of_block(text, start)
    if mark.startswith("$"):
        end = text.find(mark, start)
        return None if end < 0 else end + len(mark)
    pattern = r"(?:[^'\\]|''|\\.)*'" if opener["escape"] else rf"(?:[^{mark[-1]}]|{mark[-1]}{mark[-1]})*{mark[-1]}"
    found = re.compile(pattern, re.DOTALL).match(text, start)
    return None if found is None else found.end()


def _end_of_block(text: str, start: int) -> int | None:
    depth = 1
    for found in _BLOCK.finditer(text, start):
        depth += 1 if found[0] == "/*" else -1
        if depth == 0:
            return found.end()
    return None

"""What kind of statement a text is, to the wire: split at semicolons, and told by its first words.

DuckDB parses what it runs; this only finds what it has no word for (cursors, COPY TO STDOUT, PostgreSQL's settings)
and where one statement ends.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

_PIECES = re.compile(
    r"""(?P<text>[eE]'(?:[^'\\]|\\.|'')*'|'(?:[^']|'')*'|"(?:[^"]|"")*")
      | (?P<dollar>\$(?P<tag>[A-Za-z_]\w*)?\$.*?\$(?P=tag)\$|\$\$.*?\$\$)
      | (?P<line>--[^\n]*)
      | (?P<block>/\*)
      | (?P<end>;)""",
    re.VERBOSE | re.DOTALL,
)
_BLOCK = re.compile(r"/\*|\*/")
_WORD = re.compile(r"[A-Za-z_][\w.]*|\*|=|\(|'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"|[^\s]")


def split(text: str) -> list[str]:
    """The statements of a text, without those that are empty or only comments.

    >>> split("select ';';; select $$;$$ /* ; */")
    ["select ';'", 'select $$;$$ /* ; */']
    """
    found, start, at = [], 0, 0
    while piece := _PIECES.search(text, at):
        at = piece.end()
        if piece["block"]:
            at = _after_comment(text, at)
        elif piece["end"]:
            found.append(text[start : piece.start()])
            start = at
    found.append(text[start:])
    return [part.strip() for part in found if words(part, 1)]


def _after_comment(text: str, at: int) -> int:
    depth = 1
    while depth:
        edge = _BLOCK.search(text, at)
        if edge is None:
            return len(text)
        at, depth = edge.end(), depth + (1 if edge[0] == "/*" else -1)
    return at


def _begin(text: str, at: int = 0) -> int:
    """Where a text begins after blanks and comments, from a place on."""
    while at < len(text):
        if text[at].isspace():
            at += 1
        elif text.startswith("--", at):
            at = text.find("\n", at) % (len(text) + 1)
        elif text.startswith("/*", at):
            at = _after_comment(text, at + 2)
        else:
            break
    return at


def words(text: str, most: int) -> list[str]:
    """The first words and signs of a text, comments left out; names and keywords in lower case."""
    found: list[str] = []
    at = _begin(text)
    while len(found) < most and (piece := _WORD.match(text, at)) is not None:
        found.append(piece[0] if piece[0][0] in "'\"" else piece[0].lower())
        at = _begin(text, piece.end())
    return found


@dataclass(frozen=True, kw_only=True)
class Statement:
    """One statement and what the wire does with it.

    Attributes:
        text: as it was sent, without its semicolon.
        kind: query, begin, commit, rollback, set, show, declare, fetch, close, copy, copy from, deallocate, discard,
            savepoint, release, rollback to, move, nothing.
        name: of a setting, cursor or prepared statement, or of the table that a COPY from the client would fill.
        value: of a setting (None: its default); how many rows a FETCH wants; what a cursor or COPY reads.
        options: of COPY, by name.
        place: line and column of what is refused.
    """

    text: str
    kind: str = "query"
    name: str = ""
    value: str | None = None
    options: dict[str, str] = field(default_factory=dict)
    place: tuple[int, int] = (1, 1)


_SET = re.compile(
    r"set\s+(?:session\s+|local\s+)?(?!variable\b|persist\b)([a-z_][\w.]*)\s*(?:=|\s+to\s+)\s*(.*)\Z", re.I | re.S
)
_ZONE = re.compile(r"set\s+(?:session\s+|local\s+)?time\s+zone\s+(.*)\Z", re.I | re.S)
_RESET = re.compile(r"reset\s+(?!variable\b)([a-z_][\w.]*)\s*\Z", re.I)
_SHOW = re.compile(r"show\s+([a-z_][\w.]*(?:\s+[a-z_]+)*)\s*\Z", re.I)
_DECLARE = re.compile(
    r"declare\s+(\"[^\"]+\"|\w+)\s+(?:binary\s+|insensitive\s+|asensitive\s+|no\s+scroll\s+|scroll\s+)*cursor\s+"
    r"(?:with\s+hold\s+|without\s+hold\s+)?for\s+(.*)\Z",
    re.I | re.S,
)
_FETCH = re.compile(
    r"fetch\s+(?:(?:forward\s+)?(all|\d+)|forward|next|first)?\s*(?:from\s+|in\s+)?(\"[^\"]+\"|\w+)\s*\Z", re.I
)
_MOVE = re.compile(r"move\s+(?:(?:forward\s+)?(all|\d+)|forward|next)?\s*(?:from\s+|in\s+)?(\"[^\"]+\"|\w+)\s*\Z", re.I)
_NAME = r"(?:\"[^\"]+\"|\w+)"
_TABLE = rf"{_NAME}(?:\s*\.\s*{_NAME})*"
_COPY = re.compile(
    rf"copy\s+(?P<what>\(.*\)|{_TABLE})(?:\s*\((?P<columns>[^()]*)\))?\s+to\s+stdout(?P<rest>.*)\Z", re.I | re.S
)
_COPY_FROM = re.compile(rf"copy\s+(?P<what>{_TABLE})(?:\s*\([^()]*\))?\s+(?P<from>from)\s+stdin\b", re.I)
_NAMED = re.compile(r"(?:close|deallocate(?:\s+prepare)?)\s+(\"[^\"]+\"|\w+)\s*\Z", re.I)
_WORDS = {
    "begin": "begin",
    "start": "begin",
    "commit": "commit",
    "end": "commit",
    "rollback": "rollback",
    "abort": "rollback",
    "discard": "discard",
    "listen": "nothing",
    "unlisten": "nothing",
    "savepoint": "savepoint",
    "release": "release",
}
_POINT = re.compile(
    r"(?:savepoint|release(?:\s+savepoint)?|(?:rollback|abort)(?:\s+(?:work|transaction))?\s+to(?:\s+savepoint)?)\s+"
    r"(\"[^\"]+\"|\w+)\s*\Z",
    re.I,
)
_NAMES = re.compile(r"set\s+(?:session\s+|local\s+)?names\s+(.*)\Z", re.I | re.S)
_ROLE = re.compile(r"set\s+(?:session\s+|local\s+)?(?:role|session\s+authorization)\s+(?!=|to\b)(.*)\Z", re.I | re.S)


def read_statement(text: str) -> Statement:
    """What the wire does with one statement (:func:`split`)."""
    text = plain_dates(text)
    first = words(text, 3)
    bare = text[_begin(text) :].rstrip()
    word = first[0] if first else ""
    if word in ("savepoint", "release", "rollback", "abort") and (found := _POINT.match(bare)):
        kind = _WORDS[word] if word in ("savepoint", "release") else "rollback to"
        return Statement(text=text, kind=kind, name=_name(found[1]))
    if word == "discard" and first[1:2] != ["all"]:
        return Statement(text=text, kind="nothing")
    if word in _WORDS:
        return Statement(text=text, kind=_WORDS[word])
    if word == "set" and first[1:2] in (["transaction"], ["session"]) and "characteristics" in bare.lower()[:60]:
        return Statement(text=text, kind="nothing")
    if word == "set" and first[1:2] == ["transaction"]:
        return Statement(text=text, kind="nothing")
    for pattern, kind in (
        (_NAMES, "names"),
        (_ROLE, "role"),
        (_ZONE, "zone"),
        (_SET, "set"),
        (_RESET, "reset"),
        (_SHOW, "show"),
        (_DECLARE, "declare"),
    ):
        if found := pattern.match(bare):
            return _of(kind, text, found)
    if found := _FETCH.match(bare):
        return Statement(text=text, kind="fetch", name=_name(found[2]), value=(found[1] or "1").lower())
    if found := _MOVE.match(bare):
        return Statement(text=text, kind="move", name=_name(found[2]), value=(found[1] or "1").lower())
    if found := _NAMED.match(bare):
        return Statement(text=text, kind=word if word == "close" else "deallocate", name=_name(found[1]))
    if found := _COPY.match(bare):
        what = found["what"]
        query = (
            what[1:-1]
            if what.startswith("(")
            else f"SELECT {found['columns']} FROM {what}"
            if found["columns"]
            else f"FROM {what}"
        )
        return Statement(text=text, kind="copy", value=query, options=_copy_options(found["rest"]))
    if found := _COPY_FROM.match(bare):
        at = _begin(text) + found.start("from")
        place = (text.count("\n", 0, at) + 1, at - text.rfind("\n", 0, at))
        return Statement(text=text, kind="copy from", name=re.sub(r"\s*\.\s*", ".", found["what"]), place=place)
    return Statement(text=text)


def _of(kind: str, text: str, found: re.Match[str]) -> Statement:
    match kind:
        case "names":
            return Statement(text=text, kind="set", name="client_encoding", value=_value(found[1]))
        case "role":
            return Statement(text=text, kind="set", name="role", value=_role(found[1]))
        case "zone":
            return Statement(text=text, kind="set", name="timezone", value=_value(found[1]))
        case "set":
            return Statement(text=text, kind="set", name=found[1].lower(), value=_value(found[2]))
        case "reset":
            return Statement(text=text, kind="set", name=found[1].lower(), value=None)
        case "declare":
            return Statement(text=text, kind="declare", name=_name(found[1]), value=found[2])
    return Statement(text=text, kind="show", name=found[1].lower())


def _name(word: str) -> str:
    return word[1:-1] if word.startswith('"') else word.lower()


def _value(raw: str) -> str | None:
    raw = raw.strip()
    if raw.lower() == "default":
        return None
    return raw[1:-1].replace("''", "'") if raw[:1] == "'" and raw[-1:] == "'" and len(raw) > 1 else raw


def _role(raw: str) -> str | None:
    value = _value(raw)
    return None if value is None or value.lower() == "none" else value.strip('"')


def _copy_options(rest: str) -> dict[str, str]:
    """COPY's options, in either of PostgreSQL's spellings."""
    found = {}
    inner = re.search(r"\((.*)\)", rest, re.S)
    if inner is not None:
        for part in re.findall(r"(?:[^,']|'(?:[^']|'')*')+", inner[1]):
            name, _, value = part.strip().partition(" ")
            found[name.lower()] = (_value(value.strip().strip('"')) or "true").lower() if name else ""
        return found
    plain = rest.lower()
    for form in ("binary", "csv"):
        if re.search(rf"\b{form}\b", plain):
            found["format"] = form
    if re.search(r"\bheader\b", plain):
        found["header"] = "true"
    for name, value in re.findall(r"\b(delimiter|null)\s+(?:as\s+)?('(?:[^']|'')*')", rest, re.I):
        found[name.lower()] = _value(value) or ""
    return found


_PLACES = re.compile(_PIECES.pattern + r"| \$(?P<number>\d+)\b", re.VERBOSE | re.DOTALL)


def substitute(text: str, values: list[str]) -> str:
    """A text with literals in the places of $1, $2, ...

    >>> substitute("select '$1', $2", ["a", "7"])
    "select '$1', 7"
    """
    found, at = [], 0
    while piece := _PLACES.search(text, at):
        end = _after_comment(text, piece.end()) if piece["block"] else piece.end()
        number = int(piece["number"]) if piece["number"] else 0
        found += [
            text[at : piece.start()],
            values[number - 1] if 0 < number <= len(values) else text[piece.start() : end],
        ]
        at = end
    return "".join([*found, text[at:]])


_DATES = re.compile(
    r"""to_(?P<kind>date|timestamp)\s*\(\s*'(?P<day>\d{4}-\d\d-\d\d)(?P<time>[ ]\d\d:\d\d:\d\d(?:\.\d{1,6})?)?'\s*,
    \s*'(?P<form>YYYY-MM-DD(?:[ ]HH24:MI:SS(?:\.[UM]S)?)?)'\s*\)""",
    re.VERBOSE | re.IGNORECASE,
)
_FORMS = {0: "YYYY-MM-DD", 1: "YYYY-MM-DD HH24:MI:SS", 2: "YYYY-MM-DD HH24:MI:SS.US"}
_CALLED = re.compile(
    _PIECES.pattern + r"| (?<![\w.\"])(?P<called>to_(?:date|timestamp)\s*\()", re.VERBOSE | re.DOTALL | re.I
)


def plain_dates(text: str) -> str:
    """PostgreSQL's ``to_date`` and ``to_timestamp`` of constants, as BI tools write ranges of time, as literals.

    Blanks fill what becomes shorter, so that places in messages stay right. Others stay as they are.

    >>> plain_dates("day >= TO_DATE('1975-03-01', 'YYYY-MM-DD') AND 'TO_DATE('")
    "day >= DATE '1975-03-01'                   AND 'TO_DATE('"
    """
    found, at = [], 0
    while piece := _CALLED.search(text, at):
        end = _after_comment(text, piece.end()) if piece["block"] else piece.end()
        call = _DATES.match(text, piece.start()) if piece["called"] else None
        if call is not None and _is_of_form(call):
            kind = "DATE" if call["kind"].lower() == "date" else "TIMESTAMP"
            time = call["time"] or "" if kind == "TIMESTAMP" else ""
            found += [text[at : piece.start()], f"{kind} '{call['day']}{time}'".ljust(len(call[0]))]
            end = call.end()
        else:
            found.append(text[at:end])
        at = end
    return "".join([*found, text[at:]])


def _is_of_form(call: re.Match[str]) -> bool:
    """Whether a constant is written as its form says."""
    time = call["time"] or ""
    return call["form"].upper() == _FORMS[0 if not time else 2 if "." in time else 1]


_TYPED = re.compile(
    r"\$(\d+)\s*::\s*([a-z_][\w]*(?:\[\])?)|\bcast\s*\(\s*\$(\d+)\s+as\s+([a-z_][\w]*(?:\[\])?)", re.IGNORECASE
)


def cast_parameters(text: str) -> dict[int, str]:
    """Names of the types that a text casts its parameters to.

    >>> cast_parameters("select $1::bigint, cast($2 as DATE), $3")
    {1: 'bigint', 2: 'date'}
    """
    return {int(found[1] or found[3]): (found[2] or found[4]).lower() for found in _TYPED.finditer(text)}


MOST_PARAMETERS = 65_535  # of a statement, as PostgreSQL has it


def count_parameters(text: str) -> int:
    """The largest n of $n in a text."""
    most, at = 0, 0
    while piece := _PLACES.search(text, at):
        at = _after_comment(text, piece.end()) if piece["block"] else piece.end()
        most = max(most, int(piece["number"] or 0))
    return most


_OPTION = re.compile(r"(?:-c\s*|--)([A-Za-z_][\w.-]*)=((?:\\.|[^\s\\])*)")


def read_options(text: str) -> list[tuple[str, str]]:
    r"""The settings in a client's ``options``, as PostgreSQL's command line takes them.

    >>> read_options("-c dp.epsilon=0.1 --application_name=a\\ b")
    [('dp.epsilon', '0.1'), ('application_name', 'a b')]
    """
    return [(name.replace("-", "_"), re.sub(r"\\(.)", r"\1", value)) for name, value in _OPTION.findall(text)]

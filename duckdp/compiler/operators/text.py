"""Texts, all of at most 256 characters."""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp

from duckdp.catalog.table import MAX_TEXT
from duckdp.compiler.number_types import INTEGER, always_of
from duckdp.compiler.operators.row import B, N, Operator, T, always, function, short, within


def _regular(pattern: str) -> str:
    """A LIKE pattern as a regular expression."""
    parts = {"%": ".*", "_": "."}
    return "".join(parts.get(c) or (c if c.isalnum() and c.isascii() else f"\\x{{{ord(c):x}}}") for c in pattern)


def _like(pattern: str) -> tuple[str, str]:
    """LIKE by operators of linear cost: DuckDB's own backtracks, seconds a row for a few wildcards.

    >>> _like("ab%"), _like("a_%b")
    (('starts_with', 'ab'), ('like', 'a..*b'))
    """
    inner = pattern.strip("%")
    if "_" in inner or "%" in inner:
        return "like", _regular(pattern)
    ends = (pattern.startswith("%"), pattern.endswith("%"))
    simple = {(False, False): "eq_text", (False, True): "starts_with", (True, False): "ends_with"}
    return simple.get(ends, "contains"), inner


def _ilike(pattern: str) -> tuple[str, str]:
    return "ilike", _regular(pattern)


def _matches(flags: str) -> Callable[[list[str], str], str]:
    return lambda a, _: f"system.main.regexp_full_match({a[0]}, {a[1]}, '{flags}')"


def _flags(flags: str) -> str:
    if flags not in ("", "i"):
        raise KeyError(flags)
    return flags


def _group(option: str) -> int:
    """The number of a regular expression's group, 0 for the whole match."""
    if not 0 <= int(option) <= 9:
        raise KeyError(option)
    return int(option)


def _padded(called: str) -> Callable[[list[str], str], str]:
    """A text of so many characters: cut, or filled up with a text that is not empty."""
    return lambda a, size: f"system.main.{called}({a[0]}, {min(int(size), MAX_TEXT)}, {a[1]})"


def _split(a: list[str], place: str) -> str:
    """An empty part where the text has fewer."""
    split = f"system.main.string_split(({a[0]} || system.main.left({a[1]}, 0)), {a[1]})"  # NULL by either argument
    found = f"system.main.list_resize({split}, {int(place)}, '')"
    return f"system.main.list_extract({found}, {int(place)})"


TEXT: tuple[Operator, ...] = (
    Operator(
        name="concat",
        takes=(T,),
        gives=T,
        variadic=True,
        offered=("concat",),
        sql=lambda a, _: short(f"({' || '.join(a)})"),
        shown=lambda a: f"({' || '.join(a)})",
    ),
    Operator(
        name="replace",
        takes=(T, T, T),
        gives=T,
        offered=("replace",),
        sql=lambda a, _: short(f"system.main.replace({', '.join(a)})"),
    ),
    Operator(name="split_part", takes=(T, T), gives=T, offered=("split_part",), sql=_split),
    Operator(  # RE2: linear in the text; the reader bounds how often a pattern repeats
        name="regexp_matches",
        takes=(T, T),
        gives=B,
        offered=("regexp_matches",),
        sql=lambda a, flags: f"system.main.regexp_matches({a[0]}, {a[1]}, '{_flags(flags)}')",
    ),
    Operator(
        name="regexp_full_match",
        takes=(T, T),
        gives=B,
        offered=("regexp_full_match",),
        sql=lambda a, flags: f"system.main.regexp_full_match({a[0]}, {a[1]}, '{_flags(flags)}')",
    ),
    Operator(  # of the first match alone: to replace all of them can take the square of the length
        name="regexp_replace",
        takes=(T, T, T),
        gives=T,
        offered=("regexp_replace",),
        sql=lambda a, flags: short(f"system.main.regexp_replace({', '.join(a)}, '{_flags(flags)}')"),
    ),
    Operator(  # a part of the text, or an empty one
        name="regexp_extract",
        takes=(T, T),
        gives=T,
        offered=("regexp_extract",),
        sql=lambda a, group: f"system.main.regexp_extract({a[0]}, {a[1]}, {_group(group)})",
    ),
    Operator(
        name="translate",
        takes=(T, T, T),
        gives=T,
        offered=("translate",),
        sql=lambda a, _: short(f"system.main.translate({', '.join(a)})"),
    ),
    Operator(name="lpad", takes=(T, T), gives=T, offered=("lpad",), sql=_padded("lpad")),
    Operator(name="rpad", takes=(T, T), gives=T, offered=("rpad",), sql=_padded("rpad")),
    Operator(
        name="strlen",
        takes=(T,),
        gives=N,
        words=("strlen",),
        offered=("strlen",),
        sql=lambda a, _: f"CAST(system.main.strlen({a[0]}) AS DOUBLE)",
        interval=within(0, 4 * MAX_TEXT),
        integral=always,
        number_type=always_of(INTEGER),
    ),
    *(
        Operator(  # the first character's number; of an empty text 0, or -1
            name=name,
            takes=(T,),
            gives=N,
            nodes=(node,),
            offered=(name,),
            sql=lambda a, _, name=name: f"CAST(system.main.{name}({a[0]}) AS DOUBLE)",  # type: ignore[misc]
            interval=within(-1, 0x10FFFF),
            integral=always,
            number_type=always_of(INTEGER),
        )
        for name, node in (("ascii", exp.Ascii), ("unicode", exp.Unicode))
    ),
    Operator(
        name="strpos",
        takes=(T, T),
        gives=N,
        offered=("strpos", "instr"),
        sql=lambda a, _: f"CAST(system.main.strpos({a[0]}, {a[1]}) AS DOUBLE)",
        interval=within(0, 4 * MAX_TEXT),
        integral=always,
        number_type=always_of(INTEGER),
    ),
    Operator(name="ltrim", takes=(T,), gives=T, sql=function("ltrim"), offered=("ltrim",)),
    Operator(name="rtrim", takes=(T,), gives=T, sql=function("rtrim"), offered=("rtrim",)),
    Operator(name="reverse", takes=(T,), gives=T, sql=function("reverse"), nodes=(exp.Reverse,), offered=("reverse",)),
    Operator(
        name="lower",
        takes=(T,),
        gives=T,
        sql=function("lower"),
        nodes=(exp.Lower,),
        offered=("lower",),
    ),
    Operator(
        name="upper",
        takes=(T,),
        gives=T,
        sql=function("upper"),
        nodes=(exp.Upper,),
        offered=("upper",),
    ),
    Operator(name="trim", takes=(T,), gives=T, sql=function("trim"), offered=("trim",)),
    Operator(
        name="length",
        takes=(T,),
        gives=N,
        sql=lambda a, _: f"CAST(system.main.length({a[0]}) AS DOUBLE)",
        nodes=(exp.Length,),
        offered=("length",),
        interval=within(0, 4 * MAX_TEXT),
        integral=always,
        number_type=always_of(INTEGER),
    ),
    Operator(
        name="left",
        takes=(T,),
        gives=T,
        offered=("left",),
        sql=lambda a, n: f"system.main.left({a[0]}, {int(n)})",
    ),
    Operator(
        name="right",
        takes=(T,),
        gives=T,
        offered=("right",),
        sql=lambda a, n: f"system.main.right({a[0]}, {int(n)})",
    ),
    Operator(
        name="substring",
        takes=(T,),
        gives=T,
        offered=("substring",),
        sql=lambda a, n: "system.main.substring({}, {}, {})".format(a[0], *(int(i) for i in n.split(","))),
    ),
    Operator(  # the pattern is a regular expression: linear
        name="like",
        takes=(T, T),
        gives=B,
        sql=_matches("s"),
        nodes=(exp.Like,),
        reading="pattern",
        pattern=_like,
        label="matches",
    ),
    Operator(
        name="ilike",
        takes=(T, T),
        gives=B,
        sql=_matches("si"),
        nodes=(exp.ILike,),
        reading="pattern",
        pattern=_ilike,
        label="matches_any_case",
    ),
    Operator(
        name="starts_with",
        takes=(T, T),
        gives=B,
        sql=function("starts_with"),
        nodes=(exp.StartsWith,),
        reading="pattern",
        words=("prefix",),
        offered=("starts_with", "prefix"),
    ),
    Operator(
        name="ends_with",
        takes=(T, T),
        gives=B,
        sql=function("ends_with"),
        nodes=(exp.EndsWith,),
        reading="pattern",
        words=("suffix",),
        offered=("suffix",),
    ),
    Operator(
        name="contains",
        takes=(T, T),
        gives=B,
        sql=function("contains"),
        nodes=(exp.Contains,),
        reading="pattern",
        offered=("contains",),
    ),
)

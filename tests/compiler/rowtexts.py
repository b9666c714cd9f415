"""Random scalar SQL over a table of every column type: what tests/compiler/test_meaning.py compares with DuckDB."""

from __future__ import annotations

import datetime as dt
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from decimal import Decimal

from duckdp.catalog.table import Table
from tests.gate import clinic, column

TYPES = {
    "s": "SMALLINT",
    "a": "INTEGER",
    "b": "BIGINT",
    "h": "HUGEINT",
    "q": "UTINYINT",
    "k": "UINTEGER",
    "f": "FLOAT",
    "d": "DOUBLE",
    "e": "DOUBLE",
    "c": "DECIMAL(9,2)",
    "c3": "DECIMAL(15,3)",
    "c0": "DECIMAL(5,0)",
    "t": "BOOLEAN",
    "u": "BOOLEAN",
    "da": "DATE",
    "db": "DATE",
    "ta": "TIMESTAMP",
    "tb": "TIMESTAMP",
    "v": "VARCHAR",
    "w": "VARCHAR",
}
INTEGERS, DECIMALS = ("s", "a", "b", "h", "q", "k"), ("c", "c3", "c0")
NUMBERS = (*INTEGERS, "f", "d", "e", *DECIMALS)
LITERALS = (
    "0",
    "1",
    "2",
    "3",
    "-2",
    "7",
    "10",
    "100",
    "0.1",
    "0.2",
    "0.5",
    "2.5",
    "-1.5",
    "1.005",
    "1e0",
    "2e-1",
    "NULL",
)
PATTERNS = ("'a%'", "'%b'", "'%a%'", "'A_'", "'_%'", "'%_b%'", "'ab'", "''", "'%'", "'é%'", "'a.b%'", "'(%'")
TEXTS = ("", "a", "A", "ab", "AB", " ab ", "aab", "é", "É", "ßx", "a.b", "(x", "a%b", "a\nb", "ΑΣ", "日本", "b", "B")
READABLE = ("12", " -3 ", "1.5", "2.5e1", "0x1F", "300", "1_0", "nan", "1e400", "2020-02-29", "2020-1-2 03:04:05.6")
WHOLES = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "UINTEGER")
UNITS = ("year", "quarter", "month", "week", "day", "hour", "minute")
SHORT = ("hour", "minute", "second", "millisecond", "microsecond")
LENGTHS = ("ta - tb", "(tb - da)", "da - ta", "ta - TIMESTAMP '1969-12-31 23:59:59.5'", "(DATE '2020-01-31' - tb)")
SECONDS = ("epoch({})", "extract(epoch FROM {})", "date_part('epoch', {})")
PARTS = ("year", "month", "day", "quarter", "week", "dayofweek", "isodow", "dayofyear")


@dataclass
class Text:
    """A random expression: its SQL, and the SQL of all numbers inside it."""

    rng: random.Random
    parts: list[str] = field(default_factory=list)

    def number(self, depth: int) -> str:
        """A number."""
        made = self._number(depth)
        self.parts.append(made)
        return made

    def _number(self, depth: int) -> str:
        pick = self.rng.choice
        if depth == 0 or self.rng.random() < 0.15:
            return pick(NUMBERS) if self.rng.random() < 0.7 else pick(LITERALS)
        n: Callable[[], str] = lambda: self.number(depth - 1)  # noqa: E731
        kind = self.rng.randrange(30)
        if kind < 14:
            sign = pick(["+", "-", "*", "/", "%", "//", "//"])
            return f"({n()} {sign} {n()})"
        if kind < 19:
            name = pick(["abs", "floor", "ceil", "round", "trunc", "sign", "-", "floor", "round"])
            return f"{name}({n()})"
        if kind < 21:
            return f"round({n()}, {pick(['0', '1', '2', '3', '-1', '-2'])})"
        if kind < 23:
            return f"CAST({n()} AS {pick((*WHOLES, 'DOUBLE', 'FLOAT'))})"
        if kind == 23:
            text = self.text(depth - 1) if self.rng.random() < 0.4 else None
            return f"TRY_CAST({n() if text is None else text} AS {pick((*WHOLES, 'HUGEINT', 'DOUBLE'))})"
        if kind < 26:
            return f"{pick(['greatest', 'least', 'coalesce', 'nullif'])}({n()}, {n()})"
        if kind == 26:
            return f"CASE WHEN {self.boolean(depth - 1)} THEN {n()} ELSE {n()} END"
        if kind == 27:
            x = n()
            return pick(
                [
                    f"sqrt(abs({x}))",
                    f"ln(greatest(abs({x}), 1))",
                    f"exp(least({x}, 5))",
                    f"tanh({x})",
                    f"atan({x})",
                    f"power({x}, 2)",
                    f"log10(greatest({x}, 1))",
                    f"log2(greatest(abs({x}), 2))",
                    f"{pick(['degrees', 'radians', 'even', 'asinh'])}({x})",
                    f"{pick(['add', 'subtract', 'multiply', 'atan2'])}({x}, {n()})",
                ]
            )
        if kind == 28:
            return pick(
                [
                    f"{pick(['length', 'strlen', 'ascii', 'unicode'])}({self.text(depth - 1)})",
                    f"{pick(['weekday', 'era', 'millennium', 'yearweek'])}({self.moment(depth - 1)})",
                    f"{pick(['millisecond', 'microsecond'])}({pick(['ta', 'tb'])})",
                    f"{pick(PARTS)}({self.moment(depth - 1)})",
                    f"{pick(['hour', 'minute', 'second'])}({pick(['ta', 'tb'])})",
                    f"{pick(['isoyear', 'decade', 'century', 'epoch'])}({pick(['da', 'ta'])})",
                    f"strpos({self.text(depth - 1)}, {pick(['a', 'b', 'é'])!r})",
                    f"date_sub('{pick(['year', 'month', 'week', 'day'])}', {pick(['da, db', 'ta, tb'])})",
                    f"date_part('year', age({pick(['ta', 'da'])}, {pick(['tb', 'db'])}))",
                    "(da - db)",
                    f"{pick(['epoch(', 'extract(epoch FROM ', 'date_part($$epoch$$, '])}{pick(LENGTHS)})".replace(
                        "$$", "'"
                    ),
                    f"date_sub('{pick(SHORT)}', {pick(['ta, tb', 'da, tb', 'ta, db', 'da, db'])})",
                    f"date_diff('{pick(SHORT)}s', {pick(['ta, tb', 'tb, da', 'da, db'])})",
                ]
            )
        unit = pick(UNITS)
        both = ("ta", "tb") if unit in ("hour", "minute") else pick([("ta", "tb"), ("da", "db"), ("da", "tb")])
        return f"date_diff('{unit}', {both[0]}, {both[1]})"

    def boolean(self, depth: int) -> str:
        """A condition."""
        pick = self.rng.choice
        if depth <= 0:
            return pick(["t", "u", "TRUE", "a > 3", "v = 'a'", "d < 2"])
        kind = self.rng.randrange(16)
        sign = pick(["=", "<>", "<", "<=", ">", ">=", "IS DISTINCT FROM", "IS NOT DISTINCT FROM"])
        if kind < 5:
            return f"({self.number(depth - 1)} {sign} {self.number(depth - 1)})"
        if kind == 5:
            a, b, c = (self.number(depth - 1) for _ in range(3))
            return f"({a} BETWEEN {b} AND {c})"
        if kind == 6:
            listed = ", ".join(pick([x for x in LITERALS if x != "NULL"]) for _ in range(self.rng.randint(1, 4)))
            return f"({self.number(depth - 1)} {pick(['IN', 'NOT IN'])} ({listed}))"
        if kind < 9:
            return f"({self.boolean(depth - 1)} {pick(['AND', 'OR'])} {self.boolean(depth - 1)})"
        if kind == 9:
            return f"(NOT {self.boolean(depth - 1)})"
        if kind == 10:
            return (
                f"({pick([self.number, self.boolean, self.text, self.moment])(depth - 1)} IS {pick(['', 'NOT '])}NULL)"
            )
        if kind == 11:
            return f"({self.text(depth - 1)} {pick(['LIKE', 'ILIKE', 'NOT LIKE'])} {pick(PATTERNS)})"
        if kind == 12:
            return f"({self.text(depth - 1)} {sign} {self.text(depth - 1)})"
        if kind == 13:
            return f"({self.moment(depth - 1)} {sign} {self.moment(depth - 1)})"
        if kind == 14:
            return f"({self.boolean(depth - 1)} IS {pick(['TRUE', 'FALSE', 'NOT TRUE'])})"
        if self.rng.random() < 0.4:
            length = f"INTERVAL {self.rng.choice([0, 1, 40])} {pick(['DAY', 'HOUR', 'MONTH'])}"
            expression = pick(["^a", "b$", "[A-Z]", "a.b", "(a|b){2}", "É"])
            return pick([f"(ta - tb {sign[:2]} {length})", f"regexp_matches({self.text(depth - 1)}, {expression!r})"])
        if self.rng.random() < 0.2:
            return f"regexp_full_match({self.text(depth - 1)}, {pick(['a.*', '[A-Z]+', '(a|b){2}'])!r})"
        return f"{pick(['starts_with', 'ends_with', 'contains'])}({self.text(depth - 1)}, {pick(['a', 'b', ''])!r})"

    def text(self, depth: int) -> str:
        """A text."""
        pick = self.rng.choice
        if depth <= 0 or self.rng.random() < 0.4:
            return pick(["v", "w", "v", "w", "'a'", "'AB'"])
        x = self.text(depth - 1)
        return pick(
            [
                f"upper({x})",
                f"lower({x})",
                f"trim({x})",
                f"left({x}, {self.rng.randrange(4)})",
                f"right({x}, {self.rng.randrange(4)})",
                f"substring({x}, {self.rng.randrange(4)}, {self.rng.randrange(4)})",
                f"coalesce({x}, {self.text(depth - 1)})",
                f"nullif({x}, 'a')",
                f"({x} || {self.text(depth - 1)})",
                f"concat({x}, {self.text(depth - 1)})",
                f"replace({x}, {pick(['a', 'ab'])!r}, {pick(['', 'b', 'éé'])!r})",
                f"split_part({x}, {pick(['.', 'a', 'ab'])!r}, {self.rng.randint(1, 3)})",
                f"{pick(['reverse', 'ltrim', 'rtrim'])}({x})",
                f"regexp_replace({x}, {pick(['a', '^(.)b', '[A-Z]+', 'a?'])!r}, {pick(['', 'xé', '<x>'])!r})",
                f"regexp_extract({x}, {pick(['a(b)?', '[A-Z]', '^(.)(.)'])!r}, {self.rng.randrange(3)})",
                f"translate({x}, {pick(['ab', 'é.', 'A'])!r}, {pick(['x', '', 'bß'])!r})",
                f"{pick(['lpad', 'rpad'])}({x}, {self.rng.randrange(5)}, {pick(['x', 'éa'])!r})",
                f"CAST({pick(['s', 'a', 'q', 't', 'da', 'ta', 'k', 'b', 'h', 'c', 'c3', 'c0', 'u', 'db'])} AS VARCHAR)",
                f"CAST({self.number(depth - 1)} AS VARCHAR)",
                f"concat({pick(['a', 't', 'c', 'da', 'h'])}, '-', {self.number(depth - 1)}, {x})",
                f"({pick(['b', 'c3', 'u', 'q'])} || {x})",
                f"{pick(['dayname', 'monthname'])}({pick(['da', 'ta'])})",
                f"strftime({pick(['da', 'tb'])}, {pick(['%Y-%m', '%d.%m.%y', '%A %j', '%V %G %u', '%H:%M %p'])!r})",
                f"CASE WHEN {self.boolean(depth - 1)} THEN {x} ELSE {self.text(depth - 1)} END",
            ]
        )

    def moment(self, depth: int) -> str:
        """A date or timestamp."""
        pick = self.rng.choice
        if depth <= 0 or self.rng.random() < 0.4:
            return pick(["da", "db", "ta", "tb", "DATE '2021-03-01'", "TIMESTAMP '2020-02-29 12:00:00'"])
        return pick(
            [
                f"date_trunc('{pick(UNITS[:5])}', {self.moment(depth - 1)})",
                f"date_trunc('hour', {pick(['ta', 'tb'])})",
                f"CAST({self.moment(depth - 1)} AS {pick(['DATE', 'TIMESTAMP'])})",
                f"coalesce({pick(['da', 'db'])}, {pick(['da', 'db'])})",
                f"nullif({pick(['ta', 'tb'])}, tb)",
                f"TRY_CAST({pick(['v', 'w', 'trim(v)', 'coalesce(w, v)'])} AS {pick(['DATE', 'TIMESTAMP'])})",
                f"time_bucket(INTERVAL {pick([1, 5])} {pick(['week', 'month', 'year', 'day'])}, {pick(['da', 'ta'])})",
            ]
        )


def table() -> Table:
    """A declaration of every column, without bounds: nothing is clamped."""
    return clinic(
        name="r",
        relation=("memory", "main", "r"),
        unit_key=None,
        columns=tuple(column(name, kind) for name, kind in TYPES.items()),
    )


def rows(rng: random.Random, count: int) -> list[Sequence[object]]:
    """Rows of ordinary values: halves, equal ones, NULL; few enough digits for DOUBLE to be exact."""

    def value(kind: str) -> object:
        if rng.random() < 0.1:
            return None
        if kind in ("SMALLINT", "INTEGER", "BIGINT", "HUGEINT"):
            return rng.choice([0, 1, 2, 3, -1, -7, rng.randint(-100, 100), rng.randint(-30000, 30000)])
        if kind in ("UTINYINT", "UINTEGER"):
            return rng.choice([0, 1, 2, 5, rng.randint(0, 250)])
        if kind in ("FLOAT", "DOUBLE"):
            return rng.choice([0.0, 0.1, 0.5, 1.0, 2.5, -2.5, 3.0, 0.3, rng.uniform(-100, 100), rng.randint(-9, 9) / 4])
        if kind.startswith("DECIMAL"):
            scale = int(kind[-2])
            return Decimal(rng.choice([0, 1, 5, 10, 25, 29, -15, rng.randint(-99999, 99999)])).scaleb(-scale)
        if kind == "BOOLEAN":
            return rng.random() < 0.5
        if kind == "VARCHAR":
            return rng.choice(TEXTS if rng.random() < 0.7 else READABLE)
        day = dt.date(2019, 12, 20) + dt.timedelta(days=rng.choice([0, 10, 11, 12, 71, 72, rng.randint(0, 800)]))
        if kind == "DATE":
            return day
        return dt.datetime.combine(
            day, rng.choice([dt.time(), dt.time(12), dt.time(23, 59, 59, 999999), dt.time(0, 30)])
        )

    return [[value(kind) for kind in TYPES.values()] for _ in range(count)]

"""Functions of texts with constants beside them: joined, replaced, split, searched; and values as texts."""

from __future__ import annotations

import math
import re
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import ClassVar

import duckdb
from sqlglot import exp

from duckdp.catalog.table import MAX_TEXT, Kind
from duckdp.compiler.empty import on_values
from duckdp.compiler.expression import Call, Case, Expr, Literal
from duckdp.compiler.facts import facts
from duckdp.compiler.literals import small_int
from duckdp.compiler.number_types import INTEGER
from duckdp.compiler.parse import refuse
from duckdp.compiler.spelling import spelled

MAX_PATTERN = 64  # bytes
MOST_PARTS = 16  # of split_part: the place of a part
MOST_GROUPS = 9  # of a regular expression: the number of the one that is taken
MOST_REPEATS = 64  # of a regular expression, all its {n} multiplied: each row's work grows with them
_WITHIN = ("\\C", "\\B")  # match a byte of a character, or between two: a text cut there is none, an error for a row


class TextNodes(ABC):
    """The part of ``scalars.Scalars`` that translates them."""

    text: str | None

    @abstractmethod
    def __call__(self, node: exp.Expression) -> Expr:
        """Translate a node."""

    @abstractmethod
    def _operator(self, name: str, node: exp.Expression, args: list[Expr], option: str = "") -> Expr: ...

    @abstractmethod
    def as_text(self, arg: Expr, node: exp.Expression) -> Expr:
        """A value as a text."""

    @abstractmethod
    def _arguments(self, node: exp.Expression, *also: str) -> list[Expr]: ...

    @abstractmethod
    def _coerce(self, arg: Expr, kind: Kind, node: exp.Expression) -> Expr: ...

    def _constant_text(self, node: object, called: str, of: exp.Expression, *, empty: bool = False) -> Literal:
        value = node.name if isinstance(node, exp.Literal) and node.is_string else None
        if value is None or (not value and not empty) or len(value.encode("utf-8", "replace")) > MAX_PATTERN:
            what = f"{called} takes constant texts of at most {MAX_PATTERN} bytes"
            refuse("Q202", f"{what}. Write them in quotes: 'a'.", of, self.text)
        return Literal(value, Kind.TEXT)

    def _joined(self, node: exp.Expression) -> Expr:
        """Texts joined by ``||``, which is NULL where either is, or by concat, which leaves NULLs out."""
        if not isinstance(node, exp.Concat):
            return self._operator("concat", node, [self.as_text(a, node) for a in self._arguments(node)])
        parts = [self.as_text(self(e), node) for e in node.expressions]
        nothing = Literal("", Kind.TEXT)
        args = [Call("coalesce_text", (p, nothing), Kind.TEXT) if facts(p).nullable else p for p in parts]
        return self._operator("concat", node, list(args))

    def _replace(self, node: exp.Expression) -> Expr:
        old = self._constant_text(node.expression, "replace", node)
        new = self._constant_text(node.args.get("replacement"), "replace", node, empty=True)
        return self._operator("replace", node, [self(node.this), old, new])

    def _split_part(self, node: exp.Expression) -> Expr:
        separator = self._constant_text(node.args.get("delimiter"), "split_part", node)
        place = small_int(node.args.get("part_index"))
        if place is None or not 1 <= place <= MOST_PARTS:
            way = "Write split_part(x, '.', 1)."
            refuse("Q202", f"split_part takes a constant place from 1 to {MOST_PARTS}. {way}", node, self.text)
        return self._operator("split_part", node, [self(node.this), separator], str(place))

    def _regular(self, node: exp.Expression) -> Expr:
        """regexp_matches alone: ``~`` looks for a match of the whole text, and sqlglot makes them one."""
        flag = node.args.get("flag")
        if spelled(node, self.text) != "regexp_matches":
            refuse("Q202", "this match has no rule. Use regexp_matches(x, '^a'), or x LIKE 'a%'.", node, self.text)
        return self._operator(
            "regexp_matches", node, [self(node.this), self._expression(node)], self._case_of(flag, node)
        )

    def _full_match(self, node: exp.Expression) -> Expr:
        flag = node.args.get("options")
        return self._operator(
            "regexp_full_match", node, [self(node.this), self._expression(node)], self._case_of(flag, node)
        )

    def _regular_replace(self, node: exp.Expression) -> Expr:
        """The first match replaced; what stands for it may name groups of the expression, as backslash and number."""
        pattern = self._cutting(node)
        option = self._case_of(node.args.get("modifiers"), node)
        new = self._constant_text(node.args.get("replacement"), "regexp_replace", node, empty=True)
        if not _is_done("regexp_replace('', $1, $2)", [str(pattern.value), str(new.value)]):
            what = "what replaces a match names a group that the pattern has not, or ends in a backslash"
            refuse("Q202", f"{what}. Write regexp_replace(x, '^(a|b)-', '\\1').", node, self.text)
        return self._operator("regexp_replace", node, [self(node.this), pattern, new], option)

    def _regular_part(self, node: exp.Expression) -> Expr:
        pattern, group = self._cutting(node), small_int(node.args.get("group"))
        if group is None or group > MOST_GROUPS or node.args.get("parameters") is not None:
            way = "Write regexp_extract(x, '^([A-Z]+)', 1)."
            refuse("Q202", f"regexp_extract takes the number of a group, 0 to {MOST_GROUPS}. {way}", node, self.text)
        return self._operator("regexp_extract", node, [self(node.this), pattern], str(group))

    def _case_of(self, flag: object, node: exp.Expression) -> str:
        """What a regular expression is told besides: nothing, or that case does not matter."""
        name = flag.name if isinstance(flag, exp.Literal) else "" if flag is None else None
        if name not in ("", "i"):
            called = spelled(node, self.text)
            refuse("Q202", f"{called} takes the option 'i' alone here. Leave the others out.", node, self.text)
        return name

    def _expression(self, node: exp.Expression) -> Literal:
        """A constant regular expression that DuckDB compiles, and whose work has a bound."""
        pattern = self._constant_text(node.expression, spelled(node, self.text) or "regexp_matches", node)
        braces = re.findall(r"\{(\d*),?(\d*)\}", str(pattern.value))
        repeats = [max(int(n) for n in pair if n) for pair in braces if any(pair)]
        whole = _is_done("regexp_matches('', $1)", [str(pattern.value)])
        if math.prod(max(n, 1) for n in repeats) > MOST_REPEATS or not whole:
            what = f"the pattern is none, or repeats more than {MOST_REPEATS} times"
            refuse("Q202", f"{what}. Write one such as '^[A-Z][0-9]{{2}}'.", node, self.text)
        return pattern

    def _cutting(self, node: exp.Expression) -> Literal:
        """A regular expression whose matches are whole characters: DuckDB fails on a text that is cut within one."""
        pattern = self._expression(node)
        if any(part in str(pattern.value) for part in _WITHIN):
            called = spelled(node, self.text) or "this function"
            refuse("Q202", f"{called} takes no \\C and no \\B. Write . for one character, as '^(.)'.", node, self.text)
        return pattern

    def _translate(self, node: exp.Expression) -> Expr:
        old = self._constant_text(node.args.get("from_"), "translate", node)
        new = self._constant_text(node.args.get("to"), "translate", node, empty=True)
        return self._operator("translate", node, [self(node.this), old, new])

    def _pad(self, node: exp.Expression) -> Expr:
        called = "lpad" if node.args.get("is_left") else "rpad"
        size = small_int(node.expression)
        if size is None or size > MAX_TEXT:
            way = f"Write {called}(x, 5, '0')."
            refuse("Q202", f"{called} takes a constant length up to {MAX_TEXT}. {way}", node, self.text)
        filling = self._constant_text(node.args.get("fill_pattern"), called, node)
        return self._operator(called, node, [self(node.this), filling], str(size))

    def _place(self, node: exp.Expression) -> Expr:
        plain = not any(v for k, v in node.args.items() if k not in ("this", "substr"))
        needle = self._constant_text(node.args.get("substr") if plain else None, "strpos", node)
        return self._operator("strpos", node, [self(node.this), needle])

    def _trim(self, node: exp.Expression) -> Expr:
        if any(v for k, v in node.args.items() if k not in ("this", "position")):
            refuse("Q202", "trim takes a text alone. Write trim(x), ltrim(x) or rtrim(x).", node, self.text)
        name = {"LEADING": "ltrim", "TRAILING": "rtrim"}.get(str(node.args.get("position") or "").upper(), "trim")
        return self._operator(name, node, [self(node.this)])

    def _width_bucket(self, node: exp.Expression) -> Expr:
        """The place of a number among equal parts of a range: 0 below, one more than there are above."""
        value = self._coerce(self(node.this), Kind.NUMBER, node)
        given = [node.args.get("min_value"), node.args.get("max_value")]
        low, high = (self(g) if isinstance(g, exp.Expression) else None for g in given)
        count = small_int(node.args.get("num_buckets"))
        values = [e.value for e in (low, high) if isinstance(e, Literal)]
        ends = [v for v in values if isinstance(v, (int, float)) and not isinstance(v, bool)]
        if len(ends) != 2 or count is None or not 1 <= count <= 1000 or not ends[0] < ends[1]:
            way = "Write width_bucket(x, 0, 100, 10)."
            refuse("Q202", f"width_bucket takes a range and a number of parts up to 1000. {way}", node, self.text)
        least, most = (Literal(e, Kind.NUMBER) for e in ends)
        width = Literal((ends[1] - ends[0]) / count, Kind.NUMBER)
        part = self._operator("div", node, [self._operator("sub", node, [value, least]), width])
        inside = self._operator("add", node, [self._operator("floor", node, [part]), Literal(1, Kind.NUMBER)])
        inside = self._operator("least", node, [inside, Literal(count, Kind.NUMBER)])
        inside = self._operator("greatest", node, [inside, Literal(1, Kind.NUMBER)])
        arms = (
            (Call("is_null_number", (value,), Kind.BOOLEAN), Literal(None, Kind.NUMBER)),
            (self._operator("lt_number", node, [value, least]), Literal(0, Kind.NUMBER)),
            (self._operator("ge_number", node, [value, most]), Literal(count + 1, Kind.NUMBER)),
        )
        return Case(arms, inside, Kind.NUMBER, type=INTEGER)

    text_methods: ClassVar[dict[type[exp.Expression], Callable[[TextNodes, exp.Expression], Expr]]] = {
        exp.DPipe: _joined,
        exp.Concat: _joined,
        exp.Replace: _replace,
        exp.SplitPart: _split_part,
        exp.RegexpLike: _regular,
        exp.RegexpFullMatch: _full_match,
        exp.RegexpReplace: _regular_replace,
        exp.RegexpExtract: _regular_part,
        exp.Translate: _translate,
        exp.Pad: _pad,
        exp.StrPosition: _place,
        exp.Trim: _trim,
        exp.WidthBucket: _width_bucket,
    }


def _is_done(call: str, constants: list[str]) -> bool:
    """Whether DuckDB takes a call with these constants: tried where no row is."""
    try:
        on_values({}, lambda con: con.execute(f"SELECT {call}", constants).fetchall())
    except duckdb.Error:
        return False
    return True

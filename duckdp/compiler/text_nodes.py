"""Functions of texts with constants beside them: joined, replaced, split, searched; and values as texts."""

from __future__ import annotations

import math
import re
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import ClassVar

import duckdb
from sqlglot import exp

from duckdp.catalog.table import Kind
from duckdp.compiler import ways
from duckdp.compiler.empty import on_values
from duckdp.compiler.expression import Call, Case, Expr, Literal
from duckdp.compiler.facts import facts
from duckdp.compiler.literals import small_int
from duckdp.compiler.number_types import INTEGER
from duckdp.compiler.parse import refuse
from duckdp.compiler.spelling import spelled
from duckdp.compiler.types import type_of

MAX_PATTERN = 64  # bytes
EXACT = 2**53  # whole numbers up to here are exact as DOUBLE
MOST_PARTS = 16  # of split_part: the place of a part
MOST_REPEATS = 64  # of a regular expression, all its {n} multiplied: each row's work grows with them


class TextNodes(ABC):
    """The part of ``scalars.Scalars`` that translates them."""

    text: str | None

    @abstractmethod
    def __call__(self, node: exp.Expression) -> Expr:
        """Translate a node."""

    @abstractmethod
    def _operator(self, name: str, node: exp.Expression, args: list[Expr], option: str = "") -> Expr: ...

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
        if spelled(node, self.text) != "regexp_matches" or (flag is not None and flag.name != "i"):
            refuse("Q202", "this match has no rule. Use regexp_matches(x, '^a'), or x LIKE 'a%'.", node, self.text)
        pattern = self._constant_text(node.expression, "regexp_matches", node)
        braces = re.findall(r"\{(\d*),?(\d*)\}", str(pattern.value))
        repeats = [max(int(n) for n in pair if n) for pair in braces if any(pair)]
        if math.prod(max(n, 1) for n in repeats) > MOST_REPEATS or not _is_pattern(str(pattern.value)):
            what = f"the pattern is none, or repeats more than {MOST_REPEATS} times"
            refuse("Q202", f"{what}. Write one such as '^[A-Z][0-9]{{2}}'.", node, self.text)
        return self._operator("regexp_matches", node, [self(node.this), pattern], "" if flag is None else "i")

    def _place(self, node: exp.Expression) -> Expr:
        plain = not any(v for k, v in node.args.items() if k not in ("this", "substr"))
        needle = self._constant_text(node.args.get("substr") if plain else None, "strpos", node)
        return self._operator("strpos", node, [self(node.this), needle])

    def _trim(self, node: exp.Expression) -> Expr:
        if any(v for k, v in node.args.items() if k not in ("this", "position")):
            refuse("Q202", "trim takes a text alone. Write trim(x), ltrim(x) or rtrim(x).", node, self.text)
        name = {"LEADING": "ltrim", "TRAILING": "rtrim"}.get(str(node.args.get("position") or "").upper(), "trim")
        return self._operator(name, node, [self(node.this)])

    def as_text(self, arg: Expr, node: exp.Expression) -> Expr:
        """A value as DuckDB writes it: texts, whole numbers, booleans and dates."""
        if arg.kind is Kind.TEXT:
            return arg
        known = facts(arg)
        whole = arg.kind is Kind.NUMBER and known.integral and known.interval.largest <= EXACT
        if arg.kind is Kind.NUMBER and isinstance(arg, Literal) and arg.value is None:
            return Literal(None, Kind.TEXT)
        if arg.kind is Kind.NUMBER and not (whole and type_of(arg) == INTEGER):
            refuse("Q202", ways.no_cast(arg, exp.DType.TEXT), node, self.text)
        return self._operator(f"text_{arg.kind.value}", node, [arg])

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
        exp.StrPosition: _place,
        exp.Trim: _trim,
        exp.WidthBucket: _width_bucket,
    }


def _is_pattern(pattern: str) -> bool:
    """Whether DuckDB compiles a regular expression: tried where no row is."""
    try:
        on_values({}, lambda con: con.execute("SELECT regexp_matches('', $1)", [pattern]).fetchall())
    except duckdb.Error:
        return False
    return True

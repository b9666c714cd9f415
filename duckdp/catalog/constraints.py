"""What an owner says holds in every row: orders, sums, and columns that others determine. Public, and never checked.

    "admitted <= discharged"      two columns of one kind; <, >=, > too
    "net + tax = total"           a column that is the sum of others of its type; - too
    "diagnosis -> department"     rows that agree on the left agree on the right; several on the left by commas

Synthetic tables keep them in every row (``synthetic.unit.structure``). A row with a NULL among the columns of an order
or a sum keeps it, as in SQL; so does one with a NULL where a column is determined.

A column may be in several orders, or in one sum, or be determined once; what determines may be anything else. So a row
that breaks them can always be mended, and whether one can exist at all follows from bounds.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from duckdp.catalog.table import Column, Kind, closest
from duckdp.catalog.values import as_number
from duckdp.errors import CatalogError, ParameterError

MOST = 100  # constraints of a table
MOST_TEXT = 1000  # characters of one
_EXACT = 2**53  # whole numbers up to here are floats
_TOKEN = re.compile(r'\s*(?:("(?:[^"]|"")+")|([^\W\d]\w*)|(<=|>=|->|[<>=+,-]))', re.UNICODE)
_PLAIN = re.compile(r"[a-z_][a-z0-9_]*\Z", re.IGNORECASE)
_FORMS = '"a <= b" (or <, >=, >), "a + b = c", or "a -> b"'


@dataclass(frozen=True, kw_only=True)
class Order:
    """``low <= high``, or ``low < high`` where it is strict."""

    low: str
    high: str
    strict: bool = False

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that it is about."""
        return self.low, self.high

    def __str__(self) -> str:
        return f"{_shown(self.low)} {'<' if self.strict else '<='} {_shown(self.high)}"


@dataclass(frozen=True, kw_only=True)
class Total:
    """``parts[0] + parts[1] + ... = total``, added in this order."""

    parts: tuple[str, ...]
    total: str

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that it is about."""
        return *self.parts, self.total

    def __str__(self) -> str:
        return f"{' + '.join(map(_shown, self.parts))} = {_shown(self.total)}"


@dataclass(frozen=True, kw_only=True)
class Determined:
    """``by -> what``: a functional dependency."""

    by: tuple[str, ...]
    what: str

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that it is about."""
        return *self.by, self.what

    def __str__(self) -> str:
        return f"{', '.join(map(_shown, self.by))} -> {_shown(self.what)}"


Constraint = Order | Total | Determined


def read_constraint(text: str) -> Constraint:
    """A constraint from its text.

    Raises:
        ParameterError: P107.

    >>> str(read_constraint("discharged >= admitted")), str(read_constraint("gross - tax = net"))
    ('admitted <= discharged', 'tax + net = gross')
    """
    words = _words(text)
    found = _in_order(words) or _as_total(words) or _determined(words)
    if found is None or len(set(map(str.lower, found.columns))) < len(found.columns):
        raise ParameterError("P107", "constraints", text, f"must be {_FORMS}, each of other columns.")
    return found


def check_constraints(table: str, texts: object, columns: Sequence[Column]) -> tuple[str, ...]:
    """The constraints of a table in their one spelling and order, each once.

    Args:
        table: its name, for messages.
        texts: as they were given.
        columns: all declared columns.

    Raises:
        CatalogError: C102, of a column that is not declared. ParameterError: P107.
    """
    if isinstance(texts, (str, bytes, Mapping)) or not isinstance(texts, Iterable):
        raise ParameterError("P107", "constraints", texts, f"must be a list of texts: {_FORMS}.")
    known = {c.name.lower(): c for c in columns}
    found: dict[str, Constraint] = {}
    for text in texts:
        if not isinstance(text, str) or len(text) > MOST_TEXT or len(found) >= MOST:
            rule = f"must be at most {MOST} texts of at most {MOST_TEXT} characters: {_FORMS}."
            raise ParameterError("P107", "constraints", text, rule)
        one = _named(read_constraint(text), known, table)
        _check_columns(one, text, known)
        found[str(one)] = one
    _check_together(list(found.values()))
    _check_possible(list(found.values()), known)
    return tuple(sorted(found))


def among(texts: Iterable[str], names: Iterable[str]) -> list[Constraint]:
    """Those that hold among some columns: all of whose columns are there, and orders that others imply."""
    present = set(names)
    all_of_them = [read_constraint(t) for t in texts]
    orders = [c for c in all_of_them if isinstance(c, Order)]
    # in an order of their own: what is left is part of a question's identity, in every process alike
    for gone in sorted({n for o in orders for n in o.columns} - present):
        below, above = [o for o in orders if o.high == gone], [o for o in orders if o.low == gone]
        orders = [o for o in orders if gone not in o.columns]
        orders += [Order(low=a.low, high=b.high, strict=a.strict or b.strict) for a in below for b in above]
        orders = list(dict.fromkeys(orders))  # each once: there are at most two between any two columns
    others = [c for c in all_of_them if not isinstance(c, Order) and present.issuperset(c.columns)]
    return [*{str(c): c for c in (*orders, *others)}.values()]


def order_steps(constraints: Iterable[Constraint]) -> list[tuple[str, list[Order]]]:
    """Columns of orders with the orders that hold them up, so that what is below comes first.

    Raises:
        ParameterError: P107, they go round in a circle.
    """
    orders = [c for c in constraints if isinstance(c, Order)]
    waiting = list(dict.fromkeys(n for o in orders for n in o.columns))
    found: list[tuple[str, list[Order]]] = []
    while waiting:
        ready = next((n for n in waiting if not any(o.high == n and o.low in waiting for o in orders)), None)
        if ready is None:
            rule = f"go round in a circle: {', '.join(waiting)}. Leave one of these orders out."
            raise ParameterError("P107", "constraints", [str(o) for o in orders], rule)
        found.append((ready, [o for o in orders if o.high == ready]))
        waiting.remove(ready)
    return found


def step_of(column: Column) -> float:
    """By how much the values of a column differ at least, in numbers, days or microseconds; 0 for DOUBLE."""
    if column.kind is not Kind.NUMBER or column.integral:
        return 1.0
    places = decimals_of(column)
    return 0.0 if places is None else 1 / 10**places


def decimals_of(column: Column) -> int | None:
    """Decimal places of a whole number or a DECIMAL; None of others."""
    if column.integral:
        return 0
    match = re.fullmatch(r"DECIMAL\(\d+,\s*(\d+)\)", column.type.upper())
    return int(match[1]) if match else None


def next_to(value: float, column: Column, *, up: bool) -> float:
    """The next value of a column above another one, or below it."""
    step = step_of(column)
    if not step:
        return math.nextafter(value, math.inf if up else -math.inf)
    moved = value + step if up else value - step
    places = decimals_of(column) if column.kind is Kind.NUMBER else 0
    return round(moved, places or 0) if places else moved


def on_grid(value: float, column: Column, *, up: bool) -> float:
    """The nearest value of a column that is not below, or not above."""
    places = decimals_of(column) if column.kind is Kind.NUMBER else 0
    if places is None:
        return value
    units = round(value * 10**places)
    beyond = units / 10**places < value if up else units / 10**places > value  # 0.9999999999999999 is below 1.00
    return float((units + beyond * (1 if up else -1)) / 10**places)


def narrowed(constraints: Iterable[Constraint], columns: Mapping[str, Column]) -> dict[str, tuple[float, float]]:
    """Bounds of the columns of orders, as numbers, that leave each value room for those above and below it.

    Args:
        constraints: of these columns.
        columns: by name.
    """
    steps = order_steps(constraints)
    found = {name: bounds_of(columns[name]) for name, _ in steps}
    for name, below in steps:
        for order in below:
            low = found[order.low][0]
            low = next_to(low, columns[order.low], up=True) if order.strict else low
            found[name] = max(found[name][0], on_grid(low, columns[name], up=True)), found[name][1]
    for name, below in reversed(steps):
        for order in below:
            high = found[name][1]
            high = next_to(high, columns[name], up=False) if order.strict else high
            found[order.low] = (
                found[order.low][0],
                min(found[order.low][1], on_grid(high, columns[order.low], up=False)),
            )
    return found


def _words(text: str) -> list[str]:
    """Names as they are meant, behind a ``"``; operators as they stand."""
    found, at, text = [], 0, text.strip()
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            raise ParameterError("P107", "constraints", text, f"must be {_FORMS}.")
        quoted, name, operator = match.groups()
        found.append(operator or '"' + (name or quoted[1:-1].replace('""', '"')))
        at = match.end()
    return found


def _in_order(words: list[str]) -> Constraint | None:
    match words:
        case [first, "<=" | "<" | ">=" | ">" as sign, second] if first[0] == second[0] == '"':
            low, high = (first, second) if sign[0] == "<" else (second, first)
            return Order(low=low[1:], high=high[1:], strict=len(sign) == 1)
    return None


def _as_total(words: list[str]) -> Constraint | None:
    if words.count("=") != 1:
        return None
    at = words.index("=")
    left, right = _terms(words[:at]), _terms(words[at + 1 :])
    if left is None or right is None:
        return None
    terms = [*left, *((-sign, name) for sign, name in right)]
    plus, minus = [n for s, n in terms if s > 0], [n for s, n in terms if s < 0]
    parts, total = (plus, minus) if len(minus) == 1 else (minus, plus)
    return Total(parts=tuple(parts), total=total[0]) if len(total) == 1 and len(parts) > 1 else None


def _terms(words: list[str]) -> list[tuple[int, str]] | None:
    """Signs and names of ``a + b - c``."""
    padded = words if words[:1] == ["-"] else ["+", *words]
    signs, names = padded[::2], padded[1::2]
    if len(signs) != len(names) or not names or any(s not in "+-" for s in signs) or any(n[0] != '"' for n in names):
        return None
    return [(1 if s == "+" else -1, n[1:]) for s, n in zip(signs, names, strict=True)]


def _determined(words: list[str]) -> Constraint | None:
    if words.count("->") != 1 or words[-2:-1] != ["->"]:
        return None
    left = words[:-2]
    names, commas = left[::2], left[1::2]
    if len(names) != len(commas) + 1 or any(c != "," for c in commas) or any(n[0] != '"' for n in (*names, words[-1])):
        return None
    return Determined(by=tuple(n[1:] for n in names), what=words[-1][1:])


def _named(constraint: Constraint, known: Mapping[str, Column], table: str) -> Constraint:
    """The same with the columns' own spelling."""

    def own(name: str) -> str:
        column = known.get(name.lower())
        if column is None:
            told = closest(name, [c.name for c in known.values()])
            raise CatalogError(
                "C102",
                f'constraints speak of the column "{name[:63]}", which is not declared for "{table}". {told}',
                table=table,
                column=name,
            )
        return column.name

    match constraint:
        case Order():
            return Order(low=own(constraint.low), high=own(constraint.high), strict=constraint.strict)
        case Total():
            return Total(parts=tuple(map(own, constraint.parts)), total=own(constraint.total))
    return Determined(by=tuple(map(own, constraint.by)), what=own(constraint.what))


def _check_columns(constraint: Constraint, text: str, known: Mapping[str, Column]) -> None:
    """Refuse columns of which rows cannot be made to keep it."""
    columns = [known[n.lower()] for n in constraint.columns]

    def refuse(rule: str) -> None:
        raise ParameterError("P107", "constraints", text, rule)

    if isinstance(constraint, Determined):
        for c in columns:
            if c.lower is None and c.domain is None and c.kind is not Kind.BOOLEAN:
                refuse(f'needs bounds or a domain of "{c.name}", without which no rows are made of it.')
        return
    for c in columns:
        if c.lower is None or c.upper is None or c.domain is not None:
            refuse(f'needs bounds of "{c.name}", and no domain.')
        if c.kind is Kind.NUMBER and max(abs(float(b)) for b in (c.lower, c.upper)) > _EXACT and c.integral:  # type: ignore[arg-type]
            refuse(f'needs bounds of "{c.name}" within 2^53 of 0.')
    if isinstance(constraint, Order):
        if len({c.kind for c in columns}) > 1:
            refuse("must compare two numbers, two dates or two timestamps.")
        if constraint.strict and len({step_of(c) for c in columns}) > 1:
            refuse("must compare columns of one type where they may not be equal; take <=.")
        return
    if any(c.kind is not Kind.NUMBER for c in columns):
        refuse("must add up numbers.")
    if len({decimals_of(c) for c in columns}) > 1 or any(c.type.upper() in ("FLOAT", "REAL") for c in columns):
        refuse("must add up whole numbers, DECIMALs of as many places, or DOUBLEs, so that sums are exact.")


def _check_together(constraints: Sequence[Constraint]) -> None:
    """Refuse what cannot be mended row by row, one after the other."""
    summed = [n for c in constraints if isinstance(c, Total) for n in c.columns]
    ordered = {n for c in constraints if isinstance(c, Order) for n in c.columns}
    given = [c.what for c in constraints if isinstance(c, Determined)]
    for name in dict.fromkeys((*summed, *given)):
        if summed.count(name) + given.count(name) + (name in ordered) > 1:
            texts = [str(c) for c in constraints if name in c.columns]
            rule = (
                f'use "{name}" more than once: a column is in orders, or in one sum, or determined once. Leave one out.'
            )
            raise ParameterError("P107", "constraints", texts, rule)
    waiting = {c.what: set(c.by) for c in constraints if isinstance(c, Determined)}
    while waiting:
        ready = [n for n, by in waiting.items() if not by & waiting.keys()]
        if not ready:
            texts = [str(c) for c in constraints if isinstance(c, Determined) and c.what in waiting]
            raise ParameterError("P107", "constraints", texts, "go round in a circle. Leave one direction out.")
        for name in ready:
            del waiting[name]


def _check_possible(constraints: Sequence[Constraint], known: Mapping[str, Column]) -> None:
    """Refuse what no row within the bounds keeps."""
    columns = {c.name: c for c in known.values()}
    for name, (low, high) in narrowed(constraints, columns).items():
        if low >= high:
            texts = [str(c) for c in constraints if name in c.columns]
            raise ParameterError(
                "P107", "constraints", texts, f'leave "{name}" no room within the bounds. Widen these.'
            )
    for c in constraints:
        if isinstance(c, Total):
            least, most = (sum(bounds_of(columns[n])[side] for n in c.parts) for side in (0, 1))
            low, high = bounds_of(columns[c.total])
            if least > high or most < low:
                rule = f'cannot hold: the parts add up to {least:g} to {most:g}. Widen the bounds of "{c.total}".'
                raise ParameterError("P107", "constraints", str(c), rule)


def bounds_of(column: Column) -> tuple[float, float]:
    """Bounds as numbers: days and microseconds since 1970 of dates and timestamps."""
    return as_number(column.lower), as_number(column.upper)


def _shown(name: str) -> str:
    return name if _PLAIN.match(name) else '"' + name.replace('"', '""') + '"'

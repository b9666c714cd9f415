"""Oracles of relational questions: what a unit can change, and what DuckDB itself answers.

**Locality**: every relation of a plan, printed as its SELECT and run on random small tables, gives without a unit's
rows what it gave before, without that unit's rows; whatever the order of rows on the disk and the number of threads.
**Sensitivity**: exact cells of neighbouring data sets differ by at most what the plan claims. **Differential**: on data
within the declared bounds, exact figures are DuckDB's own answer to the analyst's text. Statements are generated.
"""

from __future__ import annotations

import datetime as dt
import math
import random
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

import duckdb

from duckdp.catalog.public import Public
from duckdp.catalog.table import Column, RawColumn, Table
from duckdp.compiler.parse import parse_statement
from duckdp.compiler.plan import Plan, make_plan
from duckdp.compiler.printing import Parameters, print_rows
from duckdp.compiler.relations.relation import Relation
from duckdp.compiler.select import read_select
from duckdp.core.types import Neighbours, parse_delta, parse_epsilon
from duckdp.vault.publishing import with_figures
from tests.gate import Row, column, exact_answer, exact_cells, exact_rows

Data = dict[str, list[Row]]
DAYS = (dt.date(2024, 1, 1), dt.date(2024, 3, 31))
COLUMNS: dict[str, tuple[Column, ...]] = {
    "visits": (
        column("day", "INTEGER", lower=0, upper=9),
        column("cost", "DOUBLE", lower=0.0, upper=20.0),
        column("score", "DECIMAL(9,2)", lower=-5.0, upper=5.0),
        column("dept", "VARCHAR", domain=("a", "b", "c")),
        column("paid", "BOOLEAN"),
        column("at", "DATE", lower=DAYS[0], upper=DAYS[1]),
    ),
    "labs": (
        column("day", "INTEGER", lower=0, upper=9),
        column("level", "DOUBLE", lower=-4.0, upper=4.0),
        column("dept", "VARCHAR", domain=("a", "b", "c")),
        column("ok", "BOOLEAN"),
    ),
}
VALUES: dict[str, list[Any]] = {
    "day": [None, *range(10)],
    "cost": [None, 0.0, 0.5, 2.25, 7.5, 20.0],
    "score": [None, -5, -1.25, 0, 0.3, 0.1, 4.99],
    "dept": ["a", "b", "c", None],
    "paid": [True, False, None],
    "at": [None, DAYS[0], dt.date(2024, 2, 15), DAYS[1]],
    "level": [None, -4.0, -0.5, 0.0, 1.75, 4.0],
    "ok": [True, False, None],
}
# beyond bounds and domains, and what has two forms
WILD: dict[str, list[Any]] = {
    "day": [-7, 99],
    "cost": [math.nan, math.inf, -0.0, 0.1, 0.2, 0.3, 1e308],
    "score": [999.99, 0.07],
    "dept": ["Z", ""],
    "level": [math.nan, -math.inf, -0.0, 0.1, 0.7, 1e-300],
    "at": [dt.date(1, 1, 1)],
}


def table(name: str, **changed: Any) -> Table:
    """A table of persons (pid); by default 2 rows in each of 2 groups count."""
    given: dict[str, Any] = {
        "name": name,
        "relation": ("memory", "main", name),
        "columns": COLUMNS[name],
        "row_cap": 1000,
        "unit_key": "pid",
        "unit_type": "INTEGER",
        "max_rows": 2,
        "max_groups": 2,
    }
    return Table(**(given | changed))


# public tables: of some days there are two rows, of one none; texts and numbers repeat, NULL is everywhere
PUBLIC = {
    "days": "SELECT * FROM (VALUES (0, 'x', 0.5), (1, 'x', 1.5), (1, 'y', -1.0), (2, NULL, 2.0), (3, 'y', NULL), "
    "(4, 'a', 0.25), (5, 'b', 1.5), (7, 'c', 3.0), (8, 'a', 0.5), (NULL, 'z', 9.0)) AS t(day, label, rate)",
    "depts": "SELECT * FROM (VALUES ('a', 1, TRUE), ('b', 2, FALSE), ('c', 2, NULL)) AS t(dept, site, open)",
}


def written_out(name: str, alias: str) -> str:
    """The rows of a public table as constants of a statement."""
    rows, names = PUBLIC[name].removeprefix("SELECT * FROM ").split(" AS t")
    return f"{rows} AS {alias}{names}"


@cache
def public(name: str) -> Table:
    """A public table, with what is computed of its rows."""
    con = duckdb.connect()
    con.execute(f"CREATE TABLE {name} AS {PUBLIC[name]}")
    types = con.execute(f"DESCRIBE {name}").fetchall()
    raw = [RawColumn(name=row[0], type=row[1], nullable=True) for row in types]
    known = Table(
        name=name,
        relation=("memory", "main", name),
        columns=tuple(column(c.name, c.type) for c in raw),
        row_cap=1,
        public=Public(rows=0, digest="", source=""),
    )
    return with_figures(con, known, raw, "")


def tables(**changed: Any) -> dict[str, Table]:
    """All of them, and the public ones."""
    return {name: table(name, **changed) for name in COLUMNS} | {name: public(name) for name in PUBLIC}


def plan_of(text: str, known: Mapping[str, Table], **terms: Any) -> Plan:
    """Text to plan."""
    return make_plan(
        read_select(parse_statement(text), known, text, ()),
        epsilon_nano=parse_epsilon(terms.get("epsilon", 1)),
        delta_atto=parse_delta("1e-8"),
        neighbours=Neighbours.ADD_REMOVE,
        mechanism="laplace",
    )


# ---- data


def random_data(rng: random.Random, *, wild: bool, units: Sequence[int | None] = (1, 2, 3, 4, None)) -> Data:
    """Small tables: NULLs everywhere, units in one of them only, in none, and with many rows."""
    found: Data = {}
    for name, columns in COLUMNS.items():
        rows = []
        for unit in units:
            for _ in range(rng.choice([0, 1, 1, 2, 3, 7])):
                picks = [WILD.get(c.name) if wild and rng.random() < 0.4 else None for c in columns]
                rows.append((unit, *(rng.choice(p or VALUES[c.name]) for p, c in zip(picks, columns, strict=True))))
        found[name] = rows
    return found


def load_data(con: duckdb.DuckDBPyConnection, data: Data, rng: random.Random | None = None) -> None:
    """Create the base tables, in a random order of rows where a generator is given."""
    for name, select in PUBLIC.items():
        con.execute(f"CREATE TABLE IF NOT EXISTS memory.main.{name} AS {select}")
    for name, columns in COLUMNS.items():
        con.execute(
            f"CREATE OR REPLACE TABLE memory.main.{name} (pid INTEGER, "
            + ", ".join(f'"{c.name}" {c.type}' for c in columns)
            + ")"
        )  # fmt-free
        rows = list(data[name])
        if rng is not None:
            rng.shuffle(rows)
        if rows:
            marks = ", ".join(["(" + ", ".join("?" * len(rows[0])) + ")"] * len(rows))
            con.execute(f"INSERT INTO memory.main.{name} VALUES {marks}", [v for row in rows for v in row])


def without(data: Data, unit: int) -> Data:
    """The neighbour: all rows of a unit are gone."""
    return {name: [row for row in rows if row[0] != unit] for name, rows in data.items()}


# ---- locality


def relations_of(found: Table) -> Iterator[Relation]:
    """A relation and all below it."""
    if isinstance(found, Relation):
        yield found
        for part in found.node.inputs:
            yield from relations_of(part)


def rows_of(con: duckdb.DuckDBPyConnection, relation: Relation, salt: int = 7) -> Counter[Any]:
    """Its rows to the last bit, as (unit, ...)."""
    parameters = Parameters(key=salt)
    sql = print_rows(relation, relation.columns, parameters, unit=True)
    names = ", ".join(["__unit", *('"' + c.name.replace('"', '""') + '"' for c in relation.columns)])
    rows = con.execute(f"SELECT {names} FROM {sql} AS r", parameters.values).fetchall()
    return Counter((row[0], *(repr(v) for v in row[1:])) for row in rows)


def violation(con: duckdb.DuckDBPyConnection, plan: Plan, rng: random.Random, tries: int) -> str | None:
    """What a relation of a plan does that it must not, or None."""
    relations = list(dict.fromkeys(relations_of(plan.query.table)))
    for _ in range(tries):
        data, salt = random_data(rng, wild=True), rng.randrange(2**64)
        load_data(con, data)
        whole = [rows_of(con, r, salt) for r in relations]
        load_data(con, data, rng)
        con.execute(f"SET threads = {rng.choice([1, 2])}")
        if [rows_of(con, r, salt) for r in relations] != whole:
            return "the order of rows changes a relation"
        for unit in (1, 2):
            load_data(con, without(data, unit), rng)
            for relation, before in zip(relations, whole, strict=True):
                if any(row[0] is None for row in before):
                    return "a row has no unit"
                kept = Counter({row: n for row, n in before.items() if row[0] != unit})
                if rows_of(con, relation, salt) != kept:
                    return "a unit changes what another has"
                if relation.rows is not None:
                    of = Counter(row[0] for row in before.elements())
                    if any(n > relation.rows for n in of.values()):
                        return "a unit has more rows than is claimed"
    return None


def broken_claim(con: duckdb.DuckDBPyConnection, plan: Plan, rng: random.Random, tries: int) -> str | None:
    """A value of a relation that its column does not claim, or None."""
    for relation in dict.fromkeys(relations_of(plan.query.table)):
        for _ in range(tries):
            load_data(con, random_data(rng, wild=True))
            parameters = Parameters(key=3)
            sql = print_rows(relation, relation.columns, parameters, unit=True)
            for c in relation.columns:
                shown = '"' + c.name.replace('"', '""') + '"'
                found = con.execute(f"SELECT {shown} FROM {sql} AS r", parameters.values).fetchall()
                wrong = next((value for (value,) in found if not _is_claimed(c, value)), ...)
                if wrong is not ...:
                    return f"{c.name} is {wrong}"
    return None


def _is_claimed(claimed: Column, value: Any) -> bool:
    if value is None:
        return claimed.nullable
    if isinstance(value, float) and (math.isnan(value) or repr(value) == "-0.0"):
        return False
    if claimed.lower is not None and not claimed.lower <= value <= claimed.upper:  # type: ignore[operator]
        return False
    return not isinstance(value, float) or not claimed.integral or value.is_integer()


# ---- sensitivity


def largest_share(
    con: duckdb.DuckDBPyConnection, plan: Plan, rng: random.Random, tries: int, runs: Plan | None = None
) -> float:
    """The largest ratio of a change of exact cells to what is claimed for it (above 1: a violation)."""
    from tests.compiler.test_sensitivity import worst

    largest = 0.0
    for _ in range(tries):
        data, salt = random_data(rng, wild=True), rng.randrange(2**64)
        cells = []
        for one in (data, without(data, 1)):
            load_data(con, one)
            cells.append(exact_cells(plan, exact_rows(runs or plan, con, salt)))
        largest = max(largest, 0, *worst(plan, *cells))
    return largest


# ---- statements


@dataclass
class Source:
    """A relation in SQL: its text, kinds of its columns (i, n, b, t), and its unit's name if it has one."""

    sql: str
    columns: dict[str, str]
    unit: str | None


@dataclass
class Statements:
    """Random statements that the gate accepts."""

    rng: random.Random
    number: int = 0
    ctes: list[str] = field(default_factory=list)

    def statement(self) -> str:
        """A question over a random relation."""
        self.ctes, self.number = [], 0
        source = self.source(self.rng.choice([1, 2, 2, 3]))
        where = f" WHERE {self.condition(source)}" if self.rng.random() < 0.4 else ""
        measures = ["count(*)", *(f"{f}({self.numeric(source)})" for f in self.rng.sample(["sum", "avg", "count"], 2))]
        if source.unit:
            measures.append(f"count(DISTINCT {source.unit})")
        keys = [n for n, k in source.columns.items() if k in "ibt"]
        picked = self.rng.sample(measures, self.rng.randint(1, len(measures)))
        head = f"WITH {', '.join(self.ctes)} " if self.ctes else ""
        if keys and self.rng.random() < 0.5:
            key = self.rng.choice(keys)
            return f"{head}SELECT {key}, {', '.join(picked)} FROM {source.sql}{where} GROUP BY {key}"
        return f"{head}SELECT {', '.join(picked)} FROM {source.sql}{where}"

    def name(self) -> str:
        self.number += 1
        return f"x{self.number}"

    def source(self, depth: int) -> Source:
        """A table, or what a subquery makes of one; some of them as a CTE."""
        if depth == 0:
            return self.base()
        makes = [self.projected, self.grouped, self.grouped, self.distinct, self.joined, self.joined, self.matched]
        makes += [self.with_public, self.with_public, self.tested, self.stacked, self.windowed]
        make = self.rng.choice(makes)
        found = make(depth - 1)
        called = self.name()
        if self.rng.random() < 0.3:
            self.ctes.append(f"{called} AS ({found.sql})")
            return replace(found, sql=called)
        return replace(found, sql=f"({found.sql}) AS {called}")

    def base(self) -> Source:
        kinds = {"INTEGER": "i", "DOUBLE": "n", "DECIMAL(9,2)": "n", "VARCHAR": "t", "BOOLEAN": "b"}
        name = self.rng.choice(list(COLUMNS))
        return Source(name, {c.name: kinds[c.type] for c in COLUMNS[name] if c.type in kinds}, "pid")

    def below(self, depth: int) -> Source:
        """A source with a unit's name."""
        found = self.source(depth)
        while found.unit is None:
            found = self.source(depth)
        return found

    def projected(self, depth: int) -> Source:
        of = self.below(depth)
        columns, items = {}, []
        for _ in range(self.rng.randint(1, 3)):
            kind, name = self.rng.choice("nbt" if "t" in of.columns.values() else "nb"), self.name()
            texts = [n for n, k in of.columns.items() if k == "t"]
            expr = {"n": self.numeric, "b": self.condition}[kind](of) if kind != "t" else self.rng.choice(texts)
            columns[name] = kind
            items.append(f"{expr} AS {name}")
        unit = self.name() if self.rng.random() < 0.8 else None
        items += [f"{of.unit} AS {unit}"] if unit else []
        where = f" WHERE {self.condition(of)}" if self.rng.random() < 0.5 else ""
        return Source(f"SELECT {', '.join(items)} FROM {of.sql}{where}", columns, unit)

    def grouped(self, depth: int) -> Source:
        of = self.below(depth)
        columns, items, keys = {}, [], [of.unit]
        for name in (
            self.rng.sample([n for n, k in of.columns.items() if k in "ibt"], k=self.rng.choice([0, 0, 1]))
            if any(k in "ibt" for k in of.columns.values())
            else []
        ):
            columns[name] = of.columns[name]
            items.append(name)
            keys.append(name)
        for _ in range(self.rng.randint(1, 3)):
            name = self.name()
            argument, number = self.numeric(of), self.rng.choice(["sum", "avg", "min", "max", "median", "count"])
            some = {
                "count(*)": "i",
                f"{number}({argument})": "i" if number == "count" else "n",
                f"count(DISTINCT {argument})": "i",
                f"count(*) FILTER (WHERE {self.condition(of)})": "i",
                f"bool_or({self.condition(of)})": "b",
                f"sum({argument}) / count(*)": "n",
            }
            expr = self.rng.choice(list(some))
            columns[name] = some[expr]
            items.append(f"{expr} AS {name}")
        unit = self.name() if self.rng.random() < 0.7 else None
        items += [f"{of.unit} AS {unit}"] if unit else []
        where = f" WHERE {self.condition(of)}" if self.rng.random() < 0.3 else ""
        having = f" HAVING count(*) > {self.rng.randint(0, 2)}" if self.rng.random() < 0.3 else ""
        by = ", ".join(str(k) for k in keys)
        return Source(f"SELECT {', '.join(items)} FROM {of.sql}{where} GROUP BY {by}{having}", columns, unit)

    def distinct(self, depth: int) -> Source:
        of, unit = self.below(depth), self.name()
        names = self.rng.sample(list(of.columns), min(len(of.columns), self.rng.randint(1, 2)))
        items = ", ".join([f"{of.unit} AS {unit}", *names])
        return Source(f"SELECT DISTINCT {items} FROM {of.sql}", {n: of.columns[n] for n in names}, unit)

    def joined(self, depth: int) -> Source:
        """A join with a table; each column under a name of its own."""
        left, right = self.below(depth), self.base()
        one, two, kind = self.name(), self.name(), self.rng.choice(["", "LEFT", "RIGHT", "FULL", ","])
        columns: dict[str, str] = {}
        items = []
        for alias, side in ((one, left), (two, right)):
            for name in self.rng.sample(list(side.columns), min(2, len(side.columns))):
                called = self.name()
                columns[called] = side.columns[name]
                items.append(f"{alias}.{name} AS {called}")
        kept = {"RIGHT": two, "FULL": None}.get(kind, one)
        unit = None if kept is None else self.name()
        if kept is not None:
            items.append(f"{kept}.{left.unit if kept == one else right.unit} AS {unit}")
        same = f"{one}.{left.unit} = {two}.{right.unit}"
        numbers = [[f"{a}.{n}" for n, k in s.columns.items() if k in "in"] for a, s in ((one, left), (two, right))]
        if all(numbers) and self.rng.random() < 0.5:
            same += f" AND {self.rng.choice(numbers[0])} <= {self.rng.choice(numbers[1])}"
        of = [f"(SELECT * FROM {s.sql}) AS {a}" for a, s in ((one, left), (two, right))]
        if kind == ",":
            return Source(f"SELECT {', '.join(items)} FROM {of[0]}, {of[1]} WHERE {same}", columns, unit)
        return Source(f"SELECT {', '.join(items)} FROM {of[0]} {kind} JOIN {of[1]} ON {same}", columns, unit)

    def windowed(self, depth: int) -> Source:
        """Rows with a window over those of their unit, chosen by it at times; what ties is told by no order."""
        of, called, unit = self.below(depth), self.name(), self.name()
        number, key, total = self.numeric(of), self.rng.choice(list(of.columns)), ", ".join(of.columns)
        by, all_by = f"PARTITION BY {of.unit} ORDER BY {key}", f"PARTITION BY {of.unit} ORDER BY {total}"
        last = "ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING"
        function = self.rng.choice(["sum", "avg", "min", "max", "count"])
        forms = {
            f"{self.rng.choice(['rank', 'dense_rank'])}() OVER ({by} DESC)": "i",
            f"row_number() OVER ({all_by})": "i",
            f"ntile(3) OVER ({all_by})": "i",
            f"{self.rng.choice(['lag', 'lead', 'first_value'])}({number}) OVER ({all_by})": "n",
            f"{function}({number}) OVER ({self.rng.choice([by, f'PARTITION BY {of.unit}'])})": "n",
            f"{function}({number}) OVER ({all_by} {last})": "n",
        }
        form = self.rng.choice(list(forms))
        names = self.rng.sample(list(of.columns), min(2, len(of.columns)))
        chosen = f" QUALIFY row_number() OVER ({all_by}) <= 2" if self.rng.random() < 0.3 else ""
        items = ", ".join([f"{of.unit} AS {unit}", *names, f"{form} AS {called}"])
        where = f" WHERE {self.condition(of)}" if self.rng.random() < 0.3 else ""
        columns = {n: of.columns[n] for n in names} | {called: forms[form]}
        return Source(f"SELECT {items} FROM {of.sql}{where}{chosen}", columns, unit)

    def stacked(self, depth: int) -> Source:
        """Rows of two sources, one below the other; one of equal rows of a unit."""
        one, two, unit = self.below(depth), self.below(0), self.name()
        columns: dict[str, str] = {}
        items: list[list[str]] = [[f"{one.unit} AS {unit}"], [str(two.unit)]]
        for kinds in self.rng.sample(["in", "t", "b"], 2):
            names = [[n for n, k in s.columns.items() if k in kinds] for s in (one, two)]
            if all(names):
                called, picked = self.name(), [self.rng.choice(n) for n in names]
                columns[called] = "n" if "n" in kinds else kinds
                items[0].append(f"{picked[0]} AS {called}")
                items[1].append(picked[1])
        if not columns:
            columns[self.name()] = "n"
            items[0].append(f"3 AS {next(iter(columns))}")
            items[1].append("2.5")
        if self.rng.random() < 0.3:
            unit, items = None, [i[1:] for i in items]
        where = f" WHERE {self.condition(two)}" if self.rng.random() < 0.5 else ""
        word = self.rng.choice(["UNION ALL", "UNION ALL", "UNION"]) if unit else "UNION ALL"
        left = f"SELECT {', '.join(items[0])} FROM {one.sql}"
        return Source(f"{left} {word} SELECT {', '.join(items[1])} FROM {two.sql}{where}", columns, unit)

    def matched(self, depth: int) -> Source:
        """Rows whose unit has, or has not, something elsewhere."""
        of, other, called, inner = self.below(depth), self.base(), self.name(), self.name()
        no = self.rng.choice(["", "NOT "])
        where = f" AND {self.condition(replace(other, columns={f'{inner}.{n}': k for n, k in other.columns.items()}))}"
        test = self.rng.choice(
            [
                f"{no}EXISTS (SELECT 1 FROM {other.sql} AS {inner} WHERE {inner}.pid = {called}.{of.unit}{where})",
                f"{called}.{of.unit} {no}IN (SELECT pid FROM {other.sql} AS {inner} WHERE TRUE{where})",
            ]
        )
        here = [f"{called}.{n}" for n, k in of.columns.items() if k in "in"]
        if here and self.rng.random() < 0.4:  # pairs
            number, there = self.rng.choice(here), self.rng.choice([n for n, k in other.columns.items() if k in "in"])
            listed = f"FROM {other.sql} AS {inner} WHERE {inner}.pid = {called}.{of.unit}{where}"
            pair = f"({number}, {called}.{of.unit}) {no}IN (SELECT {there}, pid FROM {other.sql} AS {inner})"
            test = self.rng.choice([pair, f"{number} {no}IN (SELECT {inner}.{there} {listed})"])
        return self.chosen(of, called, test)

    def chosen(self, of: Source, called: str, test: str) -> Source:
        """Rows that a test leaves, or that it leaves among others; or all, with a column that tells what it is."""
        unit, told, shape = self.name(), self.name(), self.rng.choice(["top", "top", "or", "unknown", "column"])
        columns = dict(of.columns)
        items = [f"{called}.{of.unit} AS {unit}", *(f"{called}.{n}" for n in of.columns)]
        own = replace(of, columns={f"{called}.{n}": k for n, k in of.columns.items()})
        forms = {"or": f"{self.condition(own)} OR {test}", "unknown": f"({test}) IS NULL OR NOT ({test})"}
        if shape == "column":
            items.append(f"{test} AS {told}")
            columns[told] = "b"
        where = "" if shape == "column" else f" WHERE {forms.get(shape, test)}"
        return Source(f"SELECT {', '.join(items)} FROM (SELECT * FROM {of.sql}) AS {called}{where}", columns, unit)

    def with_public(self, depth: int) -> Source:
        """A join with a public table, on either side, on equality or not."""
        of, name, one, two = self.below(depth), self.rng.choice(list(PUBLIC)), self.name(), self.name()
        theirs = {"days": {"day": "i", "label": "t", "rate": "n"}, "depts": {"dept": "t", "site": "i", "open": "b"}}
        columns: dict[str, str] = {}
        unit = self.name()
        items = [f"{one}.{of.unit} AS {unit}"]
        for alias, kinds in ((one, of.columns), (two, theirs[name])):
            for picked in self.rng.sample(list(kinds), min(2, len(kinds))):
                called = self.name()
                columns[called] = kinds[picked]
                items.append(f"{alias}.{picked} AS {called}")
        numbers = [n for n, k in of.columns.items() if k in "in"]
        texts = [n for n, k in of.columns.items() if k == "t"]
        number, text = {"days": ("day", "label"), "depts": ("site", "dept")}[name]
        forms = [f"{two}.{number} = 1"]
        forms += [f"{one}.{n} = {two}.{number}" for n in numbers] * 3
        forms += [f"{one}.{n} >= {two}.{number} AND {two}.{number} > 1" for n in numbers]
        forms += [f"{two}.{text} = {one}.{n}" for n in texts] * 3
        on = self.rng.choice(forms)
        more = replace(of, columns={f"{one}.{n}": k for n, k in of.columns.items()})
        on += f" AND {self.condition(more)}" if self.rng.random() < 0.3 else ""
        own = f"(SELECT * FROM {of.sql}) AS {one}"
        shape = self.rng.choice(["JOIN", "LEFT JOIN", ",", "first", "RIGHT"])
        other = self.rng.choice([f"{name} AS {two}", written_out(name, two)])
        rows = {
            ",": f"{own}, {other} WHERE {on}",
            "first": f"{other} JOIN {own} ON {on}",
            "RIGHT": f"{other} RIGHT JOIN {own} ON {on}",
        }.get(shape, f"{own} {shape} {other} ON {on}")
        return Source(f"SELECT {', '.join(items)} FROM {rows}", columns, unit)

    def tested(self, depth: int) -> Source:
        """Rows that have, or have not, something in a public table."""
        of, called, inner = self.below(depth), self.name(), self.name()
        no = self.rng.choice(["", "NOT "])
        numbers = [f"{called}.{n}" for n, k in of.columns.items() if k in "in"]
        texts = [f"{called}.{n}" for n, k in of.columns.items() if k == "t"]
        tests = [f"{no}EXISTS (SELECT 1 FROM days AS {inner} WHERE {inner}.day = 3 AND {inner}.label IS NULL)"]
        for n in numbers:
            tests.append(f"{no}EXISTS (SELECT 1 FROM days AS {inner} WHERE {inner}.day = {n} AND {inner}.rate < 1)")
            tests.append(f"{n} {no}IN (SELECT day FROM days{self.rng.choice(['', ' WHERE day > 2'])})")
            tests.append(f"{no}EXISTS (SELECT 1 FROM depts AS {inner} WHERE {inner}.site > {n})")
            tests.append(f"{no}EXISTS (SELECT 1 FROM {written_out('depts', inner)} WHERE {inner}.site > {n})")
            tests.append(f"{n} {no}IN ({self.rng.choice(['VALUES (1), (NULL)', 'SELECT 1 UNION ALL SELECT 2.5'])})")
        tests += [f"{n} {no}IN (SELECT dept FROM depts WHERE site = 2)" for n in texts]
        return self.chosen(of, called, self.rng.choice(tests))

    def numeric(self, of: Source) -> str:
        """A number with bounds."""
        names = [n for n, k in of.columns.items() if k in "in"]
        if not names:
            flags = [n for n, k in of.columns.items() if k == "b"]
            return f"CASE WHEN {flags[0]} THEN 2 ELSE 1 END" if flags else "3"
        a, b = self.rng.choice(names), self.rng.choice(names)
        forms = [a, a, f"{a} + 1", f"{a} * 2", f"abs({a})", f"{a} - {b}", f"least({a}, 3)", f"coalesce({a}, 0)"]
        return self.rng.choice([*forms, f"CASE WHEN {self.condition(of)} THEN {a} ELSE {b} END"])

    def condition(self, of: Source) -> str:
        """A condition on the columns of a source."""
        name, kind = self.rng.choice(list(of.columns.items()))
        if kind == "b":
            found = name
        elif kind == "t":
            found = self.rng.choice([f"{name} = 'a'", f"{name} IN ('b', 'c')", f"{name} IS NULL"])
        else:
            found = self.rng.choice([f"{name} > 1", f"{name} <= 2.5", f"{name} IS NOT NULL", f"{name} BETWEEN 0 AND 4"])
        shape = self.rng.random()
        if shape < 0.15:
            return f"NOT ({found})"
        return f"({found} OR {self.condition(of)})" if shape < 0.3 else found


# ---- what DuckDB answers


def difference(con: duckdb.DuckDBPyConnection, text: str, known: Mapping[str, Table], data: Data) -> str | None:
    """How the exact answer differs from DuckDB's own answer to the text, or None. Bounds must be wide."""
    load_reference(con, data)
    return differs(con, text, plan_of(text, known))


def load_reference(con: duckdb.DuckDBPyConnection, data: Data) -> None:
    """Create the base tables, and the rows that count as an analyst's text names them in a schema of their own."""
    load_data(con, data)
    for name in COLUMNS:
        con.execute(f"CREATE OR REPLACE VIEW reference.{name} AS FROM memory.main.{name} WHERE pid IS NOT NULL")
    for name in PUBLIC:
        con.execute(f"CREATE OR REPLACE VIEW reference.{name} AS FROM memory.main.{name}")


def differs(con: duckdb.DuckDBPyConnection, text: str, plan: Plan) -> str | None:
    """How a plan's exact answer differs from DuckDB's own answer to the text over what is loaded, or None."""
    columns = exact_answer(plan, con)
    width = len(plan.query.keys)
    found = {
        tuple(c.values[i] for c in columns[:width]): tuple(c.values[i] for c in columns[width:])
        for i in range(len(columns[0].values))
    }
    con.execute("SET schema = 'reference'")
    try:
        rows = con.execute(text).fetchall()
    finally:
        con.execute("SET schema = 'main'")
    own = {tuple(row[:width]): tuple(row[width:]) for row in rows}
    grids = [2.0**-m.bits for m in plan.measures if m.kind in ("sum", "cells") and m.bits > 0]  # of 0: counts
    room = max(1e-5, ROUNDED * max(grids, default=0.0))
    zero = [0 if "count" in o.name else None for o in plan.query.outputs[width:]]
    for key in found.keys() | own.keys():
        if any(v is None for v in key) and key not in found:
            continue  # a note says that rows without a key are left out
        given, wanted = found.get(key), own.get(key, tuple(zero))
        if given is None or not all(_alike(g, w, room) for g, w in zip(given, wanted, strict=True)):
            return f"{text}: {key}: {given} for {wanted}"
    return None


ROUNDED = 16  # rows of small tables, each of them off by half a step of a sum's grid at most


def _alike(given: Any, wanted: Any, room: float) -> bool:
    if given is None or wanted is None:
        return (given or 0) == (wanted or 0)  # a sum of nothing is 0 where it is released
    return math.isclose(float(given), float(wanted), rel_tol=1e-9, abs_tol=room)  # sums are of a grid

"""Statements of the newest forms, for the oracles of tests/relational.py: what is written short.

``DISTINCT ON``, pairs of a unit and a value, series beside rows, INTERSECT and EXCEPT of units, subqueries that give
one value of the unit's rows, names of SELECT in WHERE, combinations of keys that no row can have, different values of
a short list.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from duckdp.catalog.table import Table
from duckdp.compiler.in_any_form import read_in_any_form
from duckdp.compiler.parse import parse_statement
from duckdp.compiler.plan import Plan, make_plan
from duckdp.compiler.select import read_select
from duckdp.core.types import Neighbours, parse_delta, parse_epsilon
from tests.relational import COLUMNS, Source, Statements

EPSILON = 100  # at which hardly a value of a short list is hidden by noise
SERIES = {
    "range(5)": "i",
    "range(1, 9, 2)": "i",
    "generate_series(0, 9, 3)": "i",
    "generate_series(9, -2, -4)": "i",
    "unnest([1, 1, NULL, 7])": "i",
    "unnest(['a', 'c', 'c'])": "t",
}


def short_plan(text: str, known: Mapping[str, Table], epsilon: int = EPSILON) -> Plan:
    """Text to plan, in plain forms where it has no rule as it stands."""
    return make_plan(
        read_in_any_form(read_select, parse_statement(text), known, text),
        epsilon_nano=parse_epsilon(epsilon),
        delta_atto=parse_delta("1e-8"),
        neighbours=Neighbours.ADD_REMOVE,
        mechanism="laplace",
    )


@dataclass
class Newest(Statements):
    """Random statements that the gate accepts, each with one of the newest forms."""

    def statement(self) -> str:
        """A question over a source that one of the forms makes."""
        self.ctes, self.number = [], 0
        makes = [
            self.first_rows,
            self.pairs,
            self.sets,
            self.valued,
            self.valued,
            self.in_series,
            self.in_series,
            self.plain,
        ]
        source = self.rng.choice(makes)(self.rng.choice([0, 0, 1]))
        source = replace(source, sql=f"({source.sql}) AS {self.name()}")
        keys = [self.key(source) for _ in range(self.rng.choice([0, 0, 1, 2, 2]))]
        named = [(k, self.name()) for k in dict.fromkeys(k for k in keys if k)]
        measures = ["count(*)", *(f"{f}({self.numeric(source)})" for f in self.rng.sample(["sum", "avg", "count"], 2))]
        measures += [f"count(DISTINCT {self.key(source) or 3})"] if self.rng.random() < 0.4 else []
        if source.unit:
            measures.append(f"count(DISTINCT {source.unit})")
        picked = self.rng.sample(measures, self.rng.randint(1, min(3, len(measures))))
        where = f" WHERE {self.where(source, named)}" if self.rng.random() < 0.6 else ""
        items = ", ".join([*(f"{k} AS {n}" for k, n in named), *picked])
        by = f" GROUP BY {', '.join(n for _, n in named)}" if named else ""
        head = f"WITH {', '.join(self.ctes)} " if self.ctes else ""
        return f"{head}SELECT {items} FROM {source.sql}{where}{by}"

    def key(self, of: Source) -> str:
        """What rows are grouped by, of one column or two."""
        whole = [n for n, k in of.columns.items() if k == "i"]
        plain = [n for n, k in of.columns.items() if k in "ibt"]
        forms = [*plain, *(f"{n} % 3" for n in whole), *(f"{n} // 4" for n in whole), *(f"{n} > 3" for n in whole)]
        forms += [f"CASE WHEN {n} > 5 THEN 'high' WHEN {n} > 2 THEN 'low' END" for n in whole]
        forms += [f"{a} < {b}" for a in whole for b in whole if a != b]
        forms += [f"isodow({n})" for n, k in of.columns.items() if k == "d"]
        forms += [f"month({n})" for n, k in of.columns.items() if k == "d"]
        return self.rng.choice(forms) if forms else ""

    def where(self, of: Source, named: list[tuple[str, str]]) -> str:
        """A condition, with a name of SELECT at times, or one that ties two columns."""
        whole = [n for n, k in of.columns.items() if k == "i"]
        forms = [self.condition(of)]
        forms += [f"{name} IS NOT NULL" for _, name in named]
        forms += [f"{a} <= {b}" for a in whole for b in whole if a != b]
        return " AND ".join(self.rng.sample(forms, self.rng.randint(1, min(2, len(forms)))))

    def plain(self, depth: int) -> Source:
        """A source without any of the forms, its day and date."""
        of = self.below(depth)
        columns = of.columns | ({'"at"': "d"} if of.sql == "visits" else {})
        items = ", ".join([*columns, f"{of.unit} AS u0"])
        return Source(f"SELECT {items} FROM {of.sql}", columns, "u0")

    def condition(self, of: Source) -> str:
        """A condition on the columns of a source that are no dates."""
        return super().condition(replace(of, columns={n: k for n, k in of.columns.items() if k != "d"} or {"3": "i"}))

    def first_rows(self, depth: int) -> Source:
        """One row of each unit, or of each of its groups: the first by an order that leaves no ties."""
        of, unit = self.below(depth), self.name()
        keys = [str(of.unit), *self.rng.sample(list(of.columns), self.rng.choice([0, 0, 1]))]
        order = [*keys, *(f"{n}{self.rng.choice(['', ' DESC', ' NULLS FIRST'])}" for n in of.columns if n not in keys)]
        names = self.rng.sample(list(of.columns), min(len(of.columns), 3))
        where = f" WHERE {self.condition(of)}" if self.rng.random() < 0.4 else ""
        items, kinds = [*names, f"{of.unit} AS {unit}"], {n: of.columns[n] for n in names}
        whole = [n for n in names if of.columns[n] == "i"]
        if whole and self.rng.random() < 0.5:  # a name of SELECT that a column has too, or a place, before the others
            items[names.index(whole[0])] = f"3 - {whole[0]} AS {whole[0]}"
            order.insert(len(keys), self.rng.choice([whole[0], f"{names.index(whole[0]) + 1} DESC", f"{whole[0]} + 1"]))
        text = f"SELECT DISTINCT ON ({', '.join(keys)}) {', '.join(items)} FROM {of.sql}{where}"
        return Source(f"{text} ORDER BY {', '.join(order)}", kinds, unit)

    def pairs(self, depth: int) -> Source:
        """Rows of which the unit and a number are, or are not, among pairs of a table's groups."""
        of, name, unit = self.below(depth), self.rng.choice(list(COLUMNS)), self.name()
        other = self.base_of(name)
        numbers = [n for n, k in of.columns.items() if k in "in"] or ["1"]
        where = f" WHERE {self.condition(other)}" if self.rng.random() < 0.5 else ""
        pair = f"SELECT (pid, {self.rng.choice(['min', 'max'])}({self.numeric(other)})) FROM {name}{where} GROUP BY pid"
        test = f"({of.unit}, {self.rng.choice(numbers)}) {self.rng.choice(['', 'NOT '])}IN ({pair})"
        names = self.rng.sample(list(of.columns), min(len(of.columns), 2))
        items = ", ".join([f"{of.unit} AS {unit}", *names])
        return Source(f"SELECT {items} FROM {of.sql} WHERE {test}", {n: of.columns[n] for n in names}, unit)

    def sets(self, depth: int) -> Source:
        """Units that are in one source and in another, or are not."""
        one, two, unit = self.below(depth), self.below(0), self.name()
        sides = []
        for of in (one, two):
            where = f" WHERE {self.condition(of)}" if self.rng.random() < 0.6 else ""
            sides.append(f"SELECT {of.unit} AS {unit} FROM {of.sql}{where}")
        return Source(self.rng.choice([" INTERSECT ", " EXCEPT "]).join(sides), {}, unit)

    def valued(self, depth: int) -> Source:
        """Rows with a value of the unit's rows of a table, shown or compared."""
        of, name = self.below(depth), self.rng.choice(list(COLUMNS))
        called, inner, unit, told = self.name(), self.name(), self.name(), self.name()
        other = Source(name, {f"{inner}.{n}": k for n, k in self.base_of(name).columns.items()}, f"{inner}.pid")
        function = self.rng.choice(["sum", "avg", "min", "max", "count", "count"])
        figure = self.rng.choice(["count(*)", f"{function}({self.numeric(other)})"])
        figure += f" FILTER (WHERE {self.condition(other)})" if self.rng.random() < 0.2 else ""
        ties = [f"{inner}.pid = {called}.{of.unit}", f"{called}.{of.unit} = {inner}.pid"]
        where = self.rng.choice(ties) + (f" AND {self.condition(other)}" if self.rng.random() < 0.6 else "")
        value = f"(SELECT {figure} FROM {name} AS {inner} WHERE {where})"
        names = self.rng.sample(list(of.columns), min(len(of.columns), 2))
        items = [f"{called}.{of.unit} AS {unit}", *(f"{called}.{n}" for n in names)]
        columns = {n: of.columns[n] for n in names}
        whole = "count" in figure
        test = ""
        if self.rng.random() < 0.5:
            test = f" WHERE {value} {self.rng.choice(['= 0', '> 1', 'IS NULL', '<= 2.5'])}"
        if not test or self.rng.random() < 0.3:
            items.append(f"{value} AS {told}")
            columns[told] = "i" if whole else "n"
        rows = f"(SELECT * FROM {of.sql}) AS {called}"
        return Source(f"SELECT {', '.join(items)} FROM {rows}{test}", columns, unit)

    def in_series(self, depth: int) -> Source:
        """Rows with a series or list beside them, on either side."""
        of = self.below(depth)
        series = self.rng.choice(list(SERIES))
        kind, one, two, unit, number = SERIES[series], self.name(), self.name(), self.name(), self.name()
        names = [n for n, k in of.columns.items() if (k in "in" if kind == "i" else k == "t")]
        forms = [f"{two}.{number} IS NOT NULL"]
        forms += [f"{one}.{n} = {two}.{number}" for n in names] * 3
        forms += [f"{one}.{n} >= {two}.{number}" for n in names]
        rows, listed = f"(SELECT * FROM {of.sql}) AS {one}", f"{series} AS {two}({number})"
        on = self.rng.choice(forms)
        shape = self.rng.choice([f"{rows} JOIN {listed} ON {on}", f"{listed} JOIN {rows} ON {on}"])
        shape = self.rng.choice([shape, f"{rows} LEFT JOIN {listed} ON {on}", f"{rows}, {listed} WHERE {on}"])
        picked = self.rng.sample(list(of.columns), min(len(of.columns), 2))
        items = [f"{one}.{of.unit} AS {unit}", *(f"{one}.{n}" for n in picked), f"{two}.{number}"]
        columns = {n: of.columns[n] for n in picked} | {number: kind}
        return Source(f"SELECT {', '.join(items)} FROM {shape}", columns, unit)

    def base_of(self, name: str) -> Source:
        """A table as a source."""
        found = self.base()
        while found.sql != name:
            found = self.base()
        return found

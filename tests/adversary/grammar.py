"""Random statements of a wide grammar of SQL, most of which the gate must refuse: what it says, and what it lets pass.

A statement is one of the tables of tests/relational.py. In some a *poison* stands where private rows are read: a part
of SQL for which the gate has no rule. Such a statement must be refused, whatever else it says.
"""

from __future__ import annotations

import random
import time
import traceback
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache

import duckdb

from duckdp.catalog.table import Table
from duckdp.compiler.emit import emit
from duckdp.compiler.in_any_form import read_in_any_form
from duckdp.compiler.outer.apart import Apart
from duckdp.compiler.outer.outer_bars import with_bars
from duckdp.compiler.outer.outer_text import printed_outer
from duckdp.compiler.outer.several import plan_parts
from duckdp.compiler.outer.whole import read_whole
from duckdp.compiler.parse import parse_statement
from duckdp.compiler.plain_forms import plain_forms
from duckdp.compiler.plan import Plan
from duckdp.compiler.pricing import Terms
from duckdp.core.types import Neighbours
from duckdp.errors import DuckDPError
from tests.adversary.newest import newest

SECONDS = 10.0  # that reading one statement may take, on a busy machine
COLUMNS = [
    "day",
    "cost",
    "score",
    "dept",
    "paid",
    "at",
    "level",
    "ok",
    "label",
    "rate",
    "site",
    "open",
    "v.cost",
]
TABLES = ["visits", "visits", "labs", "days", "depts", "visits v", "labs AS l", "main.visits", "nothing", "a", "b"]
#: Parts of SQL for which there is no rule where private rows are; {} is another expression.
POISON = [
    "nosuch({})",
    "random()",
    "getvariable('x')",
    "nextval('s')",
    "error('x')",
    "current_setting('threads')",
    "[{}]",
    "{{'a': {}}}",
    "list_transform([1], lambda y: y)",
    "MAP {{'a': {}}}",
    "rowid",
    "TRY({})",
    "({})[1]",
    "$9",
    "sum({}) OVER ()",
    "row_number() OVER (ORDER BY {})",
    "unnest([1, 2])",
    "uuid()",
    "txid_current()",
    "GROUPING({})",
    "current_user",
    "CAST({} AS BLOB)",
    "CAST({} AS JSON)",
    "CAST({} AS INTEGER[])",
    "getenv('HOME')",
    "(SELECT cost FROM visits)",
    "(SELECT max(cost) FROM visits)",
    "pid + 1",
    "{} COLLATE NOCASE",
    "list_value({})",
    "repeat('a', 1000000000)",
    "range(1000)",
    "any_value({}) OVER ()",
    "dp_noisy_count('visits')",
    "query('SELECT 1')",
    "version()",
    "pi_secret",
    "visits",
    "COLUMNS('c.*')",
    "struct_pack(a := {})",
    "stats({})",
    "json_extract('{{}}', '$.a')",
    "sha256(dept || pid)",
    "in_search_path('a', 'b')",
    "write_log('x')",
    "setseed(0.5)",
]
NEW = 0.5  # of statements without a poison: how many are of the newest forms
FUNCTIONS_TAKEN = 3  # arguments at most


@cache
def functions() -> tuple[str, ...]:
    """Every function of the installed DuckDB that has a plain name."""
    with duckdb.connect() as con:
        rows = con.execute("SELECT DISTINCT function_name FROM duckdb_functions() ORDER BY 1").fetchall()
    return tuple(name for (name,) in rows if name.isidentifier())


@dataclass
class Grammar:
    """Random statements.

    Attributes:
        rng: where choices come from.
        poisoned: whether the last statement holds a poison.
    """

    rng: random.Random
    poisoned: bool = False
    _depth: int = 0
    _poison: str | None = None

    def statement(self, *, poison: bool = False) -> str:
        """A statement; with a poison where rows of visits are read."""
        self._depth, self.poisoned = 0, poison
        if poison:
            return self._with_poison()
        if self.rng.random() < NEW:
            return newest(self.rng, {"e": self._simple, "c": self._plain_condition, "a": self._plain_aggregate})
        return self._maybe("WITH {} ", self._ctes, 0.2) + self._query()

    def _simple(self) -> str:
        return self._column() if self.rng.random() < 0.6 else self._expr(2)

    def _plain_condition(self) -> str:
        return self._condition(1 if self.rng.random() < 0.3 else 0)

    def _plain_aggregate(self) -> str:
        """Of a column mostly, so that more statements are answered."""
        if self.rng.random() < 0.3:
            return self._aggregate()
        name = self.rng.choice(["sum", "avg", "count", "min", "max", "median", "count(*)"])
        return name if "(" in name else f"{name}({self.rng.choice(['cost', 'day', 'score'])})"

    # ---- queries

    def _with_poison(self) -> str:
        inner = self.rng.choice(POISON).format(self._column())
        place = self.rng.randrange(14)
        text = {
            0: f"SELECT count(*) FROM visits WHERE {inner} IS NOT NULL",
            1: f"SELECT sum({inner}) FROM visits",
            2: f"SELECT dept, count(*) FROM visits WHERE coalesce({inner}, 1) = 1 GROUP BY dept",
            3: f"SELECT count(*) FROM visits WHERE paid OR CASE WHEN {inner} IS NULL THEN day > 1 ELSE paid END",
            4: f"SELECT avg(x) FROM (SELECT cost + ({inner}) AS x FROM visits WHERE day < 3)",
            5: f"SELECT count(*) FROM visits v JOIN labs l ON v.pid = l.pid AND {inner} = 1",
            6: f"SELECT count(*) FROM (SELECT DISTINCT ON (pid) pid, {inner} AS x FROM visits ORDER BY pid, at) "
            "WHERE x = 1",
            7: f"SELECT avg((SELECT max({inner}) FROM labs l WHERE l.pid = v.pid)) FROM visits v",
            8: f"PIVOT visits ON dept USING sum({inner}) GROUP BY paid",
            9: f"SELECT count(*) FROM (SELECT pid FROM visits WHERE {inner} = 1 INTERSECT SELECT pid FROM labs)",
            10: f"SELECT {inner} AS y, count(*) FROM visits WHERE y = 1 GROUP BY ALL",
            11: f"SELECT count(v.cost) FROM range(3) AS r(i) JOIN visits v ON v.day = r.i AND {inner} = 1",
            12: f"SELECT dept, count(DISTINCT {inner}), median({inner}) FROM visits GROUP BY dept",
            13: f"SELECT dept, count(*) FROM visits GROUP BY ROLLUP (dept, {inner})",
        }[place]
        shape = self.rng.randrange(4)
        if shape == 1:
            return f"WITH q AS ({text}) SELECT * FROM q"
        if shape == 2:
            return f"SELECT * FROM ({text}) AS t LIMIT 3"
        return text if shape else f"{text} ORDER BY 1"

    def _query(self) -> str:
        self._depth += 1
        try:
            text = self._select()
            if self._depth < 4 and self.rng.random() < 0.08:
                word = self.rng.choice(["UNION", "UNION ALL", "EXCEPT", "INTERSECT ALL", "UNION BY NAME"])
                text = f"{text} {word} {self._select()}"
            return text
        finally:
            self._depth -= 1

    def _ctes(self) -> str:
        name = self.rng.choice(["a", "b", "visits", "q"])
        word = self.rng.choice(["", "", "", "RECURSIVE ", ""])
        return f"{word}{name} AS {self.rng.choice(['', 'MATERIALIZED '])}({self._query()})"

    def _select(self) -> str:
        rng = self.rng
        keys = [self._expr(2) for _ in range(rng.choice([0, 0, 1, 1, 2]))]
        items = [*keys, *(self._output() for _ in range(rng.choice([1, 1, 2, 3])))]
        text = f"SELECT {rng.choice(['', '', '', 'DISTINCT ', 'ALL '])}{', '.join(items)} FROM {self._from()}"
        text += self._maybe(" WHERE {}", lambda: self._condition(3), 0.4)
        if keys and rng.random() < 0.9:
            by = rng.choice(
                [
                    ", ".join(keys),
                    "ALL",
                    "1",
                    f"ROLLUP ({keys[0]})",
                    f"CUBE ({keys[0]})",
                    f"GROUPING SETS (({keys[0]}), ())",
                ]
                + [", ".join(keys)] * 4
            )
            text += f" GROUP BY {by}"
        text += self._maybe(" HAVING {}", lambda: f"{self._aggregate()} > 1", 0.1)
        text += self._maybe(" QUALIFY {}", lambda: f"row_number() OVER (ORDER BY {self._expr(1)}) < 3", 0.05)
        text += self._maybe(" ORDER BY {}", lambda: rng.choice(["1", "ALL", self._expr(1) + " DESC NULLS LAST"]), 0.15)
        text += self._maybe(" LIMIT {}", lambda: rng.choice(["3", "0", "50%", "3 OFFSET 1", "(SELECT 1)"]), 0.1)
        return text + self._maybe(" USING SAMPLE {}", lambda: "10%", 0.02)

    def _from(self) -> str:
        rng = self.rng
        text = self._relation()
        while rng.random() < 0.3:
            kind = rng.choice(
                [
                    ",",
                    "JOIN",
                    "LEFT JOIN",
                    "FULL JOIN",
                    "SEMI JOIN",
                    "ANTI JOIN",
                    "CROSS JOIN",
                    "ASOF JOIN",
                    "NATURAL JOIN",
                    "POSITIONAL JOIN",
                    "RIGHT JOIN",
                    "JOIN",
                    "JOIN",
                ]
            )
            text += f" {kind} {self._relation()}"
            if kind not in (",", "CROSS JOIN", "NATURAL JOIN", "POSITIONAL JOIN"):
                on = rng.choice(
                    [
                        "USING (pid)",
                        "USING (day)",
                        "ON v.pid = l.pid",
                        f"ON {self._condition(2)}",
                        "ON v.pid = l.pid AND v.day < l.day",
                        "USING (dept)",
                    ]
                )
                text += f" {on}"
        return text

    def _relation(self) -> str:
        rng = self.rng
        if self._depth < 3 and rng.random() < 0.25:
            return f"({self._query()}) AS {rng.choice(['t', 'v', 'l', 'x(p, q)'])}"
        if rng.random() < 0.05:
            odd = [
                "range(3) AS r(day)",
                "(VALUES (1, 2)) AS t(day, cost)",
                "unnest([1, 2])",
                "read_csv('/etc/passwd')",
                "duckdb_tables()",
                "'/etc/passwd'",
                "visits TABLESAMPLE 10%",
                "dp_query('FROM visits')",
                "LATERAL (SELECT 1) AS q",
                "visits PIVOT (count(*) FOR dept IN ('a', 'b'))",
            ]
            return rng.choice(odd)
        return rng.choice(TABLES)

    # ---- expressions

    def _output(self) -> str:
        rng = self.rng
        shape = rng.random()
        if shape < 0.7:
            text = self._aggregate()
        elif shape < 0.8:
            text = f"{self._aggregate()} / {self._aggregate()}"
        elif shape < 0.85:
            text = rng.choice(["*", "* EXCLUDE (pid)", "COLUMNS(*)", "v.*", "* REPLACE (1 AS day)"])
        elif shape < 0.92:
            text = f"{self._windowed()} OVER {self._window()}"
        else:
            text = self._expr(2)
        return text + self._maybe(" AS {}", lambda: rng.choice(["n", "day", "pid", '"a b"']), 0.3)

    def _windowed(self) -> str:
        rng = self.rng
        if rng.random() < 0.6:
            return self._aggregate()
        name, nulls = rng.choice(["lag", "lead", "first_value", "rank", "ntile"]), rng.choice(["", " IGNORE NULLS"])
        return f"{name}({rng.choice([self._expr(1), '2'])}{nulls})"

    def _window(self) -> str:
        """A window of a name that may be given, or written out, with a frame at times."""
        rng = self.rng
        if rng.random() < 0.1:
            return rng.choice(["w", "(w ORDER BY day)", "(w)"])
        end = rng.choice(
            ["2 PRECEDING", "INTERVAL 3 DAY PRECEDING", "UNBOUNDED PRECEDING", f"{self._expr(1)} PRECEDING"]
        )
        frame = (
            f" {rng.choice(['ROWS', 'RANGE', 'GROUPS'])} BETWEEN {end} AND CURRENT ROW" if rng.random() < 0.3 else ""
        )
        return f"(PARTITION BY {rng.choice(['pid', self._expr(1)])} ORDER BY {self._expr(1)}{frame})"

    def _aggregate(self) -> str:
        rng = self.rng
        if rng.random() < 0.3:
            return rng.choice(["count(*)", "count(DISTINCT pid)", "count()", "count(DISTINCT day)"])
        name = rng.choice(
            [
                "sum",
                "avg",
                "count",
                "min",
                "max",
                "median",
                "mode",
                "stddev",
                "var_pop",
                "corr",
                "bool_or",
                "quantile_cont",
                "list",
                "string_agg",
                "first",
                "approx_count_distinct",
                "histogram",
                "sum",
                "avg",
                "arg_max",
                "regr_slope",
                rng.choice(functions()),
            ]
        )
        two = name in ("corr", "quantile_cont", "arg_max", "string_agg", "regr_slope")
        inner = self._expr(2) + (f", {rng.choice(['0.5', self._expr(1)])}" if two else "")
        text = f"{name}({rng.choice(['', '', '', '', 'DISTINCT '])}{inner})"
        return text + self._maybe(" FILTER (WHERE {})", lambda: self._condition(2), 0.15)

    def _column(self) -> str:
        return self.rng.choice(COLUMNS)

    def _literal(self) -> str:
        return self.rng.choice(
            [
                "1",
                "0",
                "-1",
                "2.5",
                "1e308",
                "NULL",
                "TRUE",
                "'a'",
                "'2024-02-01'",
                "DATE '2024-02-01'",
                "'%'",
                "''",
                "INTERVAL 1 DAY",
                "9223372036854775807",
                "0.1",
                "'nan'::DOUBLE",
                "$1",
                "?",
                "1e-320",
                "170141183460469231731",
                "TIMESTAMP '2024-01-01 00:00:00'",
                "'infinity'::DATE",
                "now()",
                "current_date",
                "x'ab'",
                "'\U0001f600'",
            ]
        )

    def _expr(self, depth: int) -> str:
        rng = self.rng
        if depth <= 0 or rng.random() < 0.35:
            return self._column() if rng.random() < 0.7 else self._literal()

        def below() -> str:
            return self._expr(depth - 1)

        makes: list[Callable[[], str]] = [
            lambda: f"{below()} {rng.choice(['+', '-', '*', '/', '//', '%', '||', '**', '&', '<<'])} {below()}",
            lambda: f"({below()})",
            lambda: f"CASE WHEN {self._condition(depth - 1)} THEN {below()} ELSE {below()} END",
            lambda: f"CASE {below()} WHEN {below()} THEN {below()} END",
            lambda: f"CAST({below()} AS {self._type()})",
            lambda: f"TRY_CAST({below()} AS {self._type()})",
            lambda: f"{below()}::{self._type()}",
            lambda: f"{rng.choice(functions())}({', '.join(below() for _ in range(rng.randint(0, FUNCTIONS_TAKEN)))})",
            lambda: (
                f"{rng.choice(['abs', 'floor', 'round', 'sqrt', 'ln', 'lower', 'length', 'year', 'exp'])}({below()})"
            ),
            lambda: (
                f"{rng.choice(['least', 'greatest', 'coalesce', 'nullif', 'date_diff', 'if'])}({below()}, {below()})"
            ),
            lambda: f"date_trunc('{rng.choice(['month', 'day', 'x'])}', {below()})",
            lambda: f"extract({rng.choice(['year', 'epoch', 'dow'])} FROM {below()})",
            lambda: f"-{below()}",
            lambda: self._condition(depth - 1),
        ]
        if self._depth < 3:
            makes.append(lambda: f"({self._query()})")
        return rng.choice(makes)()

    def _condition(self, depth: int) -> str:
        rng = self.rng
        if depth <= 0:
            return rng.choice(["paid", "ok", "day > 1", "dept = 'a'", "cost IS NULL"])
        one, two = self._expr(depth - 1), self._expr(depth - 1)
        forms = [
            f"{one} {rng.choice(['=', '<>', '<', '>=', 'IS DISTINCT FROM', '=='])} {two}",
            f"{one} IS NOT NULL",
            f"{one} BETWEEN {two} AND 3",
            f"{one} IN ({two}, 2)",
            f"{one} NOT IN ('a', 'b')",
            f"NOT ({one})",
            f"{one} LIKE {two}",
            f"{one} ILIKE 'a%'",
            f"{one} SIMILAR TO 'a'",
            f"({one}) AND ({two})",
            f"{one} OR {two}",
            f"regexp_matches({one}, 'a+')",
            f"{one} ^@ 'a'",
            f"{one} ~ 'a'",
        ]
        if self._depth < 3:
            forms += [f"EXISTS ({self._query()})", f"{one} IN ({self._query()})", f"{one} = ANY ({self._query()})"]
            forms += [f"(pid, {one}) IN (SELECT pid, {two} FROM labs)", f"({one}, {two}) NOT IN ({self._query()})"]
            forms += [f"EXISTS (SELECT 1 FROM labs AS o WHERE o.pid = {rng.choice(TABLES).split()[-1]}.pid AND {two})"]
        return rng.choice(forms)

    def _type(self) -> str:
        return self.rng.choice(
            [
                "INTEGER",
                "DOUBLE",
                "VARCHAR",
                "DATE",
                "BOOLEAN",
                "DECIMAL(9,2)",
                "BIGINT",
                "TIMESTAMP",
                "BLOB",
                "HUGEINT",
                "UTINYINT",
                "TIME",
                "INTERVAL",
                "JSON",
                "INTEGER[]",
                "STRUCT(a INTEGER)",
                "UUID",
                "nosuch",
                "FLOAT",
            ]
        )

    def _maybe(self, form: str, make: Callable[[], str], chance: float) -> str:
        return form.format(make()) if self.rng.random() < chance else ""


@dataclass
class Fuzzed:
    """What became of statements.

    Attributes:
        outcomes: how many were answered, or refused by each code.
        wrong: (what, statement) of each that does what none must.
    """

    outcomes: Counter[str] = field(default_factory=Counter)
    wrong: list[tuple[str, str]] = field(default_factory=list)


def plans_of(text: str, known: Mapping[str, Table], values: Sequence[object]) -> list[Plan]:
    """The plans of a statement.

    Raises:
        DuckDPError: it is refused.
    """
    statement = parse_statement(text)
    plain_forms(statement, known)  # of what has a rule as it stands, too
    found = read_in_any_form(read_whole, statement, known, text, values)
    terms = Terms(epsilon=1, delta="1e-6")
    prices = plan_parts(found.parts if isinstance(found, Apart) else [found], terms, Neighbours.ADD_REMOVE)
    if isinstance(found, Apart):
        printed_outer(with_bars(found.outer, [[True] * 64 for _ in found.parts]).outer)
    return [price.plan for price in prices]


def run(
    con: duckdb.DuckDBPyConnection, grammar: Grammar, known: Mapping[str, Table], until: Callable[[int], bool]
) -> Fuzzed:
    """Read statements; run the private part of those that are accepted.

    Args:
        con: with small tables of the world.
        grammar: makes statements.
        known: declared tables.
        until: of how many were read; whether to end.
    """
    found, done = Fuzzed(), 0
    while not until(done):
        done += 1
        text = grammar.statement(poison=done % 4 == 0)
        begun = time.process_time()
        try:
            plans = plans_of(text, known, [1])
        except DuckDPError as error:
            found.outcomes[error.code] += 1
            if error.code.startswith("X") or "\n\n\n" in str(error):
                found.wrong.append((error.code, text))
            continue
        except BaseException:  # noqa: BLE001 - what is looked for
            found.wrong.append((traceback.format_exc(), text))
            continue
        finally:
            if time.process_time() - begun > SECONDS:
                found.wrong.append(("slow", text))
        found.outcomes["answered"] += 1
        if grammar.poisoned:
            found.wrong.append(("no rule", text))
            continue
        for plan in plans:
            if plan.measures:
                try:
                    query = emit(plan, 7)
                    con.execute(query.sql, list(query.parameters)).fetchall()
                except Exception as error:  # noqa: BLE001 - as above
                    found.wrong.append((f"{type(error).__name__}: {str(error)[:200]}", text))
    return found

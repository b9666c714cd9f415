"""Ways out that refusals name: each is a form that works today. tests/compiler/test_messages.py runs them."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence

from sqlglot import exp

from duckdp.catalog.table import Kind
from duckdp.compiler.expression import Expr, Literal
from duckdp.compiler.parse import SPACED

_ANSWER = "SELECT avg(n) FROM dp_query($$SELECT key, count(*) AS n FROM ... GROUP BY key$$)."
SUBQUERY = (
    "this subquery over a protected table is outside the allow-list. Ask the inner question and go on with its answer: "
    f"{_ANSWER}"
)
NUMBER = (
    "a subquery that gives one value is a question of its own. Ask it first, and write its answer as a constant: "
    "WHERE age > 40. Of the rows of the same unit it is a window, in a subquery: avg(x) OVER (PARTITION BY unit)."
)
CHOOSING = (
    "this subquery may be of other people's rows, or stands where it has no form. Write unit IN (SELECT unit FROM b), "
    "(unit, x) IN (SELECT unit, y FROM b), EXISTS (SELECT 1 FROM b WHERE b.unit = a.unit AND ...) or x IN (SELECT y "
    "FROM a published table), in WHERE or in the SELECT of a subquery."
)
PIVOT = (
    "PIVOT of a protected table is outside the allow-list. Group in a subquery, and pivot its answer: "
    "SELECT * FROM (SELECT a, b, count(*) AS n FROM t GROUP BY ALL) PIVOT (sum(n) FOR b IN ('x', 'y'))."
)
NO_SELECT = {
    exp.Pivot: PIVOT,
    exp.Summarize: "SUMMARIZE would read all rows. DESCRIBE shows what is declared; ask "
    "SELECT count(*), avg(x), stddev(x), quantile_cont(x, [0.25, 0.5, 0.75]) FROM t.",
}
_ON_ANSWER = (
    "Use it on an answer: SELECT *, rank() OVER (ORDER BY n) FROM dp_query($$SELECT key, count(*) AS n FROM ... "
    "GROUP BY key$$)."
)
WINDOW = (
    "a window has no place here. Over the rows of each unit it stands in the SELECT or QUALIFY of a subquery, "
    f"partitioned by the unit. {_ON_ANSWER}"
)
WINDOW_OF_GROUPS = (
    "a subquery that groups the rows of each unit takes no windows. Put it into a subquery of its own, and the windows "
    "around it: SELECT ... OVER (...) FROM (SELECT ... GROUP BY unit, day)."
)
WINDOW_UNUSED = "WINDOW names a window that nothing here uses. Leave it out, or write OVER and its name."
WINDOW_OF_ROWS = f"each row is a unit of its own here, and a window looks at other rows. {_ON_ANSWER}"
QUALIFY = "QUALIFY chooses rows by a window, and there is none. Write WHERE."
LAST_VALUE = (
    "which row is the last, or n-th, up to the current one is not told where rows tie. Add ROWS BETWEEN UNBOUNDED "
    "PRECEDING AND UNBOUNDED FOLLOWING; or take first_value with ORDER BY ... DESC."
)
WINDOW_DISTINCT = (
    "count(DISTINCT ...) has no form as a window. Use GROUP BY the unit in a subquery, and join it on the unit."
)
WINDOW_DEFAULT = "lag and lead take a constant of the argument's kind as the third argument. Write lag(x, 1, 0)."
ONE_TABLE = "Ask one table at a time with FROM dp_query($$SELECT ...$$), and combine the answers"
RECURSIVE = "WITH RECURSIVE over a protected table is outside the allow-list. Write the CTE without itself."
INNER_LIMIT = (
    "LIMIT and OFFSET inside a subquery choose among the rows of many units. Ask without it, or use it on the answer: "
    "SELECT ... GROUP BY key ORDER BY 2 DESC LIMIT 10."
)
INNER_LIMIT_OTHERS = (
    'rows of the groups that LIMIT leaves out would be put together before they are asked. Switch "Group remaining as '
    "Others\" off, or put answers together: SELECT CASE WHEN place <= 5 THEN k ELSE 'Others' END AS k, sum(n) FROM "
    "(SELECT *, row_number() OVER (ORDER BY n DESC) AS place FROM (SELECT k, count(*) AS n FROM t GROUP BY k)) "
    "GROUP BY 1."
)
JOIN_METHOD = (
    "this kind of join is outside the allow-list. Use JOIN, LEFT, RIGHT, FULL, SEMI or ANTI JOIN, with the privacy "
    "unit in ON or USING."
)
USING = "USING takes columns that stand once on each side, in JOIN or LEFT JOIN. Write ON a.x = b.x AND ... instead."
EXISTS = (
    "EXISTS looks for rows. Write EXISTS (SELECT 1 FROM ... WHERE ...), without groups, aggregates, ORDER BY or LIMIT."
)
DISTINCT_OF = " Use count(DISTINCT x), or the aggregate of all rows."
INNER_DISTINCT = "DISTINCT here is outside the allow-list. Use GROUP BY with the same columns, the unit among them."
INNER_SETS = (
    "INTERSECT and EXCEPT of rows are outside the allow-list. Choose the rows that have, or have not, a match: "
    "WHERE EXISTS (SELECT 1 FROM b WHERE b.unit = a.unit AND ...), or NOT EXISTS."
)
UNION_PLAIN = "this form of UNION is outside the allow-list. Write UNION ALL, with the columns in the same order."
UNION_PUBLIC = (
    "rows of a public table are no one's, and stand in no UNION with private rows. Aggregate the private rows first: "
    "SELECT key, count(*) FROM protected GROUP BY key UNION ALL SELECT ... FROM public."
)
UNION_OF_ROWS = (
    "each row is a unit of its own here, and UNION ALL could give it twice. Ask one by one: "
    "SELECT count(*) FROM a UNION ALL SELECT count(*) FROM b."
)
UNION_UNIT = (
    "a column is the privacy unit in one branch of UNION ALL and a value in this one. Select the unit, or NULL, in the "
    "same place of each branch."
)
UNION_MIXED = (
    "this UNION puts private rows beside rows of another kind: an answer, constants, or a table of your own. Aggregate "
    "the private rows first, and write the UNION of answers."
)
UNION_ORDER = "ORDER BY of a UNION takes its columns. Leave it out: the order of rows is not kept."
PUBLIC_FIRST = (
    "a row of a public table would show whether somebody has, or has not, a matching row. Put the protected table "
    "first, FROM protected LEFT JOIN public ON ...; or group by the public column, whose values are all shown."
)
PUBLIC_FILLED = (
    "public LEFT JOIN protected keeps rows that are no one's. Group by columns of the public table in the same SELECT, "
    "or write protected JOIN public."
)
PUBLIC_COUNT = (
    "public LEFT JOIN protected counts a row even where there is none. Count a column of the protected table: "
    "count(v.x)."
)
PUBLIC_KEYS = (
    "public LEFT JOIN protected takes one key, a column of the public table, and no WHERE: conditions stand in ON."
)
PUBLIC_PAIR = "public tables are joined with the protected one, one after the other. Put the protected table first."
PUBLIC_EQUAL = "Say in the condition that a column of the public table equals something."
IN_PUBLIC = "IN takes a subquery that gives one column. Write x IN (SELECT y FROM public WHERE ...)."
NO_JOIN = "; or the data owner protects a table that holds the join."
JOIN_OF_ROWS = f"each row is a unit of its own here, and a join pairs rows. {ONE_TABLE}{NO_JOIN}"
MIXED = (
    "this stands in one FROM with private rows, and is none: an answer, or a table of your own. Aggregate the private "
    "rows in a subquery or CTE of their own, and join its answer."
)
CORRELATED = (
    "this SELECT over private rows names a column of the query around it: it would be asked for each row of that. "
    "Group the private rows by the column in a subquery in FROM, and join its answer."
)
HIDDEN = (
    "this CTE reads one whose name a later WITH gives to another, and would mean something else here. Give the CTEs "
    "different names."
)
ROWS = (
    "rows of a protected table are private, and this would show them. Aggregate them: SELECT key, count(*) FROM ... "
    "GROUP BY key."
)
KEYS_ALONE = (
    "the keys are public; add an aggregate such as count(*). How many different pairs rows have is "
    "SELECT count(DISTINCT concat(a, '-', b)) FROM t."
)
EACH_QUANTILE = (
    "a list of quantiles gives several columns, in a query over answers too. Write quantile_cont(x, 0.5) AS a, "
    "quantile_cont(x, 0.9) AS b."
)
ASKING = (
    "a query over private answers calls no dp function, query() or query_table(). Ask that by itself, keep its answer "
    "with CREATE TABLE ... AS, and read the table here."
)
SAMPLE = "sampling a protected table is outside the allow-list. Leave it out, and ask about all rows."
CLAUSES = {
    "sample": SAMPLE,
    "qualify": (
        "QUALIFY has no place in this SELECT. Write it in one of each unit's rows: SELECT avg(x) FROM "
        "(SELECT * FROM t QUALIFY row_number() OVER (PARTITION BY unit ORDER BY x) = 1). Of groups: HAVING n > 1."
    ),
    "windows": WINDOW,
    "pivots": PIVOT,
}
CLAUSE = "Write SELECT ... FROM ... WHERE ... GROUP BY ... HAVING ... ORDER BY ... LIMIT ... OFFSET."
DATES = "Use date_diff('day', x, y), a part such as year(x), or write the date out: DATE '2020-01-31'."
LASTED = "Write epoch(x - y) for its seconds, date_diff('minute', y, x), or x - y > INTERVAL 30 MINUTE."
INTERVAL = "Write x - INTERVAL 30 DAY, with x a date or timestamp."
BOUNDED = "The data owner declares first and last date with protect(bounds=...); or compare it with a date."
PASSED = "Write date_part('year', age(x, y)), or date_sub('year', y, x)."
TUPLE = "a tuple is outside the allow-list. Write it out: a > 1 OR (a = 1 AND b > 2)."
LEVELS = (
    "ROLLUP, CUBE and GROUPING SETS stand in a SELECT whose groups hold several units, not in one of each unit's rows, "
    "nor inside each other. Ask for each level with a GROUP BY of its own."
)
LEVELS_WINDOW = (
    "windows, QUALIFY and DISTINCT have no place beside ROLLUP, CUBE and GROUPING SETS. Put the groups into a "
    "subquery: SELECT *, rank() OVER (ORDER BY n) FROM (SELECT a, b, count(*) AS n FROM ... GROUP BY ROLLUP (a, b))."
)
LEVELS_UNIT = (
    "the privacy unit is no grouping set: each group would be one person. Leave it out, or group by it in a subquery."
)
LEVELS_GROUPING = (
    "grouping() takes what stands in a grouping set, as it stands there. Write grouping(a) beside ROLLUP (a, b)."
)
LEVELS_TWICE = "GROUP BY names a key in two ways here. Write it by its name, its alias or its position in all sets."
LEVELS_ORDER = (
    "ORDER BY takes outputs here, beside ROLLUP, CUBE and GROUPING SETS. Select it, and write ORDER BY 1, 2 DESC."
)
ALIAS = f"an alias has no place here. {SPACED}"
NO_RULE: dict[type[exp.Expression], str] = {
    exp.Interval: f"INTERVAL stands beside a date or timestamp. {INTERVAL}",
    exp.Tuple: TUPLE,
    exp.Alias: ALIAS,
    exp.Rollup: LEVELS,
    exp.Cube: LEVELS,
    exp.GroupingSets: LEVELS,
    exp.Between: "BETWEEN SYMMETRIC is outside the allow-list. Write the smaller end first: x BETWEEN 50 AND 60.",
    exp.SimilarTo: "SIMILAR TO is outside the allow-list. Use regexp_full_match(x, 'a.*').",
    exp.Bracket: "indexing is outside the allow-list. Take split_part(x, '-', 2), substring(x, 2, 1) or right(x, 1).",
    exp.Dot: "a name has at most a schema and a table before it. Write t.x, with the table's and the column's name.",
    exp.Any: "ANY is outside the allow-list. Use x IN (1, 2).",
}
NEEDED = {
    Kind.NUMBER: "Write a number.",
    Kind.BOOLEAN: "Write a comparison such as x = 1, or x IS NOT NULL.",
    Kind.TEXT: "Write a text in quotes: 'a'.",
    Kind.DATE: "Write a date: DATE '2020-01-31'.",
    Kind.TIMESTAMP: "Write a timestamp: TIMESTAMP '2020-01-31 12:00:00'.",
}
ORDERED = {
    "bounds": "needs the first and last date. The data owner declares them with protect(bounds=...).",
    "kind": "needs a number or a date. Take mode(x), or GROUP BY x with count(*).",
    "domain": (
        "would show a value that one person may be alone with. Ask for those that many have: "
        "GROUP BY x ORDER BY count(*) DESC LIMIT 1."
    ),
}
_NUMBER_OF = {
    Kind.TEXT: "Take length(x), TRY_CAST(x AS DOUBLE), or count(*) with x in GROUP BY or WHERE.",
    Kind.DATE: DATES,
    Kind.TIMESTAMP: DATES,
}
# Of a column where numbers alone are taken: what does the same for its kind.
INSTEAD_OF_NUMBERS = {
    Kind.TEXT: "Take mode(x), or GROUP BY x with count(*), in a SELECT.",
    Kind.BOOLEAN: "Take avg(CAST(x AS INTEGER)) in a SELECT.",
    Kind.DATE: "Take median(x), or GROUP BY date_trunc('month', x) with count(*), in a SELECT.",
    Kind.TIMESTAMP: "Take median(x), or GROUP BY date_trunc('month', x) with count(*), in a SELECT.",
}
_CASTS = {
    Kind.TEXT: "Write TRY_CAST(x AS INTEGER), NULL there, or AS DOUBLE, DATE or TIMESTAMP.",
    Kind.NUMBER: "Use the number itself, or CASE WHEN x > 1 THEN 'a' END.",
    Kind.BOOLEAN: "Use CASE WHEN x THEN 'a' END.",
}


def needed(kind: Kind, given: Kind) -> str:
    """What to write where a kind is needed and another was given."""
    return _NUMBER_OF.get(given, NEEDED[kind]) if kind is Kind.NUMBER else NEEDED[kind]


def no_cast(arg: Expr, target: exp.DType) -> str:
    """That a cast has no rule, and what to write in its place."""
    if target in (exp.DType.TIMESTAMPTZ, exp.DType.TIMESTAMPLTZ):
        text = arg.value if isinstance(arg, Literal) and isinstance(arg.value, str) else None
        way = "A column with a time zone is read as the TIMESTAMP of its instant in UTC: write it without the cast."
        return f"types with a time zone are outside the allow-list. {way if text is None else in_utc(text)}"
    if target in (exp.DType.TEXT, exp.DType.VARCHAR):
        return "the digits of a DOUBLE have no rule as a text. Write CAST(CAST(x AS INTEGER) AS VARCHAR)."
    return f"this cast of a {arg.kind.value} can fail on a row. {_CASTS.get(arg.kind, DATES)}"


def in_utc(text: str) -> str:
    """The instant of a text, as a TIMESTAMP in UTC: columns with a time zone are read so."""
    try:
        moment = dt.datetime.fromisoformat(text)
        if moment.tzinfo is not None:
            moment = moment.astimezone(dt.UTC).replace(tzinfo=None)
    except (ValueError, OverflowError):
        return NEEDED[Kind.TIMESTAMP]
    return f"Write the instant in UTC: TIMESTAMP '{moment.isoformat(sep=' ')}'."


def levels_many(most: int) -> str:
    """That a statement has too many grouping sets."""
    return f"at most {most} grouping sets share a charge: each is a release. Name those that you need: GROUPING SETS."


def window_units(unit: str | None) -> str:
    """That a window looks at rows of several units."""
    return (
        f"this window may look at rows of several units. Write OVER (PARTITION BY {unit} ORDER BY ...), with {unit} or "
        "among other columns; or aggregate first, and use the window on the answer."
    )


def window_form(unit: str | None) -> str:
    """That a window is written in a form without a rule."""
    return (
        "this form of a window is outside the allow-list. Write f(x) OVER "
        f"(PARTITION BY {unit} ORDER BY a, b DESC ROWS BETWEEN 2 PRECEDING AND CURRENT ROW), with numbers up to 1000. "
        "RANGE takes one number, or a date with INTERVAL 7 DAY, in ORDER BY; RANGE and GROUPS are for aggregates, "
        "first_value and last_value."
    )


def window_number(called: str, least: int, most: int) -> str:
    """That a window function takes a constant."""
    form = "ntile(4)" if called == "ntile" else f"{called}(x, 1)"
    return f"{called} takes a whole number from {least} to {most:,} here. Write {form}."


def window_of_unit(unit: str | None) -> str:
    """That a window function would give the unit as a value."""
    return f"{unit} names the privacy unit, and is the same in all rows of its window. Select {unit} itself."


def inner_groups(unit: str | None, *, distinct: bool) -> str:
    """That a subquery's rows would be of several units."""
    answer = f"Ask the inner question and go on with its answer: {_ANSWER}"
    if unit is None:
        return f"a subquery that groups rows of a protected table is a question of its own. {answer}"
    if distinct:
        return (
            f"DISTINCT inside a subquery needs the privacy unit. Write SELECT DISTINCT {unit}, x, or ask for x alone."
        )
    return (
        f"a subquery whose groups hold several units is a question of its own. Give each unit its row with "
        f"GROUP BY {unit}, or ask the inner question and go on with its answer: {_ANSWER}"
    )


def join_units(unit: str | None) -> str:
    """That a join might pair rows of two units."""
    return (
        f"this join may pair rows of two units. Write ON a.{unit} = b.{unit} (AND ... as you like), or USING ({unit}); "
        "else ask the data owner to protect a table that holds the join."
    )


def exists_units(unit: str | None) -> str:
    """That a subquery looks at rows of other units."""
    return (
        "EXISTS here may look at rows of other units. Write "
        f"EXISTS (SELECT 1 FROM b WHERE b.{unit} = a.{unit} AND ...), "
        f"or {unit} IN (SELECT {unit} FROM b WHERE ...)."
    )


def in_units(unit: str | None) -> str:
    """That a list of units has other columns."""
    return f"IN takes a subquery that gives the unit alone. Write {unit} IN (SELECT {unit} FROM b WHERE ...)."


def pairs_units(unit: str | None) -> str:
    """That a list of pairs may be of other units."""
    return (
        f"IN compares values with rows of other units here. Write ({unit}, x) IN (SELECT {unit}, y FROM b WHERE ...), "
        f"with {unit} in the same place on both sides."
    )


def public_repeats(name: str, times: int) -> str:
    """That a row which is a unit would count several times."""
    return (
        f'each row is a unit here, and {times:,} rows of public "{name}" may match one. Join on columns that name one '
        f"row of it, or choose rows with EXISTS or IN."
    )


def public_only(name: str) -> str:
    """That no protected table is asked about."""
    return f'"{name}" is public: there is nothing to protect. Join it with a protected table.'


def union_kinds(one: Kind, two: Kind) -> str:
    """That a column has two kinds."""
    return f"a column of this UNION is a {one.value} in one branch and a {two.value} here. {NEEDED[one]}"


def public_cells(sizes: str, most: int) -> str:
    """That public tables are too large to come to where answers are."""
    return (
        f"the outer part reads {sizes}, more than {most:,} values. Name fewer of their columns, join them with private "
        "rows in a SELECT of their own, or ask the data owner to publish a view of fewer columns."
    )


def join_types(unit: str, one: str, two: str) -> str:
    """That units of two types are not compared."""
    return (
        f"{unit} has type {one} here and {two} there; keys are compared as they are. Ask the data owner to ALTER one."
    )


def inner_aggregate(called: str) -> str:
    """That an aggregate of a unit's rows has no rule."""
    if called in ("arg_max", "arg_min", "max_by", "min_by", "argmax", "argmin", "first", "last"):
        way = "SELECT DISTINCT ON (unit) unit, x FROM t ORDER BY unit, y DESC gives x of the row with the greatest y"
        return f"{called} has no form inside a subquery. {way}."
    return f"{called} has no form inside a subquery. Take count, sum, avg, min, max, median, bool_and or bool_or."


def not_a(kind: Kind, given: Kind) -> str:
    """That a kind is needed and another was given."""
    return f"needs a {kind.value}, not a {given.value}. {needed(kind, given)}"


def position(clause: str, index: int, count: int) -> str:
    """That an output of that place does not exist."""
    return f"{clause} position {index} does not exist. Write " + ("1." if count == 1 else f"one from 1 to {count}.")


def call(name: str, count: int) -> str:
    """A call with so many arguments."""
    return f"Write {name}({', '.join('xyzuvw'[:count])})."


def names(known: Sequence[str]) -> str:
    """The tables that there are."""
    return "Use " + ", ".join(f'"{n}"' for n in known[:20]) + "." if known else "Ask the data owner to protect one."

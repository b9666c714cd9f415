"""How an answer crosses into an analyst's DuckDB: columns as Arrow arrays, or, of few cells, all at once as texts.

Either way it is a SELECT that stands for the call, with the token of the call in it. Every function of Python that
DuckDB calls costs a fifth of a millisecond: a column each, and one more that says whether there is an answer at all.
Few cells come by one such function, as a list of rows, the first of which holds the refusal, if any; a text is cast to
a number that is the very one that was printed.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Sequence
from typing import Any

from duckdp.catalog.table import plain_type
from duckdp.compiler.printing import quote

#: Cells that cross as texts: above, a column by itself is faster.
FEW_CELLS = 1_000
#: Which fetch function a type crosses by; dates and the rest cross as text. The returned SELECT casts to the type.
FETCH = {"DOUBLE": "__dp_f64", "FLOAT": "__dp_f64", "BOOLEAN": "__dp_bool"} | dict.fromkeys(
    ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER"), "__dp_i64"
)
TEXT_FETCH = "__dp_text"
#: How a text of few cells is read where no DuckDB casts it; other types cross by DuckDB alone.
_WHOLE = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT", "UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT")
READ: dict[str, Callable[[str], Any]] = {
    **dict.fromkeys(_WHOLE, int),
    "DOUBLE": float,
    "BOOLEAN": lambda text: text == "True",
    "VARCHAR": str,
    "DATE": lambda text: dt.date.fromisoformat(text[:10]),
    "TIMESTAMP": dt.datetime.fromisoformat,
}
LIST_TYPES = {"__dp_f64": "DOUBLE[]", "__dp_i64": "BIGINT[]", "__dp_bool": "BOOLEAN[]", TEXT_FETCH: "VARCHAR[]"}
Rows = list[list[str | None]]


class Crossing:
    """One column of an answer, ready to cross.

    Args:
        kind: its DuckDB type.
        values: in order.

    Attributes:
        function: the fetch function that its type crosses by.
    """

    def __init__(self, kind: str, values: Sequence[Any]) -> None:
        self.function = FETCH.get(kind, TEXT_FETCH)
        self._values = values
        self._array: Any = None

    def __len__(self) -> int:
        return len(self._values)

    def array(self) -> Any:
        """All of it as an Arrow array."""
        import pyarrow as pa

        if self._array is None:
            values = self.texts() if self.function == TEXT_FETCH else self._values
            self._array = pa.array(values, arrow_type(self.function))
        return self._array

    def texts(self) -> list[str | None]:
        """All of it as texts that DuckDB casts to the same values."""
        return [None if v is None else v.isoformat() if isinstance(v, dt.date) else str(v) for v in self._values]


Answer = list[Crossing]


def arrow_type(function: str) -> Any:
    """The Arrow type of what a fetch function gives, of one row."""
    import pyarrow as pa

    types = {"__dp_f64": pa.float64(), "__dp_i64": pa.int64(), "__dp_bool": pa.bool_(), TEXT_FETCH: pa.string()}
    return types[function]


def rows_of(answer: Answer) -> Rows:
    """An answer as rows of texts, after the one that says that there is no refusal."""
    return [[None], *map(list, zip(*(column.texts() for column in answer), strict=True))]


def are_few(rows: int | None, columns: int) -> bool:
    """Whether an answer of at most so many rows (None: any number) crosses as texts."""
    return rows is not None and rows * columns <= FEW_CELLS


def cross_plainly(rows: int | None, columns: Sequence[tuple[str, str]]) -> bool:
    """Whether an answer of at most so many rows can be read from its texts without DuckDB (:data:`READ`)."""
    names = {name.lower() for name, _ in columns}
    return (
        are_few(rows, len(columns))
        and len(names) == len(columns)
        and all(plain_type(kind) in READ for _, kind in columns)
    )


def read_rows(columns: Sequence[tuple[str, str]], rows: Rows) -> list[tuple[Any, ...]]:
    """Values of rows of texts, the same that DuckDB casts them to.

    >>> read_rows([("n", "BIGINT"), ("day", "DATE")], [["12", "2024-02-29"], [None, None]])
    [(12, datetime.date(2024, 2, 29)), (None, None)]
    """
    read = [READ[plain_type(kind)] for _, kind in columns]
    return [tuple(None if v is None else r(v) for r, v in zip(read, row, strict=True)) for row in rows]


def select_rows(token: str, columns: Sequence[tuple[str, str]]) -> str:
    """The SELECT of an answer of few cells."""
    items = [f"r[{i}]::{plain_type(kind)} AS {quote(name)}" for i, (name, kind) in enumerate(columns, 1)]
    refusal = "CAST(system.main.error(asked.a[1][1]) AS VARCHAR[][])"
    return (
        f"SELECT {', '.join(items)} FROM (SELECT unnest(CASE WHEN asked.a[1][1] IS NULL THEN asked.a[2:] "
        f"ELSE {refusal} END) AS r FROM (SELECT __dp_rows('{token}') AS a) AS asked)"
    )


def select_parts(token: str, parts: Sequence[Sequence[tuple[str, str]]]) -> list[str]:
    """The SELECT of each table of an answer in several."""
    starts = [sum(map(len, parts[:i])) for i in range(len(parts))]
    return [select_columns(token, part, start) for part, start in zip(parts, starts, strict=True)]


def select_columns(token: str, columns: Sequence[tuple[str, str]], start: int = 0) -> str:
    """The SELECT of an answer of any size, or of columns of it from a place on."""
    items = [
        f"CAST(unnest({FETCH.get(kind, TEXT_FETCH)}('{token}', {i})) AS {plain_type(kind)}) AS {quote(name)}"
        for i, (name, kind) in enumerate(columns, start)
    ]
    return (
        f"SELECT {', '.join(items)} FROM (SELECT __dp_ask('{token}') AS problem) AS asked WHERE "
        "CASE WHEN asked.problem = '' THEN true ELSE CAST(system.main.error(asked.problem) AS BOOLEAN) END"
    )

"""Kinds of arguments: what each is called, what it may be, and how it is read.

The fields of a declaration (:mod:`duckdp.functions.spec`) are of these types. From SQL and from the command line every
argument comes as text; from Python as whatever the caller gave. Either way what does not fit is P107 and names the
parameter. epsilon and delta, which say what is spent, have codes of their own (P101, P102): whoever plans reads them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, TypeVar

from duckdp.arguments import MOST_WHOLE, Scalar
from duckdp.compiler.plan import MechanismChoice
from duckdp.core.watch import Tell
from duckdp.errors import ParameterError

T = TypeVar("T")
_MOST_COLUMNS = 1_000  # columns, or numbers, of one call: planning takes a second or so
_MOST_TEXTS = (
    10_000  # functions or predicates of one call: smooth functions, each of a shape of its own, take half a minute
)
AUTO = "auto"  # rows: as the method has them


@dataclass(frozen=True, kw_only=True, eq=False)
class Kind:
    """One kind of argument: what it may be, and how it is read.

    Attributes:
        word: what it is, in refusals ("must be ...") and in the documentation.
        about: what is said of a parameter of this kind, unless its declaration says more.
        sql: what SQL calls such a parameter, where that is not the field's own name.
        python: the Python type that a caller may give, where that is not the field's own type.
        read: the value that a function gets, from (name, text, or what Python gave); may refuse.
        given: the same of what Python gave, where that is another matter.
        listed: a list of texts, which crosses from SQL as one.
        most: elements of the list, at most, whatever a function makes of them; its own limit may be lower.
        choices: what there is to choose from, where that is little, for documentation and completion; of a Literal
            they are its own.
        falls_back: left out, it is what the session has SET (epsilon).
        instead: given in place of epsilon.
    """

    word: str
    about: str = ""
    sql: str | None = None
    python: Any = None
    read: Callable[[str, Any], Any] = lambda _, value: value
    given: Callable[[str, Any], Any] | None = None
    listed: bool = False
    most: int | None = None
    choices: tuple[str, ...] = ()
    falls_back: bool = False
    instead: bool = False

    def refusal(self, name: str, value: object) -> ParameterError:
        """P107: the value is none of this kind."""
        return ParameterError("P107", name, value, f"must be {self.word}.")

    def require_few(self, name: str, found: Any) -> Any:
        """What was read, if it lists no more than there may be.

        Raises:
            ParameterError: P107.
        """
        if self.most is not None and len(found) > self.most:
            raise ParameterError(
                "P107", name, len(found), f"are more than the {self.most:,} of one call. Split the list."
            )
        return found


def _read_flag(name: str, value: object) -> bool:
    """True or false, or a text that says so; P107 otherwise."""
    found = {"true": True, "false": False, "1": True, "0": False}.get(str(value).lower())
    if found is None:
        raise ParameterError("P107", name, value, "must be true or false.")
    return found


def _read_number(name: str, value: object) -> float:
    """A finite number; P107 otherwise."""
    number = _converted(float, "a number", name, value)
    if not math.isfinite(number):
        raise ParameterError("P107", name, value, "must be a finite number.")
    return number


def _read_whole(name: str, value: object) -> int:
    """A whole number; P107 otherwise."""
    number = _converted(int, "a whole number", name, value)
    if abs(number) > MOST_WHOLE:
        raise ParameterError("P107", name, value, "must be a whole number of at most 18 digits.")
    return number


def _converted(made: Callable[[str], T], word: str, name: str, value: object) -> T:
    """What the text of a value says; P107 where it says nothing of the kind."""
    try:
        return made(str(value))
    except ValueError:
        raise ParameterError("P107", name, value, f"must be {word}.") from None


def _read_size(name: str, value: object) -> int:
    number = _read_whole(name, value)
    if not 0 < number < MOST_WHOLE:
        raise ParameterError("P107", name, value, "must be a whole number above 0.")
    return number


def _read_rows(name: str, value: object) -> int | None:
    return None if value == AUTO else _read_whole(name, value)


def _as_given(_: str, value: object) -> object:
    """A number, or numbers by output: each is looked at where the outputs are known."""
    return value


def _as_text(_: str, value: object) -> str:
    return str(value)


def _read_numbers(name: str, value: object) -> list[float]:
    """A list of finite numbers; P107 otherwise."""
    return [_read_number(name, one) for one in list(value)]  # type: ignore[call-overload]


TableName = Annotated[str, Kind(word="the name of a table", sql="t", about="a protected table")]
SourceName = Annotated[str, Kind(word="the name of a table", about="a protected table, or something stored")]
StoredName = Annotated[str, Kind(word="the name of a summary", about="a stored summary, or a table that holds one")]
NewName = Annotated[str, Kind(word="a name to store it by", about="a name to store it by")]
ColumnName = Annotated[str, Kind(word="the name of a column", sql="x", about="one of its columns")]
_COLUMNS = Kind(word="a list of names", about="names of columns", listed=True, most=_MOST_COLUMNS)
ColumnNames = Annotated[Sequence[str], _COLUMNS]
Statement = Annotated[str, Kind(word="the text of one statement", about="one SELECT over protected tables")]
FunctionText = Annotated[str, Kind(word="the text of a function", sql="f", about="a function of the summary's columns")]
_FUNCTIONS = Kind(
    word="a list of texts", sql="f", about="functions of the summary's columns", listed=True, most=_MOST_TEXTS
)
FunctionTexts = Annotated[Sequence[str], _FUNCTIONS]
Keys = Annotated[str | Sequence[str], Kind(word="a text, as GROUP BY takes it", about="groups, as GROUP BY takes them")]
Predicate = Annotated[str, Kind(word="the text of a predicate", about="which rows, as WHERE takes it")]
LinearQuestion = Annotated[
    str, Kind(word="the text of a predicate or a number", about="which rows, or a number of each")
]
_PREDICATES = Kind(
    word="a list of texts", about="predicates of rows, as WHERE takes them", listed=True, most=_MOST_TEXTS
)
Predicates = Annotated[Sequence[str], _PREDICATES]
_QUANTITY = "a column with bounds, or an expression of such columns"
Quantity = Annotated[str, Kind(word="the text of a number", about=_QUANTITY)]
_QUANTITIES = Kind(
    word="a list of texts", about="columns with bounds, or expressions of such columns", listed=True, most=_MOST_COLUMNS
)
Quantities = Annotated[Sequence[str], _QUANTITIES]
Epsilon = Annotated[object, Kind(word="a decimal", about="what it costs, 0.000001 to 100", falls_back=True)]
Delta = Annotated[object, Kind(word="a decimal", about="the delta that it costs too, at least 0 and below 1")]
_WIDTH = "in place of epsilon: the widest acceptable 95% half-width"
Width = Annotated[float, Kind(word="a number", about=_WIDTH, read=_read_number, instead=True)]
_WIDTHS = Kind(
    word="a number",
    about=f"{_WIDTH} (but of counts and sums a prediction), in Python also by output",
    read=_read_number,
    given=_as_given,
    instead=True,
)
Widths = Annotated[float | Mapping[str, float], _WIDTHS]
_TOLERANCE = Kind(
    word="a number",
    about="the widest 95% half-width with which a summary may answer instead, free",
    read=_read_number,
    given=_as_given,
)
Tolerance = Annotated[float | Mapping[str, float], _TOLERANCE]
_FLAG = Kind(word="true or false", read=_read_flag, choices=("true", "false"))
Flag = Annotated[bool, _FLAG]
_FRESH = Kind(word="true or false", about="pay again, for a new answer", read=_read_flag, choices=("true", "false"))
Fresh = Annotated[bool, _FRESH]
Number = Annotated[float, Kind(word="a number", read=_read_number)]
_NUMBERS = Kind(word="a list of numbers", listed=True, most=_MOST_COLUMNS, read=_read_numbers)
Numbers = Annotated[Sequence[float], _NUMBERS]
Whole = Annotated[int, Kind(word="a whole number", read=_read_whole)]
Size = Annotated[int, Kind(word="a whole number above 0", read=_read_size)]
_ROWS = Kind(word="a whole number", about="how many rows", python=int | str, read=_read_rows)
Rows = Annotated[int | None, _ROWS]
Word = Annotated[str, Kind(word="a text in Unicode")]
#: Of a Literal, which says what there is to choose from; whoever takes the text refuses others.
CHOICE = Kind(word="a text")
Value = Annotated[str, Kind(word="a value of the column", python=Scalar, read=_as_text)]
Mechanism = Annotated[MechanismChoice, CHOICE]
Progress = Annotated[Tell, Kind(word="a function", about="told (stage, share done, 0 to 1)")]
_VALUES = Kind(word="a list of the values of ? and $1", about="values of ? and $1", python=list | tuple)
Values = Annotated[Sequence[object], _VALUES]

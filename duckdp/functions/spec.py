"""A dp function is declared once: a class whose fields are its parameters. Everything else comes from it.

::

    @dp_function("dp_noisy_count", forms=("table", "value"))
    @dataclass(frozen=True, kw_only=True)
    class NoisyCount(Explained):
        \"\"\"A noisy number of rows.\"\"\"

        table: Table = argument()
        epsilon: Epsilon | None = option(None)
        predicate: Predicate | None = option(None)

        def plan(self, desk: Desk) -> Planned: ...      # public figures alone: nothing is read, nothing charged
        def explain(self, desk: Desk) -> Sequence[str]: ...  # what dp_explain_noisy_count says

From it come the SQL macro (:mod:`duckdp.functions.macros`), the reading of its arguments (from texts in SQL and on the
command line, from values in Python), the session's method, the command's options, completion, and its place in the
documentation (:mod:`duckdp.functions.page`). The order of the fields is that of SQL's parameters. What can cost
something is ``Explained``; what costs nothing is a plain ``DpFunction``.
"""

from __future__ import annotations

import dataclasses
import inspect
import typing
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from duckdp.arguments import MISFIT, Take, reader
from duckdp.errors import InternalError, ParameterError
from duckdp.functions.kinds import Kind
from duckdp.functions.planned import Planned, lines_of

if TYPE_CHECKING:
    from duckdp.desk.desk import Desk

Form = Literal["table", "value", "view"]
Face = Literal["sql", "python"]
D = TypeVar("D", bound="type[DpFunction]")
#: Of a parameter that has no default.
REQUIRED: Any = type("Required", (), {"__repr__": lambda _: "REQUIRED"})()
_EXPLAIN = "dp_explain_"


class DpFunction(ABC):
    """A call of a dp function: its arguments, read and typed."""

    @abstractmethod
    def plan(self, desk: Desk) -> Planned:
        """What the call will give and how, from public figures: nothing is read, nothing charged."""


class Explained(DpFunction):
    """A call of a dp function that has an explanation, ``dp_explain_...``: whatever can cost something has one."""

    @abstractmethod
    def explain(self, desk: Desk) -> Sequence[str]:
        """What it would do and cost, a line each; free, as ``plan`` is."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Parameter:
    """One parameter, as its field declares it.

    Attributes:
        name: of the field, and in Python unless ``python`` says otherwise.
        kind: what it may be, and how it is read.
        take: plain values from what Python gave; None where anything goes.
        default: in SQL and in Python, or ``REQUIRED``.
        placed: it may be given by its place; in Python all others are given by name.
        about: what it is for.
        sql: its name in SQL; None: there is none.
        python: its name in Python; None: there is none.
        tabled: a call by its value does not have it: with it there may be more rows, or columns, than one.
    """

    name: str
    kind: Kind
    take: Take | None
    default: Any
    placed: bool
    about: str
    sql: str | None
    python: str | None
    tabled: bool = False

    def of_text(self, text: str | None) -> Any:
        """The value of a text, as SQL and the command line give it.

        Raises:
            ParameterError: P107.
        """
        return self._none(self.name) if text is None else self.kind.read(self.name, text)

    def of_list(self, texts: Sequence[str | None] | None, instead: str | None = None) -> Any:
        """The value of a list; ``instead`` is the text of what was given and is none.

        Raises:
            ParameterError: P107.
        """
        if texts is None and instead is None:
            return self._none(self.name)
        if texts is None or not all(isinstance(text, str) for text in texts):
            raise self.kind.refusal(self.name, instead if texts is None else list(texts))
        self.kind.require_few(self.name, texts)
        return self.kind.read(self.name, list(texts))

    def of_value(self, value: object) -> Any:
        """The value of what Python gave.

        Raises:
            ParameterError: P107.
        """
        name = self.python or self.name
        if value is None:
            return self._none(name)
        found = value if self.take is None else self.take(value)
        if found is MISFIT:
            raise self.kind.refusal(name, value)
        self.kind.require_few(name, found)
        return (self.kind.given or self.kind.read)(name, found)

    def _none(self, name: str) -> None:
        if self.default is not None:
            raise self.kind.refusal(name, None)


@dataclass(frozen=True, kw_only=True, eq=False)
class Spec:
    """A dp function as its class declares it.

    Attributes:
        name: in SQL.
        made: the class.
        parameters: all of them, in order.
        forms: "table": FROM dp_x(...); "value": SELECT dp_x(...); "view": FROM dp_x.
        fields: of the value: one column's name, or the names of a struct's fields.
        method: the session's method.
        about: what it gives, in a line.
        costs: what it is charged.
        explains: it is the explanation of another function.
        example: of its arguments in SQL, for the documentation; a test runs it on the demo's table ``care``.
    """

    name: str
    made: type[DpFunction]
    parameters: tuple[Parameter, ...]
    forms: tuple[Form, ...]
    fields: tuple[str, ...]
    method: str
    about: str
    costs: str
    explains: bool = False
    example: str = ""

    def of(self, face: Face) -> list[Parameter]:
        """The parameters that a face has."""
        return [p for p in self.parameters if getattr(p, face) is not None]

    def words(self) -> list[Parameter]:
        """The parameters that can be given as words of a command: those that SQL and Python have."""
        return [p for p in self.parameters if p.sql is not None and p.python is not None]

    def plan(self, desk: Desk, arguments: Mapping[str, Any]) -> Planned:
        """Plan a call, or its explanation, from arguments that were read."""
        call = self.made(**arguments)
        return lines_of(call.explain(desk)) if self.explains and isinstance(call, Explained) else call.plan(desk)

    def read_texts(self, texts: Sequence[str | None], lists: Sequence[Sequence[str | None] | None]) -> dict[str, Any]:
        """Arguments as SQL gives them: all of its parameters' texts in order, and what is listed as lists.

        The text in a list's place is that of what was given in its stead, if something was.

        Raises:
            ParameterError: P107.
        """
        known = self.of("sql")
        if len(texts) != len(known) or len(lists) != sum(p.kind.listed for p in known):
            raise unknown(self.name)
        rest = iter(lists)
        return {
            p.name: p.of_list(next(rest), text) if p.kind.listed else p.of_text(text)
            for p, text in zip(known, texts, strict=True)
        }

    def read_words(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Arguments as a command line gives them, by the fields' names: words, lists of words, flags.

        Raises:
            ParameterError: P107.
        """
        found = {}
        for p in self.words():
            word = given[p.name]
            if p.kind.listed:
                found[p.name] = p.of_list(list(word) or None)
            else:
                found[p.name] = p.of_text(str(word).lower() if isinstance(word, bool) else word)
        return found

    def read_values(self, given: Mapping[str, object]) -> dict[str, Any]:
        """Arguments as Python gives them, all by name; what is left out has its default.

        Raises:
            ParameterError: P107.
        """
        return {p.name: p.of_value(given.get(str(p.python), p.default)) for p in self.of("python")}


def unknown(name: object) -> ParameterError:
    """P107: no function of that name takes these."""
    return ParameterError("P107", "function", name, "is not one of the dp functions with these arguments.")


def argument(
    *, about: str = "", sql: str | None = None, python: str | None = None, explained: tuple[str, str] | None = None
) -> Any:
    """A parameter that must be given, and may be by its place.

    Args:
        about: what it is for, where its kind does not say all.
        sql: what SQL calls it.
        python: what Python calls it.
        explained: what the explanation calls it, in Python and in SQL.
    """
    meta = {"placed": True, "about": about, "sql": sql, "python": python, "explained": explained or True}
    return dataclasses.field(metadata=meta)


def option(
    default: Any, *, about: str = "", only: Face | None = None, explained: bool = True, tabled: bool = False
) -> Any:
    """A parameter that is given by name.

    Args:
        default: or ``REQUIRED``: in Python it must be given then, in SQL it is NULL by default.
        about: what it is for, where its kind does not say all.
        only: the one face that has it.
        explained: whether the function's explanation takes it too.
        tabled: whether it needs the form of a table.
    """
    meta = {"placed": False, "about": about, "only": only, "explained": explained, "default": default, "tabled": tabled}
    return dataclasses.field(default=None if default is REQUIRED else default, metadata=meta)


def dp_function(
    name: str,
    *,
    forms: tuple[Form, ...] = ("table",),
    fields: tuple[str, ...] = ("value",),
    costs: str = "nothing",
    method: str | None = None,
    explanation: str | None = None,
    explain_method: str | None = None,
    example: str = "",
) -> Callable[[D], D]:
    """Declare a dp function, and its explanation if the class is ``Explained``.

    Args:
        name: in SQL, ``dp_...``.
        forms: see :class:`Spec`.
        fields: see :class:`Spec`.
        costs: see :class:`Spec`.
        method: the session's method; the name without ``dp_`` by default.
        explanation: what its explanation is called; ``dp_explain_...`` by default.
        explain_method: the session's method for that.
        example: see :class:`Spec`.

    Raises:
        InternalError: where the class is declared: it lacks what a dp function has, or its name is taken.
    """

    def declare(made: D) -> D:
        if inspect.isabstract(made):
            raise InternalError(f"the dp function {name} lacks {', '.join(sorted(made.__abstractmethods__))}.")
        if (costs != "nothing" or hasattr(made, "explain")) and not issubclass(made, Explained):
            raise InternalError(f"the dp function {name} can cost something, or has an explanation: it is Explained.")
        spec = Spec(
            name=name,
            made=made,
            parameters=_parameters(made),
            forms=forms,
            fields=fields if "value" in forms else (),
            method=method or name.removeprefix("dp_"),
            about=_first_line(made),
            costs=costs,
            example=example,
        )
        _register(spec)
        if issubclass(made, Explained):
            called = explanation or _EXPLAIN + name.removeprefix("dp_")
            _register(
                replace(
                    spec,
                    name=called,
                    parameters=_explained(made, spec),
                    forms=("table",),
                    fields=(),
                    explains=True,
                    example="",
                    method=explain_method or called.removeprefix("dp_"),
                    costs="nothing",
                    about=f"what `{name}` would do and cost; reads no data",
                )
            )
        return made

    return declare


#: All dp functions by name, each explanation after what it explains.
FUNCTIONS: dict[str, Spec] = {}


def _register(spec: Spec) -> None:
    names = [p.sql for p in spec.of("sql")], [p.python for p in spec.of("python")]
    known = FUNCTIONS.get(spec.name)
    # a module whose import was interrupted is imported anew, and declares the same once more
    twice = known is not None and _place(known) != _place(spec)
    if twice or not spec.name.startswith("dp_") or any(len(set(n)) != len(n) for n in names):
        raise InternalError(f"the dp function {spec.name} is declared twice, or two of its parameters are.")
    FUNCTIONS[spec.name] = spec


def _place(spec: Spec) -> tuple[str, str, bool]:
    """Where a function is declared."""
    return spec.made.__module__, spec.made.__qualname__, spec.explains


def _parameters(made: type[DpFunction]) -> tuple[Parameter, ...]:
    """The fields of a declaration."""
    hints = typing.get_type_hints(made, include_extras=True)
    found = []
    for field in dataclasses.fields(made):  # type: ignore[arg-type]
        meta, (kind, given) = field.metadata, _kind_of(hints[field.name])
        taken = reader(given if kind.python is None else kind.python)
        only = meta.get("only")
        found.append(
            Parameter(
                name=field.name,
                kind=kind,
                take=None if taken is None else taken[0],
                default=meta.get("default", REQUIRED),
                placed=meta["placed"],
                about=meta["about"] or kind.about,
                sql=None if only == "python" else meta.get("sql") or kind.sql or field.name,
                python=None if only == "sql" else meta.get("python") or field.name,
                tabled=meta.get("tabled", False),
            )
        )
    return tuple(found)


def _explained(made: type[DpFunction], spec: Spec) -> tuple[Parameter, ...]:
    """The parameters that a function's explanation takes."""
    asked = {field.name: field.metadata["explained"] for field in dataclasses.fields(made)}  # type: ignore[arg-type]
    found = []
    for parameter in spec.parameters:
        if isinstance(names := asked[parameter.name], tuple):
            found.append(replace(parameter, python=names[0], sql=names[1]))
        elif names:
            found.append(parameter)
    return tuple(found)


def _kind_of(hint: Any) -> tuple[Kind, Any]:
    """The kind in a field's type, and the type that it annotates; ``| None`` says only what the default is."""
    for part in (hint, *typing.get_args(hint)):
        for extra in getattr(part, "__metadata__", ()):
            if isinstance(extra, Kind):
                given = typing.get_args(part)[0]
                if typing.get_origin(given) is Literal:
                    choices = typing.get_args(given)
                    extra = replace(extra, word=f"one of {', '.join(choices)}", choices=choices)
                return extra, given
    raise InternalError(f"the type {hint} of a dp function's parameter has no kind.")


def _first_line(made: type[DpFunction]) -> str:
    line = (made.__doc__ or "").strip().splitlines()[0].rstrip(".")
    return line[0].lower() + line[1:]

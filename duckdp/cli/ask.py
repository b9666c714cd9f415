"""``duckdp ask``: every dp function as a command, with the parameters that its declaration says.

Declarations are looked at when a command's parameters are: the list of commands does not wait for them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import CompletionItem

from duckdp.cli.common import analyst_option, format_option, open_curator, print_result, source_argument

if TYPE_CHECKING:
    from duckdp.functions.spec import Parameter, Spec


_PLACED = "placed_"  # before names of what is given by place, one of which may be that of the file


class Word(click.ParamType):  # type: ignore[type-arg]  # generic in later versions alone
    """A text that the function reads; what there is to choose from is for help and completion.

    Args:
        choices: some, or none to say nothing.
    """

    name = "text"

    def __init__(self, choices: tuple[str, ...] = ()) -> None:
        self.choices = choices

    def get_metavar(self, param: click.Parameter, ctx: click.Context) -> str | None:  # noqa: ARG002 - click's signature
        """What there is to choose from, in brackets."""
        return f"[{'|'.join(self.choices)}]" if self.choices else None

    def shell_complete(
        self,
        ctx: click.Context,  # noqa: ARG002 - click's signature
        param: click.Parameter,  # noqa: ARG002
        incomplete: str,
    ) -> list[CompletionItem]:
        """The choices that begin like what was typed."""
        return [CompletionItem(choice) for choice in self.choices if choice.startswith(incomplete)]


class Declared(click.Command):
    """A command with a dp function's options beside its own parameters.

    Args:
        function: the dp function's name.
    """

    def __init__(self, *arguments: Any, function: str, **named: Any) -> None:
        self._function = function
        self._own: list[click.Parameter] = []
        self._all: list[click.Parameter] | None = None
        super().__init__(*arguments, **named)

    @property
    def params(self) -> list[click.Parameter]:
        """Its own parameters, then the function's options; one list, which click changes for a moment."""
        if self._all is None:
            options = [_option(parameter) for parameter in spec_of(self._function).words() if not parameter.placed]
            self._all = [*self._own, *options]
        return self._all

    @params.setter
    def params(self, own: list[click.Parameter]) -> None:
        self._own, self._all = own, None


class Functions(click.Group):
    """A command for each dp function: ``dp_noisy_count`` is ``noisy-count``."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        """In the order of the documentation."""
        return list(_names())

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002 - click's signature
        """The command of a dp function, made from its declaration."""
        name = _names().get(cmd_name.replace("_", "-"))
        return None if name is None else _command(spec_of(name))


@click.group(cls=Functions)
def ask() -> None:
    """Call one dp function as an analyst; ask NAME --help says what it takes.

    For example: duckdp ask noisy-count clinic.duckdb care --analyst ana --epsilon 0.1
    """


def spec_of(name: str) -> Spec:
    """The declaration of a dp function, by its name as a command."""
    from duckdp.functions.spec import FUNCTIONS

    return FUNCTIONS[name]


def _names() -> dict[str, str]:
    """All dp functions by what they are called here."""
    from duckdp.functions.spec import FUNCTIONS

    return {name.removeprefix("dp_").replace("_", "-"): name for name in FUNCTIONS}


def _command(spec: Spec) -> click.Command:
    """One function's command."""

    @source_argument
    @analyst_option
    @format_option
    def run(source: str, ledger_path: str | None, analyst: str, style: str, **words: Any) -> None:
        from duckdp.faces.asks import ask_words

        with open_curator(source, ledger_path) as curator:
            given = {name.removeprefix(_PLACED): word for name, word in words.items()}
            print_result(ask_words(curator.session(analyst), spec, given), style)

    about = f"{spec.about[0].upper()}{spec.about[1:]}.".replace("`", "")
    name = spec.name.removeprefix("dp_").replace("_", "-")
    command = click.command(name, cls=Declared, function=spec.name, help=about)(run)
    placed = [parameter for parameter in spec.words() if parameter.placed]
    lists = [parameter for parameter in placed if parameter.kind.listed]  # the words that follow are one list's
    named = [parameter.name for parameter in lists[:-1]]
    made = (_option(p) if p.name in named else _argument(p) for p in placed)
    command.params = [*command._own, *made]
    return command


def _argument(parameter: Parameter) -> click.Parameter:
    """What is given by its place; a list is the words that follow."""
    many = -1 if parameter.kind.listed else 1
    name = f"{_PLACED}{parameter.name}"
    shown = "TABLE" if parameter.name == "source" else parameter.name.upper()  # SOURCE is the file
    shown += "..." if many < 0 else ""
    return click.Argument([name], nargs=many, required=True, type=Word(), metavar=shown)


def _option(parameter: Parameter) -> click.Parameter:
    from duckdp.functions.spec import REQUIRED

    names, kind = [f"--{parameter.name.replace('_', '-')}", parameter.name], parameter.kind
    about = f"{parameter.about[0].upper()}{parameter.about[1:]}."
    if parameter.default is False:
        return click.Option(names, is_flag=True, help=about)
    known = parameter.default not in (None, REQUIRED)
    return click.Option(
        names,
        default=str(parameter.default) if known else None,
        multiple=kind.listed,
        type=Word(kind.choices),
        show_default=known,
        metavar=None if kind.choices else "X",
        help=about,
        required=parameter.default is REQUIRED,
    )

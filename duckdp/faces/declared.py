"""The session's methods of functions that are declared and written down nowhere else."""

from __future__ import annotations

import inspect
from collections.abc import Callable

from duckdp.arguments import checks_itself
from duckdp.faces.asks import Asks
from duckdp.functions.spec import REQUIRED, Spec
from duckdp.result import Result


def method(spec: Spec) -> Callable[..., Result]:
    """The session's method of a function that is written down nowhere else."""
    place, named = inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY
    parameters = [inspect.Parameter("self", place)]
    for p in spec.of("python"):
        default = inspect.Parameter.empty if p.default is REQUIRED else p.default
        parameters.append(inspect.Parameter(str(p.python), place if p.placed else named, default=default))
    signature = inspect.Signature(parameters, return_annotation=Result)

    @checks_itself
    def call(self: Asks, *args: object, **given: object) -> Result:
        return self._ask(spec.name, signature.bind(self, *args, **given).arguments)

    call.__name__, call.__qualname__ = spec.method, f"Session.{spec.method}"
    call.__doc__ = f"{spec.about[0].upper()}{spec.about[1:]}."
    call.__signature__ = signature  # type: ignore[attr-defined]
    return call

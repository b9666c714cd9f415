"""The dp functions, each declared once (:mod:`duckdp.functions.spec`), a file a family.

A file that is put into this folder is found: what it declares is a function in SQL, a method of a session, a command.
"""

from __future__ import annotations

import importlib
import pkgutil

from duckdp.functions.planned import Planned
from duckdp.functions.spec import FUNCTIONS, DpFunction, Spec

__all__ = ["FUNCTIONS", "DpFunction", "Planned", "Spec"]

#: In the order in which they are listed; what is not here comes after them, by name.
FAMILIES = ("releases", "medians", "smooth", "synthetic", "bounds", "listings")
#: What holds no declarations.
TOOLS = frozenset(
    (
        "bin_edges",
        "calling",
        "explanation",
        "kinds",
        "macros",
        "moment_answers",
        "page",
        "planned",
        "public_groups",
        "routing",
        "spec",
        "write",
    )
)


def _import_all() -> None:
    found = sorted(module.name for module in pkgutil.iter_modules(__path__))
    for name in (*FAMILIES, *(name for name in found if name not in TOOLS and name not in FAMILIES)):
        importlib.import_module(f"{__name__}.{name}")


_import_all()

"""Which plans of Spark show each stored row at most once, of files that are known: what a source lets in.

A plan is let in by its nodes (:data:`STEPS`, :data:`COMPUTED`). Each of them gives one row, or none, for a row of
what is below it, but for a union, which gives the rows of all: so no two leaves may share a file. Leaves are Parquet
files whose list Spark holds in memory, where it can be looked at before each charge, and rows written in the plan.
What the session keeps in its cache is refused: such rows may be older than the files that are stamped.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import Any
from urllib.parse import unquote, urlparse

from duckdp.errors import CatalogError

#: Steps of Spark's plans by which a row follows from one stored row.
STEPS = frozenset(("Project", "Filter", "SubqueryAlias", "View", "Union"))
#: What a step may compute.
COMPUTED = frozenset(
    (
        *("AttributeReference", "Alias", "Literal", "Cast", "And", "Or", "Not", "IsNull", "IsNotNull", "In"),
        *("EqualTo", "EqualNullSafe", "LessThan", "LessThanOrEqual", "GreaterThan", "GreaterThanOrEqual"),
    )
)
SQL = "org.apache.spark.sql.execution."
#: Lists of files that change only where we see it: not those that the catalog finds anew at each read.
LISTS = frozenset((f"{SQL}datasources.InMemoryFileIndex",))
FORMATS = frozenset((f"{SQL}datasources.parquet.ParquetFileFormat",))
CACHED = frozenset((f"{SQL}columnar.InMemoryRelation",))
WAY = "Write it to Parquet, and open that by its path."


def leaves_of(name: str, plan: Any) -> Iterator[Any]:
    """The leaves of an analysed plan: relations of files, and rows that are written in it.

    Args:
        name: of the relation, for errors.
        plan: a logical plan of Spark.

    Raises:
        CatalogError: C108, a row of it may follow from something else than one row of known Parquet files.
    """
    step = str(plan.getClass().getSimpleName())
    if step == "LogicalRelation":
        _require_listed(name, plan.relation())
        yield plan
    elif step == "LocalRelation":
        yield plan
    else:
        computed = [kind for e in _listed(plan.expressions()) for kind in _kinds(e)]
        if step not in STEPS or not set(computed) <= COMPUTED:
            what = "is something else than rows and columns that are chosen of what files hold"
            raise CatalogError("C108", f'"{name}" {what} ({step.lower()}). {WAY}', table=name)
        for below in _listed(plan.children()):
            yield from leaves_of(name, below)


def files_of(leaves: Sequence[Any]) -> list[str]:
    """Addresses of the files of leaves, as Spark lists them now: one that is read twice is there twice."""
    found = [str(f) for leaf in leaves if not is_local(leaf) for f in leaf.relation().location().inputFiles()]
    return sorted(found)


def is_local(leaf: Any) -> bool:
    """Whether a leaf has its rows in the plan, and no file."""
    return bool(leaf.getClass().getSimpleName() == "LocalRelation")


def require_once(name: str, files: Sequence[str], local: int = 0) -> None:
    """C108 if a stored row may be read twice: then one row would move a figure by more than one row can.

    Args:
        name: of the relation, for errors.
        files: addresses of all files that its leaves read.
        local: leaves that are in no file; two may be the same rows.
    """
    known = [identity(path) for path in files]
    places = {(urlparse(path).scheme, urlparse(path).netloc) for path in files}
    if len(set(known)) < len(known) or local > 1:
        rule = f'"{name}" reads the same stored rows twice, and one of them would count as two.'
        raise CatalogError("C108", f"{rule} Name each file once.", table=name)
    if len(places) > 1:
        rule = f'"{name}" reads several file systems, which may be two names of one.'
        raise CatalogError("C108", f"{rule} Put the files in one.", table=name)


def identity(path: str) -> tuple[object, ...]:
    """What is equal for two addresses of one file: of a local file the node, whatever links lead to it."""
    found = urlparse(path)
    if found.scheme in ("", "file"):
        try:
            status = os.stat(unquote(found.path))
        except OSError:
            return ("file", unquote(found.path))
        return status.st_dev, status.st_ino
    return found.scheme, found.netloc, unquote(found.path)


def is_cached(execution: Any) -> bool:
    """Whether Spark would read a part of that from its cache; ``execution`` keeps to it (a ``QueryExecution``)."""
    return _any_of(execution.withCachedData(), CACHED)


def _require_listed(name: str, relation: Any) -> None:
    kind = str(relation.getClass().getSimpleName())
    if kind != "HadoopFsRelation" or str(relation.fileFormat().getClass().getName()) not in FORMATS:
        raise CatalogError("C108", f'"{name}" is not stored in Parquet files. {WAY}', table=name)
    if str(relation.location().getClass().getName()) not in LISTS:
        rule = f'"{name}" is a table whose files are found anew at each read.'
        raise CatalogError("C108", f"{rule} Open the folder of its files by its path.", table=name)


def _any_of(plan: Any, kinds: frozenset[str]) -> bool:
    return str(plan.getClass().getName()) in kinds or any(_any_of(p, kinds) for p in _listed(plan.children()))


def _listed(found: Any) -> list[Any]:
    return [found.apply(i) for i in range(found.size())]


def _kinds(expression: Any) -> list[str]:
    below = [kind for child in _listed(expression.children()) for kind in _kinds(child)]
    return [str(expression.getClass().getSimpleName()), *below]

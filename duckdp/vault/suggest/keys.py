"""Which column may name the privacy unit, by the schema alone, and how sure that is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from duckdp.catalog.units import SAYS_NOTHING
from duckdp.catalog.values import unit_key_allowed
from duckdp.vault.suggest.schema import TableFacts

PEOPLE = (
    *("patient", "person", "people", "user", "customer", "client", "member", "subject", "student", "employee"),
    *("household", "individual", "participant", "citizen", "resident", "subscriber", "donor", "voter", "driver"),
    *("rider", "passenger", "guest", "account", "pupil", "player", "author", "owner", "buyer", "pid", "uid"),
)
Place = tuple[str, str]  # table, lower-case column


@dataclass(frozen=True, kw_only=True)
class Proposal:
    """The privacy unit that a schema suggests for a table.

    Attributes:
        column: that may name it, or None.
        unit: what to call the unit where the keys' names do not agree, or None.
        why: what speaks for it, in words.
        sure: other tables have it too; else it is only to be looked at.
        default: the column's DEFAULT, which may stand for nobody, or None.
        left_out: other tables share a unit that this one does not have.
    """

    column: str | None
    unit: str | None
    why: str
    sure: bool
    default: object = None
    left_out: bool = False


def propose_keys(schema: Mapping[str, TableFacts]) -> dict[str, Proposal]:
    """For each table the column of the unit that most tables share; columns of people go before all others."""
    groups = _groups(schema)
    shared = [g for g in groups if len({t for t, _ in g}) > 1]
    best = max(shared, key=lambda g: (_of_people(g, schema), len({t for t, _ in g}), sorted(g)), default=None)
    return {name: _propose(schema, facts, best) for name, facts in schema.items()}


def _propose(schema: Mapping[str, TableFacts], facts: TableFacts, best: frozenset[Place] | None) -> Proposal:
    names = {c.name.lower(): c.name for c in facts.columns}
    if best is None:
        return _guess(facts, names)
    own = sorted((c for t, c in best if t == facts.name), key=lambda c: (c in facts.unique, c))
    tables = sorted({t for t, _ in best} - {facts.name})
    if not own:
        missing = sorted({c for _, c in best})
        guess = _guess(facts, names).column
        guess = guess if guess is not None and is_person(guess) else None
        called = missing[0] if len(missing) == 1 and not set(missing) & SAYS_NOTHING else _called(best, schema)
        own_name = f'unit_key="{guess or "its column"}", unit="{called}" if a column of it names the same ones'
        return Proposal(
            column=guess,
            unit=called,
            sure=False,
            left_out=True,
            why=(
                f"no {' or '.join(missing)} here, the key that {', '.join(tables)} share: {own_name}; else leave the "
                "table out (a data set has one kind of unit)"
            ),
        )
    linked = [t for t in (facts.name, *tables) if any(p == (t, c) for p in best for c in schema[t].references)]
    how = "foreign keys of " + ", ".join(linked) if linked else "by name and type alone: low confidence"
    kinds = {c for _, c in best}
    unit = None if len(kinds) == 1 and not kinds & SAYS_NOTHING else _called(best, schema)
    return Proposal(
        column=names[own[0]],
        unit=unit,
        sure=True,
        why=f"shared with {', '.join(tables)}, {how}; does it name a person?",
        default=facts.defaults.get(own[0]),
    )


def _guess(facts: TableFacts, names: Mapping[str, str]) -> Proposal:
    """A lone table's column whose name ends like a key's."""
    likely = [
        c.name.lower()
        for c in facts.columns
        if unit_key_allowed(c.type) and (c.name.lower() in SAYS_NOTHING or ends_like_key(c.name) or is_person(c.name))
    ]
    if not likely:
        return Proposal(
            column=None, unit=None, why="no column is called like a key; without one the unit is the row", sure=False
        )
    best = max(likely, key=lambda c: (is_person(c), c not in facts.unique, c not in SAYS_NOTHING))
    row = " and each row has its own" if best in facts.unique else ""
    why = f"by its name alone{row}: low confidence; does it name a person?"
    return Proposal(column=names[best], unit=None, why=why, sure=False, default=facts.defaults.get(best))


def _groups(schema: Mapping[str, TableFacts]) -> list[frozenset[Place]]:
    """Columns that may hold one key: tied by foreign keys, or of one name that says something; of one type."""
    types = {
        (t, c.name.lower()): c.type for t, facts in schema.items() for c in facts.columns if unit_key_allowed(c.type)
    }
    root = {place: place for place in types}

    def find(place: Place) -> Place:
        while root[place] != place:
            place = root[place]
        return place

    by_name: dict[tuple[str, str], Place] = {}
    for place, duckdb_type in types.items():
        table, column = place
        target = schema[table].references.get(column)
        if target is not None and types.get(target) == duckdb_type:
            root[find(place)] = find(target)
        if column not in SAYS_NOTHING and (ends_like_key(column) or is_person(column)):
            root[find(place)] = find(by_name.setdefault((column, duckdb_type), place))
    groups: dict[Place, set[Place]] = {}
    for place in types:
        groups.setdefault(find(place), set()).add(place)
    return [frozenset(g) for g in groups.values()]


def _called(group: frozenset[Place], schema: Mapping[str, TableFacts]) -> str:
    """The name of a group's unit: a column's that says whom it names, else that of the table all refer to."""
    names = sorted({c for _, c in group if c not in SAYS_NOTHING}, key=lambda c: (not is_person(c), c))
    targets = sorted({schema[t].references[c][0] for t, c in group if c in schema[t].references})
    return (names or targets)[0]


def _of_people(group: frozenset[Place], schema: Mapping[str, TableFacts]) -> bool:
    targets = {schema[t].references[c][0] for t, c in group if c in schema[t].references}
    return any(is_person(n) for n in {*(c for _, c in group), *targets})


def is_person(name: str) -> bool:
    """Whether a column is called like what names a person."""
    parts = name.lower().replace("-", "_").split("_")
    return any(p in PEOPLE or p.removesuffix("s") in PEOPLE or p.removesuffix("id") in PEOPLE for p in parts)


def ends_like_key(name: str) -> bool:
    """Whether a column is called like a key: ``visit_id``, ``labNr``."""
    low = name.lower()
    return low.endswith(("_id", "_key", "_uuid", "_guid", "_nr", "_no", "_pk")) or name.endswith(("Id", "ID"))

"""Which column may name the privacy unit, by the schema alone, and how sure that is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from duckdp.catalog.units import SAYS_NOTHING
from duckdp.catalog.values import unit_key_allowed
from duckdp.vault.suggest.schema import TableFacts
from duckdp.vault.suggest.ties import Tie, find_links, find_public

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
        left_out: other tables have a unit that this one does not have.
        link: that gives it the unit of another table's rows, or None.
        unique: columns by which others may be linked to it, and whether the schema says that they are unique.
    """

    column: str | None
    unit: str | None
    why: str
    sure: bool
    default: object = None
    left_out: bool = False
    link: str | None = None
    unique: tuple[tuple[str, bool], ...] = ()


def propose_keys(schema: Mapping[str, TableFacts]) -> dict[str, Proposal]:
    """For each table the column of the unit that most tables share; columns of people go before all others.

    Tables without it come after those that they may be linked to.
    """
    groups = _groups(schema)
    shared = [g for g in groups if len(_tables(g)) > 1]
    best = max(shared, key=lambda g: (_of_people(g, schema), len(_tables(g)), sorted(g)), default=None)
    if best is not None and not _of_people(best, schema):
        best = next((g for g in groups if _names_people(g) and _tables(g) < _tables(best)), best)
    if best is None:
        return {name: _guess(facts) for name, facts in schema.items()}
    having = _tables(best)
    links = find_links(schema, having)
    order = [*sorted(having), *links, *sorted(set(schema) - having - set(links))]
    known = having | {name for name, tie in links.items() if tie.unique}
    found = {}
    for name in order:
        if name in having:
            made = _own(schema, schema[name], best)
        else:
            made = _without(schema, schema[name], best, links.get(name), find_public(schema, name, known))
        to = {tie.key: tie.unique for tie in links.values() if tie.to == name}
        found[name] = replace(made, unique=tuple(to.items()))
    return found


def _tables(group: frozenset[Place]) -> set[str]:
    return {table for table, _ in group}


def _names_people(group: frozenset[Place]) -> bool:
    """Whether the columns of a group are keys of people, by their names."""
    return all(is_person(c) and (ends_like_key(c) or c in PEOPLE) for _, c in group)


def _own(schema: Mapping[str, TableFacts], facts: TableFacts, best: frozenset[Place]) -> Proposal:
    """Of a table with the unit that others have too, or may be linked to."""
    tables = sorted(_tables(best) - {facts.name})
    if not tables:
        return _guess(facts)
    names = {c.name.lower(): c.name for c in facts.columns}
    own = sorted((c for t, c in best if t == facts.name), key=lambda c: (c in facts.unique, c))
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


def _without(
    schema: Mapping[str, TableFacts], facts: TableFacts, best: frozenset[Place], tie: Tie | None, public: str | None
) -> Proposal:
    """Of a table that the unit of the others is not in: a link, a unit of another name, or rows that are no one's."""
    missing, tables = sorted({c for _, c in best}), sorted(_tables(best))
    if tie is not None and tie.unique:
        rows = f"each row is of whom the row of {tie.to} is that its {tie.column} names"
        return Proposal(column=None, unit=None, why=f"{tie.why}; {rows}", sure=True, link=tie.text)
    guess = _guess(facts).column
    guess = guess if guess is not None and is_person(guess) else None
    called = missing[0] if len(missing) == 1 and not set(missing) & SAYS_NOTHING else _called(best, schema)
    ways = [f'unit_key="{guess or "its column"}", unit="{called}" if a column of it names the same ones']
    if tie is not None:
        ways.append(f'link="{tie.text}" if each {tie.key} stands once in {tie.to} (unique=["{tie.key}"] there)')
    if public is not None:
        then = f'Then curator.publish("{facts.name}") (duckdp publish), and joins by {public} are free'
        ways.append(f"is it no one's, as codes or a price list are? {then}")
    key = f"the key that {', '.join(tables)} share" if len(tables) > 1 else f"the key of {tables[0]}"
    return Proposal(
        column=guess,
        unit=called,
        sure=False,
        left_out=True,
        why=(
            f"no {' or '.join(missing)} here, {key}: {'; '.join(ways)}; else leave the table out (a data set has one "
            "kind of unit)"
        ),
    )


def _guess(facts: TableFacts) -> Proposal:
    """A lone table's column whose name ends like a key's."""
    names = {c.name.lower(): c.name for c in facts.columns}
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

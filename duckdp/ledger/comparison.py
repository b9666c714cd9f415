"""After the history was replayed: what the tables say beside it, and what they must."""

from __future__ import annotations

from collections.abc import Iterator

from duckdp.ledger import chain, directory
from duckdp.ledger.replay import Replay, Sum
from duckdp.ledger.storage import Stored, stream
from duckdp.ledger.tx import fits


def compare(connection: Stored, replay: Replay) -> Iterator[str]:
    """What does not fit the history, one text each."""
    checks = {
        "a charge was altered": _charges_fit(replay),
        "a stage or a release was altered, added or removed": _payloads_fit(connection, replay),
        "the budget was altered": _dataset_fits(replay),
        "a grant was altered": _grants_fit(connection, replay),
        "a declaration was altered": _catalog_fits(connection, replay),
        "what was spent is not the sum of the charges": _sums_fit(connection, replay),
    }
    if replay.sealed:
        places = (replay.dataset["anchor"], replay.dataset["backup"])
        checks["where its anchor is, or that it is a backup, was altered"] = places == (replay.anchor, replay.backup)
        checks |= dict(replay.retold.fits(replay.dataset, replay.caps, replay.entries))
        checks["the head of its history was altered"] = _head_fits(replay)
        checks["a name or a share was altered, added or removed"] = _names_fit(connection, replay)
        checks["the directory was altered"] = _directory_fits(connection, replay)
    yield from (found for found, same in checks.items() if not same)


def _charges_fit(replay: Replay) -> bool:
    said, stand = replay.said, replay.stand
    if not replay.sealed:  # states: only whether it was released; stages are compared by their rows
        released = [bytes(state == 2 for state in marks.states) for marks in (said, stand)]
        return said.attempts == stand.attempts and released[0] == released[1]
    return said == stand


def _payloads_fit(connection: Stored, replay: Replay) -> bool:
    tables = ("release", "finished", "stage") if replay.sealed else _payload_tables(connection)
    counts = {t: connection.execute(f"SELECT count(*) FROM {t}").fetchone()[0] for t in tables}
    return counts == {table: replay.payloads[table] for table in counts} and max(replay.said.finished) <= 1


def _payload_tables(connection: Stored) -> list[str]:
    known = {row[0] for row in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")}
    return [table for table in ("release", "finished", "stage") if table in known]


def _dataset_fits(replay: Replay) -> bool:
    row = replay.dataset
    budget = {column: row[column] for column in chain.BUDGET_COLUMNS}
    unset = dict.fromkeys(chain.BUDGET_COLUMNS) | {"primary_limit": 0, "secondary_limit": 0}
    source = (row["data_version"], row["source"]) == replay.source
    read = not replay.sealed or row["read"] == replay.read
    return budget == (replay.budget or unset) and row["frozen"] == replay.frozen and source and read


def _head_fits(replay: Replay) -> bool:
    row = replay.dataset
    counts = (replay.events, replay.head, replay.actions, len(replay.said.states) - 1, len(replay.declared))
    charged = next(reversed(replay.charged_under), -1)
    names = ("events", "head", "actions", "charges", "declared")
    return tuple(row[name] for name in names) == counts and row["charged"] == charged


def _grants_fit(connection: Stored, replay: Replay) -> bool:
    rows = [dict(row) for row in connection.execute("SELECT * FROM analyst")]
    if replay.sealed and not all(fits(replay.salt, "analyst", row) for row in rows):
        return False
    for row in rows:
        replay.entries.add(directory.analyst(row["name"]), 0)
    caps = {row["name"]: {column: row[column] for column in chain.CAP_COLUMNS} for row in rows}
    said = {name: {column: cap[column] for column in chain.CAP_COLUMNS} for name, cap in replay.caps.items()}
    return caps == said and {row["name"]: row["revoked"] for row in rows} == replay.revoked


def _catalog_fits(connection: Stored, replay: Replay) -> bool:
    rows = [dict(row) for row in connection.execute("SELECT * FROM catalog")]
    declared = {row["version"]: (row["name"], chain.digest(row["declaration"])) for row in rows}
    in_force = {row["name"]: row["version"] for row in rows if row["active"]}
    same = in_force == replay.tables and declared == replay.declared
    same = same and replay.dataset["catalog_version"] == replay.catalog_version
    for name, version in in_force.items():
        replay.entries.add(directory.table(name), version)
    if not replay.sealed:
        return same
    for row in rows:
        ended = replay.ended.get(row["version"])
        charged = any(row["version"] <= c and (ended is None or c < ended) for c in replay.charged_under)
        same = same and fits(replay.salt, "catalog", row) and (row["until"], row["charged"]) == (ended, int(charged))
    return same


def _sums_fit(connection: Stored, replay: Replay) -> bool:
    rows = [dict(row) for row in connection.execute("SELECT * FROM analyst")]
    total = [0, 0]
    for row in rows:
        primary, secondary, count = replay.spent.get(row["name"], (0, 0, 0))
        total = [total[0] + primary, total[1] + secondary]
        if (row["primary_spent"], row["secondary_spent"], row.get("charges", count)) != (primary, secondary, count):
            return False
    kept = [replay.dataset["primary_spent"], replay.dataset["secondary_spent"]]
    return kept == total and set(replay.spent) <= {row["name"] for row in rows}


def _names_fit(connection: Stored, replay: Replay) -> bool:
    objects, shares = Sum(replay.salt), Sum(replay.salt)
    for row in stream(
        connection,
        "SELECT object.*, charge.kind = object.kind AND charge.analyst = object.analyst AS fits "
        "FROM object JOIN charge ON charge.id = object.charge",
    ):
        if not row["fits"]:
            return False
        objects.add(row["analyst"], row["name"], row["charge"], row["version"] if replay.sealed else 0)
    for row in stream(connection, "SELECT analyst, name, reader FROM share"):
        shares.add(*row)
    return objects.value == replay.objects.value and shares.value == replay.shares.value


def _directory_fits(connection: Stored, replay: Replay) -> bool:
    """Every row is sealed, names the next one, and all of them are what the history makes them."""
    entries, wanted = Sum(replay.salt), directory.FIRST
    for found in stream(connection, "SELECT * FROM directory ORDER BY name"):
        row = dict(found)
        if row["name"] != wanted or not fits(replay.salt, "directory", row):
            return False
        if row["name"] != directory.FIRST:
            entries.add(row["name"], row["subject"])
        elif row["subject"] != 0:
            return False
        wanted = row["next"]
    return wanted == directory.END and entries.value == replay.entries.value

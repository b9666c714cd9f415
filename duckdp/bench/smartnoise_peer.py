"""SmartNoise SQL over PostgreSQL, asked what ``duckdp bench smartnoise`` asks; run by the Python of its environment.

Reads from standard input, as JSON: ``statements`` that make and fill the table in PostgreSQL, the ``metadata`` of its
columns, ``delta``, ``epsilons`` and ``questions`` (a name, and texts). Writes, as JSON, of each epsilon and name the
answers (rows without their heads), and the processor ms a question of this process: PostgreSQL's own come on top. It
imports nothing of duckdp.
"""

from __future__ import annotations

import importlib
import json
import logging
import sys
import tempfile
import time
import warnings
from typing import Any


def ask(reader: Any, texts: list[str]) -> dict[str, Any]:
    """Answers of a reader, and what one took."""
    reader.execute(texts[0])  # what is loaded at the first is not counted
    began = time.process_time()
    answers = [[list(map(_plain, row)) for row in reader.execute(text)[1:]] for text in texts]
    return {"answers": answers, "ms": 1000 * (time.process_time() - began) / len(texts)}


def _plain(value: Any) -> object:
    return value if isinstance(value, str) else float(value)


def main() -> None:
    """Start PostgreSQL in a folder, fill it, ask, and print."""
    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)
    snsql, pgserver, psycopg2 = map(importlib.import_module, ("snsql", "pgserver", "psycopg2"))
    asked, found = json.load(sys.stdin), {}
    with tempfile.TemporaryDirectory(prefix="duckdp-bench-", ignore_cleanup_errors=True) as folder:
        server = pgserver.get_server(folder)
        try:
            connection = psycopg2.connect(server.get_uri())
            with connection, connection.cursor() as cursor:
                for statement in asked["statements"]:
                    cursor.execute(statement)
            for epsilon in asked["epsilons"]:
                privacy = snsql.Privacy(epsilon=float(epsilon), delta=asked["delta"])
                reader = snsql.from_connection(connection, privacy=privacy, metadata=asked["metadata"])
                cost = {name: reader.get_privacy_cost(texts[0]) for name, texts in asked["questions"].items()}
                found[epsilon] = {name: ask(reader, texts) for name, texts in asked["questions"].items()}
                for name, (spent, delta) in cost.items():
                    found[epsilon][name] |= {"epsilon": float(spent), "delta": float(delta)}
            connection.close()
        finally:
            server.cleanup()
    json.dump(found, sys.stdout)


if __name__ == "__main__":
    main()

"""The attack suite's statements over the wire: refused or answered, never with a private value in what comes back."""

from __future__ import annotations

import ast
import re
import threading
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

import duckdp
from duckdp.serve.serving import users_beside
from tests.adversary.conftest import SECRETS, leaks, make_file, protect
from tests.adversary.test_planted_secrets import REFUSED
from tests.serve.conftest import PASSWORD, Served, start

FOLDER = Path(__file__).parent.parent / "adversary"
STATEMENT = re.compile(
    r"\s*(SELECT|FROM|WITH|SET|COPY|CREATE|ATTACH|INSTALL|LOAD|PRAGMA|CALL|EXPORT|IMPORT|PREPARE|EXECUTE|DESCRIBE|"
    r"SUMMARIZE|PIVOT|TABLE|VALUES|INSERT|DELETE|UPDATE|DROP|SHOW|EXPLAIN|CHECKPOINT|DETACH|USE|RESET)\b",
    re.IGNORECASE,
)
CELLS = tuple(s for s in SECRETS if not s.isdecimal() or len(s) > 5)  # none is like a noisy count
SECONDS = 10.0  # after which a statement is cancelled


def texts() -> list[str]:
    """Every text of the attack suite that reads like a statement."""
    found: dict[str, None] = {}
    for path in sorted(FOLDER.glob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and STATEMENT.match(node.value):
                found[node.value] = None
    return list(found)


@pytest.fixture(scope="module")
def attacked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A server of the world with planted secrets."""
    folder = tmp_path_factory.mktemp("attacked")
    path, ledger = folder / "clinic.duckdb", folder / "clinic.ledger"
    make_file(path)
    with duckdp.open(path, ledger=ledger) as owner:
        protect(owner)
        owner.budget(epsilon=100, delta="1e-5")
        owner.grant("ana", epsilon=100, delta="1e-6")
    users_beside(str(ledger)).add("ana", PASSWORD)
    found = start(str(path), str(ledger), "--grid", "0")
    yield found
    assert found.stop() == 0


def sent(served: Served, statements: list[str]) -> tuple[int, int]:
    """Send each, by both protocols; how many were refused, and how many connections ended with their process."""
    refused = ended = 0
    said: list[str] = []

    def told(notice: psycopg.errors.Diagnostic) -> None:
        said.append(str(notice.message_primary))

    client: psycopg.Connection[tuple[object, ...]] | None = None
    for text in statements:
        for binary in (False, True):
            if client is None or client.closed:
                if client is not None:
                    client.close()
                client = psycopg.connect(served.dsn(), autocommit=True)
                client.execute("SET dp.epsilon = 0.001")
                client.add_notice_handler(told)
            said.clear()
            stop = threading.Timer(SECONDS, client.cancel)
            stop.start()
            try:
                cursor = client.execute(text.encode(), () if binary else None, binary=binary, prepare=binary)
                said += [str(row) for row in cursor.fetchall()[:1000]] if cursor.description else []
            except psycopg.Error as error:
                refused += 1
                said.append(f"{error} {error.diag.message_detail} {error.diag.message_hint}")
            finally:
                stop.cancel()
            ended += client.closed
            shown = "\n".join(said)
            assert not [s for s in leaks(shown) if s in CELLS and s not in text], (text, shown)
            assert "Traceback" not in shown, text
    if client is not None:
        client.close()
    return refused, ended


def test_statements_that_are_refused_show_no_secret(attacked: Served) -> None:
    refused, ended = sent(attacked, list(REFUSED[::3]))
    assert refused > len(REFUSED[::3])  # some of them are answered privately by now
    assert ended == 0


def test_statements_that_would_keep_what_they_read_show_no_secret(attacked: Served) -> None:
    texts = [f"CREATE OR REPLACE TABLE stolen AS {text}" for text in REFUSED[1::9]]
    refused, ended = sent(attacked, [part for text in texts for part in (text, "SELECT * FROM stolen")])
    assert refused > len(texts)
    assert ended == 0


@pytest.mark.slow
def test_the_whole_attack_suite_over_the_wire(attacked: Served) -> None:
    statements = texts()
    assert len(statements) > 200
    statements += [f"CREATE OR REPLACE TABLE stolen AS {text}" for text in statements]
    refused, ended = sent(attacked, statements)
    print(f"{len(statements)} statements twice: {refused} refused, {ended} connections ended")
    with psycopg.connect(attacked.dsn(), autocommit=True) as client:
        assert client.execute("SELECT 1").fetchone() == (1,)
    with duckdp.open(attacked.source, ledger=attacked.ledger, snapshot=True) as owner:
        owner.ledger.verify()

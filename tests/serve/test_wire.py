"""serve/: messages, values and statements by themselves; conversations over bare sockets, hostile ones too."""

from __future__ import annotations

import datetime as dt
import math
import random
import re
import socket
import struct
import threading
import time
import uuid
from contextlib import suppress
from decimal import Decimal

import duckdb
import psycopg
import pytest

from duckdp.resources import read_sql
from duckdp.serve import messages as say
from duckdp.serve.channel import HEAD, frame, read_body, read_head
from duckdp.serve.conversation import Conversation
from duckdp.serve.inferred import inferred
from duckdp.serve.messages import Body, ProtocolError, read_parameters
from duckdp.serve.running import _ONE_OF, _SCANNED
from duckdp.serve.settings import Settings
from duckdp.serve.sqlstates import Refused
from duckdp.serve.statements import count_parameters, read_statement, split, substitute
from duckdp.serve.values import read_parameter, type_of
from duckdp.serve.voice import Voice

# ---- messages ------------------------------------------------------------------------------------------------------


def test_bodies_are_read_to_their_end_and_not_beyond() -> None:
    body = Body(b"abc\0" + struct.pack("!HiH", 7, -1, 2) + struct.pack("!HH", 1, 2) + b"xy")
    assert (body.text(), body.int16(), body.int32(), body.int16s(), body.rest()) == ("abc", 7, -1, [1, 2], b"xy")
    body.end()
    for broken in (b"abc", b"\xff\0", b""):
        with pytest.raises(ProtocolError):
            Body(broken).text()
    with pytest.raises(ProtocolError):
        Body(b"12").int32()
    with pytest.raises(ProtocolError):
        Body(b"1").end()
    with pytest.raises(ProtocolError):
        Body(struct.pack("!Hi", 1, 100)).values()
    with pytest.raises(ProtocolError):
        Body(struct.pack("!Hi", 1, -2)).values()
    assert Body(struct.pack("!Hi", 1, -1)).values() == [None]


def test_random_bytes_are_read_or_refused() -> None:
    draw = random.Random(5)
    for _ in range(20_000):
        data = draw.randbytes(draw.randrange(40))
        for read in (Body.text, Body.int16s, Body.int32s, Body.values, read_parameters):
            with suppress(ProtocolError):
                read(Body(data))


# ---- values --------------------------------------------------------------------------------------------------------

CASES = [
    ("BOOLEAN", True),
    ("SMALLINT", -7),
    ("INTEGER", 2**31 - 1),
    ("BIGINT", -(2**63)),
    ("DOUBLE", 0.1),
    ("DOUBLE", -1e300),
    ("VARCHAR", "it's €"),
    ("BLOB", b"\0\xff"),
    ("DATE", dt.date(1999, 12, 31)),
    ("DATE", dt.date(2024, 2, 29)),
    ("TIMESTAMP", dt.datetime(1970, 1, 1, 1, 2, 3, 456)),
    ("TIME", dt.time(23, 59, 59, 999999)),
    ("UUID", uuid.UUID(int=2**127 + 5)),
    ("INTERVAL", dt.timedelta(days=-1, seconds=5)),
    ("INTEGER[]", [1, None, -3]),
    ("VARCHAR[]", ["a,b", 'q"', "", None, "NULL", "\\"]),
    ("HUGEINT", Decimal(2**100)),
    *[
        ("DECIMAL(38,6)", Decimal(v))
        for v in ("0", "0.000001", "-1", "10000", "9999.9999", "-123456789012345.000001", "1E+5", "0.0100")
    ],
]


@pytest.mark.parametrize(("kind", "value"), CASES)
def test_values_are_what_a_driver_reads(kind: str, value: object) -> None:
    """In both formats, by psycopg's own readers of that OID."""
    found = type_of(kind)
    adapters = psycopg.adapters
    for form in (psycopg.pq.Format.TEXT, psycopg.pq.Format.BINARY):
        loader = adapters.get_loader(found.oid, form)
        assert loader is not None
        data = (found.text, found.binary)[form](value)
        assert loader(found.oid).load(data) == value


def test_numbers_survive_at_random() -> None:
    draw = random.Random(7)
    loader = psycopg.adapters.get_loader(1700, psycopg.pq.Format.BINARY)
    assert loader is not None
    for _ in range(2_000):
        value = Decimal(draw.randrange(-(10**20), 10**20)).scaleb(-draw.randrange(0, 19))
        data = type_of("DECIMAL(38,18)").binary(value)
        assert loader(1700).load(data) == value
        assert read_parameter(1700, True, data) == value
    for special in (math.inf, -math.inf, math.nan):
        text = type_of("DOUBLE").text(special).decode()
        assert repr(float(text)) == repr(special)


def test_parameters_are_read_by_their_type_or_refused() -> None:
    assert read_parameter(23, True, struct.pack("!i", -5)) == -5
    assert read_parameter(23, False, b"-5") == -5
    assert read_parameter(16, False, b"t") is True
    assert read_parameter(1082, True, struct.pack("!i", 0)) == dt.date(2000, 1, 1)
    assert read_parameter(25, False, "€".encode()) == "€"
    assert read_parameter(23, True, None) is None
    broken = (
        ((23, True, b"1"), (23, False, b"x"), (1700, True, b"\0"), (16, False, b"maybe"), (99, True, b"")),
        ((25, False, b"\xff"),),
    )
    for oid, binary, raw in (*broken[0], *broken[1]):
        with pytest.raises(ProtocolError):
            read_parameter(oid, binary, raw)


def test_types_have_the_numbers_that_the_catalog_tells() -> None:
    shown = dict(re.findall(r"\((\d+), '(\w+)', -?\d+, '[A-Z]', \d+", read_sql("pg_catalog.sql")))
    mapped = dict(re.findall(r"'([A-Z_ ]+)': (\d+)", read_sql("pg_catalog.sql")))
    assert len(mapped) > 15
    for name, oid in mapped.items():
        assert type_of(name).oid == int(oid), name
        assert shown[oid] == type_of(name).name


# ---- statements ----------------------------------------------------------------------------------------------------


def test_statements_end_at_semicolons_that_are_none_of_a_text() -> None:
    text = """select ';' ; select $$;$$, $a$;$a$ -- ;
    ; /* ; /* ; */ */ select ";" ;; -- nothing
    ;"""
    assert [s.split()[0] for s in split(text)] == ["select", "select", "/*"]
    assert split(" ; ;-- x") == []


@pytest.mark.parametrize(
    ("text", "kind", "name", "value"),
    [
        ("SET dp.epsilon = 0.1", "set", "dp.epsilon", "0.1"),
        ("set session extra_float_digits to 3", "set", "extra_float_digits", "3"),
        ("SET TIME ZONE 'UTC'", "set", "timezone", "UTC"),
        ("RESET dp.epsilon", "set", "dp.epsilon", None),
        ("SET VARIABLE x = 1", "query", "", None),
        ("show transaction isolation level", "show", "transaction isolation level", None),
        ("BEGIN READ ONLY", "begin", "", None),
        ('DECLARE "c 1" NO SCROLL CURSOR WITH HOLD FOR SELECT 1', "declare", "c 1", "SELECT 1"),
        ("FETCH FORWARD 50 FROM c", "fetch", "c", "50"),
        ("fetch all in c", "fetch", "c", "all"),
        ("CLOSE c", "close", "c", None),
        ("COPY (SELECT 1) TO STDOUT WITH (FORMAT csv, HEADER)", "copy", "", "SELECT 1"),
        ("COPY t TO STDOUT", "copy", "", "FROM t"),
        ("COPY t (a, b) TO STDOUT", "copy", "", "SELECT a, b FROM t"),
        ("MOVE FORWARD 2 IN c", "move", "c", "2"),
        ('ROLLBACK WORK TO SAVEPOINT "a b"', "rollback to", "a b", None),
        ("rollback work", "rollback", "", None),
        ("SET NAMES 'UTF8'", "set", "client_encoding", "UTF8"),
        ("SET SESSION AUTHORIZATION DEFAULT", "set", "role", None),
        ("DEALLOCATE ALL", "deallocate", "all", None),
        ("SELECT 1", "query", "", None),
        ("/* SET */ SELECT 1", "query", "", None),
        ("-- of a tool\n/* /* its */ user */ SET dp.epsilon = 1", "set", "dp.epsilon", "1"),
        ("/* a */ copy s.t (a) from stdin csv", "copy from", "s.t", None),
        ("COPY (SELECT a FROM stdin) TO STDOUT", "copy", "", "SELECT a FROM stdin"),
        ('COPY "s" . "t u" ("a") FROM STDIN WITH (FORMAT binary)', "copy from", '"s"."t u"', None),
        ("COPY t FROM 'stdin'", "query", "", None),
    ],
)
def test_statements_are_told_apart(text: str, kind: str, name: str, value: str | None) -> None:
    found = read_statement(text)
    assert (found.kind, found.name, found.value) == (kind, name, value)


def test_parameters_stand_where_the_text_has_them() -> None:
    text = "SELECT '$1', $1, \"$2\", $$ $1 $$, $2 -- $1"
    assert count_parameters(text) == 2
    assert substitute(text, ["A", "B"]) == "SELECT '$1', A, \"$2\", $$ $1 $$, B -- $1"


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("dp.epsilon", ("NaN", "-1", "1e400", "much", "")),
        ("dp.delta", ("1", "-1e-9", "5")),
        ("dp.error", ("0", "-3", "inf", "wide")),
        ("dp.tolerance", ("0", "nan")),
        ("dp.mechanism", ("cauchy",)),
        ("dp.min_units", ("0", "2.5", "-3")),
        ("dp.intervals", ("maybe",)),
        ("dp.fresh", ("2",)),
    ],
)
def test_a_term_that_cannot_be_is_refused_where_it_is_set(name: str, values: tuple[str, ...]) -> None:
    settings = Settings("ana")
    for value in values:
        with pytest.raises(Refused, match=f"{name}") as caught:
            settings.set(name, value)
        way_out = read_statement(caught.value.hint.rstrip(";"))
        settings.set(way_out.name, way_out.value)
    settings.take(name, values[0])  # with the connection: kept, so that the first question says so
    assert settings.show(name) == values[0]
    settings.take("dp.nothing", "1")


def test_settings_are_set_shown_and_refused() -> None:
    settings = Settings("ana")
    settings.set("dp.epsilon", "0.1")
    settings.set("dp.intervals", "ON")
    assert settings.terms() == {"epsilon": "0.1", "intervals": "true"}
    assert settings.set("application_name", "x") == "application_name"
    assert settings.show("application_name") == "x"
    settings.reset()
    assert settings.terms() == {}
    for name, value in (
        ("dp.eps", "1"),
        ("dp.intervals", "maybe"),
        ("client_encoding", "LATIN1"),
        ("server_version", "9"),
        ("nothing", "1"),
    ):
        with pytest.raises(Refused):
            settings.set(name, value)
    with pytest.raises(Refused):
        settings.show("nothing")


# ---- conversations -------------------------------------------------------------------------------------------------


def _converse(theirs: socket.socket, con: duckdb.DuckDBPyConnection) -> threading.Thread:
    def run() -> None:
        with theirs:
            Conversation(theirs, con.cursor(), protected=frozenset, user="ana").run((1, 2))

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    return thread


def _message(kind: bytes, body: bytes = b"") -> bytes:
    return kind + struct.pack("!I", len(body) + 4) + body


def _read_all(sock: socket.socket) -> bytes:
    sock.settimeout(20)
    parts = []
    while part := sock.recv(1 << 16):
        parts.append(part)
    return b"".join(parts)


def _kinds(data: bytes) -> list[bytes]:
    """Types of whole messages; what is left over is a fault."""
    found, at = [], 0
    while at < len(data):
        found.append(data[at : at + 1])
        at += 1 + int.from_bytes(data[at + 1 : at + 5], "big")
    assert at == len(data)
    return found


def test_simple_and_extended_questions(
    con: duckdb.DuckDBPyConnection, ends: tuple[socket.socket, socket.socket]
) -> None:
    ours, theirs = ends
    thread = _converse(theirs, con)
    extended = [
        (b"P", b"s\0SELECT $1 + 1\0" + struct.pack("!HI", 1, 23)),
        (b"B", b"p\0s\0" + struct.pack("!HHi", 0, 1, 1) + b"4" + struct.pack("!H", 0)),
        (b"D", b"Pp\0"),
        (b"E", b"p\0" + struct.pack("!i", 0)),
        (b"C", b"Ss\0"),
        (b"S", b""),
    ]
    ours.sendall(b"".join(_message(*m) for m in [(b"Q", b"SELECT 1; SELECT nope; SELECT 2\0"), *extended, (b"X", b"")]))
    kinds = _kinds(_read_all(ours))
    thread.join(20)
    assert kinds[kinds.index(b"Z") + 1 :] == [b"T", b"D", b"C", b"E", b"Z", *b"1 2 T D C 3 Z".split()]


def test_after_an_error_nothing_is_heard_until_sync(
    con: duckdb.DuckDBPyConnection, ends: tuple[socket.socket, socket.socket]
) -> None:
    ours, theirs = ends
    thread = _converse(theirs, con)
    said = [
        (b"P", b"\0SELEC\0\0\0"),
        (b"B", b"\0\0" + bytes(6)),
        (b"E", b"\0" + bytes(4)),
        (b"S", b""),
        (b"Q", b"SELECT 1\0"),
    ]
    ours.sendall(b"".join(_message(*m) for m in [*said, (b"X", b"")]))
    kinds = _kinds(_read_all(ours))
    thread.join(20)
    assert kinds[kinds.index(b"Z") + 1 :] == [b"1", b"2", b"E", b"Z", b"T", b"D", b"C", b"Z"]


def test_a_copy_that_is_refused_takes_the_data_behind_it_along(
    con: duckdb.DuckDBPyConnection, ends: tuple[socket.socket, socket.socket]
) -> None:
    """A client may send its rows before it hears of the refusal; they are passed over, as PostgreSQL does."""
    ours, theirs = ends
    thread = _converse(theirs, con)
    rows = [(b"d", b"1\n"), (b"d", b""), (b"c", b"")]
    given = [(b"P", b"\0COPY t FROM STDIN\0\0\0"), (b"B", b"\0\0" + bytes(6)), (b"D", b"P\0"), (b"E", b"\0" + bytes(4))]
    said = [(b"Q", b"COPY t FROM STDIN\0"), *rows, *given, *rows, (b"S", b""), (b"f", b"no\0"), (b"Q", b"SELECT 1\0")]
    ours.sendall(b"".join(_message(*m) for m in [*said, (b"X", b"")]))
    kinds = _kinds(_read_all(ours))
    thread.join(20)
    assert kinds[kinds.index(b"Z") + 1 :] == b"E Z 1 2 n E Z T D C Z".split()


def test_names_without_an_end_are_read_in_a_time_that_grows_with_them() -> None:
    """Each letter more doubled it once, in the one thread that all connections of the analyst share."""
    began = time.process_time()
    for text in ("COPY " + "a" * 5_000 + "!", "COPY " + 'a."b" .' * 2_000 + "("):
        assert read_statement(text).kind == "query"
    assert _SCANNED.fullmatch('SELECT "' + '""' * 5_000 + " FROM (") is None
    assert _ONE_OF.match("= ANY(ARRAY[" + "''" * 5_000) is None
    assert _ONE_OF.match("= ANY(ARRAY['it''s', ''])")
    assert _SCANNED.fullmatch('SELECT "a""b", "c" FROM (SELECT 1) AS __unnamed_subquery')
    assert inferred("SELECT $1, " + "_" * 100_000, 1, lambda: {"_": "INTEGER"}) == [0]
    assert time.process_time() - began < 20


def test_hostile_messages_end_their_own_conversation(con: duckdb.DuckDBPyConnection) -> None:
    """Whatever is sent: whole messages come back, then the end; no exception leaves the thread, nothing waits."""
    draw = random.Random(11)
    failed: list[BaseException] = []

    def run(theirs: socket.socket) -> None:
        try:
            with theirs:
                Conversation(theirs, con.cursor(), protected=frozenset, user="ana").run((1, 2))
        except BaseException as error:  # noqa: BLE001
            failed.append(error)

    texts = [
        b"SELECT 1\0",
        b"",
        b"p\0s\0",
        b"\0\0",
        b"Sp\0",
        bytes(8),
        b"\xff" * 9,
        b"BEGIN\0",
        b"COPY x TO STDOUT\0",
        b"$1\0",
    ]
    for _ in range(150):
        ours, theirs = socket.socketpair()
        thread = threading.Thread(target=run, args=(theirs,), daemon=True)
        thread.start()
        said = b""
        for _ in range(draw.randrange(1, 8)):
            body = b"".join(draw.choice(texts) for _ in range(draw.randrange(3)))
            said += _message(bytes([draw.choice(b"QPBDECSHXpdfz\0")]), body)
        if draw.random() < 0.5:
            said = said[: draw.randrange(len(said) + 1)]
        with ours:
            ours.sendall(said)
            ours.shutdown(socket.SHUT_WR)
            _kinds(_read_all(ours))
        thread.join(20)
        assert not thread.is_alive()
    assert failed == []


@pytest.mark.parametrize("length", [0, 3, 2**31 - 1, 2**32 - 1])
def test_lengths_that_cannot_be_end_it(
    con: duckdb.DuckDBPyConnection, ends: tuple[socket.socket, socket.socket], length: int
) -> None:
    ours, theirs = ends
    thread = _converse(theirs, con)
    ours.sendall(b"Q" + struct.pack("!I", length))
    answered = _read_all(ours)
    thread.join(20)
    assert b"08P01" in answered


def test_an_error_tells_its_state_and_place() -> None:
    data = say.problem({"C": "42601", "M": "wrong", "P": "3"})
    assert data[:1] == b"E"
    assert b"C42601\0" in data
    assert b"P3\0" in data
    assert data.endswith(b"\0\0")


@pytest.mark.parametrize(
    "said", ["E102: interrupted; nothing was charged.", "X101: the server failed on this call.", None]
)
def test_what_the_server_refuses_while_duckdb_binds_is_told_in_its_words(said: str) -> None:
    """It came back as the SELECT that stands for a call, and DuckDB could not parse it."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        voice = Voice(ours, lambda _: None)

        def answer() -> None:
            whole, text = read_head(theirs.recv(HEAD), 2**20)
            number, *_ = read_body(theirs.recv(whole), text)[0]
            theirs.sendall(frame([number, said, []]))

        threads = [threading.Thread(target=answer), threading.Thread(target=voice.listen)]
        for thread in threads:
            thread.start()
        select = voice.bind("dp_query", ["SELECT 1"], [])
        theirs.close()
        for thread in threads:
            thread.join()
    with duckdb.connect() as con, pytest.raises(duckdb.InvalidInputException, match=said):
        con.execute(select)

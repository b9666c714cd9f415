"""What Describe announces is what Execute sends: for every shape, parameters of every type, other settings between."""

from __future__ import annotations

import asyncio
import datetime as dt
import re
import struct
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import asyncpg
import pg8000.dbapi
import psycopg
import pyarrow as pa
import pytest

import duckdp
from duckdp import client
from duckdp.client.types import oid_of_value
from duckdp.serve.announced import _SAMPLES, samples
from duckdp.serve.values import Untyped, read_parameter
from tests.serve.conftest import PASSWORD, Served

DAY = dt.date(2024, 3, 1)
NOON = dt.datetime(2024, 3, 1, 12)
#: Statements, and parameters: the text of $1, $2, ... and what Python would give.
ASKED: list[tuple[str, list[object]]] = [
    ("SELECT count(*) AS n FROM t WHERE x > $1", [4]),
    ("SELECT count(*) AS n FROM t WHERE x > $1", [4_000]),  # no row can count: a note
    ("SELECT count(*) AS n FROM t WHERE x > coalesce($1, 5)", [4_000]),
    ("SELECT count(*) AS n FROM t WHERE x > $1", [Decimal("1.25")]),
    ("SELECT count(*) AS n FROM t WHERE f > $1", [1.5]),
    ("SELECT count(*) AS n FROM t WHERE m > $1", [Decimal("1.25")]),
    ("SELECT count(*) AS n FROM t WHERE ok = $1", [True]),
    ("SELECT count(*) AS n FROM t WHERE $1 = ok", [False]),
    ("SELECT count(*) AS n FROM t WHERE ok IS NOT DISTINCT FROM $1", [None]),
    ("SELECT count(*) AS n FROM t WHERE $1", [True]),
    ("SELECT count(*) AS n FROM t WHERE ok = ANY($1)", [[True]]),
    ("SELECT count(*) AS n FROM t WHERE x = ANY($1)", [[1, 2]]),
    ("SELECT count(*) AS n FROM t WHERE day > $1", [DAY]),
    ("SELECT count(*) AS n FROM t WHERE day > $1", [NOON]),
    ("SELECT count(*) AS n FROM t WHERE at > $1", [NOON]),
    ("SELECT count(*) AS n FROM t WHERE at > $1", [NOON.replace(tzinfo=dt.UTC)]),
    ("SELECT count(*) AS n FROM t WHERE at > $1 AND day < $2", [DAY, DAY]),
    ("SELECT count(*) AS n FROM t WHERE at > TIMESTAMP '2024-01-02' + $1", [dt.timedelta(hours=5)]),
    ("SELECT count(*) AS n FROM t WHERE s = $1", ["a"]),
    ("SELECT count(*) AS n FROM t WHERE s IN ($1, $2)", ["a", None]),
    ("SELECT count(*) AS n FROM t WHERE free LIKE $1", ["w1%"]),
    ("SELECT count(*) AS n FROM t WHERE free = $1", ["5"]),
    ("SELECT s, count(*) AS n, avg(f) AS a FROM t GROUP BY s", []),
    ("SELECT s, count(*) AS n FROM t WHERE x > $1 GROUP BY s ORDER BY s LIMIT $2", [3, 1]),
    ("SELECT s, count(*) AS n FROM t GROUP BY s HAVING count(*) > $1", [10]),
    ("SELECT free, count(*) AS n FROM t WHERE x > $1 GROUP BY free", [2]),
    ("SELECT x // $1 AS b, count(*) AS n FROM t GROUP BY b", [50]),
    ("SELECT date_trunc($1, day) AS d, count(*) AS n FROM t GROUP BY d", ["month"]),
    ("SELECT s, avg(x * $1) AS a FROM t GROUP BY s", [2]),
    ("SELECT sum(x * $1) AS a FROM t", [1.5]),
    ("SELECT sum(x * $1) AS a FROM t", [2]),
    ("SELECT sum(x + $1) FROM t", [2]),
    ("SELECT count(*) + $1 AS a FROM t", [2]),
    ("SELECT sum(CASE WHEN ok = $1 THEN x ELSE $2 END) AS z FROM t", [True, 0]),
    ("SELECT count(CASE WHEN x > $1 THEN 1 END), avg(f) FROM t", [10]),
    ("SELECT quantile_cont(x, $1) AS q FROM t", [0.25]),
    ("SELECT median(x) AS q, count(*) AS n FROM t WHERE f > $1", [2]),
    ("SELECT $1 AS k, count(*) AS n FROM t", [3]),
    ("SELECT $1::VARCHAR AS k, count(*) AS n FROM t", ["k"]),
    ("SELECT max(n) FROM (SELECT s, count(*) AS n FROM t WHERE x > $1 GROUP BY s)", [3]),
    ("SELECT s, n, n * $1 AS twice FROM (SELECT s, count(*) AS n FROM t GROUP BY s) WHERE n > $2", [2, 3]),
    ("WITH a AS (SELECT s, count(*) AS n FROM t WHERE ok = $1 GROUP BY s) SELECT sum(n) FROM a", [True]),
    ("FROM dp_noisy_count('t', epsilon := 1, predicate := $1)", ["x > 3"]),
    ("FROM dp_noisy_count('t', epsilon := 1, predicate := $1)", ["x > 4000"]),
    ("FROM dp_noisy_count('t', epsilon := $1)", [1]),
    ("EXPLAIN SELECT count(*) FROM t WHERE x > $1", [4]),
    ("SELECT x FROM t WHERE false", []),
    ("SELECT range AS i, $1 AS k FROM range($2)", ["k", 3]),
    ("SELECT $1 + 1", [1]),
    ("SHOW dp.epsilon", []),
    ("SHOW tables", []),
    ("SHOW ALL", []),
    ("CREATE OR REPLACE TABLE kept AS SELECT count(*) AS n FROM t WHERE ok = $1", [True]),
    ("SET dp.delta = '1e-9'", []),
]
STAMP = r"\d{4}-\d\d-\d\d"
#: What a value in text looks like, by the number of its type.
LOOKS = {
    16: r"[tf]",
    **dict.fromkeys((20, 21, 23), r"-?\d+"),
    **dict.fromkeys((700, 701, 1700), r"-?[\d.]+(e[+-]?\d+)?|NaN|-?Infinity"),
    1082: STAMP,
    1114: STAMP + r" \d\d:\d\d:\d\d(\.\d+)?",
}
Heard = list[tuple[bytes, bytes]]


# ---- the oracle ------------------------------------------------------------------------------------------------------


def misfits(heard: Heard) -> list[str]:
    """Rows that a client cannot read by what was announced last."""
    announced: list[int] | None = None
    found: list[str] = []
    for kind, body in heard:
        if kind == b"T":
            announced = oids(body)
        elif kind == b"n":
            announced = []
        elif kind == b"D":
            values = cells(body)
            if announced is None or len(values) != len(announced):
                found.append(f"{len(values)} values for {announced}")
                continue
            for oid, value in zip(announced, values, strict=True):
                if value is not None and not re.fullmatch(LOOKS.get(oid, ".*"), value, re.DOTALL):
                    found.append(f"{value} is none of {oid}")
    return found


def oids(body: bytes) -> list[int]:
    """The types of a RowDescription."""
    at, found = 2, []
    for _ in range(struct.unpack_from("!H", body)[0]):
        at = body.index(b"\0", at) + 1
        found.append(struct.unpack_from("!I", body, at + 6)[0])
        at += 18
    return found


def cells(body: bytes) -> list[str | None]:
    """The values of a DataRow, as text."""
    at, found = 2, list[str | None]()
    for _ in range(struct.unpack_from("!H", body)[0]):
        (size,) = struct.unpack_from("!i", body, at)
        at += 4
        found.append(None if size < 0 else body[at : at + size].decode())
        at += max(0, size)
    return found


def described(*types: int) -> tuple[bytes, bytes]:
    columns = b"".join(b"c\0" + struct.pack("!IhIhih", 0, 0, oid, -1, -1, 0) for oid in types)
    return b"T", struct.pack("!H", len(types)) + columns


def row(*values: str) -> tuple[bytes, bytes]:
    return b"D", struct.pack("!H", len(values)) + b"".join(struct.pack("!i", len(v)) + v.encode() for v in values)


def test_the_oracle_catches_its_twins() -> None:
    """Such as the server sent: one value less than announced, one more, one of another type, none announced."""
    assert not misfits([described(20, 701), row("3", "-1.5e-07"), row("-4", "NaN")])
    for broken in (
        [described(20, 701, 701, 701, 25), row("3", "1.5", "2", "5")],
        [described(20), row("3", "1.5")],
        [described(20), row("1.5")],
        [described(701), row("hello")],
        [described(20), (b"n", b""), row("3")],
        [row("3")],
    ):
        assert misfits(broken), broken


# ---- over the wire ---------------------------------------------------------------------------------------------------


@dataclass
class Wire:
    """Bare messages to an analyst's process, and what comes back."""

    con: client.Connection

    def send(self, *messages: tuple[bytes, bytes]) -> Heard:
        sock: Any = self.con._driver._sock
        sync = () if messages[0][0] == b"Q" else ((b"S", b""),)
        for kind, body in (*messages, *sync):
            sock.write(kind + struct.pack("!i", len(body) + 4) + body)
        sock.flush()
        heard: Heard = []
        while not heard or heard[-1][0] != b"Z":
            head = sock.read(5)
            assert len(head) == 5, "the process has ended"
            heard.append((head[:1], sock.read(int.from_bytes(head[1:], "big") - 4)))
        return heard

    def say(self, text: str) -> None:
        assert self.state_of(self.send((b"Q", text.encode() + b"\0"))) is None

    @staticmethod
    def state_of(heard: Heard) -> str | None:
        """The SQLSTATE of an error, and what it says."""
        errors = [body.decode() for kind, body in heard if kind == b"E"]
        return None if not errors else " ".join(p[1:] for p in errors[0].split("\0") if p[:1] in ("C", "M"))


def parse(text: str, types: list[int]) -> tuple[bytes, bytes]:
    return b"P", b"s\0" + text.encode() + b"\0" + struct.pack(f"!H{len(types)}I", len(types), *types)


def bind(values: list[object]) -> tuple[bytes, bytes]:
    crossing = pg8000.converters.make_params(pg8000.converters.PY_TYPES, values)
    data = b"".join(
        b"\xff\xff\xff\xff" if v is None else struct.pack("!i", len(v.encode())) + v.encode() for v in crossing
    )
    return b"B", b"\0s\0" + struct.pack("!HH", 0, len(values)) + data + struct.pack("!H", 0)


CLOSE, STATEMENT, PORTAL, EXECUTE = (b"C", b"Ss\0"), (b"D", b"Ss\0"), (b"D", b"P\0"), (b"E", b"\0\0\0\0\0")


@pytest.fixture(scope="module", params=["rows", "units"])
def owner(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[duckdp.Curator]:
    """A curator of a table with a column of each type; of its units, if it has any, not all rows count: a note."""
    size = 200
    table = pa.table(
        {
            "x": list(range(size)),
            "f": [i / 2 for i in range(size)],
            "ok": [i % 2 == 0 for i in range(size)],
            "s": ["ab"[i % 2] for i in range(size)],
            "free": [f"w{i}" for i in range(size)],
            "day": [dt.date(2024, 1, 1) + dt.timedelta(days=i) for i in range(size)],
            "at": [dt.datetime(2024, 1, 1) + dt.timedelta(hours=i) for i in range(size)],
            "m": pa.array([Decimal(i) / 100 for i in range(size)], pa.decimal128(9, 2)),
            "who": [i // 2 for i in range(size)],
        }
    )
    year = ("2024-01-01", "2024-12-31")
    told: dict[str, Any] = {
        "row_cap": 9_000,
        "bounds": {"x": (0, 199), "f": (0, 100), "m": (0, 2), "day": year, "at": year},
        "domains": {"s": ["a", "b"]},
        "columns": ["ok", "free"],
    }
    ledger = str(tmp_path_factory.mktemp("announced") / "t.ledger")
    with duckdp.open({"t": table}, ledger=ledger) as found:
        found.protect("t", **told, **({} if request.param == "rows" else {"unit_key": "who", "max_rows": 1}))
        found.budget(epsilon=1_000_000, delta=1e-3)
        found.grant("ana", epsilon=900_000, delta=1e-4)
        yield found


@pytest.fixture
def con(owner: duckdp.Curator) -> Iterator[client.Connection]:
    """A connection of ana's, without error columns until it says so."""
    with owner.connect("ana", isolated=True) as found:
        for setting in ("epsilon = 1", "delta = '1e-9'", "intervals = off"):
            found.execute(f"SET dp.{setting}")
        yield found


def some(owner: duckdp.Curator, *, intervals: str = "on") -> list[tuple[str, list[object]]]:
    """All statements, or some: of a table of units, where the note is other, and without intervals, where none is."""
    return ASKED if owner.tables["t"].unit_key is None and intervals == "on" else ASKED[::4]


def charges(owner: duckdp.Curator) -> int:
    return sum(entry.kind == "release" for entry in owner.ledger.log())


@pytest.mark.parametrize(
    ("intervals", "typed"), [("on", False), pytest.param("on", True, marks=pytest.mark.slow), ("off", False)]
)
def test_rows_are_as_announced(owner: duckdp.Curator, con: client.Connection, intervals: str, typed: bool) -> None:
    """Described as a statement, as a portal, as both, and executed once and again."""
    wire = Wire(con)
    wire.say(f"SET dp.intervals = {intervals}")
    for text, values in some(owner, intervals=intervals):
        for described in ([STATEMENT], [PORTAL], [STATEMENT, PORTAL]):
            head = [message for message in described if message == STATEMENT]
            tail = [message for message in described if message == PORTAL]
            types = [oid_of_value(v) for v in values] if typed else []
            heard = wire.send(CLOSE, parse(text, types), *head)
            heard += wire.send(bind(values), *tail, EXECUTE)
            heard += wire.send(bind(values), *tail, EXECUTE)
            assert misfits(heard) == [], (text, values, described)
            assert wire.state_of(heard) is None, (text, values, described)
            assert not heard_nothing(heard, text), (text, values, described)


def heard_nothing(heard: Heard, text: str) -> bool:
    """Whether a question of one row had none."""
    one = text.startswith("SELECT count(*) AS n FROM t WHERE")
    return one and sum(kind == b"D" for kind, _ in heard) != 2


@pytest.mark.parametrize("first", ["on", "off"])
def test_settings_between_change_no_row_that_was_announced(
    owner: duckdp.Curator, con: client.Connection, first: str
) -> None:
    """What does not fit any more is refused as drivers know it, before it is charged; prepared anew it is answered."""
    wire, refused = Wire(con), 0
    for text, values in some(owner):
        wire.say(f"SET dp.intervals = {first}")
        heard = wire.send(CLOSE, parse(text, []), STATEMENT)
        wire.say(f"SET dp.intervals = {'off' if first == 'on' else 'on'}")
        wire.say(f"SET dp.epsilon = {3 if first == 'on' else 5}")  # another question, if it is one
        before = charges(owner)
        heard += wire.send(bind(values), EXECUTE)
        assert misfits(heard) == [], (text, values)
        state = wire.state_of(heard)
        if state is not None:
            assert "0A000 cached plan must not change result type" in state, (text, values)
            assert charges(owner) == before, (text, values)
            refused += 1
        again = wire.send(STATEMENT, bind(values), EXECUTE)
        assert misfits(again) == [], (text, values)
        assert wire.state_of(again) is None, (text, values)
        wire.say("SET dp.epsilon = 1")
    assert refused > len(some(owner)) / 3


def test_a_type_that_only_a_parameter_tells_is_refused_before_the_charge(
    owner: duckdp.Curator, con: client.Connection
) -> None:
    wire = Wire(con)
    wire.send(CLOSE, parse("SELECT $1 AS k, count(*) AS n FROM t", []), STATEMENT)
    wire.say("SET dp.epsilon = 7")
    before = charges(owner)
    heard = wire.send(bind(["hello"]), EXECUTE)
    assert "cached plan" in str(wire.state_of(heard))
    assert charges(owner) == before
    heard = wire.send(bind(["hello"]), PORTAL, EXECUTE)
    assert wire.state_of(heard) is None
    assert misfits(heard) == []


# ---- drivers ---------------------------------------------------------------------------------------------------------


def test_our_client_is_answered_and_goes_on(con: client.Connection) -> None:
    """The connection that asked is there afterwards, and each answer is that of its own statement."""
    con.execute("SET dp.intervals = on")
    for text, values in ASKED:
        cursor = con.execute(re.sub(r"\$\d+", "?", text), values)
        if cursor.description is not None and text.startswith("SELECT count(*) AS n FROM t WHERE"):
            assert cursor.result.names == ["n"], text
            assert cursor.result.estimates()[0]["n"].low <= cursor.fetchall()[0][0], text
        assert con.execute("SELECT 17 AS own").fetchall() == [(17,)]


def test_parameters_of_every_type_mean_themselves(owner: duckdp.Curator, con: client.Connection) -> None:
    con.execute("SET dp.epsilon = 100")
    bounded = owner.tables["t"].unit_key is not None  # then one of each unit's two rows counts
    for text, values, true in (
        ("ok = ?", [True], 100),
        ("ok = ?", [False], 100),
        ("ok = ANY(?)", [[True, False]], 200),
        ("?", [True], 200),
        ("x >= ?", [150], 50),
        ("f >= ?", [75.0], 50),
        ("m >= ?", [Decimal("1.5")], 50),
        ("day >= ?", [dt.date(2024, 4, 1)], 109),
        ("day >= ?", [dt.datetime(2024, 3, 31, 12)], 109),
        ("at >= ?", [dt.datetime(2024, 1, 2)], 176),
        ("at >= ?", [dt.datetime(2024, 1, 2, 1, tzinfo=dt.timezone(dt.timedelta(hours=1)))], 176),
        ("at >= TIMESTAMP '2024-01-01' + ?", [dt.timedelta(days=1)], 176),
        ("s = ?", ["b"], 100),
        ("free = ?", ["w7"], 1),
        ("s = ?", [None], 0),
        ("x < ?", [2**70], 200),
        ("x IN (?, ?)", [1, None], 1),
    ):
        (found,) = con.execute(f"SELECT count(*) AS n FROM t WHERE {text}", values).fetchall()
        assert abs(found[0] - true) <= 1 or (bounded and true / 2 - 1 <= found[0] < true), (text, values, found)
    kept = [True, 3, 2**70, 1.5, Decimal("1.25"), DAY, dt.time(1, 2), NOON, uuid.UUID(int=5), b"\0x", "it's", None]
    con.execute(f"CREATE OR REPLACE TABLE own AS SELECT {', '.join(f'? AS c{i}' for i in range(len(kept)))}", kept)
    found = con.execute("FROM own").fetchall()[0]
    assert [*found] == [str(v) if isinstance(v, uuid.UUID) else v for v in kept]


def test_what_cannot_be_sent_or_read_leaves_no_answer_to_the_next_statement(
    owner: duckdp.Curator, con: client.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Odd:
        def __str__(self) -> str:
            raise ValueError("secret")

    for odd in (Odd(), "\ud800"):
        with pytest.raises(client.InterfaceError, match="cannot be sent"):
            con.execute("SELECT ?", [odd])
    assert con.execute("SELECT 1").fetchall() == [(1,)]
    for value in (float("inf"), float("nan")):
        with pytest.raises(client.DataError, match="no number to ask with"):
            con.execute("SELECT count(*) FROM t WHERE f < ?", [value])
    monkeypatch.setitem(con._driver.pg_types, 20, lambda _: 1 / 0)  # a row that the driver cannot read
    with pytest.raises(client.InterfaceError, match="connection was ended"):
        con.execute("SELECT count(*) AS n FROM t WHERE x > ?", [4])
    with pytest.raises(client.InterfaceError, match="closed"):
        con.execute("SELECT 2")


def test_pg8000_by_itself(served: Served) -> None:
    """It describes each statement before its parameters are known."""
    with pg8000.dbapi.Connection("ana", host="127.0.0.1", port=served.port, password=PASSWORD) as plain:
        plain.autocommit = True
        cursor = plain.cursor()
        cursor.execute("SET dp.epsilon = 1")
        for intervals in ("on", "off"):
            cursor.execute(f"SET dp.intervals = {intervals}")
            for text, values in (
                ("SELECT count(*) AS n FROM visits WHERE age > %s", (30,)),
                ("SELECT count(*) AS n FROM visits WHERE age > %s", (300,)),
                ("SELECT sex, avg(cost * %s) AS a FROM visits WHERE day > %s GROUP BY sex", (2, DAY)),
                ("SELECT count(*) AS n FROM visits WHERE sex LIKE %s", ("F%",)),
                ("SELECT count(*) AS n FROM visits WHERE (age > 3) = %s", (True,)),
                ("SELECT max(n) AS n FROM (SELECT sex, count(*) AS n FROM visits WHERE age > %s GROUP BY sex)", (3,)),
            ):
                cursor.execute(text, values)
                rows = cursor.fetchall()
                assert rows, text
                assert len(rows[0]) == len(cursor.description), text
                cursor.execute("SELECT 17")
                assert cursor.fetchall() == ([17],), text


def test_psycopg_by_itself(served: Served) -> None:
    """Prepared, executed again after a setting, with parameters of every type."""
    with psycopg.connect(served.dsn(), autocommit=True) as plain:
        plain.execute("SET dp.epsilon = 1")
        for intervals, wide in (("on", True), ("off", False), ("on", True)):
            plain.execute(f"SET dp.intervals = {intervals}")
            for text, values in (
                ("SELECT count(*) AS n FROM visits WHERE age > %s", [30]),
                ("SELECT count(*) AS n FROM visits WHERE (age > 3) = %s", [True]),
                ("SELECT sex, count(*) AS n FROM visits WHERE day > %s GROUP BY sex", [DAY]),
                ("SELECT count(*) AS n FROM visits WHERE cost > %s", [Decimal("1.5")]),
            ):
                done = plain.execute(text, values, prepare=True)
                assert done.description is not None
                names = [column.name for column in done.description]
                assert ("n_low" in names) == wide, text
                assert {len(one) for one in done.fetchall()} == {len(names)}, text


def test_asyncpg_prepares_anew_what_was_set_between(served: Served) -> None:
    """It keeps statements, and knows by PostgreSQL's words that one is out of date; it ends when it wants."""
    text = "SELECT sex, count(*) AS n FROM visits WHERE age > $1 AND sex LIKE $2 GROUP BY sex"

    async def run() -> list[bool]:
        con = await asyncpg.connect(host="127.0.0.1", port=served.port, user="ana", password=PASSWORD)
        await con.execute("SET dp.epsilon = 1")
        found = []
        for intervals in ("on", "off", "on"):
            await con.execute(f"SET dp.intervals = {intervals}")
            found += ["n_low" in row for row in (await con.fetch(text, 30, "%"))[:1]]
        for wrong in (
            "SELECT count(*) FROM visits WHERE age = 'x'",
            "SELECT count(*) FROM visits WHERE day > $1 + 'x'",
        ):
            with pytest.raises(asyncpg.PostgresError):
                await con.fetch(f"SELECT count(*) FROM visits WHERE {wrong}", *([DAY] if "$1" in wrong else []))
        await asyncio.wait_for(con.close(), 60)
        return found

    assert asyncio.run(run()) == [True, False, True]


# ---- by themselves ---------------------------------------------------------------------------------------------------


def test_samples_are_of_their_types() -> None:
    assert list(samples([], private=True)) == [[]]
    assert list(samples([20, 25], private=True)) == [[1, "day"], [None, None]]
    assert list(samples([20], private=False)) == [[None], [1]]
    guesses = [given[1] for given in samples([16, 0], private=True)]
    assert guesses[:4] == [Decimal("0.5"), 1, "day", dt.datetime(2000, 1, 1)]
    for oid, value in _SAMPLES.items():
        assert oid_of_value(value) in (oid, 0) or oid in (21, 23, 700, 701), oid
    assert isinstance(read_parameter(0, False, b"true"), Untyped)
    assert read_parameter(1186, False, b"-1 days 5 seconds 7 microseconds") == dt.timedelta(-1, 5, 7)

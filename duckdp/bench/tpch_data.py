"""TPC-H's tables, made here after the public definition of the benchmark, and their declarations: a customer is a unit.

Values follow from hashes of keys, so that a scale gives the same rows whenever it is made. Shapes and ranges are those
of the definition as far as the 22 statements look at them; texts are short.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import duckdb

import duckdp

#: Names of nations, each with the number of its region.
NATIONS = [
    ("ALGERIA", 0),
    ("ARGENTINA", 1),
    ("BRAZIL", 1),
    ("CANADA", 1),
    ("EGYPT", 4),
    ("ETHIOPIA", 0),
    ("FRANCE", 3),
    ("GERMANY", 3),
    ("INDIA", 2),
    ("INDONESIA", 2),
    ("IRAN", 4),
    ("IRAQ", 4),
    ("JAPAN", 2),
    ("JORDAN", 4),
    ("KENYA", 0),
    ("MOROCCO", 0),
    ("MOZAMBIQUE", 0),
    ("PERU", 1),
    ("CHINA", 2),
    ("ROMANIA", 3),
    ("SAUDI ARABIA", 4),
    ("VIETNAM", 2),
    ("RUSSIA", 3),
    ("UNITED KINGDOM", 3),
    ("UNITED STATES", 1),
]
REGIONS = ["AFRICA", "AMERICA", "ASIA", "EUROPE", "MIDDLE EAST"]
SEGMENTS = ["AUTOMOBILE", "BUILDING", "FURNITURE", "HOUSEHOLD", "MACHINERY"]
PRIORITIES = ["1-URGENT", "2-HIGH", "3-MEDIUM", "4-NOT SPECIFIED", "5-LOW"]
MODES = ["AIR", "AIR REG", "FOB", "MAIL", "RAIL", "SHIP", "TRUCK"]
INSTRUCTIONS = ["COLLECT COD", "DELIVER IN PERSON", "NONE", "TAKE BACK RETURN"]
TYPES = [
    f"{a} {b} {c}"
    for a in ("STANDARD", "SMALL", "MEDIUM", "LARGE", "ECONOMY", "PROMO")
    for b in ("ANODIZED", "BURNISHED", "PLATED", "POLISHED", "BRUSHED")
    for c in ("TIN", "NICKEL", "BRASS", "STEEL", "COPPER")
]
CONTAINERS = [
    f"{a} {b}"
    for a in ("SM", "LG", "MED", "JUMBO", "WRAP")
    for b in ("CASE", "BOX", "BAG", "JAR", "PKG", "PACK", "CAN", "DRUM")
]
COLOURS = ["almond", "blue", "chiffon", "forest", "green", "honeydew", "ivory", "lace", "peru", "salmon", "tan"]
FIRST, LAST = dt.date(1992, 1, 1), dt.date(1998, 12, 31)
PUBLIC = ("region", "nation", "supplier", "part", "partsupp")
MOST_LINES = 500  # rows of a customer, more than any has: nothing is bounded


def _of(names: list[str], hashed: str) -> str:
    listed = ", ".join(f"'{name}'" for name in names)
    return f"([{listed}])[1 + {hashed} % {len(names)}]"


def fill(con: duckdb.DuckDBPyConnection, scale: float) -> None:
    """Make the eight tables of TPC-H at a scale.

    Args:
        con: where.
        scale: 1 has six million lines, 0.001 six thousand.
    """
    suppliers, parts = max(10, round(10_000 * scale)), max(200, round(200_000 * scale))
    customers, orders = max(30, round(150_000 * scale)), max(300, round(1_500_000 * scale))
    con.execute("CREATE TEMP MACRO pick(i, salt, n) AS CAST(hash(i, salt) % CAST(n AS UBIGINT) AS INTEGER)")
    _fill_public(con, suppliers, parts)
    _fill_private(con, suppliers, parts, customers, orders)
    con.execute("DROP MACRO temp.main.pick")


def _phone() -> str:
    return "(10 + pick(i, 11, 25)) || '-' || (100 + pick(i, 12, 900)) || '-' || (1000 + pick(i, 13, 9000))"


def _supplied(suppliers: int) -> str:
    return f"CAST((i + j * ({suppliers} // 4 + (i - 1) // {suppliers})) % {suppliers} + 1 AS INTEGER)"


def _fill_public(con: duckdb.DuckDBPyConnection, suppliers: int, parts: int) -> None:
    con.execute("CREATE TABLE region (r_regionkey INTEGER, r_name VARCHAR)")
    con.executemany("INSERT INTO region VALUES (?, ?)", list(enumerate(REGIONS)))
    con.execute("CREATE TABLE nation (n_nationkey INTEGER, n_name VARCHAR, n_regionkey INTEGER)")
    con.executemany("INSERT INTO nation VALUES (?, ?, ?)", [(i, *nation) for i, nation in enumerate(NATIONS)])
    con.execute(
        "CREATE TABLE supplier AS SELECT CAST(i AS INTEGER) AS s_suppkey, "
        "'Supplier#' || lpad(CAST(i AS VARCHAR), 9, '0') AS s_name, 'street ' || i AS s_address, "
        f"pick(i, 11, 25) AS s_nationkey, {_phone()} AS s_phone, "
        "CAST(pick(i, 1, 1100000) / 100 - 1000 AS DECIMAL(15,2)) AS s_acctbal, "
        "CASE WHEN pick(i, 2, 20) = 0 THEN 'slow Customer of Complaints' ELSE 'quick' END AS s_comment "
        f"FROM range(1, {suppliers} + 1) AS t(i)"
    )
    con.execute(
        "CREATE TABLE part AS SELECT CAST(i AS INTEGER) AS p_partkey, "
        f"{_of(COLOURS, 'pick(i, 3, 11)')} || ' ' || {_of(COLOURS, 'pick(i, 4, 11)')} AS p_name, "
        "'Manufacturer#' || (1 + pick(i, 5, 5)) AS p_mfgr, "
        "'Brand#' || (1 + pick(i, 5, 5)) || (1 + pick(i, 6, 5)) AS p_brand, "
        f"{_of(TYPES, 'pick(i, 7, 150)')} AS p_type, 1 + pick(i, 8, 50) AS p_size, "
        f"{_of(CONTAINERS, 'pick(i, 9, 40)')} AS p_container, "
        "CAST((90000 + (i // 10) % 20001 + 100 * (i % 1000)) / 100 AS DECIMAL(15,2)) AS p_retailprice "
        f"FROM range(1, {parts} + 1) AS t(i)"
    )
    con.execute(
        f"CREATE TABLE partsupp AS SELECT CAST(i AS INTEGER) AS ps_partkey, {_supplied(suppliers)} AS ps_suppkey, "
        "1 + pick(i * 4 + j, 14, 9999) AS ps_availqty, "
        "CAST(1 + pick(i * 4 + j, 15, 99900) / 100 AS DECIMAL(15,2)) AS ps_supplycost "
        f"FROM range(1, {parts} + 1) AS t(i), range(4) AS u(j)"
    )


def _fill_private(con: duckdb.DuckDBPyConnection, suppliers: int, parts: int, customers: int, orders: int) -> None:
    con.execute(
        "CREATE TABLE customer AS SELECT CAST(i AS INTEGER) AS c_custkey, 'Customer#' || i AS c_name, "
        f"pick(i, 11, 25) AS c_nationkey, {_phone()} AS c_phone, "
        "CAST(pick(i, 16, 1100000) / 100 - 1000 AS DECIMAL(15,2)) AS c_acctbal, "
        f"{_of(SEGMENTS, 'pick(i, 17, 5)')} AS c_mktsegment FROM range(1, {customers} + 1) AS t(i)"
    )
    # every third customer has no orders
    con.execute(
        "CREATE TABLE orders AS SELECT CAST(i AS INTEGER) AS o_orderkey, "
        f"1 + pick(i, 18, {customers} // 3) * 3 + pick(i, 19, 2) AS o_custkey, "
        "DATE '1992-01-01' + pick(i, 20, 2406) AS o_orderdate, "
        f"{_of(PRIORITIES, 'pick(i, 21, 5)')} AS o_orderpriority, 0 AS o_shippriority, "
        "CASE WHEN pick(i, 22, 50) = 0 THEN 'has special and odd requests' ELSE 'as ever' END AS o_comment "
        f"FROM range(1, {orders} + 1) AS t(i)"
    )
    line = "o_orderkey * 8 + j"
    supplied = _supplied(suppliers).replace("i", "p").replace("j", "pick(i, 27, 4)")
    con.execute(
        "CREATE TABLE lineitem AS WITH lines AS "
        f"(SELECT o_orderkey, o_orderdate, CAST(j AS INTEGER) AS j, {line} AS i, "
        f"1 + pick({line}, 23, {parts}) AS p, 1 + pick({line}, 24, 50) AS q, o_orderdate + 1 + pick({line}, 25, 121) "
        "AS shipped FROM orders, range(1, 8) AS t(j) WHERE j <= 1 + pick(o_orderkey, 26, 7)) "
        f"SELECT o_orderkey AS l_orderkey, p AS l_partkey, {supplied} "
        "AS l_suppkey, j AS l_linenumber, CAST(q AS DECIMAL(15,2)) AS l_quantity, "
        "CAST(q * (90000 + (p // 10) % 20001 + 100 * (p % 1000)) / 100 AS DECIMAL(15,2)) AS l_extendedprice, "
        "CAST(pick(i, 28, 11) / 100 AS DECIMAL(15,2)) AS l_discount, "
        "CAST(pick(i, 29, 9) / 100 AS DECIMAL(15,2)) AS l_tax, "
        "CASE WHEN shipped + 1 + pick(i, 31, 30) > DATE '1995-06-17' THEN 'N' WHEN pick(i, 30, 2) = 0 THEN 'R' "
        "ELSE 'A' END AS l_returnflag, CASE WHEN shipped > DATE '1995-06-17' THEN 'O' ELSE 'F' END AS l_linestatus, "
        "shipped AS l_shipdate, o_orderdate + 30 + pick(i, 32, 61) AS l_commitdate, "
        f"shipped + 1 + pick(i, 31, 30) AS l_receiptdate, {_of(INSTRUCTIONS, 'pick(i, 33, 4)')} AS l_shipinstruct, "
        f"{_of(MODES, 'pick(i, 34, 7)')} AS l_shipmode FROM lines"
    )
    con.execute(
        "ALTER TABLE orders ADD COLUMN o_orderstatus VARCHAR; UPDATE orders SET o_orderstatus = s FROM (SELECT "
        "l_orderkey, CASE WHEN bool_and(l_linestatus = 'F') THEN 'F' WHEN bool_and(l_linestatus = 'O') THEN 'O' "
        "ELSE 'P' END AS s FROM lineitem GROUP BY 1) WHERE l_orderkey = o_orderkey"
    )


def declare(owner: duckdp.Curator, scale: float, *, most: int = MOST_LINES) -> None:
    """Protect customers, their orders and lines, and publish the rest.

    Args:
        owner: of the tables of :func:`fill`.
        scale: as it was filled.
        most: rows of a customer that count, and groups.
    """
    for name in PUBLIC:
        owner.publish(name)
    rows = max(2_000, round(6_500_000 * scale))
    days = FIRST, LAST
    owner.protect(
        "customer",
        unit_key="c_custkey",
        unit="customer",
        max_rows=1,
        row_cap=rows,
        unique=["c_custkey"],
        bounds={"c_acctbal": (-1000, 10_000), "c_nationkey": (0, 24)},
        domains={"c_mktsegment": SEGMENTS},
        columns=["c_name", "c_phone"],
    )
    owner.protect(
        "orders",
        unit_key="o_custkey",
        unit="customer",
        max_rows=most,
        row_cap=rows,
        unique=["o_orderkey"],
        bounds={"o_orderdate": days},
        domains={"o_orderpriority": PRIORITIES, "o_orderstatus": ["F", "O", "P"]},
        columns=["o_orderkey", "o_comment", "o_shippriority"],
    )
    owner.protect(
        "lineitem",
        link="l_orderkey -> orders.o_orderkey",
        max_rows=most,
        row_cap=rows,
        bounds={
            "l_quantity": (0, 50),
            "l_extendedprice": (0, 110_000),
            "l_discount": (0, 0.1),
            "l_tax": (0, 0.08),
            "l_shipdate": days,
            "l_commitdate": days,
            "l_receiptdate": days,
        },
        domains={
            "l_returnflag": ["A", "N", "R"],
            "l_linestatus": ["F", "O"],
            "l_shipmode": MODES,
            "l_shipinstruct": INSTRUCTIONS,
        },
        columns=["l_orderkey", "l_partkey", "l_suppkey"],
    )


@contextmanager
def opened(folder: Path, scale: float, **declared: Any) -> Iterator[duckdp.Curator]:
    """The owner of TPC-H's tables at a scale, with an analyst "ana"."""
    path = folder / "tpch.duckdb"
    with duckdb.connect(str(path)) as con:
        fill(con, scale)
    with duckdp.open(str(path), ledger=str(folder / "tpch.ledger")) as owner:
        declare(owner, scale, **declared)
        owner.budget(epsilon=1_000_000, delta="1e-2")
        owner.grant("ana", epsilon=1_000_000, delta="1e-2")
        yield owner

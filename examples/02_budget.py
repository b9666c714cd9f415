"""A budget that cannot be overspent: two analysts, one total, a refusal, a raise with a reason, the ledger."""

import duckdb

import duckdp
from duckdp.errors import BudgetError

con = duckdb.connect()
con.execute("CREATE TABLE staff AS SELECT i AS id, 20 + i % 45 AS age FROM range(10000) r(i)")

with duckdp.open(con, ledger="staff.ledger") as curator:
    curator.protect("staff", row_cap=100_000, expected_rows=10_000, bounds={"age": (18, 70)})  # unit: the row
    curator.budget(epsilon="0.3")
    curator.grant("ana", epsilon="0.3")
    curator.grant("ben", epsilon="0.3")
    ana, ben = curator.session("ana"), curator.session("ben")

    count = "SELECT count(*) AS n FROM staff"
    print(ana.sql(count, epsilon="0.2"), "\n")
    print(ana.sql(count, epsilon="0.2"), "\n")  # the same question again: the same answer, free

    try:
        ben.sql(count, epsilon="0.2")  # within ben's cap, but ana spent most of the total
    except BudgetError as error:
        print(error)
    try:
        curator.budget(epsilon="0.5")
    except BudgetError as error:
        print(error)

    curator.budget(epsilon="0.5", raise_to=True, reason="the board agreed on 3 May")
    print(ben.sql(count, epsilon="0.2"), "\n")
    print(curator.charges())

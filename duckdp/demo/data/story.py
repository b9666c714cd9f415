# The story that `duckdp demo` tells. It is an ordinary script: run it again, change it, make it your own.
# ruff: noqa: D100, T201

# 1. The data: 20,190 person-years of the RAND Health Insurance Experiment (real people, public domain)
import duckdb

import duckdp

with duckdb.connect("clinic.duckdb") as db:
    db.execute("CREATE TABLE IF NOT EXISTS care AS FROM 'rand_hie.parquet'")

# 2. The data owner protects the table: whom, and within which bounds (all public; duckdp reads none of it off the data)
curator = duckdp.open("clinic.duckdb", ledger="clinic.ledger")
curator.protect(
    "care",
    unit_key="person",  # the guarantee covers all rows of a person
    max_rows=5,  # the study lasted at most five years
    max_groups=1,  # sex, plan and health do not change in it: a person counts in one group
    row_cap=100_000,
    expected_rows=20_000,
    bounds={"age": (0, 65), "income": (0, 30_000), "md_visits": (0, 30), "medical_dollars": (0, 2_000)},
    domains={
        "sex": ["female", "male"],
        "health": ["excellent", "good", "fair", "poor"],
        "coinsurance": [0, 25, 50, 95, 100],
    },
)
curator.budget(epsilon=8, delta="1e-5")  # for all analysts together, for ever
curator.grant("ana", epsilon=5, delta="1e-6")
curator.grant("ben", epsilon="0.2")
print("What analysts may see; all of it is public:")
print(curator.session("ana").catalog())

# 3. An analyst asks: did people who paid a larger share of the bill see the doctor less? Every cell has its 95% error
ana = curator.session("ana")
by_share = """SELECT coinsurance, count(*) AS person_years, avg(md_visits) AS visits, avg(medical_dollars) AS dollars
FROM care GROUP BY coinsurance
"""
print(ana.sql(by_share, epsilon=1))

# 4. A median, by smooth sensitivity
print(ana.median_smooth("care", "medical_dollars", epsilon="0.5"))

# 5. What would it cost? Explaining touches no data and is free; and an error can be asked for in place of epsilon
sick = "SELECT health, count(*) AS person_years FROM care WHERE age >= 40 GROUP BY health"
print(ana.explain(sick, error=100))
print(ana.sql(sick, error=100))

# 6. One charge buys a summary of age and income that answers any number of smooth questions, each of them for free
print(ana.smooth_summary("care", ["age", "income"], epsilon=1, degree=8, name="age_income"))
questions = """
    SELECT 'share of people around 40' AS question, value, low, high
    FROM dp_smooth_answer('age_income', 'exp(-power((age - 40) / 20, 2))')
    UNION ALL SELECT 'mean age', value, low, high FROM dp_smooth_answer('age_income', 'age')
    UNION ALL SELECT 'mean income', value, low, high FROM dp_smooth_answer('age_income', 'income')
    UNION ALL SELECT 'mean of age * income', value, low, high FROM dp_smooth_answer('age_income', 'age * income')
    UNION ALL SELECT 'share above 18, softly', value, low, high
    FROM dp_smooth_answer('age_income', '1 / (1 + exp((18 - age) / 6))')
"""
print(ana.sql(questions))

# 7. A synthetic table, for any tool to read: one row for each person; here its ages beside private answers
people = ana.synthesize("care", epsilon=1, columns=["age", "md_visits"], name="people").arrow()
decades = "SELECT 10 * floor(age / 10) AS age, count(DISTINCT person) AS n FROM care GROUP BY 10 * floor(age / 10)"
private = ana.sql(decades, epsilon="0.2").arrow()
by_age = """SELECT age, s.n AS made, bar(s.n, 0, 1500, 24) AS synthetic, p.n::INT AS n, bar(p.n, 0, 1500, 24) AS private
FROM (SELECT 10 * floor(age / 10) AS age, count(*) AS n FROM people GROUP BY 1) AS s JOIN private AS p USING (age)
ORDER BY age"""
with duckdb.connect() as out:
    out.execute("COPY people TO 'synthetic.parquet'")
    out.execute("ATTACH 'synthetic.duckdb' AS synthetic (STORAGE_VERSION 'v1.0.0')")
    out.execute("CREATE OR REPLACE TABLE synthetic.people AS FROM people")
    print(out.sql(by_age))

# 8. Same question, same answer: asking again is free
print(ana.sql(by_share, epsilon=1))

# 9. What is refused, and how it is said
try:
    ana.sql("SELECT age, income FROM care WHERE age > 60", epsilon=1)
except duckdp.errors.QueryError as error:
    print(error)
try:
    curator.session("ben").sql("SELECT count(*) FROM care", epsilon="0.5")
except duckdp.errors.InsufficientBudgetError as error:
    print(error)

# 10. The ledger: who was charged how much for what; each charge was on the disk before a row was read
print(ana.sql("SELECT charge, kind, mechanism, cost, left(statement, 64) AS statement FROM dp_ledger()"))
print(ana.budget())
curator.close()

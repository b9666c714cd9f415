"""Two synthetic tables in one DuckDB file, and a dashboard on it in a plain DuckDB beside private answers, as a PNG."""

from importlib.resources import files

import duckdb
from matplotlib import pyplot

import duckdp
from duckdp.synthetic.files import write_database

care = str(files("duckdp.demo") / "data" / "rand_hie.parquet")
with duckdb.connect("clinic.duckdb") as db:  # a person's first year of care; their first call to a hotline is made up
    db.execute(f"""CREATE TABLE care AS SELECT person, coinsurance AS share, sex, md_visits
        FROM '{care}' WHERE year = 1;
        CREATE TABLE calls AS SELECT person, share, DATE '1975-01-01' + CAST(hash(person) % 365 AS INTEGER) AS day,
        CASE hash(person, 1) % 9 WHEN 0 THEN 'drug' WHEN 1 THEN 'drug' WHEN 2 THEN 'bill' ELSE 'doctor' END AS topic
        FROM care WHERE hash(person, 2) % 100 < 60 - share / 4 + 30 * cos(hash(person) % 365 / 58)""")
ASKED = {
    "trend": "SELECT date_trunc('month', day) AS k, topic AS g, count(*) AS n FROM calls GROUP BY k, g",
    "visits": "SELECT share AS k, sex AS g, avg(md_visits) AS n FROM care GROUP BY k, g",
    "people": "SELECT share AS k, count(*) AS n FROM care GROUP BY k",
    "callers": "SELECT share AS k, count(*) AS n FROM calls GROUP BY k",
}
with duckdp.open("clinic.duckdb", ledger="clinic.ledger") as curator:
    unit = {"unit_key": "person", "max_rows": 1, "row_cap": 100_000, "expected_rows": 5_000}
    keys, topics = {"share": [0, 25, 50, 95, 100]}, ["bill", "doctor", "drug"]  # one share for both tables: they join
    curator.protect("care", **unit, bounds={"md_visits": (0, 30)}, domains=keys | {"sex": ["female", "male"]})
    curator.protect("calls", **unit, bounds={"day": ("1975-01-01", "1975-12-31")}, domains=keys | {"topic": topics})
    curator.budget(epsilon=4)
    curator.grant("ana", epsilon=4)
    ana, made = curator.session("ana"), {}
    for table in ("care", "calls"):
        rows = ana.noisy_count(table, epsilon="0.05").rows()[0][0]
        made[table] = ana.synthesize(table, epsilon="0.95", rows=rows, method="tree")
    write_database("dashboard.duckdb", made | {f"p_{name}": ana.sql(sql, epsilon="0.5") for name, sql in ASKED.items()})
PLAIN = "SELECT k, g, s.n, p.n, (p.n_high - p.n_low) / 2 FROM ({}) AS s JOIN p_{} AS p USING (k, g) ORDER BY ALL"
JOIN = """SELECT k, 'people', s.n / t.n, p.n / q.n, 1.96 / q.n * sqrt(p.n_standard_error ** 2 +
        (p.n / q.n * q.n_standard_error) ** 2) FROM ({}) AS s JOIN ({}) AS t USING (k)
    JOIN p_callers AS p USING (k) JOIN p_people AS q USING (k) ORDER BY k"""
PANELS = {
    "first calls a month, by topic": PLAIN.format(ASKED["trend"], "trend"),
    "visits a year, by share of the bill (%) and sex": PLAIN.format(ASKED["visits"], "visits"),
    "who called, by share of the bill (%)": JOIN.format(ASKED["callers"], ASKED["people"]),
}
with duckdb.connect("dashboard.duckdb", read_only=True) as con:  # from here on any tool: no duckdp, no data, no budget
    panels = {title: con.execute(sql).fetchall() for title, sql in PANELS.items()}
figure, axes = pyplot.subplots(1, 3, figsize=(15, 4), width_ratios=(2, 1.4, 1), layout="constrained")
for axis, (title, cells) in zip(axes, panels.items(), strict=True):
    print(f"{title}: synthetic, private ± 95%")
    print(*(f"  {k!s:10.10} {g:6} {s:8.4g} {p:8.4g} ± {e:.2g}" for k, g, s, p, e in cells[:5]), sep="\n")
    ticks, groups = sorted({cell[0] for cell in cells}), sorted({cell[1] for cell in cells})
    for i, group in enumerate(groups):
        k, _, synthetic, private, error = zip(*(cell for cell in cells if cell[1] == group), strict=True)
        x = [ticks.index(tick) + (i - (len(groups) - 1) / 2) * 0.8 / len(groups) for tick in k]
        axis.bar(x, synthetic, 0.8 / len(groups), label=f"{group}, synthetic", color=f"C{i}", alpha=0.6)
        axis.errorbar(x, private, error, fmt="k.", lw=1, capsize=2, label="private, 95%" * (i + 1 == len(groups)))
    axis.set(title=title, xticks=range(len(ticks)), xticklabels=[f"{t:%b}" if len(ticks) > 9 else t for t in ticks])
    axis.legend(frameon=False)
figure.savefig("dashboard.png", dpi=110)

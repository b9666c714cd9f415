"""Forms of statements with slots: the gate's newest, for which a grammar fills the slots with what it makes.

``<e>`` is an expression, ``<c>`` a condition, ``<a>`` an aggregate, ``<k>`` what rows are grouped by, ``<s>`` a series
or list in FROM, ``<v>`` values, ``<n>`` a number, ``<o>`` an order; ``<K>`` is one and the same in a statement.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Mapping

SERIES = [
    "range(1, 4) AS r(i)",
    "range(9) r",
    "generate_series(0, 9, 3) AS r(i)",
    "generate_series(9, 0, -2) AS r(i)",
    "unnest([1, 2, NULL]) AS r(i)",
    "unnest([<v>]) AS r(i)",
    "range(DATE '2024-01-01', DATE '2024-04-01', INTERVAL 1 MONTH) AS r(i)",
    "generate_series(DATE '2024-01-01', DATE '2024-03-01', INTERVAL '<n>' DAY) AS r(i)",
    "(VALUES (1), (<v>)) AS r(i)",
    "generate_series(<n>, <n>, <n>) AS r(i)",
    "unnest(range(3)) AS r(i)",
]
KEYS = [
    "day",
    "dept",
    "paid",
    "month(at)",
    "at",
    "isodow(at)",
    "dayname(at)",
    "date_trunc('month', at)",
    "day % 3",
    "day // <n>",
    "CASE WHEN <c> THEN dept END",
    "day > <n>",
    "strftime(at, '%Y-%m')",
    "floor(cost / <n>)",
    "<e>",
]
FORMS = [
    "SELECT <a> FROM (SELECT DISTINCT ON (pid) pid, <k> AS x, day, cost, dept, paid, at FROM visits ORDER BY <o>)",
    "SELECT x, <a> FROM (SELECT DISTINCT ON (pid, dept) *, <e> AS x FROM visits ORDER BY pid, dept, <o>) GROUP BY x",
    "SELECT DISTINCT ON (<k>) <k>, <a> FROM visits GROUP BY ALL ORDER BY <o>",
    "SELECT i, count(v.cost), <a> FROM <s> LEFT JOIN visits v ON v.day = r.i GROUP BY i",
    "SELECT i, <a> FROM <s> JOIN visits v ON v.day >= r.i AND <c> GROUP BY ALL",
    "SELECT r.i, <a> FROM visits v, <s> WHERE v.day = r.i OR <c> GROUP BY 1",
    "SELECT i, count(v.at) FROM <s> LEFT JOIN visits v ON date_trunc('month', v.at) = i GROUP BY 1 ORDER BY <o>",
    "SELECT count(*) FROM (SELECT pid FROM visits WHERE <c> INTERSECT SELECT pid FROM labs WHERE day > <n>)",
    "SELECT count(*) FROM (SELECT pid FROM visits EXCEPT SELECT pid FROM labs WHERE <c>)",
    "SELECT count(*) FROM (SELECT <k> FROM visits EXCEPT SELECT pid FROM labs UNION SELECT pid FROM visits)",
    "SELECT count(*) FROM (SELECT pid, <k> FROM visits INTERSECT SELECT pid, day FROM labs)",
    "SELECT pid FROM visits INTERSECT SELECT pid FROM labs",
    "SELECT dept FROM depts EXCEPT SELECT dept FROM visits GROUP BY dept HAVING count(*) > <n>",
    "SELECT <k>, sum((SELECT count(*) FROM labs l WHERE l.pid = v.pid AND <c>)) FROM visits v GROUP BY 1",
    "SELECT avg((SELECT max(l.level) FROM labs l WHERE l.pid = v.pid)), <a> FROM visits v WHERE <c>",
    "SELECT count(*) FROM visits v WHERE (SELECT <a> FROM labs l WHERE l.pid = v.pid) > <e>",
    "SELECT count(*) FROM visits v WHERE day = (SELECT max(w.day) FROM visits w WHERE w.pid = v.pid)",
    "SELECT (SELECT <a> FROM labs l WHERE v.pid = l.pid AND l.day = v.day) AS x, count(*) FROM visits v GROUP BY x",
    "SELECT <a>, (SELECT count(*) FROM labs) FROM visits",
    "SELECT (SELECT <a> FROM visits) / (SELECT count(*) FROM labs WHERE ok)",
    "PIVOT visits ON dept USING <a> GROUP BY <k>",
    "PIVOT (SELECT <k> AS g, dept, cost FROM visits) ON dept IN (<v>) USING sum(cost) GROUP BY g",
    "PIVOT visits ON paid USING count(*) AS n, <a> AS m GROUP BY dept",
    "SELECT * FROM (SELECT dept, day, cost FROM visits WHERE <c>) PIVOT (sum(cost) FOR day IN (<v>))",
    "SELECT dept, a FROM (SELECT dept, paid, cost FROM visits) PIVOT (<a> AS a FOR paid IN (TRUE, <v>)) AS p",
    "FROM visits PIVOT (<a> FOR dept IN ('a', 'b') GROUP BY paid)",
    "SELECT <k> AS y, <a> FROM visits WHERE y > <v> GROUP BY y",
    "SELECT <k> AS x1, <e> AS x2, count(*) FROM visits WHERE x1 = <v> AND (x2 IS NULL OR <c>) GROUP BY ALL",
    "SELECT <k> AS day, count(*) FROM visits WHERE day > <n> GROUP BY <k>",
    "SELECT <k>, <k>, count(*), <a> FROM visits WHERE <c> GROUP BY ALL",
    "SELECT isodow(at), dayname(at), <k>, count(*) FROM visits GROUP BY ALL ORDER BY <o>",
    "SELECT a.day, b.day, count(*) FROM visits a JOIN labs b ON a.pid = b.pid AND a.day < b.day WHERE <c> GROUP BY ALL",
    "SELECT <k>, count(DISTINCT dept), count(DISTINCT <e>), <a> FROM visits GROUP BY 1",
    "SELECT count(DISTINCT <k>), count(DISTINCT month(at)) FILTER (WHERE <c>) FROM visits WHERE <c>",
    "SELECT count(DISTINCT (dept, paid)), count(DISTINCT label) FROM visits JOIN days USING (day)",
    "SELECT <k>, median(cost), quantile_cont(<e>, 0.<n>) FROM visits GROUP BY 1",
    "SELECT quantile_cont(cost, [0.25, 0.5, <v>]), quantile_disc(day, 0.9) - median(<e>) FROM visits WHERE <c>",
    "SELECT median(cost) FILTER (WHERE <c>), min(<e>), max(cost) - min(cost) FROM visits",
    "SELECT median(at), quantile_cont(<k>, 0.1), mode(<k>) FROM visits",
    "SELECT round(median(<e>), 1), <a> FROM visits HAVING median(cost) > <n>",
    "SELECT dept, paid, <K>, <a>, grouping(dept) FROM visits GROUP BY GROUPING SETS ((dept, paid), (dept), (<K>), ())",
    "SELECT dept, <K>, <a> FROM visits GROUP BY ROLLUP (dept, <K>) HAVING <a> > <n>",
    "SELECT <K>, paid, <a>, median(cost) FROM visits GROUP BY CUBE (paid, <K>) ORDER BY <o> LIMIT <n>",
    "SELECT dept, <K>, count(*) FROM visits WHERE <c> GROUP BY dept, ROLLUP (<K>)",
    "SELECT v.dept, <a> FROM visits v LEFT JOIN labs l ON v.pid = l.pid GROUP BY GROUPING SETS (v.dept, ())",
    "WITH a AS (SELECT count(*) AS n FROM visits), b AS (SELECT <a> AS t FROM visits) SELECT b.t / a.n FROM a, b",
    "WITH a AS (SELECT dept, count(*) AS n FROM visits GROUP BY 1), b AS (SELECT dept, <a> AS t FROM labs GROUP BY 1) "
    "SELECT dept, b.t / a.n, n * <v> FROM a JOIN b USING (dept) WHERE n > <n>",
    "SELECT <k>, count(*) / sum(count(*)) OVER (), <a> FROM visits GROUP BY 1",
    "SELECT <k>, 100.0 * <a> / (SELECT count(*) FROM visits) FROM visits GROUP BY ALL",
    "SELECT count(*) FROM visits WHERE (pid, <k>) IN (SELECT (pid, max(day)) FROM visits GROUP BY pid)",
    "SELECT count(*) FROM visits WHERE (pid, pid) IN (SELECT pid, pid FROM labs WHERE <c>)",
    "SELECT avg(x), <a> FROM (SELECT pid, arg_max(cost, day) AS x, last(day ORDER BY at) AS d FROM visits GROUP BY 1)",
    "SELECT make_date(2024, <e>, <n>), last_day(at), count(*) FROM visits GROUP BY ALL",
    "SELECT sum(COLUMNS(<e>)), avg(COLUMNS('c.*')), count(COLUMNS(* EXCLUDE (pid))) FROM visits",
    "SELECT score, <a> FROM visits GROUP BY score",
]


def newest(rng: random.Random, slots: Mapping[str, Callable[[], str]]) -> str:
    """One of the forms, its slots filled.

    Args:
        rng: where choices come from.
        slots: expression, condition and aggregate (e, c, a).
    """
    makes: dict[str, Callable[[], str]] = {
        "k": lambda: rng.choice(KEYS),
        "s": lambda: rng.choice(SERIES),
        "v": lambda: rng.choice(["1", "'a'", "2.5", "NULL", "TRUE", "-3", "'a', 'c'", "0, 1", "DATE '2024-02-01'"]),
        "n": lambda: rng.choice(["0", "1", "2", "3", "7", "-1"]),
        "o": lambda: rng.choice(["1", "pid, day DESC", "day, cost", "<e> DESC NULLS LAST", "pid, <e>", "ALL", "2"]),
    }

    def filled(found: re.Match[str]) -> str:
        return (slots | makes)[found[1]]()

    text = rng.choice(FORMS).replace("<K>", makes["k"]())
    while "<" in text and (made := re.sub(r"<([a-z])>", filled, text)) != text:
        text = made
    return text

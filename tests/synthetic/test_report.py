"""Reports of synthetic tables: free, true to ``answer``, safe pages, and they notice a table that is not its own."""

from __future__ import annotations

import dataclasses
import datetime as dt
import json
import re
from collections.abc import Callable, Iterator
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import duckdp
from duckdp.errors import CatalogError, NumericalError, ParameterError
from duckdp.smooth.answer import answer
from duckdp.smooth.summary import SmoothSummary
from duckdp.synthetic.decode import SyntheticTable
from duckdp.synthetic.lp.make.synthesize import synthesize
from duckdp.synthetic.report.html_page import escape, page, printable
from duckdp.synthetic.report.table_report import FAR, SyntheticReport, make_report, report_table
from duckdp.vault.engine import Engine
from tests.smooth.tables import column, connect, summarize, table

HOSTILE = (
    "<script>alert('1')</script>",
    '"&quot;><img src=x onerror=alert(1)>',
    "javascript:alert(1)",
    "a\u202eb\nc",
    "'--",
)
NAME = "c\"<b>&'"
SPEC = (column("a", 0, 110, "BIGINT", nullable=False), column("b", -1.0, 3.0, nullable=False))
CSP = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"


@pytest.fixture(scope="module")
def summaries() -> tuple[SmoothSummary, SmoothSummary]:
    """Summaries of two tables that differ."""
    with connect() as con:
        generated = "20 + i * 7919 % 60 AS a, 3 * (i % 977) / 976.0 AS b"
        con.execute(f"CREATE TABLE t AS SELECT {generated} FROM range(40000) r(i)")
        first = summarize(con, table(*SPEC), ["a", "b"], degree=6)
        con.execute("DROP TABLE t")
        con.execute("CREATE TABLE t AS SELECT 60 + i % 40 AS a, -(i % 100) / 100.0 AS b FROM range(40000) r(i)")
        return first, summarize(con, table(*SPEC), ["a", "b"], degree=6)


@pytest.fixture(scope="module")
def made(summaries: tuple[SmoothSummary, SmoothSummary]) -> SyntheticTable:
    return synthesize(summaries[0], 20_000)


@pytest.fixture(scope="module")
def report(summaries: tuple[SmoothSummary, SmoothSummary], made: SyntheticTable) -> SyntheticReport:
    return report_table("people", made, summaries[0])


@pytest.fixture
def curator(tmp_path: Path) -> Iterator[duckdp.Curator]:
    n = np.arange(3000)
    frame = pa.table({"a": n % 90, NAME: [HOSTILE[i % len(HOSTILE)] for i in n.tolist()], "x": n / 3000})
    with duckdp.open({"t": frame}, ledger=str(tmp_path / "t.ledger")) as owner:
        bounds = {"a": (0, 110), "x": (0, 1)}
        owner.protect("t", row_cap=9000, expected_rows=3000, bounds=bounds, domains={NAME: HOSTILE})
        owner.budget(epsilon=50)
        owner.grant("ana", epsilon=40)
        owner.grant("bob", epsilon=5)
        yield owner


# ---- figures --------------------------------------------------------------------------------------------------------


def test_misfits_are_those_of_the_definition(
    report: SyntheticReport, summaries: tuple[SmoothSummary, SmoothSummary], made: SyntheticTable
) -> None:
    summary, basis = summaries[0], summaries[0].basis
    unit = [a.to_unit(np.asarray(v, float)) for a, v in zip(basis.axes, made.columns.values(), strict=True)]
    reached = basis.evaluate(np.stack(unit, axis=1)).mean(axis=0)
    released = summary.sums / summary.sums[0]
    deviation = summary.noise.deviations
    noise = np.sqrt(deviation**2 + np.minimum(released**2, 1) * deviation[0] ** 2) / 2**summary.bits / summary.sums[0]
    z = (reached - released) / noise
    assert [v.level for v in report.levels] == list(range(1, 11))
    for found in report.levels:
        at = basis.levels == found.level
        assert found.moments == at.sum()
        assert found.misfit == pytest.approx(np.sqrt(np.mean((reached - released)[at] ** 2)))
        assert found.noise == pytest.approx(np.sqrt(np.mean(noise[at] ** 2)))
        assert found.deviations == pytest.approx(np.sqrt(np.mean(z[at] ** 2)))
    assert report.deviations == pytest.approx(np.sqrt(np.mean(z[1:] ** 2)))
    assert report.worst is not None
    assert report.worst.deviations == pytest.approx(np.abs(z[1:]).max())
    assert report.worst.degrees == tuple(basis.indices[1 + np.argmax(np.abs(z[1:]))].tolist())


def test_a_table_drawn_from_another_summary_is_noticed(
    report: SyntheticReport, summaries: tuple[SmoothSummary, SmoothSummary], made: SyntheticTable
) -> None:
    assert report.follows is True
    assert "follows its release" in report.text
    twin = report_table("people", made, summaries[1])
    assert twin.deviations is not None
    assert report.deviations is not None
    assert report.deviations < FAR < 10 * FAR < twin.deviations
    assert twin.follows is False
    assert "does NOT follow its release" in twin.text
    assert 'class="mark"' in twin.html
    assert sum(line.inside is False for line in twin.lines) > len(twin.lines) / 2


def test_one_column_out_of_order_is_noticed(
    summaries: tuple[SmoothSummary, SmoothSummary], made: SyntheticTable
) -> None:
    """Marginals stay; only moments of both columns move."""
    with connect() as con:
        con.execute("CREATE TABLE t AS SELECT i % 111 AS a, 4 * (i % 111) / 110.0 - 1 AS b FROM range(40000) r(i)")
        summary = summarize(con, table(*SPEC), ["a", "b"], degree=4)
    right = synthesize(summary, 10_000)
    shuffled = {"a": right.columns["a"], "b": np.roll(right.columns["b"], 1)}
    assert report_table("x", right, summary).follows is True
    twin = report_table("x", dataclasses.replace(right, columns=shuffled), summary)
    assert twin.follows is False
    assert twin.levels[0].deviations < 10 < max(v.deviations for v in twin.levels)


def test_lines_agree_with_answer_and_with_the_rows(
    report: SyntheticReport, summaries: tuple[SmoothSummary, SmoothSummary], made: SyntheticTable
) -> None:
    a, b = made.columns["a"].astype(float), made.columns["b"]
    by_hand: dict[tuple[str, str], float] = {
        ("a", "mean"): a.mean(),
        ("b", "mean"): b.mean(),
        ("Smooth queries (columns on [-1, 1])", "mean of a * b"): np.mean((a / 55 - 1) * ((b + 1) / 2 - 1)),
        ("Smooth queries (columns on [-1, 1])", "mean of a^2"): np.mean((a / 55 - 1) ** 2),
    }
    for line in report.lines:
        known = answer(summaries[0], line.function)
        assert (line.released, line.low, line.high) == (known.value, known.low, known.high)
        assert line.standard_error == known.standard_error
        shown = [f"{v:.4g}" for v in (known.value, known.standard_error, known.low, known.high, line.synthetic)]
        row = re.escape(line.question) + "".join(r"\s+" + re.escape(v) for v in shown)
        assert re.search(row, report.text), line
        for cell in shown:
            assert f"<td>{cell}</td>" in report.html
        expected = by_hand.pop((line.about, line.question), None)
        assert expected is None or line.synthetic == pytest.approx(expected)
    assert not by_hand


def test_soft_shares_add_up(report: SyntheticReport) -> None:
    for name in ("a", "b"):
        shares = [line for line in report.lines if line.about == name and line.question.startswith("soft share")]
        assert len(shares) >= 2
        assert sum(line.synthetic for line in shares) == pytest.approx(1)
        assert sum(line.released for line in shares if line.released) == pytest.approx(1)


def test_dates_domains_and_nulls() -> None:
    first, last = dt.date(2020, 1, 1), dt.date(2020, 12, 31)
    spec = (
        column("d", first, last, "DATE", nullable=False),
        column("f", None, None, "BOOLEAN", nullable=False),
        column("s", None, None, "VARCHAR", domain=("it's", "y", None)),
    )
    with connect() as con:
        con.execute(
            "CREATE TABLE t AS SELECT DATE '2020-01-01' + (i % 90)::INTEGER AS d, i % 4 = 0 AS f, "
            "CASE WHEN i % 5 = 0 THEN NULL WHEN i % 5 = 1 THEN 'it''s' ELSE 'y' END AS s FROM range(40000) r(i)"
        )
        summary = summarize(con, table(*spec), ["d", "s", "f"], degree=3, epsilon=5)
    made = synthesize(summary, 4000)
    found = report_table("x", made, summary)
    lines = {(line.about, line.question): line for line in found.lines}
    for key, share in {("s", "share of NULL"): 0.2, ("s", "share of it's"): 0.2, ("f", "share of True"): 0.25}.items():
        assert lines[key].released == pytest.approx(share, abs=0.02)
        assert lines[key].synthetic == pytest.approx(share, abs=0.04)
    dates = [line for line in found.lines if line.about == "d"]
    assert sum(line.synthetic for line in dates) == pytest.approx(1)
    assert "2020-01-01 to " in dates[0].question
    assert [sum(h.counts) for h in found.histograms] == [4000] * 3


# ---- sessions -------------------------------------------------------------------------------------------------------


def test_it_charges_nothing_and_reads_no_row(curator: duckdp.Curator, monkeypatch: pytest.MonkeyPatch) -> None:
    session = curator.session("ana")
    session.synthesize("t", epsilon=2, rows=500, columns=["a", NAME], name="made")
    session.smooth_summary("t", ["a"], epsilon=1, name="sums", degree=5)
    session.synthesize("t", epsilon=2, rows=300, columns=["a", "x", NAME], name="wide", method="psi")
    before = (len(curator.ledger.charges()), str(session.budget()))
    reads: list[object] = []
    monkeypatch.setattr(Engine, "run", lambda *given: reads.append(given))
    monkeypatch.setattr(Engine, "schema_cursor", lambda *given: reads.append(given))
    for name, rows in (("made", 500), ("sums", 10_000), ("wide", 300)):
        found = session.synthetic_report(name)
        assert found.rows == rows
        assert str(found) == found.text
        assert found._repr_html_() == found.html
    assert not reads
    assert (len(curator.ledger.charges()), str(session.budget())) == before
    assert found.levels == ()  # of the wide table only what is known
    assert "method: psi" in found.text
    assert "no error bars" in found.text


def test_the_stages_of_a_wide_table_are_told(made: SyntheticTable) -> None:
    payload = json.dumps({"kind": "synthesis", "summary": None, "table": made.dump(), "rows": made.rows})
    told = make_report("w", payload, {"method": "auto", "units": 8, "target": None, "shares": {"means": "1/2"}})
    assert dict(told.facts)["stages, as shares of the charge"] == "means 1/2"
    assert dict(told.facts)["method"] == "auto"
    assert told.follows is None
    assert "Rows by a" in told.html


def test_unknown_names_and_groups_are_refused(curator: duckdp.Curator) -> None:
    session = curator.session("ana")
    session.synthesize("t", epsilon=1, rows=50, columns=["a"], name="mine")
    for other, name in ((session, "nothing"), (session, "n" * 5000), (curator.session("bob"), "mine")):
        with pytest.raises(CatalogError) as caught:
            other.synthetic_report(name)
        assert caught.value.code == "C110"
    session.smooth_summary("t", ["a"], epsilon=1, name="grouped", degree=3, per=NAME)
    with pytest.raises(ParameterError) as refused:
        session.synthetic_report("grouped")
    assert refused.value.code == "P107"


def test_a_file_is_written_once(curator: duckdp.Curator, tmp_path: Path) -> None:
    session = curator.session("ana")
    session.synthesize("t", epsilon=1, rows=50, columns=["a", NAME], name="mine")
    path = tmp_path / "report.html"
    found = session.synthetic_report("mine", path)
    assert path.read_text(encoding="utf-8") == found.html
    path.write_text("kept")
    with pytest.raises(FileExistsError):
        session.synthetic_report("mine", path)
    assert path.read_text() == "kept"


def test_what_a_wide_table_bought_is_listed(made: SyntheticTable) -> None:
    raw = {"kind": "synthesis", "summary": None, "table": made.dump(), "rows": made.rows}
    bought = [["means", 12, 0.25], [HOSTILE[0], 66, 0.7]]
    found = make_report("wide", json.dumps({**raw, "bought": bought}))
    assert found.stages == (("means", 12, 0.25), (HOSTILE[0], 66, 0.7))
    for shown in (found.text, found.html):
        assert "What was bought" in shown
        assert "share of the charge" in shown
        assert "means" in shown
    assert safe(found.html)
    for absent in ({}, {"bought": None}, {"bought": 3}, {"bought": [["a"]]}, {"bought": [["a", "x", "y"]]}):
        assert make_report("wide", json.dumps({**raw, **absent})).stages == ()


def test_rows_with_a_null_are_no_misfit(
    summaries: tuple[SmoothSummary, SmoothSummary], made: SyntheticTable, report: SyntheticReport
) -> None:
    """Moments are those of rows without a NULL, as the summary's; broken twin: the same rows with a number instead."""
    gone = np.arange(made.rows) % 5 == 0
    holes, zeros = (made.columns["b"].astype(object), made.columns["b"].copy())
    holes[gone], zeros[gone] = None, 3.0
    found, twin = (
        report_table("p", dataclasses.replace(made, columns={**made.columns, "b": b}), summaries[0])
        for b in (holes, zeros)
    )
    assert found.rows == made.rows
    assert found.excess is not None
    assert twin.excess is not None
    assert found.excess < 0.5 * twin.excess  # a fifth of the rows less is a little noise of its own
    assert twin.follows is False
    assert "NULL" in found.histograms[1].labels
    with pytest.raises(NumericalError):
        nothing = np.full(made.rows, None)
        report_table("p", dataclasses.replace(made, columns={**made.columns, "b": nothing}), summaries[0])


# ---- pages ----------------------------------------------------------------------------------------------------------

ALLOWED = {
    "html",
    "head",
    "meta",
    "title",
    "style",
    "body",
    "h1",
    "h2",
    "p",
    "table",
    "thead",
    "tbody",
    "tr",
    "th",
    "td",
    "svg",
    "rect",
    "text",
}


class Tags(HTMLParser):
    """What a browser would see."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.shown: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}

    def handle_data(self, data: str) -> None:
        self.shown.append(data)


def safe(text: str) -> bool:
    """Whether a page holds no element, attribute or address but ours."""
    seen = Tags()
    seen.feed(text)
    loads = {"src", "href", "style", "srcset", "action"} | {a for a in seen.attributes if a.startswith("on")}
    plain = text.replace("http-equiv", "").lower()
    return (
        seen.tags <= ALLOWED
        and not seen.attributes & loads
        and not any(needle in plain for needle in ("http", "<script", "javascript:", "url(", "@import"))
    )


def test_pages_hold_nothing_of_anybody_elses(curator: duckdp.Curator) -> None:
    session = curator.session("ana")
    session.synthesize("t", epsilon=9, rows=500, columns=["a", NAME], name="lp")
    session.synthesize("t", epsilon=9, rows=500, columns=["a", "x", NAME], name="wide", method="psi")
    for name in ("lp", "wide"):
        text = session.synthetic_report(name).html
        assert safe(text)
        assert f'content="{CSP}"' in text
        seen = Tags()
        seen.feed(text)
        shown = "".join(seen.shown)
        assert all(printable(v) in shown for v in (*HOSTILE, NAME))  # told in full, as text
        assert "\u202e" not in text
        assert text.count("<svg") >= 2


def test_hostile_names_of_tables_and_releases(made: SyntheticTable) -> None:
    columns, types = dict.fromkeys(HOSTILE, made.columns["a"]), dict.fromkeys(HOSTILE, "BIGINT")
    odd = dataclasses.replace(made, table=HOSTILE[1], columns=columns, types=types)
    payload = json.dumps({"kind": "synthesis", "summary": None, "table": odd.dump(), "rows": odd.rows})
    found = make_report(HOSTILE[0], payload, {"method": HOSTILE[2], "shares": {HOSTILE[0]: HOSTILE[1]}})
    assert safe(found.html)
    assert "\u202e" not in found.text + found.html


@pytest.mark.parametrize("breaking", [str, lambda v: str(v).replace("<", "&lt;"), lambda v: str(v).replace('"', "")])
def test_the_check_of_pages_notices_missing_escapes(
    breaking: Callable[[object], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert safe(page(HOSTILE[0] + HOSTILE[2], [f"<p>{escape(v)}</p>" for v in HOSTILE]))
    monkeypatch.setattr("duckdp.synthetic.report.html_page.escape", breaking)
    assert not safe(page(HOSTILE[0] + HOSTILE[2], []))

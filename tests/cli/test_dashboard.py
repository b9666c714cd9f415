"""The owner's page: hostile statements stand as text, its policy lets nothing run, what it tells is the ledger's."""

from __future__ import annotations

import base64
import dataclasses
import hashlib
import http.client
import os
import re
import shutil
import stat
import subprocess
import threading
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

import duckdb
import pytest

import duckdp
from duckdp.dashboard import charts
from duckdp.dashboard import document as documents
from duckdp.dashboard.curve import MOST, Curve
from duckdp.dashboard.document import document
from duckdp.dashboard.facts import Choice, Reader, tables_of
from duckdp.dashboard.live import Live, read_choice
from duckdp.dashboard.reports import Reports
from duckdp.errors import DuckDPError
from duckdp.ledger import Ledger
from tests.cli.conftest import Run
from tests.imports import imports, reached, with_packages

# Each is text that a page could take for something else; all end up as statements, reasons or names in the log.
HOSTILE = (
    "<script>document.title='owned'</script>",
    "<img src=x onerror=\"document.title='owned'\">",
    "</code></td></table></section></main><script>document.title='owned'</script>",
    "</title></style><script>document.title='owned'</script>",
    "\"><svg onload=document.title='owned'>",
    "' onmouseover='document.title=1' x='",
    "<a href=javascript:alert(1)>click</a>",
    "<meta http-equiv=refresh content=0;url=https://evil.example/>",
    "<base href=https://evil.example/><form action=https://evil.example/><input autofocus onfocus=alert(1)>",
    "&lt;script&gt;alert(1)&lt;/script&gt; &#60;script&#62;",
    "<!-- --><![CDATA[<script>alert(1)</script>]]>",
    "SELECT 1 -- \u202e gnp.exe \u2066 \x1b[2J \x00 \ud800",
    "x" * 900 + "<script>",
    "{% raw %}${7*7}{{7*7}}",
)
CELL = "only_in_a_private_row"


@pytest.fixture(scope="module")
def clinic(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A clinic that was asked, attacked, shared and revoked; its rows hold a text that no release has."""
    folder = tmp_path_factory.mktemp("page")
    path = str(folder / "clinic.duckdb")
    with duckdb.connect(path) as con:
        con.execute(
            "CREATE TABLE visits AS SELECT i % 200 AS patient_id, CAST(20 + i % 60 AS INTEGER) AS age, "
            f"'{CELL}' AS city FROM range(500) AS t(i)"
        )
    with duckdp.open(path) as curator:
        curator.protect(
            "visits", unit_key="patient_id", max_rows=3, row_cap=10_000, bounds={"age": (0, 110)}, columns=["city"]
        )
        curator.budget(epsilon=20)
        curator.grant("ana", epsilon=10, per_month=5)
        curator.grant("eve", epsilon=10, raise_to=True, reason=HOSTILE[0])
        ana, eve = curator.session("ana"), curator.session("eve")
        ana.sql("SELECT count(*) FROM visits", epsilon="0.5")
        ana.sql("SELECT count(*) FROM visits", epsilon="0.5")
        ana.synthesize("visits", columns=["age"], epsilon=1, rows=100, name="people", method="tree")
        ana.smooth_summary("visits", ["age"], epsilon=1, smoothness=2, name="ages")
        for text in HOSTILE:
            with pytest.raises(DuckDPError):
                eve.sql(text, epsilon="0.1")
        eve.sql(f'SELECT count(*) AS "{HOSTILE[1].replace(chr(34), chr(34) * 2)}" FROM visits', epsilon="0.25")
        curator.share("people", owner="ana", to="eve")
        curator.revoke("eve", reason=HOSTILE[2])
    return path


@pytest.fixture(scope="module")
def ledger(clinic: str) -> Iterator[Ledger]:
    opened = Ledger.open(clinic.removesuffix(".duckdb") + ".ledger", create=False)
    yield opened
    opened.close()


@pytest.fixture(scope="module")
def written(ledger: Ledger) -> str:
    choice = Choice()
    return document(Reader(ledger).read(choice), name="clinic.duckdb", choice=choice, report=Reports(ledger))


class _Parsed(HTMLParser):
    """What a browser would make of a page: elements, attributes, text."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.links: list[str] = []
        self.text = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}
        self.links += [value or "" for name, value in attrs if name in ("href", "src", "action")]

    def handle_data(self, data: str) -> None:
        self.text += data


TAGS = {"html", "head", "meta", "title", "style", "body", "header", "h1", "h2", "h3", "p", "nav", "a", "div", "span"}
TAGS |= {"b", "main", "section", "table", "thead", "tbody", "tr", "th", "td", "code", "pre", "details", "summary"}
TAGS |= {"svg", "rect", "path", "text", "footer"}
ATTRIBUTES = {"lang", "charset", "http-equiv", "content", "name", "href", "class", "id", "viewbox", "role", "d", "x"}
ATTRIBUTES |= {"y", "width", "height", "rx", "text-anchor", "preserveaspectratio", "fill"}


def harmless(page: str) -> bool:
    """Whether a page has only the elements and attributes that we write, and leads nowhere."""
    found = _Parsed(page)
    inside = all(link.startswith(("#", "?")) for link in found.links)
    return found.tags <= TAGS and found.attributes <= ATTRIBUTES and inside and "javascript:" not in page


def test_hostile_texts_stand_as_text(written: str) -> None:
    assert harmless(written)
    shown = _Parsed(written).text
    for text in HOSTILE:
        if text.isprintable() and len(text) < 200:
            assert " ".join(text.split())[:60] in shown, text
    assert written.isascii() or not re.search("[\u202a-\u202e\u2066-\u2069\x00\x1b\ud800]", written)


@pytest.mark.parametrize("broken", ["escape", "_statement"])
def test_a_text_that_is_not_escaped_is_seen(ledger: Ledger, monkeypatch: pytest.MonkeyPatch, broken: str) -> None:
    """Broken twins: either way in which a text gets on the page, left out."""
    monkeypatch.setattr(documents, broken, str)
    choice = Choice()
    page = document(Reader(ledger).read(choice), name="<b>", choice=choice, report=Reports(ledger))
    assert not harmless(page)


@pytest.mark.parametrize("text", [*HOSTILE, "a\n<a href='javascript:alert(1)'>\u202e\n<script>", "\"><b x='"])
def test_every_part_of_the_page_holds_texts(ledger: Ledger, text: str) -> None:
    """Whatever stands in a cell, a name, a link, a chart or the title: the same elements, and nothing that hides."""

    facts = Reader(ledger).read()

    def parts(text: str) -> list[str]:
        series = [charts.Series(name=text, css="c0", values=[1.0, 2.0])]
        frozen = dataclasses.replace(facts, state=dataclasses.replace(facts.state, frozen=True, frozen_reason=text))
        return [
            document(frozen, name=text, choice=Choice(), report=lambda _: []),
            documents._cell(text, "name"),
            documents._table([text, text], [], numbers=(0,)),
            documents._statement(text),
            documents._link(text, Choice(analyst=text.encode("utf-8", "replace").decode())),
            charts.legend(series, [("limit-key", text)]),
            charts.areas([1.0, 2.0], series, began=0.0, line=None, marks=[charts.Mark(at=1.0, text=text)]),
            charts.bars([1.0, 2.0], series, began=0.0),
        ]

    def quotes(part: str) -> int:
        """Those that no attribute of ours has."""
        return len(re.findall("[\"']", re.sub(r'<style>.*?</style>|[\w-]+="[^"]*"', "", part, flags=re.DOTALL)))

    folded = {"details", "summary", "pre"}  # what a statement of several lines is in
    for part, plain in zip(parts(text), parts("plain"), strict=True):
        found, known = _Parsed(part), _Parsed(plain)
        assert harmless(part) and quotes(part) == quotes(plain) and all(c.isprintable() or c in "\n\t" for c in part)
        assert found.tags - folded == known.tags - folded and found.attributes == known.attributes


def test_the_policy_names_the_one_style_sheet(written: str) -> None:
    (style,) = re.findall(r"<style>(.*?)</style>", written, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    (policy,) = re.findall(r'Content-Security-Policy" content="([^"]*)"', written)
    assert policy == f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    assert written.count('<meta name="referrer" content="no-referrer">') == 1
    assert written.index("Content-Security-Policy") < written.index("<title>")  # before any text of others
    assert " style=" not in written and "<script" not in written and "url(" not in written


def test_the_page_tells_what_the_ledger_knows(written: str) -> None:
    shown = _Parsed(written).text
    for told in ("epsilon=17.25", "epsilon charged over time", "answered free", "people", "ages", "shared with eve"):
        assert told.lower() in shown.lower(), told
    assert "revoked" in shown and "Q101" in shown and "the text is not SQL" in shown
    assert "total variation" in shown and "Rows by age" in shown  # the report of the synthetic table
    assert "visits" in shown and "at most 10,000 rows" in shown


def test_no_private_figure_is_on_the_page(written: str, clinic: str, ledger: Ledger) -> None:
    """What stands in rows alone, exact sums, and the ledger's salt are not there; its twin finds them.

    That no row is read at all is the imports' business: ``dashboard`` has the ledger, and not the vault.
    """

    def secrets_in(page: str) -> list[str]:
        with duckdb.connect(clinic, read_only=True) as con:
            exact = [str(v) for v in con.execute("SELECT avg(age), sum(age) FROM visits").fetchone() or ()]
        return [secret for secret in (CELL, ledger.salt.hex(), *exact) if secret in page]

    assert secrets_in(written) == []
    assert secrets_in(written + f"<p>{CELL}</p>") == [CELL]


def test_the_page_leads_to_no_private_read() -> None:
    """No import of it, however far, reaches the vault or a desk: it could not read a row."""
    known = with_packages(imports())
    for name in ("duckdp.dashboard.document", "duckdp.dashboard.reports", "duckdp.dashboard.live"):
        assert not [
            other for other in reached(known, name) if other.split(".")[1:2] in (["vault"], ["desk"], ["owner"])
        ]


def test_the_file_is_the_owners_alone_and_new(run: Run, clinic: str, tmp_path: Path) -> None:
    target = tmp_path / "page.html"
    done = run("dashboard", clinic, "--out", target)
    assert done.exit_code == 0, done.output
    assert stat.S_IMODE(target.stat().st_mode) == 0o600
    assert harmless(target.read_text())
    again = run("dashboard", clinic, "--out", target)
    assert again.exit_code == 1 and again.output.startswith("P107") and os.listdir(tmp_path) == ["page.html"]
    assert run("dashboard", clinic, "--out", target, "--live").exit_code == 2


def test_a_charge_says_its_tables(ledger: Ledger) -> None:
    assert {tables_of(row.parameters) for row in ledger.charges()} == {"visits"}
    assert tables_of('{"table": "care"}') == "care"  # a summary of an earlier version
    for other in ("", "[]", "{}", '{"tables": []}', '{"tables": 3}'):
        assert tables_of(other) == "(not said)"


def test_a_second_look_reads_what_is_new(clinic: str, ledger: Ledger) -> None:
    reader = Reader(ledger)
    before = reader.read()
    with duckdp.open(clinic) as curator:
        curator.session("ana").sql("SELECT count(*) FROM visits WHERE age > 41", epsilon="0.125")
    after = reader.read(Choice(kinds=("charge",), last=1))
    assert after.charges == before.charges + 1 and [e.kind for e in after.history] == ["charge"]
    assert {n: c.total for n, c in after.by_analyst.items()} == {
        n: c.total for n, c in Reader(ledger).read().by_analyst.items()
    }


def test_a_curve_keeps_its_totals_in_bounded_memory() -> None:
    curve, one_by_one = Curve(), 0
    for i in range(3 * MOST):
        curve.add(float(i), i % 7)
        one_by_one += i % 7
        if i % 1000 == 999:
            assert curve.total == one_by_one == curve.at([1e9])[0]
    curve.add(5.0, 1)  # a clock that was set back
    assert curve.total == one_by_one + 1 and len(curve._at) <= MOST
    steps = curve.at([-1.0, *range(0, 3 * MOST, 50)])
    assert steps[0] == 0 and steps == sorted(steps)


# ---- live -----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def live(ledger: Ledger) -> Iterator[Live]:
    reader, reports = Reader(ledger), Reports(ledger)
    server = Live(
        lambda choice: document(reader.read(choice), name="clinic", choice=choice, report=reports, live=True), refresh=7
    )
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


def asked(live: Live, path: str, method: str = "GET", **headers: str) -> tuple[int, dict[str, str], str]:
    connection = http.client.HTTPConnection("127.0.0.1", live.server_port, timeout=30)
    connection.request(method, path, headers={name.replace("_", "-"): value for name, value in headers.items()})
    found = connection.getresponse()
    text = found.read().decode()
    connection.close()
    return found.status, {name.lower(): value for name, value in found.getheaders()}, text


def test_the_address_opens_the_page(live: Live) -> None:
    status, headers, text = asked(live, f"/{live.token}/?analyst=ana&kind=charge&last=5")
    assert status == 200 and harmless(text) and "entries of ana" in text
    assert headers["content-security-policy"].endswith("; frame-ancestors 'none'")
    assert headers["content-security-policy"].startswith("default-src 'none'; style-src 'sha256-")
    assert (headers["cache-control"], headers["referrer-policy"], headers["refresh"]) == (
        "no-store",
        "no-referrer",
        "7",
    )
    assert headers["x-content-type-options"] == "nosniff" and headers["x-frame-options"] == "DENY"
    assert headers["cross-origin-resource-policy"] == headers["cross-origin-opener-policy"] == "same-origin"
    assert not [name for name in headers if name.startswith("access-control")] and headers["server"].strip() == "duckdp"
    assert asked(live, f"/{live.token}/", Host=f"localhost:{live.server_port}")[0] == 200
    assert asked(live, f"/{live.token}/", "HEAD")[::2] == (200, "")
    assert live.server_address[0] == "127.0.0.1" and len(live.token) >= 43


def test_everything_else_is_the_same_nothing(live: Live) -> None:
    here = f"/{live.token}/"
    wrong = [
        ("/", {}),
        (here[:-1], {}),
        (here[:-2] + "/", {}),
        (here.swapcase(), {}),
        ("/" + "x" * len(live.token) + "/", {}),
        (here + "../", {}),
        (here, {"Host": "evil.example"}),  # a name that was made to lead here
        (here, {"Host": f"evil.example:{live.server_port}"}),
        (here, {"Host": "127.0.0.1"}),
        (here + "?analyst=<script>", {}),
        (here + "?kind=secret", {}),
        (here + "?last=-1", {}),
        (here + "?what=else", {}),
        ("//[", {}),
    ]
    found = [asked(live, path, **headers) for path, headers in wrong]
    assert {status for status, _, _ in found} == {404}
    assert len({text for _, _, text in found}) == 1 and "evil" not in found[0][2]
    for method in ("POST", "PUT", "DELETE", "OPTIONS", "PATCH", "<script>"):
        status, headers, text = asked(live, here, method)
        assert (status, text) == (404, found[0][2]) and "allow" not in headers


def test_a_choice_is_read_or_nothing() -> None:
    assert read_choice("") == Choice()
    assert read_choice("last=999999999") == Choice(last=10_000)
    for query in ("last=", "last=٣", "last=1e3", "analyst=", "analyst=a%00b", "&".join(["kind=act"] * 50), "x"):
        assert read_choice(query) is None, query


# ---- a real browser -------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_browser_runs_none_of_it(written: str, live: Live, tmp_path: Path) -> None:
    """Chromium shows the page as it is written: no script of a statement ran, the style sheet counts.

    Twin: the same browser runs the same statement on a page without escaping and policy.
    """
    page, broken = tmp_path / "page.html", tmp_path / "broken.html"
    page.write_text(written)
    broken.write_text(f"<!doctype html><title>clinic.duckdb</title>{HOSTILE[0]}<p>{HOSTILE[1]}")
    assert "<title>clinic.duckdb</title>" in dumped(page.as_uri())
    assert "<title>owned</title>" in dumped(broken.as_uri())
    served = dumped(live.address)
    assert "<title>clinic</title>" in served and "<script" not in served
    picture = tmp_path / "page.png"
    browse(page.as_uri(), "--window-size=1200,1600", f"--screenshot={picture}")
    assert picture.stat().st_size > 50_000


def browse(address: str, *options: str) -> str:
    program = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    assert program is not None, "this slow test needs chromium"
    command = [program, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", *options, address]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=True).stdout


def dumped(address: str) -> str:
    """A page as it stands once its scripts ran."""
    return browse(address, "--virtual-time-budget=2000", "--dump-dom")

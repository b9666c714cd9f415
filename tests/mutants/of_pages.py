"""Faults of the owner's page and of reports: texts that are markup, a policy that lets more in; and of the wire's texts."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

_DOCUMENT, _STYLE, _CHARTS, _LIVE = (f"duckdp/dashboard/{n}.py" for n in ("document", "style", "charts", "live"))
_PAGE, _TEXTS, _T = "duckdp/synthetic/report/html_page.py", "duckdp/serve/statements.py", "tests/cli/test_dashboard.py"
_T_HELD = (f"{_T}::test_every_part_of_the_page_holds_texts",)
_T_POLICY = (f"{_T}::test_the_policy_names_the_one_style_sheet",)
_T_HEADERS = (f"{_T}::test_the_address_opens_the_page",)
_T_NOTHING = (f"{_T}::test_everything_else_is_the_same_nothing",)
_T_CHOICE = (f"{_T}::test_a_choice_is_read_or_nothing",)
_T_REPORTS = tuple(
    f"tests/synthetic/test_report.py::{n}"
    for n in ("test_pages_hold_nothing_of_anybody_elses", "test_hostile_names_of_tables_and_releases")
)
_T_DATES = ("tests/serve/test_superset.py::test_dates_of_postgresql_alone_become_literals",)

# fmt: off
PAGES: tuple[Mutant, ...] = (
    Mutant("page: cells as they are", _DOCUMENT, 'shown = "" if value is None else escape(value)', 'shown = "" if value is None else str(value)', _T_HELD),
    Mutant("page: names of columns as they are", _DOCUMENT, 'f"<th>{escape(n)}</th>" for i', 'f"<th>{n}</th>" for i', _T_HELD),
    Mutant("page: a title as it is", _DOCUMENT, "<title>{escape(name)}</title>", "<title>{name}</title>", _T_HELD),
    Mutant("page: a heading as it is", _DOCUMENT, "<h1>{escape(name)}</h1>", "<h1>{name}</h1>", _T_HELD),
    Mutant("page: cards as they are", _DOCUMENT, "<b>{escape(value)}</b>", "<b>{value}</b>", _T_HELD),
    Mutant("page: a short statement as it is", _DOCUMENT, '<code class="say">{escape(line)}</code>', '<code class="say">{line}</code>', _T_HELD),
    Mutant("page: the beginning of a statement as it is", _DOCUMENT, 'short = escape(line[:SHORT] + ("..." if len(line) > SHORT else ""))', "short = line[:SHORT]", _T_HELD),
    Mutant("page: a whole statement as it is", _DOCUMENT, "html.escape(visible(text), quote=True)", "visible(text)", _T_HELD),
    Mutant("page: a whole statement prints whatever it has", _DOCUMENT, "html.escape(visible(text), quote=True)", "html.escape(text, quote=True)", _T_HELD),
    Mutant("page: addresses in a whole statement", _DOCUMENT, 'quote=True).replace(":", "&#58;")', "quote=True)", _T_HELD),
    Mutant("page: texts of links as they are", _DOCUMENT, '#history">{escape(text)}</a>', '#history">{text}</a>', _T_HELD),
    Mutant("page: links that are not encoded", _DOCUMENT, "?{escape(urlencode(asked))}#", '?{"&".join(v for _, v in asked)}#', _T_HELD),
    Mutant("page: marks as they are", _CHARTS, 'return f"<title>{escape(text)}</title>"', 'return f"<title>{text}</title>"', _T_HELD),
    Mutant("page: legends as they are", _CHARTS, 'f"{escape(name)}</span>"', 'f"{name}</span>"', _T_HELD),
    Mutant("page: no policy", _DOCUMENT, '<meta http-equiv="Content-Security-Policy" content="{policy()}">', "", _T_POLICY),
    Mutant("page: its own origin may be loaded", _STYLE, "\"default-src 'none'\"", "\"default-src 'self'\"", _T_POLICY),
    Mutant("page: any style", _STYLE, "f\"style-src 'sha256-{digest}'\"", "\"style-src 'unsafe-inline'\"", _T_POLICY),
    Mutant("page: any base", _STYLE, "\"base-uri 'none'\", ", "", _T_POLICY),
    Mutant("page: forms may be sent", _STYLE, ", \"form-action 'none'\"", "", _T_POLICY),
    Mutant("page: addresses are told to others", _DOCUMENT, '<meta name="referrer" content="no-referrer">', "", _T_POLICY),
    Mutant("live: frames of others", _LIVE, "policy(framed=True)", "policy()", _T_HEADERS),
    Mutant("live: browsers guess what it is", _LIVE, '    "X-Content-Type-Options": "nosniff",\n', "", _T_HEADERS),
    Mutant("live: browsers keep it", _LIVE, '"Cache-Control": "no-store"', '"Cache-Control": "private"', _T_HEADERS),
    Mutant("live: loaded by other sites", _LIVE, '    "Cross-Origin-Resource-Policy": "same-origin",\n', "", _T_HEADERS),
    Mutant("live: opened by other sites", _LIVE, '    "Cross-Origin-Opener-Policy": "same-origin",\n', "", _T_HEADERS),
    Mutant("live: a short secret", _LIVE, "secrets.token_urlsafe(32)", "secrets.token_urlsafe(8)", _T_HEADERS),
    Mutant("live: at every address", _LIVE, "super().__init__((HOST, port), _Request)", 'super().__init__(("", port), _Request)', _T_HEADERS),
    Mutant("live: any host", _LIVE, "or hosts[0] not in self.server.hosts", "", _T_NOTHING),
    Mutant("live: any token", _LIVE, "if not known or len", "if len", _T_NOTHING),
    Mutant("live: a token that begins alike", _LIVE, 'secrets.compare_digest(parts.path.encode("utf-8", "replace"), f"/{self.server.token}/".encode())', 'f"/{self.server.token}/".startswith(parts.path[:-1])', _T_NOTHING),
    Mutant("live: what is refused is quoted", _LIVE, "self._send(HTTPStatus.NOT_FOUND, _NOTHING, body=self.command != \"HEAD\")", "self._send(HTTPStatus.NOT_FOUND, str(message).encode(), body=True)", _T_NOTHING),
    Mutant("live: analysts of any name", _LIVE, '            check_name(analyst, "analyst")\n', "            pass\n", (*_T_NOTHING, *_T_CHOICE)),
    Mutant("live: any kind of entry", _LIVE, "not set(kinds) <= set(KINDS) or ", "", _T_NOTHING),
    Mutant("live: as many entries as asked for", _LIVE, "min(max(int(last), 1), MOST_SHOWN)", "max(int(last), 1)", _T_CHOICE),
    Mutant("reports: any policy", _PAGE, "default-src 'none'; style", "default-src *; style", _T_REPORTS),
    Mutant("reports: texts as they are", _PAGE, "html.escape(printable(value), quote=True)", "printable(value)", _T_REPORTS),
    Mutant("reports: quotes as they are", _PAGE, "html.escape(printable(value), quote=True)", "html.escape(printable(value), quote=False)", _T_HELD),
    Mutant("reports: whatever does not print", _PAGE, "html.escape(printable(value), quote=True)", "html.escape(str(value), quote=True)", _T_HELD),
    Mutant("reports: addresses", _PAGE, '.replace(":", "&#58;")', "", _T_REPORTS),
    Mutant("reports: labels as they are", _PAGE, "shown = escape(printable(label)[:MOST_SHOWN])", "shown = printable(label)[:MOST_SHOWN]", _T_REPORTS),
    Mutant("dates: inside of texts and comments", _TEXTS, '_PIECES.pattern + r"| (?<!', 'r"(?P<block>/\\*)| (?<!', _T_DATES),
    Mutant("dates: parts of names", _TEXTS, r"""r"| (?<![\w.\"])(?P<called>""", 'r"| (?P<called>', _T_DATES),
    Mutant("dates: comments end within", _TEXTS, 'end = _after_comment(text, piece.end()) if piece["block"] else piece.end()\n        call', "end = piece.end()\n        call", _T_DATES),
    Mutant("dates: whatever their form", _TEXTS, "if call is not None and _is_of_form(call):", "if call is not None:", _T_DATES),
    Mutant("dates: places in messages move", _TEXTS, ".ljust(len(call[0]))", "", _T_DATES),
    Mutant("dates: with a time of day", _TEXTS, 'time = call["time"] or "" if kind == "TIMESTAMP" else ""', 'time = call["time"] or ""', _T_DATES),
    Mutant("dates: fractions of any form", _TEXTS, '2 if "." in time else 1', "1", _T_DATES),
)

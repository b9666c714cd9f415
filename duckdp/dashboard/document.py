"""The owner's page as HTML: self-contained, without scripts, nothing loaded from elsewhere.

Analysts' statements are hostile text, and so is what they named. Every text goes through :func:`escape` or
:func:`_statement`, which leave no markup, no quote, no character that does not print, and no colon of an address; the
page's policy (``style.policy``) would load and run nothing all the same.
"""

from __future__ import annotations

import html
from collections import Counter
from collections.abc import Callable, Sequence
from urllib.parse import urlencode

from duckdp.catalog.listed import catalog_rows
from duckdp.core.types import Loss, show_decimal
from duckdp.dashboard import charts
from duckdp.dashboard.charts import Mark, Series
from duckdp.dashboard.curve import Curve
from duckdp.dashboard.facts import Choice, Facts, Refusals, seconds
from duckdp.dashboard.style import STYLE, policy
from duckdp.errors import CODES
from duckdp.ledger.history import Entry
from duckdp.ledger.types import CapState
from duckdp.synthetic.report.html_page import escape, printable
from duckdp.texts import escape as visible

SHORT = 110  # characters of a statement that stand in a line; the whole is a click away
MARKED = ("budget", "grant", "revoke", "freeze", "unfreeze", "source", "table")  # acts on the axis of time
MOST_MARKS = 80  # acts that are drawn; the history has all
KINDS = {"free": "free", "refused": "refused", "failed": "failed after the charge"}
SECTIONS = {
    "budgets": "Budgets",
    "asked": "What was asked",
    "refused": "Refused, and why",
    "released": "Released",
    "history": "History",
    "tables": "Tables",
}

Report = Callable[[int], "list[str]"]


def document(facts: Facts, *, name: str, choice: Choice, report: Report, live: bool = False) -> str:
    """The whole page as HTML, self-contained.

    Args:
        facts: what it tells.
        name: of the data set, any text.
        choice: what of the history ``facts`` has.
        report: gives the report of a stored release, by its charge, as parts of a page.
        live: it is served: names are links that choose a history.
    """
    head = (
        f'<meta charset="utf-8"><meta http-equiv="Content-Security-Policy" content="{policy()}">'
        '<meta name="referrer" content="no-referrer"><meta name="viewport" content="width=device-width">'
        f"<title>{escape(name)}</title><style>{STYLE}</style>"
    )
    nav = "".join(f'<a href="#{place}">{title}</a>' for place, title in SECTIONS.items())
    written = facts.at.strftime("%Y-%m-%d %H:%M:%S")
    top = f"<h1>{escape(name)}</h1><p>For the owner alone, {escape(written)} UTC{' (live)' if live else ''}.</p>"
    body = [
        f"<header>{top}<nav>{nav}</nav>{_cards(facts)}</header><main>",
        _section("budgets", [_over_time(facts), *_caps(facts), *_by_table(facts)]),
        _section("asked", _asked(facts, live)),
        _section("refused", _refused(facts)),
        _section("released", _released(facts, report)),
        _section("history", _history(facts, choice, live)),
        _section("tables", _tables(facts)),
        "</main><footer><p>This page tells what analysts asked and what the owner did, as the ledger and the log of "
        "statements keep it, and what was released with its noise. No figure of it was read off private rows; the "
        "statements are the analysts' own, so it is for nobody else.</p></footer>",
    ]
    inside = "\n".join(body)
    return f'<!doctype html>\n<html lang="en"><head>{head}</head><body>\n{inside}\n</body></html>\n'


# ---- sections -------------------------------------------------------------------------------------------------------


def _section(place: str, parts: Sequence[str]) -> str:
    return f'<section id="{place}"><h2>{SECTIONS[place]}</h2>{"".join(parts)}</section>'


def _cards(facts: Facts) -> str:
    state, kinds = facts.state, Counter[str]()
    for one in facts.asked.values():
        kinds += one.kinds
    cards = [("Left of the total", state.remaining or "no budget is set", False)]
    if state.frozen:
        cards.append(("Nobody is answered", f"frozen: {state.frozen_reason or ''}", True))
    cards += [
        ("Charged", f"{facts.charges:,}", False),
        ("Answered free", f"{kinds['free']:,}", False),
        ("Refused", f"{kinds['refused']:,}", False),
        ("Version of the data", f"{state.data_version}", False),
    ]
    if kinds["failed"]:
        cards.append(("Failed after the charge", f"{kinds['failed']:,}", True))
    shown = (
        f'<div class="card{" alarm" if alarm else ""}"><span>{escape(title)}</span><b>{escape(value)}</b></div>'
        for title, value, alarm in cards
    )
    return f'<div class="cards">{"".join(shown)}</div>'


def _over_time(facts: Facts) -> str:
    """What was charged, stacked by analyst."""
    name, units = facts.unit
    title = f"<h3>{name} charged over time, by analyst</h3>"
    return title + _stack(facts, facts.by_analyst, facts.state.primary_limit / units)


def _stack(facts: Facts, curves: dict[str, Curve], line: float | None) -> str:
    """Curves stacked, the largest ones first; those beyond the colours are one."""
    if not curves:
        return '<p class="soft">Nothing was charged yet.</p>'
    _, units = facts.unit
    times = charts.moments(facts.began, facts.at.timestamp(), charts.STEPS)
    ordered = sorted(curves, key=lambda name: (-curves[name].total, name))
    alone = ordered if len(ordered) <= charts.COLOURS else ordered[: charts.COLOURS - 1]
    series = [Series(name=n, css=f"c{i}", values=[v / units for v in curves[n].at(times)]) for i, n in enumerate(alone)]
    if rest := ordered[len(alone) :]:
        sums = [sum(v) / units for v in zip(*(curves[n].at(times) for n in rest), strict=True)]
        series.append(Series(name=f"{len(rest)} others", css=f"c{charts.COLOURS - 1}", values=sums))
    more = [("limit-key", f"the total, {line:.6g}")] if line is not None else []
    plot = charts.areas(times, series, began=facts.began, line=line, marks=_marks(facts))
    return plot + charts.legend(series, more)


def _marks(facts: Facts) -> list[Mark]:
    found = [e for e in facts.acts if e.kind in MARKED and seconds(e.at) >= facts.began][:MOST_MARKS]
    return [Mark(at=seconds(e.at), text=f"{e.kind} {e.subject}" + (f": {e.reason}" if e.reason else "")) for e in found]


def _caps(facts: Facts) -> list[str]:
    """Who may spend how much, and what is left."""
    rows = []
    for one in facts.analysts:
        told = f"revoked: {one.revoked_reason}" if one.revoked else ""
        rows.append(_cap_row(one.name, one, told))
    rows += [_cap_row(f"team {team.name}", team, ", ".join(team.members)) for team in facts.teams]
    if not rows:
        return ['<p class="soft">Nobody has a grant.</p>']
    return ["<h3>Grants</h3>", _table(["who", "granted", "spent", "", "left", "this month", ""], rows, numbers=())]


def _cap_row(name: str, cap: CapState, told: str) -> list[str]:
    granted = Loss(epsilon_nano=cap.epsilon_nano, delta_atto=cap.delta_atto)
    spent = ((cap.primary_spent, cap.primary_limit), (cap.secondary_spent, cap.secondary_limit))
    share = max((used / limit for used, limit in spent if limit), default=0.0)
    month = "" if cap.month is None else f"{cap.month.remaining} left until {cap.month.replenishes}"
    return [
        _cell(name, "name"),
        _cell(granted),
        _cell(f"{share:.1%}", "num"),
        f"<td>{charts.meter(share)}</td>",
        _cell(cap.remaining),
        _cell(month),
        _cell(told, "soft"),
    ]


def _by_table(facts: Facts) -> list[str]:
    """What was charged about which tables, over time and by analyst."""
    if not facts.by_tables:
        return []
    name, units = facts.unit
    columns = sorted(facts.by_tables, key=lambda t: (-facts.by_tables[t].total, t))
    rows = []
    for analyst in sorted(facts.by_analyst):
        cells = [facts.spent[analyst, tables] for tables in columns]
        rows.append([_cell(analyst, "name"), *(_cell(_amount(v, units), "num") for v in [*cells, sum(cells)])])
    return [
        f"<h3>{name} charged over time, by the tables asked about</h3>",
        _stack(facts, facts.by_tables, None),
        _table(["who", *columns, "in all"], rows, numbers=range(1, len(columns) + 2)),
    ]


def _amount(units: int, of: int) -> str:
    return "" if not units else show_decimal(units, len(str(of)) - 1)


def _asked(facts: Facts, live: bool) -> list[str]:
    times = charts.moments(facts.began, facts.at.timestamp(), charts.BARS)
    curves = {"charge": facts.counted, **facts.others}
    names = {"charge": "charged", **KINDS}
    series = [
        Series(name=names[kind], css=f"k-{kind}", values=_steps(curve.at(times))) for kind, curve in curves.items()
    ]
    rows = []
    for who in sorted(facts.asked):
        one = facts.asked[who]
        counts = [one.charges, *(one.kinds[kind] for kind in KINDS)]
        link = f'<td class="name">{_link(who, Choice(analyst=who))}</td>' if live else _cell(who, "name")
        rows.append([link, *(_cell(f"{n:,}", "num") for n in counts), _cell(_moment(one.last), "fit")])
    note = (
        "Charges are kept for ever; of what was free, refused or failed the latest 100,000 or 32 MiB. "
        "What analysts run on their own DuckDB, without private rows, is not noted."
    )
    shown = [charts.bars(times, series, began=facts.began), charts.legend(series)] if rows else []
    heads = ["who", "charged", *KINDS.values(), "last (UTC)"]
    return [*shown, _table(heads, rows, numbers=range(1, len(KINDS) + 2)), f'<p class="soft">{escape(note)}</p>']


def _steps(totals: Sequence[int]) -> list[float]:
    return [float(b - a) for a, b in zip([0, *totals[:-1]], totals, strict=True)]


def _refused(facts: Facts) -> list[str]:
    if not facts.refusals:
        return ['<p class="soft">Nothing, as far as the log of statements goes back.</p>']
    ordered = sorted(facts.refusals.items(), key=lambda item: (item[1].kind, -item[1].count, item[0]))
    rows = [_refusal_row(code, one) for code, one in ordered]
    return [_table(["code", "times", "who", "why", "last (UTC)", "the last of them"], rows, numbers=(1,))]


def _refusal_row(code: str, one: Refusals) -> list[str]:
    who = ", ".join(f"{name} {count:,}" if len(one.by) > 1 else name for name, count in one.by.most_common(5))
    more = f" and {len(one.by) - 5} more" if len(one.by) > 5 else ""
    return [
        f'<td class="fit"><span class="tag {one.kind}">{escape(code)}</span></td>',
        _cell(f"{one.count:,}", "num"),
        _cell(who + more),
        _cell(CODES.get(code, "")),
        _cell(_moment(one.last.at), "fit"),
        f"<td>{_statement(one.last.text)}</td>",
    ]


def _released(facts: Facts, report: Report) -> list[str]:
    if not facts.stored:
        return ['<p class="soft">No summary and no synthetic table was stored by a name.</p>']
    parts = []
    for one in facts.stored:
        row, charge = one.row, one.charge
        cost = "" if charge is None else f", {charge.loss}, {charge.mechanism}"
        shared = f", shared with {', '.join(one.readers)}" if one.readers else ""
        of = f", of version {row.data_version} of the data" if row.data_version != facts.state.data_version else ""
        told = f"{row.kind} of {row.owner}, {_moment(row.at)} UTC, charge {row.charge_id}{cost}{shared}{of}"
        inside = [_statement(row.statement)]
        inside += report(row.charge_id) if row.ready else ['<p class="soft">It has no release yet.</p>']
        title = f'<span class="name">{escape(row.name)}</span> <span class="soft">{escape(told)}</span>'
        parts.append(f"<details><summary>{title}</summary>{''.join(inside)}</details>")
    return parts


def _history(facts: Facts, choice: Choice, live: bool) -> list[str]:
    rows = [_entry_row(entry) for entry in facts.history]
    of = "" if choice.analyst is None else f" of {choice.analyst}"
    about = f"The latest {len(rows):,} entries{of}, newest first; duckdp ledger history and export have all of them."
    parts = [f'<p class="soft">{escape(about)}</p>']
    if live:
        choices = [
            ("everything", Choice()),
            ("charged", Choice(kinds=("charge",))),
            ("refused and failed", Choice(kinds=("refused", "failed", "lost"))),
            ("acts of the owner", Choice(kinds=("act",))),
            ("1,000 entries", Choice(analyst=choice.analyst, kinds=choice.kinds, last=1000)),
        ]
        parts.append(f"<p>{' '.join(_link(name, one) for name, one in choices)}</p>")
    heads = ["at (UTC)", "who", "", "cost", "outcome", "what"]
    return [*parts, _table(heads, rows, numbers=())]


def _entry_row(entry: Entry) -> list[str]:
    return [
        _cell(_moment(entry.at), "fit"),
        _cell(entry.who, "name"),
        f'<td><span class="tag {entry.kind}">{escape(entry.kind)}</span></td>',
        _cell(entry.cost, "fit"),
        _cell(entry.outcome),
        f"<td>{_statement(entry.text)}</td>",
    ]


def _tables(facts: Facts) -> list[str]:
    if not facts.tables:
        return ['<p class="soft">No table is protected.</p>']
    heads = ["column", "type", "lower", "upper", "domain", "NULL"]
    parts = ['<p class="soft">What analysts see of them: declared figures, none of them read off the data.</p>']
    for name, table in sorted(facts.tables.items()):
        listed = catalog_rows(table)
        unit = "" if not listed else f"unit: {listed[0][7]}; "
        about = f"{unit}at most {table.row_cap:,} rows"
        rows = [[_cell(v, "name" if i == 0 else "") for i, v in enumerate(row[1:7])] for row in listed]
        title = f'<span class="name">{escape(name)}</span> <span class="soft">{escape(about)}</span>'
        parts.append(f"<details><summary>{title}</summary>{_table(heads, rows, numbers=())}</details>")
    return parts


# ---- parts of them --------------------------------------------------------------------------------------------------


def _cell(value: object, kind: str = "") -> str:
    shown = "" if value is None else escape(value)
    return f'<td class="{kind}">{shown}</td>' if kind else f"<td>{shown}</td>"


def _table(names: Sequence[str], rows: Sequence[Sequence[str]], *, numbers: Sequence[int]) -> str:
    """A table of cells that are HTML; ``numbers``: places of the columns whose names stand to the right."""
    head = "".join(
        f'<th class="num">{escape(n)}</th>' if i in numbers else f"<th>{escape(n)}</th>" for i, n in enumerate(names)
    )
    body = "".join(f"<tr>{''.join(row)}</tr>" for row in rows)
    return f'<div class="wide"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'


def _moment(at: str) -> str:
    """A moment of the ledger as people read it."""
    return at.replace("T", " ").removesuffix("Z")


def _statement(text: str) -> str:
    """A statement: its beginning in a line, and the whole behind it, where what does not print is an escape."""
    line = " ".join(printable(text).split())
    if len(line) <= SHORT and "\n" not in text.strip():
        return f'<code class="say">{escape(line)}</code>'
    whole = html.escape(visible(text), quote=True).replace(":", "&#58;")
    short = escape(line[:SHORT] + ("..." if len(line) > SHORT else ""))
    return f'<details class="text"><summary><code class="say">{short}</code></summary><pre>{whole}</pre></details>'


def _link(text: str, choice: Choice) -> str:
    """A link to the same page with another part of the history."""
    asked: list[tuple[str, str]] = [] if choice.analyst is None else [("analyst", choice.analyst)]
    if choice.kinds != Choice().kinds:
        asked += [("kind", kind) for kind in choice.kinds]
    if choice.last != Choice().last:
        asked.append(("last", str(choice.last)))
    return f'<a href="?{escape(urlencode(asked))}#history">{escape(text)}</a>'

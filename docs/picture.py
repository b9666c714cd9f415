"""Draw the architecture: ``python docs/picture.py`` writes ``docs/architecture.svg`` from the imports of the package.

Every package of duckdp, and every module at its top, is a room, one floor above the highest that it imports from: the
code alone places it, and every arrow points down (one that does not would be red). An arrow that follows from others
(a imports b, b imports c) is left out. Rooms that meet exact values of private rows stand within the wall.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from itertools import pairwise
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tests.imports import imports  # noqa: E402 - the tests read the imports in the same way

PICTURE = ROOT / "docs" / "architecture.svg"

# What a room holds; several that are small share one.
WORDS = {
    "ground": "errors, texts, arguments, resources, process",
    "core": "exact numbers, noise",
    "result": "answers, error bars",
    "ledger": "budgets, charges, stores",
    "mechanisms": "claim, proof, sampler",
    "catalog": "what is declared",
    "local": "noise at collection",
    "compiler": "SELECT to plan to SQL",
    "smooth": "summaries, answers",
    "synthetic": "rows from releases",
    "smooth.buy": "smooth/buy, smooth/sums",
    "synthetic.buy": "buy of each method",
    "vault": "where private rows are",
    "desk": "the one door",
    "functions": "the dp functions",
    "session": "the analyst's Python",
    "front": "the analyst's SQL",
    "faces": "parts of the faces",
    "curator": "the owner's Python",
    "owner": "for the owner alone",
    "cli": "commands, prompt, story",
    "serve": "PostgreSQL's protocol",
    "client": "its DB-API, error bars",
    "bench": "figures",
    "dashboard": "the owner's page",
}
TITLES = {"smooth.buy": "smooth: reads", "synthetic.buy": "synthetic: reads", "cli": "cli, shell, demo"}
SHARED = {
    **dict.fromkeys(("errors", "texts", "arguments", "resources", "process"), "ground"),
    **dict.fromkeys(("shell", "demo"), "cli"),
}
WITHIN = ("vault", "mechanisms", "smooth.buy", "synthetic.buy")  # the wall
LEFT_OUT = ("duckdp", "__main__")  # names, and the start of the commands
# The way of a question: (room, corner to the right and below or not, word, what happens).
WAY = (
    ("ledger", (1, -1), "charge", ("What it costs is on the disk before", "a row is read, and stays there.")),
    ("vault", (1, -1), "read", ("SQL of our own, printed from the plan;", "never a word of the analyst's.")),
    ("mechanisms", (1, -1), "noise", ("Exact integers, exact noise. How much", "and how it is drawn is public.")),
    ("ledger", (-1, 1), "store", ("The noisy figures, before anybody sees", "them. Asked again, they are free.")),
    ("session", (-1, -1), "answer", ("Values and error bars follow from the", "figures. Nothing here is private.")),
)

WIDTH, MARGIN = 1110, 28  # px, of the page
TOWER = 352  # px, where rooms begin; beside them is the legend
ROOM, TALL, GAP, LINE = 150, 48, 16, 16  # px: a room's width and height, between two, of an arrow that passes
FLOOR = 88  # px from floor to floor
WALL, WALL_END = 868, 1092  # px, from side to side of the wall
SWEEPS = 40  # over the floors, until the order is at rest

LIGHT = {
    "page": "#fbfaf7",
    "room": "#ffffff",
    "edge": "#b9b4a7",
    "ink": "#26241f",
    "soft": "#6f6a5e",
    "arrow": "#a39d8e",
    "wall": "#b4472f",
    "inside": "#f9ebe6",
    "way": "#1f6f8b",
    "wrong": "#d00000",
    "disc": "#ffffff",
}
DARK = {
    "page": "#1c1f24",
    "room": "#282c33",
    "edge": "#4d5460",
    "ink": "#eceae4",
    "soft": "#a5a9b1",
    "arrow": "#69717e",
    "wall": "#e08068",
    "inside": "#35292a",
    "way": "#6cc3dd",
    "wrong": "#ff5050",
    "disc": "#14171b",
}
STYLE = """
text {{ font-family: system-ui, -apple-system, 'Segoe UI', Roboto, 'DejaVu Sans', sans-serif; fill: {ink}; }}
.page {{ fill: {page}; }} .room {{ fill: {room}; stroke: {edge}; }} .soft {{ fill: {soft}; }}
.arrow {{ fill: none; stroke: {arrow}; stroke-width: 1.3; }} .head {{ fill: {arrow}; }}
.wrong {{ fill: none; stroke: {wrong}; stroke-width: 2; }}
.inside {{ fill: {inside}; }} .wall {{ fill: none; stroke: {wall}; stroke-width: 3; stroke-dasharray: 14 5; }}
.walled {{ fill: {wall}; }} .way {{ fill: none; stroke: {way}; stroke-width: 4; stroke-linecap: round; opacity: 0.75; }}
.disc {{ fill: {way}; }} .number {{ fill: {disc}; font-weight: 700; }}
"""

Graph = Mapping[str, frozenset[str]]


@dataclass(eq=False)
class Place:
    """A room, or a place where an arrow passes a floor."""

    room: str | None
    floor: int
    within: bool
    x: float = 0.0
    above: list[Place] = field(default_factory=list)
    below: list[Place] = field(default_factory=list)

    @property
    def width(self) -> float:
        """What it takes of its floor, px."""
        return 2 * ROOM if self.room == "ground" else ROOM if self.room else LINE


def room_of(module: str) -> str:
    """The room that a module lies in."""
    parts = module.split(".")
    reads = {"buy", "sums"} & set(parts) or module == "duckdp.synthetic.methods"  # the list knows both sides
    if len(parts) == 1:
        return parts[0]
    return f"{parts[1]}.buy" if reads else SHARED.get(parts[1], parts[1])


def rooms() -> Graph:
    """Which room imports from which."""
    found: dict[str, set[str]] = {}
    for module, others in imports().items():
        own = found.setdefault(room_of(module), set())
        own |= {room_of(other) for other in others}
    shown = set(found) - set(LEFT_OUT)
    return {room: frozenset(found[room] & shown - {room}) for room in sorted(shown)}


def floors(graph: Graph) -> tuple[dict[str, int], set[tuple[str, str]]]:
    """The floor of every room, and the arrows that cannot point down because of a ring."""
    floor: dict[str, int] = {}
    upwards: set[tuple[str, str]] = set()

    def climb(room: str, way: tuple[str, ...]) -> int:
        if room not in floor:
            below = []
            for other in sorted(graph[room]):
                if other in way or other == room:
                    upwards.add((room, other))
                else:
                    below.append(climb(other, (*way, room)))
            floor[room] = max(below, default=-1) + 1
        return floor[room]

    for room in sorted(graph):
        climb(room, ())
    return floor, upwards


def arrows(graph: Graph, upwards: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """Those that follow from no others."""
    down = {room: {other for other in others if (room, other) not in set(upwards)} for room, others in graph.items()}

    def reached(room: str) -> set[str]:
        return {end for other in down[room] for end in {other} | reached(other)}

    return [(a, b) for a in down for b in sorted(down[a]) if not any(b in reached(c) for c in down[a] - {b})]


def lay_out(graph: Graph) -> tuple[dict[str, Place], list[list[Place]], list[list[Place]], set[tuple[str, str]]]:
    """Rooms, floors from the ground up, arrows as the places they pass, and what points up."""
    floor, upwards = floors(graph)
    at = {room: Place(room, floor[room], room in WITHIN) for room in graph}
    storeys: list[list[Place]] = [[] for _ in range(max(floor.values()) + 1)]
    for place in at.values():
        storeys[place.floor].append(place)
    lines = []
    for a, b in arrows(graph, upwards):
        line = [at[a]]
        for level in range(floor[a] - 1, floor[b], -1):
            passing = Place(None, level, at[a].within and at[b].within)
            storeys[level].append(passing)
            line.append(passing)
        line.append(at[b])
        for upper, lower in pairwise(line):
            upper.below.append(lower)
            lower.above.append(upper)
        lines.append(line)
    _settle(storeys)
    return at, storeys, lines, upwards


def _settle(storeys: Sequence[list[Place]]) -> None:
    """Every place near those that it is tied to, on both sides of the wall."""
    for storey in storeys:
        for k, place in enumerate(storey):
            place.x = k * 100.0
    for sweep in range(SWEEPS):
        for storey in storeys if sweep % 2 else reversed(storeys):
            for within in (False, True):
                side = [place for place in storey if place.within is within]
                low, high = (WALL + 37, WALL_END - 37) if within else (TOWER, WALL - 18)
                wish = {id(place): _wish(place, sweep) for place in side}
                side.sort(key=lambda place: wish[id(place)])
                _spread(side, wish, low, high)


def _wish(place: Place, sweep: int) -> float:
    """The middle of its neighbours: of one side at first, which sorts them out, of both at the end."""
    near = place.above + place.below if sweep > SWEEPS // 2 else place.below if sweep % 2 else place.above
    return sum(other.x for other in near) / len(near) if near else place.x


def _spread(side: Sequence[Place], wish: Mapping[int, float], low: float, high: float) -> None:
    """Places in their order, none upon another: as near to where they wish as the floor allows."""
    gap = GAP
    needed = sum(place.width + gap for place in side) - gap
    if side and needed > high - low:
        gap = max(2.0, gap - (needed - high + low) / max(1, len(side) - 1))
    at, ends = low, []
    for place in side:
        at = max(at, wish[id(place)] - place.width / 2)
        ends.append(at)
        at += place.width + gap
    limit = high
    for k in range(len(side) - 1, -1, -1):
        ends[k] = min(ends[k], limit - side[k].width)
        limit = ends[k] - gap
        side[k].x = ends[k] + side[k].width / 2


def draw() -> str:
    """The picture."""
    graph = rooms()
    at, storeys, lines, upwards = lay_out(graph)
    top = 96
    height = top + FLOOR * len(storeys) + 4

    def middle(place: Place) -> float:
        return top + FLOOR * (len(storeys) - 1 - place.floor) + TALL / 2

    out = [_head(height)]
    inside = [middle(at[room]) for room in WITHIN if room in at]
    out.append(_wall(min(inside) - TALL / 2 - 22, max(inside) + TALL / 2 + 18))
    out += [_arrow(line, middle) for line in lines]
    out += [_wrong(at[a], at[b], middle) for a, b in sorted(upwards)]
    out.append(_way(at, middle))
    out += [_room(place, middle(place)) for place in at.values()]
    out += _discs(at, middle)
    out.append(_legend(top + FLOOR * 3))
    return "\n".join([*out, "</svg>", ""])


def _head(height: float) -> str:
    light, dark = STYLE.format(**LIGHT), STYLE.format(**DARK)
    told = "The rooms of duckdp by floors, with arrows from each to what it imports, and the way of a question"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height:.0f}" role="img" aria-label="{told}">\n'
        f"<style>{light}@media (prefers-color-scheme: dark) {{{dark}}}\n</style>\n"
        f'<rect class="page" width="{WIDTH}" height="{height:.0f}" rx="14"/>\n'
        + _text(MARGIN, 40, "duckdp, floor by floor", 21, bold=True)
        + "\n"
        + _text(
            MARGIN, 63, "An arrow goes from a room to one that it imports from. All of them point down.", 13, "soft"
        )
    )


def _text(x: float, y: float, text: str, size: float, css: str = "", *, bold: bool = False, at: str = "start") -> str:
    more = (f' class="{css}"' if css else "") + (' font-weight="600"' if bold else "")
    more += f' text-anchor="{at}"'
    return f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size:g}"{more}>{escape(text)}</text>'


def _wall(top: float, bottom: float) -> str:
    box = f'x="{WALL}" y="{top:.1f}" width="{WALL_END - WALL}" height="{bottom - top:.1f}" rx="10"'
    name = _text(WALL_END, top - 28, "the wall", 14, "walled", bold=True, at="end")
    what = _text(WALL_END, top - 10, "exact values of private rows", 12, "walled", at="end")
    return f'<rect class="inside" {box}/>\n<rect class="wall" {box}/>\n{name}{what}'


def _arrow(line: Sequence[Place], middle: Callable[[Place], float]) -> str:
    x, y = line[0].x, middle(line[0]) + TALL / 2
    path = [f"M{x:.1f} {y:.1f}"]
    for place in line[1:]:
        end = middle(place) - TALL / 2 - (5 if place.room else 0)
        bend = (end - y) * 0.55
        path.append(f"C{x:.1f} {y + bend:.1f} {place.x:.1f} {end - bend:.1f} {place.x:.1f} {end:.1f}")
        x, y = place.x, end
        if not place.room:
            y += TALL
            path.append(f"V{y:.1f}")
    head = f'<path class="head" d="M{x - 4:.1f} {y - 2:.1f}h8l-4 7z"/>'
    return f'<path class="arrow" d="{"".join(path)}"/>{head}'


def _wrong(a: Place, b: Place, middle: Callable[[Place], float]) -> str:
    return f'<path class="wrong" d="M{a.x:.1f} {middle(a) - TALL / 2:.1f}L{b.x:.1f} {middle(b) + TALL / 2:.1f}"/>'


def _room(place: Place, y: float) -> str:
    name = str(place.room)
    x = place.x - place.width / 2
    box = f'<rect class="room" x="{x:.1f}" y="{y - TALL / 2:.1f}" width="{place.width}" height="{TALL}" rx="7"/>'
    title = _text(place.x, y - 3, TITLES.get(name, name), 14, bold=True, at="middle")
    return f"{box}{title}{_text(place.x, y + 14, WORDS.get(name, ''), 11, 'soft', at='middle')}"


def _stops(at: Mapping[str, Place], middle: Callable[[Place], float]) -> list[tuple[float, float]]:
    """Where the way of a question stops: at a room's corner."""
    return [
        (at[room].x + right * (at[room].width / 2 - 4), middle(at[room]) + below * TALL / 2)
        for room, (right, below), *_ in WAY
    ]


def _way(at: Mapping[str, Place], middle: Callable[[Place], float]) -> str:
    start = at[WAY[-1][0]]
    points = [(start.x, middle(start)), *_stops(at, middle)]
    path = [f"M{points[0][0]:.1f} {points[0][1]:.1f}"]
    for (x, y), (u, v) in pairwise(points):
        bend = 0.45 * (v - y)
        path.append(f"C{x:.1f} {y + bend:.1f} {u:.1f} {v - bend:.1f} {u:.1f} {v:.1f}")
    return f'<path class="way" d="{"".join(path)}"/>'


def _discs(at: Mapping[str, Place], middle: Callable[[Place], float]) -> list[str]:
    return [_disc(x, y, k) for k, (x, y) in enumerate(_stops(at, middle), 1)]


def _disc(x: float, y: float, number: int) -> str:
    return f'<circle class="disc" cx="{x:.1f}" cy="{y:.1f}" r="11"/>' + _text(
        x, y + 4.5, str(number), 13, "number", at="middle"
    )


def _legend(top: float) -> str:
    out = [_text(MARGIN, top, "The way of a question", 16, bold=True)]
    for k, (_, _, word, lines) in enumerate(WAY, 1):
        y = top + 78 * k - 42
        out += [_disc(MARGIN + 11, y - 5, k), _text(MARGIN + 34, y, word, 15, bold=True)]
        out += [_text(MARGIN + 34, y + 20 + 18 * n, line, 13, "soft") for n, line in enumerate(lines)]
    return "\n".join(out)


if __name__ == "__main__":
    PICTURE.write_text(draw(), encoding="utf-8")

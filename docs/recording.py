"""Record the demo: ``python docs/recording.py`` runs ``duckdp demo`` and draws what it prints as ``docs/demo.svg``.

The terminal shows some of the story's chapters, line by line as they were printed; a row of dots stands for the rest.
Noise is drawn anew, so each recording differs in its figures (a test compares the words).
"""

from __future__ import annotations

import io
import re
import subprocess
import sys
import tempfile
from html import unescape
from pathlib import Path

from rich.console import Console
from rich.terminal_theme import TerminalTheme

RECORDING = Path(__file__).resolve().parent / "demo.svg"
CHAPTERS = ("3", "7", "9")  # of the story: a table with error bars, a histogram of synthetic rows, two refusals
WIDTH = 120  # characters
INK, SOFT, CODE, REFUSED = "#d8dee9", "#8b95a5", "#88c0d0", "#ebcb8b"
THEME = TerminalTheme((30, 34, 42), (216, 222, 233), [(216, 222, 233)] * 8, [(216, 222, 233)] * 8)
# Like rich's own frame, but it loads no font.
FRAME = """\
<svg class="rich-terminal" viewBox="0 0 {width} {height}" xmlns="http://www.w3.org/2000/svg">
<style>
.{unique_id}-matrix {{ font-family: 'DejaVu Sans Mono', Menlo, Consolas, 'Liberation Mono', monospace;
  font-size: {char_height}px; line-height: {line_height}px; }}
.{unique_id}-title {{ font-size: 18px; font-weight: bold; font-family: system-ui, sans-serif; }}
{styles}
</style>
<defs>
<clipPath id="{unique_id}-clip-terminal"><rect width="{terminal_width}" height="{terminal_height}"/></clipPath>
{lines}
</defs>
{chrome}
<g transform="translate({terminal_x}, {terminal_y})" clip-path="url(#{unique_id}-clip-terminal)">
{backgrounds}
<g class="{unique_id}-matrix">
{matrix}
</g>
</g>
</svg>
"""


def chapters(printed: str) -> dict[str, str]:
    """What the demo printed, by the number of its chapters."""
    parts = re.split(r"^(\d+)\. ", printed, flags=re.MULTILINE)[1:]
    return {number: f"{number}. {text}".strip() for number, text in zip(parts[::2], parts[1::2], strict=True)}


def draw(printed: str) -> str:
    """The terminal, with what the demo printed."""
    told = chapters(printed)
    out = Console(
        record=True, width=WIDTH, file=io.StringIO(), force_terminal=True, color_system="truecolor", highlight=False
    )
    out.print("$ duckdp demo", style=f"bold {INK}", markup=False)
    before = 0
    for number in CHAPTERS:
        if int(number) > before + 1:
            out.print("\n...", style=SOFT, markup=False)
        before = int(number)
        out.print()
        for k, line in enumerate(told[number].splitlines()):
            out.print(line, style=f"bold {INK}" if k == 0 else _style(line), markup=False)
    out.print("\n...", style=SOFT, markup=False)
    return out.export_svg(
        title="duckdp demo", theme=THEME, code_format=FRAME, unique_id="demo", font_aspect_ratio=0.602
    )


def _style(line: str) -> str:
    if line.startswith((">>> ", "... ")):
        return CODE
    if line.startswith(("note: ", "cost: ", "---")):
        return SOFT
    return REFUSED if re.match(r"[A-Z]\d{3}: ", line) else INK


def words(picture: str) -> list[str]:
    """The words of a recording, in order, without its title."""
    found = re.findall(r"<text[^>]*-r\d+[^>]*>(.*?)</text>", picture, re.DOTALL)
    return unescape("".join(found)).replace("\xa0", " ").split()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [sys.executable, "-m", "duckdp", "demo", "--folder", f"{folder}/demo"],
            capture_output=True,
            text=True,
            check=True,
        )
    RECORDING.write_text(draw(done.stdout), encoding="utf-8")

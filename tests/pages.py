"""The documentation's pages: README and docs/, in the order in which a reader comes to them."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parent.parent
README = ROOT / "README.md"
GUIDE = ROOT / "docs" / "guide.md"
ADDING = ROOT / "docs" / "adding.md"  # its examples run in copies of the package: test_recipes.py
PAGES = [README, GUIDE, *sorted(p for p in (ROOT / "docs").glob("*.md") if p != GUIDE)]


def all_pages() -> str:
    """Their text."""
    return "\n".join(page.read_text() for page in PAGES)


def shape(text: str) -> list[str]:
    """Printed output with its numbers, padding and times blotted out: noise differs, the form must not."""
    text = re.sub(r"-?\d[\d,]*(\.\d+)?(e-?\d+)?", "#", text)
    text = re.sub(r"(?<=# )\[#,? #\]", "± #", text)  # an interval is lopsided by chance
    lines = [re.sub(r"[-\s]+", " ", line).strip() for line in text.splitlines()]
    return [line for line in lines if line]

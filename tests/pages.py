"""The documentation's pages: README and docs/, in the order in which a reader comes to them."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).parent.parent
README = ROOT / "README.md"
GUIDE = ROOT / "docs" / "guide.md"
PAGES = [README, GUIDE, *sorted(p for p in (ROOT / "docs").glob("*.md") if p != GUIDE)]


def all_pages() -> str:
    """Their text."""
    return "\n".join(page.read_text() for page in PAGES)

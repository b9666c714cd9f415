"""Write what is generated from the declarations: ``python -m duckdp.functions.write`` in a checkout.

``sql/front.sql`` is what an analyst's DuckDB runs, ``docs/sql.md`` what people read. Tests compare both with the
declarations.
"""

from __future__ import annotations

import sys
from pathlib import Path

from duckdp.functions.macros import front_sql
from duckdp.functions.page import sql_page
from duckdp.functions.spec import FUNCTIONS


def generated() -> dict[str, str]:
    """Each file, by its path within the checkout, and what it must hold."""
    specs = list(FUNCTIONS.values())
    return {"sql/front.sql": front_sql(specs), "docs/sql.md": sql_page(specs)}


def main(folder: Path) -> None:
    """Write the files in a checkout."""
    for name, text in generated().items():
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
        sys.stdout.write(f"{path}\n")


if __name__ == "__main__":
    main(Path(__file__).resolve().parents[2])

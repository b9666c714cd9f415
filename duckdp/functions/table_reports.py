"""How well a stored synthetic table follows its release, as rows."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from duckdp.errors import ParameterError
from duckdp.functions.kinds import SourceName
from duckdp.functions.planned import Planned
from duckdp.functions.spec import DpFunction, argument, dp_function
from duckdp.process.importing import importing
from duckdp.result import Result, plain_result

if TYPE_CHECKING:
    from duckdp.desk.desk import Desk

_SHAPE = [
    ("figure", "VARCHAR"),
    ("columns", "VARCHAR"),
    ("error", "DOUBLE"),
    ("synthetic", "DOUBLE"),
    ("released", "DOUBLE"),
    ("low", "DOUBLE"),
    ("high", "DOUBLE"),
]


@dp_function("dp_table_report", example="'people'")
@dataclass(frozen=True, kw_only=True)
class TableReport(DpFunction):
    """How well a stored synthetic table meets its release, beside the release's own error bars.

    Errors are reached with 95%: of a column's histogram and a pair's cells the total variation, of a column the mean's.
    Questions asked of both stand with what was released, its interval, and what the rows give.
    """

    source: SourceName = argument(about="a stored synthetic table")

    def plan(self, desk: Desk) -> Planned:
        """A row for each figure of the report."""
        desk.require_grant()

        def run(_: str) -> Result:
            with importing():
                from duckdp.synthetic.report.table_report import make_report
                from duckdp.synthetic.stored import is_table

            if not is_table(desk.stored(self.source)):
                raise ParameterError(
                    "P107", "source", self.source, "is no synthetic table: it was not stored by a name."
                )
            stored = desk.completed(self.source)
            charge = desk.charge(stored.charge_id)
            report = make_report(self.source, stored.payload, json.loads(charge.parameters) if charge else None)
            none = (None,) * 4
            rows: list[tuple[object, ...]] = []
            for name, distance, mean in report.bars:
                rows.append(("total variation of the histogram", name, float(distance), *none))
                if mean is not None:
                    rows.append(("mean", name, float(mean), *none))
            rows += [
                ("total variation of the cells", f"{a}, {b}", float(far), *none) for a, b, _, far in report.pair_bars
            ]
            rows += [
                (line.question, None, None, line.synthetic, line.released, line.low, line.high) for line in report.lines
            ]
            return plain_result([n for n, _ in _SHAPE], rows, [t for _, t in _SHAPE])

        return Planned(columns=_SHAPE, run=run)

"""Reports of stored releases, as parts of the owner's page; each is made once."""

from __future__ import annotations

import json
from collections import OrderedDict

from duckdp.errors import DuckDPError
from duckdp.ledger import Ledger
from duckdp.synthetic.report import html_page as page
from duckdp.synthetic.report.table_report import make_report
from duckdp.synthetic.stored import is_table

MOST_KEPT = 100  # reports that are in memory
_PUBLIC = ("columns", "smoothness", "degree", "size", "rows", "method", "neighbours", "tables")


class Reports:
    """The reports of one ledger's releases: post-processing of what was released, public as it is.

    Args:
        ledger: open.
    """

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._made: OrderedDict[int, list[str]] = OrderedDict()

    def __call__(self, charge_id: int) -> list[str]:
        """The report of a charge's release, as HTML."""
        if charge_id not in self._made:
            self._made[charge_id] = self._make(charge_id)
            while len(self._made) > MOST_KEPT:
                self._made.popitem(last=False)
        return self._made[charge_id]

    def _make(self, charge_id: int) -> list[str]:
        payload, charge = self._ledger.payload(charge_id), self._ledger.charge(charge_id)
        if payload is None or charge is None:
            return [page.paragraph("It has no release yet.")]
        parameters = json.loads(charge.parameters)
        if not is_table(payload):
            told = [(name, json.dumps(v)[:200]) for name, v in parameters.items() if name in _PUBLIC]
            return [page.table(["figure", "declared"], told)] if told else []
        try:
            return make_report(str(charge_id), payload, parameters).body
        except DuckDPError as error:
            return [page.paragraph(f"There is no report of it: {error}")]

"""What a session writes to files, and the report of a table: of what was released, so it is free."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from duckdp.arguments import Scalar, checks_itself
from duckdp.desk.asking import noted
from duckdp.faces.asks import Asks
from duckdp.process.importing import importing
from duckdp.process.new_file import write_new
from duckdp.result import Result

if TYPE_CHECKING:
    from duckdp.synthetic.report.table_report import SyntheticReport


class Files(Asks):
    """Methods of ``Session`` that write released summaries and tables to files."""

    @noted(prefix="")
    def export_summary(self, name: str, path: str | os.PathLike[str], *, category: Scalar | None = None) -> None:
        """Write a stored summary to a file that ``duckdp.smooth.load`` reads: released, so public.

        Of a summary per group (``per``) the file holds all groups, or the one that ``category`` names.

        Raises:
            CatalogError: C110. ParameterError: P107. OSError: the file exists or cannot be written.
        """
        with importing():
            from duckdp.smooth.payloads import exported
            from duckdp.synthetic.stored import summary_of

        payload = summary_of(self._desk.stored(name))
        write_new(path, exported(payload, None if category is None else str(category)))

    @noted(prefix="")
    def export_tables(self, names: Sequence[str], path: str | os.PathLike[str], *, replace: bool = False) -> None:
        """Write stored synthetic tables into one DuckDB file that shells from 1.0 on read: released, so free.

        Raises:
            CatalogError: C110. ParameterError: P107. OSError: the file exists or cannot be written.
        """
        with importing():
            from duckdp.synthetic.files import open_tables, write_database

        payloads = {str(n): self._desk.completed(str(n)).payload for n in names}
        write_database(path, open_tables(payloads), replace=replace)

    @noted(prefix="")
    def synthetic_report(self, name: str, path: str | os.PathLike[str] | None = None) -> SyntheticReport:
        """How well a stored synthetic table meets its release, beside the release's own error bars; free.

        Args:
            name: of a synthetic table, or of a summary, from which a table is made first.
            path: where to write the page, if anywhere.

        Raises:
            CatalogError: C110. NumericalError: N101. OSError: the file exists or cannot be written.
        """
        with importing():
            from duckdp.synthetic.report.table_report import make_report

        stored = self._desk.completed(str(name))
        charge = self._desk.charge(stored.charge_id)
        report = make_report(str(name), stored.payload, json.loads(charge.parameters) if charge else None)
        if path is not None:
            write_new(path, report.html)
        return report

    @checks_itself
    def table_report(self, source: str) -> Result:
        """How well a stored synthetic table meets its release, beside the release's own error bars; free."""
        return self._ask("dp_table_report", locals())

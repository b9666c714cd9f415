"""How well a synthetic table meets the release it was made from: post-processing, public and free."""

from duckdp.synthetic.report.table_report import FAR, SyntheticReport, make_report, report_table

__all__ = ["FAR", "SyntheticReport", "make_report", "report_table"]

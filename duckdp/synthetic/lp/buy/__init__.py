"""The task of ``method := 'lp'``."""

from __future__ import annotations

from duckdp.errors import ParameterError
from duckdp.synthetic.asked import Asked
from duckdp.synthetic.lp.buy.synthesis_task import SynthesisTask, plan_synthesis


def task(asked: Asked) -> SynthesisTask:
    """Plan the purchase. Free: no data is touched.

    Raises:
        ParameterError: P107; and what ``smooth.buy.summary_task.plan_summary`` raises.
    """
    if asked.target:
        rule = "is not for method := 'lp'; take method := 'auto'."
        raise ParameterError("P107", "target", asked.target, rule)
    return plan_synthesis(
        asked.table,
        asked.columns,
        epsilon_nano=asked.epsilon_nano,
        delta_atto=asked.delta_atto,
        neighbours=asked.neighbours,
        rows=asked.rows,
        smoothness=asked.smoothness,
        degree=asked.degree,
    )

"""The command line: what ``duckdp`` runs.

::

    common.py   errors, options, the curator     owner.py    suggest, protect, publish, refresh, catalog
    budgets.py  budget, grant, team, freeze      ledger.py   ledger show, log, verify, backup, repair
    history.py  ledger history, export           wording.py  ways out as commands
    analyst.py  explain, query, shell            tools.py    demo, bench
    serving.py  serve, user                       page.py     dashboard
    ask.py      every dp function as a command       collect.py  randomized response of a file's column

Heavy imports happen inside the commands: ``--help`` and ``--version`` are fast.
"""

from __future__ import annotations

import click

import duckdp
from duckdp.cli import analyst, ask, budgets, collect, ledger, owner, page, serving, tools
from duckdp.cli.common import Commands


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(duckdp.__version__, prog_name="duckdp")
def main() -> None:
    """Private answers from DuckDB: protect tables, set budgets, let analysts ask.

    Begin with: duckdp demo
    """


for command in (
    tools.demo,
    owner.suggest,
    owner.protect,
    budgets.budget,
    budgets.grant,
    budgets.team,
    serving.serve,
    serving.user,
    analyst.shell,
    analyst.query,
    analyst.explain,
    ask.ask,
    owner.catalog,
    ledger.ledger,
    page.dashboard,
    budgets.revoke,
    budgets.freeze,
    budgets.unfreeze,
    budgets.share,
    owner.unprotect,
    owner.publish,
    owner.unpublish,
    owner.refresh,
    collect.randomize,
    collect.randomized_counts,
    tools.bench,
):
    main.add_command(command)

__all__ = ["main"]

"""The command ``sttau-reproduce``: one file per command."""

from __future__ import annotations

import typer

from sttau_reproduction.cli import automata, cartpole, curves, paper, power, report, speed, tables, trials

app = typer.Typer(
    name="sttau-reproduce",
    help="Reproduce the experiments of the ST-τ paper.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_show_locals=False,
)
app.command("paper")(paper.paper)
app.command("report")(report.report)
app.command("tables")(tables.tables)
app.command("trials")(trials.trials)
app.command("curves")(curves.curves)
app.command("automata")(automata.automata)
app.command("power")(power.power)
app.command("cartpole")(cartpole.cartpole)
app.add_typer(speed.app, name="speed", no_args_is_help=True)

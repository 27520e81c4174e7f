"""``sttau-reproduce cartpole``: reinforcement learning."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sttau.cli.common import check_folder, plain_errors, print_line
from sttau_reproduction.cli.common import RESULTS, show_failures, show_steps


def cartpole(
    out: Annotated[
        Path | None,
        typer.Option(help="Folder for results and report; reproduction/results/cartpole, or …-quick."),
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Few episodes and seeds: about a minute.")] = False,
    harder: Annotated[bool, typer.Option("--harder", help="Also CartPole with 500 steps, and Acrobot (slow).")] = False,
    policy: Annotated[
        bool, typer.Option("--policy", help="Also train the policy whose automaton is drawn, and write automaton.json.")
    ] = False,
    workers: Annotated[int, typer.Option(help="Number of processes.")] = 1,
) -> None:
    """Run the paper's CartPole experiment: four methods, four settings, twenty seeds.

    Repeat the same command to resume an interrupted run. Set OMP_NUM_THREADS=1 with several workers.

    Example: sttau-reproduce cartpole --quick
    """
    from sttau.files import write_atomically
    from sttau_reproduction.cartpole.figures import draw
    from sttau_reproduction.cartpole.policy import write_automaton_of_policy
    from sttau_reproduction.cartpole.tables import tables
    from sttau_reproduction.cartpole.work import QUICK, Plan, run, run_harder
    from sttau_reproduction.pages import save_figure

    out = out or RESULTS / ("cartpole-quick" if quick else "cartpole")
    check_folder(out)
    show = show_steps(lambda cell: f"{cell.title}, {cell.settings['choice']}")
    with plain_errors():
        outcome = run(out / "cells", out, QUICK if quick else Plan(), workers=workers, progress=show)
        failures = outcome.failures + (run_harder(out / "cells", out, progress=show).failures if harder else [])
        show_failures(failures)
        if policy:
            write_automaton_of_policy(out / "automaton.json")
    report = out / "report"
    write_atomically(report / "tables.md", "\n\n".join(tables(out).values()).encode())
    for name, figure in draw(out).items():
        save_figure(figure, report / f"{name}.png")
    print_line(f"Tables and figures: {report}")

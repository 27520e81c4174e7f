"""``sttau-reproduce paper``: train the networks of the paper's tables and figures."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, cast, get_args

import typer

from sttau.cli.common import DeviceOption, check_folder, choose_device, plain_errors, print_line
from sttau_reproduction.cli.common import RESULTS, show_failures, show_steps

_QUICK = (
    "--quick: tiny networks, trained for a few updates on a part of the data. It checks that everything runs; the "
    "numbers mean nothing."
)


def paper(
    what: Annotated[
        str,
        typer.Argument(
            help="Part: table1, table2, table3, figures, ablation, ablation-best, cost, dropout-sweep, inter-patient, "
            "tuning or all; or diagnostics, further analyses of the same networks."
        ),
    ],
    seeds: Annotated[int | None, typer.Option(help="Number of seeds per network, instead of those declared.")] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Small networks on a part of the data, to check that everything runs.")
    ] = False,
    on: Annotated[str, typer.Option(help="Backend: local, or ray for a cluster.")] = "local",
    workers: Annotated[int, typer.Option(help="Number of processes on CPUs.")] = 1,
    device: DeviceOption = "auto",
    at_once: Annotated[int, typer.Option(help="Number of networks trained at the same time on a GPU.")] = 16,
    out: Annotated[
        Path | None,
        typer.Option(help="Folder for results, networks and report; reproduction/results/paper, or …-quick."),
    ] = None,
    data: Annotated[
        list[str] | None, typer.Option(help="Name of a data set; only its networks are trained; repeatable.")
    ] = None,
    network: Annotated[
        list[str] | None, typer.Option(help="Name of a network; only this network is trained; repeatable.")
    ] = None,
    timing: Annotated[bool, typer.Option(help="Measure the cost of each network alone, at the end.")] = True,
    report: Annotated[
        bool, typer.Option(help="Write tables, figures and report.html of the folder at the end.")
    ] = True,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only list the work to do.")] = False,
) -> None:
    """Compute tables and figures of the paper: train what is missing, evaluate it, write a report.

    Finished results are not computed again; repeat the same command to resume an interrupted run.
    Existing networks are not trained again, even if they were trained for another part.

    Example: sttau-reproduce paper table1 --quick
    """
    from sttau.jobs import Backend
    from sttau_reproduction.classification import cells
    from sttau_reproduction.classification.diagnostics import work as diagnostics

    again = what == "diagnostics"
    experiment: Any = diagnostics if again else cells
    out = out or RESULTS / ("paper-quick" if quick else "paper")
    check_folder(out)
    device = choose_device(device)
    with plain_errors():
        if on not in get_args(Backend):
            raise ValueError(f"--on must be one of {', '.join(get_args(Backend))}, got {on!r}")
        every = diagnostics.networks_of() if again else cells.networks_of(what)
        chosen = experiment.cells_of(cells.choose(every, data or (), network or ()), seeds, quick)
        experiment.check_folder(out, quick)
        missing = experiment.missing_cells(chosen, out)
        print_line(f"{what}: {len(chosen)} cells, of which {len(missing)} are to be computed")
        if dry_run:
            for cell in missing:
                print_line(f"  {cell.title}")
            return
        if quick:
            print_line(_QUICK, style="yellow")
        if missing:
            cells.check_data(missing)
        try:
            outcome = experiment.run(
                chosen,
                out,
                on=cast(Backend, on),
                workers=workers,
                device=device,
                at_once=at_once,
                progress=show_steps(),
                **({} if again else {"timing": timing}),
            )
        except KeyboardInterrupt as error:
            raise KeyboardInterrupt(f"interrupted; {out} keeps what is done. The same command resumes.") from error
        if again:
            print_line(f"Results: {diagnostics.results_path(out)}")
        else:
            print_line(f"Results: {cells.results_path(out)}, predictions: {out / 'predictions'}")
            if report:
                _report(out, {table.name: table.title for table in cells.tables_of(what)})
        if quick:
            print_line(_QUICK, style="yellow")
    show_failures(outcome.failures)


def _report(folder: Path, titles: dict[str, str]) -> None:
    """Write tables and figures of a folder, and print the tables that have a title here."""
    from sttau.jobs import read_results
    from sttau_reproduction.classification.cells import results_path
    from sttau_reproduction.classification.predictions import read_summaries
    from sttau_reproduction.classification.report import tables, write_report

    written = write_report(folder, folder / "report")
    found = tables(read_results(results_path(folder)), read_summaries(folder))
    for name, title in ((name, title) for name, title in titles.items() if name in found):
        print_line(f"\n{title}\n\n{found[name]}\n")
    pictures = sum(path.suffix == ".png" for path in written)
    print_line(f"Report: {folder / 'report' / 'report.html'}, with {pictures} figures")

"""The command line."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import (
    BarColumn,
    DownloadColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeRemainingColumn,
)
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from automata.fa.dfa import DFA

    from sttau.automata import PA

app = typer.Typer(
    name="sttau",
    help="Recurrent networks that know when they do not know.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_show_locals=False,
)

data_app = typer.Typer(name="data", help="See which data sets there are, get them, and read on their terms.")
app.add_typer(data_app, no_args_is_help=True)
rl_app = typer.Typer(name="rl", help="Reinforcement learning: train a policy and watch it.")
app.add_typer(rl_app, no_args_is_help=True)


@app.callback()
def main() -> None:
    """Recurrent networks that know when they do not know."""


@app.command()
def quickstart(
    out: Annotated[Path, typer.Option(help="Folder for the report, its figures and results.")] = Path("quickstart"),
    seed: Annotated[int, typer.Option(help="All randomness follows from it.")] = 0,
) -> None:
    """Learn an automaton and prove it; classify digits with uncertainty; write a report.

    Needs no data and no GPU, and takes about a minute on two cores.

    Example: sttau quickstart --out quickstart
    """
    import torch

    from sttau.quickstart import run_quickstart
    from sttau.report.html import summary_table, write_report

    torch.set_num_threads(1)  # the steps are small: more threads would only wait for each other
    console = Console()
    _check_folder(console, out)
    began = time.perf_counter()
    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        console=console,
        disable=not console.is_terminal,
    )
    tasks: dict[str, TaskID] = {}

    def show(title: str, done: int, of: int) -> None:
        if title not in tasks:
            if not console.is_terminal:
                console.print(f"training: {title}")
            for task in bar.tasks:  # what ended early is done
                bar.update(task.id, total=task.completed)
            tasks[title] = bar.add_task(title, total=of)
        bar.update(tasks[title], completed=done)

    with bar:
        result = run_quickstart(seed=seed, progress=show)
    page = write_report(result, out)

    automaton = result.automaton
    size = len(automaton.extracted.dfa.states)
    if automaton.equivalence:
        console.print(
            f"Tomita {result.settings.grammar}: [green]the extracted DFA ({size} states) is proved equal[/green]"
        )
    else:
        example = automaton.equivalence.counterexample
        console.print(
            f"Tomita {result.settings.grammar}: [red]the extracted DFA ({size} states) differs on “{example}”[/red]"
        )
    header, rows = summary_table(result.results)
    table = Table(title=f"Handwritten digits, {result.settings.digit_seeds} seeds", title_justify="left")
    for number, name in enumerate(header):
        table.add_column(name, justify="right" if number else "left")
    for row in rows:
        table.add_row(*row)
    console.print(table)
    console.print(f"Report: {page} ({time.perf_counter() - began:.0f} s)", soft_wrap=True)
    if not automaton.equivalence:
        raise typer.Exit(1)


@data_app.command("list")
def list_data() -> None:
    """Show all data sets, how large they are, and whether they are on this machine.

    Example: sttau data list
    """
    from sttau.data import DATASETS, SPLITS

    table = Table(show_edge=False)
    for name in ("name", *SPLITS):
        table.add_column(name, justify="left" if name == "name" else "right")
    table.add_column("where")
    for name, entry in DATASETS.items():
        sizes = (f"{entry.source.sizes[split]:,}" if split in entry.source.sizes else "" for split in SPLITS)
        table.add_row(name, *sizes, _where(name, shortly=True))
    Console().print(table)


@data_app.command("info")
def show_data(name: Annotated[str, typer.Argument(help="Of the data set; see sttau data list.")]) -> None:
    """Show what a data set is, its terms, whom to cite, and where it comes from.

    Example: sttau data info bih
    """
    from sttau.data.registry import find_entry

    console = Console()
    with _plain_errors(console):
        source = find_entry(name).source
        console.print(f"[bold]{name}[/bold]: {source.title}")
        console.print("Sizes:    " + ", ".join(f"{split} {size:,}" for split, size in source.sizes.items()))
        console.print(f"License:  {source.license}")
        console.print(f"Cite:     {source.citation}")
        if source.homepage:
            console.print(f"Homepage: {source.homepage}", soft_wrap=True)
        for form in source.forms:
            files = ", ".join(form.files[:3]) + (", …" if len(form.files) > 3 else "")
            console.print(f"Read from {form.about}: {files}", soft_wrap=True, highlight=False)
            for url in form.urls:
                console.print(f"          {url}", soft_wrap=True)
        if source.content:
            console.print(f"SHA-256 of the content: {source.content}", soft_wrap=True, highlight=False)
        if source.by_hand:
            console.print(source.by_hand, highlight=False)
        console.print(f"Here:     {_where(name)}", soft_wrap=True, highlight=False)


@data_app.command("get")
def get_data(
    name: Annotated[str, typer.Argument(help="Of the data set; see sttau data list.")],
    path: Annotated[Path | None, typer.Option(help="A file or folder to take it from, instead of a download.")] = None,
) -> None:
    """Find or download a data set, check that it is the published one, and prepare it for fast loading.

    Example: sttau data get imdb
    """
    from sttau.data.registry import find_entry, load
    from sttau.data.source import fetch

    console = Console()
    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn(),
        TimeRemainingColumn(),
        console=console,
        disable=not console.is_terminal,
    )
    tasks: dict[str, TaskID] = {}

    def show(file: str, done: int, of: int | None) -> None:
        if file not in tasks:
            if not console.is_terminal:
                console.print(f"downloading {file}")
            tasks[file] = bar.add_task(file, total=of)
        bar.update(tasks[file], completed=done, total=of)

    with _plain_errors(console), bar:
        entry = find_entry(name)
        for source in entry.needs:
            if not _is_prepared(source.name):
                fetch(source, progress=show)
        if entry.source.forms:
            if path is not None or not _is_prepared(name):
                fetch(entry.source, path, show)
            data = load(name, "test", path=path)
        else:
            data = load(name, "test")
    console.print(f"[green]{name} is ready[/green] and was checked: {_where(name)}", soft_wrap=True, highlight=False)
    console.print(data.provenance, highlight=False)


@contextmanager
def _plain_errors(console: Console) -> Iterator[None]:
    """What is wrong with the data or the training, in the words of the error and without its trace."""
    try:
        yield
    except (OSError, ValueError, ImportError, FloatingPointError) as error:
        console.print(f"[red]{escape(str(error))}[/red]", soft_wrap=True, highlight=False)
        raise typer.Exit(1) from error
    except KeyboardInterrupt as error:
        console.print(escape(str(error)) or "interrupted", soft_wrap=True, highlight=False)
        raise typer.Exit(130) from error


def _where(name: str, shortly: bool = False) -> str:
    """Where the files of a data set are."""
    from sttau.data import DATASETS
    from sttau.data.source import cache_folder, data_folders, find

    source = DATASETS[name].source
    if not source.forms:
        return "comes with sttau"
    found = find(source, data_folders())
    if found is not None:
        cached = found[1][0].is_relative_to(cache_folder())
        return ("in the cache" if cached else "in $STTAU_DATA") if shortly else str(found[1][0])
    if _is_prepared(name):
        return "prepared in the cache"
    return "not here; " + (f"sttau data get {name}" if any(form.urls for form in source.forms) else "needs an account")


def _is_prepared(name: str) -> bool:
    """Whether the cache holds the data set ready to load."""
    from sttau.data import DATASETS
    from sttau.data.source import is_prepared

    return is_prepared(DATASETS[name].source)


@app.command()
def extract(
    model: Annotated[
        Path, typer.Argument(help="Of a classifier that save() wrote, with an embedding and an STTauGRU.")
    ],
    out: Annotated[
        list[Path] | None, typer.Option(help="Where to: .svg, .png, .dot, .json or .prism; may be given again.")
    ] = None,
    kind: Annotated[str, typer.Option(help="dfa or pa.")] = "dfa",
    against: Annotated[
        str, typer.Option(help="Compare with this: tomita1 … tomita7, stochastic1, stochastic2, or a .json of ours.")
    ] = "",
    start: Annotated[str, typer.Option(help="The token every sequence begins with; pa: may be empty.")] = "^",
    accept: Annotated[str, typer.Option(help='The class that means "in the language", by name or number.')] = "",
    relaxed: Annotated[
        bool, typer.Option("--relaxed", help="Read the mean of the soft α, not the law of hard sampling.")
    ] = False,
    tolerance: Annotated[float, typer.Option(help="pa: how different states may be that are merged.")] = 0.01,
    leak: Annotated[float, typer.Option(help="pa: states are left out that are entered less often a step.")] = 0.001,
) -> None:
    """Read a network as an automaton, compare it with a language, draw it and write it for other programs.

    Fails where a language to compare with is another one. Two PAs count as equal to rounding only; distances are shown.

    Example: sttau extract model.safetensors --out automaton.svg --out automaton.json --against tomita3
    """
    import sttau
    from sttau.automata import compare, compile, distance, extract_dfa, extract_pa, reduce, rms_distance
    from sttau.automata.extraction import Table as Law
    from sttau.plotting.automaton import check_ending, write_automaton

    console = Console()
    with _plain_errors(console):
        for path in out or ():
            check_ending(path)
        if kind not in ("dfa", "pa"):
            raise ValueError(f"--kind must be dfa or pa, got {kind!r}")
        truth = _language(against) if against else None
        network = sttau.load(model)
        vocabulary = getattr(network, "vocabulary", None)
        if not isinstance(network, sttau.SequenceClassifier) or not vocabulary:
            raise ValueError(f"{model} has no vocabulary: call model.set_metadata(data) before model.save(path)")
        names = network.class_names
        chosen = accept or ("accept" if "accept" in names else "1")
        number = names.index(chosen) if chosen in names else int(chosen) if chosen.isdigit() else -1
        if not 0 <= number < network.num_classes:
            raise ValueError(f"--accept must be one of {', '.join(names)} or a number, got {chosen!r}")
        automaton: DFA | PA
        notes: dict[str, Any] = {}
        law: Law = "relaxed mean" if relaxed else "categorical"
        if kind == "dfa":
            extracted = extract_dfa(network, vocabulary, start=start, accept=number, table=law)
            automaton, size = extracted.dfa, len(extracted.dfa.states)
            notes = {"probabilities": extracted.probabilities, "variances": extracted.variances}
            told = f"the least sure edge has probability {min(extracted.probabilities.values()):.3f}"
        else:
            if start:
                options: dict[str, Any] = {"tolerance": tolerance, "leak": leak, "table": law}
                small = extract_pa(network, vocabulary, start=start, accept=number, **options).reduction
            elif relaxed:
                raise ValueError("--relaxed needs a start token: name it with --start")
            else:
                small = reduce(compile(network, start=None).pa(number), tolerance, leak=leak)
            automaton, size = small.pa, small.pa.num_states
            told = f"within {small.bound(10):.2g} of the network on every string of at most 10 symbols"
        states = network.finite_state_layer.num_states
        console.print(
            f"{kind.upper()} of {size} states, from the table of the network's {states} ({law}); {told}",
            soft_wrap=True,
            highlight=False,
        )
        for path in out or ():
            write_automaton(automaton, path, f"{model.stem}, {kind.upper()}", **notes)
            console.print(f"Written: {path}", soft_wrap=True, highlight=False)
        if truth is None:
            return
        answer = compare(automaton, truth)
        console.print(f"{against}: {answer}", style="green" if answer else "red", soft_wrap=True, highlight=False)
        if kind == "pa":
            found = distance(automaton, truth, length=12)
            console.print(
                f"to length 12: largest difference {found.sup:.4f} on “{found.worst}”, mean {found.mean:.4f}; "
                f"over all strings (mean length 9): RMS {rms_distance(automaton, truth):.4f}",
                soft_wrap=True,
                highlight=False,
            )
    if kind == "dfa" and not answer:
        raise typer.Exit(1)


def _language(name: str) -> DFA | PA:
    """A language by name, or an automaton in a file."""
    from sttau.automata import from_json, stochastic, tomita

    for prefix, known in (("tomita", tomita), ("stochastic", stochastic)):
        if name.startswith(prefix) and name[len(prefix) :].isdigit():
            return known(int(name[len(prefix) :]))
    if not name.endswith(".json"):
        raise ValueError(f"--against must be tomita1 … tomita7, stochastic1, stochastic2 or a .json file, got {name!r}")
    return from_json(Path(name).read_text("utf-8"))


@app.command()
def bench(
    out: Annotated[Path, typer.Option(help="Folder for the numbers and the figure.")] = Path("bench"),
    device: Annotated[str, typer.Option(help="cuda or cpu; the GPU where there is one.")] = "",
    threads: Annotated[int, typer.Option(help="CPU threads; 0 leaves PyTorch's choice.")] = 0,
    seconds: Annotated[float, typer.Option(help="How long each method runs in each of the seven rounds.")] = 0.15,
    reference: Annotated[bool, typer.Option(help="Time the step-by-step reference too.")] = True,
) -> None:
    """Time ST-τ beside nn.LSTM and nn.GRU on this machine: training, forward, ten samples, memory.

    Example: sttau bench --out bench
    """
    import torch

    from sttau.bench import CPU_SHAPES, GPU_SHAPES, Precision, Shape, measure
    from sttau.files import write_atomically
    from sttau.jobs import write_results
    from sttau.plotting.speed import HEADER, compare_speed, speed_figure, speed_table
    from sttau.plotting.style import look
    from sttau.tables import markdown_table

    console = Console()
    _check_folder(console, out)
    device = _device(console, device)
    if threads:
        torch.set_num_threads(threads)
    on_gpu = device == "cuda"
    plans: list[tuple[tuple[Shape, ...], tuple[Precision, ...]]] = [
        (GPU_SHAPES if on_gpu else CPU_SHAPES, ("float32",))
    ]
    if on_gpu:
        plans.append((GPU_SHAPES[:1] + GPU_SHAPES[3:4], ("tf32", "bfloat16")))
    results = []
    with console.status("") as status:
        for shapes, precisions in plans:
            for result in measure(
                shapes,
                device,
                precisions,
                reference=reference,
                graphs=on_gpu,
                round_seconds=seconds,
                progress=status.update,
            ):
                results.append(result)
                write_results(results, out / "results.jsonl")
    comparisons = compare_speed(results)
    table = Table(title=f"Times faster than PyTorch's layer, {results[0].hardware}", title_justify="left")
    for number, name in enumerate(HEADER):
        table.add_column(name, justify="right" if number > 1 else "left")
    for row in speed_table(comparisons):
        table.add_row(*row)
    console.print(table)
    with look():
        shown = [comparison for comparison in comparisons if comparison.precision == "float32"]
        speed_figure(shown, f"ST-τ beside PyTorch's layers, {results[0].hardware}").savefig(out / "speed.png", dpi=150)
    write_atomically(out / "table.md", markdown_table(speed_table(comparisons), HEADER).encode())
    console.print(
        f"Numbers: {out / 'results.jsonl'}, table: {out / 'table.md'}, figure: {out / 'speed.png'}", soft_wrap=True
    )


@app.command()
def compare(
    data: Annotated[str, typer.Argument(help="Name of the data set; see sttau data list.")],
    methods: Annotated[str, typer.Option(help="Which, with commas between; all of them by default.")] = "",
    seeds: Annotated[int, typer.Option(help="How many networks of each method.")] = 3,
    updates: Annotated[int, typer.Option(help="Batches each network is trained on, at most.")] = 1000,
    batch_size: Annotated[int, typer.Option(help="Sequences a batch.")] = 64,
    learning_rate: Annotated[float, typer.Option(help="Of AdamW.")] = 0.01,
    hidden_size: Annotated[int, typer.Option(help="Of all layers.")] = 64,
    samples: Annotated[int, typer.Option(help="Monte-Carlo runs a prediction.")] = 10,
    reference: Annotated[str, typer.Option(help="The method the others are tested against; the first.")] = "",
    ood: Annotated[str, typer.Option(help="Another data set, whose sequences are out-of-distribution.")] = "",
    scaling: Annotated[bool, typer.Option("--scaling", help="Also show all after temperature scaling.")] = False,
    setting: Annotated[
        list[str] | None, typer.Option("--set", help="Such as st-tau.num_states=20; may be repeated.")
    ] = None,
    out: Annotated[Path, typer.Option(help="Folder for table, figure, results and networks.")] = Path("comparison"),
    device: Annotated[str, typer.Option(help="cuda or cpu; the GPU where there is one.")] = "",
    threads: Annotated[int, typer.Option(help="CPU threads; 0 leaves PyTorch's choice.")] = 1,
) -> None:
    """Train several methods the same way on a data set; show which is better, and how sure that is.

    Values are means over seeds. What was interrupted goes on when the same command is given again.

    Example: sttau compare digits --methods lstm,ensemble,st-tau --out comparison
    """
    import torch

    from sttau.compare import METHODS
    from sttau.compare import compare as run

    console = Console()
    _check_folder(console, out)
    device = _device(console, device)
    if threads:
        torch.set_num_threads(threads)
    with _plain_errors(console):
        result = run(
            [name.strip() for name in methods.split(",")] if methods else list(METHODS),
            data,
            ood=ood or None,
            reference=reference or None,
            seeds=seeds,
            settings=_settings(setting or []),
            hidden_size=hidden_size,
            samples=samples,
            scaling=scaling,
            folder=out / "networks",
            device=device,
            on_network=lambda title: None if console.is_terminal else console.print(f"training: {title}"),
            updates=updates,
            batch_size=batch_size,
            learning_rate=learning_rate,
        )
        result.save(out)
    header, lines = result.cells()
    table = Table(title=f"{data}, {seeds} seeds", title_justify="left")
    for number, name in enumerate(header):
        table.add_column(name, justify="right" if number else "left")
    for line in lines:
        table.add_row(*(_two_lines(cell) for cell in line))
    console.print(table)
    console.print(result.legend(), highlight=False, markup=False)
    console.print(f"Table: {out / 'table.md'}, figure: {out / 'comparison.png'}", soft_wrap=True)


@rl_app.command("train")
def train_policy(
    task: Annotated[str, typer.Argument(help="cartpole-mdp, cartpole-pomdp, cartpole500-mdp, acrobot-pomdp …")],
    method: Annotated[str, typer.Option(help="lstm, bayes, dropout, st-tau or st-tau-gru.")] = "st-tau",
    choice: Annotated[str, typer.Option(help="How actions are taken: sampling or greedy.")] = "sampling",
    episodes: Annotated[int, typer.Option(help="To play in all.")] = 1000,
    batch: Annotated[int, typer.Option(help="Episodes between two updates.")] = 10,
    learning_rate: Annotated[float, typer.Option(help="Of Adam.")] = 0.003,
    hidden_size: Annotated[int, typer.Option(help="Of the layer.")] = 100,
    horizon: Annotated[int | None, typer.Option(help="Steps of an episode, in place of the task's.")] = None,
    seed: Annotated[int, typer.Option(help="All randomness follows from it.")] = 0,
    out: Annotated[Path, typer.Option(help="For the policy; its learning curve goes beside it.")] = Path(
        "policy.safetensors"
    ),
) -> None:
    """Train a recurrent policy by REINFORCE, and save it.

    Example: sttau rl train cartpole-pomdp --out policy.safetensors
    """
    import torch

    from sttau.rl import Point, Settings, find_task, make_policy, train

    torch.set_num_threads(1)  # the steps are small: more threads would only wait for each other
    console = Console()
    with _plain_errors(console):
        chosen = find_task(task, horizon)
        settings = Settings(episodes, batch, learning_rate, choice=choice)  # type: ignore[arg-type]
        policy = make_policy(method, chosen, hidden_size=hidden_size, seed=seed)
        every = max(1, episodes // batch // 10)

        def show(point: Point) -> None:
            if point.episodes // batch % every == 0:
                tau = "" if point.temperature is None else f", τ {point.temperature:.2f}"
                console.print(
                    f"{point.episodes:6,} episodes: reward {point.reward:6.1f}, {point.entropy:.2f} bits{tau}",
                    highlight=False,
                )

        log = out.with_suffix(".jsonl")
        train(policy, chosen, settings, seed=seed, log=log, callbacks=show)
        policy.save(out)
    console.print(f"Policy: {out}, learning curve: {log}", soft_wrap=True)


@rl_app.command("watch")
def watch_policy(
    policy: Annotated[Path, typer.Argument(help="A file of sttau rl train.")],
    task: Annotated[str, typer.Option(help="What to play; the first task that fits, by default.")] = "",
    out: Annotated[Path | None, typer.Option(help="For a video, .gif.")] = None,
    automaton: Annotated[
        Path | None, typer.Option(help="For the automaton of an ST-τ policy: .svg, .png, .dot, .json or .prism.")
    ] = None,
    by: Annotated[str, typer.Option(help="The observation whose sign the automaton reads.")] = "",
    choice: Annotated[str, typer.Option(help="How actions are taken: sampling or greedy.")] = "sampling",
    episodes: Annotated[int, typer.Option(help="To measure the reward and the automaton on.")] = 100,
    horizon: Annotated[int | None, typer.Option(help="Steps of an episode, in place of the task's.")] = None,
    seed: Annotated[int, typer.Option(help="All randomness follows from it.")] = 0,
) -> None:
    """Let a policy play; write a video of an episode, and the automaton that its states were seen to be.

    Example: sttau rl watch policy.safetensors --out video.gif --automaton automaton.svg
    """
    from typing import cast

    import sttau
    from sttau.plotting.automaton import check_ending, write_automaton
    from sttau.plotting.video import write_video
    from sttau.rl import TASKS, Choice, Environments, find_task, observed_automaton, play

    console = Console()
    with _plain_errors(console):
        if automaton is not None:
            check_ending(automaton)
        network = sttau.load(policy)
        if not isinstance(network, sttau.SequenceClassifier):
            raise ValueError(f"{policy} is no policy; sttau rl train makes one")
        seen = (network.feature_names, network.class_names)
        fitting = [name for name, known in TASKS.items() if (known.observations, known.actions) == seen]
        if not task and not fitting:
            raise ValueError(f"{policy} fits no task: it sees {', '.join(seen[0]) or 'unnamed features'}")
        chosen, way = find_task(task or fitting[0], horizon), cast(Choice, choice)
        with Environments(chosen, episodes) as environments:
            played = play(network, environments, choice=way, seed=seed)
        console.print(
            f"{chosen.name}, {choice}: mean reward {played.scores.mean():.1f} over {episodes} episodes of at most "
            f"{chosen.horizon} steps; {played.entropy:.2f} bits an action",
            soft_wrap=True,
            highlight=False,
        )
        if automaton is not None:
            pa = observed_automaton(network, played, chosen, by)
            write_automaton(pa, automaton, f"{chosen.name}, the share of “{chosen.actions[-1]}” in each state")
            console.print(f"Written: {automaton}", soft_wrap=True, highlight=False)
        if out is not None:
            frames: list[Any] = []
            with Environments(chosen, 1, frames=True) as stage:
                shown = play(network, stage, choice=way, seed=seed, on_step=lambda: frames.append(stage.frame()))
            write_video(frames, out)
            console.print(
                f"Written: {out}, one episode of {int(shown.lengths[0])} steps", soft_wrap=True, highlight=False
            )


def _settings(given: list[str]) -> dict[str, dict[str, Any]]:
    """``method.name=value`` of every kind that JSON knows, and words, by method."""
    settings: dict[str, dict[str, Any]] = {}
    for text in given:
        place, equals, value = text.partition("=")
        method, dot, name = place.partition(".")
        if not (equals and dot and method and name):
            raise ValueError(f"--set must be method.name=value, such as st-tau.num_states=20, got {text!r}")
        try:
            settings.setdefault(method, {})[name] = json.loads(value)
        except ValueError:
            settings.setdefault(method, {})[name] = value
    return settings


def _two_lines(cell: str) -> Text:
    """A cell of a comparison for a terminal: value and mark above, interval below."""
    value, _, rest = cell.partition(" [")
    bounds, _, mark = rest.partition("]")
    text = Text(value.replace("**", ""), style="bold" if "**" in value else "")
    text.append(mark, style="green" if "▲" in mark else "red")
    return text.append(f"\n{bounds.replace(', ', ' – ')}", style="dim not bold") if bounds else text


def _device(console: Console, asked: str) -> str:
    """The device asked for, or the GPU where there is one."""
    import torch

    device = asked or ("cuda" if torch.cuda.is_available() else "cpu")
    if device not in ("cuda", "cpu") or (device == "cuda" and not torch.cuda.is_available()):
        console.print(
            f"[red]--device {device} is not there; this machine has: {'cuda, ' * torch.cuda.is_available()}cpu[/red]"
        )
        raise typer.Exit(2)
    return device


def _check_folder(console: Console, out: Path) -> None:
    """Refuse a file where a folder is to be, before any work."""
    if out.exists() and not out.is_dir():
        console.print(f"[red]--out {out} is a file; name a folder[/red]")
        raise typer.Exit(2)

"""``sttau rl``: reinforcement learning."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sttau.cli.common import SeedOption, plain_errors, print_line, set_threads

if TYPE_CHECKING:
    from sttau import SequenceClassifier
    from sttau.rl import Choice, Task

app = typer.Typer(help="Reinforcement learning: train a policy and watch it.")

ChoiceOption = Annotated[str, typer.Option(help="Choice of actions: sampling or greedy.")]
HorizonOption = Annotated[
    int | None, typer.Option(min=1, help="Largest number of steps per episode, instead of the task's own.")
]


@app.command()
def train(
    task: Annotated[
        str, typer.Argument(help="Name of the task: cartpole-mdp, cartpole-pomdp, cartpole500-mdp, acrobot-pomdp …")
    ],
    method: Annotated[
        str, typer.Option(help="Name of a method, for instance lstm, bayes, dropout, st-tau or st-tau-gru.")
    ] = "st-tau",
    choice: ChoiceOption = "sampling",
    episodes: Annotated[int, typer.Option(min=1, help="Total number of episodes.")] = 1000,
    batch: Annotated[int, typer.Option(min=1, help="Number of episodes per update.")] = 10,
    learning_rate: Annotated[float, typer.Option(help="Learning rate of Adam.")] = 0.003,
    hidden_size: Annotated[int, typer.Option(min=1, help="Hidden size of the layer.")] = 100,
    horizon: HorizonOption = None,
    seed: SeedOption = 0,
    out: Annotated[
        Path,
        typer.Option(help="File for the policy; checkpoints and learning curve are in the folder of the same name."),
    ] = Path("policy.safetensors"),
) -> None:
    """Train a recurrent policy by REINFORCE and save it. Repeat the same command to resume an interrupted run.

    Example: sttau rl train cartpole-pomdp --out policy.safetensors
    """
    from sttau.rl import Point, Settings, find_task, make_policy
    from sttau.rl import train as run

    set_threads(1)  # the steps are small: more threads would only wait for each other
    folder = out.with_suffix("")
    with plain_errors():
        chosen = find_task(task, horizon)
        settings = Settings(episodes, batch, learning_rate, choice=choice)  # type: ignore[arg-type]
        policy = make_policy(method, chosen, hidden_size=hidden_size, seed=seed)
        every = max(1, episodes // batch // 10)

        def show(point: Point) -> None:
            if point.episodes // batch % every == 0:
                tau = "" if point.temperature is None else f", τ {point.temperature:.2f}"
                print_line(f"{point.episodes:6,} episodes: reward {point.reward:6.1f}, {point.entropy:.2f} bits{tau}")

        if folder == out:
            raise ValueError(
                f"--out must have a suffix, such as {out}.safetensors: {out} is the folder of its checkpoints"
            )
        curve = run(policy, chosen, settings, seed=seed, folder=folder, callbacks=show)
        policy.save(out)
    print_line(f"Policy: {out}, trained for {curve[-1].episodes:,} episodes; learning curve: {folder / 'log.jsonl'}")


@app.command()
def watch(
    policy: Annotated[Path, typer.Argument(help="Policy file written by sttau rl train.")],
    task: Annotated[str, typer.Option(help="Name of the task; that of training by default.")] = "",
    out: Annotated[Path | None, typer.Option(help="File for a video of one episode, .gif.")] = None,
    automaton: Annotated[
        Path | None, typer.Option(help="File for the automaton of an ST-τ policy: .svg, .png, .dot, .json or .prism.")
    ] = None,
    by: Annotated[str, typer.Option(help="Name of the observation whose sign the automaton reads.")] = "",
    choice: Annotated[str, typer.Option(help="Choice of actions: sampling or greedy; as in training by default.")] = "",
    episodes: Annotated[
        int, typer.Option(min=1, help="Number of episodes over which reward and automaton are estimated.")
    ] = 100,
    horizon: HorizonOption = None,
    seed: SeedOption = 0,
) -> None:
    """Evaluate a policy; write a video of an episode, and the automaton observed in its states.

    Example: sttau rl watch policy.safetensors --out video.gif --automaton automaton.svg
    """
    import sttau
    from sttau.plotting.automaton import check_ending, write_automaton
    from sttau.plotting.video import write_video
    from sttau.rl import Environments, observed_automaton, play

    with plain_errors():
        if automaton is not None:
            check_ending(automaton)
        network = sttau.load(policy)
        if not isinstance(network, sttau.SequenceClassifier):
            raise ValueError(f"{policy} is not a policy; train one with sttau rl train")
        chosen, way = _role(network, task, horizon, choice)
        with Environments(chosen, episodes) as environments:
            played = play(network, environments, choice=way, seed=seed)
        print_line(
            f"{chosen.name}, {way}: mean reward {played.scores.mean():.1f} over {episodes} episodes of at most "
            f"{chosen.horizon} steps; {played.entropy:.2f} bits per action"
        )
        if automaton is not None:
            observed = observed_automaton(network, played, chosen, by)
            if observed.unseen:
                never = ", ".join(f"state {state} under “{symbol}”" for state, symbol in observed.unseen)
                print_line(f"Never observed, and left out of the automaton: {never}")
            title = f"{chosen.name}, the share of “{chosen.actions[-1]}” in each state"
            write_automaton(observed.pa, automaton, title, hidden=observed.unseen)
            print_line(f"Written: {automaton}")
        if out is not None:
            frames: list[Any] = []
            with Environments(chosen, 1, frames=True) as stage:
                shown = play(network, stage, choice=way, seed=seed, on_step=lambda: frames.append(stage.frame()))
            write_video(frames, out)
            print_line(f"Written: {out}, one episode of {int(shown.lengths[0])} steps")


def _role(network: SequenceClassifier, task: str, horizon: int | None, choice: str) -> tuple[Task, Choice]:
    """Return the task to play and how actions are chosen: as given, or as the policy remembers."""
    from typing import cast

    from sttau.rl import find_task, recall

    known = recall(network) if not (task and choice) else None
    if known is None and not (task and choice):
        raise ValueError("the policy does not know its task or choice: name them with --task and --choice")
    if known is not None and not task:
        task, horizon = known.task, horizon or known.horizon
    return find_task(task, horizon), cast("Choice", choice or (known.choice if known is not None else ""))

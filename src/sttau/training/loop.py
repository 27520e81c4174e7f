"""The training loop, the same for every model."""

from __future__ import annotations

import inspect
import logging
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import torch

from sttau.checks import as_tensor
from sttau.models import SequenceModel
from sttau.seeds import derive_seed
from sttau.training.batches import Data, Order
from sttau.training.distributed import join
from sttau.training.gradients import Gradients, Precision
from sttau.training.interruption import interruptible
from sttau.training.log import JsonLines, Update
from sttau.training.run import DivergedError, Goal, Run, Schedule, Settings, Watcher
from sttau.training.team import Team

__all__ = ["DivergedError", "begin", "fit", "team_of"]

_log = logging.getLogger(__name__)


def fit(
    model: SequenceModel,
    inputs: Any,
    targets: Any,
    lengths: Any = None,
    *,
    updates: int = 1000,
    batch_size: int = 64,
    learning_rate: float = 1e-3,
    weight_decay: float = 0.0,
    optimizer: Callable[..., torch.optim.Optimizer] = torch.optim.AdamW,
    schedule: Schedule = "constant",
    warmup: int = 0,
    average: float | None = None,
    clip_norm: float | None = 1.0,
    seed: int = 0,
    bucket_batches: int = 1,
    precision: Precision = "float32",
    cuda_graphs: bool = False,
    validate: Callable[[], float | Mapping[str, float]] | None = None,
    validate_every: int = 100,
    metric: str | None = None,
    goal: Goal = "min",
    patience: int | None = None,
    folder: str | os.PathLike[str] | None = None,
    checkpoint_every: int | None = None,
    callbacks: Watcher | Iterable[Watcher] = (),
) -> list[Update]:
    """Train a model in place on random batches.

    Batches go through the data in a new random order each time round. All randomness follows from ``seed``; PyTorch's
    global generator is left as it was. Under ``torchrun`` every batch is shared among the processes, and the result is
    that of one process up to rounding.

    Args:
        model: a classifier or regressor. It is trained where its weights are; the data is moved there.
        inputs: (sequences, time, features), or (sequences, time) token ids.
        targets: labels (sequences,), or numbers (sequences, outputs).
        lengths: (sequences,) valid steps.
        updates: how many batches to train on, at most.
        batch_size: sequences a batch, over all processes.
        learning_rate: handed to the optimizer as ``lr``.
        weight_decay: handed to the optimizer for all weights, log τ too, which it draws to 0; AdamW's is decoupled.
        optimizer: of ``torch.optim``, or like ``functools.partial(torch.optim.SGD, momentum=0.9)``.
        schedule: of the learning rate: ``cosine`` lets it fall to 0 along half a wave, over all ``updates``.
        warmup: over so many updates the learning rate rises to its value.
        average: validate, and end, with an exponential moving average of the weights, of which so large a part stays at
            every update (0.999 is a common choice); None for the weights themselves.
        clip_norm: largest norm of the gradient, for each member of an ensemble; None for no limit.
        seed: of batch order, noise and dropout.
        bucket_batches: how many batches are sorted by length together, so that little is padding; 1 for none.
        precision: ``bfloat16`` or ``float16`` for mixed precision; weights stay as they are.
        cuda_graphs: on a GPU, capture a whole update for each shape of batch, and replay it from then on. It has no
            effect with several processes, ``float16`` or an optimizer without the option ``capturable``.
        validate: returns a number to watch, or several by name; see :func:`sttau.inference.validation`. The weights
            for which it was best are put back at the end.
        validate_every: how many updates lie between two calls of ``validate``.
        metric: the name of the value to watch, where ``validate`` returns several.
        goal: whether that value should become small (``min``) or large (``max``).
        patience: training ends after so many validations in a row without a new best; None for never.
        folder: for checkpoints and the log, ``log.jsonl``. A run that finds its own checkpoint there goes on from it.
        checkpoint_every: how many updates lie between two checkpoints; as many as between validations by default.
        callbacks: told of every update, by the first process only; training ends early if any returns True. On a GPU
            updates are told in groups, because asking it for a loss makes it wait.

    Returns:
        The updates that were made, with those before it was resumed.

    Example:
        >>> from sttau import SequenceClassifier, STTauGRU
        >>> _ = torch.manual_seed(0)
        >>> x = torch.randn(32, 5, 2)
        >>> model = SequenceClassifier(STTauGRU(2, 8, num_states=3), num_classes=2)
        >>> log = fit(model, x, (x.sum((1, 2)) > 0).long(), updates=20, learning_rate=0.01)
        >>> len(log), log[-1].loss < log[0].loss
        (20, True)
    """
    given = dict(locals())
    with ExitStack() as stack:
        run = stack.enter_context(begin(given))
        team = team_of([run], given)
        device = run.processes.device
        stack.enter_context(torch.random.fork_rng(devices=[device] if device.type == "cuda" else []))
        interrupted = stack.enter_context(interruptible())
        stack.callback(team.wait)
        stack.enter_context(team.at_work())
        while not run.ended:
            if run.clock is None:
                torch.manual_seed(derive_seed(seed, "update", run.number + 1))
            team.update()
            if interrupted() or run.due():
                run.look_after(interrupted)
    return run.updates


@contextmanager
def begin(given: Mapping[str, Any]) -> Iterator[Run]:
    """Make a run of the arguments of :func:`fit`, by their names; in the end the model has its best weights."""
    model: SequenceModel = given["model"]
    inputs, targets = as_tensor("inputs", given["inputs"]), as_tensor("targets", given["targets"])
    lengths = None if given["lengths"] is None else as_tensor("lengths", given["lengths"])
    lengths = model.check(inputs, lengths)
    targets = model.check_targets(targets, len(inputs))
    validate, precision = given["validate"], given["precision"]
    plain = {name: given[name] for name in Settings.__dataclass_fields__ if name != "validates"}
    settings = Settings(**plain, validates=validate is not None)
    device = model.head.weight.device
    settings.check(device)
    checkpoint_every = given["checkpoint_every"]
    if checkpoint_every is not None and checkpoint_every < 1:
        raise ValueError(f"checkpoint_every must be at least 1, got {checkpoint_every}")
    watchers = given["callbacks"]
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    if not parameters:
        raise ValueError("model has no parameter that requires a gradient; there is nothing to train")

    training = model.training
    with ExitStack() as stack:
        processes = join(device)
        processes.copy_first(model.state_dict().values())
        stack.callback(model.train, training)
        scaler = torch.amp.GradScaler(device.type, enabled=precision == "float16")
        make = given["optimizer"]
        obstacle = None
        if device.type != "cuda":
            obstacle = f"on device type {device.type!r}"
        elif processes.count > 1:
            obstacle = "where several processes share a batch"
        elif scaler.is_enabled():
            obstacle = "with precision='float16'; 'bfloat16' can be captured"
        elif "capturable" not in inspect.signature(make).parameters:
            obstacle = "with an optimizer that has no option capturable"
        captures = given["cuda_graphs"] and obstacle is None
        if given["cuda_graphs"] and not captures:
            _log.warning("cuda_graphs has no effect %s", obstacle)
        rates: dict[str, Any] = {"lr": settings.learning_rate, "weight_decay": settings.weight_decay}
        if captures:
            rates |= {"lr": torch.tensor(settings.learning_rate, device=device), "capturable": True}
            rates |= {"fused": True} if "fused" in inspect.signature(make).parameters else {}
        run = Run(
            model,
            parameters,
            make(parameters, **rates),
            scaler,
            settings,
            processes,
            Order(len(inputs), settings.batch_size, settings.seed, lengths, settings.bucket_batches),
            Data.on(device, inputs, targets, lengths, settings.seed),
            captures=captures,
            validate=validate,
            checkpoint_every=checkpoint_every,
            watchers=[watchers] if callable(watchers) else list(watchers),
        )
        stack.callback(run.put_back_best)
        stack.callback(run.take_average)
        if given["folder"] is not None:
            run.folder = Path(given["folder"])
            run.describe(inputs, targets, lengths)
            run.resume()
            if processes.first:
                run.book = stack.enter_context(JsonLines(run.folder / "log.jsonl", run.number))
        model.train()
        yield run


def team_of(runs: list[Run], given: Mapping[str, Any]) -> Team:
    """The runs, ready to be updated; ``given`` are the arguments of :func:`fit` that they have in common."""
    run = runs[0]
    processes, streams = run.processes.count, run.clock is None
    gradients = Gradients(
        run.model, run.parameters, run.scaler, given["precision"], run.order.sequences, processes, streams
    )
    return Team(runs, gradients)

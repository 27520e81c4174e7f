"""The training loop, the same for every model."""

from __future__ import annotations

import hashlib
import logging
import math
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal, get_args

import torch
from torch import Tensor, nn

from sttau.checks import as_tensor, check_same_settings
from sttau.layers import FiniteStateRNN
from sttau.models import SequenceModel
from sttau.training.batches import Data, Order, derive_seed
from sttau.training.checkpoint import checkpoint_path, newest_checkpoint, sweep, write_checkpoint
from sttau.training.distributed import Processes, join
from sttau.training.gradients import CapturedGradients, Gradients, Precision
from sttau.training.interruption import Interrupted, interruptible
from sttau.training.log import JsonLines, Update, read_log

Goal = Literal["min", "max"]
Schedule = Literal["constant", "cosine"]
Watcher = Callable[[Update], bool | None]

_log = logging.getLogger(__name__)
_UNREAD = {"cuda": 50}  # how many losses may wait on a device before they are read: each reading makes it wait


class DivergedError(FloatingPointError):
    """Loss or gradient is no longer a number; the message says when, and in which parameters."""


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
    optimiser: Callable[..., torch.optim.Optimizer] = torch.optim.AdamW,
    schedule: Schedule = "constant",
    warm_up: int = 0,
    average: float | None = None,
    clip_norm: float | None = 1.0,
    seed: int = 0,
    sorted_batches: int = 1,
    precision: Precision = "float32",
    cuda_graphs: bool = False,
    validate: Callable[[], float | Mapping[str, float]] | None = None,
    validate_every: int = 100,
    metric: str | None = None,
    goal: Goal = "min",
    patience: int | None = None,
    folder: str | os.PathLike[str] | None = None,
    checkpoint_every: int | None = None,
    on_update: Watcher | Iterable[Watcher] = (),
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
        learning_rate: handed to the optimiser as ``lr``.
        weight_decay: handed to the optimiser; AdamW's is decoupled.
        optimiser: of ``torch.optim``, or like ``functools.partial(torch.optim.SGD, momentum=0.9)``.
        schedule: of the learning rate: ``cosine`` lets it fall to 0 along half a wave, over all ``updates``.
        warm_up: over so many updates the learning rate rises to its value.
        average: validate, and end, with an exponential moving average of the weights, of which so large a part stays at
            every update (0.999 is a common choice); None for the weights themselves.
        clip_norm: largest norm of the gradient, for each member of an ensemble; None for no limit.
        seed: of batch order, noise and dropout.
        sorted_batches: how many batches are sorted by length together, so that little is padding; 1 for none.
        precision: ``bfloat16`` or ``float16`` for mixed precision; weights stay as they are.
        cuda_graphs: on a GPU, capture the work of each shape of batch once and replay it from then on.
        validate: returns a number to watch, or several by name; see :func:`sttau.inference.validation`. The weights
            for which it was best are put back at the end.
        validate_every: how many updates lie between two calls of ``validate``.
        metric: the name of the value to watch, where ``validate`` returns several.
        goal: whether that value should become small (``min``) or large (``max``).
        patience: training ends after so many validations in a row without a new best; None for never.
        folder: for checkpoints and the log, ``log.jsonl``. A run that finds its own checkpoint there goes on from it.
        checkpoint_every: how many updates lie between two checkpoints; as many as between validations by default.
        on_update: told of every update, by the first process only; training ends early if any returns True. On a GPU
            updates are told in groups, because asking it for a loss makes it wait.

    Returns:
        The updates that were made, with those before it was resumed.

    Example:
        >>> from sttau import SequenceClassifier, STTauGRU
        >>> x = torch.randn(32, 5, 2)
        >>> model = SequenceClassifier(STTauGRU(2, 8, num_states=3), num_classes=2)
        >>> log = fit(model, x, (x.sum((1, 2)) > 0).long(), updates=20, learning_rate=0.01)
        >>> len(log), log[-1].loss < log[0].loss
        (20, True)
    """
    inputs, targets = as_tensor("inputs", inputs), as_tensor("targets", targets)
    lengths = model.check(inputs, None if lengths is None else as_tensor("lengths", lengths))
    targets = model.check_targets(targets, len(inputs))
    settings = _Settings(
        updates, batch_size, learning_rate, weight_decay, schedule, warm_up, average, clip_norm, seed, sorted_batches,
        precision, validate is not None, validate_every, metric, goal, patience,
    )  # fmt: skip
    device = model.head.weight.device
    settings.check(device)
    if checkpoint_every is not None and checkpoint_every < 1:
        raise ValueError(f"checkpoint_every must be at least 1, got {checkpoint_every}")
    watchers = [on_update] if callable(on_update) else list(on_update)
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    if not parameters:
        raise ValueError("model has no parameter that requires a gradient; there is nothing to train")

    training = model.training
    with ExitStack() as stack:
        processes = join(device)
        processes.copy_first(model.state_dict().values())
        stack.callback(model.train, training)
        run = _Run(
            model,
            parameters,
            optimiser(parameters, lr=learning_rate, weight_decay=weight_decay),
            torch.amp.GradScaler(device.type, enabled=precision == "float16"),
            settings,
            processes,
        )
        stack.callback(run.put_back_best)
        stack.callback(run.take_average)
        eager = Gradients(model, parameters, run.scaler, precision, len(inputs), processes.count)
        captures = cuda_graphs and device.type == "cuda"
        gradients = CapturedGradients(eager) if captures else eager
        if cuda_graphs and not captures:
            _log.warning("cuda_graphs has no effect on device type %r", device.type)
        book: JsonLines | None = None
        if folder is not None:
            run.folder = Path(folder)
            run.describe(inputs, targets, lengths)
            run.resume()
            book = stack.enter_context(JsonLines(run.folder / "log.jsonl", run.number)) if processes.first else None
        order = Order(len(inputs), batch_size, seed, lengths, sorted_batches)
        data = Data.on(device, inputs, targets, lengths, seed)
        stack.enter_context(torch.random.fork_rng(devices=[device] if device.type == "cuda" else []))
        interrupted = stack.enter_context(interruptible())
        model.train()
        while not run.ended:
            number = run.number + 1
            torch.manual_seed(derive_seed(seed, "update", number))
            rows = order.rows(number)
            places, share = processes.shard(len(rows))
            batch = data.batch(rows[places], places, share, number, few_shapes=captures)
            run.step(*gradients(batch))
            due = validate is not None and (number % validate_every == 0 or number == updates)
            keeps = number % (checkpoint_every or validate_every) == 0
            if not (due or keeps or run.ended or interrupted() or run.should_read()):
                continue
            told = run.read()
            if validate is not None and due:
                with run.averaged():
                    told[-1] = run.judge(told[-1], processes.hear(_by_name(validate()) if processes.first else None))
            run.updates += told
            for update in told if book is not None else ():
                book(update)  # type: ignore[misc]
            wishes = [watch(update) for update in told for watch in watchers] if processes.first else []
            wish = processes.largest(2 if any(wishes) else int(interrupted()))
            run.ended |= wish == 2
            if run.ended or wish or keeps:
                run.keep()
            if wish and not run.ended:
                raise Interrupted(
                    f"training was interrupted after update {number} of {updates}. {run.whereabouts()}"
                    + (" The same call goes on from there." if run.kept else "")
                )
    return run.updates


@dataclass(frozen=True)
class _Settings:
    """Everything the trained weights depend on besides model, data, optimiser and device."""

    updates: int
    batch_size: int
    learning_rate: float
    weight_decay: float
    schedule: str
    warm_up: int
    average: float | None
    clip_norm: float | None
    seed: int
    sorted_batches: int
    precision: str
    validates: bool
    validate_every: int
    metric: str | None
    goal: str
    patience: int | None

    def rate(self, number: int) -> float:
        """The learning rate of an update."""
        fallen = 0.5 * (1 + math.cos(math.pi * (number - 1) / self.updates)) if self.schedule == "cosine" else 1.0
        return self.learning_rate * fallen * min(1.0, number / (self.warm_up + 1))

    def check(self, device: torch.device) -> None:
        """Raise an error that names the argument which makes no sense."""
        for name in ("updates", "batch_size", "validate_every", "sorted_batches", "patience"):
            number = getattr(self, name)
            if number is not None and number < 1:
                raise ValueError(f"{name} must be at least 1, got {number}")
        if not self.learning_rate > 0:
            raise ValueError(f"learning_rate must be positive, got {self.learning_rate}")
        if self.clip_norm is not None and not self.clip_norm > 0:
            raise ValueError(f"clip_norm must be positive, or None for no limit, got {self.clip_norm}")
        if self.warm_up < 0:
            raise ValueError(f"warm_up must not be negative, got {self.warm_up}")
        if self.average is not None and not 0 <= self.average < 1:
            raise ValueError(f"average must be in [0, 1), or None for no average, got {self.average}")
        named = (("precision", Precision), ("goal", Goal), ("schedule", Schedule))
        for name, choices in ((name, get_args(kind)) for name, kind in named):
            if getattr(self, name) not in choices:
                raise ValueError(f"{name} must be one of {', '.join(map(repr, choices))}, got {getattr(self, name)!r}")
        if self.precision == "float16" and device.type == "cpu":
            raise ValueError("precision='float16' needs a GPU; on a CPU use 'bfloat16'")
        if not self.validates and (self.patience is not None or self.metric is not None):
            raise ValueError("patience and metric need validate: a function that returns what is to be watched")


class _Run:
    """A run of training: what makes it up, as a checkpoint holds it, and how it goes on."""

    def __init__(
        self,
        model: SequenceModel,
        parameters: list[nn.Parameter],
        optimiser: torch.optim.Optimizer,
        scaler: torch.amp.GradScaler,
        settings: _Settings,
        processes: Processes,
    ) -> None:
        self.model, self.parameters, self.optimiser, self.scaler = model, parameters, optimiser, scaler
        self.settings, self.processes = settings, processes
        self.names = {parameter: name for name, parameter in model.named_parameters()}
        self.folder: Path | None = None
        self.kept: Path | None = None  # the last checkpoint
        self.description: dict[str, Any] = {}
        self.updates: list[Update] = []
        self.number = 0
        self.ended = False
        self.best: float | None = None
        self.best_weights: dict[str, Tensor] | None = None
        self.stale = 0  # validations since the best
        self.mean = None if settings.average is None else [p.detach().clone() for p in parameters]
        self.unread: list[Tensor] = []  # loss, norm of the gradient and temperatures of updates made
        self.waits = 1 if processes.count > 1 or scaler.is_enabled() else _UNREAD.get(processes.device.type, 1)

    # -- going on ----------------------------------------------------------------------------------------------------

    def step(self, loss: Tensor, gradient: tuple[Tensor | None, ...]) -> None:
        """Change the weights; where every loss is read at once, not if something is not a number any more."""
        settings, number = self.settings, self.number + 1
        for parameter, value in zip(self.parameters, gradient, strict=True):
            parameter.grad = value
        given = [value for value in gradient if value is not None]
        loss = loss.to(torch.promote_types(loss.dtype, torch.float32)).clone()
        self.processes.add_up([*given, loss])
        self.scaler.unscale_(self.optimiser)
        norm = nn.utils.get_total_norm(given)
        values = torch.stack([loss, norm.to(loss)])
        if self.waits == 1:
            self._check(number, *values.tolist())
        if settings.clip_norm is not None and len(self.model.members) == 1:
            nn.utils.clip_grads_with_norm_(self.parameters, settings.clip_norm, norm)
        elif settings.clip_norm is not None:
            for member in self.model.members:  # networks that are trained together are limited one by one
                nn.utils.clip_grad_norm_(member.parameters(), settings.clip_norm)
        for group in self.optimiser.param_groups:
            group["lr"] = settings.rate(number)
        self.scaler.step(self.optimiser)  # leaves the weights alone where half precision overflowed
        self.scaler.update()
        if self.mean is not None and settings.average is not None:
            moves = max(1 - settings.average, 1 / (1 + number))  # at first, the plain mean of all there were
            torch._foreach_lerp_(self.mean, [parameter.detach() for parameter in self.parameters], moves)
        self.unread.append(torch.cat([values, _temperature(self.model).to(values)]))
        self.number = number
        self.ended = number == settings.updates

    def should_read(self) -> bool:
        """Whether enough losses are waiting."""
        return len(self.unread) >= self.waits

    def read(self) -> list[Update]:
        """The updates made since the last call."""
        first, told = self.number - len(self.unread) + 1, []
        for number, (loss, norm, *temperature) in enumerate(torch.stack(self.unread).tolist(), first):
            if self.waits > 1:
                self._check(number, loss, norm)
            told.append(Update(number, self.settings.updates, loss, tuple(temperature), gradient_norm=norm))
        self.unread.clear()
        return told

    def _check(self, number: int, loss: float, norm: float) -> None:
        """Raise if an update has, or would have, spoilt the weights."""
        if not math.isfinite(loss):
            spoilt = self._spoilt({name: parameter for parameter, name in self.names.items()})
            raise self._diverged(number, f"the loss became {loss}", f"no longer finite are: {spoilt or 'no weights'}")
        if not math.isfinite(norm) and (not self.scaler.is_enabled() or self.scaler.get_scale() < 1):
            spoilt = self._spoilt({self.names[p]: p.grad for p in self.parameters if p.grad is not None})
            raise self._diverged(
                number, f"the gradient became {norm}", f"not finite is that of: {spoilt or 'none alone'}"
            )

    def _spoilt(self, tensors: Mapping[str, Tensor]) -> str:
        return ", ".join(name for name, tensor in tensors.items() if not bool(tensor.isfinite().all()))

    def _diverged(self, number: int, what: str, culprit: str) -> DivergedError:
        settings, since = self.settings, self.number - number + 1
        made = f"{since} updates have been made with it" if since else "That update was not made"
        return DivergedError(
            f"{what} at update {number} of {settings.updates}; {culprit}. {made}. "
            f"Lower learning_rate (now {settings.learning_rate}) or clip_norm (now {settings.clip_norm}). "
            f"{self.whereabouts()}"
        )

    def judge(self, update: Update, metrics: dict[str, float]) -> Update:
        """Note a validation: is it the best so far, and has the last best been too long ago?"""
        settings = self.settings
        name = next(iter(metrics)) if settings.metric is None and len(metrics) == 1 else settings.metric
        if name not in metrics:
            raise ValueError(f"metric must be one of {', '.join(metrics)}, which validate returns, got {name!r}")
        value = metrics[name]
        sign = 1 if settings.goal == "min" else -1
        if not math.isnan(value) and (self.best is None or sign * value < sign * self.best):
            self.best, self.stale = value, 0
            self.best_weights = {name: weight.detach().clone() for name, weight in self.model.state_dict().items()}
        else:
            self.stale += 1
        self.ended |= settings.patience is not None and self.stale >= settings.patience
        return replace(update, validation=value, metrics=metrics)

    @contextmanager
    def averaged(self) -> Iterator[None]:
        """Inside, the model has the average of its weights, where one is kept."""
        if self.mean is None:
            yield
            return
        own = [parameter.detach().clone() for parameter in self.parameters]
        self.take_average()
        try:
            yield
        finally:
            _copy(own, self.parameters)

    def take_average(self) -> None:
        """Give the model the average of its weights, where one is kept."""
        if self.mean is not None:
            _copy(self.mean, self.parameters)

    def put_back_best(self) -> None:
        """Give the model the best weights there were."""
        if self.best_weights is not None:
            self.model.load_state_dict(self.best_weights)

    # -- keeping -----------------------------------------------------------------------------------------------------

    def describe(self, inputs: Tensor, targets: Tensor, lengths: Tensor | None) -> None:
        """Note what a run that is resumed must have in common with the one that was left."""
        whole = hashlib.sha256()
        for tensor in (inputs, targets, lengths):
            if tensor is not None:
                whole.update(f"{tensor.dtype} {tuple(tensor.shape)}".encode())
                whole.update(tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().data)
        named = ("lr", "weight_decay")  # these are among the settings
        options = [f"{name} {value}" for name, value in self.optimiser.defaults.items() if name not in named]
        self.description = asdict(self.settings) | {
            "model": f"{self.model!r}, {self.model.head.weight.dtype}",
            "optimiser": f"{type(self.optimiser).__name__} with {', '.join(options)}",
            "data": f"{len(inputs)} sequences with SHA-256 {whole.hexdigest()[:16]}",
        }

    def keep(self) -> None:
        """Write a checkpoint."""
        if self.folder is None:
            return
        self.kept = checkpoint_path(self.folder, self.number)
        if not self.processes.first:
            return
        state = {
            "settings": self.description,
            "number": self.number,
            "ended": self.ended,
            "best": self.best,
            "stale": self.stale,
            "model": dict(self.model.state_dict()),
            "best_weights": self.best_weights,
            "mean": self.mean,
            "optimiser": self.optimiser.state_dict(),
            "scaler": self.scaler.state_dict(),
        }
        write_checkpoint(self.kept, state)

    def resume(self) -> None:
        """Go on from the newest checkpoint, if there is one, with the log up to there."""
        assert self.folder is not None
        state = newest_checkpoint(self.folder)
        if state is not None:
            check_same_settings(self.folder, "run", state["settings"], self.description)
            self.number, self.ended = state["number"], state["ended"]
            self.best, self.stale = state["best"], state["stale"]
            self.model.load_state_dict(state["model"])
            self.optimiser.load_state_dict(state["optimiser"])
            self.scaler.load_state_dict(state["scaler"])
            if self.mean is not None:
                _copy(state["mean"], self.mean)
            if state["best_weights"] is not None:
                device = self.processes.device
                self.best_weights = {name: weight.to(device) for name, weight in state["best_weights"].items()}
            self.kept = checkpoint_path(self.folder, self.number)
            self.updates = [update for update in read_log(self.folder / "log.jsonl") if update.number <= self.number]
            _log.info("training goes on from %s", self.kept)
        if self.processes.hear(self.number) != self.number:
            raise RuntimeError(f"folder {self.folder} must be one that all processes see, with the same checkpoints")
        if self.processes.first:
            sweep(self.folder, self.number)

    def whereabouts(self) -> str:
        """Say what is left of the run."""
        if self.kept is None:
            return "There is no checkpoint" + (" yet." if self.folder else ": name a folder to have one.")
        return f"The last checkpoint is {self.kept}."


@torch.no_grad()
def _copy(values: Sequence[Tensor], into: Sequence[Tensor]) -> None:
    for old, new in zip(into, values, strict=True):
        old.copy_(new)


def _by_name(value: float | Mapping[str, float]) -> dict[str, float]:
    if isinstance(value, Mapping):
        return {name: float(number) for name, number in value.items()}
    return {"validation": float(value)}


def _temperature(model: SequenceModel) -> Tensor:
    if not isinstance(model.layer, FiniteStateRNN):
        return model.head.weight.new_empty(0)
    return model.layer.temperature.detach().flatten()

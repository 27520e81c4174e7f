"""``fit``: train a model in place."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.optim.lr_scheduler import LRScheduler, ReduceLROnPlateau

from sttau.checks import cpu_by_default
from sttau.inference.inputs import as_examples
from sttau.inference.ranges import record_ranges
from sttau.models import DeepEnsemble, Predictor, SequenceClassifier, SequenceRegressor
from sttau.models.criterion import Criterion, make_criterion
from sttau.training.baseline import warn_unless_learned
from sttau.training.batches import Data, Order
from sttau.training.callbacks import ProgressBar
from sttau.training.checkpoints import locked
from sttau.training.distributed import Processes, join
from sttau.training.early_stopping import EarlyStopping
from sttau.training.ema import EMA
from sttau.training.gradients import Gradients
from sttau.training.interruption import interruptible
from sttau.training.log import JsonLines, Update
from sttau.training.options import TrainKeywords, TrainOptions
from sttau.training.run import Run, Validation
from sttau.training.sample_weights import sequence_weights
from sttau.training.scales import warn_odd_scales
from sttau.training.soft_labels import training_targets
from sttau.training.state import TrainState
from sttau.training.step import EagerStep, GraphedStep
from sttau.training.validation import Measure, as_validation

if TYPE_CHECKING:
    from typing_extensions import Unpack

_log = logging.getLogger(__name__)
_LOSSES = tuple(kind.loss for kind in (SequenceClassifier, SequenceRegressor, DeepEnsemble))


@cpu_by_default()
def fit(
    model: Predictor,
    data: Any,
    targets: Any = None,
    lengths: Any = None,
    *,
    validation: Any = None,
    options: TrainOptions | None = None,
    **changes: Unpack[TrainKeywords],
) -> list[Update]:
    """Train a model in place on random batches.

    Batches go through the data in a new random order each epoch. All randomness follows from ``seed``; PyTorch's global
    generator is left unchanged. Under ``torchrun`` every batch is shared among the processes, and the result is that of
    one process up to rounding. With validation data, the weights with the best value are restored at the end. The
    members of an ensemble with a ``posterior`` are drawn after that.

    Args:
        model: A classifier, a regressor or an ensemble. It is trained on the device of its weights; the data is moved
            there.
        data: A :class:`~sttau.data.SequenceDataset`; or (sequences, time, features), or (sequences, time) token ids,
            with ``targets`` and ``lengths``.
        targets: (sequences,) labels, or (sequences, outputs) values.
        lengths: (sequences,) valid steps of padded arrays.
        validation: Validation data, as a :class:`~sttau.data.SequenceDataset` or a tuple (inputs, targets) or (inputs,
            targets, lengths); or a function that returns a value to monitor, or several by name (see
            :func:`sttau.training.validation`). ``nll`` is monitored for a classifier, ``mse`` for a regressor, unless
            ``metric`` names another, such as ``error``, or ``mae``, ``crps`` and (with a variance head) ``nll``.
        options: Options of training, :class:`TrainOptions`.
        changes: Single options by name, such as ``updates=300, learning_rate=0.01``; see :class:`TrainOptions`.

    Returns:
        The updates that were made, including those before a run was resumed.

    Example:
        >>> from sttau import SequenceClassifier, STTauGRU
        >>> _ = torch.manual_seed(0)
        >>> x = torch.randn(32, 5, 2)
        >>> model = SequenceClassifier(STTauGRU(2, 8, num_states=3), num_classes=2)
        >>> log = fit(model, x, (x.sum((1, 2)) > 0).long(), updates=20, learning_rate=0.01)
        >>> len(log), log[-1].loss < log[0].loss
        (20, True)
    """
    chosen = (options or TrainOptions()).with_changes(**changes)
    with ExitStack() as stack:
        run = stack.enter_context(start(model, data, targets, lengths, validation, chosen))
        step = step_of([run])
        device = run.processes.device
        stack.enter_context(torch.random.fork_rng(devices=[device] if device.type == "cuda" else []))
        interrupted = stack.enter_context(interruptible())
        if run.processes.first and not run.finished:
            bar = ProgressBar.for_fit(run.options.progress, run.callbacks)
            run.callbacks += () if bar is None else (stack.enter_context(bar),)
        stack.callback(step.wait)
        stack.enter_context(step.active())
        while not run.finished:
            step.update()
            if interrupted() or run.is_due():
                run.after_updates(interrupted)
    if isinstance(run.validation, Measure) and run.processes.first and run.options.mode == "min":
        targets = run.data.targets if run.options.soft_labels is None else run.data.targets.argmax(dim=-1)
        warn_unless_learned(run.options.metric, run.state.early_stopping.best, targets, run.validation.targets)
    return run.updates


@contextmanager
def start(
    model: Predictor, data: Any, targets: Any, lengths: Any, validation: Any, options: TrainOptions
) -> Iterator[Run]:
    """Set up a run, resumed where it has a checkpoint; at the end the model has its best weights."""
    from sttau.training.posterior import draw_members, prepare_posterior  # which train themselves

    prepare_posterior(model)
    names = model.class_names or getattr(data, "class_names", ())
    inputs, targets, lengths = as_examples(model, data, targets, lengths)
    options, device = options.for_data(len(inputs)), model.device
    options.check_device(device)
    measure: Validation | None = None if validation is None else as_validation(model, validation)
    if measure is not None and options.metric is None and not callable(validation):
        options = options.with_changes(metric="nll" if model.task == "classification" else "mse")
    options.check_validation(measure is not None)
    if isinstance(measure, Measure):
        measure.check_metric(options.metric)
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    if not parameters:
        raise ValueError("model has no parameter that requires a gradient; there is nothing to train")

    criterion = make_criterion(options.loss, options.label_smoothing, model.task)
    classes = model.num_outputs if model.task == "classification" else None
    weights = sequence_weights(options.class_weight, options.sample_weight, targets, classes, names)
    wanted = training_targets(options.soft_labels, targets, classes, model.dtype)
    _check_own_loss(model, criterion, weights)
    record_ranges(model, inputs, lengths)
    warn_odd_scales(model, inputs, lengths)
    training = model.training
    with ExitStack() as stack:
        processes = join(device)
        processes.copy_first(model.state_dict().values())
        stack.callback(model.train, training)
        for member in model.members if criterion is not None else ():
            stack.callback(setattr, member, "criterion", member.criterion)
            member.criterion = criterion
        scaler = torch.amp.GradScaler(device.type, enabled=options.precision == "float16")
        obstacle = _capture_obstacle(options, processes, scaler)
        captures = options.cuda_graphs and obstacle is None
        if options.cuda_graphs and not captures:
            _log.warning("cuda_graphs has no effect %s", obstacle)
        optimizer = options.optimizer(parameters, **_optimizer_options(options, device, captures))
        state = TrainState(
            model,
            parameters,
            optimizer,
            scaler,
            None if options.ema_decay is None else EMA(parameters, options.ema_decay),
            EarlyStopping(options.mode, options.patience),
            _make_scheduler(options, optimizer, measure is not None),
        )
        run = Run(
            options,
            state,
            processes,
            Order(len(inputs), options.batch_size, options.seed, lengths, options.bucket_batches),
            Data.on(
                device, inputs, wanted, lengths, options.seed, None if weights is None else weights.to(model.dtype)
            ),
            captures=captures,
            validation=measure,
        )
        stack.callback(state.restore_best)
        if options.folder is not None:
            run.folder = options.folder  # type: ignore[assignment]
            run.describe(inputs, targets, lengths)
            if processes.first:
                stack.enter_context(locked(options.folder))  # type: ignore[arg-type]
            run.resume()
            if processes.first and not run.finished:
                run.log_file = stack.enter_context(JsonLines(options.folder / "log.jsonl", run.number))  # type: ignore[operator]
        model.train()
        yield run
    if run.finished:
        draw_members(model, inputs, targets, lengths, options)


def step_of(runs: list[Run]) -> EagerStep | GraphedStep:
    """Return what makes the updates of these runs."""
    run = runs[0]
    captures = run.device_inputs is not None
    gradients = Gradients(
        run.state.model,
        run.state.parameters,
        run.state.scaler,
        run.options.precision,
        run.order.sequences,
        run.processes.count,
        streams=not captures,
    )
    return GraphedStep(runs, gradients) if captures else EagerStep(run, gradients)


def _check_own_loss(model: Predictor, criterion: Criterion | None, weights: Tensor | None) -> None:
    """Say where a subclass with a loss of its own does not follow the options."""
    for part in {type(part): part for part in (model, *model.members)}.values():
        name = f"{type(part).__name__}.loss"
        if weights is not None and not (_accepts(part.loss, "weights") or _accepts_any(part.loss)):
            raise ValueError(f"class_weight and sample_weight need a loss with an argument weights; {name} has none")
        if criterion is not None and type(part).loss not in _LOSSES:
            _log.warning("loss and label_smoothing have no effect unless %s calls that of sttau", name)


def _capture_obstacle(options: TrainOptions, processes: Processes, scaler: torch.amp.GradScaler) -> str | None:
    """Why updates cannot be captured as CUDA graphs; None where they can."""
    if processes.device.type != "cuda":
        return f"on device type {processes.device.type!r}"
    if processes.count > 1:
        return "with several processes"
    if scaler.is_enabled():
        return "with precision='float16'; 'bfloat16' can be captured"
    if options.scheduler is not None:
        return "with a scheduler; schedule and warmup can be captured"
    if not _accepts(options.optimizer, "capturable"):
        return "with an optimizer that has no option capturable"
    return None


def _optimizer_options(options: TrainOptions, device: torch.device, captures: bool) -> dict[str, Any]:
    values: dict[str, Any] = {"lr": options.learning_rate, "weight_decay": options.weight_decay}
    if captures:
        values |= {"lr": torch.tensor(options.learning_rate, device=device), "capturable": True}
        values |= {"fused": True} if _accepts(options.optimizer, "fused") else {}
    return values


def _make_scheduler(options: TrainOptions, optimizer: torch.optim.Optimizer, validates: bool) -> LRScheduler | None:
    """The scheduler of the learning rate, after checking that it can be stepped."""
    if options.scheduler is None:
        return None
    scheduler = options.scheduler(optimizer)
    if not isinstance(scheduler, LRScheduler):
        raise ValueError(
            f"scheduler must return a torch.optim.lr_scheduler.LRScheduler, got {type(scheduler).__name__}"
        )
    if isinstance(scheduler, ReduceLROnPlateau):
        if not validates:
            raise ValueError("scheduler ReduceLROnPlateau needs validation data: pass validation=")
        if scheduler.mode != options.mode:
            raise ValueError(
                f"mode of ReduceLROnPlateau is {scheduler.mode!r}, but that of training is {options.mode!r}"
            )
    return scheduler


def _accepts(function: Any, argument: str) -> bool:
    """Whether a user's function, such as an optimizer, names an argument."""
    return argument in inspect.signature(function).parameters


def _accepts_any(function: Any) -> bool:
    """Whether a user's function takes arguments of any name."""
    return any(each.kind is each.VAR_KEYWORD for each in inspect.signature(function).parameters.values())

"""One run of training: its batches, its updates, and what happens between them."""

from __future__ import annotations

import hashlib
import logging
import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.utils.weak import WeakTensorKeyDictionary

from sttau.checks import check_same_settings
from sttau.errors import CheckpointError, reading
from sttau.models import Predictor
from sttau.training.batches import Batch, Data, Order
from sttau.training.checkpoints import checkpoint_path, clear_leftovers, newest_checkpoint, write_checkpoint
from sttau.training.distributed import Processes
from sttau.training.graph import DeviceInputs
from sttau.training.interruption import Interrupted
from sttau.training.log import Callback, JsonLines, Update, read_log
from sttau.training.options import TrainOptions
from sttau.training.state import TrainState
from sttau.training.validation import Measure

#: Returns the value to monitor, or several by name.
Validation = Callable[[], float | Mapping[str, float]]

_log = logging.getLogger(__name__)
_UNREAD = {"cuda": 100}  # losses that may stay on a device before they are read: each reading synchronizes


class DivergedError(FloatingPointError):
    """Loss or gradient is no longer finite; the message names the update and the parameters."""


class Run:
    """A run of training: options, data and state, and what is done after updates.

    Args:
        options: Options of training.
        state: State that is trained.
        processes: Processes that share every batch.
        order: Order of the batches.
        data: Training data on the device.
        captures: Whether updates are captured as CUDA graphs.
        validation: Function that measures the model.
    """

    def __init__(
        self,
        options: TrainOptions,
        state: TrainState,
        processes: Processes,
        order: Order,
        data: Data,
        *,
        captures: bool = False,
        validation: Validation | None = None,
    ) -> None:
        self.options, self.state, self.processes, self.order, self.data = options, state, processes, order, data
        self.validation = validation
        self.callbacks = cast("tuple[Callback, ...]", options.callbacks)
        self.checkpoint_every = options.checkpoint_every or options.validate_every
        self.names = {parameter: name for name, parameter in state.model.named_parameters()}
        self.folder: Path | None = None
        self.checkpoint: Path | None = None  # the last one
        self.log_file: JsonLines | None = None
        self.description: dict[str, Any] = {}
        self.updates: list[Update] = []
        single = processes.count > 1 or state.scaler.is_enabled()
        self.read_every = 1 if single else _UNREAD.get(processes.device.type, 1)
        self.unread: list[Tensor] = []  # loss, gradient norm and temperatures of updates not yet read …
        self.num_unread = 0  # … and their number; with CUDA graphs their values are in ``device_inputs``
        device = processes.device
        self.device_inputs = DeviceInputs(options, order, state.ema, device, self.read_every) if captures else None

    @property
    def number(self) -> int:
        """Updates made."""
        return self.state.number

    @property
    def finished(self) -> bool:
        """Whether training is over."""
        return self.state.finished

    # -- one update --------------------------------------------------------------------------------------------------

    def next_batch(self) -> Batch:
        """Return this process's part of the next update's batch."""
        rows = self.order.rows(self.number + 1)
        places, share = self.processes.shard(len(rows))
        device, mine = self.processes.device, rows[places]
        number = torch.tensor([self.number + 1]).to(device)
        return self.data.batch(mine.to(device), places.to(device), share, number, self.data.end(mine))

    def next_device_batch(self, size: int, end: int | None) -> Batch:
        """Return the batch of the next update from what is on the device."""
        assert self.device_inputs is not None
        rows = self.device_inputs.advance(size)
        places = torch.arange(size, device=rows.device)
        return self.data.batch(rows, places, 1.0, self.device_inputs.number, end)

    def random_generator(self) -> Any:
        """Context in which PyTorch's generator draws what this run's update needs."""
        return nullcontext() if self.device_inputs is None else self.device_inputs.random_generator()

    @contextmanager
    def progress(self) -> Iterator[None]:
        """Context of an update, in which the model knows how much of the training is done."""
        made = self.number if self.device_inputs is None else self.device_inputs.number[0]
        self.state.model.set_progress(made / self.options.total_updates)
        try:
            yield
        finally:
            self.state.model.set_progress(1.0)

    def step(self, loss: Tensor, gradient: tuple[Tensor | None, ...]) -> None:
        """Change the weights; where every loss is read at once, not if it or the gradient is not finite."""
        options, state, number = self.options, self.state, self.number + 1
        for parameter, value in zip(state.parameters, gradient, strict=True):
            parameter.grad = value
        given = [value for value in gradient if value is not None]
        loss = loss.to(torch.promote_types(loss.dtype, torch.float32)).clone()
        self.processes.add_up([*given, loss])
        state.scaler.unscale_(state.optimizer)
        norm = nn.utils.get_total_norm(given)
        values = torch.stack([loss, norm.to(loss)])
        inputs = self.device_inputs
        if inputs is None and self.read_every == 1:
            self._check_finite(number, *values.tolist())
        members = state.model.members
        if options.clip_norm is not None and len(members) == 1:
            nn.utils.clip_grads_with_norm_(state.parameters, options.clip_norm, norm)
        elif options.clip_norm is not None:
            for member in members:  # each member of an ensemble is clipped by itself
                nn.utils.clip_grad_norm_(member.parameters(), options.clip_norm)
        for group in state.optimizer.param_groups if state.scheduler is None else ():
            group["lr"] = options.learning_rate_at(number) if inputs is None else inputs.learning_rate
        state.scaler.step(state.optimizer)  # skips the update where half precision overflowed
        state.scaler.update()
        state.step_scheduler()
        values = torch.cat([values, state.temperatures().to(values)])
        if inputs is None:
            if state.ema is not None:
                state.ema.update(number)
            self.unread.append(values)
        else:
            if state.ema is not None:
                state.ema.update_by(inputs.ema_rate())
            inputs.write_results(values)

    def count(self) -> None:
        """Count an update that was made."""
        self.state.number += 1
        self.num_unread += 1
        self.state.finished |= self.number == self.options.total_updates

    # -- between updates ---------------------------------------------------------------------------------------------

    def is_due(self) -> bool:
        """Whether something must be done before the next update; see :meth:`after_updates`."""
        return self.finished or self._validates() or self._saves() or self.num_unread >= self.read_every

    def _validates(self) -> bool:
        options, number = self.options, self.number
        return self.validation is not None and (number % options.validate_every == 0 or number == options.total_updates)

    def _saves(self) -> bool:
        return self.number % self.checkpoint_every == 0

    def after_updates(self, interrupted: Callable[[], bool]) -> None:
        """Read the results of the updates made, validate and save where that is due, and call the callbacks."""
        if not self.num_unread:
            return
        updates = self.read_updates()
        if self._validates():
            updates[-1] = self._validate(updates[-1])
        self.updates += updates
        if self.log_file is not None:
            for update in updates:
                self.log_file(update)
        first = self.processes.first
        stops = [callback(update) for update in updates for callback in self.callbacks] if first else []
        wish = self.processes.largest(2 if any(stops) else int(interrupted()))
        self.state.finished |= wish == 2
        if self.finished or wish or self._saves():
            self.save()
        if wish and not self.finished:
            raise Interrupted(
                f"training was interrupted after update {self.number} of {self.options.total_updates}. "
                f"{self._checkpoint_message()}" + (" The same call resumes from it." if self.checkpoint else "")
            )

    def read_updates(self) -> list[Update]:
        """Return the updates made since the last call."""
        first, updates = self.number - self.num_unread + 1, []
        inputs = self.device_inputs
        rows = torch.stack(self.unread) if inputs is None else inputs.read_results(self.number, self.num_unread)
        for number, (loss, norm, *temperature) in enumerate(rows.tolist(), first):
            if self.read_every > 1:
                self._check_finite(number, loss, norm)
            updates.append(Update(number, self.options.total_updates, loss, tuple(temperature), gradient_norm=norm))
        self.unread.clear()
        self.num_unread = 0
        return updates

    def _validate(self, update: Update) -> Update:
        assert self.validation is not None
        with nullcontext() if self.state.ema is None else self.state.ema.applied():
            metrics = self.processes.broadcast(_by_name(self.validation()) if self.processes.first else None)
            name = next(iter(metrics)) if self.options.metric is None else self.options.metric
            if name not in metrics or (self.options.metric is None and len(metrics) > 1):
                raise ValueError(
                    f"metric must be one of {', '.join(metrics)}, which the validation returns; "
                    f"got {self.options.metric!r}"
                )
            self.state.record_validation(metrics[name])
        return replace(update, validation=metrics[name], metrics=metrics)

    def _check_finite(self, number: int, loss: float, norm: float) -> None:
        """Raise if an update has, or would have, made the weights useless."""
        state = self.state
        weights = {name: parameter for parameter, name in self.names.items()}
        if not math.isfinite(loss):
            bad = _not_finite(weights)
            raise self._diverged(number, f"the loss became {loss}", f"weights that are not finite: {bad or 'none'}")
        if not math.isfinite(norm) and (not state.scaler.is_enabled() or state.scaler.get_scale() < 1):
            bad = _not_finite({self.names[p]: p.grad for p in state.parameters if p.grad is not None})
            bad = bad or _not_finite(weights)
            # A norm may overflow where no element of the gradient does. Scaled by 1 / inf the gradient vanishes;
            # without a limit it would spoil the optimizer's moments.
            if bad or math.isnan(norm) or self.options.clip_norm is None:
                raise self._diverged(
                    number, f"the gradient became {norm}", f"gradients that are not finite: {bad or 'none alone'}"
                )

    def _diverged(self, number: int, what: str, culprit: str) -> DivergedError:
        options, since = self.options, self.number - number + 1
        made = f"{since} updates have been made with it" if since else "That update was not made"
        return DivergedError(
            f"{what} at update {number} of {options.total_updates}; {culprit}. {made}. "
            f"Lower learning_rate (now {options.learning_rate}) or clip_norm (now {options.clip_norm}). "
            f"{self._checkpoint_message()}"
        )

    # -- checkpoints -------------------------------------------------------------------------------------------------

    def describe(self, inputs: Tensor, targets: Tensor, lengths: Tensor | None) -> None:
        """Record what a resumed run must have in common with the interrupted one."""
        measure = self.validation
        validated = None
        if isinstance(measure, Measure):
            validated = _describe_data(measure.inputs, measure.targets, measure.lengths)
        model, optimizer = self.state.model, self.state.optimizer
        named = ("lr", "weight_decay", "capturable", "fused")  # the first two are among the options
        options = [f"{name} {value}" for name, value in optimizer.defaults.items() if name not in named]
        self.description = self.options.describe(self.validation is not None) | {
            "optimizer": f"{type(optimizer).__name__} with {', '.join(options)}",
            "data": _describe_data(inputs, targets, lengths),
            "validation data": validated,
            **_describe_model(model),
        }

    def save(self) -> None:
        """Write a checkpoint."""
        if self.folder is None:
            return
        self.checkpoint = checkpoint_path(self.folder, self.number)
        if self.processes.first:
            write_checkpoint(self.checkpoint, {"settings": self.description} | self.state.state_dict())

    def resume(self) -> None:
        """Resume from the newest checkpoint, if there is one, with the log up to it."""
        assert self.folder is not None
        state = newest_checkpoint(self.folder)
        if state is not None:
            with reading(f"the newest checkpoint in {self.folder}", CheckpointError, "Use another folder."):
                self._check_settings(state["settings"])
                self.state.load_state_dict(state)
            if self.device_inputs is not None:
                self.device_inputs.number.fill_(self.number)
            self.checkpoint = checkpoint_path(self.folder, self.number)
            self.updates = read_log(self.folder / "log.jsonl", self.number)
            _log.info("training resumes from %s", self.checkpoint)
        if self.processes.broadcast(self.number) != self.number:
            raise RuntimeError(f"folder {self.folder} must be shared by all processes, with the same checkpoints")
        if self.processes.first and not self.finished:  # the folder of a finished run may be read-only
            clear_leftovers(self.folder, self.number)

    def _check_settings(self, before: Mapping[str, Any]) -> None:
        """Raise where the checkpoint belongs to a run with other settings."""
        assert self.folder is not None
        now = self.description
        if not any(name.startswith("model") for name in before):  # version 1 recorded its repr
            now = {name: value for name, value in now.items() if not name.startswith("model")}
        if "validation data" not in before:  # not recorded before
            now = {name: value for name, value in now.items() if name != "validation data"}
        check_same_settings(self.folder, "run", before, now)

    def _checkpoint_message(self) -> str:
        if self.checkpoint is None:
            return "There is no checkpoint" + (" yet." if self.folder else ": pass folder= to have one.")
        return f"The last checkpoint is {self.checkpoint}."


def _describe_data(inputs: Tensor, targets: Tensor, lengths: Tensor | None) -> str:
    whole = hashlib.sha256()
    for tensor in (inputs, targets, lengths):
        if tensor is not None:
            whole.update(_digest(tensor))
    return f"{len(inputs)} sequences with SHA-256 {whole.hexdigest()[:16]}"


_digests = WeakTensorKeyDictionary()  # several runs may share their data


def _digest(tensor: Tensor) -> bytes:
    """Return the SHA-256 of a tensor, which must not be changed afterwards."""
    known: bytes | None = _digests.get(tensor)
    if known is None:
        whole = hashlib.sha256(f"{tensor.dtype} {tuple(tensor.shape)}".encode())
        whole.update(tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().data)
        known = _digests[tensor] = whole.digest()
    return known


def _describe_model(model: Predictor) -> dict[str, Any]:
    """Describe a model by single values, so that a run is resumed with the same model and differences are named."""
    try:
        config = model.members[0].config()
    except TypeError:  # a layer of one's own
        return {"model": repr(model)}
    flat: dict[str, Any] = {"model.members": len(model.members)}

    def flatten(name: str, value: Any) -> None:
        if isinstance(value, dict):
            for key, part in value.items():
                flatten(f"{name}.{key}", part)
        else:
            flat[name] = value

    flatten("model", {name: value for name, value in config.items() if name != "data"})
    return flat


def _not_finite(tensors: Mapping[str, Tensor]) -> str:
    return ", ".join(name for name, tensor in tensors.items() if not bool(tensor.isfinite().all()))


def _by_name(value: float | Mapping[str, float]) -> dict[str, float]:
    if isinstance(value, Mapping):
        return {name: float(number) for name, number in value.items()}
    return {"validation": float(value)}

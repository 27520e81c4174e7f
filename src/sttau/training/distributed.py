"""Several processes that train one model: each computes a part of every batch, and the parts are summed."""

from __future__ import annotations

import atexit
import json
import os
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch import distributed as dist

_ENVIRONMENT = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")  # set by torchrun for each process


class ProcessLostError(RuntimeError):
    """Another process of a training cannot be reached, most likely because it has ended; the message says what to do.

    Example:
        >>> issubclass(ProcessLostError, RuntimeError)
        True
    """


def local_device() -> torch.device:
    """Return the device a process under ``torchrun`` should use: its own GPU, or the CPU where there is none.

    Example:
        >>> local_device().type in ("cpu", "cuda")
        True
    """
    if torch.cuda.is_available():
        return torch.device("cuda", int(os.environ.get("LOCAL_RANK", 0)))
    return torch.device("cpu")


@dataclass(frozen=True)
class Processes:
    """The processes that share the work, and the rank of this one; a single process is a group of one."""

    device: torch.device
    rank: int = 0
    count: int = 1

    @property
    def first(self) -> bool:
        """Whether this is the process that validates, writes and reports."""
        return self.rank == 0

    def shard(self, size: int) -> tuple[Tensor, float]:
        """Return the places of the joint batch that this process computes, and their share of it.

        A process for which nothing is left computes the first place with share 0.

        Example:
            >>> Processes(torch.device("cpu"), rank=1, count=2).shard(5)
            (tensor([3, 4]), 0.4)
        """
        places = torch.arange(size).tensor_split(self.count)[self.rank]
        if len(places) == 0:
            return torch.zeros(1, dtype=torch.int64), 0.0
        return places, len(places) / size

    def add_up(self, tensors: list[Tensor]) -> None:
        """Replace each tensor by its sum over all processes."""
        if self.count == 1:
            return
        flat = torch.cat([tensor.reshape(-1) for tensor in tensors])
        with self._communicating():
            dist.all_reduce(flat)
        for tensor, part in zip(tensors, flat.split([tensor.numel() for tensor in tensors]), strict=True):
            tensor.copy_(part.view_as(tensor))

    def largest(self, number: int) -> int:
        """Return the largest of the numbers that the processes passed."""
        if self.count == 1:
            return number
        largest = torch.tensor(number, device=self.device)
        with self._communicating():
            dist.all_reduce(largest, dist.ReduceOp.MAX)
            return int(largest)

    def broadcast(self, value: Any) -> Any:
        """Return the value that the first process passed; it is sent as JSON."""
        if self.count == 1:
            return value
        text = torch.frombuffer(bytearray(json.dumps(value).encode()), dtype=torch.uint8).to(self.device)
        size = torch.tensor(len(text), device=self.device)
        with self._communicating():
            dist.broadcast(size, 0)
            if not self.first:
                text = torch.empty(int(size), dtype=torch.uint8, device=self.device)
            dist.broadcast(text, 0)
        return json.loads(bytes(text.cpu().tolist()))

    def copy_first(self, tensors: Iterable[Tensor]) -> None:
        """Overwrite each tensor by that of the first process."""
        if self.count > 1:
            for tensor in tensors:
                with self._communicating():
                    dist.broadcast(tensor, 0)

    @contextmanager
    def _communicating(self) -> Iterator[None]:
        """Turn an error of the backend, which names neither the training nor a remedy, into one that does."""
        try:
            yield
        except RuntimeError as error:
            raise ProcessLostError(
                f"rank {self.rank} of {self.count} lost its connection to another process of this training, which has "
                f"most likely ended: {str(error).splitlines()[0][:200]}. See the output of that process, and start all "
                "of them again; with folder= the run resumes from its last checkpoint."
            ) from error


def join(device: torch.device) -> Processes:
    """Join the process group, where this process was started by ``torchrun`` or is in a group already.

    The group is kept until the process ends, since a second one cannot be created.

    Example:
        >>> join(torch.device("cpu")).count
        1
    """
    if not dist.is_available():
        return Processes(device)
    if not dist.is_initialized():
        if any(name not in os.environ for name in _ENVIRONMENT) or os.environ["WORLD_SIZE"] == "1":
            return Processes(device)
        dist.init_process_group("nccl" if device.type == "cuda" else "gloo")
        atexit.register(_leave)
    return Processes(device, dist.get_rank(), dist.get_world_size())


def _leave() -> None:
    """Destroy the group before the interpreter shuts down, and let gloo's threads release their last tensors.

    A thread that does so during shutdown aborts the process (pytorch/pytorch#179291).
    """
    if dist.is_initialized():
        dist.destroy_process_group()
        time.sleep(0.1)

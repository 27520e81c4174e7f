"""A batch in chunks of similar length that fit into memory, and a view of a model in eval mode."""

from __future__ import annotations

from collections.abc import Iterator
from types import MethodType
from typing import Any, NamedTuple, TypeVar, cast

import torch
from torch import Tensor, nn

from sttau.engine import Noise
from sttau.layers import SAMPLED_MODES, LayerMode

Module = TypeVar("Module", bound=nn.Module)

_CHUNK_FLOATS = 1 << 25  # about how many floats a chunk may hold, at least


class Chunk(NamedTuple):
    """Some sequences of a batch."""

    rows: Tensor  # (chunk,) row numbers, on the CPU
    inputs: Tensor  # of these rows, on the device
    lengths: Tensor | None
    size: int  # rows · samples that may be run at once


def chunks(
    inputs: Tensor,
    lengths: Tensor | None,
    device: torch.device,
    floats_per_step: int,
    samples: int,
    chunk_size: int | None = None,
    keep_padding: bool = False,
) -> Iterator[Chunk]:
    """Yield the batch in chunks: sequences of similar length together, and few enough to fit into memory.

    Args:
        inputs: Inputs of all sequences.
        lengths: Lengths of all sequences.
        device: Device of the chunks.
        floats_per_step: Floats that one step of one sample takes.
        samples: Samples of each sequence.
        chunk_size: Rows (sequences · samples) that are run at once; as many as fit by default.
        keep_padding: Whether to keep the order and the padded length of the batch.
    """
    batch, time = inputs.shape[:2]
    small = batch * samples * time * floats_per_step <= _CHUNK_FLOATS  # then a GPU need not be queried
    room = (_CHUNK_FLOATS if small else _free_floats(device)) // floats_per_step
    order = torch.arange(batch)
    if lengths is not None and not keep_padding:
        order = lengths.cpu().argsort(descending=True, stable=True)
    done = 0
    while done < batch:
        end = time if lengths is None or keep_padding else max(1, int(lengths[order[done]]))
        size = chunk_size or max(1, room // end)
        rows = order[done : done + max(1, size // samples)]
        done += len(rows)
        length = None if lengths is None else lengths[rows.to(lengths.device)].to(device)
        yield Chunk(rows, inputs[rows.to(inputs.device), :end].to(device), length, size)


def _free_floats(device: torch.device) -> int:
    """About how many floats a chunk may hold: on a GPU, a part of the memory that is free or cached."""
    if device.type != "cuda":
        return _CHUNK_FLOATS
    cached = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    return max(_CHUNK_FLOATS, min(64 * _CHUNK_FLOATS, (torch.cuda.mem_get_info(device)[0] + cached) // 64))


def noises(ids: Tensor, samples: int, seed: int, at_once: int, mode: LayerMode) -> Iterator[Noise | None]:
    """Yield the noise of all samples of a chunk, ``at_once`` samples at a time; None for a mode that draws nothing."""
    if mode not in SAMPLED_MODES:
        yield None
        return
    for first in range(0, samples, at_once):
        yield Noise.of(ids, min(at_once, samples - first), seed, first)


def in_eval_mode(model: Module) -> Module:
    """Return a view of a model that is in eval mode and shares its weights; the model itself is left as it is.

    Another thread may train the model or predict with it meanwhile: no flag is changed that it reads.

    Example:
        >>> model = nn.Sequential(nn.Linear(2, 2), nn.Dropout(0.5))
        >>> view = in_eval_mode(model)
        >>> view.training, view[1].training, model.training, view[0].weight is model[0].weight
        (False, False, True, True)
    """
    if not any(module.training for module in model.modules()):
        return model
    views: dict[nn.Module, nn.Module] = {}
    view = _view(model, views)
    for module in views.values():
        for name, value in vars(module).items():
            owner = getattr(value, "__self__", None) if isinstance(value, MethodType) else None
            if isinstance(owner, nn.Module) and owner in views:  # a method kept as an attribute: that of the view
                vars(module)[name] = MethodType(value.__func__, views[owner])
    return cast(Module, view)


def _view(module: nn.Module, views: dict[nn.Module, nn.Module]) -> nn.Module:
    """Return a copy of a module, and of those it contains, with the same tensors."""
    compiled = module._modules.get("_orig_mod")  # what torch.compile returns calls the module it was made from
    if compiled is not None:
        return _view(compiled, views)
    if module not in views:
        view = views[module] = module.__new__(type(module))
        children: dict[str, Any] = {
            name: None if child is None else _view(child, views) for name, child in module._modules.items()
        }
        vars(view).update(vars(module), _modules=children, training=False, _compiled_call_impl=None)
    return views[module]

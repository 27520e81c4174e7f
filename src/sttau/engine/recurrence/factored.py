"""The recurrence on a fast engine: its arguments as a ``Problem``, and the last hidden state and the readout from α."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from sttau.engine.noise import Noise
from sttau.engine.recurrence.autograd import call, zeros
from sttau.engine.recurrence.problem import Problem, as_rows
from sttau.engine.recurrence.reference import Cell, Mode, Readout, Run, Steps, Weights, count_rows
from sttau.padding import clear_padding


def run(
    engine: str,
    cell: Cell,
    inputs: Tensor,
    weights: Weights,
    hidden: Tensor | None,
    memory: Tensor | None,
    *,
    noise: Noise | None,
    mode: Mode,
    readout: Readout,
    lengths: Tensor | None,
    reverse: bool,
    steps: Steps,
    embedding: Tensor | None,
    final: bool,
) -> Run:
    """The recurrence of :func:`sttau.engine.recurrence.reference.run` on a fast engine, with the same arguments.

    Unless ``final``, the last hidden state is not computed, and is an empty tensor.
    """
    if mode != "deterministic" and noise is None:
        raise ValueError(f"mode={mode!r} needs noise; pass noise=Noise.of(...)")
    vectors = inputs if embedding is None else embedding
    dtype = vectors.dtype
    work = torch.promote_types(dtype, torch.float32)  # bfloat16 is for storage; the state is float32
    rows = count_rows(inputs.shape[0], hidden, memory, noise)
    if lengths is not None:
        lengths = lengths.to(inputs.device)
        inputs = clear_padding(inputs, lengths)  # values there, NaN included, must not reach a product
    x, index = inputs.transpose(0, 1), None
    if embedding is not None:
        x, index = _tokens(x, embedding, engine)

    if dtype != work and engine == "cpu":
        x, weights = x.to(work), weights._replace(input=weights.input.to(work))
    if dtype != work:
        weights = Weights(weights.input, *(None if given is None else given.to(work) for given in weights[1:]))  # type: ignore[arg-type]
        hidden = None if hidden is None else hidden.to(work)
        memory = None if memory is None else memory.to(work)
    states = weights.states.contiguous()
    first = hidden if cell == "gru" else memory
    draws = None if mode == "deterministic" else noise
    alpha, output, last = call(
        weights.recurrent,
        weights.recurrent_bias,
        hidden,
        Problem(
            x=x.contiguous(),
            index=index if index is None else index.contiguous(),
            input=weights.input.contiguous(),
            input_bias=weights.input_bias if weights.input_bias is None else weights.input_bias.to(x.dtype),
            recurrent=states,  # U, set by ``call``
            states=states,
            temperature=weights.temperature,
            peephole=weights.peephole if weights.peephole is None else weights.peephole.contiguous(),
            start=states,
            first=zeros(1, states.shape[1], states) if first is None else first.contiguous(),
            lengths=lengths,
            seed=None if draws is None else draws.seed,
            sequence=None if draws is None else draws.sequence,
            sample=None if draws is None else draws.sample,
            rows=rows,
            first_step=0 if draws is None else draws.first_step,
            layer=0 if draws is None else draws.layer,
            cell=cell,
            mode=mode,
            reverse=reverse,
            read="none" if readout == "state" else steps,
        ),
        engine,
    )

    def hidden_at_end() -> Tensor:
        if reverse:
            ended = alpha[0]
        elif lengths is None:
            ended = alpha[-1]
        else:
            place = (as_rows(lengths, rows) - 1)[None, :, None].expand(1, -1, alpha.shape[2])
            ended = alpha.gather(0, place)[0]
        return (ended @ states).to(dtype)

    if readout == "state":
        output = (alpha @ states).transpose(0, 1).to(dtype) if steps == "all" else hidden_at_end()[:, None]
    else:
        output = output.transpose(0, 1).to(dtype)
    return Run(
        output=output,
        hidden=hidden_at_end() if final else zeros(0, states.shape[1], states),
        memory=last.to(dtype) if cell == "lstm" else None,
        transitions=alpha.transpose(0, 1).to(dtype),
    )


def _tokens(index: Tensor, embedding: Tensor, engine: str) -> tuple[Tensor, Tensor | None]:
    """The vectors to project, and which of them each step reads, from (T, B) ids and the (V, F) table.

    Every vector is projected once, however often its token occurs. On a CPU only those that occur are; on a GPU, where
    finding them would synchronize with the host, all of them (no gradients, and more tokens than vectors) or none.
    """
    if engine == "cpu":
        flat = index.reshape(-1)
        if not torch.compiler.is_compiling():
            low, high = (int(end) for end in flat.aminmax())
            if low < 0 or high >= len(embedding):
                raise IndexError(f"token ids must be in 0 … {len(embedding) - 1}, got {low} … {high}")
        occurs = torch.zeros(len(embedding), dtype=torch.bool)
        occurs[flat] = True
        place = occurs.cumsum(0) - 1
        return embedding[occurs.nonzero()[:, 0]], place.index_select(0, flat).view(index.shape)  # no negative ids
    if index.numel() > len(embedding) and not torch.is_grad_enabled():
        return embedding, index
    return F.embedding(index, embedding), None

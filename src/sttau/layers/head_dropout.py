"""Monte Carlo dropout of the head alone: an LSTM whose output is masked, in training and in prediction."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from sttau.engine import Noise, stacked
from sttau.layers.base import register_layer, samples_per_sequence
from sttau.layers.call import Call, Output
from sttau.layers.variational_dropout import VariationalDropoutLSTM


@register_layer
class HeadDropoutLSTM(VariationalDropoutLSTM):
    """An LSTM that drops units of its output, the same ones at all steps of a sequence; its recurrence is ``nn.LSTM``.

    It is Monte Carlo dropout (Gal & Ghahramani, 2016) of what the head reads. The recurrence is run once, however many
    samples are drawn, so a prediction costs hardly more than that of ``nn.LSTM``; its uncertainty is that of the head
    alone. Arguments, shapes and results are those of ``nn.LSTM``; ``dropout`` is the rate of the output.

    Example:
        >>> layer = HeadDropoutLSTM(8, 32, batch_first=True, dropout=0.5)
        >>> output, (h_n, c_n) = layer(torch.randn(4, 10, 8))
        >>> bool((output == 0).any()), bool((h_n == 0).any())
        (True, False)
    """

    def output_mask(self, noise: Noise) -> Tensor:
        """Return (rows, directions · hidden_size): 0, or 1 / (1 - rate)."""
        drawn = noise.for_layer(0).uniform(0, 1, self.output_size)[:, 0]
        return (drawn >= self.dropout).to(drawn) / (1 - self.dropout)

    @property
    def is_stackable(self) -> bool:
        """Whether several such layers can be run as one: never."""
        return False

    def cell_masks(self, noise: Noise) -> tuple[Tensor, Tensor]:
        """Return ones: neither input nor hidden state is masked."""
        return torch.ones(()), torch.ones(())

    def stacked_parts(self, x: Tensor, noise: Noise | None) -> list[stacked.Part]:
        """Raise: the layer cannot be stacked."""
        raise NotImplementedError(f"{self.kind} cannot be stacked")

    def _run_samples(self, x: Tensor, call: Call) -> Output:
        batch = x.shape[0]
        plain = self._fused(x, call, call.lengths, dict(self.named_parameters()))
        if call.mode == "deterministic":
            return plain
        noise = Noise.fresh(batch, x.device) if call.noise is None else call.noise
        samples = samples_per_sequence(noise, batch)
        # A sequence that is read in chunks keeps its mask.
        mask = self.output_mask(replace(noise, first_step=0)).to(plain.output)
        hidden, memory = (None if v is None else v.repeat(1, samples, 1) for v in (plain.hidden, plain.memory))
        return Output(plain.output.repeat(samples, 1, 1) * mask[:, None], hidden, memory)

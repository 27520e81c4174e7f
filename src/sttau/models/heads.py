"""Heads that read the distribution over states instead of the hidden state."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class FixedLabels(nn.Linear):
    """A head for states with fixed labels (the paper's Algorithm 2): log Σ_{j with label y} α_j.

    Of k states the first k/classes have label 0, the next label 1, and so on: with two classes the first half rejects
    and the second accepts. Its weights, (classes, k), are these labels; they are not trained.
    """

    def __init__(self, num_states: int, num_classes: int) -> None:
        super().__init__(num_states, num_classes, bias=False)
        if num_states % num_classes:
            raise ValueError(
                f"head='halves' divides the states evenly among the classes, but {num_states} states are not a "
                f"multiple of {num_classes}; choose another num_states"
            )
        labels = torch.arange(num_states) * num_classes // num_states
        self.weight = nn.Parameter(F.one_hot(labels, num_classes).T.float(), requires_grad=False)

    def forward(self, transitions: Tensor) -> Tensor:
        """Return log class probabilities from state probabilities."""
        probabilities = F.linear(transitions, self.weight)
        return probabilities.clamp_min(torch.finfo(probabilities.dtype).tiny).log()

    def state_logits(self) -> Tensor:
        """log q(y | s_j) for each state: (k, classes)."""
        return self.weight.T.to(torch.promote_types(self.weight.dtype, torch.float32)).log()

"""Second derivatives are those of the reference, or an error: never zero without a word."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

import sttau
from sttau.engine import Noise, using


def _loss(kind: str) -> Callable[[Tensor], Tensor]:
    torch.manual_seed(0)
    options = {"batch_first": True, "dtype": torch.float64}
    if kind == "exact":
        model = sttau.SequenceClassifier(sttau.STTauGRU(2, 4, 3, mode="exact", **options), 2)  # type: ignore[arg-type]
        return lambda x: model(x).square().sum()
    if kind == "dropout":
        layer = sttau.layers.VariationalDropoutLSTM(2, 4, dropout=0.3, **options)  # type: ignore[arg-type]
    else:
        layer = getattr(sttau, kind)(2, 4, 3, **options)
    return lambda x: layer(x, noise=Noise.of(torch.arange(1)))[0].square().sum()


@pytest.mark.parametrize("kind", ["STTauGRU", "STTauLSTM", "exact", "dropout"])
def test_a_hessian_is_refused_on_the_kernels_and_right_on_the_reference(kind: str) -> None:
    loss, x = _loss(kind), torch.randn(1, 3, 2, dtype=torch.float64)
    with pytest.raises(RuntimeError, match=r"second derivatives .*using\('reference'\)"):
        torch.autograd.functional.hessian(loss, x)
    with using("reference"):
        hessian = torch.autograd.functional.hessian(loss, x).view(6, 6)
        assert torch.autograd.gradgradcheck(loss, x.requires_grad_())
    assert float(hessian.abs().max()) > 1e-4
    torch.testing.assert_close(torch.func.jacrev(torch.func.jacrev(loss))(x.detach()).view(6, 6), hessian)


@pytest.mark.parametrize("kind", ["STTauGRU", "STTauLSTM", "exact", "dropout"])
def test_first_derivatives_are_those_of_finite_differences(kind: str) -> None:
    assert torch.autograd.gradcheck(_loss(kind), torch.randn(1, 3, 2, dtype=torch.float64, requires_grad=True))


def test_second_derivatives_of_a_compiled_layer_are_refused() -> None:
    x = torch.randn(1, 3, 2, dtype=torch.float64, requires_grad=True)
    loss = torch.compile(_loss("STTauGRU"), backend="eager")(x)
    with pytest.raises(RuntimeError, match="second derivatives"):
        torch.autograd.grad(loss, x, create_graph=True)

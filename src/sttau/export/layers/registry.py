"""The ONNX form of every layer."""

from __future__ import annotations

from typing import Any

from sttau.export.layers.base import LayerForm
from sttau.export.layers.bayes import BayesForm
from sttau.export.layers.dropout import DropoutForm, HeadDropoutForm
from sttau.export.layers.finite_state import FiniteStateForm
from sttau.export.layers.minimal import MinGRUForm, MinLSTMForm
from sttau.export.layers.sampling_free import SamplingFreeForm
from sttau.export.layers.torch_rnn import TorchForm
from sttau.layers import (
    BayesLSTM,
    FiniteStateRNN,
    HeadDropoutLSTM,
    MinGRU,
    MinLSTM,
    RecurrentLayer,
    SamplingFreeGRU,
    TorchRNN,
    VariationalDropoutLSTM,
)

#: The form of each class of layers and of its subclasses.
FORMS: dict[type[RecurrentLayer], type[LayerForm[Any, Any]]] = {
    TorchRNN: TorchForm,
    FiniteStateRNN: FiniteStateForm,
    BayesLSTM: BayesForm,
    VariationalDropoutLSTM: DropoutForm,
    HeadDropoutLSTM: HeadDropoutForm,
    MinGRU: MinGRUForm,
    MinLSTM: MinLSTMForm,
    SamplingFreeGRU: SamplingFreeForm,
}


def find_form(layer: RecurrentLayer) -> type[LayerForm[Any, Any]]:
    """Return the form of a layer; an error where it cannot be exported.

    Example:
        >>> from sttau import STTauGRU
        >>> find_form(STTauGRU(2, 8, num_states=4)).__name__
        'FiniteStateForm'
    """
    for kind in type(layer).__mro__:
        if kind in FORMS:
            return FORMS[kind]
    raise ValueError(f"a model on {layer.kind} cannot be exported to ONNX: the layer has no ONNX form yet")

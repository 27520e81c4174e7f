"""The ONNX form of every layer. A new one is one new file with its ``FORMS``, and its name here."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from sttau.export.layers.base import LayerForm
from sttau.layers import RecurrentLayer

#: The files with ``FORMS``.
_FILES = ("torch_rnn", "finite_state", "bayes", "dropout", "minimal", "sampling_free")

#: The form of each class of layers and of its subclasses.
FORMS: dict[type[RecurrentLayer], type[LayerForm[Any, Any]]] = {
    layer: form for file in _FILES for layer, form in import_module(f"sttau.export.layers.{file}").FORMS.items()
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

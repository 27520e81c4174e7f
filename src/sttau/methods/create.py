"""A model for some data, with defaults that learn."""

from __future__ import annotations

from typing import Any

from sttau.data import SequenceDataset
from sttau.methods.build import build, resolve
from sttau.methods.defaults import HIDDEN_SIZE
from sttau.methods.record import DataSpec
from sttau.models import Predictor


def create_model(
    data: SequenceDataset, method: str = "st-tau", *, hidden_size: int = HIDDEN_SIZE, seed: int = 0, **settings: Any
) -> Predictor:
    """Create a model for training data: its task, sizes, scaling, patches and names follow from the data.

    Args:
        data: Training data.
        method: Name of a method: ``st-tau``, ``lstm``, ``gru``, ``min-gru``, ``ensemble``, ``laplace``, ``swag``,
            ``bayes``, ``sp-gru``, ``dropout``, ``head-dropout``, ``state-regularized`` or ``mixture``.
        hidden_size: Size of the hidden state.
        seed: Seed of the initial weights.
        **settings: Settings that differ from the defaults; see :func:`sttau.methods.build`.

    Returns:
        A classifier or regressor, or an ensemble, not trained; train it with :func:`sttau.fit`.

    Example:
        >>> from sttau.data import load
        >>> create_model(load("digits", "train"), num_states=4).layer
        STTauLSTM(8, 64, num_states=4, readout='cell')
    """
    spec = DataSpec.of(data)
    return build(method, spec, resolve(method, spec, settings, hidden_size), data, seed)

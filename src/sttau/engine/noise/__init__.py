"""Random draws as a pure function of seed, layer, sequence, sample and step."""

from sttau.engine.noise.identity import fingerprint
from sttau.engine.noise.operator import Noise

__all__ = ["Noise", "fingerprint"]

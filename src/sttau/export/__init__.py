"""Models for other programs: ONNX files, and compiled automata as JSON, NumPy, C and JavaScript files."""

from sttau.export.c import to_c
from sttau.export.javascript import to_javascript
from sttau.export.onnx import to_onnx
from sttau.export.tables import to_json, to_numpy

__all__ = ["to_c", "to_javascript", "to_json", "to_numpy", "to_onnx"]

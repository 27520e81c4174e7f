"""ONNX graphs, written operation by operation."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

OPSET = 18  # the first with bitwise operators
_IR_VERSION = 9


def require_onnx() -> Any:
    """Return the package ``onnx``, or an error that says how to install it."""
    try:
        import onnx
    except ImportError as error:
        raise ImportError("export to ONNX needs onnx: pip install 'sttau[export]'") from error
    return onnx


class Value:
    """A tensor of a graph. Its operators append operations to the graph."""

    def __init__(self, graph: Graph, name: str, kind: str) -> None:
        self.graph, self.name, self.kind = graph, name, kind

    def __add__(self, other: Any) -> Value:
        return self.graph.op("Add", self, other)

    def __sub__(self, other: Any) -> Value:
        return self.graph.op("Sub", self, other)

    def __mul__(self, other: Any) -> Value:
        return self.graph.op("Mul", self, other)

    def __truediv__(self, other: Any) -> Value:
        return self.graph.op("Div", self, other)

    def __matmul__(self, other: Value) -> Value:
        return self.graph.op("MatMul", self, other)

    def __lt__(self, other: Any) -> Value:
        return self.graph.op("Less", self, other, kind="bool")

    def __gt__(self, other: Any) -> Value:
        return self.graph.op("Greater", self, other, kind="bool")


class Graph:
    """A graph under construction. Kinds of tensors are named as in NumPy: ``float32``, ``int64``, ``bool``.

    Example:
        >>> import pytest
        >>> onnx = pytest.importorskip("onnx")
        >>> graph = Graph()
        >>> x = graph.input("x", "float32", ["batch", 2])
        >>> graph.output("y", graph.op("Tanh", x * 2.0), ["batch", 2])
        >>> [node.op_type for node in graph.model().graph.node]
        ['Mul', 'Tanh', 'Identity']
    """

    def __init__(self) -> None:
        self._onnx = require_onnx()
        self._levels: list[list[Any]] = [[]]  # nodes of the graph, and of the bodies that are being written
        self._inputs: list[Any] = []
        self._outputs: list[Any] = []
        self._initializers: list[Any] = []
        self._constants: dict[tuple[str, tuple[int, ...], bytes], Value] = {}
        self._count = 0

    # -- values ------------------------------------------------------------------------------------------------------

    def input(self, name: str, kind: str, shape: Sequence[Any], default: int | None = None) -> Value:
        """Add an input; one with a default may be left out."""
        self._inputs.append(self._info(name, kind, shape))
        if default is not None:
            array = np.full(tuple(shape), default, dtype=kind)
            self._initializers.append(self._onnx.numpy_helper.from_array(array, name))
        return Value(self, name, kind)

    def output(self, name: str, value: Value, shape: Sequence[Any]) -> None:
        """Name a value as an output."""
        self._levels[0].append(self._onnx.helper.make_node("Identity", [value.name], [name]))
        self._outputs.append(self._info(name, value.kind, shape))

    def constant(self, value: Any, kind: str | None = None) -> Value:
        """Return a constant from a tensor, an array or a number; equal ones are stored once."""
        array: NDArray[Any] = np.asarray(value.detach().cpu().numpy() if isinstance(value, Tensor) else value)
        if kind is None:
            kind = "float32" if array.dtype.kind == "f" else "int64"
        array = np.ascontiguousarray(array, dtype=kind).reshape(array.shape)
        key = (kind, array.shape, array.tobytes())
        if key not in self._constants:
            name = self._name("constant")
            self._initializers.append(self._onnx.numpy_helper.from_array(array, name))
            self._constants[key] = Value(self, name, kind)
        return self._constants[key]

    # -- operations --------------------------------------------------------------------------------------------------

    def op(self, operator: str, *operands: Any, kind: str | None = None, **attributes: Any) -> Value:
        """Append an operation with one result, of the kind of its first operand by default."""
        return self.ops(operator, 1, *operands, kind=kind, **attributes)[0]

    def ops(
        self, operator: str, results: int, *operands: Any, kind: str | None = None, **attributes: Any
    ) -> list[Value]:
        """Append an operation with several results."""
        first = next((one.kind for one in operands if isinstance(one, Value) and one.kind != "bool"), None)
        inputs = [one if isinstance(one, Value) else self.constant(one, first) for one in operands]
        names = [self._name(operator) for _ in range(results)]
        node = self._onnx.helper.make_node(operator, [one.name for one in inputs], names, **attributes)
        self._levels[-1].append(node)
        return [Value(self, name, kind or first or inputs[-1].kind) for name in names]

    def cast(self, value: Value, kind: str) -> Value:
        """Convert to another kind."""
        return self.op("Cast", value, kind=kind, to=self._type(kind))

    def where(self, condition: Value, yes: Any, no: Any) -> Value:
        """Choose elementwise."""
        return self.op("Where", condition, yes, no)

    def unsqueeze(self, value: Value, *axes: int) -> Value:
        """Insert axes of size 1."""
        return self.op("Unsqueeze", value, self.constant(list(axes), "int64"))

    def squeeze(self, value: Value, *axes: int) -> Value:
        """Remove axes of size 1."""
        return self.op("Squeeze", value, self.constant(list(axes), "int64"))

    def reshape(self, value: Value, *sizes: int | Value) -> Value:
        """Reshape; 0 keeps a size, -1 infers it, and a value computes it."""
        return self.op("Reshape", value, self.sizes(*sizes))

    def expand(self, value: Value, *sizes: int | Value) -> Value:
        """Repeat along axes of size 1."""
        return self.op("Expand", value, self.sizes(*sizes))

    def sizes(self, *sizes: int | Value) -> Value:
        """Return sizes as one vector."""
        if all(isinstance(size, int) for size in sizes):
            return self.constant(list(sizes), "int64")
        parts = [self.reshape(size, 1) if isinstance(size, Value) else self.constant([size], "int64") for size in sizes]
        return self.op("Concat", *parts, axis=0)

    def size(self, value: Value, axis: int) -> Value:
        """Return the size of an axis, a scalar."""
        return self.squeeze(self.op("Shape", value, kind="int64", start=axis, end=axis + 1), 0)

    def range(self, end: Value) -> Value:
        """Return 0 … end - 1."""
        return self.op("Range", self.constant(0, "int64"), end, self.constant(1, "int64"))

    def slice(self, value: Value, start: int, end: int, axis: int) -> Value:
        """Return a part of an axis."""
        return self.op("Slice", value, *(self.constant([number], "int64") for number in (start, end, axis)))

    def split(self, value: Value, parts: int) -> list[Value]:
        """Divide the last axis into equal parts."""
        return self.ops("Split", parts, value, axis=-1, num_outputs=parts)

    def mean(self, value: Value, axis: int) -> Value:
        """Average over an axis."""
        return self.op("ReduceMean", value, self.constant([axis], "int64"), keepdims=0)

    def sum(self, value: Value, axis: int, keep: bool = False) -> Value:
        """Sum over an axis."""
        return self.op("ReduceSum", value, self.constant([axis], "int64"), keepdims=int(keep))

    def scan(
        self,
        body: Callable[[list[Value], list[Value]], tuple[list[Value], list[Value]]],
        states: Sequence[Value],
        inputs: Sequence[Value],
        outputs: int = 0,
        reverse: bool = False,
    ) -> tuple[list[Value], list[Value]]:
        """Run a body over the first axis of the inputs.

        Args:
            body: Function of the states and of one slice of each input that returns the next states and outputs.
            states: Initial states.
            inputs: Tensors whose first axis is time.
            outputs: Number of outputs of the body.
            reverse: Whether to begin with the last slice.

        Returns:
            The final states, and the outputs with time as their first axis.
        """
        own = [Value(self, self._name("state"), one.kind) for one in states]
        slices = [Value(self, self._name("slice"), one.kind) for one in inputs]
        self._levels.append([])
        then, made = body(own, slices)
        ends = [*then, *made]
        names = [self._name("end") for _ in ends]  # a result must be computed in the body itself
        nodes = self._levels.pop()
        make = self._onnx.helper
        nodes += [make.make_node("Identity", [one.name], [name]) for one, name in zip(ends, names, strict=True)]
        graph = make.make_graph(
            nodes,
            self._name("body"),
            [self._info(one.name, one.kind) for one in (*own, *slices)],
            [self._info(name, one.kind) for one, name in zip(ends, names, strict=True)],
        )
        results = [Value(self, self._name("scan"), one.kind) for one in ends]
        node = make.make_node(
            "Scan",
            [one.name for one in (*states, *inputs)],
            [one.name for one in results],
            body=graph,
            num_scan_inputs=len(slices),
            scan_input_directions=[int(reverse)] * len(slices),
            **({"scan_output_directions": [int(reverse)] * outputs} if outputs else {}),
        )
        self._levels[-1].append(node)
        return results[: len(own)], results[len(own) :]

    # -- the whole ---------------------------------------------------------------------------------------------------

    def model(self, metadata: Mapping[str, str] | None = None) -> Any:
        """Return the graph as an ONNX model, checked."""
        make = self._onnx.helper
        graph = make.make_graph(self._levels[0], "sttau", self._inputs, self._outputs, self._initializers)
        model = make.make_model(
            graph, opset_imports=[make.make_opsetid("", OPSET)], ir_version=_IR_VERSION, producer_name="sttau"
        )
        make.set_model_props(model, dict(metadata or {}))
        self._onnx.checker.check_model(model)
        return model

    def _name(self, what: str) -> str:
        self._count += 1
        return f"{what.lower()}_{self._count}"

    def _type(self, kind: str) -> int:
        return int(self._onnx.helper.np_dtype_to_tensor_dtype(np.dtype(kind)))

    def _info(self, name: str, kind: str, shape: Sequence[Any] | None = None) -> Any:
        return self._onnx.helper.make_tensor_value_info(name, self._type(kind), shape)

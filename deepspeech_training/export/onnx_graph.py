"""A small layer over the `onnx` package: nodes are named by what they make, like tensors in TensorFlow's graphs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx

from deepspeech_training.errors import ExportError

OPSET = 11
"""The oldest that has everything: ONNX Runtime 1.0 and TensorRT 7 know it already, and all since."""

IR_VERSION = 6
"""That of the time of the opset; older runtimes refuse newer ones."""

LARGEST = 2**31 - 2**20
"""Bytes of weights that a file of this format (a protocol buffer of 2 GB at most) can have, with room for the graph."""

Dimension = int | str
"""A size, or the name of one that each call decides."""


class GraphBuilder:
    """Collects the nodes of a model. Values are known by their names."""

    def __init__(self, name: str) -> None:
        self._graph = onnx.GraphProto(name=name)
        self._names = 0
        self._weights: dict[str, np.ndarray] = {}

    def input(self, name: str, dtype: type[np.generic], shape: Sequence[Dimension]) -> str:
        """Declares an input."""
        self._graph.input.append(_declared(name, dtype, shape))
        return name

    def output(self, name: str, value: str, dtype: type[np.generic], shape: Sequence[Dimension]) -> None:
        """Makes `value` an output called `name`."""
        self._graph.node.append(onnx.helper.make_node('Identity', [value], [name], name=name))
        self._graph.output.append(_declared(name, dtype, shape))

    def constant(self, value: np.ndarray | Sequence[int] | int, name: str = '') -> str:
        """`value` as a tensor; integers become int64."""
        name = name or self._new_name('constant')
        array = np.ascontiguousarray(value) if np.ndim(value) else np.asarray(value)
        self._weights[name] = array
        return name

    def node(self, operation: str, *inputs: str, **attributes: Any) -> str:
        """The first output of `operation`."""
        return self.nodes(operation, *inputs, outputs=1, **attributes)[0]

    def nodes(self, operation: str, *inputs: str, outputs: int, **attributes: Any) -> list[str]:
        """All outputs of `operation`. An input that is left out is ''."""
        name = self._new_name(operation)
        names = [name, *(f'{name}_output_{number}' for number in range(1, outputs))]
        self._graph.node.append(onnx.helper.make_node(operation, inputs, names, name=name, **attributes))
        return names

    def serialize(self, metadata: Mapping[str, str]) -> bytes:
        """The model as a file. Raises `ExportError` if it is too large for one."""
        size = sum(array.nbytes for array in self._weights.values())
        if size > LARGEST:
            raise ExportError(
                f'--export_onnx: the model has weights of {size:,} bytes, an ONNX file at most {LARGEST:,}; '
                'use --export_savedmodel for a model of this size'
            )
        model = onnx.ModelProto(
            ir_version=IR_VERSION,
            producer_name='deepspeech_training',
            opset_import=[onnx.helper.make_opsetid('', OPSET)],
        )
        model.graph.CopyFrom(self._graph)
        model.graph.initializer.extend(onnx.numpy_helper.from_array(array, n) for n, array in self._weights.items())
        onnx.helper.set_model_props(model, dict(metadata))
        return bytes(model.SerializeToString(deterministic=True))

    def _new_name(self, operation: str) -> str:
        self._names += 1
        return f'{operation}_{self._names}'


def _declared(name: str, dtype: type[np.generic], shape: Sequence[Dimension]) -> onnx.ValueInfoProto:
    return onnx.helper.make_tensor_value_info(name, onnx.helper.np_dtype_to_tensor_dtype(np.dtype(dtype)), shape)

"""Changes a TensorFlow Lite file so that the clients that people have run it, from DeepSpeech 0.9.3 on.

What the converter writes is for its own time: constants that are outputs, which old clients do not find, and 8-bit
weights with a scale for each row, which old runtimes do not know.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from tensorflow.lite.python import schema_py_generated as schema
from tensorflow.lite.tools.flatbuffer_utils import convert_bytearray_to_object, convert_object_to_bytearray

HYBRID_VERSION = 3
"""The version of FULLY_CONNECTED from which weights are int8 where everything else is float32."""

ALIGNMENT = 16  # bytes; TensorFlow Lite's schema demands it of every buffer


def for_clients(content: bytes, *, quantize: bool) -> bytes:
    """The TensorFlow Lite file `content` as clients want it.

    `quantize`: stores the weights of the acoustic model, which are all but those that the output `mfccs` depends on, in
    8 bits; runtimes compute with them in 8 bits, too (dynamic range quantization).
    """
    model = Model(convert_bytearray_to_object(bytearray(content)))
    if quantize:
        quantize_weights(model)
    compute_constant_outputs(model)
    return model.serialize()


@dataclass
class Model:
    """A TensorFlow Lite file with one subgraph, as objects of its schema."""

    root: Any

    def __post_init__(self) -> None:
        (self.graph,) = self.root.subgraphs

    def kind(self, operator: Any) -> int:
        """The operator's number in `schema.BuiltinOperator`."""
        code = self.root.operatorCodes[operator.opcodeIndex]
        return int(max(code.builtinCode, code.deprecatedBuiltinCode))  # old files have the latter alone

    def operators(self, kind: int) -> Iterator[Any]:
        return (operator for operator in self.graph.operators if self.kind(operator) == kind)

    def code(self, kind: int) -> int:
        """The index among `operatorCodes` of version 1 of an operator."""
        for index, code in enumerate(self.root.operatorCodes):
            if max(code.builtinCode, code.deprecatedBuiltinCode) == kind:
                return index
        code = schema.OperatorCodeT(builtinCode=kind, deprecatedBuiltinCode=kind, version=1)
        self.root.operatorCodes.append(code)
        return len(self.root.operatorCodes) - 1

    def ancestors(self, output: str) -> set[int]:
        """The `id`s of the operators that an output depends on."""
        producers = {tensor: operator for operator in self.graph.operators for tensor in operator.outputs}
        waiting = [tensor for tensor in self.graph.outputs if self.graph.tensors[tensor].name == output.encode()]
        found: set[int] = set()
        while waiting:
            operator = producers.get(waiting.pop())
            if operator is not None and id(operator) not in found:
                found.add(id(operator))
                waiting += list(operator.inputs)
        return found

    def array(self, tensor: Any) -> npt.NDArray[np.float32] | None:
        """The value of a constant of float32; None of what is computed or given."""
        data = self.root.buffers[tensor.buffer].data
        if data is None or not len(data) or tensor.type != schema.TensorType.FLOAT32:
            return None
        return np.frombuffer(bytes(data), '<f4').reshape(tensor.shape)

    def add_buffer(self, data: npt.NDArray[Any]) -> int:
        buffer = schema.BufferT()
        buffer.data = np.frombuffer(data.tobytes(), np.uint8)
        self.root.buffers.append(buffer)
        return len(self.root.buffers) - 1

    def add_tensor(self, name: bytes, shape: list[int], kind: int, buffer: int) -> int:
        tensor = schema.TensorT()
        tensor.name, tensor.shape, tensor.type, tensor.buffer = name, np.array(shape, np.int32), kind, buffer
        tensor.quantization = schema.QuantizationParametersT()
        self.graph.tensors.append(tensor)
        return len(self.graph.tensors) - 1

    def serialize(self) -> bytes:
        """The file. What no tensor refers to any more is left out."""
        used = {tensor.buffer for tensor in self.graph.tensors}
        used |= {entry.buffer for entry in self.root.metadata or ()}
        for index, buffer in enumerate(self.root.buffers):
            aligned = AlignedBuffer()
            aligned.data = buffer.data if index in used else None
            self.root.buffers[index] = aligned
        return bytes(convert_object_to_bytearray(self.root))


class AlignedBuffer(schema.BufferT):
    """Puts its data where the schema wants them, which the code generated for Python does not."""

    def Pack(self, builder: Any) -> Any:  # noqa: N802 - the schema's name
        if self.data is not None:
            builder.Prep(ALIGNMENT, len(self.data))
        return super().Pack(builder)


def quantize_weights(model: Model) -> None:
    """Stores the weights of the acoustic model's products as int8, with one scale a tensor: its greatest value is 127.

    Weights that features are computed with stay as they are: their error would be in everything that follows.
    """
    of_features = model.ancestors('mfccs')
    kind = schema.BuiltinOperator.FULLY_CONNECTED
    for operator in model.operators(kind):
        tensor = model.graph.tensors[operator.inputs[1]]
        weights = model.array(tensor)
        if weights is None or id(operator) in of_features:  # or int8 already: the LSTM's are used in every step
            continue
        scale = max(float(np.abs(weights).max()), np.finfo(np.float32).tiny) / 127
        tensor.buffer = model.add_buffer(np.round(weights / scale).astype(np.int8))
        tensor.type = schema.TensorType.INT8
        tensor.quantization = schema.QuantizationParametersT()
        tensor.quantization.scale = np.array([scale], np.float32)
        tensor.quantization.zeroPoint = np.array([0], np.int64)
    for code in model.root.operatorCodes:
        if max(code.builtinCode, code.deprecatedBuiltinCode) == kind:
            code.version = max(code.version, HYBRID_VERSION)


def compute_constant_outputs(model: Model) -> None:
    """Makes each output that is a constant the result of an operator, a RESHAPE of a constant to the same shape.

    Clients look for the operators that an output comes from, and run these alone. But old runtimes prepare operators
    only up to the first one whose result is text. So these are the last ones in the file, and the alphabet the first of
    those with text: other text is not read.
    """
    text = schema.TensorType.STRING
    computed = {tensor for operator in model.graph.operators for tensor in operator.outputs}
    code = model.code(schema.BuiltinOperator.RESHAPE)
    constant = [(index, model.graph.tensors[index]) for index in model.graph.outputs if index not in computed]
    for index, tensor in sorted(constant, key=lambda one: (one[1].type == text, one[1].name != b'metadata_alphabet')):
        shape = [int(size) for size in tensor.shape]
        value = model.add_tensor(tensor.name + b'_value', shape, tensor.type, tensor.buffer)
        sizes = model.add_buffer(np.array(shape, '<i4'))
        new_shape = model.add_tensor(tensor.name + b'_shape', [len(shape)], schema.TensorType.INT32, sizes)
        tensor.buffer = 0  # which is empty in every file
        operator = schema.OperatorT()
        operator.opcodeIndex = code
        operator.inputs = np.array([value, new_shape], np.int32)
        operator.outputs = np.array([index], np.int32)
        operator.builtinOptionsType = schema.BuiltinOptions.ReshapeOptions
        operator.builtinOptions = schema.ReshapeOptionsT()
        operator.builtinOptions.newShape = np.array(shape, np.int32)
        model.graph.operators.append(operator)

"""A TensorFlow Lite file as a client uses it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import tensorflow as tf
from tensorflow.lite.tools.flatbuffer_utils import convert_bytearray_to_object

from deepspeech_training.export.tflite_for_clients import Model
from tests.export.frozen_graph import in_chunks

Array = npt.NDArray[np.float32]


class TFLiteFile:
    """A `.tflite` file, loaded."""

    def __init__(self, path: str | Path) -> None:
        self.content = Path(path).read_bytes()
        self.model = Model(convert_bytearray_to_object(bytearray(self.content)))
        self._interpreter = tf.lite.Interpreter(model_content=self.content)
        self._interpreter.allocate_tensors()
        self.inputs = {detail['name']: detail for detail in self._interpreter.get_input_details()}
        self.outputs = {detail['name']: detail for detail in self._interpreter.get_output_details()}

    def run(self, outputs: list[str], feed: Mapping[str, Any]) -> list[np.ndarray]:
        for name, value in feed.items():
            self._interpreter.set_tensor(self.inputs[name]['index'], np.asarray(value, np.float32))
        self._interpreter.invoke()
        return [self._interpreter.get_tensor(self.outputs[name]['index']) for name in outputs]

    def value(self, name: str) -> Any:
        """The one value of a metadata output: an integer or bytes."""
        (value,) = self.run([name], {})[0]
        return value

    def probabilities(self, mfccs: Array) -> Array:
        """`[frames, n_output]` for `[frames, 26]`, in chunks of `n_steps` with carried state, as clients do it."""
        n_steps = int(self.inputs['input_node']['shape'][1])
        n_hidden = int(self.inputs['previous_state_c']['shape'][1])

        def compute(chunk: Array, _frames: int, c: Array, h: Array) -> list[np.ndarray]:
            feed = {'input_node': chunk, 'previous_state_c': c, 'previous_state_h': h}
            return self.run(['logits', 'new_state_c', 'new_state_h'], feed)

        return in_chunks(mfccs, n_steps, n_hidden, compute)

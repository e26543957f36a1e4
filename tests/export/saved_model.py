"""A SavedModel as a server has it, loaded into a session."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import tensorflow as tf

tfv1 = tf.compat.v1

Array = npt.NDArray[np.float32]


class SavedModel:
    """The folder of one version."""

    def __init__(self, path: str | Path) -> None:
        self._session = tfv1.Session(graph=tf.Graph())
        with self._session.graph.as_default():
            self.definition = tfv1.saved_model.load(self._session, [tf.saved_model.SERVING], str(path))
        self.signatures = self.definition.signature_def

    def call(self, signature: str, **inputs: Any) -> dict[str, np.ndarray]:
        """The outputs of a signature, by name."""
        definition = self.signatures[signature]
        assert set(inputs) == set(definition.inputs)
        outputs: dict[str, np.ndarray] = self._session.run(
            {name: info.name for name, info in definition.outputs.items()},
            {definition.inputs[name].name: value for name, value in inputs.items()},
        )
        return outputs

    def zero_state(self, batch: int) -> dict[str, np.ndarray]:
        """What `stream` wants at the beginning."""
        inputs = self.signatures['stream'].inputs
        return {
            name: np.zeros(
                [batch, *(dim.size for dim in info.tensor_shape.dim[1:])], tf.as_dtype(info.dtype).as_numpy_dtype
            )
            for name, info in inputs.items()
            if name.startswith('state_')
        }


def padded(utterances: list[Array], filler: float = 0.0) -> tuple[Array, npt.NDArray[np.int32]]:
    """Utterances as one batch `[batch, samples]`, with `filler` behind their ends and a bit more; their lengths."""
    lengths = np.array([len(samples) for samples in utterances], np.int32)
    batch = np.full([len(utterances), lengths.max() + 777], filler, np.float32)
    for row, samples in zip(batch, utterances, strict=True):
        row[: len(samples)] = samples
    return batch, lengths


def valid(log_probabilities: Array, frames: npt.NDArray[np.int32]) -> list[Array]:
    """`[frames, n_output]` of each utterance."""
    return [row[:number] for row, number in zip(log_probabilities, frames, strict=True)]

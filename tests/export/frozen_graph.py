"""A frozen graph as a client uses it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from deepspeech_training.config import N_CONTEXT

tfv1 = tf.compat.v1

Array = npt.NDArray[np.float32]


class FrozenGraph:
    """A `.pb` file, loaded."""

    def __init__(self, path: str | Path) -> None:
        content = Path(path).read_bytes()
        self.definition = tfv1.GraphDef.FromString(content)
        with tf.Graph().as_default() as self.graph:
            # Another copy: the import adds attributes with their defaults to what it is given.
            tf.import_graph_def(tfv1.GraphDef.FromString(content), name='')
        self._session = tfv1.Session(graph=self.graph)

    def tensor(self, name: str) -> tf.Tensor:
        return self.graph.get_tensor_by_name(f'{name}:0')

    def run(self, outputs: list[str], feed: Mapping[str, Any]) -> list[np.ndarray]:
        tensors = [self.tensor(name) for name in outputs]
        result: list[np.ndarray] = self._session.run(tensors, {f'{name}:0': value for name, value in feed.items()})
        return result

    def value(self, name: str) -> Any:
        """The one value of a metadata node: an integer or bytes."""
        (value,) = self.run([name], {})[0]
        return value

    def probabilities(self, mfccs: Array) -> Array:
        """`[frames, n_output]` for `[frames, 26]`, in chunks of `n_steps` with carried state, as clients do it."""
        n_steps = int(self.tensor('input_node').shape[1])
        n_hidden = int(self.tensor('previous_state_c').shape[1])

        def compute(chunk: Array, frames: int, c: Array, h: Array) -> list[np.ndarray]:
            feed = {'input_node': chunk, 'input_lengths': [frames], 'previous_state_c': c, 'previous_state_h': h}
            probabilities, c, h = self.run(['logits', 'new_state_c', 'new_state_h'], feed)
            return [probabilities[:, 0], c, h]

        return in_chunks(mfccs, n_steps, n_hidden, compute)


def in_chunks(mfccs: Array, n_steps: int, n_hidden: int, compute: Callable[..., list[np.ndarray]]) -> Array:
    """`[frames, n_output]` for `[frames, 26]`, by `compute` from chunk to chunk.

    It is given windows `[1, n_steps, 19, 26]`, how many of them are frames, and the state, and returns probabilities
    `[n_steps, n_output]` and the next state.
    """
    windows = context_windows(mfccs)
    c = h = np.zeros([1, n_hidden], np.float32)
    chunks = []
    for start in range(0, len(windows), n_steps):
        chunk = windows[start : start + n_steps]
        padded = np.zeros([1, n_steps, *windows.shape[1:]], np.float32)
        padded[0, : len(chunk)] = chunk
        probabilities, c, h = compute(padded, len(chunk), c, h)
        chunks.append(probabilities[: len(chunk)])
    return np.concatenate(chunks)


def context_windows(mfccs: Array) -> Array:
    """`[frames, 19, 26]`: each frame of `mfccs` with its neighbours, zeros beyond the ends."""
    padded = np.pad(mfccs, [(N_CONTEXT, N_CONTEXT), (0, 0)])
    return np.stack([padded[start : start + 2 * N_CONTEXT + 1] for start in range(len(mfccs))])

"""Frozen TensorFlow graphs: `.pb` files of this trainer and of DeepSpeech."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf

from deepspeech_training.config import N_CONTEXT, N_INPUT
from deepspeech_training.errors import ModelError
from deepspeech_training.runtimes.fast_lstm import import_with_fast_lstm
from deepspeech_training.runtimes.metadata import NAMES, OPTIONAL_NAMES, check_width, parse_metadata
from deepspeech_training.runtimes.runtime import Array, log_of
from deepspeech_training.runtimes.tensorflow_session import make_session
from deepspeech_training.runtimes.windowed import State, WindowedRuntime

tfv1 = tf.compat.v1

INPUTS = ('input_node', 'input_lengths', 'previous_state_c', 'previous_state_h')
OUTPUTS = ('logits', 'new_state_c', 'new_state_h')

MOST_FRAMES = 1024  # at a time, where the graph takes any number


class FrozenRuntime(WindowedRuntime):
    """A graph with fixed weights, run by TensorFlow."""

    kind = 'frozen graph'

    def __init__(self, path: str, threads: int = 0) -> None:
        """`threads`: of the computation; 0: one a core.

        Raises `ModelError` for a graph that is none of DeepSpeech's, or that this TensorFlow cannot run.
        """
        graph = _read_graph(path)
        self._session = make_session(graph, threads)
        there = {operation.name for operation in graph.get_operations()}
        names = [name for name in (*NAMES, *OPTIONAL_NAMES) if name in there]
        values = self._session.run({name: f'{name}:0' for name in names})
        info = parse_metadata(path, {name: np.ravel(value)[0] for name, value in values.items()})
        missing = [name for name in (*INPUTS, *OUTPUTS) if name not in there]
        if missing:
            raise ModelError(f'{path}: is cut off or damaged: it lacks {", ".join(missing)}')
        node, logits = _shape(graph, 'input_node'), _shape(graph, 'logits')
        if node is None or node[2:] != [2 * N_CONTEXT + 1, N_INPUT] or node[0] not in (1, None):
            raise ModelError(
                f'{path}: input_node has shape {node}, not [1, frames, {2 * N_CONTEXT + 1}, {N_INPUT}]: '
                'export with --export_batch_size 1 or 0'
            )
        check_width(path, logits[-1] if logits else None, info.alphabet)
        n_hidden = (_shape(graph, 'previous_state_c') or [None])[-1]
        if n_hidden is None:
            raise ModelError(f'{path}: previous_state_c has no number of units')
        steps = node[1]
        super().__init__(path, info, n_hidden, steps or MOST_FRAMES, fixed=steps is not None)
        self._run = self._session.make_callable(
            [f'{name}:0' for name in OUTPUTS], feed_list=[f'{name}:0' for name in INPUTS]
        )

    def run(self, frames: Array, state: State) -> tuple[Array, State]:
        n = len(frames) - 2 * N_CONTEXT
        probabilities, c, h = self._run(self.windows(frames), np.array([n], np.int32), state.c, state.h)
        width = self.info.alphabet.size + 1
        return log_of(probabilities.reshape(-1, width)[:n]), State(c, h)

    def close(self) -> None:
        self._session.close()


def _read_graph(path: str) -> tf.Graph:
    """Raises `ModelError`."""
    try:
        with open(path, 'rb') as file:
            definition = tfv1.GraphDef.FromString(file.read())
        with tf.Graph().as_default() as graph:
            import_with_fast_lstm(definition)
    except OSError as error:
        raise ModelError(f'{path}: cannot be read: {error.strerror}') from None
    except Exception as error:  # protobuf's own, and what TensorFlow says of nodes and functions it does not know
        raise ModelError(f'{path}: TensorFlow cannot read this graph: {str(error).splitlines()[0]}') from None
    return graph


def _shape(graph: tf.Graph, name: str) -> list[Any] | None:
    shape = graph.get_tensor_by_name(f'{name}:0').shape
    return None if shape.rank is None else shape.as_list()

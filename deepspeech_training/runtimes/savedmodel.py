"""SavedModels of this trainer: streams with a state that the caller keeps."""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from deepspeech_training.errors import ModelError
from deepspeech_training.runtimes.metadata import ModelInfo, check_width, parse_metadata
from deepspeech_training.runtimes.runtime import Array, Runtime
from deepspeech_training.runtimes.tensorflow_session import make_session
from deepspeech_training.runtimes.windowed import AT_ONCE

tfv1 = tf.compat.v1

SIGNATURES = ('metadata', 'stream')
MOST_SECONDS = 30  # at a time, so that hours of audio do not fill the memory


class SavedModelRuntime(Runtime):
    """A SavedModel, run by TensorFlow; it computes the features itself."""

    kind = 'SavedModel'

    def __init__(self, path: str, threads: int = 0) -> None:
        """`threads`: of the computation; 0: one a core.

        Raises `ModelError` for a SavedModel that is not this trainer's, or damaged.
        """
        graph = tf.Graph()
        self._session = make_session(graph, threads)
        try:
            with graph.as_default():
                definition = tfv1.saved_model.load(self._session, [tf.saved_model.SERVING], path)
        except (OSError, RuntimeError, ValueError, tf.errors.OpError) as error:
            raise ModelError(f'{path}: TensorFlow cannot load this SavedModel: {str(error).splitlines()[0]}') from None
        self._signatures = definition.signature_def
        missing = [name for name in SIGNATURES if name not in self._signatures]
        if missing:
            raise ModelError(f'{path}: is no SavedModel of this trainer: it lacks the signatures {", ".join(missing)}')
        super().__init__(path, self._read_info(path))
        stream = self._signatures['stream']
        check_width(path, stream.outputs['log_probabilities'].tensor_shape.dim[-1].size, self.alphabet)
        states = sorted(name for name in stream.inputs if name.startswith('state_'))
        self.zero_state = [
            np.zeros([1, *(dim.size for dim in info.tensor_shape.dim[1:])], tf.as_dtype(info.dtype).as_numpy_dtype)
            for info in (stream.inputs[name] for name in states)
        ]
        self._run = self._session.make_callable(
            [stream.outputs[name].name for name in ('log_probabilities', *(f'new_{name}' for name in states))],
            feed_list=[stream.inputs[name].name for name in ('samples', 'lengths', 'last', *states)],
        )

    def _read_info(self, path: str) -> ModelInfo:
        outputs = self._signatures['metadata'].outputs
        values = self._session.run({f'metadata_{name}': info.name for name, info in outputs.items()})
        labels = list(values.pop('metadata_alphabet', ()))
        return parse_metadata(
            path, {**{name: np.ravel(value)[0] for name, value in values.items()}, 'metadata_alphabet': labels}
        )

    def stream(self) -> SavedModelStream:
        return SavedModelStream(self)

    def run(self, samples: Array, is_last: bool, state: list[np.ndarray]) -> tuple[Array, list[np.ndarray]]:
        """Log-probabilities `[n, n_output]` of the frames that are known now, and the next state."""
        lengths = np.array([len(samples)], np.int32)
        log_probabilities, *new_state = self._run(samples[np.newaxis], lengths, np.array([is_last]), *state)
        return log_probabilities[0], new_state

    def close(self) -> None:
        self._session.close()


class SavedModelStream:
    """One utterance: `runtime.Stream`."""

    def __init__(self, runtime: SavedModelRuntime) -> None:
        self._runtime = runtime
        self._state = runtime.zero_state
        self._waiting: list[Array] = []

    def feed(self, samples: Array, *, is_last: bool = False) -> Array:
        """See `runtime.Stream`."""
        self._waiting.append(samples)
        least = AT_ONCE * self._runtime.info.features.step_samples
        if not is_last and sum(map(len, self._waiting)) < least:
            return np.zeros([0, self._runtime.alphabet.size + 1], np.float32)
        samples, self._waiting = np.concatenate(self._waiting), []
        most = MOST_SECONDS * self._runtime.sample_rate
        results = []
        for start in range(0, max(len(samples), 1), most):
            piece = samples[start : start + most]
            ends = is_last and start + most >= len(samples)
            result, self._state = self._runtime.run(piece, ends, self._state)
            results.append(result)
        return np.concatenate(results)

    def finish(self) -> Array:
        """See `runtime.Stream`."""
        return self.feed(np.zeros(0, np.float32), is_last=True)

"""TFLite models, of this trainer and of DeepSpeech."""

from __future__ import annotations

import os
import warnings
from typing import Any

import numpy as np

from deepspeech_training.config import N_CONTEXT, N_INPUT
from deepspeech_training.errors import ModelError
from deepspeech_training.runtimes.metadata import NAMES, OPTIONAL_NAMES, check_width, parse_metadata
from deepspeech_training.runtimes.runtime import Array, log_of
from deepspeech_training.runtimes.windowed import State, WindowedRuntime

INPUTS = ('input_node', 'previous_state_c', 'previous_state_h')
OUTPUTS = ('logits', 'new_state_c', 'new_state_h')


class TFLiteRuntime(WindowedRuntime):
    """A flat buffer, run by LiteRT."""

    kind = 'TFLite model'

    def __init__(self, path: str, threads: int = 0) -> None:
        """`threads`: of the computation; 0: one a core.

        Raises `ModelError` for a model that is none of DeepSpeech's, or damaged, or when no interpreter is installed.
        """
        self._interpreter = _interpreter(path, threads or os.cpu_count() or 1)
        inputs = {_name(detail): detail for detail in self._interpreter.get_input_details()}
        outputs = {_name(detail): detail for detail in self._interpreter.get_output_details()}
        info = parse_metadata(path, self._metadata(outputs))
        missing = [name for name in INPUTS if name not in inputs] + [name for name in OUTPUTS if name not in outputs]
        if missing:
            raise ModelError(f"{path}: is a TFLite model, but none of DeepSpeech's: it lacks {', '.join(missing)}")
        batch, steps, *window = inputs['input_node']['shape'].tolist()
        if batch != 1 or window != [2 * N_CONTEXT + 1, N_INPUT]:
            raise ModelError(
                f'{path}: input_node has shape {[batch, steps, *window]}: export with --export_batch_size 1'
            )
        check_width(path, int(outputs['logits']['shape'][-1]), info.alphabet)
        super().__init__(path, info, int(inputs['previous_state_c']['shape'][-1]), steps, fixed=True)
        self._inputs = {name: detail['index'] for name, detail in inputs.items()}
        self._outputs = {name: detail['index'] for name, detail in outputs.items()}

    def run(self, frames: Array, state: State) -> tuple[Array, State]:
        n = len(frames) - 2 * N_CONTEXT
        set_tensor = self._interpreter.set_tensor
        set_tensor(self._inputs['input_node'], self.windows(frames))
        set_tensor(self._inputs['previous_state_c'], state.c)
        set_tensor(self._inputs['previous_state_h'], state.h)
        if 'input_lengths' in self._inputs:
            set_tensor(self._inputs['input_lengths'], np.array([n], np.int32))
        self._interpreter.invoke()
        probabilities, c, h = (self._interpreter.get_tensor(self._outputs[name]) for name in OUTPUTS)
        return log_of(probabilities.reshape(self.steps, -1)[:n]), State(c, h)

    def _metadata(self, outputs: dict[str, Any]) -> dict[str, Any]:
        names = [name for name in (*NAMES, *OPTIONAL_NAMES) if name in outputs]
        if names:
            self._interpreter.invoke()  # DeepSpeech's files compute them
        return {name: np.ravel(self._interpreter.get_tensor(outputs[name]['index']))[0] for name in names}


def _name(detail: dict[str, Any]) -> str:
    """Of a tensor, without what converters add."""
    return str(detail['name']).removeprefix('serving_default_').split(':')[0]


def _interpreter(path: str, threads: int) -> Any:
    """The model, with memory for its tensors. Raises `ModelError`."""
    interpreter_class, schema = _litert()
    try:
        _verify(path, schema)
        with warnings.catch_warnings():
            warnings.simplefilter('ignore')  # TensorFlow's says that it will be removed one day
            interpreter = interpreter_class(model_path=path, num_threads=threads)
            interpreter.allocate_tensors()
    except OSError as error:
        raise ModelError(f'{path}: cannot be read: {error.strerror}') from None
    except (ValueError, RuntimeError) as error:
        reason = (str(error).strip().splitlines() or ['no reason given'])[0]
        raise ModelError(f'{path}: is no TFLite model that can be run, or damaged: {reason}') from None
    return interpreter


def _verify(path: str, schema: Any) -> None:
    """Raises `ValueError` for a file that is cut off or damaged, on which the interpreter would end the process."""
    with open(path, 'rb') as file:
        content = file.read()
    try:
        schema.ModelT.InitFromPackedBuf(content, 0)
    except Exception as error:  # whatever reading beyond the end or at wrong places leads to
        raise ValueError(str(error)) from None


def _litert() -> tuple[Any, Any]:
    """The class of interpreters, and the module that reads the files. Raises `ModelError` where there is none."""
    try:
        from ai_edge_litert import interpreter, schema_py_generated

        return interpreter.Interpreter, schema_py_generated
    except ImportError:
        pass
    try:  # TensorFlow has them still
        import tensorflow as tf
        from tensorflow.lite.python import schema_py_generated

        return tf.lite.Interpreter, schema_py_generated
    except (ImportError, AttributeError):
        raise ModelError('TFLite models need a package that is not installed: pip install ai-edge-litert') from None

"""ONNX models: that from audio to log-probabilities, and its second half, from MFCCs on."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from deepspeech_training.config import N_CONTEXT
from deepspeech_training.errors import ModelError
from deepspeech_training.runtimes.metadata import ModelInfo, check_width, parse_metadata
from deepspeech_training.runtimes.runtime import Array, Runtime, Stream
from deepspeech_training.runtimes.windowed import State, WindowedRuntime

WHOLE = {'samples', 'lengths'}
ACOUSTIC = {'mfccs', 'frames', 'state_c', 'state_h'}
"""Inputs of the two."""

MOST_FRAMES = 1024  # at a time, so that hours of audio do not fill the memory


def open_onnx(path: str, threads: int = 0) -> Runtime:
    """The model at `path`, run by ONNX Runtime. `threads`: of the computation; 0: one a core.

    Raises `ModelError` for a model that is not this trainer's, or damaged, or when ONNX Runtime is not installed.
    """
    session = _session(path, threads)
    info = _info(path, session)
    inputs = {each.name for each in session.get_inputs()}
    outputs = [each.name for each in session.get_outputs()]
    if 'log_probabilities' not in outputs:
        raise ModelError(f'{path}: gives {" and ".join(outputs)}, not log_probabilities; name the whole model')
    if inputs not in (WHOLE, ACOUSTIC):
        raise ModelError(
            f'{path}: takes {", ".join(sorted(inputs))}; a model that takes {" and ".join(sorted(WHOLE))}, or '
            f'{", ".join(sorted(ACOUSTIC))} is needed'
        )
    width = session.get_outputs()[0].shape[-1]
    check_width(path, width if isinstance(width, int) else None, info.alphabet)
    return WholeOnnxRuntime(path, info, session, threads) if inputs == WHOLE else OnnxRuntime(path, info, session)


class OnnxRuntime(WindowedRuntime):
    """The half that computes from MFCCs, in pieces of any length."""

    kind = 'ONNX model'

    def __init__(self, path: str, info: ModelInfo, session: Any) -> None:
        (state,) = (each for each in session.get_inputs() if each.name == 'state_c')
        super().__init__(path, info, int(state.shape[-1]), MOST_FRAMES, fixed=False)
        self._session = session

    def run(self, frames: Array, state: State) -> tuple[Array, State]:
        feed = {
            'mfccs': frames[np.newaxis],
            'frames': np.array([len(frames) - 2 * N_CONTEXT], np.int32),
            'state_c': state.c,
            'state_h': state.h,
        }
        log_probabilities, c, h = self._session.run(['log_probabilities', 'new_state_c', 'new_state_h'], feed)
        return log_probabilities[0], State(c, h)


class WholeOnnxRuntime(Runtime):
    """The model that computes from the audio of a whole utterance."""

    kind = 'ONNX model'

    def __init__(self, path: str, info: ModelInfo, session: Any, threads: int) -> None:
        super().__init__(path, info)
        self._session = session
        self._threads = threads
        self._acoustic: OnnxRuntime | None = None

    def log_probabilities(self, samples: Array) -> Array:
        if not self.info.features.frames(len(samples)):
            return np.zeros([0, self.alphabet.size + 1], np.float32)
        feed = {'samples': samples[np.newaxis], 'lengths': np.array([len(samples)], np.int32)}
        log_probabilities, frames = self._session.run(['log_probabilities', 'frames'], feed)
        result: Array = log_probabilities[0, : frames[0]]
        return result

    def stream(self) -> Stream:
        """By the half that was exported beside this model; without it, everything is computed at the end."""
        beside = Path(self.path).with_suffix('.acoustic.onnx')
        if self._acoustic is None and beside.exists():
            acoustic = open_onnx(str(beside), self._threads)
            if isinstance(acoustic, OnnxRuntime) and acoustic.info.alphabet.labels == self.alphabet.labels:
                self._acoustic = acoustic
        return self._acoustic.stream() if self._acoustic else _AtTheEnd(self)


class _AtTheEnd:
    """A stream of a model that has to have all of an utterance."""

    def __init__(self, runtime: WholeOnnxRuntime) -> None:
        self._runtime = runtime
        self._pieces: list[Array] = []

    def feed(self, samples: Array, *, is_last: bool = False) -> Array:
        self._pieces.append(samples)
        heard = np.concatenate(self._pieces) if is_last else np.zeros(0, np.float32)
        return self._runtime.log_probabilities(heard)

    def finish(self) -> Array:
        return self.feed(np.zeros(0, np.float32), is_last=True)


def _session(path: str, threads: int) -> Any:
    try:
        import onnxruntime
    except ImportError:
        raise ModelError(f'{path}: ONNX models need a package that is not installed: pip install onnxruntime') from None
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 3  # errors
    try:
        return onnxruntime.InferenceSession(path, options, providers=['CPUExecutionProvider'])
    except Exception as error:  # of many classes without a common one
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise ModelError(f'{path}: ONNX Runtime cannot run this model: {reason}') from None


def _info(path: str, session: Any) -> ModelInfo:
    values = {f'metadata_{name}': value for name, value in session.get_modelmeta().custom_metadata_map.items()}
    if 'metadata_alphabet' in values:
        try:
            values['metadata_alphabet'] = list(map(str, json.loads(values['metadata_alphabet'])))
        except (TypeError, ValueError):
            raise ModelError(f'{path}: its alphabet is no list in JSON') from None
    return parse_metadata(path, values)

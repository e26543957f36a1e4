"""Models that take frames of features with their context: here audio becomes such frames, and chunks of them."""

from __future__ import annotations

from abc import abstractmethod
from typing import NamedTuple

import numpy as np

from deepspeech_training.audio.mfcc import MfccComputer, MfccStream
from deepspeech_training.config import N_CONTEXT, N_INPUT
from deepspeech_training.runtimes.metadata import ModelInfo
from deepspeech_training.runtimes.runtime import Array, Runtime

AT_ONCE = 16
"""Frames of a stream that are computed together, as DeepSpeech's clients do: a call for each would cost too much."""


class State(NamedTuple):
    """Cell and output of the LSTM after a frame, float32 `[1, n_hidden]` each."""

    c: Array
    h: Array


class WindowedRuntime(Runtime):
    """A model that computes from frames of MFCCs, and hands its state to the caller."""

    def __init__(self, path: str, info: ModelInfo, n_hidden: int, steps: int, *, fixed: bool) -> None:
        """`steps`: frames that `run` takes at a time, exactly as many if `fixed`, else at most."""
        super().__init__(path, info)
        self.n_hidden = n_hidden
        self.steps = steps
        self.fixed = fixed
        self._mfccs = MfccComputer(info.features)

    def stream(self) -> WindowStream:
        return WindowStream(self, MfccStream(self._mfccs))

    @abstractmethod
    def run(self, frames: Array, state: State) -> tuple[Array, State]:
        """Log-probabilities `[n, n_output]` and the next state, for `frames` `[n + 2 * N_CONTEXT, N_INPUT]`.

        The first and the last `N_CONTEXT` are the context of the others. `n` is at least 1 and at most `steps`. Where
        the runtime is `fixed` and `n` is less, the utterance ends there, and the state afterwards means nothing.
        """

    def windows(self, frames: Array) -> Array:
        """Each frame with its context, as many as the model takes: `[1, n or steps, 2 * N_CONTEXT + 1, N_INPUT]`."""
        windows = windows_of(frames)
        missing = self.steps - len(windows) if self.fixed else 0
        if missing:
            windows = np.concatenate([windows, np.zeros([missing, *windows.shape[1:]], np.float32)])
        return windows[np.newaxis]


class WindowStream:
    """One utterance: `runtime.Stream`.

    Frames are computed when the `N_CONTEXT` behind them are there, as many at a time as the model takes, or `AT_ONCE`.
    """

    def __init__(self, runtime: WindowedRuntime, mfccs: MfccStream) -> None:
        self._runtime = runtime
        self._mfccs = mfccs
        self._samples: list[Array] = []  # not enough of them yet
        self._at_once = runtime.steps if runtime.fixed else AT_ONCE
        self._frames = np.zeros([N_CONTEXT, N_INPUT], np.float32)  # with the context before the next one to compute
        zeros = np.zeros([1, runtime.n_hidden], np.float32)
        self._state = State(zeros, zeros)

    def feed(self, samples: Array, *, is_last: bool = False) -> Array:
        """See `runtime.Stream`."""
        self._samples.append(samples)
        if not (is_last or self._are_enough()):
            return np.zeros([0, self._runtime.alphabet.size + 1], np.float32)
        mfccs = self._mfccs.feed(np.concatenate(self._samples))
        self._samples = []
        behind = np.zeros([N_CONTEXT if is_last else 0, N_INPUT], np.float32)
        self._frames = np.concatenate([self._frames, mfccs, behind])
        count = max(0, len(self._frames) - 2 * N_CONTEXT)
        results = [np.zeros([0, self._runtime.alphabet.size + 1], np.float32)]
        done = 0
        while done < count and (is_last or count - done >= self._at_once):
            n = min(count - done, self._runtime.steps)
            frames = self._frames[done : done + n + 2 * N_CONTEXT]
            result, self._state = self._runtime.run(frames, self._state)
            results.append(result)
            done += n
        self._frames = self._frames[done:]
        return np.concatenate(results)

    def _are_enough(self) -> bool:
        """Whether the samples that wait may complete the frames that are computed at once."""
        missing = self._at_once + 2 * N_CONTEXT - len(self._frames)
        return sum(map(len, self._samples)) >= missing * self._runtime.info.features.step_samples

    def finish(self) -> Array:
        """See `runtime.Stream`."""
        return self.feed(np.zeros(0, np.float32), is_last=True)


def windows_of(frames: Array) -> Array:
    """Each frame with its context, `[n, 2 * N_CONTEXT + 1, N_INPUT]`, of `n + 2 * N_CONTEXT` frames."""
    view = np.lib.stride_tricks.sliding_window_view(frames, 2 * N_CONTEXT + 1, axis=0)
    return np.ascontiguousarray(view.transpose(0, 2, 1))

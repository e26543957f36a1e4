"""TensorBoard: scalars of steps and epochs, histograms of variables and gradients."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import tensorflow as tf

from deepspeech_training import log


def log_variable(variable: tf.Tensor, gradient: tf.Tensor | None = None) -> list[tf.Tensor]:
    """Summary operations for one variable and its averaged gradient.

    For each of the two: a histogram, and the scalars mean, stddev, min and max. Scalars (a learning
    rate, say) get one scalar summary instead.
    """
    name = variable.op.name
    summaries = _describe(name, variable)
    if gradient is not None:
        summaries += _describe(f'{name}/gradients', tf.convert_to_tensor(gradient))
    return summaries


def log_grads_and_vars(grads_and_vars: Iterable[tuple[tf.Tensor | None, tf.Variable]]) -> tf.Tensor:
    """One serialized summary of all `grads_and_vars`: pairs of averaged gradient and variable.

    Raises `tf.errors.InvalidArgumentError` when evaluated on values that are not finite.
    """
    # The values of variables live on the CPU, and summaries have no other kernels.
    with tf.device('/cpu:0'), tf.name_scope('summaries'):
        summaries = [s for gradient, variable in grads_and_vars for s in log_variable(variable, gradient)]
        return tf.raw_ops.MergeSummary(inputs=summaries)


def _describe(tag: str, tensor: tf.Tensor) -> list[tf.Tensor]:
    # The raw operations take the tag as it is; tf.summary would add the name scope to it.
    value = tf.convert_to_tensor(tensor)
    if value.shape.rank == 0:
        return [tf.raw_ops.ScalarSummary(tags=tag, values=value)]
    mean = tf.reduce_mean(value)
    scalars = {
        'mean': mean,
        'stddev': tf.sqrt(tf.reduce_mean(tf.square(value - mean))),
        'min': tf.reduce_min(value),
        'max': tf.reduce_max(value),
    }
    return [tf.raw_ops.HistogramSummary(tag=tag, values=value)] + [
        tf.raw_ops.ScalarSummary(tags=f'{tag}/{name}', values=scalar) for name, scalar in scalars.items()
    ]


class SummaryWriter:
    """Writes the curves of one run below `directory`; writes nothing when that is empty.

    Training steps go to `train/`, dev sets to `dev/`, metrics sets to `metrics/`, so that TensorBoard
    draws them in one picture.
    """

    def __init__(self, directory: str) -> None:
        self._directory = directory
        self._writers: dict[str, tf.compat.v1.summary.FileWriter] = {}
        self._begins_at: int | None = None

    def go_on_after(self, step: int) -> None:
        """Has TensorBoard forget what is in `directory` of later steps: a run that ended without having saved them."""
        self._begins_at = step + 1

    @property
    def enabled(self) -> bool:
        return bool(self._directory)

    def scalars(self, part: str, step: int, values: Mapping[str, float]) -> None:
        """Writes `values` by name at `step` into the curves of `part` ('train', 'dev', 'metrics')."""
        if not values:
            return
        summary = tf.compat.v1.Summary()
        for tag, value in values.items():
            summary.value.add(tag=tag, simple_value=value)
        self._add(part, step, summary)

    def texts(self, part: str, step: int, values: Mapping[str, str]) -> None:
        """Writes Markdown by name at `step`, for TensorBoard's text page."""
        if not values:
            return
        summary = tf.compat.v1.Summary()
        for tag, value in values.items():
            written = summary.value.add(tag=tag, tensor=tf.make_tensor_proto(value.encode('utf-8', 'replace')))
            written.metadata.plugin_data.plugin_name = 'text'
        self._add(part, step, summary)

    def serialized(self, part: str, step: int, summary: bytes) -> None:
        """Writes what `log_grads_and_vars` gave."""
        self._add(part, step, summary)

    def flush(self) -> None:
        """Makes what was written visible to TensorBoard."""
        with self._writing():
            for writer in self._writers.values():
                writer.flush()

    def close(self) -> None:
        """Writes what is left and closes the files."""
        writers, self._writers = self._writers, {}
        with self._writing():
            for writer in writers.values():
                writer.close()

    def _add(self, part: str, step: int, summary: Any) -> None:
        if self.enabled:
            with self._writing():
                self._writer(part).add_summary(summary, step)

    def _writer(self, part: str) -> tf.compat.v1.summary.FileWriter:
        if part not in self._writers:
            writer = tf.compat.v1.summary.FileWriter(os.path.join(self._directory, part))
            if self._begins_at is not None:
                start = tf.compat.v1.SessionLog(status=tf.compat.v1.SessionLog.START)
                writer.add_session_log(start, self._begins_at)
            self._writers[part] = writer
        return self._writers[part]

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """Curves that cannot be written end neither the training nor the program, only the curves."""
        try:
            yield
        except (OSError, RuntimeError, tf.errors.OpError) as error:
            log.error(f'--summary_dir: cannot write to {self._directory}, going on without curves: {error}')
            self._directory = ''
            self._writers = {}

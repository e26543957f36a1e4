"""Files of tensors in TensorFlow's checkpoint format (V2), from and to NumPy arrays."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import numpy as np
import tensorflow as tf

from deepspeech_training.errors import CheckpointError
from deepspeech_training.storage import flush

Arrays = Mapping[str, np.ndarray]

SUFFIXES = ('.index', '.data-00000-of-00001')
"""A checkpoint's files: the table of its tensors, and their values."""


WHERE_IN_THE_GRAPH = ('Graph execution error', 'Detected at', 'File "', 'Node: ', '[[', '(', 'Hint: ')
"""Lines of TensorFlow's messages that say where something happened, and not what."""


def write_tensors(prefix: str, values: Arrays) -> None:
    """Writes `values` as `prefix`.index and `prefix`.data-00000-of-00001, and waits until the disk has them.

    May be called from any thread. Raises `tf.errors.OpError` and `OSError`, of which `writing` makes errors for
    users; what was written so far is left behind.
    """
    names = sorted(values)
    with tf.Graph().as_default(), tf.device('/cpu:0'):
        tensors = [tf.compat.v1.placeholder(values[name].dtype, values[name].shape) for name in names]
        save = tf.raw_ops.SaveV2(prefix=prefix, tensor_names=names, shape_and_slices=[''] * len(names), tensors=tensors)
        proto = tf.compat.v1.ConfigProto(device_count={'GPU': 0}, inter_op_parallelism_threads=1)
        with tf.compat.v1.Session(config=proto) as session:
            session.run(save, dict(zip(tensors, (values[name] for name in names), strict=True)))
        for suffix in SUFFIXES:
            flush(prefix + suffix)


def read_shapes(prefix: str) -> dict[str, list[int]]:
    """The names and shapes of a checkpoint's tensors. Raises `CheckpointError`."""
    with reading(prefix):
        return dict(tf.compat.v1.train.load_checkpoint(prefix).get_variable_to_shape_map())


def read_tensors(prefix: str, names: Sequence[str]) -> dict[str, np.ndarray]:
    """The values of `names`. Raises `CheckpointError`."""
    with reading(prefix):
        reader = tf.compat.v1.train.load_checkpoint(prefix)
        return {name: reader.get_tensor(name) for name in names}


@contextmanager
def reading(path: str) -> Iterator[None]:
    """Turns what TensorFlow and the system say about a file into a `CheckpointError`."""
    try:
        yield
    except (tf.errors.OpError, RuntimeError, ValueError, OSError) as error:
        raise CheckpointError(f'checkpoint {path} cannot be read: {reason_of(error)}') from None


@contextmanager
def writing(path: str) -> Iterator[None]:
    """The same for writing."""
    try:
        yield
    except (tf.errors.OpError, OSError, ValueError, RuntimeError) as error:
        raise CheckpointError(f'cannot write checkpoint {path}: {reason_of(error)}') from None


def reason_of(error: Exception) -> str:
    """The line of TensorFlow's message that says what is wrong, after those that say where in the graph."""
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    text = error.message if isinstance(error, tf.errors.OpError) else str(error)
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    telling = [line for line in lines if not line.startswith(WHERE_IN_THE_GRAPH)]
    if not telling:
        return type(error).__name__
    path, _, reason = telling[0].rpartition('; ')
    return reason if path.startswith('/') else telling[0]  # the path is that of a temporary file

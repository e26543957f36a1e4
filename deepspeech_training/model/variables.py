"""The model's parameters: where they live, how they start."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import tensorflow as tf

tfv1 = tf.compat.v1


def variable_on_cpu(name: str, shape: Sequence[int], initializer: tf.keras.initializers.Initializer) -> tf.Variable:
    """Makes the variable, or takes the existing one of the current scope; it is stored on the CPU.

    Towers on several devices then read one copy, and the averaged update is applied where the parameters are.
    """
    with tf.device('/cpu:0'):
        return tfv1.get_variable(name, shape=list(shape), initializer=initializer, use_resource=True)


@contextmanager
def freezing(is_frozen: Callable[[str], bool]) -> Iterator[None]:
    """Within it, new variables whose names `is_frozen` are not trained.

    Without trainable variables before them, layers need no backward pass, and TensorFlow builds none.
    """

    def get(getter: Callable[..., Any], name: str, *args: Any, **kwargs: Any) -> Any:
        return getter(name, *args, **{**kwargs, 'trainable': False} if is_frozen(name) else kwargs)

    with tfv1.variable_scope(tfv1.get_variable_scope(), custom_getter=get, auxiliary_name_scope=False):
        yield


def derived_seed(seed: int | None, name: str) -> int | None:
    """A seed of its own for whatever is called `name`; None (TensorFlow's graph seed decides) without `seed`."""
    return None if seed is None else zlib.crc32(f'{seed}/{name}'.encode()) & 0x7FFFFFFF


def uniform_for_relu(seed: int | None) -> tf.keras.initializers.Initializer:
    """Uniform in +-sqrt(6 / fan_in) (He et al. 2015): layers of ReLUs neither shrink nor blow up what they pass on."""
    return tfv1.keras.initializers.VarianceScaling(scale=2.0, mode='fan_in', distribution='uniform', seed=seed)


def uniform_fan_avg(seed: int | None) -> tf.keras.initializers.Initializer:
    """Uniform in +-sqrt(6 / (fan_in + fan_out)) (Glorot and Bengio 2010), as DeepSpeech starts all weights."""
    return tfv1.keras.initializers.VarianceScaling(scale=1.0, mode='fan_avg', distribution='uniform', seed=seed)

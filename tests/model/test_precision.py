"""The whole model with products in half precision: how near, where, and what stays in float32."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest
import tensorflow as tf

from deepspeech_training.config import ModelConfig
from deepspeech_training.errors import FlagError
from deepspeech_training.model.acoustic import create_model
from deepspeech_training.model.ctc import ctc_losses
from deepspeech_training.model.precision import choose_compute_type

tfv1 = tf.compat.v1

UNIT = {'float32': 2**-24, 'bfloat16': 2**-8, 'float16': 2**-11}
"""Rounding error of a number, relative to it."""

LENGTHS = [30, 20, 1]
N_HIDDEN = 64
N_OUTPUT = 4


class Built(NamedTuple):
    """A training graph; `losses` float32 `[batch]`, `gradients` those of their sum by variable."""

    logits: tf.Tensor
    losses: tf.Tensor
    gradients: dict[str, tf.Tensor]


def build(compute_type: str, lstm: str, *, layer_norm: bool = False, rate: float = 0.0) -> Built:
    model = ModelConfig(N_HIDDEN, layer_norm, dropout=(rate,) * 6, compute_type=compute_type)
    features = np.random.default_rng(2).normal(size=[len(LENGTHS), max(LENGTHS), 26]).astype(np.float32)
    lengths = tf.constant(LENGTHS)
    output = create_model(tf.constant(features), lengths, model, N_OUTPUT, training=True, lstm=lstm, seed=1)
    labels = tf.constant([[1, 2, 0, 1], [2, 1, 0, 0], [0, 0, 0, 0]])
    losses = ctc_losses(output.logits, lengths, labels, tf.constant([4, 3, 1]))
    variables = tfv1.trainable_variables()
    gradients = tf.gradients(tf.reduce_sum(losses), variables)
    return Built(output.logits, losses, {v.op.name: g for v, g in zip(variables, gradients, strict=True)})


def values(compute_type: str, lstm: str, layer_norm: bool) -> Built:
    with tf.Graph().as_default() as graph, tfv1.Session(graph=graph) as session:
        built = build(compute_type, lstm, layer_norm=layer_norm)
        session.run(tfv1.global_variables_initializer())
        return Built(*session.run(built))


def distance(ours: np.ndarray, wanted: np.ndarray) -> float:
    """Relative, each taken as one vector."""
    return float(np.linalg.norm(ours - wanted) / np.linalg.norm(wanted))


@pytest.mark.parametrize('compute_type', ['bfloat16', 'float16'])
@pytest.mark.parametrize('layer_norm', [False, True])
@pytest.mark.parametrize('lstm', ['hoisted', 'block'])
def test_results_are_near_those_of_float32(lstm: str, layer_norm: bool, compute_type: str) -> None:
    """Gradients less so than logits: a unit that is nearly 0 may pass them in one and not in the other."""
    wanted, ours = values('float32', lstm, layer_norm), values(compute_type, lstm, layer_norm)
    unit = UNIT[compute_type]
    assert 0 < distance(ours.logits, wanted.logits) < 6 * unit
    np.testing.assert_allclose(ours.losses, wanted.losses, rtol=6 * unit)
    for name, gradient in ours.gradients.items():
        assert gradient.dtype == np.float32
        assert distance(gradient, wanted.gradients[name]) < 4 * np.sqrt(unit), name


@pytest.mark.parametrize('lstm', ['hoisted', 'block', 'unrolled', 'cudnn'])
@pytest.mark.parametrize('compute_type', ['float32', 'bfloat16', 'float16'])
def test_types_of_products(compute_type: str, lstm: str, graph: tf.Graph) -> None:
    """Those of layer 6 are float32, forward and twice backward; no other ones are."""
    built = build(compute_type, lstm, rate=0.1)
    products = [op for op in graph.get_operations() if op.type == 'MatMul' and '/Initializer/' not in op.name]
    of_layer_6 = [op for op in products if N_OUTPUT in [n for part in (*op.inputs, *op.outputs) for n in part.shape]]
    assert len(of_layer_6) == 3
    assert {op.get_attr('T') for op in of_layer_6} == {tf.float32}
    others = [op for op in products if op not in of_layer_6]
    assert len(others) >= 4 * 3 - 1
    assert {op.get_attr('T') for op in others} == {tf.as_dtype(compute_type)}
    fused = {op.type: op.get_attr('T') for op in graph.get_operations() if op.type.startswith(('BlockL', 'CudnnRNN'))}
    assert set(fused.values()) <= {tf.float16 if (lstm, compute_type) == ('cudnn', 'float16') else tf.float32}
    assert len(fused) == (2 if lstm in ('block', 'cudnn') else 0)
    everything = [built.logits, built.losses, *built.gradients.values(), *tfv1.global_variables()]
    assert {part.dtype.base_dtype for part in everything} == {tf.float32}


@pytest.mark.parametrize('lstm', ['hoisted', 'block', 'unrolled'])
def test_in_float32_nothing_is_cast(lstm: str, graph: tf.Graph) -> None:
    build('float32', lstm, layer_norm=True, rate=0.1)
    floats = {tf.float32, tf.bfloat16, tf.float16}
    casts = [op for op in graph.get_operations() if op.type == 'Cast']
    assert [op.name for op in casts if {op.inputs[0].dtype, op.outputs[0].dtype} <= floats] == []


@pytest.mark.parametrize(
    ('wanted', 'gpus', 'chosen'),
    [
        ('float32', [(9, 0)], 'float32'),
        ('auto', [], 'bfloat16'),
        ('auto', [(8, 0), (9, 0)], 'bfloat16'),
        ('auto', [(7, 0)], 'float16'),
        ('auto', [(8, 6), (7, 5)], 'float16'),
        ('auto', [None], 'float16'),
        ('float16', [(9, 0)], 'float16'),
        ('bfloat16', [], 'bfloat16'),
    ],
)
def test_choice_by_device(wanted: str, gpus: list[tuple[int, int] | None], chosen: str) -> None:
    assert choose_compute_type(wanted, gpus) == chosen


def test_float16_needs_a_gpu() -> None:
    with pytest.raises(FlagError, match=r'mixed_precision_type=float16: needs a GPU.*=bfloat16 also runs on CPUs'):
        choose_compute_type('float16', [])

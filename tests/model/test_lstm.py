"""All LSTM implementations against one written out in NumPy, and against each other's gradients."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
import tensorflow as tf

from deepspeech_training.config import ModelConfig, ParallelConfig
from deepspeech_training.errors import FlagError
from deepspeech_training.model.lstm import LSTM_IMPLEMENTATIONS, LSTMState, choose_lstm, hoisted, lstm_layer
from deepspeech_training.model.lstm.cudnn import opaque_params
from deepspeech_training.model.lstm.orientation import Columns, Orientation, Rows, choose_orientation

tfv1 = tf.compat.v1

ON_CPU = ['hoisted', 'block', 'unrolled']
N = 5

LENGTHS = {
    'unequal': [7, 3, 5],
    'equal': [4, 4],
    'one without frames': [0, 6, 2],
    'single frames': [1, 1, 1],
    'batch of one': [6],
    'one frame in all': [1],
}


class Case(NamedTuple):
    """A batch, the parameters, and the weights of the scalar that is differentiated."""

    inputs: np.ndarray
    lengths: np.ndarray
    kernel: np.ndarray
    bias: np.ndarray
    c: np.ndarray
    h: np.ndarray
    by_output: np.ndarray
    by_c: np.ndarray
    by_h: np.ndarray


class Result(NamedTuple):
    outputs: np.ndarray
    c: np.ndarray
    h: np.ndarray
    gradients: list[np.ndarray]  # by inputs, kernel, bias, initial c, initial h


def make_case(lengths: list[int], seed: int = 1) -> Case:
    random = np.random.default_rng(seed)

    def normal(*shape: int) -> np.ndarray:
        return random.normal(size=shape).astype(np.float32)

    batch, frames = len(lengths), max(lengths)
    return Case(
        inputs=normal(frames, batch, N),
        lengths=np.array(lengths, np.int32),
        kernel=normal(2 * N, 4 * N) * 0.4,
        bias=normal(4 * N) * 0.4,
        c=normal(batch, N),
        h=normal(batch, N),
        by_output=normal(frames, batch, N),
        by_c=normal(batch, N),
        by_h=normal(batch, N),
    )


def run(
    name: str, case: Case, *, lengths_given: bool = True, differentiate: str = 'all', dtype: str = 'float32'
) -> Result:
    """Outputs, and gradients of a weighted sum of outputs and final state; products in `dtype`."""
    with tf.Graph().as_default() as graph, tfv1.Session(graph=graph) as session:
        wanted = [tf.constant(x) for x in (case.inputs, case.kernel, case.bias, case.c, case.h)]
        inputs, kernel, bias, c, h = wanted
        lengths = tf.constant(case.lengths) if lengths_given else None
        typed = tf.cast(inputs, dtype)
        outputs, state = LSTM_IMPLEMENTATIONS[name](typed, lengths, kernel, bias, LSTMState(c, h), training=True)
        total = tf.reduce_sum(outputs * case.by_output)
        if differentiate == 'all':
            total += tf.reduce_sum(state.c * case.by_c) + tf.reduce_sum(state.h * case.by_h)
        gradients = tf.gradients(total, wanted, unconnected_gradients=tf.UnconnectedGradients.ZERO)
        return Result(*session.run((outputs, state.c, state.h, gradients)))


def numpy_lstm(case: Case) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Row by row, frame by frame, in float64."""

    def sigmoid(x: np.ndarray) -> np.ndarray:
        return 1 / (1 + np.exp(-x))

    outputs = np.zeros(case.inputs.shape)
    last_c, last_h = case.c.astype(np.float64), case.h.astype(np.float64)
    for row, length in enumerate(case.lengths):
        for t in range(length):
            gates = np.concatenate([case.inputs[t, row], last_h[row]]) @ case.kernel.astype(np.float64) + case.bias
            i, ci, f, o = np.split(gates, 4)
            last_c[row] = sigmoid(f) * last_c[row] + sigmoid(i) * np.tanh(ci)
            last_h[row] = outputs[t, row] = sigmoid(o) * np.tanh(last_c[row])
    return outputs, last_c, last_h


def assert_same(result: Result, expected: Result) -> None:
    for computed, wanted in zip(result[:3], expected[:3], strict=True):
        np.testing.assert_allclose(computed, wanted, rtol=1e-5, atol=2e-6)
    names = ['inputs', 'kernel', 'bias', 'initial c', 'initial h']
    for name, computed, wanted in zip(names, result.gradients, expected.gradients, strict=True):
        np.testing.assert_allclose(computed, wanted, rtol=1e-5, atol=5e-6, err_msg=name)


@pytest.mark.parametrize('lengths', LENGTHS.values(), ids=LENGTHS.keys())
@pytest.mark.parametrize('name', ON_CPU)
def test_outputs_and_states(name: str, lengths: list[int]) -> None:
    case = make_case(lengths)
    result = run(name, case)
    for computed, wanted in zip(result[:3], numpy_lstm(case), strict=True):
        np.testing.assert_allclose(computed, wanted, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize('differentiate', ['all', 'outputs'])
@pytest.mark.parametrize('lengths', LENGTHS.values(), ids=LENGTHS.keys())
@pytest.mark.parametrize('name', ['hoisted', 'block'])
def test_gradients(name: str, lengths: list[int], differentiate: str) -> None:
    """Against TensorFlow's own differentiation of plain operations."""
    case = make_case(lengths)
    assert_same(run(name, case, differentiate=differentiate), run('unrolled', case, differentiate=differentiate))


@pytest.mark.parametrize('large', [0, 2**25], ids=['in parts', 'whole'])
@pytest.mark.parametrize('orientation', [Rows(), Columns()], ids=['rows', 'columns'])
@pytest.mark.parametrize('lengths', LENGTHS.values(), ids=LENGTHS.keys())
def test_hoisted_on_every_cpu(
    lengths: list[int], orientation: Orientation, large: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is chosen by the kind of CPU and the size of the model."""
    monkeypatch.setattr(hoisted, 'choose_orientation', lambda n_hidden: orientation)
    monkeypatch.setattr('deepspeech_training.model.lstm.orientation.LARGE', large)
    case = make_case(lengths)
    assert_same(run('hoisted', case), run('unrolled', case))


def test_orientation_of_large_models() -> None:
    assert isinstance(choose_orientation(2048), Columns)
    assert isinstance(choose_orientation(64), Rows) == (' avx512f ' in Path('/proc/cpuinfo').read_text())


def test_gradients_of_the_reference_are_slopes() -> None:
    """The reference itself, against differences of the NumPy one."""
    case = make_case([4, 2])
    result = run('unrolled', case)

    def total(changed: Case) -> float:
        outputs, c, h = numpy_lstm(changed)
        return float((outputs * case.by_output).sum() + (c * case.by_c).sum() + (h * case.by_h).sum())

    fields = ['inputs', 'kernel', 'bias', 'c', 'h']
    random = np.random.default_rng(3)
    for name, gradient in zip(fields, result.gradients, strict=True):
        value = getattr(case, name).astype(np.float64)
        direction = random.normal(size=value.shape)
        up, down = (total(case._replace(**{name: value + step * direction})) for step in (1e-5, -1e-5))
        assert (gradient * direction).sum() == pytest.approx((up - down) / 2e-5, rel=1e-4), name


@pytest.mark.parametrize(('dtype', 'unit'), [('bfloat16', 2**-8), ('float16', 2**-11)])
@pytest.mark.parametrize('lengths', LENGTHS.values(), ids=LENGTHS.keys())
@pytest.mark.parametrize('name', ON_CPU)
def test_half_precision(name: str, lengths: list[int], dtype: str, unit: float) -> None:
    """Within three rounding errors of float32 in each result, taken as one vector; zero behind the end all the same."""
    case = make_case(lengths)
    expected, result = run('unrolled', case), run(name, case, dtype=dtype)
    for computed, wanted in zip([*result[:3], *result.gradients], [*expected[:3], *expected.gradients], strict=True):
        assert computed.dtype == np.float32
        assert np.linalg.norm(computed - wanted) <= 3 * unit * np.linalg.norm(wanted)
    assert np.abs(result.outputs - expected.outputs).max() > 0
    behind = np.arange(max(lengths))[:, None] >= case.lengths
    assert not result.outputs[behind].any()
    assert not result.gradients[0][behind].any()


@pytest.mark.parametrize('value', [1e6, -1e6])
@pytest.mark.parametrize('name', ON_CPU)
def test_padding_changes_nothing(name: str, value: float) -> None:
    case = make_case([7, 3, 5, 0])
    padding = np.arange(7)[:, None] >= case.lengths
    padded = case._replace(inputs=np.where(padding[:, :, None], value, case.inputs).astype(np.float32))
    expected, result = run(name, case), run(name, padded)
    assert_same(result, expected)
    assert not result.outputs[padding].any()
    assert not result.gradients[0][padding].any()


@pytest.mark.parametrize('name', ON_CPU)
def test_longer_batch_changes_nothing(name: str) -> None:
    """The same utterances with more frames behind them."""
    case = make_case([4, 2])
    longer = case._replace(
        inputs=np.concatenate([case.inputs, case.inputs]), by_output=np.concatenate([case.by_output, case.by_output])
    )
    expected, result = run(name, case), run(name, longer)
    gradients = [result.gradients[0][:4], *result.gradients[1:]]
    assert_same(result._replace(outputs=result.outputs[:4], gradients=gradients), expected)


@pytest.mark.parametrize('name', ON_CPU)
def test_without_lengths_all_frames_count(name: str) -> None:
    case = make_case([5, 5])
    assert_same(run(name, case, lengths_given=False), run(name, case))


@pytest.mark.parametrize('name', ON_CPU)
def test_two_halves_are_the_whole(name: str) -> None:
    case = make_case([6, 6])
    whole = run(name, case)
    half = np.array([3, 3], np.int32)
    first = run(name, case._replace(inputs=case.inputs[:3], by_output=case.by_output[:3], lengths=half))
    second = run(
        name, case._replace(inputs=case.inputs[3:], by_output=case.by_output[3:], lengths=half, c=first.c, h=first.h)
    )
    np.testing.assert_allclose(np.concatenate([first.outputs, second.outputs]), whole.outputs, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(second.c, whole.c, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize('name', ['hoisted', 'block'])
def test_numbers_of_frames_and_rows_may_vary(name: str, graph: tf.Graph) -> None:
    """One graph for batches of every shape, without gradients."""
    inputs = tfv1.placeholder(tf.float32, [None, None, N])
    lengths = tfv1.placeholder(tf.int32, [None])
    kernel, bias = tfv1.placeholder(tf.float32, [2 * N, 4 * N]), tfv1.placeholder(tf.float32, [4 * N])
    c, h = tfv1.placeholder(tf.float32, [None, N]), tfv1.placeholder(tf.float32, [None, N])
    outputs, _ = LSTM_IMPLEMENTATIONS[name](inputs, lengths, kernel, bias, LSTMState(c, h), training=False)
    with tfv1.Session(graph=graph) as session:
        for case_lengths in ([3, 2], [1], [5, 1, 4]):
            case = make_case(case_lengths)
            fed = [inputs, lengths, kernel, bias, c, h]
            computed = session.run(outputs, dict(zip(fed, case[:6], strict=True)))
            np.testing.assert_allclose(computed, numpy_lstm(case)[0], rtol=1e-5, atol=1e-6)


def test_unrolled_needs_a_static_number_of_frames(graph: tf.Graph) -> None:
    inputs = tfv1.placeholder(tf.float32, [None, 2, N])
    state = LSTMState(tf.zeros([2, N]), tf.zeros([2, N]))
    with pytest.raises(ValueError, match='static number of frames'):
        LSTM_IMPLEMENTATIONS['unrolled'](inputs, None, tf.zeros([10, 20]), tf.zeros([20]), state, training=False)


@pytest.mark.parametrize('dtype', ['float32', 'bfloat16', 'float16'])
def test_cudnn_graph_can_be_built_and_differentiated(dtype: str, graph: tf.Graph) -> None:
    """It runs on a GPU only; here its shapes, types and its gradient function are checked."""
    case = make_case([4, 2])
    kernel, bias = tf.constant(case.kernel), tf.constant(case.bias)
    state = LSTMState(tf.constant(case.c), tf.constant(case.h))
    outputs, final = LSTM_IMPLEMENTATIONS['cudnn'](
        tf.cast(case.inputs, dtype), tf.constant(case.lengths), kernel, bias, state, training=True
    )
    assert {part.dtype for part in (outputs, *final)} == {tf.float32}
    assert outputs.shape.as_list() == [4, 2, N]
    assert final.c.shape.as_list() == final.h.shape.as_list() == [2, N]
    gradients = tf.gradients(tf.reduce_sum(outputs), [kernel, bias])
    assert [gradient.shape.as_list() for gradient in gradients] == [[2 * N, 4 * N], [4 * N]]
    assert {gradient.dtype for gradient in gradients} == {tf.float32}
    computing = {op.type: op.get_attr('T') for op in graph.get_operations() if op.type.startswith('CudnnRNN')}
    expected = tf.float16 if dtype == 'float16' else tf.float32  # for bfloat16 too, as its kernel would
    assert computing == dict.fromkeys(('CudnnRNNV3', 'CudnnRNNBackpropV3'), expected)


def test_cudnn_parameters_describe_the_same_lstm(graph: tf.Graph) -> None:
    """An LSTM as cuDNN's manual writes it, fed from the flat parameters."""
    case = make_case([5])
    with tfv1.Session(graph=graph) as session:
        flat = session.run(opaque_params(tf.constant(case.kernel), tf.constant(case.bias)))
    assert flat.shape == (8 * N * N + 8 * N,)
    matrices = flat[: 8 * N * N].reshape(8, N, N)
    biases = flat[8 * N * N :].reshape(8, N)
    x, (c,), (h,) = case.inputs[:, 0], case.c, case.h
    for t in range(5):
        gates = [matrices[g] @ x[t] + matrices[g + 4] @ h + biases[g] + biases[g + 4] for g in range(4)]
        i, f, o = (1 / (1 + np.exp(-gates[g])) for g in (0, 1, 3))
        c = f * c + i * np.tanh(gates[2])
        h = o * np.tanh(c)
        np.testing.assert_allclose(h, numpy_lstm(case)[0][t, 0], rtol=1e-5, atol=1e-6)


def test_choice_follows_flags_and_devices() -> None:
    auto, block = ModelConfig(), ModelConfig(lstm='block')
    usual, cudnn = ParallelConfig(), ParallelConfig(train_cudnn=True)
    assert choose_lstm(auto, usual, gpus=False) == 'hoisted'
    assert choose_lstm(auto, usual, gpus=True) == 'block'
    assert choose_lstm(block, usual, gpus=False) == 'block'
    assert choose_lstm(auto, cudnn, gpus=True) == 'cudnn'
    with pytest.raises(FlagError, match='needs a GPU'):
        choose_lstm(auto, cudnn, gpus=False)
    with pytest.raises(FlagError, match=r"'gru' is unknown.*hoisted"):
        choose_lstm(ModelConfig(lstm='gru'), usual, gpus=False)


def test_variables_are_deepspeechs(graph: tf.Graph) -> None:
    state = LSTMState(tf.zeros([2, N]), tf.zeros([2, N]))
    for name in ON_CPU:
        lstm_layer(tf.zeros([3, 2, N]), None, state, implementation=name, training=True)
    prefix = 'cudnn_lstm/rnn/multi_rnn_cell/cell_0/cudnn_compatible_lstm_cell/'
    assert {(v.op.name, tuple(v.shape.as_list())) for v in tfv1.trainable_variables()} == {
        (prefix + 'kernel', (2 * N, 4 * N)),
        (prefix + 'bias', (4 * N,)),
    }

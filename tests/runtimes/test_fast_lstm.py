"""A client's graph with another LSTM computes the same."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import tensorflow as tf

from deepspeech_training.runtimes.fast_lstm import import_with_fast_lstm

tfv1 = tf.compat.v1


def run(definition: tf.compat.v1.GraphDef, least_units: int, steps: int) -> tuple[list[np.ndarray], set[str]]:
    """Outputs for noise and a state that is not zero, of which `steps` frames count; and the graph's operations."""
    with tf.Graph().as_default() as graph, tfv1.Session() as session:
        import_with_fast_lstm(definition, least_units)
        shapes = {name: graph.get_tensor_by_name(f'{name}:0').shape for name in ('input_node', 'previous_state_c')}
        random = np.random.default_rng(1)
        feed = {f'{name}:0': random.normal(size=shape) for name, shape in shapes.items()}
        feed |= {'previous_state_h:0': random.normal(size=shapes['previous_state_c']), 'input_lengths:0': [steps]}
        logits, *states = session.run(['logits:0', 'new_state_c:0', 'new_state_h:0'], feed)
        assert session.run('metadata_version:0') == [6]
        return [logits[:steps], *states], {operation.type for operation in graph.get_operations()}


def test_it_computes_the_same(frozen: str) -> None:
    definition = tfv1.GraphDef.FromString(Path(frozen).read_bytes())
    for steps in (5, 3):
        expected, plain = run(definition, 1000, steps)
        computed, fast = run(definition, 1, steps)
        assert ('BlockLSTM' in plain, 'BlockLSTM' in fast) == (True, False)
        for one, other in zip(expected, computed, strict=True):
            np.testing.assert_allclose(other, one, rtol=0, atol=1e-5)


def test_so_does_deepspeechs_own(deepspeech_data: Path) -> None:
    path = deepspeech_data / 'deepspeech-0.9.3' / 'resume-check' / 'output_graph.pb'
    definition = tfv1.GraphDef.FromString(path.read_bytes())
    (expected, plain), (computed, fast) = run(definition, 1000, 9), run(definition, 64, 9)
    assert ('BlockLSTM' in plain, 'BlockLSTM' in fast) == (True, False)
    for one, other in zip(expected, computed, strict=True):
        np.testing.assert_allclose(other, one, rtol=0, atol=1e-5)

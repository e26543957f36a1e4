"""The LSTM of a frozen graph, exchanged for one that reads its weights half as often."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import tensorflow as tf

from deepspeech_training.model.lstm.hoisted import hoisted_lstm
from deepspeech_training.model.lstm.state import LSTMState

tfv1 = tf.compat.v1

LOGITS, LENGTHS = 'logits', 'input_lengths'
NEW_STATES = ('new_state_c', 'new_state_h')
OUTPUT_H = 6  # of BlockLSTM

LEAST_UNITS = 512
"""Smaller weights stay in the processor's caches, and a loop in the graph costs more than it saves."""


def import_with_fast_lstm(definition: Any, least_units: int = LEAST_UNITS) -> None:
    """Imports a client's graph (a `GraphDef`) into the default graph, with the names of its inputs and outputs.

    `BlockLSTM` multiplies each frame, its input and the previous output, by all weights, which for one utterance
    means to read them from memory frame by frame. Here all inputs are multiplied at once (`model.lstm.hoisted`).
    A graph without that operation, or with less than `least_units` units, is imported as it is.
    """
    nodes = {node.name: node for node in definition.node}
    block = _large_block(nodes, least_units)
    if block is None:
        tf.import_graph_def(definition, name='')
        return
    metadata = {name for name in nodes if name.startswith('metadata_')}
    before = _ancestors(nodes, {*map(_node_of, block.input), LENGTHS, *metadata})
    _import_nodes(definition, before, {})
    _, x, c, h, kernel, _, _, _, bias = (_tensor(name) for name in block.input)
    outputs, state = hoisted_lstm(x, _tensor(LENGTHS), kernel, bias, LSTMState(c, h), training=False)
    after = _ancestors(nodes, {LOGITS}) - before - {block.name}
    _import_nodes(definition, after, {f'{block.name}:{OUTPUT_H}': outputs})
    for name, value in zip(NEW_STATES, state, strict=True):
        tf.identity(value, name=name)


def _large_block(nodes: Mapping[str, Any], least_units: int) -> Any:
    """The one `BlockLSTM` of a graph like DeepSpeech's; None where it is small or something else is there."""
    blocks = [node for node in nodes.values() if node.op == 'BlockLSTM']
    if len(blocks) != 1 or not {LOGITS, LENGTHS, *NEW_STATES} <= set(nodes):
        return None
    (block,) = blocks
    kernel = nodes.get(_node_of(block.input[4]))
    usual = not block.attr['use_peephole'].b and block.attr['forget_bias'].f == 0 and block.attr['cell_clip'].f < 0
    while kernel is not None and kernel.op == 'Identity':
        kernel = nodes.get(_node_of(kernel.input[0]))
    if not usual or kernel is None or kernel.op != 'Const' or len(block.input) != 9:
        return None
    shape = kernel.attr['value'].tensor.tensor_shape.dim
    return block if len(shape) == 2 and shape[1].size >= 4 * least_units else None


def _ancestors(nodes: Mapping[str, Any], names: Iterable[str]) -> set[str]:
    """`names` and all that they depend on."""
    found: set[str] = set()
    waiting = list(names)
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting += map(_node_of, nodes[name].input)
    return found


def _import_nodes(definition: Any, names: set[str], given: Mapping[str, tf.Tensor]) -> None:
    """Imports those of `names`; what they need of other nodes is `given`, or in the default graph already."""
    part = tfv1.GraphDef(versions=definition.versions)
    part.node.extend(node for node in definition.node if node.name in names)
    needed = {name for node in part.node for name in node.input if _node_of(name) not in names}
    tf.import_graph_def(part, {name: given[name] if name in given else _tensor(name) for name in needed}, name='')


def _node_of(name: str) -> str:
    return name.removeprefix('^').split(':')[0]


def _tensor(name: str) -> tf.Tensor:
    return tfv1.get_default_graph().get_tensor_by_name(name if ':' in name else f'{name}:0')

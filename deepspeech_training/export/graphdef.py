"""From a graph with variables to a frozen one that small and older runtimes load, too."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import tensorflow as tf

tfv1 = tf.compat.v1

# fmt: off
CLIENT_OPS = frozenset((
    # Those of the graphs that DeepSpeech wrote.
    'AudioSpectrogram', 'BiasAdd', 'BlockLSTM', 'Cast', 'ConcatV2', 'Const', 'ExpandDims', 'GatherNd', 'Identity',
    'Less', 'MatMul', 'Max', 'Mfcc', 'Minimum', 'Mul', 'Pack', 'Placeholder', 'Range', 'Relu', 'Reshape', 'Softmax',
    'Tile', 'Transpose',
    # Others it turned out to have. It lacks, for example, Exp, Log, Maximum, RealDiv, Sqrt, StridedSlice and Unpack.
    'Add', 'AddV2', 'Elu', 'Fill', 'LogSoftmax', 'Mean', 'Rsqrt', 'Shape', 'SquaredDifference', 'Squeeze',
    'StopGradient', 'Sub', 'Sum',
))
# fmt: on
"""Operations that the runtime inside `deepspeech==0.9.3` has a CPU kernel for."""


def freeze(session: tf.compat.v1.Session, outputs: Sequence[str]) -> tf.compat.v1.GraphDef:
    """The part of the session's graph that `outputs` (names of operations) depend on, without variables.

    Each variable becomes a constant of its name and present value. What depends on constants alone (mostly arithmetic
    on static shapes) becomes a constant, too. Devices, colocation and attributes that equal their default are left out:
    a runtime older than an attribute would refuse the node. The graph must not have loops.
    Raises `KeyError` for an output that is not in the graph.
    """
    graph = session.graph
    operations = _ancestors(graph, outputs)
    constant = _constant_operations(operations)
    kept = [operation for operation in operations if operation not in constant and operation.type != 'VarHandleOp']
    used = [tensor for operation in kept for tensor in operation.inputs]
    used += [graph.get_operation_by_name(name).outputs[0] for name in outputs]
    used = [tensor for tensor in used if tensor.op in constant]
    values = {_constant_name(tensor): tensor for tensor in used}
    for operation in kept:
        if operation.type == 'ReadVariableOp':
            values[operation.inputs[0].op.name] = operation.outputs[0]

    frozen = tfv1.GraphDef(versions=graph.as_graph_def().versions)
    for name, value in session.run(values).items():
        frozen.node.append(_constant(name, value))
    names = {tensor.name: _constant_name(tensor) for tensor in used}
    definition = tfv1.train.export_meta_graph(graph=graph, clear_devices=True, strip_default_attrs=True).graph_def
    nodes = {node.name: node for node in definition.node}
    for operation in kept:
        frozen.node.append(_frozen_node(nodes[operation.name], operation, names))
    return frozen


def missing_operations(graph_def: tf.compat.v1.GraphDef) -> list[str]:
    """The operations of `graph_def` that the `deepspeech` 0.9.3 client does not have, sorted."""
    return sorted({node.op for node in graph_def.node} - CLIENT_OPS)


def _ancestors(graph: tf.Graph, outputs: Sequence[str]) -> list[tf.Operation]:
    """The operations that `outputs` depend on, themselves included, each after those it depends on."""
    found: set[str] = set()
    waiting = [graph.get_operation_by_name(name) for name in outputs]
    while waiting:
        operation = waiting.pop()
        if operation.name not in found:
            found.add(operation.name)
            waiting += [tensor.op for tensor in operation.inputs] + list(operation.control_inputs)
    return [operation for operation in graph.get_operations() if operation.name in found]


def _constant_operations(operations: Sequence[tf.Operation]) -> set[tf.Operation]:
    """Those that depend on nothing that changes: no placeholder, no variable, no state."""
    constant: set[tf.Operation] = set()
    for operation in operations:
        changes = operation.type == 'Placeholder' or operation.op_def.is_stateful
        if not changes and all(tensor.op in constant for tensor in operation.inputs):
            constant.add(operation)
    return constant


def _constant_name(tensor: tf.Tensor) -> str:
    return tensor.op.name if tensor.value_index == 0 else f'{tensor.op.name}/output_{tensor.value_index}'


def _constant(name: str, value: np.ndarray) -> tf.compat.v1.NodeDef:
    node = tfv1.NodeDef(name=name, op='Const')
    node.attr['value'].tensor.CopyFrom(tf.make_tensor_proto(value))
    node.attr['dtype'].type = node.attr['value'].tensor.dtype
    return node


def _frozen_node(
    node: tf.compat.v1.NodeDef, operation: tf.Operation, constant_names: dict[str, str]
) -> tf.compat.v1.NodeDef:
    """`node` with constants of `constant_names` (from tensor name) for its inputs where there are some."""
    frozen = tfv1.NodeDef(name=node.name, op=node.op)
    for source, tensor in zip(node.input, operation.inputs, strict=False):  # control inputs follow, and are left out
        frozen.input.append(constant_names.get(tensor.name, source))
    for key, value in node.attr.items():
        if not key.startswith('_'):
            frozen.attr[key].CopyFrom(value)
    if node.op == 'ReadVariableOp':
        frozen.op = 'Identity'
        frozen.attr['T'].CopyFrom(frozen.attr['dtype'])
        del frozen.attr['dtype']
    return frozen

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

PASSING_ON = ('Identity', 'IdentityN', 'StopGradient')
"""Operations whose outputs are their inputs; training wants some of them for its gradients."""

LEFT_OUT = (*PASSING_ON, 'VarHandleOp', 'ReadVariableOp')


def freeze(session: tf.compat.v1.Session, outputs: Sequence[str]) -> tf.compat.v1.GraphDef:
    """The part of the session's graph that `outputs` (names of operations) depend on, without variables.

    Each variable becomes a constant of its name and present value. What depends on constants alone (mostly arithmetic
    on static shapes) becomes a constant, too, and what only passes a value on is left out. So are devices, colocation
    and attributes that equal their default: a runtime older than an attribute would refuse the node.
    The graph must not have loops. Raises `KeyError` for an output that is not in the graph.
    """
    graph = session.graph
    operations = _ancestors(graph, outputs)
    constant = _constant_operations(operations)
    kept = [op for op in operations if op not in constant and (op.name in outputs or op.type not in LEFT_OUT)]
    used = [_source(tensor, outputs) for op in kept for tensor in op.inputs]
    used += [graph.get_operation_by_name(name).outputs[0] for name in outputs]
    constants = {
        tensor.name: (_constant_name(tensor), tensor)
        for tensor in used
        if tensor.op in constant or tensor.op.type == 'ReadVariableOp'
    }

    frozen = tfv1.GraphDef(versions=graph.as_graph_def().versions)
    for name, value in session.run(dict(constants.values())).items():
        frozen.node.append(_constant(name, value))
    definition = tfv1.train.export_meta_graph(graph=graph, clear_devices=True, strip_default_attrs=True).graph_def
    attributes = {node.name: node.attr for node in definition.node}
    for op in kept:
        node = frozen.node.add(name=op.name, op=op.type)
        for tensor in op.inputs:
            source = _source(tensor, outputs).name
            node.input.append(constants[source][0] if source in constants else source.removesuffix(':0'))
        for key, value in attributes[op.name].items():
            if not key.startswith('_'):
                node.attr[key].CopyFrom(value)
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


def _source(tensor: tf.Tensor, outputs: Sequence[str]) -> tf.Tensor:
    """Where the value of `tensor` comes from, past operations that only pass it on."""
    while tensor.op.type in PASSING_ON and tensor.op.name not in outputs:
        tensor = tensor.op.inputs[tensor.value_index]
    return tensor


def _constant_name(tensor: tf.Tensor) -> str:
    """Of the constant that takes the place of `tensor`: the variable's, the operation's, or one below the latter."""
    if tensor.op.type == 'ReadVariableOp':
        return str(tensor.op.inputs[0].op.name)
    return tensor.op.name if tensor.value_index == 0 else f'{tensor.op.name}/output_{tensor.value_index}'


def _constant(name: str, value: np.ndarray) -> tf.compat.v1.NodeDef:
    node = tfv1.NodeDef(name=name, op='Const')
    node.attr['value'].tensor.CopyFrom(tf.make_tensor_proto(value))
    node.attr['dtype'].type = node.attr['value'].tensor.dtype
    return node

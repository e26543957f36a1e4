"""Export as a SavedModel, in the folders that TensorFlow Serving watches: `MODEL_NAME/VERSION/`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import tensorflow as tf
from tensorflow.core.protobuf import saved_model_pb2

from deepspeech_training.checkpoints.tensors import reason_of
from deepspeech_training.config import Config, ExportConfig
from deepspeech_training.errors import ExportError
from deepspeech_training.export.checks import LARGEST_VERSION, WHOLE_NUMBER
from deepspeech_training.export.files import Part
from deepspeech_training.export.serving_graph import Signature, create_signatures
from deepspeech_training.export.weights import Weights, read_weights
from deepspeech_training.text.alphabet import Alphabet

tfv1 = tf.compat.v1


def savedmodel_parts(config: Config, alphabet: Alphabet) -> dict[str, Part]:
    """The checkpoint's model as the folder `MODEL_NAME/VERSION`.

    Raises `CheckpointError` where there is no checkpoint or it does not fit the flags.
    """
    weights = read_weights(config, alphabet)
    name = f'{config.export.model_name}/{savedmodel_version(config.export)}'

    def write(path: Path) -> None:
        with tf.Graph().as_default(), tfv1.variable_scope(tfv1.get_variable_scope(), custom_getter=_start_with_zeros):
            signatures = create_signatures(config, alphabet)
            try:
                _write(path, signatures, weights)
            except tf.errors.OpError as error:
                raise ExportError(
                    f'--export_dir={config.export.export_dir}: cannot write {name}: {reason_of(error)}'
                ) from None

    return {name: Part(write)}


def savedmodel_version(export: ExportConfig) -> int:
    """The number of the model's folder: `--export_model_version` if that is a whole number, else the next one.

    The next one is one more than the greatest there is, 1 at first; Serving serves the greatest.
    """
    if WHOLE_NUMBER.fullmatch(export.model_version):
        return int(export.model_version)
    folder = Path(export.export_dir, export.model_name)
    names = [path.name for path in folder.iterdir()] if folder.is_dir() else []
    versions = (int(name) for name in names if WHOLE_NUMBER.fullmatch(name))
    return 1 + max((version for version in versions if version < LARGEST_VERSION), default=0)


def _start_with_zeros(getter: Callable[..., tf.Variable], name: str, **options: Any) -> tf.Variable:
    """A variable without the random numbers that training starts with; the export does not need them."""
    return getter(name, **{**options, 'initializer': tfv1.zeros_initializer()})


def _write(path: Path, signatures: Mapping[str, Signature], weights: Weights) -> None:
    """Writes the default graph with `weights` in its variables to the folder `path`."""
    builder = tfv1.saved_model.Builder(str(path))
    proto = tfv1.ConfigProto(device_count={'GPU': 0})
    with tfv1.Session(config=proto) as session:
        for variable in tfv1.global_variables():
            variable.load(weights[variable.op.name], session)
        builder.add_meta_graph_and_variables(
            session,
            [tf.saved_model.SERVING],
            {name: _signature_def(signature) for name, signature in signatures.items()},
            clear_devices=True,
            strip_default_attrs=True,
            saver=tfv1.train.Saver(),  # the builder's own has a random name in the graph
        )
    builder.save()
    _forget_gradients(path / 'saved_model.pb')


def _forget_gradients(file: Path) -> None:
    """Takes the names of our own gradients out of the graph: they are for training, and differ each time."""
    content = saved_model_pb2.SavedModel.FromString(file.read_bytes())
    for meta_graph in content.meta_graphs:
        for node in meta_graph.graph_def.node:
            node.attr.pop('_gradient_op_type', None)
    file.write_bytes(content.SerializeToString(deterministic=True))


def _signature_def(signature: Signature) -> Any:
    return tfv1.saved_model.build_signature_def(
        inputs={name: tfv1.saved_model.build_tensor_info(tensor) for name, tensor in signature.inputs.items()},
        outputs={name: tfv1.saved_model.build_tensor_info(tensor) for name, tensor in signature.outputs.items()},
        method_name=tfv1.saved_model.signature_constants.PREDICT_METHOD_NAME,
    )

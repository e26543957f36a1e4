"""Export to TensorFlow Lite, the `.tflite` file of DeepSpeech's small clients and of Coqui STT."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

import tensorflow as tf

from deepspeech_training import log
from deepspeech_training.checkpoints import CheckpointStore
from deepspeech_training.config import Config
from deepspeech_training.export.files import Part, model_file, part_of_bytes
from deepspeech_training.export.graphdef import freeze
from deepspeech_training.export.inference_graph import create_inference_graph
from deepspeech_training.export.metadata import create_metadata
from deepspeech_training.export.package import zip_part
from deepspeech_training.export.tflite_for_clients import for_clients
from deepspeech_training.graphs import geometry
from deepspeech_training.text.alphabet import Alphabet

tfv1 = tf.compat.v1


def tflite_parts(config: Config, alphabet: Alphabet) -> dict[str, Part]:
    """The checkpoint's model as `FILE_NAME.tflite`, and `FILE_NAME.zip` if wanted.

    Raises `CheckpointError` where there is no checkpoint or it does not fit.
    """
    export = config.export
    model = tflite_model(config, alphabet)
    parts = {model_file(export, '.tflite'): part_of_bytes(model, foreign='replace')}
    if export.zip:
        parts[model_file(export, '.zip')] = zip_part(export, alphabet, model)
    return parts


def tflite_model(config: Config, alphabet: Alphabet) -> bytes:
    """The checkpoint's model as the content of a TensorFlow Lite file.

    Inputs and outputs are those of `create_inference_graph`, and the `metadata_*` outputs. The LSTM is unrolled: the
    file has no loop, and `n_steps` are always computed.
    Raises `CheckpointError` where there is no checkpoint or it does not fit.
    """
    if config.export.batch_size != 1:
        log.warn(
            f'--export_batch_size={config.export.batch_size}: the clients of DeepSpeech and Coqui STT run models of '
            'batch size 1 only; this one is for TensorFlow Lite itself'
        )
    with tf.Graph().as_default():
        graph = create_inference_graph(config, alphabet.size + 1, lstm='unrolled', tflite=True)
        outputs = {**graph.outputs, **create_metadata(config, alphabet)}
        store = CheckpointStore(config.checkpoints, geometry(config, alphabet))
        with tfv1.Session(config=tfv1.ConfigProto(device_count={'GPU': 0})) as session:
            store.restore_for_evaluation(session)
            frozen = freeze(session, [*graph.inputs, *outputs])
    return for_clients(_convert(frozen, list(graph.inputs), list(outputs)), quantize=config.export.quantize)


def _convert(frozen: tf.compat.v1.GraphDef, inputs: list[str], outputs: list[str]) -> bytes:
    """A TensorFlow Lite file in float32 of a graph whose inputs and outputs have these names."""
    with tf.Graph().as_default() as graph:
        tf.import_graph_def(frozen, name='')
        tensors = [[graph.get_tensor_by_name(f'{name}:0') for name in names] for names in (inputs, outputs)]
        converter = tfv1.lite.TFLiteConverter(frozen, *tensors)
        converter.allow_custom_ops = True  # AudioSpectrogram and Mfcc, which all runtimes have
        with _no_log_lines_twice():
            content: bytes = converter.convert()
        return content


@contextmanager
def _no_log_lines_twice() -> Iterator[None]:
    """The converter logs through absl, which gives the root logger a handler where it has none: for our lines, too."""
    handler = logging.NullHandler()
    logging.getLogger().addHandler(handler)
    try:
        yield
    finally:
        logging.getLogger().removeHandler(handler)

"""Export to a frozen TensorFlow graph, the `.pb` file of DeepSpeech's clients."""

from __future__ import annotations

import tensorflow as tf

from deepspeech_training import log
from deepspeech_training.checkpoints import CheckpointStore
from deepspeech_training.config import Config
from deepspeech_training.export.files import Part, model_file, part_of_bytes
from deepspeech_training.export.graphdef import freeze, missing_operations
from deepspeech_training.export.inference_graph import create_inference_graph
from deepspeech_training.export.metadata import create_metadata
from deepspeech_training.graphs import geometry
from deepspeech_training.text.alphabet import Alphabet

tfv1 = tf.compat.v1


def frozen_parts(config: Config, alphabet: Alphabet) -> dict[str, Part]:
    """The checkpoint's model as `FILE_NAME.pb`. Raises `CheckpointError` where there is none or it does not fit."""
    graph_def = _frozen_graph(config, alphabet)
    _warn_of_clients(config, graph_def)
    return {
        model_file(config.export, '.pb'): part_of_bytes(
            graph_def.SerializeToString(deterministic=True), foreign='replace'
        )
    }


def _frozen_graph(config: Config, alphabet: Alphabet) -> tf.compat.v1.GraphDef:
    """The inference graph with its metadata and the checkpoint's weights."""
    with tf.Graph().as_default():
        graph = create_inference_graph(config, alphabet.size + 1, lstm='block')
        metadata = create_metadata(config, alphabet)
        store = CheckpointStore(config.checkpoints, geometry(config, alphabet))
        proto = tfv1.ConfigProto(device_count={'GPU': 0})  # nothing is computed, and a GPU's memory may be taken
        with tfv1.Session(config=proto) as session:
            store.restore_for_evaluation(session)
            return freeze(session, [*graph.inputs, *graph.outputs, *metadata])


def _warn_of_clients(config: Config, graph_def: tf.compat.v1.GraphDef) -> None:
    """Says so when DeepSpeech's client will not run this model, though TensorFlow does."""
    if config.export.batch_size != 1:
        log.warn(
            f'--export_batch_size={config.export.batch_size}: the deepspeech client runs models of batch size 1 only; '
            'this one is for TensorFlow'
        )
    elif missing := missing_operations(graph_def):
        log.warn(
            f'the deepspeech 0.9.3 client cannot run this model, it lacks {", ".join(missing)}; TensorFlow runs it'
        )

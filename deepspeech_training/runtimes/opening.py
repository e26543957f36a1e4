"""Opens whatever kind of model a path leads to."""

from __future__ import annotations

from deepspeech_training.config import FeatureConfig
from deepspeech_training.errors import ModelError
from deepspeech_training.runtimes.content import Content, recognise
from deepspeech_training.runtimes.runtime import Runtime


def open_model(
    path: str,
    *,
    threads: int = 0,
    alphabet_path: str = '',
    features: FeatureConfig | None = None,
    load: str = 'auto',
) -> Runtime:
    """The model at `path`: a checkpoint, a frozen graph, a TFLite or ONNX model or a SavedModel, by its content.

    `threads`: of the computation; 0: one a core. The others are for checkpoints, see `checkpoint.open_checkpoint`.

    Raises `ModelError` or `CheckpointError`: it is no model, is damaged, its metadata are of another version, or the
    package that runs it is not installed.
    """
    content, place = recognise(path)
    if content is not Content.CHECKPOINT and alphabet_path:
        raise ModelError(f'{path}: has its own alphabet; --alphabet_config_path is for checkpoints')
    match content:
        case Content.CHECKPOINT:
            from deepspeech_training.runtimes.checkpoint import open_checkpoint

            return open_checkpoint(place, alphabet_path=alphabet_path, features=features, load=load, threads=threads)
        case Content.FROZEN:
            from deepspeech_training.runtimes.frozen import FrozenRuntime

            return FrozenRuntime(place, threads)
        case Content.TFLITE:
            from deepspeech_training.runtimes.tflite import TFLiteRuntime

            return TFLiteRuntime(place, threads)
        case Content.SAVED_MODEL:
            from deepspeech_training.runtimes.savedmodel import SavedModelRuntime

            return SavedModelRuntime(place, threads)
        case Content.ONNX:
            from deepspeech_training.runtimes.onnx import open_onnx

            return open_onnx(place, threads)

"""Checkpoints: this trainer's, which say what the model is, and DeepSpeech's, which do not."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from deepspeech_training import log
from deepspeech_training.checkpoints import BEST, LAST, CheckpointStore, Found, GraphVariables
from deepspeech_training.checkpoints.fitting import Geometry, Shapes, check_description, missing_variables
from deepspeech_training.checkpoints.folder import named_checkpoints, read_state, what_is_wrong
from deepspeech_training.checkpoints.tensors import read_shapes, read_tensors
from deepspeech_training.config import FEATURE_BACKENDS, N_INPUT, CheckpointConfig, Config, FeatureConfig, ModelConfig
from deepspeech_training.errors import ModelError
from deepspeech_training.graphs import chosen_lstm, geometry, with_compute_type
from deepspeech_training.model.acoustic import create_model
from deepspeech_training.model.layers import WINDOW
from deepspeech_training.model.lstm import LSTMState
from deepspeech_training.runtimes.metadata import ModelInfo
from deepspeech_training.runtimes.runtime import Array
from deepspeech_training.runtimes.tensorflow_session import make_session
from deepspeech_training.runtimes.windowed import State, WindowedRuntime
from deepspeech_training.text.alphabet import NO_NORMALIZATION, Alphabet
from deepspeech_training.text.alphabets import alphabet_of_names
from deepspeech_training.text.byte_alphabet import ByteAlphabet

tfv1 = tf.compat.v1

MOST_FRAMES = 1024  # at a time, so that hours of audio do not fill the memory


class CheckpointRuntime(WindowedRuntime):
    """The training graph without dropout, with a checkpoint's weights."""

    kind = 'checkpoint'

    def __init__(self, config: Config, alphabet: Alphabet, threads: int = 0, path: str = '') -> None:
        """The checkpoint `path`, without suffix; if '', that which `config.checkpoints` says, as in testing.

        `threads`: of the computation; 0: one a core.
        Raises `CheckpointError`: there is none, or it is damaged or does not fit.
        """
        config = with_compute_type(config)
        info = ModelInfo(config.features, alphabet, config.decoding.beam_width, config.export.language)
        super().__init__(path, info, config.model.n_hidden, MOST_FRAMES, fixed=False)
        with tf.Graph().as_default() as graph:
            windows = tfv1.placeholder(tf.float32, [1, None, WINDOW, N_INPUT])
            c, h = (tfv1.placeholder(tf.float32, [1, self.n_hidden]) for _ in range(2))
            output = create_model(
                windows,
                None,
                config.model,
                alphabet.size + 1,
                training=False,
                lstm=chosen_lstm(config),
                initial_state=LSTMState(c, h),
            )
            log_probabilities = tf.nn.log_softmax(output.logits[:, 0])
            self._session = make_session(graph, threads, gpus=True)
            fitting = geometry(config, alphabet)
            if path:
                _load_weights(self._session, path, fitting)
            else:
                self.path = CheckpointStore(config.checkpoints, fitting).restore_for_evaluation(self._session)
            self._run = self._session.make_callable([log_probabilities, *output.state], feed_list=[windows, c, h])

    def run(self, frames: Array, state: State) -> tuple[Array, State]:
        log_probabilities, c, h = self._run(self.windows(frames), *state)
        return log_probabilities, State(c, h)

    def close(self) -> None:
        self._session.close()


def open_checkpoint(
    path: str,
    *,
    alphabet_path: str = '',
    features: FeatureConfig | None = None,
    load: str = 'auto',
    threads: int = 0,
) -> CheckpointRuntime:
    """The checkpoint `path`, without suffix, or the one of a folder that `load` (auto, last or best) chooses.

    Alphabet and features are those it was trained with, which is kept beside it; where DeepSpeech wrote it, those
    given, by default 16 kHz and windows of 32 ms every 20 ms. Without an alphabet, 256 outputs are bytes and a blank.

    Raises `CheckpointError` or `ModelError`: there is none, it is damaged, or nothing says what its alphabet is.
    """
    found = _find(path, load) if os.path.isdir(path) else _at(path)
    state = read_state(found) or {}
    description = state.get('model') or {}
    shapes = read_shapes(found.path)
    alphabet = _alphabet(found.path, description, shapes, alphabet_path)
    config = Config(
        features=_features(found.path, description.get('features') or {}, features or FeatureConfig()),
        model=_model(found.path, shapes, state.get('settings') or {}),
        checkpoints=CheckpointConfig(load_dir=os.path.dirname(found.path)),
    )
    check_description(found.path, description, geometry(config, alphabet))
    return CheckpointRuntime(config, alphabet, threads, found.path)


def _alphabet(path: str, description: Mapping[str, Any], shapes: Shapes, alphabet_path: str) -> Alphabet:
    """Raises `ModelError` where nothing says what it is, and `DataError` for a file that cannot be used."""
    form = description.get('unicode_normalization', NO_NORMALIZATION)
    if alphabet_path:
        return Alphabet.from_file(alphabet_path, form)
    if labels := description.get('alphabet'):
        return alphabet_of_names(labels, f'{path}.json', form)
    alphabet = ByteAlphabet()
    if list(shapes.get('layer_6/bias', ())) != [alphabet.size + 1]:
        raise ModelError(
            f'{path}: nothing beside this checkpoint says what its alphabet is; give --alphabet_config_path'
        )
    log.info(f'{path}: has {alphabet.size + 1} outputs, so it is taken for a model of {alphabet.path}')
    return alphabet


def _find(folder: str, load: str) -> Found:
    """The first that is whole. Raises `CheckpointError` or `ModelError`."""
    kinds = {'auto': (BEST, LAST), 'best': (BEST,), 'last': (LAST,)}[load]
    problems: list[str] = []
    for found in (each for kind in kinds for each in named_checkpoints(folder, kind)):
        wrong = what_is_wrong(found)
        if not wrong:
            for problem in problems:
                log.warn(f'{problem}; using {found.path} instead')
            return found
        problems.append(f'checkpoint {found.path}: {wrong}')
    wanted = '' if load == 'auto' else f'{load} '
    raise ModelError('; '.join(problems) or f'there is no {wanted}checkpoint in {folder}')


def _at(path: str) -> Found:
    found = Found(path, BEST if os.path.basename(path).startswith(f'{BEST.prefix}-') else LAST)
    wrong = what_is_wrong(found)
    if wrong:
        raise ModelError(f'checkpoint {path}: {wrong}')
    return found


def _features(path: str, kept: Mapping[str, Any], default: FeatureConfig) -> FeatureConfig:
    """Raises `ModelError` for a backend of another version."""
    features = FeatureConfig(
        sample_rate=kept.get('audio_sample_rate', default.sample_rate),
        window_ms=kept.get('feature_win_len', default.window_ms),
        step_ms=kept.get('feature_win_step', default.step_ms),
        backend=kept.get('feature_backend', default.backend),
    )
    if features.backend not in FEATURE_BACKENDS:
        raise ModelError(f'{path}.json: feature_backend {features.backend!r} is not known')
    return features


def _model(path: str, shapes: Shapes, settings: Mapping[str, Any]) -> ModelConfig:
    """Sizes from the tensors, the rest from the flags of the training. Raises `ModelError` for other tensors."""
    if 'layer_1/bias' not in shapes:
        raise ModelError(f'{path}: is no checkpoint of a speech model: it lacks layer_1/bias')
    return ModelConfig(
        n_hidden=shapes['layer_1/bias'][0],
        layer_norm=any('LayerNorm' in name for name in shapes),
        relu_clip=settings.get('model.relu_clip', ModelConfig.relu_clip),
    )


def _load_weights(session: tf.compat.v1.Session, path: str, fitting: Geometry) -> None:
    """Gives the variables of the default graph their values. Raises `CheckpointError`."""
    variables = GraphVariables()
    missing_variables(path, variables.shapes, variables.weights, read_shapes(path), fitting)
    variables.write(session, read_tensors(path, list(variables.shapes)))

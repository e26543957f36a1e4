"""Checkpoints, in DeepSpeech's format: the last ones of a training and the best one by dev loss.

A checkpoint directory holds `train-STEP.*` files, named by the state file `checkpoint`, and
`best_dev-STEP.*`, named by `best_dev_checkpoint`. State files hold names relative to their folder, so
that a directory can be moved.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from deepspeech_training import log
from deepspeech_training.config import CheckpointConfig
from deepspeech_training.errors import CheckpointError

BEST_LOSS_FILE = 'best_dev_loss.json'


@dataclass(frozen=True)
class Kind:
    """One of the two series of checkpoints in a directory."""

    prefix: str
    state_file: str


LAST = Kind('train', 'checkpoint')
BEST = Kind('best_dev', 'best_dev_checkpoint')

TRAINING_ORDER = {'auto': (LAST, BEST), 'last': (LAST,), 'best': (BEST,), 'init': ()}
EVALUATION_ORDER = {'auto': (BEST, LAST), 'last': (LAST,), 'best': (BEST,)}


@dataclass(frozen=True)
class Geometry:
    """What the flags say about the sizes in a checkpoint, for messages."""

    n_hidden: int
    alphabet_size: int
    alphabet_path: str


def find_checkpoint(directory: str, kind: Kind) -> str | None:
    """The path (without suffix) of the newest checkpoint of `kind` in `directory`, or None.

    Raises:
      CheckpointError: the state file is there, but damaged, or what it names is not.
    """
    state = _read_state(directory, kind)
    if state is None:
        return None
    named = state.model_checkpoint_path
    # State files of DeepSpeech hold absolute paths; the directory may have moved since.
    for path in (os.path.join(directory, os.path.basename(named)), named):
        if os.path.exists(f'{path}.index'):
            return path
    raise CheckpointError(
        f'{os.path.join(directory, kind.state_file)} names {os.path.basename(named)}, but there is no {named}.index'
    )


def _read_state(directory: str, kind: Kind) -> Any:
    """The CheckpointState message of a directory, or None where there is no such file."""
    path = os.path.join(directory, kind.state_file)
    if not os.path.exists(path):
        return None
    try:
        state = tf.compat.v1.train.get_checkpoint_state(directory, latest_filename=kind.state_file)
    except UnicodeDecodeError:
        state = None
    if state is None or not state.model_checkpoint_path:
        raise CheckpointError(f'{path}: damaged, it names no checkpoint; remove it to go on without it')
    return state


class CheckpointStore:
    """Reads and writes the checkpoints of the default graph's variables.

    Made after all variables, optimizer slots included, and before the graph is finalized.
    """

    def __init__(self, config: CheckpointConfig, geometry: Geometry) -> None:
        self._config = config
        self._geometry = geometry
        self._variables = {v.op.name: v for v in tf.compat.v1.global_variables()}
        self._weights = {v.op.name for v in tf.compat.v1.trainable_variables()}
        self._initializer = tf.compat.v1.global_variables_initializer()
        self._savers = {
            LAST: self._make_saver(LAST, config.max_to_keep),
            BEST: self._make_saver(BEST, 1),
        }

    def initialize(self, session: tf.compat.v1.Session) -> None:
        """Gives all variables new values, for a process that gets those of another one."""
        session.run(self._initializer)

    def candidate(self, *, training: bool) -> tuple[int, int]:
        """How good the checkpoint is that would be restored; greater is better, so that processes can compare theirs.

        First by kind, as if all had one directory, then by step; (0, -1) where there is none.

        Raises:
          CheckpointError: it is damaged.
        """
        mode = self._config.load_train if training else self._config.load_evaluate
        order = TRAINING_ORDER[mode] if training else EVALUATION_ORDER[mode]
        for place, kind in enumerate(order if self._config.load_dir else ()):
            path = find_checkpoint(self._config.load_dir, kind)
            if path is not None:
                step = path.rpartition('-')[2]
                return len(order) - place, int(step) if step.isdecimal() else 0
        return 0, -1

    def restore_for_training(self, session: tf.compat.v1.Session) -> str | None:
        """Gives all variables their values: from the checkpoint `load_train` asks for, else new ones.

        Returns the checkpoint's path, or None when training starts from scratch.

        Raises:
          CheckpointError: the checkpoint asked for is missing, damaged or of other sizes.
        """
        session.run(self._initializer)
        path = self._find(self._config.load_train, TRAINING_ORDER[self._config.load_train])
        if path is None:
            log.info('Starting from new, random weights')
            self._warn_of_earlier_run()
            return None
        self._restore(session, path)
        log.info(f'Continuing from checkpoint {path}')
        return path

    def restore_for_evaluation(self, session: tf.compat.v1.Session) -> str:
        """Loads the weights for testing, inference or export; returns the checkpoint's path.

        Raises:
          CheckpointError: there is none, or it is damaged or of other sizes.
        """
        path = self._find(self._config.load_evaluate, EVALUATION_ORDER[self._config.load_evaluate])
        if path is None:
            raise CheckpointError(
                f'no checkpoint in {self._config.load_dir or "(no --checkpoint_dir)"}: train first, or give the '
                'directory of a trained model with --checkpoint_dir or --load_checkpoint_dir'
            )
        session.run(self._initializer)
        self._restore(session, path)
        log.info(f'Loaded checkpoint {path}')
        return path

    def best_loss(self) -> float:
        """The dev loss of the best checkpoint in the save directory; infinity when there is none known."""
        if not self._config.save_dir or self._config.load_train == 'init':
            return math.inf
        try:
            with open(os.path.join(self._config.save_dir, BEST_LOSS_FILE), encoding='utf-8') as file:
                return float(json.load(file)['dev_loss'])
        except (OSError, ValueError, KeyError, TypeError):
            return math.inf

    def save_last(self, session: tf.compat.v1.Session, step: int) -> str:
        """Writes the current state as `train-STEP`; returns the path, empty without a directory."""
        return self._save(session, LAST, step)

    def save_best(self, session: tf.compat.v1.Session, step: int, dev_loss: float) -> str:
        """Writes the current state as `best_dev-STEP`, with the loss that made it the best."""
        path = self._save(session, BEST, step)
        if path:
            target = os.path.join(self._config.save_dir, BEST_LOSS_FILE)
            with _writing(target):
                with open(f'{target}.tmp', 'w', encoding='utf-8') as file:
                    json.dump({'step': step, 'dev_loss': dev_loss}, file)
                os.replace(f'{target}.tmp', target)
        return path

    def reload_best(self, session: tf.compat.v1.Session) -> str | None:
        """Goes back to the best checkpoint in the save directory; None when there is none."""
        path = find_checkpoint(self._config.save_dir, BEST) if self._config.save_dir else None
        if path is not None:
            with _reading(path):
                self._savers[BEST].restore(session, path)
        return path

    def _make_saver(self, kind: Kind, max_to_keep: int) -> tf.compat.v1.train.Saver:
        saver = tf.compat.v1.train.Saver(
            self._variables, max_to_keep=max_to_keep, save_relative_paths=True, name=f'save_{kind.prefix}'
        )
        if self._config.save_dir and self._config.load_train != 'init':
            # So that max_to_keep also counts what earlier runs left.
            state = _read_state(self._config.save_dir, kind)
            if state is not None:
                saver.recover_last_checkpoints(list(state.all_model_checkpoint_paths))
        return saver

    def _find(self, mode: str, order: Sequence[Kind]) -> str | None:
        if not self._config.load_dir:
            return None
        for kind in order:
            path = find_checkpoint(self._config.load_dir, kind)
            if path is not None:
                return path
        if mode in ('last', 'best'):
            raise CheckpointError(f'there is no {mode} checkpoint in {self._config.load_dir}')
        return None

    def _warn_of_earlier_run(self) -> None:
        if self._config.save_dir and any(
            os.path.exists(os.path.join(self._config.save_dir, kind.state_file)) for kind in (LAST, BEST)
        ):
            log.warn(
                f'{self._config.save_dir} has checkpoints of an earlier run, which this one does not continue: '
                'from now on it names this run as its last and best; the older files stay'
            )

    def _restore(self, session: tf.compat.v1.Session, path: str) -> None:
        with _reading(path):
            shapes = tf.compat.v1.train.load_checkpoint(path).get_variable_to_shape_map()
        variables = {name: v for name, v in self._variables.items() if not self._is_left_out(name)}
        missing = [name for name in variables if name not in shapes]
        present = {name: v for name, v in variables.items() if name in shapes}
        self._check_weights(path, missing, shapes)
        self._check_shapes(path, present, shapes)
        if missing:
            log.warn(f'{path} does not have these variables, which start anew: {", ".join(sorted(missing))}')
        with session.graph.as_default(), _reading(path):
            tf.compat.v1.train.Saver(present, name='restore').restore(session, path)

    def _is_left_out(self, name: str) -> bool:
        return self._config.force_initialize_learning_rate and name == 'learning_rate'

    def _check_weights(self, path: str, missing: Sequence[str], shapes: Mapping[str, Sequence[int]]) -> None:
        theirs = any('LayerNorm' in name for name in shapes)
        if theirs != any('LayerNorm' in name for name in self._weights):
            raise CheckpointError(
                f'{path} was trained {"with" if theirs else "without"} --layer_norm: '
                f'{"give" if theirs else "leave out"} that flag here too'
            )
        weights = sorted(self._weights.intersection(missing))
        if not weights:
            return
        if any('opaque_kernel' in name for name in shapes):
            raise CheckpointError(
                f"{path} holds its LSTM in CuDNN's own format; convert it once with DeepSpeech 0.9.3 "
                '(--load_cudnn) until this trainer can'
            )
        raise CheckpointError(f'{path} lacks weights of this model: {", ".join(weights)}')

    def _check_shapes(
        self, path: str, variables: Mapping[str, tf.Variable], shapes: Mapping[str, Sequence[int]]
    ) -> None:
        """Raises with the names users know, alphabet and --n_hidden, where these explain the difference."""
        differ = {
            name: (list(shapes[name]), v.shape.as_list())
            for name, v in variables.items()
            if list(shapes[name]) != v.shape.as_list()
        }
        if not differ:
            return
        reasons = []
        if 'layer_1/bias' in differ:
            theirs = differ['layer_1/bias'][0][0]
            reasons.append(f'it has n_hidden {theirs}, but --n_hidden is {self._geometry.n_hidden}')
        if 'layer_6/bias' in differ:
            theirs = differ['layer_6/bias'][0][0] - 1
            reasons.append(
                f'it was trained with an alphabet of {theirs} characters, but {self._geometry.alphabet_path} has '
                f'{self._geometry.alphabet_size}'
            )
        if not reasons:
            reasons = [f'{name} has shape {a} there and {b} here' for name, (a, b) in sorted(differ.items())]
        raise CheckpointError(
            f'checkpoint {path} does not fit: {"; ".join(reasons)}. Use the settings it was trained with, or '
            'another directory'
        )

    def _save(self, session: tf.compat.v1.Session, kind: Kind, step: int) -> str:
        if not self._config.save_dir:
            return ''
        target = os.path.join(self._config.save_dir, kind.prefix)
        with _writing(f'{target}-{step}'):
            os.makedirs(self._config.save_dir, exist_ok=True)
            path = self._savers[kind].save(
                session, target, global_step=step, latest_filename=kind.state_file, write_meta_graph=False
            )
        log.debug(f'Wrote checkpoint {path}')
        return str(path)


def _reason(error: Exception) -> str:
    """The line of TensorFlow's message that says what is wrong, after those that say where in the graph."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    telling = [line for line in lines if not line.startswith(('Graph execution error', 'Detected at', '[[', '('))]
    return telling[0] if telling else type(error).__name__


@contextmanager
def _reading(path: str) -> Iterator[None]:
    try:
        yield
    except (tf.errors.OpError, RuntimeError, ValueError) as error:
        raise CheckpointError(f'checkpoint {path} cannot be read: {_reason(error)}') from None


@contextmanager
def _writing(path: str) -> Iterator[None]:
    try:
        yield
    except (tf.errors.OpError, OSError, ValueError, RuntimeError) as error:
        raise CheckpointError(f'cannot write checkpoint {path}: {_reason(error)}') from None

"""What training, testing and export do with checkpoints: find the right one, load it, write new ones."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import tensorflow as tf

from deepspeech_training import log
from deepspeech_training.checkpoints.fitting import (
    Geometry,
    check_description,
    dropped_variables,
    is_from_cudnn,
    missing_variables,
)
from deepspeech_training.checkpoints.folder import (
    BEST,
    LAST,
    Found,
    Kind,
    commit,
    named_checkpoints,
    read_state,
    remove_leftovers,
    run_of,
    what_is_wrong,
)
from deepspeech_training.checkpoints.run_state import RunState
from deepspeech_training.checkpoints.tensors import read_shapes, read_tensors, write_tensors
from deepspeech_training.checkpoints.variables import GraphVariables
from deepspeech_training.checkpoints.writer import BackgroundWriter
from deepspeech_training.config import CheckpointConfig
from deepspeech_training.errors import CheckpointError
from deepspeech_training.mirrored import STATE_FILES, checkpoint_mirror

EVALUATION_ORDER: dict[str, tuple[Kind, ...]] = {'auto': (BEST, LAST), 'last': (LAST,), 'best': (BEST,)}
TRAINING_ORDER: dict[str, tuple[Kind, ...]] = {'auto': (LAST, BEST), 'last': (LAST,), 'best': (BEST,), 'init': ()}


@dataclass(frozen=True)
class Restored:
    """What training continues from.

    `state` is None where DeepSpeech wrote the checkpoint. `is_source`: a new training begins with these weights.
    """

    path: str
    state: RunState | None
    is_source: bool = False


class CheckpointStore:
    """Reads and writes the checkpoints of the default graph's variables.

    Made after all variables, optimizer slots included, and before the graph is finalized. `description`, JSON values,
    is kept with every checkpoint.
    """

    def __init__(
        self,
        config: CheckpointConfig,
        geometry: Geometry,
        variables: GraphVariables | None = None,
        description: Mapping[str, Any] | None = None,
    ) -> None:
        self._config = config
        self._geometry = geometry
        self._variables = variables or GraphVariables()
        self._description = dict(description or {})
        self._writer = BackgroundWriter()

    def candidate(self, *, training: bool) -> tuple[int, int]:
        """How good the checkpoint is that would be restored; greater is better, so that processes can compare theirs.

        First by kind, as if all had one directory, then by step; (0, -1) where there is none.

        Raises:
          CheckpointError: there is none that is whole.
        """
        found = self._find_for_training() if training else self._find_for_evaluation()
        if found is None:
            return 0, -1
        best_first = not training and self._config.load_evaluate == 'auto'
        return 2 if best_first and found.kind is BEST else 1, found.step

    def initialize(self, session: tf.compat.v1.Session) -> None:
        """Gives all variables their first values."""
        self._variables.initialize(session)

    def restore_for_training(self, session: tf.compat.v1.Session) -> Restored | None:
        """Gives all variables their values: from the checkpoint `load_train` asks for, else new ones.

        Raises:
          CheckpointError: the checkpoint asked for is missing, damaged or of other sizes.
        """
        self._variables.initialize(session)
        if self._config.save_dir:
            removed = remove_leftovers(self._config.save_dir)
            if removed:
                log.info(f'{self._config.save_dir}: removed {len(removed)} files that interrupted writing had left')
        found = self._find_for_training()
        if found is None:
            log.info('Starting from new, random weights')
            self._warn_of_earlier_run()
            return None
        is_source = self._is_source(found)
        self._restore(session, found, is_source=is_source)
        if is_source:
            log.info(f'A new training begins with the weights of {found.path}')
        else:
            log.info(f'Continuing from checkpoint {found.path}')
        return Restored(found.path, _run_state(found), is_source)

    def restore_for_evaluation(self, session: tf.compat.v1.Session) -> str:
        """Loads the weights for testing, inference or export; returns the checkpoint's path.

        Raises:
          CheckpointError: there is none, or it is damaged or of other sizes.
        """
        folder, found = self._config.load_dir, self._find_for_evaluation()
        if found is None:
            self._complain_of_missing(self._config.load_evaluate)
            raise CheckpointError(
                f'no checkpoint in {folder or "(no --checkpoint_dir)"}: train first, or give the '
                'directory of a trained model with --checkpoint_dir or --load_checkpoint_dir'
            )
        self._variables.initialize(session)
        self._restore(session, found)
        log.info(f'Loaded checkpoint {found.path}')
        return found.path

    def save_last(self, session: tf.compat.v1.Session, state: RunState, *, write: bool = True) -> str:
        """Begins to write the current state as `train-STEP`; returns where, empty without a directory.

        Without `write` it only does what another process needs for its checkpoint.
        """
        return self._save(session, LAST, state, self._config.max_to_keep, write)

    def save_best(self, session: tf.compat.v1.Session, state: RunState, *, write: bool = True) -> str:
        """The same as `best_dev-STEP`."""
        return self._save(session, BEST, state, 1, write)

    def reload_best(self, session: tf.compat.v1.Session, keep: Sequence[str]) -> str | None:
        """Goes back to the best checkpoint in the save directory, but for the variables `keep`; None without one."""
        self._writer.wait()
        found = _first_whole(self._named(self._config.save_dir, BEST))
        if found is None:
            return None
        names = [name for name in self._variables.shapes if name not in keep]
        self._variables.write(session, read_tensors(found.path, names))
        return found.path

    def check(self) -> None:
        """Raises the `CheckpointError` of a checkpoint that could not be written meanwhile."""
        self._writer.check()

    def wait(self) -> None:
        """Returns when all checkpoints are on the disk. Raises `CheckpointError`."""
        self._writer.wait()

    def _named(self, folder: str, kind: Kind) -> list[Found]:
        return named_checkpoints(folder, kind) if folder else []

    def _find_for_training(self) -> Found | None:
        mode, load_dir, save_dir = self._config.load_train, self._config.load_dir, self._config.save_dir
        if mode == 'auto':
            own = [] if save_dir == load_dir else self._newest_first(save_dir)
            found = own or self._newest_first(load_dir)
        else:
            found = [c for kind in TRAINING_ORDER[mode] for c in self._named(load_dir, kind)]
        whole = _first_whole(found)
        if whole is None:
            self._complain_of_missing(mode)
        return whole

    def _newest_first(self, folder: str) -> list[Found]:
        """The checkpoints that training may go on from, as the state files have them: the last ones and the best.

        Their order is that of writing, which that of steps is not where a new training has begun in the folder. The
        best one may be of a training before the one that wrote the last.
        """
        last, best = self._named(folder, LAST), self._named(folder, BEST)
        if not last:
            return best
        runs = [run_of(found) for found in last]
        run = next((name for name in runs if name is not None), None)
        for found in best[:1]:
            if run_of(found) == run:
                older = (n for n, each in enumerate(last) if each.step < found.step or runs[n] not in (run, None))
                last.insert(next(older, len(last)), found)
        return last

    def _is_source(self, found: Found) -> bool:
        """Whether `found` is not of the training that goes on, but what a new one begins with."""
        if os.path.dirname(found.path) != self._config.save_dir:
            return True
        if not self._config.drop_source_layers or self._config.load_dir != self._config.save_dir:
            return False
        try:  # layers were dropped when this training began, or are to be dropped now
            settings = (read_state(found) or {}).get('settings') or {}
        except CheckpointError:
            settings = {}
        return bool(settings.get('checkpoints.drop_source_layers', 0) != self._config.drop_source_layers)

    def _find_for_evaluation(self) -> Found | None:
        kinds = EVALUATION_ORDER[self._config.load_evaluate]
        return _first_whole(found for kind in kinds for found in self._named(self._config.load_dir, kind))

    def _complain_of_missing(self, mode: str) -> None:
        if mode in ('last', 'best') and self._config.load_dir:
            raise CheckpointError(f'there is no {mode} checkpoint in {self._config.load_dir}')

    def _warn_of_earlier_run(self) -> None:
        if self._config.save_dir and any(
            os.path.exists(os.path.join(self._config.save_dir, kind.state_file)) for kind in (LAST, BEST)
        ):
            log.warn(
                f'{self._config.save_dir} has checkpoints of an earlier run, which this one does not continue: '
                'from now on it names this run as its last and best; the older files stay'
            )

    def _restore(self, session: tf.compat.v1.Session, found: Found, *, is_source: bool = False) -> None:
        drop = self._config.drop_source_layers if is_source else 0
        geometry = replace(self._geometry, labels=()) if drop else self._geometry  # another alphabet may be wanted
        check_description(found.path, (read_state(found) or {}).get('model') or {}, geometry)
        there = read_shapes(found.path)
        left_out = dropped_variables(self._variables.shapes, drop)
        if left_out:
            layers = sorted({name.split('/', 1)[0] for name in left_out})
            log.info(f'--drop_source_layers={drop}: {", ".join(layers)} start anew')
        if self._config.force_initialize_learning_rate:
            left_out.add('learning_rate')
        wanted = {name: shape for name, shape in self._variables.shapes.items() if name not in left_out}
        weights = self._variables.weights - left_out
        missing = missing_variables(found.path, wanted, weights, there, self._geometry)
        if missing:
            cudnn = " (it was trained with CuDNN's LSTM)" if is_from_cudnn(there) else ''
            log.warn(f'{found.path} does not have these variables, which start anew{cudnn}: {", ".join(missing)}')
        present = [name for name in wanted if name in there]
        self._variables.write(session, read_tensors(found.path, present))

    def _save(
        self, session: tf.compat.v1.Session, kind: Kind, state: RunState, max_to_keep: int, write_it: bool
    ) -> str:
        folder = self._config.save_dir
        if not folder or not (write_it or self._variables.are_spread):
            return ''
        values = self._variables.read(session)
        if not write_it:
            return ''
        document = {'run': state.to_json(), 'model': self._geometry.to_json(), **self._description}

        def write() -> None:
            found = commit(
                folder, kind, state.step, lambda prefix: write_tensors(prefix, values), document, max_to_keep
            )
            log.debug(f'Wrote checkpoint {found.path}')
            if self._config.copy_to:
                self._copy()

        self._writer.submit(write)
        return os.path.join(folder, f'{kind.prefix}-{state.step}')

    def _copy(self) -> None:
        """Uploads what is new, state files last. Raises `CheckpointError`."""
        address = self._config.copy_to
        try:
            checkpoint_mirror(address, self._config.save_dir).push(last=STATE_FILES)
        except OSError as error:
            raise CheckpointError(f'cannot write checkpoint to {address}: {error.strerror}') from error


def _first_whole(candidates: Iterable[Found]) -> Found | None:
    """The first that can be used; says why others cannot. Raises `CheckpointError` when there are only such."""
    problem = ''
    for found in candidates:
        wrong = what_is_wrong(found)
        if not wrong:
            if problem:
                log.warn(f'{problem}; using {found.path} instead')
            return found
        problem = f'{problem}; checkpoint {found.path}: {wrong}' if problem else f'checkpoint {found.path}: {wrong}'
    if problem:
        raise CheckpointError(f'{problem}. No other one is there to use instead')
    return None


def _run_state(found: Found) -> RunState | None:
    document = read_state(found)
    if document is None:
        return None
    try:
        return RunState.from_json(document['run'])
    except (KeyError, TypeError, AttributeError) as error:
        raise CheckpointError(f'{found.path}.json is damaged: {error}') from None

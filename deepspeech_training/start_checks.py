"""Whether a run can start as it is, before any work is done: the way it was launched, its files and folders."""

from __future__ import annotations

import importlib.util
import os
import tempfile
from collections.abc import Iterator

from deepspeech_training.config import Config
from deepspeech_training.errors import CheckpointError, FlagError
from deepspeech_training.launch import Launch


def check_launch(config: Config, launch: Launch) -> None:
    """Whether the flags fit how the program was started.

    Raises:
      FlagError: Horovod is missing, or several processes were started that would not know of each other.
    """
    if config.parallel.horovod and importlib.util.find_spec('horovod') is None:
        raise FlagError(
            '--horovod: Horovod is not installed here; bin/install_horovod.sh builds it for the TensorFlow of this '
            'Python, in a few minutes'
        )
    if launch.of_several and not config.parallel.horovod:
        raise FlagError(
            f'{launch.size} processes were started ({launch.variable}={launch.size}), but without --horovod each would '
            'train by itself and overwrite the checkpoints of the others; give --horovod, or start one process only'
        )


def check_paths(config: Config, launch: Launch | None = None) -> None:
    """Finds files that are not there and folders that cannot be written, before any work is done.

    Each rank of a job looks only at what it will read and write itself. Leaves nothing behind.

    Raises:
      FlagError: naming the flag, the path and the system's reason.
      CheckpointError: there is no checkpoint to evaluate and none will be trained.
    """
    launch = launch or Launch()
    problems = []
    if not config.data.bytes_output_mode and not os.path.isfile(config.data.alphabet_config_path):
        problems.append(f'--alphabet_config_path={config.data.alphabet_config_path}: {_why_no_file(config)}')
    for flag, folder in _written_folders(config, launch):
        reason = _why_not_writable(folder)
        if reason:
            problems.append(f'--{flag}={folder}: cannot be written: {reason}')
    if config.data.test_files and launch.is_chief:
        for flag in ('test_output_file', 'test_report_file'):
            output = getattr(config.report, flag)
            if output and os.path.isdir(output):
                problems.append(f'--{flag}={output}: is a folder; give the name of a file')
    if problems:
        raise FlagError('\n'.join(problems))
    if launch.is_chief and not (launch.of_several and config.parallel.checkpoint_per_node):
        _check_checkpoint(config)


def _why_no_file(config: Config) -> str:
    path = config.data.alphabet_config_path
    return 'is no file' if os.path.exists(path) else f'no such file (searched from {os.getcwd()})'


def _written_folders(config: Config, launch: Launch) -> Iterator[tuple[str, str]]:
    """The folders that this process writes to, with their flags."""
    checkpoints = config.checkpoints
    on_each_node = config.parallel.checkpoint_per_node and launch.local_rank == 0
    if config.data.train_files and checkpoints.save_dir and (launch.is_chief or on_each_node):
        same = checkpoints.save_dir == checkpoints.load_dir
        yield 'checkpoint_dir' if same else 'save_checkpoint_dir', checkpoints.save_dir
    if config.data.feature_cache and (config.data.train_files or config.data.test_files):
        yield 'feature_cache', config.data.feature_cache
    if not launch.is_chief:
        return
    if config.data.train_files and config.report.summary_dir:
        yield 'summary_dir', config.report.summary_dir
    if config.export.export_dir:
        yield 'export_dir', config.export.export_dir
    for flag in ('test_output_file', 'test_report_file') if config.data.test_files else ():
        if output := getattr(config.report, flag):
            yield flag, os.path.dirname(output) or os.curdir


def _why_not_writable(folder: str) -> str:
    """Why no file can be made in `folder`, which need not exist yet; '' when it can.

    What is missing of the path is made below a folder of this process's own: another one may be looking too.
    """
    try:
        present, missing = folder, ''
        while not os.path.lexists(present) and present != os.path.dirname(present):
            present, name = os.path.split(present)
            present, missing = present or os.curdir, os.path.join(name, missing)
        with tempfile.TemporaryDirectory(dir=present) as rehearsal:
            os.makedirs(os.path.join(rehearsal, missing), exist_ok=True)
            with tempfile.TemporaryFile(dir=os.path.join(rehearsal, missing)):
                return ''
    except (OSError, ValueError) as error:
        return getattr(error, 'strerror', None) or str(error)


def nothing_to_freeze(config: Config) -> str:
    """The message for a training that has no checkpoint to begin with."""
    checkpoints = config.checkpoints
    return (
        f'--freeze_source_layers={checkpoints.freeze_source_layers}: there is no checkpoint in {checkpoints.load_dir}, '
        'and layers that keep random weights learn nothing; give the folder of a trained model with '
        '--load_checkpoint_dir'
    )


def _has_checkpoint(folder: str) -> bool:
    return any(os.path.isfile(os.path.join(folder, name)) for name in ('checkpoint', 'best_dev_checkpoint'))


def _check_checkpoint(config: Config) -> None:
    """Evaluation needs a checkpoint unless this run trains one first; so does a training whose layers are frozen."""
    folder, frozen = config.checkpoints.load_dir, config.checkpoints.freeze_source_layers
    if config.data.train_files:
        if frozen and not (_has_checkpoint(folder) or _has_checkpoint(config.checkpoints.save_dir)):
            raise CheckpointError(nothing_to_freeze(config))
        return
    if not _has_checkpoint(folder):
        exists = 'has no checkpoint' if os.path.isdir(folder) else 'does not exist'
        raise CheckpointError(
            f'the checkpoint folder {folder} {exists}, and without --train_files none is trained; '
            'give the folder of a trained model with --checkpoint_dir'
        )

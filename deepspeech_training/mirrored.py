"""Which folders of a run may be elsewhere, and their local copies: those of checkpoints and of exports."""

from __future__ import annotations

import re
from contextlib import ExitStack
from dataclasses import replace

from deepspeech_training import log, storage
from deepspeech_training.config import Config
from deepspeech_training.errors import FlagError
from deepspeech_training.launch import Launch
from deepspeech_training.mirror import Mirror, local_folder

STATE_FILES = ('checkpoint', 'best_dev_checkpoint')
CHECKPOINT_FILES = re.compile(
    r'[^/.][^/]*\.(?:index|json|data-\d+-of-\d+)|skipped_samples\.csv|(?:best_dev_)?checkpoint'
)
EXPORT_MANIFEST = '.deepspeech_export.json'


def checkpoint_mirror(address: str, folder: str) -> Mirror:
    """The checkpoints at `address`, of which `folder` is the copy."""
    return Mirror(address, folder, lambda name: CHECKPOINT_FILES.fullmatch(name) is not None)


def export_mirror(address: str, folder: str) -> Mirror:
    """The exports at `address`, of which `folder` is the copy."""
    return Mirror(address, folder, lambda name: not name.startswith('.export.'))


def with_local_folders(config: Config, launch: Launch, opened: ExitStack) -> Config:
    """The run with local copies in the place of checkpoint and export folders elsewhere, which are downloaded.

    Raises `FlagError` for a folder that cannot be reached or written, and for others that cannot be elsewhere.
    """
    for flag, path in (
        ('feature_cache', config.data.feature_cache),
        ('summary_dir', config.report.summary_dir),
        ('test_output_file', config.report.test_output_file),
    ):
        if storage.is_remote(path):
            raise FlagError(f'--{flag}={path}: must be here; data, checkpoints and exports can be elsewhere')
    if config.parallel.checkpoint_per_node and storage.is_remote(config.checkpoints.save_dir):
        raise FlagError(
            f'--checkpoint_per_node: all hosts reach {config.checkpoints.save_dir}, where one of them writes; leave it '
            'out'
        )
    folders: dict[tuple[str, str], str] = {}

    def local(flag: str, address: str, *, written: bool) -> str:
        if not storage.is_remote(address):
            return address
        kind, make = ('exports', export_mirror) if flag == 'export_dir' else ('checkpoints', checkpoint_mirror)
        if (kind, address) not in folders:
            shared = launch.of_several and launch.local_rank > 0
            folder = folders[kind, address] = local_folder(kind, address, opened, shared=shared)
            mirror = make(address, folder)
            try:
                if not shared:
                    mirror.pull()
            except OSError as error:
                raise FlagError(f'--{flag}={address}: cannot be read: {error.strerror}') from error
            log.info(f'--{flag}={address}: its copy on this host is {folder}')
        if written and launch.is_chief:
            try:
                make(address, folders[kind, address]).rehearse()
            except OSError as error:
                raise FlagError(f'--{flag}={address}: cannot be written: {error.strerror}') from error
        return folders[kind, address]

    checkpoints, export = config.checkpoints, config.export
    same = checkpoints.load_dir == checkpoints.save_dir
    save_flag, load_flag = ('checkpoint_dir',) * 2 if same else ('save_checkpoint_dir', 'load_checkpoint_dir')
    trains = bool(config.data.train_files or config.data.auto_input_dataset)
    return replace(
        config,
        checkpoints=replace(
            checkpoints,
            save_dir=local(save_flag, checkpoints.save_dir, written=trains),
            load_dir=local(load_flag, checkpoints.load_dir, written=False),
            copy_to=checkpoints.save_dir if storage.is_remote(checkpoints.save_dir) else '',
        ),
        export=replace(
            export,
            export_dir=local('export_dir', export.export_dir, written=True),
            copy_to=export.export_dir if storage.is_remote(export.export_dir) else '',
        ),
    )


def told(config: Config, path: str) -> str:
    """What the user calls a file of an export."""
    return (
        path.replace(config.export.export_dir, config.export.copy_to.rstrip('/'), 1) if config.export.copy_to else path
    )

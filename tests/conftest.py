"""Shared fixtures: a fresh graph, and the reference data where they are."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    import tensorflow as tf

SYSTEM = Path(__file__).parent / 'system'

os.environ.setdefault('TF_CPP_MIN_LOG_LEVEL', '2')


def pytest_configure() -> None:
    """Programs that tests start can be interrupted, even where tests run in the background, which ignores Ctrl-C."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Puts the files that take longest first: with several at a time, the last would run alone for minutes."""
    items.sort(key=lambda item: SYSTEM not in item.path.parents)


@pytest.fixture(scope='session')
def deepspeech_data() -> Path:
    """The folder with real speech and DeepSpeech's own figures."""
    folder = os.environ.get('DEEPSPEECH_DATA', '')
    if not folder:
        pytest.skip('DEEPSPEECH_DATA is not set: no reference data on this machine')
    if not Path(folder).is_dir():
        pytest.fail(f'DEEPSPEECH_DATA names {folder!r}, which is no folder')
    return Path(folder)


@pytest.fixture
def graph() -> Iterator[tf.Graph]:
    """A new graph, made the default one."""
    import tensorflow as tf

    tf.compat.v1.disable_v2_behavior()
    with tf.Graph().as_default() as new_graph:
        yield new_graph


@pytest.fixture
def own_cache_folder(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tests leave nothing in the user's folders."""
    monkeypatch.setenv('XDG_CACHE_HOME', str(tmp_path_factory.mktemp('caches')))


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 1 MB."""
    folder = tmp_path / 'disk'
    folder.mkdir()
    mounted = subprocess.run(
        ['mount', '-t', 'tmpfs', '-o', 'size=1m', 'tmpfs', str(folder)], capture_output=True, text=True, check=False
    )
    if mounted.returncode:
        pytest.skip(f'no file system can be mounted here: {mounted.stderr.strip()}')
    yield folder
    subprocess.run(['umount', '--lazy', str(folder)], check=True)

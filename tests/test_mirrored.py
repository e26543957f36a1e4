"""Checkpoints and exports elsewhere: complete or absent there, and taken from there."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fsspec
import pytest
from fsspec.implementations.memory import MemoryFileSystem

from deepspeech_training import cli, mirror, storage
from deepspeech_training.mirror import Mirror
from tests.toy import random_texts, write_alphabet, write_corpus


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Nothing of the user's folders, and an empty memory."""
    monkeypatch.setenv('XDG_CACHE_HOME', str(tmp_path / 'caches'))
    monkeypatch.chdir(tmp_path)
    yield tmp_path
    system = fsspec.filesystem('memory')
    if system.exists('/there'):
        system.rm('/there', recursive=True)


def files_at(address: str) -> dict[str, bytes]:
    system, inside = fsspec.core.url_to_fs(address)
    if not system.exists(inside):
        return {}
    return {path.removeprefix(f'{inside.rstrip("/")}/'): system.cat_file(path) for path in sorted(system.find(inside))}


def addresses(folder: Path) -> list[str]:
    return ['memory://there/ck', f'file://{folder}/there/ck']


def put(folder: Path, **files: str) -> None:
    folder.mkdir(exist_ok=True)
    for name, content in files.items():
        (folder / name).write_text(content)


class TestMirror:
    @pytest.fixture(params=['memory', 'file'])
    def address(self, request: pytest.FixtureRequest, tmp_path: Path) -> str:
        return addresses(tmp_path)[request.param == 'file']

    def test_what_is_written_here_is_there(self, address: str, tmp_path: Path) -> None:
        first, second = tmp_path / 'first', tmp_path / 'second'
        put(first, a='1', b='2', last='ab')
        (first / 'sub').mkdir()
        put(first / 'sub', c='3')
        Mirror(address, str(first), lambda name: True).push(['last'])
        assert files_at(address) == {'a': b'1', 'b': b'2', 'last': b'ab', 'sub/c': b'3'}

        Mirror(address, str(second), lambda name: True).pull()
        assert {p.name: p.read_text() for p in second.rglob('*') if p.is_file() and p.name != mirror.NOTE} == {
            **{'a': '1', 'b': '2', 'last': 'ab', 'c': '3'}
        }
        (second / 'a').unlink()
        put(second, b='22', d='4')
        Mirror(address, str(second), lambda name: True).push()
        assert files_at(address) == {'b': b'22', 'd': b'4', 'last': b'ab', 'sub/c': b'3'}
        Mirror(address, str(first), lambda name: True).pull()
        assert (first / 'b').read_text() == '22'
        assert not (first / 'a').exists()

    def test_only_what_has_changed_travels(self, address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        put(tmp_path / 'here', a='1', b='2')
        Mirror(address, str(tmp_path / 'here'), lambda name: True).push()
        monkeypatch.setattr(storage, 'upload', None)
        Mirror(address, str(tmp_path / 'here'), lambda name: True).push()
        monkeypatch.setattr(Mirror, '_download', None)
        Mirror(address, str(tmp_path / 'here'), lambda name: True).pull()
        fsspec.open(f'{address}/a', 'w').open().close()
        with pytest.raises(TypeError):
            Mirror(address, str(tmp_path / 'here'), lambda name: True).pull()

    def test_others_files_stay(self, address: str, tmp_path: Path) -> None:
        with fsspec.open(f'{address}/foreign', 'w') as file:
            file.write('theirs')
        put(tmp_path / 'here', a='1')
        wanted = Mirror(address, str(tmp_path / 'here'), lambda name: name == 'a')
        wanted.pull()
        assert not (tmp_path / 'here' / 'a').exists()
        put(tmp_path / 'here', a='1')
        wanted.push()
        assert files_at(address) == {'a': b'1', 'foreign': b'theirs'}

    def test_what_interrupted_uploads_have_left_goes(self, address: str, tmp_path: Path) -> None:
        names = [f'a.{"0a" * 16}.tmp', f'b.{"0a" * 16}.tmp', 'a', 'a.tmp']
        for name in names:
            fsspec.open(f'{address}/{name}', 'w').open().close()
        Mirror(address, str(tmp_path), lambda name: name == 'a').rehearse()
        assert sorted(files_at(address)) == sorted(names[1:])

    @pytest.mark.parametrize('failing', range(3))
    def test_interrupted_uploads_name_nothing_incomplete(
        self, address: str, tmp_path: Path, failing: int, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        here = tmp_path / 'here'
        put(here, old='1', last='old')
        Mirror(address, str(here), lambda name: True).push(['last'])
        (here / 'old').unlink()
        put(here, new='2', newer='3', last='new')
        upload = storage.upload
        done: list[str] = []

        def failing_upload(local: str, target: str) -> None:
            if len(done) == failing:
                raise OSError(5, 'the network is down')
            upload(local, target)
            done.append(target)

        monkeypatch.setattr(storage, 'upload', failing_upload)
        with pytest.raises(OSError, match='the network is down'):
            Mirror(address, str(here), lambda name: True).push(['last'])
        found = files_at(address)
        assert found['last'] == b'old'
        assert found['old'] == b'1'

        monkeypatch.setattr(storage, 'upload', upload)
        Mirror(address, str(here), lambda name: True).push(['last'])
        assert files_at(address) == {'new': b'2', 'newer': b'3', 'last': b'new'}


class TestProgram:
    @pytest.fixture
    def flags(self, tmp_path: Path) -> list[str]:
        train = write_corpus(tmp_path / 'corpus', 'train', random_texts(4))
        return [
            *('--train_files', train, '--dev_files', train, '--alphabet_config_path', write_alphabet(tmp_path)),
            *('--summary_dir', 'curves', '--n_hidden', '8', '--cpu_towers', '1', '--train_batch_size', '2'),
        ]

    def run(self, capsys: pytest.CaptureFixture[str], *args: str) -> tuple[int, str]:
        status = cli.main(args)
        return status, capsys.readouterr().err

    @pytest.mark.parametrize('number', [0, 1])
    def test_training_goes_on_elsewhere(
        self,
        number: int,
        flags: list[str],
        tmp_path: Path,
        capsys: pytest.CaptureFixture[str],
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        """The second host has nothing but what the first one has left there."""
        address = addresses(tmp_path)[number]
        status, told = self.run(capsys, *flags, '--checkpoint_dir', address, '--epochs', '1', '--max_to_keep', '1')
        assert status == 0, told
        assert {'checkpoint', 'best_dev_checkpoint', 'train-2.json', 'train-2.index'} < files_at(address).keys()

        monkeypatch.setenv('XDG_CACHE_HOME', str(tmp_path / 'other'))
        status, told = self.run(capsys, *flags, '--checkpoint_dir', address, '--epochs', '2', '--max_to_keep', '1')
        assert status == 0, told
        assert '1 of 2 epochs are done' in told
        found = files_at(address)
        assert b'train-4' in found['checkpoint']
        assert 'train-2.index' not in found
        assert not [name for name in found if name.endswith('.tmp') or name.startswith('.')]

        export = f'{os.path.dirname(address)}/export'
        status, told = self.run(capsys, *flags[4:], '--checkpoint_dir', address, '--export_dir', export)
        assert status == 0, told
        assert f'Exported {export}/output_graph.pb' in told
        assert {'.deepspeech_export.json', 'output_graph.pb'} < files_at(export).keys()

    def test_a_failed_upload_ends_training(
        self, flags: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def down(*_: Any, **__: Any) -> None:
            raise OSError('the network is down')

        monkeypatch.setattr(MemoryFileSystem, 'put_file', down)
        status, told = self.run(capsys, *flags, '--checkpoint_dir', 'memory://there/ck', '--epochs', '1')
        assert status == 2
        assert 'cannot write checkpoint to memory://there/ck: OSError: the network is down' in told

    @pytest.mark.parametrize(
        ('args', 'message'),
        [
            (
                ['--checkpoint_dir', 's3://b/ck'],
                '--checkpoint_dir=s3://b/ck: cannot be read: s3:// needs the package s3fs',
            ),
            (
                ['--export_dir', 'gs://b/x'],
                '--export_dir=gs://b/x: cannot be read: gs:// needs the package gcsfs',
            ),
            (['--feature_cache', 'memory://there/x'], '--feature_cache=memory://there/x: must be here'),
            (['--summary_dir', 'memory://there/x'], '--summary_dir=memory://there/x: must be here'),
            (
                ['--checkpoint_dir', 'memory://x', '--horovod', '--checkpoint_per_node'],
                '--checkpoint_per_node: all hosts',
            ),
        ],
    )
    def test_what_cannot_be(
        self,
        args: list[str],
        message: str,
        flags: list[str],
        capsys: pytest.CaptureFixture[str],
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        monkeypatch.setattr(cli, 'check_launch', lambda *_: None)  # Horovod may be missing here
        status, told = self.run(capsys, *flags, *args)
        assert status == 2
        assert message in told

    def test_nothing_to_evaluate(self, flags: list[str], capsys: pytest.CaptureFixture[str]) -> None:
        status, told = self.run(
            capsys, '--test_files', flags[1], *flags[4:], '--checkpoint_dir', 'memory://there/nothing'
        )
        assert status == 2
        assert 'has no checkpoint, and without --train_files none is trained' in told

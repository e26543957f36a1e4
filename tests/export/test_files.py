"""An export directory belongs to its user."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from deepspeech_training.config import ExportConfig
from deepspeech_training.errors import ExportError
from deepspeech_training.export.files import MANIFEST, Part, Writer, model_file, part_of_bytes, write_export


def fails(path: Path) -> None:
    path.write_text('half')
    raise OSError('No space left on device')


def folder_of(files: dict[str, str]) -> Writer:
    def write(path: Path) -> None:
        for name, text in files.items():
            (path / name).parent.mkdir(parents=True, exist_ok=True)
            (path / name).write_text(text)

    return write


def contents(folder: Path) -> dict[str, str]:
    files = [path for path in folder.rglob('*') if path.is_file() and path.name != MANIFEST]
    return {path.relative_to(folder).as_posix(): path.read_text() for path in files}


def export(folder: Path, text: str, *, model: str = 'model.pb', card: str = 'card.md', remove: bool = False) -> None:
    parts = {
        model: part_of_bytes(f'model {text}'.encode(), 'replace'),
        card: part_of_bytes(f'card {text}'.encode(), 'keep'),
    }
    write_export(str(folder), parts, remove_earlier=remove)


def export_folder(folder: Path, files: dict[str, str], *, remove: bool = False) -> list[str]:
    return write_export(str(folder), {'model/1': Part(folder_of(files))}, remove_earlier=remove)


def test_makes_the_folder_and_replaces_its_own_files(tmp_path: Path) -> None:
    folder = tmp_path / 'a' / 'b'
    export(folder, '1')
    assert contents(folder) == {'model.pb': 'model 1', 'card.md': 'card 1'}
    export(folder, '2')
    assert contents(folder) == {'model.pb': 'model 2', 'card.md': 'card 2'}


def test_remove_earlier_removes_what_earlier_exports_wrote(tmp_path: Path) -> None:
    export(tmp_path, '1', model='old.pb', card='v1.md')
    export(tmp_path, '2', model='newer.pb', card='v2.md')
    assert set(contents(tmp_path)) == {'old.pb', 'v1.md', 'newer.pb', 'v2.md'}
    export(tmp_path, '3', card='v3.md', remove=True)
    assert contents(tmp_path) == {'model.pb': 'model 3', 'v3.md': 'card 3'}


def test_foreign_and_edited_files_stay(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / 'thesis.md').write_text('mine')
    (tmp_path / 'sub').mkdir()
    export(tmp_path, '1', model='old.pb')
    (tmp_path / 'old.pb').write_text('replaced by hand')
    (tmp_path / 'card.md').write_text('edited by hand')
    export(tmp_path, '2', remove=True)
    assert (tmp_path / 'sub').is_dir()
    (tmp_path / 'sub').rmdir()
    assert contents(tmp_path) == {
        'thesis.md': 'mine',
        'old.pb': 'replaced by hand',
        'card.md': 'edited by hand',
        'model.pb': 'model 2',
    }
    assert 'card.md was not written by an export, or edited since' in caplog.text


def test_a_model_file_of_that_name_is_replaced_whoever_wrote_it(tmp_path: Path) -> None:
    (tmp_path / 'model.pb').write_text("DeepSpeech's")
    export(tmp_path, '1')
    assert contents(tmp_path) == {'model.pb': 'model 1', 'card.md': 'card 1'}


def test_a_failure_leaves_everything_as_it_was(tmp_path: Path) -> None:
    export(tmp_path, '1')
    before = contents(tmp_path), (tmp_path / MANIFEST).read_text()
    with pytest.raises(ExportError, match='No space left'):
        write_export(
            str(tmp_path),
            {'model.pb': part_of_bytes(b'2', 'replace'), 'other/new.pb': Part(fails), 'card.md': Part(fails)},
            remove_earlier=True,
        )
    assert (contents(tmp_path), (tmp_path / MANIFEST).read_text()) == before
    assert len(list(tmp_path.iterdir())) == 3


def test_a_folder_in_the_way_is_named(tmp_path: Path) -> None:
    (tmp_path / 'model.pb').mkdir()
    with pytest.raises(ExportError, match=r'cannot write \S*/model\.pb: Is a directory'):
        export(tmp_path, '1')
    assert [path.name for path in tmp_path.iterdir()] == ['model.pb']


def test_a_folder_is_one_part(tmp_path: Path) -> None:
    assert export_folder(tmp_path, {'a': '1', 'sub/b': '1'}) == ['model/1/a', 'model/1/sub/b']
    (tmp_path / 'model/notes').write_text('mine')
    export_folder(tmp_path, {'a': '2', 'sub/b': '2'})
    assert contents(tmp_path) == {'model/1/a': '2', 'model/1/sub/b': '2', 'model/notes': 'mine'}
    export(tmp_path, '1', remove=True)
    assert contents(tmp_path) == {'model.pb': 'model 1', 'card.md': 'card 1', 'model/notes': 'mine'}
    assert not (tmp_path / 'model/1').exists()
    (tmp_path / 'model/notes').unlink()
    export_folder(tmp_path, {'a': '3'})
    export(tmp_path, '2', remove=True)
    assert contents(tmp_path) == {'model.pb': 'model 2', 'card.md': 'card 2'}
    assert not (tmp_path / 'model').exists()


@pytest.mark.parametrize('edited', [True, False])
def test_files_of_others_in_such_a_folder_are_not_replaced(edited: bool, tmp_path: Path) -> None:
    if edited:
        export_folder(tmp_path, {'a': '1', 'b': '1'})
    (tmp_path / 'model/1').mkdir(parents=True, exist_ok=True)
    (tmp_path / 'model/1/b').write_text('mine')
    before = contents(tmp_path)
    with pytest.raises(ExportError, match=r'model/1/b was not written by an export, or edited since'):
        export_folder(tmp_path, {'a': '2', 'b': '2'}, remove=True)
    assert contents(tmp_path) == before


@pytest.mark.skipif(hasattr(os, 'geteuid') and os.geteuid() == 0, reason='root may write everywhere')
def test_a_folder_below_without_permission(tmp_path: Path) -> None:
    (tmp_path / 'model').mkdir(0o500)
    parts = {'card.md': part_of_bytes(b''), 'model/1/a': part_of_bytes(b'')}
    with pytest.raises(ExportError, match=r'cannot write \S*/model: Permission denied'):
        write_export(str(tmp_path), parts, remove_earlier=False)
    assert [path.name for path in tmp_path.iterdir()] == ['model']


def test_a_file_where_a_folder_should_be_is_named(tmp_path: Path) -> None:
    (tmp_path / 'model').write_text('mine')
    with pytest.raises(ExportError, match=r'cannot write \S*/model: Not a directory'):
        export_folder(tmp_path, {'a': '1'})
    assert contents(tmp_path) == {'model': 'mine'}


@pytest.mark.parametrize('name', ['model', 'model.pb', 'model.tflite'])
def test_names_of_models(name: str) -> None:
    assert model_file(ExportConfig(file_name=name), '.tflite') == 'model.tflite'
    assert model_file(ExportConfig(file_name='v1.2'), '.pb') == 'v1.2.pb'


@pytest.mark.parametrize(
    'record', ['', 'no JSON', '[1]', '{"../outside": "0"}', '{"model.pb": null}', '{"": "0"}', '{"sub": "0"}']
)
def test_a_damaged_record_removes_nothing(record: str, tmp_path: Path) -> None:
    folder = tmp_path / 'export'
    folder.mkdir()
    (tmp_path / 'outside').write_text('mine')
    (folder / MANIFEST).write_text(record)
    (folder / 'other.pb').write_text('mine')
    (folder / 'sub').mkdir()
    export(folder, '1', remove=True)
    assert contents(folder) == {'other.pb': 'mine', 'model.pb': 'model 1', 'card.md': 'card 1'}
    assert (tmp_path / 'outside').read_text() == 'mine'


def test_a_record_cannot_point_outside(tmp_path: Path) -> None:
    folder = tmp_path / 'export'
    export(folder, '1')
    outside = tmp_path / 'outside'
    outside.write_text('model 1')
    digest_of_model = (folder / MANIFEST).read_text().replace('model.pb', '../outside')
    (folder / MANIFEST).write_text(digest_of_model)
    export(folder, '2', remove=True)
    assert outside.read_text() == 'model 1'

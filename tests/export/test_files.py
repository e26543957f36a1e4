"""An export directory belongs to its user."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from deepspeech_training.errors import ExportError
from deepspeech_training.export.files import MANIFEST, write_export


def writer(text: str) -> Callable[[Path], None]:
    return lambda path: void(path.write_text(text))


def void(_: object) -> None:
    pass


def fails(path: Path) -> None:
    path.write_text('half')
    raise OSError('No space left on device')


def contents(folder: Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in folder.iterdir() if path.name != MANIFEST}


def export(folder: Path, text: str, *, model: str = 'model.pb', card: str = 'card.md', remove: bool = False) -> None:
    files = {model: writer(f'model {text}'), card: writer(f'card {text}')}
    write_export(str(folder), model, files, remove_earlier=remove)


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
        write_export(str(tmp_path), 'model.pb', {'model.pb': writer('2'), 'card.md': fails}, remove_earlier=True)
    assert (contents(tmp_path), (tmp_path / MANIFEST).read_text()) == before


def test_a_folder_in_the_way_is_named(tmp_path: Path) -> None:
    (tmp_path / 'model.pb').mkdir()
    with pytest.raises(ExportError, match=r'cannot write \S*/model\.pb: Is a directory'):
        export(tmp_path, '1')
    assert [path.name for path in tmp_path.iterdir()] == ['model.pb']


@pytest.mark.parametrize('record', ['', 'no JSON', '[1]', '{"../outside": "0"}', '{"model.pb": null}'])
def test_a_damaged_record_removes_nothing(record: str, tmp_path: Path) -> None:
    folder = tmp_path / 'export'
    folder.mkdir()
    (tmp_path / 'outside').write_text('mine')
    (folder / MANIFEST).write_text(record)
    (folder / 'other.pb').write_text('mine')
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

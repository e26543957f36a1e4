"""Models are known by what they contain, and what is none is named."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from deepspeech_training.checkpoints import BEST, LAST
from deepspeech_training.checkpoints.folder import STATE_SUFFIX
from deepspeech_training.checkpoints.tensors import SUFFIXES
from deepspeech_training.config import Config
from deepspeech_training.errors import ModelError
from deepspeech_training.runtimes.content import CHECKPOINT_FILES, CHECKPOINT_SUFFIXES, Content, recognise


def test_names_in_checkpoint_folders_are_those_of_checkpoints() -> None:
    assert set(CHECKPOINT_FILES) == {LAST.state_file, BEST.state_file}
    assert (*SUFFIXES, STATE_SUFFIX) == CHECKPOINT_SUFFIXES


def test_a_checkpoint_by_its_folder_its_stem_and_its_files(toy: Config) -> None:
    folder = toy.checkpoints.load_dir
    assert recognise(folder) == (Content.CHECKPOINT, folder)
    for path in (f'{folder}/train-4', *(f'{folder}/train-4{suffix}' for suffix in CHECKPOINT_SUFFIXES)):
        assert recognise(path) == (Content.CHECKPOINT, f'{folder}/train-4')


def test_a_frozen_graph_under_any_name(frozen: str, tmp_path: Path) -> None:
    path = shutil.copy(frozen, tmp_path / 'model.onnx')
    assert recognise(str(path)) == (Content.FROZEN, str(path))


@pytest.mark.parametrize(
    ('content', 'kind'),
    [
        (b'\x1c\0\0\0TFL3 and more', Content.TFLITE),
        (b'\x08\x0a\x12\x02tf\x3a\x02\x0a\0\x42\x02\x10\x11', Content.ONNX),
        (b'\x0a\x02\x0a\0\x22\x03\x08\xd0\x10', Content.FROZEN),
    ],
)
def test_other_files(content: bytes, kind: Content, tmp_path: Path) -> None:
    (tmp_path / 'model').write_bytes(content)
    assert recognise(str(tmp_path / 'model')) == (kind, str(tmp_path / 'model'))


def test_saved_models_by_their_folder_their_file_and_the_folder_of_versions(tmp_path: Path) -> None:
    for version in ('2', '10'):
        (tmp_path / version).mkdir()
        (tmp_path / version / 'saved_model.pb').write_bytes(b'\x08\x01\x12\0')
    newest = str(tmp_path / '10')
    for path in (str(tmp_path), newest, f'{newest}/saved_model.pb'):
        assert recognise(path) == (Content.SAVED_MODEL, newest)


def test_a_model_of_triton(tmp_path: Path) -> None:
    (tmp_path / '1').mkdir()
    (tmp_path / '1' / 'model.onnx').write_bytes(b'')
    assert recognise(str(tmp_path)) == (Content.ONNX, str(tmp_path / '1' / 'model.onnx'))


@pytest.mark.parametrize(
    ('content', 'reason'),
    [
        (b'', 'is empty'),
        (b'RIFF\x24\0\0\0WAVEfmt ', 'is no model'),
        (b'she had your dark suit\n' * 9, 'is no model'),
        (b'PK\x03\x04 and more', 'is a ZIP archive; unpack it'),
        (b'mmap lm http://kheafield.com/code format version 5\n', 'is a scorer'),
    ],
)
def test_what_is_none_is_named(content: bytes, reason: str, tmp_path: Path) -> None:
    (tmp_path / 'file').write_bytes(content)
    with pytest.raises(ModelError, match=f'{tmp_path}/file: {reason}'):
        recognise(str(tmp_path / 'file'))


def test_a_graph_that_is_cut_off(frozen: str, tmp_path: Path) -> None:
    content = Path(frozen).read_bytes()
    (tmp_path / 'cut.pb').write_bytes(content[: len(content) // 2])
    with pytest.raises(ModelError, match='is cut off or damaged'):
        recognise(str(tmp_path / 'cut.pb'))


def test_a_folder_without_a_model_names_those_in_it(frozen: str, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r'name the model in it: output_graph\.pb'):
        recognise(str(Path(frozen).parent))
    with pytest.raises(ModelError, match=r'without a checkpoint or SavedModel$'):
        recognise(str(tmp_path))


def test_what_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match='cannot be read: No such file'):
        recognise(str(tmp_path / 'none'))

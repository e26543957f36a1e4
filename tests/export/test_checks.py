"""What is found before training."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from deepspeech_training.config import ExportConfig
from deepspeech_training.errors import ExportError, FlagError
from deepspeech_training.export.checks import check_directory, check_export
from deepspeech_training.text.alphabet import Alphabet

ENGLISH = Alphabet(" abcdefghijklmnopqrstuvwxyz'")


@pytest.mark.parametrize(
    'language', ['', 'de', 'en-US', 'cmn-Hans-CN', 'en-Latn-GB-Scotland', 'x-own', 'sl-rozaj-1994']
)
def test_languages(language: str) -> None:
    check_export(ExportConfig(language=language), ENGLISH)


@pytest.mark.parametrize(
    'language', ['es_CO', 'German, Austria', 'de-', '-de', 'überlang', 'en-waytoolongsubtag', 'en\n']
)
def test_bad_languages(language: str) -> None:
    with pytest.raises(FlagError, match='BCP 47'):
        check_export(ExportConfig(language=language), ENGLISH)


@pytest.mark.parametrize(
    ('export', 'message'),
    [
        (
            ExportConfig(quantize=False),
            '--noexport_quantize: is about weights for TensorFlow Lite; give --export_tflite',
        ),
        (ExportConfig(quantize=False, onnx=True), '--noexport_quantize'),
        (ExportConfig(tflite=True, batch_size=0), '--export_batch_size=0: does not fit --export_tflite'),
        (ExportConfig(zip=True, batch_size=0), '--export_batch_size=0: does not fit --export_zip'),
    ],
)
def test_flags_that_do_not_fit(export: ExportConfig, message: str) -> None:
    with pytest.raises(FlagError, match=message):
        check_export(export, ENGLISH)
    check_export(ExportConfig(tflite=True, quantize=False), ENGLISH)
    check_export(ExportConfig(zip=True, quantize=False), ENGLISH)


def test_all_problems_are_named_at_once() -> None:
    with pytest.raises(FlagError) as caught:
        check_export(ExportConfig(language='es_CO', quantize=False), ENGLISH)
    assert len(str(caught.value).splitlines()) == 2


@pytest.mark.parametrize('version', ['0.0.1', '1', str(2**63 - 1), 'v2', '9' * 300])
def test_versions_that_serving_can_have(version: str) -> None:
    check_export(ExportConfig(savedmodel=True, model_version=version), ENGLISH)


def test_a_version_too_large_for_serving() -> None:
    check_export(ExportConfig(model_version=str(2**63)), ENGLISH)
    with pytest.raises(FlagError, match=r'--export_model_version=9223372036854775808: TensorFlow Serving takes'):
        check_export(ExportConfig(savedmodel=True, model_version=str(2**63)), ENGLISH)


def test_a_folder_that_can_be_made(tmp_path: Path) -> None:
    check_directory(str(tmp_path / 'new' / 'folder'))
    assert list(tmp_path.iterdir()) == []


def test_bad_folders(tmp_path: Path) -> None:
    (tmp_path / 'file').touch()
    (tmp_path / 'dangling').symlink_to(tmp_path / 'nothing')
    for path in (tmp_path / 'file', tmp_path / 'file' / 'below', tmp_path / 'dangling'):
        with pytest.raises(ExportError, match='is not a directory'):
            check_directory(str(path))


@pytest.mark.skipif(hasattr(os, 'geteuid') and os.geteuid() == 0, reason='root may write everywhere')
def test_folder_without_permission(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(ExportError, match='is not writable'):
        check_directory(str(tmp_path / 'new'))
    tmp_path.chmod(0o700)

"""Russian, by the program, from CSV files to transcripts: with the Cyrillic alphabet, and in bytes."""

from __future__ import annotations

import json
import subprocess
import sys
import unicodedata
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import pytest

from deepspeech_training.audio.reading import read_audio
from deepspeech_training.decoding import make_decoder
from deepspeech_training.runtimes import open_model
from deepspeech_training.text.metrics import Transcription, error_rates
from tests.jobs import run_alone

ROOT = Path(__file__).parents[2]
BEAM_WIDTH = 20

SPOKEN = {
    'lowercase': 'нижний регистр',
    'num-was-successfully': 'номер успешно',
    'privacy-to-blacklist-last-caller': 'последний звонивший',
    'one-moment-please': 'секундочку пожалуйста',
}
"""Short recordings of the training set. In the normal form NFD, й is two characters."""


@dataclass(frozen=True)
class Trained:
    """What the program made in `folder`."""

    folder: Path
    of_bytes: bool
    labels: list[str]  # flags
    spoken: dict[str, str]  # what it was trained on

    def flags(self) -> list[str]:
        """Of the model."""
        common = {'checkpoint_dir': 'model', 'audio_sample_rate': 8000, 'n_hidden': 100, 'beam_width': BEAM_WIDTH}
        return [*self.labels, *(f'--{name}={value}' for name, value in common.items())]

    def run(self, *flags: str, script: str = 'DeepSpeech.py') -> subprocess.CompletedProcess[str]:
        return run_alone([sys.executable, str(ROOT / script), *flags], folder=self.folder)

    def report(self) -> dict[str, dict[str, str]]:
        """Of the test, by the name of the recording."""
        rows = json.loads((self.folder / 'test.json').read_text(encoding='utf-8'))
        return {Path(row['wav_filename']).stem: row for row in rows}


@pytest.fixture(scope='module', params=['alphabet', 'bytes'])
def trained(request: pytest.FixtureRequest, deepspeech_data: Path, tmp_path_factory: pytest.TempPathFactory) -> Trained:
    """Trained on transcripts in NFD, tested on the same ones in NFC, and exported, all in one run."""
    folder, data = tmp_path_factory.mktemp(request.param), deepspeech_data / 'prompts-ru'
    of_bytes = request.param == 'bytes'
    labels = ['--bytes_output_mode'] if of_bytes else [f'--alphabet_config_path={data / "alphabet.txt"}']
    spoken = dict(list(SPOKEN.items())[:2]) if of_bytes else SPOKEN  # bytes are more work
    trained = Trained(folder, of_bytes, labels, spoken)
    forms: dict[str, Literal['NFC', 'NFD']] = {'train': 'NFD', 'test': 'NFC'}
    for name, form in forms.items():
        rows = [f'{data}/wav/{file}.wav,,{unicodedata.normalize(form, text)}' for file, text in spoken.items()]
        content = '\n'.join(['wav_filename,wav_filesize,transcript', *rows])
        (folder / f'{name}.csv').write_text(content, encoding='utf-8')
    done = trained.run(
        *trained.flags(),
        *('--train_files=train.csv', '--train_batch_size=4', '--learning_rate=0.004'),
        f'--epochs={180 if of_bytes else 130}',
        *('--dropout_rate=0', '--summary_dir=curves', '--noshow_progressbar'),
        *('--test_files=test.csv', '--test_output_file=test.json', '--export_dir=export'),
        f'--one_shot_infer={data}/wav/lowercase.wav',
    )
    assert done.returncode == 0, done.stderr
    assert 'Traceback' not in done.stderr
    assert done.stdout.splitlines()[-1] == trained.report()['lowercase']['res']
    return trained


def test_it_learns_what_was_said(trained: Trained) -> None:
    report = trained.report()
    assert {name: row['src'] for name, row in report.items()} == trained.spoken
    results = [Transcription.of(name, trained.spoken[name], row['res'], 0.0) for name, row in report.items()]
    wer, cer, _ = error_rates(results)
    assert wer < 0.5
    assert cer < 0.2
    assert all(unicodedata.is_normalized('NFC', row['res']) for row in report.values())


def test_export_and_checkpoint_write_the_same(trained: Trained, deepspeech_data: Path) -> None:
    report = trained.report()
    for path in ('model', 'export/output_graph.pb'):
        with open_model(str(trained.folder / path)) as model:
            assert model.alphabet.of_bytes == trained.of_bytes
            decoder = make_decoder(model.alphabet, BEAM_WIDTH)
            for name in trained.spoken:
                samples = read_audio(str(deepspeech_data / 'prompts-ru' / 'wav' / f'{name}.wav'), model.info.features)
                assert decoder.decode(model.log_probabilities(samples)) == report[name]['res'], (path, name)


def test_words_have_times(trained: Trained, deepspeech_data: Path) -> None:
    audio = [str(deepspeech_data / 'prompts-ru' / 'wav' / f'{name}.wav') for name in trained.spoken]
    flags = ['export/output_graph.pb', *audio, '--format=json', f'--beam_width={BEAM_WIDTH}', '--noshow_progressbar']
    done = trained.run(*flags, script='bin/transcribe.py')
    assert done.returncode == 0, done.stderr
    for line in done.stdout.splitlines():
        result = json.loads(line)
        heard = trained.report()[Path(result['file']).stem]['res']
        assert result['transcript'] == heard.strip()
        assert [word['word'] for word in result['words']] == heard.replace('\ufffd', '').split()
        starts = [word['start_time'] for word in result['words']]
        assert starts == sorted(starts)


def test_the_other_kind_of_labels_does_not_fit(trained: Trained, deepspeech_data: Path) -> None:
    data = deepspeech_data / 'prompts-ru'
    alphabet = f'--alphabet_config_path={data / "alphabet.txt"}'
    labels = [alphabet] if trained.of_bytes else ['--bytes_output_mode']
    other = replace(trained, of_bytes=not trained.of_bytes, labels=labels)
    done = other.run(*other.flags(), f'--one_shot_infer={data}/wav/lowercase.wav')
    assert done.returncode == 2
    assert 'Traceback' not in done.stderr
    told = 'it was trained with --bytes_output_mode, and here it is' if trained.of_bytes else 'an alphabet of 34'
    assert told in done.stderr

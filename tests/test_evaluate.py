from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import soundfile
import tensorflow as tf

import deepspeech_training.evaluate
from deepspeech_training.config import Config, ParallelConfig, ReportConfig
from deepspeech_training.data.checks import DataSets, check_data
from deepspeech_training.evaluate import Found, _exchanged, evaluate
from deepspeech_training.infer import one_shot_infer
from deepspeech_training.parallel.sync import SyncStrategy
from deepspeech_training.text.alphabet import Alphabet
from deepspeech_training.text.metrics import Transcription
from tests.evaluation.page import Page
from tests.helpers import run_training, transcriptions
from tests.toy import toy_config, write_corpus, write_tones


@pytest.fixture(scope='module')
def trained(tmp_path_factory: pytest.TempPathFactory) -> Config:
    """A model of the toy language, good enough to say something."""
    config = toy_config(tmp_path_factory.mktemp('trained'), train=16, batch_size=4, epochs=30, test=7, n_hidden=32)
    config = replace(config, optimizer=replace(config.optimizer, learning_rate=0.005))
    run_training(config)
    return config


def checked(config: Config) -> tuple[DataSets, Alphabet]:
    tf.compat.v1.disable_v2_behavior()
    config = replace(config, data=replace(config.data, train_files=()))
    alphabet = Alphabet.from_file(config.data.alphabet_config_path)
    folder = config.checkpoints.save_dir
    sets = check_data(config.data, config.features, alphabet, save_dir=folder, show_progressbar=False)
    return sets, alphabet


def transcribe(config: Config) -> list[Transcription]:
    return transcriptions(config, *checked(config))


def test_results_do_not_depend_on_batch_size_or_towers(
    trained: Config, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    results = []
    for batch_size, towers in ((1, 1), (3, 2), (16, 1)):
        config = replace(
            trained,
            data=replace(trained.data, test_batch_size=batch_size),
            parallel=replace(trained.parallel, cpu_towers=towers),
        )
        results.append({t.wav_filename: t for t in transcribe(config)})
    assert len(results[0]) == 7
    for other in results[1:]:
        assert {name: t.res for name, t in other.items()} == {name: t.res for name, t in results[0].items()}
        for name, transcription in results[0].items():
            assert other[name].loss == pytest.approx(transcription.loss, rel=1e-4, abs=1e-4)
    assert any(t.res for t in results[0].values())
    assert capsys.readouterr().out.count('Test on') == 3


def test_one_shot_hears_what_testing_hears(trained: Config) -> None:
    alphabet = Alphabet.from_file(trained.data.alphabet_config_path)
    for transcription in transcribe(trained)[:3]:
        assert (
            one_shot_infer(replace(trained, one_shot_infer=transcription.wav_filename), alphabet) == transcription.res
        )


def test_one_shot_resamples(trained: Config, tmp_path: Path) -> None:
    """The same speech at another rate gives nearly the same probabilities of characters, frame by frame."""
    from deepspeech_training.audio.reading import read_audio
    from deepspeech_training.infer import compute_logits

    tf.compat.v1.disable_v2_behavior()
    alphabet = Alphabet.from_file(trained.data.alphabet_config_path)
    probabilities = []
    for rate in (16000, 44100):
        write_tones(tmp_path / f'{rate}.wav', 'abcab', rate)
        logits = compute_logits(trained, alphabet, read_audio(str(tmp_path / f'{rate}.wav'), trained.features))
        exponentials = np.exp(logits - logits.max(axis=1, keepdims=True))
        probabilities.append(exponentials / exponentials.sum(axis=1, keepdims=True))
    same, resampled = probabilities
    assert same.shape == resampled.shape
    assert np.abs(same - resampled).mean() < 0.03
    assert np.abs(same - same.mean(axis=0)).mean() > 0.03  # they say something


def test_the_channel_that_is_picked_is_what_is_heard(trained: Config, tmp_path: Path) -> None:
    """Noise on the left and the speech of the test set on the right, in testing and one-shot."""
    (original,) = trained.data.test_files
    for path in Path(original).parent.glob('test_*.wav'):
        speech, rate = soundfile.read(path)
        noise = np.random.default_rng(1).normal(0, 0.2, len(speech))
        soundfile.write(tmp_path / path.name, np.stack([noise, speech], axis=1), rate, format='FLAC')
    (tmp_path / 'test.csv').write_bytes(Path(original).read_bytes())
    data = replace(trained.data, test_files=(str(tmp_path / 'test.csv'),), feature_cache=str(tmp_path / 'cache'))
    features = replace(trained.features, channel=2)
    mono = {Path(t.wav_filename).name: t for t in transcribe(trained)}

    mixed = transcribe(replace(trained, data=data))
    picked = transcribe(replace(trained, data=data, features=features))

    assert {Path(t.wav_filename).name: (t.res, t.loss) for t in picked} == {n: (t.res, t.loss) for n, t in mono.items()}
    assert any(t.loss > mono[Path(t.wav_filename).name].loss for t in mixed)
    alphabet = Alphabet.from_file(trained.data.alphabet_config_path)
    one = replace(trained, one_shot_infer=picked[0].wav_filename, features=features)
    assert one_shot_infer(one, alphabet) == picked[0].res


class Parrot:
    """A decoder that always says the same."""

    def decode(self, logits: np.ndarray) -> str:
        return 'abc'

    def close(self) -> None:
        pytest.fail('who opened it closes it')


def test_a_decoder_that_is_open_is_used(trained: Config) -> None:
    data_sets, alphabet = checked(trained)
    (summary,) = evaluate(trained, data_sets, alphabet, Parrot())
    (rows,) = data_sets.test.values()
    assert summary.wrong_utterances == sum(sample.transcript != 'abc' for sample in rows)
    assert one_shot_infer(replace(trained, one_shot_infer=rows[0].path), alphabet, Parrot()) == 'abc'


def test_several_sets_and_their_reports(trained: Config, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (path,) = trained.data.test_files
    other = write_corpus(tmp_path, 'other', ['ab', 'cab', 'bcc'])
    report = ReportConfig(
        show_progressbar=False,
        report_count=1,
        test_output_file=str(tmp_path / 'deepspeech.json'),
        test_report_file=str(tmp_path / 'page.HTML'),
    )
    config = replace(trained, data=replace(trained.data, test_files=(path, other)), report=report)
    summaries = evaluate(config, *checked(config))
    out = capsys.readouterr().out
    assert [summary.utterances for summary in summaries] == [7, 3]
    assert [line.split(' - ')[0] for line in out.splitlines() if line.startswith('Test on')] == [
        f'Test on {path}',
        f'Test on {other}',
        'Test on overall',
    ]
    assert ' - 10 utterances, ' in out
    rows = json.loads((tmp_path / 'deepspeech.json').read_text())
    page = Page((tmp_path / 'page.HTML').read_text(encoding='utf-8'))
    assert [row.data['file'] for row in page.rows] == [row['wav_filename'] for row in rows]
    assert [float(row.data['wer']) for row in page.rows] == [row['wer'] for row in rows]
    assert all(len(row.audio()[0]) for row in page.rows)


class OneOfTwo(SyncStrategy):
    """A process of two; the other one has these transcriptions."""

    def __init__(self, others: list[Found]) -> None:
        super().__init__(ParallelConfig(parallel='sync'))
        self.others = others

    def all_gather(self, value: list[Found]) -> list[list[Found]]:  # type: ignore[override]
        there, self.others = self.others[:2], self.others[2:]
        assert len(value) <= 2
        return [value, there]


@pytest.mark.parametrize(('own', 'others'), [(5, 2), (1, 6), (0, 3), (4, 4)])
def test_processes_tell_each_other_a_few_at_a_time(own: int, others: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deepspeech_training.evaluate, 'SENT_TOGETHER', 2)
    found = [(line, Transcription.of(f'{line}.wav', 'a', 'b', 1.0)) for line in range(own + others)]
    together = _exchanged(OneOfTwo(found[own:]), iter(found[:own]))
    assert sorted(together, key=lambda each: each[0]) == found

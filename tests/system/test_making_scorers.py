"""From text to a scorer that the trainer, DeepSpeech and Coqui STT decode with, all to the same text."""

from __future__ import annotations

import gzip
import subprocess
from pathlib import Path

import generate_lm
import generate_scorer_package
import numpy as np
import pytest

from deepspeech_training.audio.reading import read_audio
from deepspeech_training.config import CheckpointConfig, Config, ExportConfig, FeatureConfig, ModelConfig
from deepspeech_training.decoding import BeamSearchDecoder, Scorer, ScorerOptions, SearchOptions
from deepspeech_training.decoding.kenlm_programs import find_programs
from deepspeech_training.decoding.scorer_check import check_scorer_package
from deepspeech_training.decoding.scorer_file import read_scorer_file
from deepspeech_training.errors import ScorerError
from deepspeech_training.export.formats import export_model
from deepspeech_training.runtimes import open_model
from deepspeech_training.text.alphabet import Alphabet
from tests.system.clients import COQUI, DEEPSPEECH, Client, ask

ROOT = Path(__file__).resolve().parents[2]
ALPHABET = str(ROOT / 'data' / 'alphabet.txt')
ENGLISH = Alphabet.from_file(ALPHABET)
SENTENCE = 'she had your dark suit in greasy wash water all year'
DIGITS = ['zero', 'one', 'two', 'three', 'four', 'five', 'six', 'seven', 'eight', 'nine']
SMALL = ['--max_arpa_memory', '200M', '--discount_fallback']


@pytest.fixture(scope='module', autouse=True)
def programs() -> Path:
    """KenLM's."""
    try:
        return find_programs()
    except ScorerError as error:
        pytest.skip(str(error))


@pytest.fixture(scope='module')
def ldc93s1(deepspeech_data: Path) -> Path:
    return deepspeech_data / 'deepspeech-0.9.3' / 'ldc93s1'


@pytest.fixture(scope='module')
def digits_scorer(programs: Path, deepspeech_data: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    """Of the transcripts of a training set."""
    folder = tmp_path_factory.mktemp('digits')
    text = ['--input_txt', str(deepspeech_data / 'digits' / 'train.csv'), '--output_dir', str(folder)]
    assert generate_lm.main([*text, '--top_k', '100', '--arpa_order', '3', *SMALL]) == 0
    return packaged(folder, 'vocab-100.txt')


@pytest.fixture(scope='module')
def sentences_scorer(programs: Path, ldc93s1: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    """Of sentences with the words of DeepSpeech's small vocabulary, and of one that makes sense, in two files."""
    folder = tmp_path_factory.mktemp('sentences')
    words = (ldc93s1 / 'vocab.pruned.txt').read_text().split()
    random = np.random.default_rng(0)
    lines = [' '.join(random.choice(words, size=8)) for _ in range(2000)]
    (folder / 'some.txt').write_text('\n'.join(lines[:1000]) + f'\n{SENTENCE.upper()}\n')
    with gzip.open(folder / 'more.txt.gz', 'wt') as more:
        more.write('\n'.join(lines[1000:]))
    text = ['--input_txt', str(folder / 'some.txt'), str(folder / 'more.txt.gz'), '--output_dir', str(folder)]
    assert generate_lm.main([*text, '--top_k', '3530', '--arpa_prune', '0|0|0', *SMALL]) == 0
    return packaged(folder, 'vocab-3530.txt')


def packaged(folder: Path, vocabulary: str) -> str:
    made = [str(folder / name) for name in ('lm.binary', vocabulary, 'own.scorer')]
    options = [each for pair in zip(('--lm', '--vocab', '--package'), made, strict=True) for each in pair]
    weights = ['--default_alpha', '0.5', '--default_beta', '1.5']
    assert generate_scorer_package.main(['--alphabet', ALPHABET, *options, *weights]) == 0
    return made[-1]


def decoded(model: str, audio: Path, scorer: str, beam_width: int) -> str:
    """What this project's decoder finds."""
    with open_model(model) as runtime:
        logits = runtime.log_probabilities(read_audio(str(audio), FeatureConfig()))
    decoder = BeamSearchDecoder(ENGLISH, SearchOptions(beam_width), Scorer(ScorerOptions(scorer), ENGLISH))
    return decoder.decode(logits)


@pytest.mark.parametrize('client', [DEEPSPEECH, COQUI], ids=lambda client: client.requirement)
def test_clients_decode_with_them(
    client: Client, ldc93s1: Path, digits_scorer: str, sentences_scorer: str, tmp_path: Path
) -> None:
    model = str(ldc93s1 / 'output_graph.pb')
    if client is COQUI:
        config = Config(
            model=ModelConfig(n_hidden=100),
            checkpoints=CheckpointConfig(load_dir=str(ldc93s1 / 'checkpoint')),
            export=ExportConfig(export_dir=str(tmp_path), tflite=True, quantize=True),
        )
        model = export_model(config, ENGLISH)[0]
    audio = ldc93s1 / 'LDC93S1_pcms16le_1_16000.wav'
    texts = []
    for scorer in (sentences_scorer, digits_scorer):
        check_scorer_package(scorer, ENGLISH)
        answer = ask(client, {'model': model, 'audio': [str(audio)], 'scorer': scorer, 'beam_width': 200})
        assert 'rror' not in answer.errors, answer.errors
        (text,) = answer.result['batch']
        assert answer.result['stream'] == [text]
        texts.append(text)
        if client is DEEPSPEECH:
            assert decoded(model, audio, scorer, 200) == text
    assert texts[0] == SENTENCE
    assert set(texts[1].split()) < set(DIGITS)  # the wrong language model, but nothing else can be written
    assert texts[1]


def test_a_language_model_of_digits(digits_scorer: str, deepspeech_data: Path) -> None:
    """It knows these words only, and that each is as likely as another."""
    file = read_scorer_file(digits_scorer)
    assert (file.alpha, file.beta) == (0.5, 1.5)
    folder = Path(digits_scorer).parent
    assert sorted((folder / 'vocab-100.txt').read_text().split()) == sorted(DIGITS)
    assert sorted(read_scorer_file(str(folder / 'lm.arpa')).words) == sorted(DIGITS)
    assert sorted(each.name for each in folder.iterdir()) == ['lm.arpa', 'lm.binary', 'own.scorer', 'vocab-100.txt']
    scoring = Scorer(ScorerOptions(digits_scorer, alpha=1.0, beta=0.0), ENGLISH).begin()
    scores = [scoring.score(0, tuple(ENGLISH.encode(word))) for word in DIGITS]
    assert 0.5 < np.exp(scores).sum() <= 1.0
    assert scoring.score(0, tuple(ENGLISH.encode('eleven'))) == -1000.0


def test_the_package_of_an_arpa_file_is_the_same(digits_scorer: str, tmp_path: Path) -> None:
    arpa = Path(digits_scorer).with_name('lm.arpa')
    (tmp_path / 'lm.arpa.gz').write_bytes(gzip.compress(arpa.read_bytes()))
    for lm in (str(arpa), str(tmp_path / 'lm.arpa.gz')):
        arguments = ['--alphabet', ALPHABET, '--lm', lm, '--package', str(tmp_path / 'b.scorer')]
        weights = ['--default_alpha', '0.5', '--default_beta', '1.5']
        assert generate_scorer_package.main([*arguments, *weights]) == 0
        assert (tmp_path / 'b.scorer').read_bytes() == Path(digits_scorer).read_bytes()


def test_a_probing_binary_with_the_names_of_its_words(programs: Path, digits_scorer: str, tmp_path: Path) -> None:
    arpa = Path(digits_scorer).with_name('lm.arpa')
    binary = tmp_path / 'lm.binary'
    subprocess.run([programs / 'build_binary', 'probing', arpa, binary], check=True, capture_output=True)
    arguments = ['--alphabet', ALPHABET, '--lm', str(binary), '--package', str(tmp_path / 'b.scorer')]
    assert generate_scorer_package.main(arguments) == 0
    scorer = Scorer(ScorerOptions(str(tmp_path / 'b.scorer'), alpha=1.0, beta=0.0), ENGLISH)
    assert scorer.begin().score(0, tuple(ENGLISH.encode('eight'))) > -10.0

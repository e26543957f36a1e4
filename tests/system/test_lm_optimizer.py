"""A scorer whose weights bin/lm_optimizer.py has found and written, in DeepSpeech's client."""

from __future__ import annotations

from pathlib import Path

import lm_optimizer

from deepspeech_training.audio.reading import read_audio
from deepspeech_training.config import FeatureConfig
from deepspeech_training.decoding import BeamSearchDecoder, Scorer, ScorerOptions, SearchOptions
from deepspeech_training.decoding.scorer_file import place_of_weights, read_scorer_file
from deepspeech_training.decoding.scorer_package import write_weights
from deepspeech_training.runtimes import open_model
from tests.system.clients import DEEPSPEECH, ask

WIDTH = 200  # with narrower beams, rounding decides what is left of a model that hears little


def test_the_client_decodes_with_the_weights_that_were_written(deepspeech_data: Path, tmp_path: Path) -> None:
    """A model that hears little: with other weights it writes other words."""
    folder = deepspeech_data / 'deepspeech-0.9.3'
    model, data = str(folder / 'resume-check' / 'output_graph.pb'), folder / 'resume-check' / 'dev.csv'
    scorer = tmp_path / 'scorer' / 'own.scorer'
    scorer.parent.mkdir()
    write_weights(str(folder / 'ldc93s1' / 'pruned_lm.scorer'), str(scorer), 0.05, 5.0)  # a rain of words
    before = scorer.read_bytes()
    tuned = tmp_path / 'tuned.scorer'
    options = ['--scorer_path', str(scorer), '--beam_width', str(WIDTH), '--n_trials', '6', '--objective', 'cer']
    assert lm_optimizer.main([model, str(data), *options, '--write_scorer', str(tuned)]) == 0
    assert scorer.read_bytes() == before

    place = place_of_weights(str(scorer))
    after = tuned.read_bytes()
    assert (after[:place], after[place + 16 :]) == (before[:place], before[place + 16 :])
    assert read_scorer_file(str(tuned)).alpha != read_scorer_file(str(scorer)).alpha

    audio = sorted((folder / 'resume-check' / 'wav').glob('*.wav'))[:3]
    texts = []
    for each in (tuned, scorer):
        question = {'model': model, 'audio': [str(path) for path in audio], 'scorer': str(each), 'beam_width': WIDTH}
        answer = ask(DEEPSPEECH, question)
        assert 'rror' not in answer.errors, answer.errors
        texts.append(answer.result['batch'])
    assert texts[0] == [decoded(model, path, str(tuned)) for path in audio]
    assert texts[1] != texts[0]

    assert lm_optimizer.main([model, str(data), *options, '--update_scorer']) == 0
    assert scorer.read_bytes()[:place] == before[:place]
    assert sorted(path.name for path in scorer.parent.iterdir()) == ['own.scorer']


def decoded(model: str, audio: Path, scorer: str) -> str:
    """What this project's decoder finds."""
    with open_model(model) as runtime:
        logits = runtime.log_probabilities(read_audio(str(audio), FeatureConfig()))
        decoder = BeamSearchDecoder(
            runtime.alphabet, SearchOptions(WIDTH), Scorer(ScorerOptions(scorer), runtime.alphabet)
        )
    return decoder.decode(logits)

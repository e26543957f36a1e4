"""What is printed at the end of a search."""

from __future__ import annotations

from collections.abc import Mapping

from deepspeech_training.tuning.search import NO_MODEL, OWN_WEIGHTS
from deepspeech_training.tuning.study import Space, Trial

NAMES = 26  # columns
FIGURES = 9


def report(baselines: Mapping[str, Trial], best: Trial, trials: int, said: tuple[int, int], space: Space) -> str:
    """Weights and error rates of the baselines and of the best of `trials`, and the flags that stand for that.

    `said`: words and characters of the set.
    """
    rows: list[tuple[str, ...]] = [('', 'alpha', 'beta', 'WER', 'CER')]
    for name, trial in [*baselines.items(), (f'best of {trials} trials', best)]:
        weights = ['' if value is None else f'{value:.4f}' for value in (trial.settings.alpha, trial.settings.beta)]
        rates = [f'{100 * rate:.2f}%' for rate in error_rates(trial, said)]
        rows.append((name, *weights, *rates))
    lines = [f'{name:{NAMES}}' + ''.join(f'{figure:>{FIGURES}}' for figure in figures) for name, *figures in rows]
    wer, _ = error_rates(best, said)
    gains = [(name, 100 * (error_rates(baselines[name], said)[0] - wer)) for name in (NO_MODEL, OWN_WEIGHTS)]
    lines.append('Gain in WER: ' + ', '.join(f'{gain:.2f} points over {name}' for name, gain in gains))
    return '\n'.join([*lines, flags(best, space)])


def error_rates(trial: Trial, said: tuple[int, int]) -> tuple[float, float]:
    """WER and CER."""
    words, characters = said
    return trial.errors.words / max(words, 1), trial.errors.characters / max(characters, 1)


def flags(best: Trial, space: Space) -> str:
    """What to give to DeepSpeech.py and the tools."""
    settings = best.settings
    chosen = f'--lm_alpha {settings.alpha} --lm_beta {settings.beta}'
    if space.beam:
        chosen += f' --beam_width {settings.beam_width}'
    if space.cutoffs:
        chosen += f' --cutoff_prob {settings.cutoff_prob} --cutoff_top_n {settings.cutoff_top_n}'
    return chosen

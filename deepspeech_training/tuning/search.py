"""The search: baselines first, then trials, several at a time, given up as soon as they cannot be the best any more."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import replace
from typing import Any

from deepspeech_training.tuning.counting import Counters, Errors, Settings
from deepspeech_training.tuning.study import Study, Trial

NO_MODEL, OWN_WEIGHTS = 'no language model', "the scorer's own weights"
"""What the best trial is compared with."""


def measure_baselines(study: Study, counters: Counters, own: Settings) -> dict[str, Trial]:
    """Errors without the language model and with `own` settings, computed once in a study."""
    wanted = {NO_MODEL: replace(own, alpha=None, beta=None), OWN_WEIGHTS: own}
    known = {name: trial for name in wanted if (trial := study.baseline(name))}
    futures = {name: counters.submit(settings) for name, settings in wanted.items() if name not in known}
    for name, future in futures.items():
        known[name] = Trial(wanted[name], future.result())
        study.keep_baseline(name, known[name])
    return {name: known[name] for name in wanted}


def search(
    study: Study,
    counters: Counters,
    trials: int,
    by_characters: bool,
    own: Trial,
    advance: Callable[[int, int], None],
) -> None:
    """Tries until the study has so many `trials`. The weights of `own` are the ones to beat.

    `advance` is told of each trial, and how many errors the best has. An interruption leaves what is done.
    """
    running: dict[Future[Errors], tuple[Any, int]] = {}
    try:
        least = errors_of(best_of(study, own, by_characters).errors, by_characters)
        while True:
            while len(running) < counters.processes and study.done + len(running) < trials:
                trial, settings = study.ask()
                try:
                    running[counters.submit(settings, by_characters, least)] = trial, least
                except BaseException:
                    study.tell(trial, None)
                    raise
            if not running:
                return
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                errors = future.result()
                trial, enough = running.pop(future)
                value = errors_of(errors, by_characters)
                study.tell(trial, errors, complete=value <= enough)
                least = min(least, value) if value <= enough else least
                advance(1, least)
    finally:
        for trial, _ in running.values():
            study.tell(trial, None)


def best_of(study: Study, own: Trial, by_characters: bool) -> Trial:
    """The best trial, or `own` where none is better."""
    found = study.best()
    return min([own, found] if found else [own], key=lambda trial: trial.rank(by_characters))


def errors_of(errors: Errors, by_characters: bool) -> int:
    return errors.characters if by_characters else errors.words

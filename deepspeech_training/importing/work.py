"""From the utterances of a corpus to CSV files."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath

from deepspeech_training import log
from deepspeech_training.data.splitting import BY_SPEAKER, DEV, TEST, TRAIN, Shares, choose_splits, way_to_split
from deepspeech_training.errors import DataError
from deepspeech_training.importing.conversion import Converted, Piece, Recording, convert_all
from deepspeech_training.importing.corpus import Corpus, Utterance
from deepspeech_training.importing.filters import Limits, length_problem
from deepspeech_training.importing.labels import LabelSettings, make_label
from deepspeech_training.importing.output import (
    Reject,
    Row,
    check_csv_files,
    csv_path,
    report,
    write_csvs,
    write_rejects,
)
from deepspeech_training.importing.sources import audio_folder

BY_CORPUS = 'corpus'
UNREADABLE = 'the audio cannot be used'


@dataclass(frozen=True)
class Settings:
    """What the arguments say."""

    folder: Path
    labels: LabelSettings
    limits: Limits
    keep_audio: bool
    processes: int
    splits: tuple[str, ...]  # of the corpus; () for its usual ones
    split_by: str
    shares: Shares
    show_progress: bool


@dataclass(frozen=True, slots=True)
class _Candidate:
    """An utterance whose transcript can be used."""

    utterance: Utterance
    label: str
    output: str  # '' where the audio stays where it is


def import_utterances(corpus: Corpus, utterances: Iterable[Utterance], settings: Settings) -> str:
    """Cleans, converts, filters, splits and writes; returns a report.

    Raises `DataError` where nothing can be used or something cannot be written; earlier CSV files are left then.
    """
    rejects: list[Reject] = []
    wanted = _wanted(corpus, utterances, settings)
    check_csv_files(settings.folder, _possible_splits(wanted, settings))
    candidates = _clean(wanted, settings, rejects)
    converted = _convert(candidates, settings)
    usable = []
    for candidate in candidates:
        audio = converted[_key(candidate)]
        reason = UNREADABLE if audio.problem else length_problem(candidate.label, audio, settings.limits)
        if reason:
            rejects.append(_reject(candidate.utterance, reason, audio.problem))
        else:
            usable.append(candidate)
    splits = _rows_by_split(_split(usable, settings), converted)
    write_rejects(settings.folder, rejects)
    told = report(settings.folder, splits, rejects)
    if not usable:
        raise DataError(f'{corpus.name}: no utterance can be used\n{told}')
    write_csvs(settings.folder, splits)
    if all(_is_open(candidate.utterance, settings) for candidate in usable):
        _remove_others(settings, splits)
    return told


def _wanted(corpus: Corpus, utterances: Iterable[Utterance], settings: Settings) -> list[Utterance]:
    """Those of the splits that are asked for. Raises `DataError` for one that the corpus does not have."""
    wanted = settings.splits or corpus.splits
    every = list(utterances)
    there = {utterance.split for utterance in every}
    missing = sorted(set(settings.splits) - there)
    if missing:
        names = ', '.join(sorted(there - {''})) or 'none of its own'
        raise DataError(f'--splits: {corpus.name} has no split {missing[0]!r} here. It has {names}')
    return [utterance for utterance in every if not (wanted and utterance.split) or utterance.split in wanted]


def _is_open(utterance: Utterance, settings: Settings) -> bool:
    """Whether a split is to be chosen for it."""
    return settings.split_by != BY_CORPUS or not utterance.split


def _possible_splits(utterances: Iterable[Utterance], settings: Settings) -> dict[str, str]:
    """The splits that there may be, and of each where an utterance is that has it."""
    found: dict[str, str] = {}
    for utterance in utterances:
        names = (TRAIN, DEV, TEST) if _is_open(utterance, settings) else (utterance.split,)
        for name in names:
            found.setdefault(name, utterance.source)
    return found


def _clean(utterances: Sequence[Utterance], settings: Settings, rejects: list[Reject]) -> list[_Candidate]:
    """Those whose transcripts can be used, with the names of their audio; the others go to `rejects`."""
    names: dict[str, tuple[str, float, float | None]] = {}
    folder = audio_folder(settings.folder, settings.limits.features.channel)
    candidates = []
    for utterance in utterances:
        label, reason = make_label(utterance.transcript, settings.labels)
        if reason:
            rejects.append(_reject(utterance, reason))
        else:
            output = '' if settings.keep_audio else _output(utterance, folder, names)
            candidates.append(_Candidate(utterance, label, output))
    return candidates


def _reject(utterance: Utterance, reason: str, detail: str = '') -> Reject:
    return Reject(utterance.split, utterance.source, utterance.audio, reason, utterance.transcript, detail)


def _output(utterance: Utterance, folder: Path, names: dict[str, tuple[str, float, float | None]]) -> str:
    """A file for the audio of an utterance. `names`: those that are given. Raises `DataError` where both are taken.

    `a.wav` becomes `a.wav` in `folder`, and `a.flac` beside it `a.flac.wav`.
    """
    parts = [part for part in PurePosixPath(utterance.name).parts if part not in ('/', '..')]
    short = os.path.join(folder, *parts)
    what = (utterance.audio, utterance.start, utterance.end)
    for output in (f'{short}.wav', f'{short}{os.path.splitext(utterance.audio)[1]}.wav'):
        if names.setdefault(output, what) == what:
            return output
    raise DataError(
        f'{utterance.source}: the audio {utterance.audio} would have the same name as {names[output][0]}: {output}. '
        'Import them into two folders'
    )


def _key(candidate: _Candidate) -> str:
    return candidate.output or candidate.utterance.audio


def _convert(candidates: Sequence[_Candidate], settings: Settings) -> dict[str, Converted]:
    """What became of the audio, by the name it has afterwards."""
    pieces: dict[str, dict[str, Piece]] = {}
    for candidate in candidates:
        utterance = candidate.utterance
        piece = Piece(candidate.output, utterance.start, utterance.end)
        pieces.setdefault(utterance.audio, {})[candidate.output] = piece
    recordings = [Recording(audio, tuple(of_audio.values())) for audio, of_audio in pieces.items()]
    total = sum(len(recording.pieces) for recording in recordings)
    found: dict[str, Converted] = {}
    what = 'Looking at audio' if settings.keep_audio else 'Converting'
    with log.progress(what, total, settings.show_progress) as bar:
        for some in convert_all(recordings, settings.limits.features, settings.processes):
            found.update((converted.path, converted) for converted in some)
            bar.advance(len(some))
    if earlier := sum(converted.was_there for converted in found.values()):
        log.info(f'{earlier} of {total} audio files were there from an earlier import')
    return found


def _split(candidates: Sequence[_Candidate], settings: Settings) -> list[_Candidate]:
    """The candidates, each with a split."""
    places = [place for place, candidate in enumerate(candidates) if _is_open(candidate.utterance, settings)]
    found = list(candidates)
    if not places:
        return found
    names = [candidates[place].utterance.name for place in places]
    speakers = [candidates[place].utterance.speaker for place in places]
    way = way_to_split(speakers) if settings.split_by == BY_CORPUS else settings.split_by
    if way == BY_SPEAKER and not all(speakers):
        first = candidates[places[speakers.index('')]].utterance
        raise DataError(f'--split_by={way}: the speaker of {first.audio} is not known')
    log.info(f'Split into {TRAIN}, {DEV} and {TEST} by {way}')
    for place, split in zip(places, choose_splits(names, speakers, way, settings.shares), strict=True):
        found[place] = replace(found[place], utterance=replace(found[place].utterance, split=split))
    return found


def _rows_by_split(candidates: Sequence[_Candidate], converted: Mapping[str, Converted]) -> dict[str, list[Row]]:
    splits: dict[str, list[Row]] = {}
    for candidate in candidates:
        audio = converted[_key(candidate)]
        seconds = audio.frames / audio.sample_rate
        row = Row(audio.path, audio.size, candidate.label, candidate.utterance.speaker, seconds)
        splits.setdefault(candidate.utterance.split, []).append(row)
    order = {name: number for number, name in enumerate((TRAIN, DEV, TEST))}
    return dict(sorted(splits.items(), key=lambda item: (order.get(item[0], len(order)), item[0])))


def _remove_others(settings: Settings, splits: Mapping[str, object]) -> None:
    """What is in an older split is in another one now."""
    for split, share in ((TRAIN, 1.0), (DEV, settings.shares.dev), (TEST, settings.shares.test)):
        if split not in splits:
            csv_path(settings.folder, split).unlink(missing_ok=True)
            if share:
                log.warn(f'There are no utterances for {split}')

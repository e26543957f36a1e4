"""One data set split into train, dev and test, with the alphabet of its transcripts: `--auto_input_dataset`."""

from __future__ import annotations

import hashlib
import json
import os
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from deepspeech_training import log, storage
from deepspeech_training.data.formats import read_data_set, write_data_set
from deepspeech_training.data.manifest import Sample
from deepspeech_training.data.splitting import BY_SPEAKER, SPLITS, Shares, choose_splits, way_to_split
from deepspeech_training.errors import DataError
from deepspeech_training.text.alphabet import normalize

SHARES = Shares(dev=0.1, test=0.1)
ALPHABET = 'alphabet'


@dataclass(frozen=True)
class AutoInput:
    """What was written: paths, '' for a part without samples and for an alphabet that was not to be made."""

    train: str
    dev: str
    test: str
    alphabet: str


def split_input(
    path: str, save_dir: str, normalization: str, *, with_alphabet: bool, skip_bad: bool, tell: bool = True
) -> AutoInput:
    """Splits the data set `path` and writes the parts beside it, or where that cannot be, into `save_dir`.

    By speaker where each sample has one and there are enough: no speaker is in two parts. Else by a hash of the audio's
    name, so that samples that come later change nothing for the others. `normalization`: the Unicode normal form of
    the alphabet. With `skip_bad`, rows that cannot be read are left out. `tell`: whether to say what was done.

    Raises `DataError`: the data set cannot be used, has too few samples, or a file would be replaced that this function
    has not written.
    """
    flag = f'--auto_input_dataset={path}'
    samples, problems = read_data_set(path, folder='')
    if problems and not skip_bad:
        shown = '\n'.join(f'  {problem}' for problem in problems[:20])
        raise DataError(f'{flag}: {len(problems)} rows cannot be used; --on_bad_sample skip leaves them out\n{shown}')
    if any(sample.source and sample.source.is_inside for sample in samples):
        raise DataError(f'{flag}: its audio is inside of it; needed is a CSV file or JSON lines with audio files')
    prefix = storage.folder_of(path)
    parts, how = _parts_of(samples, prefix)
    if not parts['train']:
        raise DataError(f'{flag}: {len(samples)} samples are too few to be split')
    contents = {f'{part}{_suffix(path, samples)}': rows for part, rows in parts.items() if rows}
    written = _Written(_stem(path, save_dir), flag)
    paths = {name.split('.')[0]: written.samples(name, rows) for name, rows in contents.items()}
    if with_alphabet:
        paths[ALPHABET] = written.alphabet({c for s in samples for c in normalize(s.transcript, normalization)})
    written.finish()
    if tell:
        counts = ', '.join(f'{len(parts[part])} for {part}' for part in SPLITS)
        log.info(f'{flag}: {len(samples)} samples, {how}: {counts}. Written: {", ".join(paths.values())}')
        for part in SPLITS:
            if not parts[part]:
                log.warn(f'{flag}: no sample fell to {part}, so there are no {part} files')
        if problems:
            log.warn(f'{flag}: {len(problems)} rows cannot be used and are left out; the first: {problems[0]}')
    return AutoInput(*(paths.get(name, '') for name in (*SPLITS, ALPHABET)))


def _parts_of(samples: Sequence[Sample], prefix: str) -> tuple[dict[str, list[Sample]], str]:
    """The samples of each part, in their order, and by what they were split."""
    names = [sample.path.removeprefix(prefix) for sample in samples]
    speakers = [sample.speaker for sample in samples]
    way = way_to_split(speakers)
    parts: dict[str, list[Sample]] = {part: [] for part in SPLITS}
    for sample, part in zip(samples, choose_splits(names, speakers, way, SHARES), strict=True):
        parts[part].append(sample)
    if way == BY_SPEAKER:
        counts = {part: len({sample.speaker for sample in rows}) for part, rows in parts.items()}
        return parts, f'split by speaker ({", ".join(f"{count} for {part}" for part, count in counts.items())})'
    if all(speakers):
        return parts, f'split by a hash of their names, since {len(set(speakers))} speakers are too few'
    lacking = f', since {speakers.count("")} name no speaker' if any(speakers) else ''
    return parts, f'split by a hash of their names{lacking}'


def _suffix(path: str, samples: Sequence[Sample]) -> str:
    """Parts of recordings can be named in JSON lines only."""
    return '.jsonl' if any(sample.source and sample.source.duration is not None for sample in samples) else '.csv'


def _stem(path: str, save_dir: str) -> str:
    """What the names of all files begin with."""
    name = os.path.splitext(os.path.basename(path))[0]
    folder = os.path.dirname(path)
    beside = not storage.is_remote(path) and os.access(folder or os.curdir, os.W_OK)
    return os.path.join(folder if beside else save_dir, name)


class _Written:
    """Files that may be replaced by what this program makes another time, but are never taken from anybody else."""

    def __init__(self, stem: str, flag: str) -> None:
        self._stem = stem
        self._flag = flag
        self._note = f'{stem}.auto.json'
        self._before: dict[str, str] = {}
        self._now: dict[str, str] = {}
        try:
            with open(self._note, encoding='utf-8') as file:
                self._before = dict(json.load(file)['sha256'])
        except (OSError, ValueError, KeyError, TypeError):
            self._before = {}

    def samples(self, name: str, samples: Sequence[Sample]) -> str:
        """Writes a data set; returns its path. Raises `DataError`."""
        path = f'{self._stem}.{name}'
        self._write(path, lambda new: write_data_set(new, samples))
        return path

    def alphabet(self, characters: set[str]) -> str:
        """Writes an alphabet; returns its path. Raises `DataError`."""
        path = f'{self._stem}.{ALPHABET}.txt'
        lines = ['\\#' if character == '#' else character for character in sorted(characters)]
        content = ''.join(f'{line}\n' for line in lines).encode()
        if self._write(path, lambda new: storage.write_whole(new, content)):
            log.warn(f'{path}: has other characters now; models that were trained before do not fit it')
        return path

    def _write(self, path: str, write: Callable[[str], None]) -> bool:
        """Has a file written and gives it its name; returns whether it replaces another content. Raises `DataError`."""
        new = f'{self._stem}.{uuid.uuid4().hex}{os.path.splitext(path)[1]}'
        try:
            os.makedirs(os.path.dirname(path) or os.curdir, exist_ok=True)
            write(new)
            return self._put(new, path)
        except OSError as error:
            raise DataError(f'{self._flag}: {path} cannot be written: {error.strerror}') from error
        finally:
            if os.path.exists(new):
                os.unlink(new)

    def _put(self, new: str, path: str) -> bool:
        """Gives a file its name, unless it is there already. Raises `OSError` and `DataError`."""
        key, digest = os.path.basename(path), _digest(new)
        self._now[key] = digest
        there = _digest(path) if os.path.lexists(path) else ''
        if there == digest:
            return False
        if there and there != self._before.get(key):
            raise DataError(
                f'{self._flag}: {path} is there already, and was not written for it, or was changed since. Rename it, '
                'or give it with --train_files, --dev_files, --test_files or --alphabet_config_path'
            )
        os.replace(new, path)
        return bool(there)

    def finish(self) -> None:
        """Remembers what was written. Raises `DataError`."""
        try:
            storage.write_whole(self._note, json.dumps({'sha256': self._now}, indent=1).encode())
        except OSError as error:
            raise DataError(f'{self._note}: cannot be written: {error.strerror}') from error


def _digest(path: str) -> str:
    with open(path, 'rb') as file:
        return hashlib.sha256(file.read()).hexdigest()

"""A corpus on disk: WAV files, DeepSpeech's CSV files, and a note of how it was made."""

from __future__ import annotations

import contextlib
import csv
import itertools
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from deepspeech_training.errors import DataError
from espeak_corpus.plan import SPLITS, Plan, Utterance
from espeak_corpus.speaking import Speakers, Spoken, blocks, seconds

NOTE = 'corpus.json'
MAKER = 'make_espeak_corpus'
COLUMNS = ('wav_filename', 'wav_filesize', 'transcript')


@dataclass(frozen=True)
class Size:
    """How much of each split: a number of utterances, or of seconds."""

    utterances: dict[str, int] | None = None
    seconds: dict[str, float] | None = None

    def wanted(self, split: str) -> float:
        if self.utterances is not None:
            return self.utterances[split]
        assert self.seconds is not None
        return self.seconds[split]


@dataclass(frozen=True)
class Summary:
    """What a split became."""

    utterances: int
    seconds: float
    voices: tuple[str, ...]
    sentences: int  # different ones

    def as_json(self) -> dict[str, Any]:
        return {
            'utterances': self.utterances,
            'seconds': round(self.seconds, 2),
            'voices': list(self.voices),
            'sentences': self.sentences,
        }


class CorpusFolder:
    """The folder of a corpus. Only what the note says was made here is ever removed."""

    def __init__(self, path: str) -> None:
        self.path = Path(path)
        self.note_path = self.path / NOTE

    def read_note(self) -> dict[str, Any] | None:
        """The note, or `None` when there is none. Raises `DataError` when another program's file has its name."""
        try:
            note = json.loads(self.note_path.read_text(encoding='utf-8'))
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            raise DataError(f'{self.note_path}: cannot be read as the note of a corpus: {error}') from error
        if not isinstance(note, dict) or note.get('made_by') != MAKER:
            raise DataError(f'{self.note_path}: not the note of a corpus that this program made; choose another folder')
        return note

    def prepare(self, parameters: dict[str, Any], *, overwrite: bool) -> bool:
        """Makes room for a corpus with these parameters. False when it is there already, complete.

        Raises `DataError` when the folder holds something else and `overwrite` is not asked for.
        """
        if self.path.exists() and not self.path.is_dir():
            raise DataError(f'{self.path} is a file; name a folder')
        note = self.read_note()
        if note is not None and note['complete'] and note['parameters'] == parameters and self._all_there(note):
            return False
        if note is not None and note['complete'] and not overwrite:
            raise DataError(
                f'{self.path} holds another corpus, made with other {differences(note["parameters"], parameters)}; '
                '--overwrite replaces it'
            )
        if note is None and self.path.is_dir() and any(self.path.iterdir()) and not overwrite:
            raise DataError(
                f'{self.path} is not empty and was not made by this program; name another folder, or give --overwrite '
                'to write beside what is there (files of the same names are replaced)'
            )
        if note is not None:
            self._remove()
        self.path.mkdir(parents=True, exist_ok=True)
        self.write_note(parameters, {}, complete=False)
        return True

    def write_note(self, parameters: dict[str, Any], splits: dict[str, Summary], *, complete: bool) -> None:
        note = {
            'made_by': MAKER,
            'complete': complete,
            'parameters': parameters,
            'splits': {split: summary.as_json() for split, summary in splits.items()},
        }
        temporary = self.note_path.with_suffix('.tmp')
        temporary.write_text(json.dumps(note, indent=2, ensure_ascii=False) + '\n', encoding='utf-8')
        temporary.replace(self.note_path)

    def write_csv(self, split: str, spoken: list[Spoken]) -> None:
        with open(self.path / f'{split}.csv', 'w', encoding='utf-8', newline='') as file:
            writer = csv.writer(file, lineterminator='\n')
            writer.writerow(COLUMNS)
            for entry in spoken:
                writer.writerow((entry.utterance.path, entry.size, entry.utterance.transcript))

    def _all_there(self, note: dict[str, Any]) -> bool:
        return all((self.path / f'{split}.csv').exists() for split in note['splits'])

    def _remove(self) -> None:
        """Removes the files that bear the names of a corpus, and the folders that are then empty."""
        for split in SPLITS:
            for path in self.path.glob(f'{split}/[0-9]*/{split}-[0-9]*.wav'):
                path.unlink()
            for folder in (*self.path.glob(f'{split}/[0-9]*'), self.path / split):
                if folder.is_dir() and not any(folder.iterdir()):
                    folder.rmdir()
            (self.path / f'{split}.csv').unlink(missing_ok=True)
        self.note_path.unlink()


def make_corpus(
    folder: CorpusFolder,
    plan: Plan,
    size: Size,
    *,
    sample_rate: int,
    processes: int,
    advance: Callable[[float], None],
) -> dict[str, Summary]:
    """Speaks all splits and writes their CSV files. `advance` hears of utterances, or of seconds, as `size`.

    Raises `DataError` for what eSpeak cannot speak, and for too few sentences.
    """
    summaries = {}
    with Speakers(processes) as speakers:
        for split in SPLITS:
            if size.wanted(split) > 0:
                spoken = speak_split(speakers, folder, plan, size, split, sample_rate, advance)
                folder.write_csv(split, spoken)
                summaries[split] = Summary(
                    utterances=len(spoken),
                    seconds=seconds(spoken, sample_rate),
                    voices=tuple(sorted({entry.utterance.voice.name for entry in spoken})),
                    sentences=len({entry.utterance.transcript for entry in spoken}),
                )
    return summaries


def speak_split(
    speakers: Speakers,
    folder: CorpusFolder,
    plan: Plan,
    size: Size,
    split: str,
    sample_rate: int,
    advance: Callable[[float], None],
) -> list[Spoken]:
    """Utterances of a split until it is as large as wanted; what was spoken beyond that is removed."""
    asked: list[Utterance] = []

    def planned() -> Iterator[Utterance]:
        limit = None if size.utterances is None else size.utterances[split]
        for utterance in itertools.islice(plan.utterances(split), limit):
            asked.append(utterance)
            yield utterance

    kept: list[Spoken] = []
    length = 0.0
    with contextlib.closing(speakers.speak(blocks(str(folder.path), sample_rate, planned()))) as results:
        for entry in results:
            kept.append(entry)
            length += entry.samples / sample_rate
            advance(1 if size.seconds is None else entry.samples / sample_rate)
            if size.seconds is not None and length >= size.seconds[split]:
                break
    for utterance in asked[len(kept) :]:
        (folder.path / utterance.path).unlink(missing_ok=True)
    return kept


def differences(old: dict[str, Any], new: dict[str, Any]) -> str:
    """The names of the parameters that differ."""
    names = [name for name in new if old.get(name) != new[name]] + [name for name in old if name not in new]
    return ', '.join(names) or 'files'

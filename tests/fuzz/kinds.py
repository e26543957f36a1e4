"""What is fed with wrong inputs, and what must be true of those that it takes."""

from __future__ import annotations

import io
import json
import math
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import fields, is_dataclass
from functools import cache
from pathlib import Path

import numpy as np
import soundfile

from deepspeech_training.audio.containers import HIGHEST_RATE, LOWEST_RATE, MOST_CHANNELS
from deepspeech_training.audio.reading import audio_info, read_audio, resampled_length
from deepspeech_training.augment_specs import parse_augmentation
from deepspeech_training.config import ON_BAD_SAMPLE, UNICODE_NORMALIZATIONS, DataConfig, FeatureConfig
from deepspeech_training.data.augmentation.augmenter import Augmenter, Moment
from deepspeech_training.data.checks import check_data
from deepspeech_training.data.formats import read_data_set, write_data_set
from deepspeech_training.data.loading import SampleLoader
from deepspeech_training.errors import DataError, UserError
from deepspeech_training.flags.building import build_config
from deepspeech_training.flags.parsing import parse
from deepspeech_training.flags.table import FLAGS
from deepspeech_training.text.alphabet import Alphabet
from deepspeech_training.text.alphabets import deserialize_alphabet
from deepspeech_training.validation import RANGES, validate
from tests.fuzz.mutations import WORDS, mutated_bytes, mutated_text
from tests.sound_files import CONTAINERS, ENCODINGS, PCM_16

SECONDS, COMPRESSED_SECONDS = 0.3, 2.0  # the latter have several pages or frames
RATE = 16000
FEATURES = FeatureConfig()

Case = Callable[[random.Random, Path], None]
"""Makes an input in a folder and feeds it. Raises for what is wrong about how it was taken."""


@contextmanager
def taken_or_named() -> Iterator[None]:
    """Errors that a user can meet are allowed, if they say something."""
    try:
        yield
    except UserError as error:
        if not str(error).strip():
            raise AssertionError('an error without words') from error


# --- audio --------------------------------------------------------------------------------------------------------


@cache
def sounds() -> tuple[bytes, ...]:
    """A valid file of each format."""
    moments = np.arange(round(COMPRESSED_SECONDS * RATE))[:, None] / RATE
    longer = 0.3 * np.sin(2 * np.pi * np.array([[300.0, 700.0]]) * moments)
    values = longer[: round(SECONDS * RATE)]
    written = [write(values, PCM_16, RATE) for write in CONTAINERS.values()]
    written += [CONTAINERS['WAV'](values[:, :1], encoding, 8000) for encoding in ENCODINGS]
    for form, subtype in (
        *(('FLAC', 'PCM_16'), ('FLAC', 'PCM_24'), ('OGG', 'VORBIS'), ('OGG', 'OPUS'), ('MP3', 'MPEG_LAYER_III')),
        *(('WAV', 'IMA_ADPCM'), ('WAV', 'MS_ADPCM'), ('WAV', 'GSM610'), ('CAF', 'ALAC_16'), ('AIFF', 'FLOAT')),
        *(('NIST', 'PCM_16'), ('VOC', 'PCM_16'), ('W64', 'MS_ADPCM')),
    ):
        file = io.BytesIO()
        soundfile.write(file, longer[:, 0], RATE, format=form, subtype=subtype)
        written.append(file.getvalue())
    return tuple(written)


def audio(chance: random.Random, folder: Path) -> None:
    path = folder / 'a.wav'
    path.write_bytes(mutated_bytes(chance.choice(sounds()), sounds(), chance))
    try:
        info = audio_info(str(path))
    except DataError:
        info = None
    with taken_or_named():
        samples = read_audio(str(path), FEATURES)
        assert np.isfinite(samples).all()
        assert np.abs(samples).max(initial=0) <= 1
        if info is None:
            return
        assert info.frames >= 0
        assert LOWEST_RATE <= info.sample_rate <= HIGHEST_RATE
        assert 1 <= info.channels <= MOST_CHANNELS
        expected = resampled_length(info.frames, info.sample_rate, RATE)
        assert abs(len(samples) - expected) <= 0.1 * RATE, f'{len(samples)} samples, {expected} were promised'


# --- data sets ----------------------------------------------------------------------------------------------------

ALPHABET = Alphabet("abcdefghijklmnopqrstuvwxyz' ", 'alphabet.txt', 'NFC')
TRANSCRIPTS = ('one', "it's", 'zero two', 'eleven', 'a', 'seven of them')


def write_audio(folder: Path) -> list[Path]:
    paths = [folder / f'{number}.wav' for number in range(len(TRANSCRIPTS))]
    for number, path in enumerate(paths):
        values = np.random.default_rng(number).normal(0, 0.1, [RATE // 2, 1])
        path.write_bytes(CONTAINERS['WAV'](values, PCM_16, RATE))
    return paths


def _csv(folder: Path) -> str:
    rows = [f'{path.name},{path.stat().st_size},"{TRANSCRIPTS[n]}"' for n, path in enumerate(write_audio(folder))]
    return '\n'.join(['wav_filename,wav_filesize,transcript', *rows, ''])


def _json_lines(folder: Path) -> str:
    rows = []
    for number, path in enumerate(write_audio(folder)):
        row = {'audio_filepath': path.name, 'duration': 0.4, 'text': TRANSCRIPTS[number], 'speaker': number}
        rows.append(json.dumps(row | ({'offset': 0.05} if number % 2 else {})))
    return '\n'.join([*rows, ''])


def _check_data_set(path: Path, folder: Path, chance: random.Random) -> None:
    data = DataConfig(train_files=(str(path),), on_bad_sample=chance.choice(ON_BAD_SAMPLE))
    with taken_or_named():
        sets = check_data(data, FEATURES, ALPHABET, save_dir=str(folder / 'checkpoints'), show_progressbar=False)
        assert sets.train
        loader = SampleLoader(sets.train, ALPHABET, FEATURES, data)
        for number, sample in enumerate(sets.train):
            labels = ALPHABET.encode(sample.transcript)
            assert labels
            assert sample.size >= 0
            assert len(labels) <= sample.frames < 10**6
            loaded = loader.load(number)
            assert FEATURES.frames(len(loaded.sound)) == sample.frames
            assert list(loaded.labels) == labels


def csv(chance: random.Random, folder: Path) -> None:
    path = folder / 'a.csv'
    content = mutated_text(_csv(folder), chance).encode(chance.choice(('utf-8', 'utf-8', 'utf-8-sig', 'utf-16')))
    path.write_bytes(mutated_bytes(content, (), chance) if chance.random() < 0.3 else content)
    _check_data_set(path, folder, chance)


def json_lines(chance: random.Random, folder: Path) -> None:
    path = folder / 'a.jsonl'
    path.write_bytes(mutated_text(_json_lines(folder), chance).encode())
    _check_data_set(path, folder, chance)


def containers(chance: random.Random, folder: Path) -> None:
    """Sample databases and tar files."""
    (folder / 'list.csv').write_text(_csv(folder))
    samples, _ = read_data_set(str(folder / 'list.csv'))
    path = folder / f'a.{chance.choice(("sdb", "tar"))}'
    write_data_set(str(path), samples)
    path.write_bytes(mutated_bytes(path.read_bytes(), sounds()[:1], chance))
    _check_data_set(path, folder, chance)


# --- alphabets ----------------------------------------------------------------------------------------------------


def alphabet(chance: random.Random, folder: Path) -> None:
    labels = [chr(number) for number in range(ord('a'), ord('z') + 1)] + [' ', "'", 'ä', 'o\u0308', 'sch', '\\#']
    text = mutated_text('# comment\n' + '\n'.join(chance.sample(labels, chance.randint(1, len(labels)))), chance)
    content = text.encode(chance.choice(('utf-8', 'utf-8', 'utf-8-sig', 'utf-16')))
    path = folder / 'alphabet.txt'
    path.write_bytes(mutated_bytes(content, (), chance) if chance.random() < 0.3 else content)
    with taken_or_named():
        found = Alphabet.from_file(str(path), chance.choice(UNICODE_NORMALIZATIONS))
        assert 0 < found.size == len(set(found.labels)) == found.blank
        assert all(found.labels)
        assert not any('\n' in label or '\r' in label for label in found.labels)
        again = deserialize_alphabet(found.serialize(), 'model')
        assert again.labels == found.labels
        for number, label in enumerate(found.labels):
            assert found.decode([number]) == label
            assert found.decode(found.encode(label)) == label
    serialized = Alphabet(labels[:20]).serialize()
    with taken_or_named():
        assert deserialize_alphabet(mutated_bytes(serialized, (), chance), 'model').size


# --- augmentation -------------------------------------------------------------------------------------------------

SPECS = (
    'overlay[p=0.5,source=0.wav,layers=1,snr=50:20~10]',
    'reverb[p=1,delay=50.0~30.0,decay=10.0:2.0~1.0]',
    'resample[p=1,rate=12000:8000~4000]',
    'codec[p=1,bitrate=48000:16000]',
    'volume[p=1,dbfs=-10:-40]',
    'pitch[p=1,pitch=1~0.2]',
    'tempo[p=1,factor=1~0.5]',
    'warp[p=1,nt=4,nf=1,wt=0.5:1.0,wf=0.1:0.2]',
    'frequency_mask[p=1,n=1:3,size=1:5]',
    'time_mask[p=1,domain=signal,n=3:10~2,size=50:100~40]',
    'dropout[p=1,rate=0.05]',
    'add[p=1,domain=signal,stddev=0~0.5]',
    'multiply[p=1,domain=features,stddev=0~0.5]',
)


def augmentation(chance: random.Random, folder: Path) -> None:
    recording = folder / '0.wav'
    recording.write_bytes(sounds()[0])
    # `source` stays what it is: a path from anywhere is not for a test to open.
    text = mutated_text(chance.choice(SPECS), chance)
    with taken_or_named(), suppress(ValueError):
        spec = parse_augmentation(text)
        assert 0 <= spec.p <= 1
        for each in spec.ranges.values():
            for clock in (0.0, 0.5, 1.0):
                assert each.limits.least <= each.pick(clock, np.random.default_rng(1)) <= each.limits.most
        if spec.source:
            text = text.replace(spec.source, str(recording))
        _augment(text, chance)


def _augment(text: str, chance: random.Random) -> None:
    samples = np.random.default_rng(1).normal(0, 0.1, chance.choice((512, 600, 8000))).astype(np.float32)
    try:
        augmenter = Augmenter([text], FEATURES, seed=1)
    except ValueError as error:  # of `parse_augmentation` only
        raise AssertionError(f'{text}: {error}') from error
    for clock in (0.0, 1.0):
        try:
            changed = augmenter(samples, Moment(0, 3, clock))
        except ValueError as error:
            raise AssertionError(f'{text}: {error}') from error
        assert np.isfinite(changed.values).all(), text
        assert len(changed.values), text


# --- flags --------------------------------------------------------------------------------------------------------


def flags(chance: random.Random, folder: Path) -> None:
    """Values of any kind for any flags but those of files."""
    words = ['--train_files=a.csv', '--dev_files=a.csv']
    names = sorted(FLAGS)
    for _ in range(chance.randint(1, 3)):
        flag = FLAGS[chance.choice(names)]
        default = '' if flag.default is None else str(flag.default)
        value = chance.choice((default, mutated_text(default, chance), chance.choice(WORDS), *flag.values[:1]))
        if flag.name == 'augment':
            value = mutated_text(chance.choice(SPECS), chance)
        form = chance.choice(('--{0}={1}', '--{0}={1}', '-{0}={1}', '--{0}', '--no{0}', '--{0}\0{1}'))
        words += form.format(flag.name, value.replace('\0', '')).split('\0')
    with taken_or_named():
        config = build_config(parse(words))
        validate(config)
        for _, (attribute, _) in RANGES.items():
            part, _, name = attribute.rpartition('.')
            assert math.isfinite(getattr(getattr(config, part) if part else config, name)), attribute
        for group in fields(config):
            _only_finite(group.name, getattr(config, group.name))
        assert all(0 <= rate < 1 for rate in config.model.dropout)
        assert 0 < config.optimizer.learning_rate < 1e38
        assert config.features.window_samples * 1000 == config.features.sample_rate * config.features.window_ms
        assert config.features.step_samples >= 1
        assert min(config.data.train_batch_size, config.data.dev_batch_size, config.data.test_batch_size) >= 1
        assert all(0 <= parse_augmentation(text).p <= 1 for text in config.data.augment)


def _only_finite(name: str, value: object) -> None:
    if is_dataclass(value) and not isinstance(value, type):
        for member in fields(value):
            _only_finite(f'{name}.{member.name}', getattr(value, member.name))
    elif isinstance(value, tuple):
        for item in value:
            _only_finite(name, item)
    elif isinstance(value, float):
        assert math.isfinite(value), name


KINDS: dict[str, Case] = {
    'audio': audio,
    'csv': csv,
    'json_lines': json_lines,
    'containers': containers,
    'alphabet': alphabet,
    'augmentation': augmentation,
    'flags': flags,
}

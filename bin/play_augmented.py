#!/usr/bin/env python3
"""Writes what augmentations do to audio files: audio, and images of spectrograms and features before and after.

    python bin/play_augmented.py my.wav --augment 'reverb[delay=50,decay=2]' --augment pitch --output my-output

For each file `NAME.1.wav` and `NAME.1.png`, and with `--number N` as many more, of other random numbers. The audio has
what happens in the domains sample and signal. In the image, from above: the spectrogram before and after, then the
features before and after; time goes to the right, frequency upwards.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import soundfile

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from deepspeech_training import log
from deepspeech_training.audio.mfcc import MfccComputer
from deepspeech_training.audio.reading import read_audio
from deepspeech_training.augment_specs import MULTI_DOMAIN
from deepspeech_training.config import FEATURE_BACKENDS, FeatureConfig
from deepspeech_training.data.augmentation.augmenter import Augmenter, Draw, Moment
from deepspeech_training.data.augmentation.waveforms import level
from deepspeech_training.errors import DataError, FlagError
from deepspeech_training.programs import exit_status

Values = npt.NDArray[np.float32]
Picture = npt.NDArray[np.uint8]

SHOWN_DB = 90.0  # below the loudest
GAP = 4  # pixels between two pictures
WIDTH = 800  # pixels, about
FEATURE_HEIGHT = 4  # pixels of one coefficient


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the program; returns its exit status."""
    args = build_parser().parse_args(arguments)
    log.setup(1)
    return exit_status(lambda: play_all(args))


def play_all(args: argparse.Namespace) -> None:
    """Writes each file as often as it is asked for. Raises `UserError`."""
    features = FeatureConfig(args.sample_rate, backend=args.feature_backend, channel=args.audio_channel)
    augmenter = Augmenter(args.augment, features, args.random_seed)
    for file, name in named(args.files):
        for number in range(1, args.number + 1):
            print(play(file, f'{name}.{number}', Moment(0, number, args.clock), augmenter, features, args.output))


def build_parser() -> argparse.ArgumentParser:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('files', nargs='+', metavar='FILE', help='audio files')
    parser.add_argument(
        '--augment', action='append', required=True, help='as of DeepSpeech.py; may be given several times'
    )
    parser.add_argument('--output', type=Path, required=True, metavar='FOLDER', help='where the files are written')
    parser.add_argument(
        '--clock', type=share, default=0.0, help='moment of training, 0 (start, the default) to 1 (end), for ranges'
    )
    parser.add_argument('--number', type=positive, default=1, help='how often each file is augmented (%(default)s)')
    parser.add_argument('--random_seed', type=int, default=4568, help='(default %(default)s)')
    parser.add_argument('--sample_rate', type=positive, default=16000, help="the model's, in Hz (%(default)s)")
    parser.add_argument(
        '--audio_channel', type=int, choices=range(256), default=0, metavar='N', help='from 1; 0: the mean of all'
    )
    parser.add_argument('--feature_backend', choices=FEATURE_BACKENDS, default='tensorflow', help='(%(default)s)')
    return parser


def share(text: str) -> float:
    number = float(text)
    if not 0 <= number <= 1:
        raise argparse.ArgumentTypeError(f'{text} is not between 0 and 1')
    return number


def positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f'{text} is not at least 1')
    return number


def named(files: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Each file, and a name for what becomes of it; files of the same name in several folders get a number."""
    seen: Counter[str] = Counter()
    for file in files:
        stem = Path(file).stem
        seen[stem] += 1
        yield file, stem if seen[stem] == 1 else f'{stem}-{seen[stem]}'


def play(file: str, name: str, moment: Moment, augmenter: Augmenter, features: FeatureConfig, output: Path) -> str:
    """Augments one file, writes audio and image, and says what was done.

    Raises:
      DataError: the file cannot be read, or is too short.
      FlagError: the output cannot be written.
    """
    audio = read_audio(file, features)
    if not features.frames(len(audio)):
        raise DataError(f'{file}: is shorter than one window of {features.window_ms} ms')
    draws = augmenter.draw(moment)
    computer = MfccComputer(features)
    changed = augmenter.change_audio(audio, draws)
    before = computer.spectrogram(audio)
    after = augmenter.change_spectrogram(computer.spectrogram(changed), draws)
    mfccs = augmenter.change_features(computer.from_spectrogram(after), draws)
    picture = stacked(
        [*decibels([before, after]), *shades([computer.from_spectrogram(before), mfccs])], len(before), len(after)
    )
    sound, image = output / f'{name}.wav', output / f'{name}.png'
    try:
        output.mkdir(parents=True, exist_ok=True)
        if sound.exists() and os.path.samefile(sound, file):
            raise FlagError(f'--output={output}: {file} would be overwritten; give another folder')
        soundfile.write(sound, np.clip(changed, -1, 1), features.sample_rate, subtype='PCM_16')
        written = [str(sound), *write_image(image, picture)]
    except OSError as error:
        raise FlagError(f'--output={output}: cannot be written: {error.strerror}') from error
    frames = f'{len(before)} frames' + (f' -> {len(after)}' if len(after) != len(before) else '')
    return (
        f'{file}: {told(draws)} | peak {level(audio):.1f} -> {level(changed):.1f} dBFS, {frames} | '
        f'wrote {", ".join(written)}'
    )


def told(draws: Sequence[Draw]) -> str:
    """What happens, with the values that were drawn."""
    words = []
    for draw in draws:
        values = [f'{name}={value:.4g}' for name, value in draw.values.items()]
        if draw.spec.domain in MULTI_DOMAIN and draw.spec.name in ('time_mask', 'dropout', 'add', 'multiply'):
            values.append(f'domain={draw.spec.domain}')
        words.append(f'{draw.spec.name}[{",".join(values)}]')
    return ' '.join(words) or 'nothing, by chance'


def decibels(spectrograms: Sequence[Values]) -> list[Picture]:
    """Power `[frames, bins]` as pictures `[bins, frames]`, all with the same scale."""
    levels = [10 * np.log10(np.maximum(each, 1e-30)) for each in spectrograms]
    highest = max(float(each.max()) for each in levels)
    return [np.uint8(np.clip((each - highest) / SHOWN_DB + 1, 0, 1) * 255).T[::-1] for each in levels]


def shades(features: Sequence[Values]) -> list[Picture]:
    """MFCCs `[frames, 26]` as pictures `[26 * FEATURE_HEIGHT, frames]`; each coefficient has a scale of its own."""
    first = features[0]
    middle, width = first.mean(axis=0), 3 * first.std(axis=0) + 1e-6
    pictures = [np.uint8(np.clip((each - middle) / width / 2 + 0.5, 0, 1) * 255).T[::-1] for each in features]
    return [np.repeat(each, FEATURE_HEIGHT, axis=0) for each in pictures]


def stacked(pictures: Sequence[Picture], *frames: int) -> Picture:
    """One below the other, from the same left edge, a frame several pixels wide."""
    scale = max(1, WIDTH // max(frames))
    parts = []
    for each in pictures:
        wide = np.repeat(each, scale, axis=1)
        parts.append(np.pad(wide, [(0, GAP), (0, scale * max(frames) - wide.shape[1])], constant_values=128))
    return np.concatenate(parts)[:-GAP]


def write_image(path: Path, picture: Picture) -> list[str]:
    """Writes `picture` and returns the path; nothing where Pillow, which comes with TensorBoard, is not there."""
    try:
        from PIL import Image
    except ImportError:
        log.warn('No image is written: Pillow is not installed; pip install pillow')
        return []
    Image.fromarray(picture).save(path)
    return [str(path)]


if __name__ == '__main__':
    sys.exit(main())

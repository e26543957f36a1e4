#!/usr/bin/env python3
"""Writes down what is said in recordings, or in audio from a pipe while it is spoken.

    python bin/transcribe.py model/output_graph.tflite speech.wav
    python bin/transcribe.py my-model/checkpoints recordings/ --format srt --output subtitles/
    arecord -q -f S16_LE -r 16000 -c 1 -t raw | python bin/transcribe.py model/output_graph.pb -

The model is a checkpoint or any export. Ends with status 0; 1 when some of the files could not be transcribed; 2 when
the model or the arguments are wrong; 130 when interrupted.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
os.environ.setdefault('TF_CPP_MIN_LOG_LEVEL', '3')  # its messages are not about recordings

from deepspeech_training import log
from deepspeech_training.audio.segments import Splitting
from deepspeech_training.errors import FlagError
from deepspeech_training.programs import EXIT_SOME_FAILED, exit_status
from deepspeech_training.tool_arguments import (
    add_decoding_arguments,
    add_model_arguments,
    chosen_decoding,
    chosen_features,
)
from deepspeech_training.transcription.crew import Alone, Crew
from deepspeech_training.transcription.files import Recording, find_recordings
from deepspeech_training.transcription.formats import FORMATS
from deepspeech_training.transcription.jobs import Failure, transcribe_recordings
from deepspeech_training.transcription.live import transcribe_live
from deepspeech_training.transcription.output import LiveOutput, Output, make_output
from deepspeech_training.transcription.recognizer import Recognition, Recognizer
from deepspeech_training.transcription.transcript import word_separator

PIPE = '-'


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the program; returns its exit status."""
    args = build_parser().parse_args(arguments)
    log.setup(args.log_level)
    return exit_status(lambda: run(args))


def build_parser() -> argparse.ArgumentParser:
    """The command line."""
    text = (__doc__ or '').split('\n\n')
    parser = argparse.ArgumentParser(description=text[0], epilog=text[-1])
    add = parser.add_argument
    add('model', help='checkpoint (folder or files), .pb, .tflite, .onnx or SavedModel, told by their content')
    add('audio', nargs='+', help='sound files, folders of them, or - for raw 16-bit mono samples on standard input')
    add('--format', choices=FORMATS, help="of the transcripts; default: by --output's suffix, else text")
    add('--output', default='', help='file, or folder (existing, or with / at its end) for one file a recording')
    add('--processes', type=int, default=1, help='recordings and their segments are shared out among so many')
    add('--threads', type=int, default=0, help='of the model in each process; 0: all cores, shared out')
    add_decoding_arguments(parser)
    add('--max_segment', type=float, default=20, help='seconds; longer recordings are cut at silences')
    add('--min_silence', type=float, default=0.5, help='seconds; what is quiet for less is no place to cut')
    add('--rate', type=int, default=0, help="of the samples on standard input, Hz; 0: the model's")
    add('--audio_channel', type=int, default=0, help='of recordings with several, counted from 1; 0: their mean')
    add_model_arguments(parser)
    add('--noshow_progressbar', action='store_true', help='no progress bar')
    add('--log_level', type=int, choices=range(4), default=1, help='0 debug, 1 info, 2 warnings, 3 errors')
    return parser


def check(args: argparse.Namespace) -> None:
    """Raises `FlagError` for values that cannot be."""
    for name, least in (('processes', 1), ('threads', 0), ('rate', 0), ('audio_channel', 0)):
        if getattr(args, name) < least:
            raise FlagError(f'--{name}={getattr(args, name)}: must be at least {least}')
    for name in ('max_segment', 'min_silence'):
        if not 0.1 <= getattr(args, name) <= 86400:  # not NaN either
            raise FlagError(f'--{name}={getattr(args, name)}: must be from 0.1 to 86400 seconds')
    recognition(args)
    if PIPE in args.audio and args.audio != [PIPE]:
        raise FlagError('- is standard input, and cannot be transcribed together with files')
    if args.rate and args.audio != [PIPE]:
        raise FlagError(f'--rate={args.rate} is for standard input (-); files say their own rate')
    if args.audio_channel and args.audio == [PIPE]:
        raise FlagError(f'--audio_channel={args.audio_channel} is for files; standard input (-) is mono')


def run(args: argparse.Namespace) -> int:
    """Whatever it is to be; returns the exit status."""
    check(args)
    return live(args) if args.audio == [PIPE] else files(args)


def recognition(args: argparse.Namespace) -> Recognition:
    """What the arguments say about the model. Raises `FlagError`."""
    return Recognition(
        model=args.model,
        threads=args.threads,
        decoding=chosen_decoding(args),
        alphabet_path=args.alphabet_config_path,
        features=chosen_features(args),
        load=args.load_evaluate,
    )


def files(args: argparse.Namespace) -> int:
    """Transcribes recordings; returns the exit status."""
    recordings = find_recordings(args.audio)
    if not recordings:
        raise FlagError(f'there is no sound file in {", ".join(args.audio)}')
    alone = len(args.audio) == 1 and not os.path.isdir(args.audio[0])
    output = make_output(args.output, args.format, recordings, alone=alone)
    crew = Crew(recognition(args), args.processes) if args.processes > 1 else Alone(recognition(args))
    try:
        return transcribe(args, recordings, crew, output)
    finally:
        crew.end()


def transcribe(args: argparse.Namespace, recordings: Sequence[Recording], crew: Alone | Crew, output: Output) -> int:
    """Gives the transcripts to `output`; returns the exit status."""
    features, separator = crew.info.features, word_separator(crew.info.alphabet)
    splitting = Splitting(args.max_segment, args.min_silence, min(Splitting.pad, args.min_silence / 2))
    total = round(sum(recording.seconds for recording in recordings))
    failed = 0
    with output, log.progress('Transcribing seconds', total, not args.noshow_progressbar) as bar:
        results = transcribe_recordings(
            recordings, crew.recognize, features, splitting, separator, bar.advance, args.audio_channel
        )
        for result in results:
            if isinstance(result, Failure):
                failed += 1
                log.error(result.reason)
            else:
                output.write(result)
    if failed and len(recordings) > 1:
        log.error(f'{failed} of {len(recordings)} recordings could not be transcribed')
    return EXIT_SOME_FAILED if failed else 0


def live(args: argparse.Namespace) -> int:
    """Transcribes standard input; returns the exit status."""
    recognizer = Recognizer(recognition(args))
    rate = args.rate or recognizer.model.sample_rate
    splitting = Splitting(args.max_segment, args.min_silence, min(Splitting.pad, args.min_silence / 2))
    with LiveOutput(args.output, args.format, word_separator(recognizer.model.alphabet)) as output:
        for segment in transcribe_live(sys.stdin.buffer, rate, recognizer, splitting, output.show):
            output.write(segment)
    return 0


if __name__ == '__main__':
    sys.exit(main())

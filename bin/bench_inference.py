#!/usr/bin/env python3
"""Times every way to run a model on this CPU, beside DeepSpeech's own client.

    python3.7 -m venv client && client/bin/pip install deepspeech==0.9.3
    python bin/bench_inference.py speech.wav --checkpoint_dir my-model/checkpoints --client client/bin/python
    python bin/bench_inference.py speech.wav --n_hidden 2048 --client client/bin/python

The model is a checkpoint's, or has random weights of a size. It is exported in every format; each runs in a process of
its own, and they take turns, so that whatever else the machine does hits all alike. Shown are medians: the seconds of
computing for a second of audio, whole and in chunks, the time from the last samples to the text, and how many times
faster than the client that is.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
os.environ.setdefault('TF_CPP_MIN_LOG_LEVEL', '3')

from deepspeech_training import log
from deepspeech_training.audio.reading import audio_info
from deepspeech_training.config import CheckpointConfig, Config, ExportConfig, ModelConfig
from deepspeech_training.errors import FlagError, UserError

ROOT = Path(__file__).resolve().parent.parent
PARTS = ROOT / 'bin' / 'inference_bench'
FILES = {
    'frozen graph (.pb)': 'output_graph.pb',
    'TFLite, 8 bits': '8bit/output_graph.tflite',
    'TFLite, float': 'output_graph.tflite',
    'ONNX Runtime': 'output_graph.onnx',
    'SavedModel': 'model',
}
"""Of the exports, by what they are called in the table."""

CLIENT = 'DeepSpeech 0.9.3 client'
LITE_CLIENT = 'DeepSpeech 0.9.3 client, TFLite'


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the program; returns its exit status."""
    args = build_parser().parse_args(arguments)
    log.setup(3)
    try:
        if not args.checkpoint_dir and not args.n_hidden:
            raise FlagError('give --checkpoint_dir, or --n_hidden for random weights')
        seconds = audio_info(args.audio).duration
        with tempfile.TemporaryDirectory() as folder:
            models = export(args, Path(folder))
            times = measure(args, models, seconds)
    except UserError as error:
        log.error(str(error))
        return error.exit_status
    print(table(times, seconds))
    return 0


def build_parser() -> argparse.ArgumentParser:
    """The command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or '').split('\n\n')[0])
    add = parser.add_argument
    add('audio', help='16-bit mono WAV file at the rate of the model')
    add('--checkpoint_dir', default='', help='the model; --n_hidden must be its')
    add('--n_hidden', type=int, default=0, help='with --checkpoint_dir: its; without: of a model with random weights')
    add('--alphabet_config_path', default=str(ROOT / 'data' / 'alphabet.txt'), help="the model's")
    add('--client', default='', help='the Python that has deepspeech 0.9.3')
    add('--lite_client', default='', help='the Python that has deepspeech-tflite 0.9.3')
    add('--beam_width', type=int, default=1, help='for all; with 1 nearly all the time is the model')
    add('--chunk', type=int, default=320, help='samples fed at a time to streams')
    add('--rounds', type=int, default=5, help='turns of each; one more is not counted')
    add('--only', default='', help='comma-separated parts of names: no others are measured')
    return parser


def export(args: argparse.Namespace, folder: Path) -> dict[str, str]:
    """The paths of the models by their names; of the checkpoint, too."""
    import tensorflow as tf

    from deepspeech_training.export.formats import export_model
    from deepspeech_training.text.alphabet import Alphabet

    tf.compat.v1.disable_v2_behavior()
    alphabet = Alphabet.from_file(args.alphabet_config_path)
    config = Config(
        model=ModelConfig(n_hidden=args.n_hidden or ModelConfig.n_hidden),
        checkpoints=CheckpointConfig(load_dir=args.checkpoint_dir or str(folder / 'checkpoint')),
    )
    if not args.checkpoint_dir:
        write_random(config, alphabet.size + 1)
    target = ExportConfig(export_dir=str(folder))
    for wanted in (
        target,
        replace(target, tflite=True, quantize=False, savedmodel=True, onnx=True),
        replace(target, export_dir=str(folder / '8bit'), tflite=True),
    ):
        export_model(replace(config, export=wanted), alphabet)
    return {'checkpoint': config.checkpoints.load_dir, **{name: str(folder / file) for name, file in FILES.items()}}


def write_random(config: Config, n_output: int) -> None:
    """A checkpoint as DeepSpeech would write it, with random weights."""
    import tensorflow as tf

    from deepspeech_training.config import N_INPUT
    from deepspeech_training.model.acoustic import create_model

    os.makedirs(config.checkpoints.load_dir)
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        features = tf.compat.v1.placeholder(tf.float32, [1, None, N_INPUT])
        create_model(features, None, config.model, n_output, training=False, lstm='block', seed=1)
        session.run(tf.compat.v1.global_variables_initializer())
        saver = tf.compat.v1.train.Saver()
        saver.save(session, f'{config.checkpoints.load_dir}/train', global_step=1, write_meta_graph=False)


@dataclass
class Times:
    """Seconds of each turn of one program."""

    whole: list[float] = field(default_factory=list)
    stream: list[float] = field(default_factory=list)
    latency: list[float] = field(default_factory=list)
    text: str = ''


class Process:
    """A program that waits for its turns."""

    def __init__(self, command: Sequence[str]) -> None:
        environment = {**os.environ, 'TF_CPP_MIN_LOG_LEVEL': '3'}
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env=environment,
        )
        self._command = command
        self._answer()  # it is ready

    def ask(self, audio: str, chunk: int) -> dict[str, Any]:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({'audio': audio, 'chunk': chunk}) + '\n')
        self._process.stdin.flush()
        return self._answer()

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith('{'):  # the client says its version first
                answer: dict[str, Any] = json.loads(line)
                return answer
        raise UserError(f'{" ".join(self._command[:3])} has ended; run it to see why')

    def __enter__(self) -> Process:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate()


def commands(args: argparse.Namespace, models: dict[str, str]) -> dict[str, list[str]]:
    """What each name in the table runs, the clients first."""
    beam = str(args.beam_width)
    client, worker = str(PARTS / 'client.py'), str(PARTS / 'worker.py')
    all_of_them = {}
    if args.client:
        all_of_them[CLIENT] = [args.client, client, models['frozen graph (.pb)'], beam]
    if args.lite_client:
        all_of_them[LITE_CLIENT] = [args.lite_client, client, models['TFLite, 8 bits'], beam]
    for name, path in models.items():
        alphabet = [args.alphabet_config_path] if name == 'checkpoint' else []
        all_of_them[name] = [sys.executable, worker, path, beam, *alphabet]
    wanted = [part for part in args.only.split(',') if part]
    return {name: c for name, c in all_of_them.items() if not wanted or any(part in name for part in wanted)}


def measure(args: argparse.Namespace, models: dict[str, str], seconds: float) -> dict[str, Times]:
    """All programs in turn, `args.rounds` times; a first time that is not counted, too."""
    times: dict[str, Times] = {}
    with ExitStack() as stack:
        processes = {name: stack.enter_context(Process(command)) for name, command in commands(args, models).items()}
        for number in range(args.rounds + 1):
            for name, process in processes.items():
                whole, stream = process.ask(args.audio, 0), process.ask(args.audio, args.chunk)
                if number == 0:
                    times[name] = Times(text=whole['text'])
                    continue
                times[name].whole.append(whole['seconds'] / seconds)
                times[name].stream.append(stream['seconds'] / seconds)
                times[name].latency.append(stream['latency'])
    return times


def table(times: dict[str, Times], seconds: float) -> str:
    """In Markdown. A ratio is the median of those of the turns."""
    reference = next(iter(times.values()))

    def ratio(name: str, kind: str) -> str:
        pairs = zip(getattr(reference, kind), getattr(times[name], kind), strict=True)
        return f'{statistics.median(theirs / ours for theirs, ours in pairs):.2f}'

    lines = [
        f'{seconds:.1f} s of audio; ratios to {next(iter(times))}, more is faster',
        '',
        '| | whole: s per s | ratio | stream: s per s | ratio | latency: ms | ratio |',
        '| --- | --- | --- | --- | --- | --- | --- |',
    ]
    for name, each in times.items():
        cells = [name]
        for kind, scale, digits in (('whole', 1, 3), ('stream', 1, 3), ('latency', 1000, 0)):
            cells += [f'{scale * statistics.median(getattr(each, kind)):.{digits}f}', ratio(name, kind)]
        lines.append(f'| {" | ".join(cells)} |')
    different = [name for name, each in times.items() if each.text != reference.text]
    lines += ['', f'Another text than {next(iter(times))}: {", ".join(different) or "none"}']
    return '\n'.join(lines)


if __name__ == '__main__':
    sys.exit(main())

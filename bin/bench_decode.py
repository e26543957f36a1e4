#!/usr/bin/env python
"""Times decoding beside DeepSpeech's own decoder on the same output of a model, and counts equal transcripts.

The reference, `ds_ctcdecoder` 0.9.3, runs on Python 3.7: `python3.7 -m venv d; d/bin/pip install ds_ctcdecoder==0.9.3`,
then --reference_python d/bin/python. Both decode one utterance after the other on one core; what counts is CPU time.

  bin/bench_decode.py checkpoints/ test.csv --beam_widths 100,500,1024 --reference_python d/bin/python
  bin/bench_decode.py model.pb test.csv --scorer_path lm.scorer
"""

from __future__ import annotations

import argparse
import csv
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from deepspeech_training.audio.reading import read_audio  # noqa: E402
from deepspeech_training.config import LM_ALPHA, LM_BETA  # noqa: E402
from deepspeech_training.decoding import BeamSearchDecoder, Scorer, ScorerOptions, SearchOptions  # noqa: E402
from deepspeech_training.export.package import alphabet_file  # noqa: E402
from deepspeech_training.programs import exit_status  # noqa: E402
from deepspeech_training.runtimes import open_model  # noqa: E402
from deepspeech_training.text.alphabet import Alphabet  # noqa: E402
from deepspeech_training.text.metrics import Transcription, error_rates  # noqa: E402

REFERENCE = """
import json, sys, time
import ds_ctcdecoder, numpy
question = json.load(sys.stdin)
path = question['alphabet']
alphabet = ds_ctcdecoder.Alphabet(path) if path else ds_ctcdecoder.UTF8Alphabet()
scorer = None
if question['scorer']:
    scorer = ds_ctcdecoder.Scorer(question['alpha'], question['beta'], question['scorer'], alphabet)
utterances = numpy.load(question['probabilities'])
rows = [utterances[name].tolist() for name in utterances.files]
start = time.process_time()
search = ds_ctcdecoder.swigwrapper.ctc_beam_search_decoder
found = [search(row, alphabet, question['width'], 1.0, len(row[0]), scorer, {}, 1) for row in rows]
seconds = time.process_time() - start
texts = [super(type(alphabet), alphabet).Decode(each[0].tokens).decode('utf-8', 'replace') for each in found]
print(json.dumps({'seconds': seconds, 'texts': texts}))
"""


def main() -> int:
    args = parse_arguments()
    return exit_status(lambda: compare(args))


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('model', help='a checkpoint folder or an exported model')
    parser.add_argument('csv', help='a CSV file with wav_filename and transcript')
    parser.add_argument('--beam_widths', default='100,500,1024', help='separated by commas')
    parser.add_argument('--scorer_path', default='', help='a language model')
    parser.add_argument('--lm_alpha', type=float, default=LM_ALPHA)
    parser.add_argument('--lm_beta', type=float, default=LM_BETA)
    parser.add_argument('--alphabet_config_path', default='', help='for checkpoints that DeepSpeech wrote')
    parser.add_argument('--limit', type=int, default=0, help='utterances; 0: all')
    parser.add_argument('--reference_python', default='', help='a Python that has ds_ctcdecoder; without: no reference')
    return parser.parse_args()


def compare(args: argparse.Namespace) -> int:
    """Prints a line for each width."""
    alphabet, transcripts, outputs = run_model(args)
    scorer = None
    if args.scorer_path:
        scorer = Scorer(ScorerOptions(args.scorer_path, args.lm_alpha, args.lm_beta), alphabet)
    frames = sum(map(len, outputs))
    print(f'{len(outputs)} utterances, {frames} frames, {"with" if scorer else "without"} a language model')
    print(
        f'{"beam":>6}{"CPU s":>9}{"ms/frame":>10}{"WER %":>8}{"reference s":>13}{"ratio":>8}{"WER %":>8}{"equal":>12}'
    )
    for width in map(int, args.beam_widths.split(',')):
        decoder = BeamSearchDecoder(alphabet, SearchOptions(width), scorer)
        start = time.process_time()
        texts = [decoder.decode(output) for output in outputs]
        seconds = time.process_time() - start
        line = f'{width:6}{seconds:9.2f}{1000 * seconds / frames:10.3f}{100 * error_rate(transcripts, texts):8.1f}'
        if args.reference_python:
            other = ask_reference(args, alphabet, width, outputs)
            equal = sum(a == b for a, b in zip(texts, other['texts'], strict=True))
            rate = 100 * error_rate(transcripts, other['texts'])
            line += f'{other["seconds"]:13.2f}{other["seconds"] / seconds:8.1f}{rate:8.1f}{equal:8} of {len(texts)}'
        print(line, flush=True)
    return 0


def run_model(args: argparse.Namespace) -> tuple[Alphabet, list[str], list[np.ndarray]]:
    """The model's alphabet; transcripts and log-probabilities [frames, n_output] of the utterances."""
    with open(args.csv, encoding='utf-8-sig', newline='') as file:
        rows = list(csv.DictReader(file))[: args.limit or None]
    with open_model(args.model, alphabet_path=args.alphabet_config_path) as model:
        outputs = [
            np.asarray(
                model.log_probabilities(
                    read_audio(str(Path(args.csv).parent / row['wav_filename']), model.info.features)
                )
            )
            for row in rows
        ]
        return model.alphabet, [row['transcript'] for row in rows], outputs


def ask_reference(args: argparse.Namespace, alphabet: Alphabet, width: int, outputs: list[np.ndarray]) -> Any:
    with tempfile.TemporaryDirectory() as folder:
        path = f'{folder}/probabilities.npz'
        probabilities = [np.exp(output.astype(np.float64)) for output in outputs]
        np.savez(path, *probabilities)
        Path(f'{folder}/alphabet.txt').write_text(alphabet_file(alphabet), encoding='utf-8')
        question = {
            'alphabet': '' if alphabet.of_bytes else f'{folder}/alphabet.txt',
            'probabilities': path,
            'scorer': args.scorer_path,
            'alpha': args.lm_alpha,
            'beta': args.lm_beta,
            'width': width,
        }
        done = subprocess.run(
            [args.reference_python, '-c', REFERENCE],
            input=json.dumps(question),
            capture_output=True,
            text=True,
            check=False,
        )
    if done.returncode:
        sys.exit(f'the reference failed:\n{done.stderr}')
    return json.loads(done.stdout.splitlines()[-1])


def error_rate(transcripts: list[str], texts: list[str]) -> float:
    found = [Transcription.of('', said, text, 0.0) for said, text in zip(transcripts, texts, strict=True)]
    return error_rates(found)[0]


if __name__ == '__main__':
    sys.exit(main())

"""Times one of our runtimes; started by bench_inference.py. Questions and answers are those of client.py."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import numpy as np

from deepspeech_training.audio.reading import read_audio
from deepspeech_training.decoding import Decoder, make_decoder
from deepspeech_training.runtimes import Runtime, open_model


def main() -> None:
    """Answers until standard input is at its end."""
    model = open_model(sys.argv[1], alphabet_path=sys.argv[3] if len(sys.argv) > 3 else '')
    decoder = make_decoder(model.alphabet, int(sys.argv[2]))
    print(json.dumps({'sample_rate': model.sample_rate}), flush=True)
    for line in sys.stdin:
        question = json.loads(line)
        print(json.dumps(answer(model, decoder, question['audio'], question['chunk'])), flush=True)


def answer(model: Runtime, decoder: Decoder, audio: str, chunk: int) -> dict[str, Any]:
    """Times one transcription, without reading the file."""
    samples = read_audio(audio, model.info.features)
    before = last = time.perf_counter()
    if chunk:
        stream = model.stream()
        output = [stream.feed(samples[start : start + chunk]) for start in range(0, len(samples), chunk)]
        last = time.perf_counter()
        text = decoder.decode(np.concatenate([*output, stream.finish()]))
    else:
        text = decoder.decode(model.log_probabilities(samples))
    now = time.perf_counter()
    return {'seconds': now - before, 'latency': now - last, 'text': text}


if __name__ == '__main__':
    main()

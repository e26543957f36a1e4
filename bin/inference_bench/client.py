"""Times the `deepspeech` 0.9.3 client, in its own environment of Python 3.7; started by bench_inference.py.

Arguments: model and beam width. Each line of standard input is a JSON object with `audio` (16-bit WAV file) and
`chunk` (samples fed at a time; 0: all at once); each is answered with a line: `seconds` of computing, `latency` (those
after the last samples) and `text`.
"""

import json
import sys
import time
import wave

import deepspeech  # type: ignore[import-not-found]
import numpy as np


def main():  # type: ignore[no-untyped-def]
    model = deepspeech.Model(sys.argv[1])
    model.setBeamWidth(int(sys.argv[2]))
    print(json.dumps({'sample_rate': model.sampleRate()}), flush=True)
    for line in sys.stdin:
        question = json.loads(line)
        with wave.open(question['audio']) as audio:
            samples = np.frombuffer(audio.readframes(audio.getnframes()), np.int16)
        before = time.perf_counter()
        if question['chunk']:
            stream = model.createStream()
            for start in range(0, len(samples), question['chunk']):
                stream.feedAudioContent(samples[start : start + question['chunk']])
            last = time.perf_counter()
            text = stream.finishStream()
        else:
            last = before
            text = model.stt(samples)
        now = time.perf_counter()
        print(json.dumps({'seconds': now - before, 'latency': now - last, 'text': text}), flush=True)


main()

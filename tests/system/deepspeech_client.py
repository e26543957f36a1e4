"""Runs `deepspeech` or `deepspeech-tflite` 0.9.3, or Coqui's `stt`, on audio, in its own environment.

Standard input: a JSON object with `model`, `audio` (16-bit WAV files), and if wanted `scorer`, `chunk` (samples fed
at a time to the streaming API) and `beam_width`. Standard output: a JSON object with what the client said.
"""

import json
import sys
import wave

import numpy as np

try:
    import deepspeech  # type: ignore[import-not-found]
except ImportError:
    import stt as deepspeech  # type: ignore[import-not-found]


def read(path):  # type: ignore[no-untyped-def]
    with wave.open(path) as audio:
        assert audio.getsampwidth() == 2
        assert audio.getnchannels() == 1
        return np.frombuffer(audio.readframes(audio.getnframes()), np.int16)


def main():  # type: ignore[no-untyped-def]
    question = json.load(sys.stdin)
    model = deepspeech.Model(question['model'])
    result = {'sample_rate': model.sampleRate(), 'beam_width': model.beamWidth()}
    if question.get('beam_width'):
        model.setBeamWidth(question['beam_width'])
    if question.get('scorer'):
        model.enableExternalScorer(question['scorer'])
    chunk = question.get('chunk', 1000)  # 0: no streaming
    result['batch'], result['stream'], result['intermediate'] = [], [], []
    for path in question['audio']:
        samples = read(path)
        result['batch'].append(model.stt(samples))
        if not chunk:
            continue
        stream = model.createStream()
        for start in range(0, len(samples), chunk):
            stream.feedAudioContent(samples[start : start + chunk])
        result['intermediate'].append(stream.intermediateDecode())
        result['stream'].append(stream.finishStream())
    print(json.dumps(result))


main()

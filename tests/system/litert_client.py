"""Runs a TensorFlow Lite file in `ai-edge-litert`, in an environment with nothing else.

Standard input: a JSON object with `model` and `audio` (16-bit WAV files). Standard output: a JSON object with
`metadata` (integers and texts, the alphabet in hexadecimal), and `probabilities`, a list of frames for each file.
"""

import json
import sys
import wave

import numpy as np
from ai_edge_litert.interpreter import Interpreter

N_CONTEXT = 9


def read(path):  # type: ignore[no-untyped-def]
    with wave.open(path) as audio:
        return np.frombuffer(audio.readframes(audio.getnframes()), np.int16)


class Model:
    def __init__(self, path):  # type: ignore[no-untyped-def]
        self.interpreter = Interpreter(path)
        self.interpreter.allocate_tensors()
        self.inputs = {detail['name']: detail for detail in self.interpreter.get_input_details()}
        self.outputs = {detail['name']: detail for detail in self.interpreter.get_output_details()}

    def run(self, outputs, **values):  # type: ignore[no-untyped-def]
        for name, value in values.items():
            self.interpreter.set_tensor(self.inputs[name]['index'], value.astype(np.float32))
        self.interpreter.invoke()
        return [self.interpreter.get_tensor(self.outputs[name]['index']) for name in outputs]

    def metadata(self):  # type: ignore[no-untyped-def]
        names = [name for name in self.outputs if name.startswith('metadata_')]
        values = {name: value[0] for name, value in zip(names, self.run(names), strict=True)}
        shown = {name: int(value) for name, value in values.items() if isinstance(value, np.integer)}
        texts = {name: value for name, value in values.items() if name not in shown}
        shown['metadata_alphabet'] = texts.pop('metadata_alphabet').hex()
        return {**shown, **{name: value.decode() for name, value in texts.items()}}

    def probabilities(self, samples, rate):  # type: ignore[no-untyped-def]
        window = self.inputs['input_samples']['shape'][0]
        step = rate * self.run(['metadata_feature_win_step'])[0][0] // 1000
        starts = range(0, len(samples) - window + 1, step)
        mfccs = [self.run(['mfccs'], input_samples=samples[at : at + window] / 32768.0)[0][0] for at in starts]
        padded = np.pad(np.array(mfccs), [(N_CONTEXT, N_CONTEXT), (0, 0)])
        frames = np.array([padded[at : at + 2 * N_CONTEXT + 1] for at in range(len(mfccs))])
        shape = self.inputs['input_node']['shape']
        c = h = np.zeros(self.inputs['previous_state_c']['shape'])
        result = []
        for start in range(0, len(frames), shape[1]):
            chunk = frames[start : start + shape[1]]
            node = np.zeros(shape)
            node[0, : len(chunk)] = chunk
            names = ['logits', 'new_state_c', 'new_state_h']
            logits, c, h = self.run(names, input_node=node, previous_state_c=c, previous_state_h=h)
            result += logits[: len(chunk)].tolist()
        return result


def main():  # type: ignore[no-untyped-def]
    question = json.load(sys.stdin)
    model = Model(question['model'])
    metadata = model.metadata()
    rate = metadata['metadata_sample_rate']
    files = [model.probabilities(read(path), rate) for path in question['audio']]
    print(json.dumps({'metadata': metadata, 'probabilities': files}))


main()

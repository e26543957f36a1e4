"""Restores a checkpoint as DeepSpeech 0.9.3 does: `tf.train.Saver` of TensorFlow 1.15, on Python 3.7.

On standard input the checkpoint's path and, by name, the shapes of the variables; prints the sum of each.
"""

import json
import sys

import tensorflow as tf


def main() -> None:
    tf.compat.v1.disable_v2_behavior()  # which TensorFlow 2 asks for by the environment, in the process that runs this
    question = json.load(sys.stdin)
    integers = {'global_step': tf.int64}
    variables = [
        tf.get_variable(name, shape, dtype=integers.get(name, tf.float32)) for name, shape in question['shapes'].items()
    ]
    with tf.Session() as session:
        tf.train.Saver(variables).restore(session, question['path'])
        sums = {v.op.name: float(session.run(tf.reduce_sum(tf.cast(v, tf.float64)))) for v in variables}
    print(json.dumps({'version': tf.__version__, 'sums': sums}))


main()

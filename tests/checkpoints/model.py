"""A tiny model with a checkpoint store, for the tests of checkpoints."""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from deepspeech_training.checkpoints import CheckpointStore, Geometry, RunState
from deepspeech_training.config import CheckpointConfig

tfv1 = tf.compat.v1


class Model:
    """A few of the model's variables, with an optimizer, a learning rate and a session of their own."""

    def __init__(
        self,
        config: CheckpointConfig,
        *,
        n_hidden: int = 4,
        alphabet_size: int = 3,
        layer_norm: bool = False,
        training: bool = True,
        value: float = 0.0,
        geometry: Geometry | None = None,
    ) -> None:
        tfv1.disable_v2_behavior()
        with tf.Graph().as_default() as graph:
            start = tfv1.constant_initializer(value)
            shapes = {'layer_1/bias': n_hidden, 'layer_6/bias': alphabet_size + 1}
            if layer_norm:
                shapes['layer_1/LayerNorm/beta'] = n_hidden
            weights = [tfv1.get_variable(n, [s], initializer=start, use_resource=True) for n, s in shapes.items()]
            if training:
                self.learning_rate = tfv1.get_variable(
                    'learning_rate', initializer=0.25, trainable=False, use_resource=True
                )
                loss = tf.add_n([tf.reduce_sum(tf.square(w - 1)) for w in weights])
                step = tfv1.train.get_or_create_global_step()
                self.train_op = tfv1.train.AdamOptimizer(self.learning_rate).minimize(loss, global_step=step)
            self.weight = weights[0]
            self.variables = tfv1.global_variables()
            self.store = CheckpointStore(config, geometry or Geometry(n_hidden, alphabet_size, 'some/alphabet.txt'))
            self.session = tfv1.Session(graph=graph)

    def value(self) -> float:
        values = self.session.run(self.weight)
        assert np.ptp(values) == 0
        return float(values[0])


def trained(
    config: CheckpointConfig, value: float = 0.0, geometry: Geometry | None = None, **sizes: int | bool
) -> Model:
    model = Model(config, value=value, geometry=geometry, **sizes)  # type: ignore[arg-type]
    model.store.restore_for_training(model.session)
    return model


def saved(model: Model, step: int, *, best: bool = False) -> str:
    """Where the checkpoint is, when it is on the disk."""
    save = model.store.save_best if best else model.store.save_last
    path = save(model.session, RunState(step=step))
    model.store.wait()
    return path

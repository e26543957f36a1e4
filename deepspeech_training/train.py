"""Training: builds the graph through a strategy and runs the epochs."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import tensorflow as tf

from deepspeech_training.checkpoints import CheckpointStore
from deepspeech_training.config import Config, OptimizerConfig
from deepspeech_training.data.checks import DataSets
from deepspeech_training.data.manifest import Sample
from deepspeech_training.epochs import SampleRange, TrainingGraph, TrainingLoop
from deepspeech_training.graphs import geometry, make_pipeline, make_session, make_tower_fn
from deepspeech_training.parallel.registry import create_strategy
from deepspeech_training.parallel.strategy import StepOps, Strategy
from deepspeech_training.summaries import SummaryWriter, log_grads_and_vars
from deepspeech_training.text.alphabet import Alphabet


def create_optimizer(learning_rate: tf.Variable, optimizer: OptimizerConfig) -> tf.compat.v1.train.Optimizer:
    """Adam, with the learning rate as a variable of the graph."""
    return tf.compat.v1.train.AdamOptimizer(
        learning_rate=learning_rate, beta1=optimizer.beta1, beta2=optimizer.beta2, epsilon=optimizer.epsilon
    )


def build_graph(config: Config, strategy: Strategy, samples: Sequence[Sample], alphabet: Alphabet) -> TrainingGraph:
    """Builds everything in the default graph; `samples` are all the loop will ever read."""
    tf.compat.v1.set_random_seed(config.random_seed)
    pipeline = make_pipeline(config, strategy, samples, alphabet)
    n_output = alphabet.size + 1
    with tf.device('/cpu:0'):
        learning_rate = tf.compat.v1.get_variable(
            'learning_rate', initializer=config.optimizer.learning_rate, trainable=False, use_resource=True
        )
        new_learning_rate = tf.compat.v1.placeholder(tf.float32, [], name='new_learning_rate')
        set_learning_rate = learning_rate.assign(new_learning_rate).op
    step = strategy.build(
        pipeline.next_batch,
        make_tower_fn(config, n_output, training=True),
        partial(create_optimizer, learning_rate, config.optimizer),
    )
    evaluation = strategy.build_evaluation(pipeline.next_batch, make_tower_fn(config, n_output, training=False))
    wants_summary = config.report.summary_dir and strategy.is_chief
    return TrainingGraph(
        pipeline=pipeline,
        step=step,
        evaluation=evaluation,
        learning_rate=learning_rate,
        set_learning_rate=set_learning_rate,
        new_learning_rate=new_learning_rate,
        global_step=tf.compat.v1.train.get_global_step(),
        summary=_step_summary(step) if wants_summary else None,
    )


def _step_summary(step: StepOps) -> tf.Tensor:
    """Histograms of the step's gradients and new variables; an empty string when nothing was applied."""
    return tf.cond(step.applied, lambda: log_grads_and_vars(step.gradients), lambda: tf.constant(b''))


def train(config: Config, data_sets: DataSets, alphabet: Alphabet) -> None:
    """Trains for `config.schedule.epochs` epochs.

    Raises:
      CheckpointError: a checkpoint cannot be read or written.
      DataError: an audio file cannot be read any more.
      TrainingDivergedError: the loss was not finite for too many steps in a row.
    """
    strategy = create_strategy(config.parallel)
    samples: list[Sample] = list(strategy.shard(data_sets.train))
    train_range = SampleRange('train', 0, len(samples))
    dev_ranges: list[SampleRange] = []
    metrics_ranges: list[SampleRange] = []
    for ranges, sets in ((dev_ranges, data_sets.dev), (metrics_ranges, data_sets.metrics)):
        for name, rows in sets.items():
            part = strategy.shard(rows)
            ranges.append(SampleRange(name, len(samples), len(part)))
            samples += part
    with tf.Graph().as_default() as graph:
        operations = build_graph(config, strategy, samples, alphabet)
        store = CheckpointStore(config.checkpoints, geometry(config, alphabet))
        with make_session(strategy) as session:
            restored = store.restore_for_training(session)
            strategy.after_restore(session)
            graph.finalize()
            writer = SummaryWriter(config.report.summary_dir if strategy.is_chief else '')
            try:
                loop = TrainingLoop(config, strategy, operations, store, writer, session)
                if restored:
                    loop.warn_of_other_learning_rate()
                loop.run(train_range, dev_ranges, metrics_ranges)
            finally:
                writer.close()

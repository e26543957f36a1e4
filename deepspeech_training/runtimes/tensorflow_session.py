"""Sessions for models."""

from __future__ import annotations

import tensorflow as tf

tfv1 = tf.compat.v1


def make_session(graph: tf.Graph, threads: int, *, gpus: bool = False) -> tf.compat.v1.Session:
    """A session on `graph` that computes with `threads` threads; 0: one a core. `gpus`: on GPUs, if there are any."""
    proto = tfv1.ConfigProto(
        allow_soft_placement=True,
        intra_op_parallelism_threads=threads,
        inter_op_parallelism_threads=-1,  # in the caller's thread: the model is a chain, and handing over takes time
    )
    if not gpus:
        proto.device_count['GPU'] = 0
    return tfv1.Session(graph=graph, config=proto)

"""Models ready to compute with: checkpoints and every kind of export behind one interface.

with open_model('model/output_graph.tflite') as model:
    log_probabilities = model.log_probabilities(samples)
"""

from __future__ import annotations

from deepspeech_training.runtimes.metadata import ModelInfo
from deepspeech_training.runtimes.opening import open_model
from deepspeech_training.runtimes.runtime import Runtime, Stream

__all__ = ['ModelInfo', 'Runtime', 'Stream', 'open_model']

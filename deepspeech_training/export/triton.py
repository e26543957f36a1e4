"""The configuration of a model for NVIDIA Triton Inference Server."""

from __future__ import annotations

import json

MAX_BATCH_SIZE = 16
"""Requests that Triton computes at a time."""

MAX_QUEUE_DELAY = 10_000
"""Microseconds that a request waits for others to make a batch with it."""

TEMPLATE = """\
# Audio to log-probabilities, by ONNX Runtime. Requests whose `samples` are equally long make one batch: pad them to a
# multiple of some length, and say in `lengths` how many of the samples count.
name: {name}
platform: "onnxruntime_onnx"
max_batch_size: {max_batch_size}
dynamic_batching {{
  max_queue_delay_microseconds: {max_queue_delay}
}}
input [
  {{
    name: "samples"
    data_type: TYPE_FP32
    dims: [ -1 ]
  }},
  {{
    name: "lengths"
    data_type: TYPE_INT32
    dims: [ 1 ]
    reshape: {{ shape: [ ] }}
  }}
]
output [
  {{
    name: "log_probabilities"
    data_type: TYPE_FP32
    dims: [ -1, {n_output} ]
  }},
  {{
    name: "frames"
    data_type: TYPE_INT32
    dims: [ 1 ]
    reshape: {{ shape: [ ] }}
  }}
]
"""


def triton_config(name: str, n_output: int) -> str:
    """The text of `config.pbtxt` for `onnx_models.whole_model`, with dynamic batching."""
    return TEMPLATE.format(
        name=json.dumps(name, ensure_ascii=False),  # protocol buffers' text format quotes alike
        n_output=n_output,
        max_batch_size=MAX_BATCH_SIZE,
        max_queue_delay=MAX_QUEUE_DELAY,
    )

"""The type in which the products of the model are computed."""

from __future__ import annotations

from collections.abc import Sequence

from deepspeech_training.errors import FlagError

WITH_BFLOAT16 = (8, 0)
"""The compute capability from which NVIDIA's GPUs have bfloat16."""


def choose_compute_type(wanted: str, gpus: Sequence[tuple[int, int] | None]) -> str:
    """`wanted`, or for 'auto' bfloat16 where all `gpus` have it, else float16.

    `gpus`: the compute capability of each GPU in use, None where that is not known; none: the CPU computes.
    Raises `FlagError` for float16 on the CPU, which has no operations for it: there it would only be slower.
    """
    if wanted == 'float16' and not gpus:
        raise FlagError(
            '--mixed_precision_type=float16: needs a GPU that TensorFlow can use, and none is used here; '
            '--mixed_precision_type=bfloat16 also runs on CPUs'
        )
    if wanted != 'auto':
        return wanted
    everywhere = all(capability is not None and capability >= WITH_BFLOAT16 for capability in gpus)
    return 'bfloat16' if everywhere else 'float16'

"""Where a training is: what a checkpoint needs beside the variables, so that a resumed run is the same run."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass, field
from typing import Any


@dataclass
class RunState:
    """Kept as JSON in a file beside the checkpoint's: DeepSpeech would trip over variables it does not know.

    `run`: a name of this training, from its first start on; checkpoints of others may be in the same folder.
    `epoch` (from 0) is under way; `rows_done` samples of its order were used by all processes together, of which
    `count` had a finite loss, with the sum `loss_sum`.
    `step`: updates so far, also those of a training that this one began with; `first_step`: those alone, -1 until it
    has begun. `data`: a digest of the training samples, whose order `rows_done` counts in.
    `best_by`: what the best checkpoint was chosen by. `dev_wer`: NaN after an epoch that did not compute it.
    """

    run: str = ''
    epoch: int = 0
    rows_done: int = 0
    loss_sum: float = 0.0
    count: float = 0.0
    step: int = 0
    first_step: int = -1
    best_loss: float = math.inf
    best_wer: float = math.inf
    best_wer_loss: float = math.inf
    best_by: str = 'loss'
    epochs_without_improvement: int = 0
    bad_steps_in_a_row: int = 0
    train_loss: float = math.nan
    dev_loss: float = math.nan
    dev_wer: float = math.nan
    data: str = ''
    extra: dict[str, Any] = field(default_factory=dict)

    @property
    def mean_loss(self) -> float:
        """That of the epoch so far; NaN before the first sample."""
        return self.loss_sum / self.count if self.count else math.nan

    def to_json(self) -> dict[str, Any]:
        """JSON values; numbers that JSON does not have become None."""
        values = dataclasses.asdict(self)
        return {k: None if isinstance(v, float) and not math.isfinite(v) else v for k, v in values.items()}

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> RunState:
        """Raises `TypeError` for values of another kind; names that this version does not know are left out."""
        defaults = cls()
        known = {f.name for f in dataclasses.fields(cls)}
        given = {k: getattr(defaults, k) if v is None else v for k, v in values.items() if k in known}
        for name, value in given.items():
            default = getattr(defaults, name)
            if not isinstance(value, (int, float) if isinstance(default, float) else type(default)):
                raise TypeError(f'{name} is {value!r}')
        return cls(**given)

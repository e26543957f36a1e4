from __future__ import annotations

from pathlib import Path

import pytest

from deepspeech_training.config import CheckpointConfig


@pytest.fixture
def config(tmp_path: Path) -> CheckpointConfig:
    return CheckpointConfig(load_dir=str(tmp_path / 'c'), save_dir=str(tmp_path / 'c'))

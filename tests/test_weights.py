"""Training sets with weights, in every strategy and over a resume."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from deepspeech_training.checkpoints import LAST, find_checkpoint
from deepspeech_training.config import Config, ParallelConfig
from deepspeech_training.data.loading import LoadedSample, SampleLoader
from deepspeech_training.errors import FlagError
from deepspeech_training.flags.building import build_config, without_effect
from deepspeech_training.flags.parsing import parse
from tests.helpers import run_training
from tests.toy import random_texts, toy_config, write_corpus

STRATEGIES = [
    ParallelConfig(parallel='hybrid', cpu_towers=2),
    ParallelConfig(parallel='sync', cpu_towers=2),
    ParallelConfig(parallel='async', cpu_towers=2),
]


@pytest.fixture
def config(tmp_path: Path) -> Config:
    """Three utterances with the weight 2, four with 0.5."""
    config = toy_config(tmp_path, train=3, batch_size=2, epochs=2)
    other = write_corpus(tmp_path / 'corpus', 'other', random_texts(4, 9))
    files = (*config.data.train_files, other)
    data = replace(config.data, train_files=files, train_weights=(2.0, 0.5), shuffle_batches=True, shuffle_start=0)
    return replace(config, data=data, parallel=replace(config.parallel, intra_op_threads=1, inter_op_threads=1))


@pytest.mark.parametrize('parallel', STRATEGIES, ids=lambda parallel: parallel.parallel)
def test_every_strategy_takes_all_that_were_chosen(
    config: Config, parallel: ParallelConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded: Counter[str] = Counter()
    load = SampleLoader.load

    def counted(self: SampleLoader, position: int, epoch: int = -1, clock: float = 0.0) -> LoadedSample:
        sample = load(self, position, epoch, clock)
        loaded[Path(sample.name.decode()).name] += 1
        return sample

    monkeypatch.setattr(SampleLoader, 'load', counted)
    run_training(replace(config, parallel=parallel))
    assert loaded == {
        **{f'train_{number}.wav': 4 for number in range(3)},
        **{f'other_{number}.wav': 1 for number in range(4)},
    }


def test_a_resumed_run_ends_where_one_run_does(config: Config, tmp_path: Path) -> None:
    def variables(name: str, *epochs: int) -> dict[str, np.ndarray]:
        folder = str(tmp_path / name)
        for count in epochs:
            run_training(
                replace(
                    config,
                    schedule=replace(config.schedule, epochs=count),
                    checkpoints=replace(config.checkpoints, load_dir=folder, save_dir=folder),
                )
            )
        reader = tf.train.load_checkpoint(str(find_checkpoint(folder, LAST)))
        return {name: reader.get_tensor(name) for name in reader.get_variable_to_shape_map()}

    whole, parts = variables('whole', 3), variables('parts', 1, 3)
    assert whole.keys() == parts.keys()
    for name, value in whole.items():
        np.testing.assert_array_equal(parts[name], value, err_msg=name)


class TestFlag:
    def weights(self, text: str, files: str = 'x/a.csv,x/b.csv,y/b.csv') -> tuple[float, ...]:
        return build_config(parse(['--train_files', files, '--train_weights', text])).data.train_weights

    def test_names(self) -> None:
        assert self.weights('a.csv=2,y/b.csv=0.5') == (2.0, 1.0, 0.5)
        assert self.weights('') == ()

    @pytest.mark.parametrize(
        ('text', 'message'),
        [
            ('c.csv=2', "'c.csv=2' names none of the files in --train_files: x/a.csv, x/b.csv, y/b.csv"),
            ('b.csv=2', "'b.csv=2' names several of the files"),
            ('a.csv', "'a.csv' names none of the files"),
            ('a.csv=0', "the weight of a.csv is '0'; it must be a number above 0 and at most 1000"),
            ('a.csv=-1', "is '-1'"),
            ('a.csv=nan', "is 'nan'"),
            ('a.csv=1001', "is '1001'"),
            ('a.csv=x', "is 'x'"),
            ('a.csv=1,x/a.csv=2', 'x/a.csv has two weights'),
        ],
    )
    def test_wrong(self, text: str, message: str) -> None:
        with pytest.raises(FlagError, match='--train_weights=') as caught:
            self.weights(text)
        assert message in str(caught.value)

    def test_without_training(self) -> None:
        warnings = without_effect(parse(['--train_weights', 'a.csv=2', '--test_files', 'b.csv']))
        assert warnings == ['--train_weights has no effect without --train_files']

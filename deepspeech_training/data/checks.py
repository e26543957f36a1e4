"""Looking at all data before the first step, so that no run dies of a bad file after hours."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from deepspeech_training.config import DataConfig, FeatureConfig
from deepspeech_training.data.manifest import Sample, read_csv
from deepspeech_training.data.order import sort_samples
from deepspeech_training.text.alphabet import Alphabet


@dataclass(frozen=True)
class DataSets:
    """The samples of a run, checked, sorted, reversed and limited as the flags say."""

    train: list[Sample]  # of all train files together
    dev: dict[str, list[Sample]]  # by CSV file, in the order of the flag
    test: dict[str, list[Sample]]
    metrics: dict[str, list[Sample]]


def check_data(
    data: DataConfig, features: FeatureConfig, alphabet: Alphabet, *, save_dir: str, show_progressbar: bool
) -> DataSets:
    """The samples of all CSV files of `data` (first version: without the checks)."""

    def each(paths: Sequence[str], reverse: bool, limit: int) -> dict[str, list[Sample]]:
        return {path: sort_samples(read_csv(path)[0], reverse, limit) for path in paths}

    train = [sample for path in data.train_files for sample in read_csv(path)[0]]
    return DataSets(
        train=sort_samples(train, data.reverse_train, data.limit_train),
        dev=each(data.dev_files, data.reverse_dev, data.limit_dev),
        test=each(data.test_files, data.reverse_test, data.limit_test),
        metrics=each(data.metrics_files, data.reverse_dev, data.limit_dev),
    )

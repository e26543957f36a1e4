"""What several tests need: running a training in this process, reading its curves."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import tensorflow as tf

from deepspeech_training.config import Config
from deepspeech_training.data.checks import DataSets, check_data
from deepspeech_training.evaluate import transcribe_sets
from deepspeech_training.evaluation.results import Results
from deepspeech_training.text.alphabet import Alphabet
from deepspeech_training.text.metrics import Transcription
from deepspeech_training.train import train


def run_training(config: Config) -> tuple[DataSets, Alphabet]:
    """Checks the data and trains, as the program does, in this process."""
    tf.compat.v1.disable_v2_behavior()
    alphabet = Alphabet.from_file(config.data.alphabet_config_path)
    data_sets = check_data(
        config.data, config.features, alphabet, save_dir=config.checkpoints.save_dir, show_progressbar=False
    )
    train(config, data_sets, alphabet)
    return data_sets, alphabet


def transcriptions(config: Config, data_sets: DataSets, alphabet: Alphabet) -> list[Transcription]:
    """What testing makes of the test sets."""
    with Results(list(data_sets.test)) as results:
        transcribe_sets(config, data_sets.test, alphabet, results)
        return [result.transcription for result in results.read(range(len(results)))]


def events(folder: Path) -> Iterator[tf.compat.v1.Event]:
    """All events of the TensorBoard files in `folder`, in order."""
    for path in sorted(folder.glob('events.out.tfevents.*')):
        yield from tf.compat.v1.train.summary_iterator(str(path))


def scalars(folder: Path, tag: str) -> dict[int, float]:
    """The curve `tag` of the TensorBoard files in `folder`: value by step."""
    return {
        event.step: value.simple_value for event in events(folder) for value in event.summary.value if value.tag == tag
    }


def texts(folder: Path, tag: str) -> dict[int, str]:
    """The text `tag` of the TensorBoard files in `folder`: Markdown by step."""
    return {
        event.step: tf.make_ndarray(value.tensor).item().decode()
        for event in events(folder)
        for value in event.summary.value
        if value.tag == tag and value.HasField('tensor')
    }

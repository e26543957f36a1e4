"""`--automatic_mixed_precision` in the real program: it learns, and its checkpoints are the same."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import tensorflow as tf

from deepspeech_training.checkpoints import LAST, find_checkpoint
from tests.helpers import scalars
from tests.toy import random_texts, write_alphabet, write_corpus

PROGRAM = str(Path(__file__).parents[2] / 'DeepSpeech.py')
MIXED = '--automatic_mixed_precision'
EPOCHS = 25


@pytest.fixture(scope='module')
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp('mixed_precision')
    write_alphabet(folder)
    for name, count in (('train', 16), ('dev', 4)):
        write_corpus(folder / 'corpus', name, random_texts(count, seed=count))
    return folder


def train(folder: Path, name: str, curves: str, *flags: str) -> str:
    """Trains into the checkpoint folder `name`; returns what the program said."""
    common = {
        'alphabet_config_path': folder / 'alphabet.txt',
        'train_files': folder / 'corpus' / 'train.csv',
        'checkpoint_dir': folder / name,
        'summary_dir': folder / curves,
        'n_hidden': 32,
        'train_batch_size': 4,
        'learning_rate': 0.004,
    }
    command = [sys.executable, PROGRAM, *(f'--{flag}={value}' for flag, value in common.items()), *flags]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr
    return done.stderr


def losses(folder: Path, curves: str) -> list[float]:
    """The training loss of each epoch."""
    return list(scalars(folder / curves / 'train', 'epoch_loss').values())


def contents(folder: Path, name: str) -> dict[str, tuple[list[int], tf.DType]]:
    """Shape and type of each variable in the last checkpoint."""
    path = find_checkpoint(str(folder / name), LAST)
    assert path is not None
    reader = tf.train.load_checkpoint(path)
    types = reader.get_variable_to_dtype_map()
    return {variable: (shape, types[variable]) for variable, shape in reader.get_variable_to_shape_map().items()}


@pytest.mark.slow
def test_it_learns_as_without_and_either_continues_the_other(folder: Path) -> None:
    said = {}
    for name, flags in (('plain', ()), ('mixed', (MIXED,))):
        said[name] = train(folder, name, f'{name}-curves', f'--epochs={EPOCHS}', *flags)
    assert 'Mixed precision: products in bfloat16' in said['mixed']
    assert 'Mixed precision' not in said['plain']
    plain, mixed = losses(folder, 'plain-curves'), losses(folder, 'mixed-curves')
    assert mixed[0] != plain[0]
    assert mixed[0] == pytest.approx(plain[0], rel=0.01)
    for curve in (plain, mixed):
        assert min(curve) < curve[0] / 4
    assert contents(folder, 'plain') == contents(folder, 'mixed')
    assert {'layer_1/weights/Adam', 'beta1_power', 'learning_rate'} <= set(contents(folder, 'mixed'))

    for name, flags in (('plain', (MIXED,)), ('mixed', ())):
        before = contents(folder, name)
        said[name] = train(folder, name, f'{name}-continued', f'--epochs={EPOCHS + 2}', *flags)
        assert f'Continuing from checkpoint {folder / name}/train-{EPOCHS * 4}' in said[name]
        assert 'start anew' not in said[name]
        assert ('Mixed precision' in said[name]) == bool(flags)
        assert contents(folder, name) == before
        assert losses(folder, f'{name}-continued')[-1] < losses(folder, f'{name}-curves')[0] / 4


def test_float16_without_a_gpu(folder: Path) -> None:
    command = [sys.executable, PROGRAM, MIXED, '--mixed_precision_type=float16', '--n_hidden=8']
    command += [f'--alphabet_config_path={folder}/alphabet.txt', f'--train_files={folder}/corpus/train.csv']
    command += [f'--checkpoint_dir={folder}/none', f'--summary_dir={folder}/none']
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 2
    assert '--mixed_precision_type=bfloat16 also runs on CPUs' in done.stderr
    assert 'Traceback' not in done.stderr

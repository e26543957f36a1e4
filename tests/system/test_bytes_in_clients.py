"""Models of bytes in the programs that people have, with and without a scorer, and in every format here."""

from __future__ import annotations

import dataclasses
import json
import zipfile
from pathlib import Path

import numpy as np
import pytest
import soundfile

from deepspeech_training.config import CheckpointConfig, Config, DecodingConfig, ExportConfig, ModelConfig
from deepspeech_training.decoding import decoder_for, make_decoder
from deepspeech_training.export.formats import export_model
from deepspeech_training.infer import one_shot_infer
from deepspeech_training.runtimes import open_model
from deepspeech_training.text.byte_alphabet import ByteAlphabet
from tests.export.saved_model import SavedModel
from tests.system.character_scorer import scorer_of_characters
from tests.system.clients import COQUI, DEEPSPEECH, DEEPSPEECH_TFLITE, Client, ask
from tests.system.talking_model import write_checkpoint_that_says

BYTES = ByteAlphabet()
SILENCE = np.zeros(16000, np.float32)


@pytest.fixture
def config(tmp_path: Path) -> Config:
    """A model that says the two bytes of one letter, half a second apart."""
    config = Config(
        model=ModelConfig(n_hidden=8),
        checkpoints=CheckpointConfig(load_dir=str(tmp_path)),
        export=ExportConfig(export_dir=str(tmp_path / 'export'), language='ru'),
    )
    write_checkpoint_that_says('я', BYTES, config)
    soundfile.write(tmp_path / 'silence.wav', SILENCE, 16000, subtype='PCM_16')
    return config


def exported(config: Config, **export: bool) -> str:
    changed = dataclasses.replace(config.export, **export)  # type: ignore[arg-type]
    return export_model(dataclasses.replace(config, export=changed), BYTES)[0]


@pytest.mark.parametrize('client', [DEEPSPEECH, DEEPSPEECH_TFLITE, COQUI], ids=lambda client: client.requirement)
def test_clients_put_bytes_together(client: Client, config: Config, tmp_path: Path) -> None:
    scorer = scorer_of_characters(['я ё', 'ёё яя'], tmp_path)
    model = exported(config, tflite=client is not DEEPSPEECH)
    for options in ({}, {'scorer': scorer}):
        question = {'model': model, 'audio': [str(tmp_path / 'silence.wav')], 'beam_width': 20, **options}
        answer = ask(client, question)
        assert 'rror' not in answer.errors, answer.errors
        assert answer.result['batch'] == answer.result['stream'] == ['я']


def test_every_format_here(config: Config, tmp_path: Path) -> None:
    paths = [
        exported(config),
        exported(config, tflite=True, quantize=False),  # weights of zero cannot be quantized
        exported(config, onnx=True),
        exported(config, savedmodel=True).partition('/saved_model.pb')[0],
        str(tmp_path),
    ]
    for path in paths:
        with open_model(path) as model:
            assert model.alphabet.of_bytes, path
            logits = model.log_probabilities(SILENCE)
            assert logits.shape[1] == 256
            for width in (1, 20):
                assert make_decoder(model.alphabet, width).decode(logits) == 'я', path
    config = dataclasses.replace(config, one_shot_infer=str(tmp_path / 'silence.wav'))
    assert one_shot_infer(config, BYTES) == 'я'


def test_a_saved_model_gives_text_whatever_the_bytes(config: Config) -> None:
    folder = Path(exported(config, savedmodel=True).partition('/saved_model.pb')[0])
    model = SavedModel(folder if (folder / 'saved_model.pb').exists() else folder / '1')
    for samples, text in ((SILENCE, 'я'), (SILENCE[:3000], '\ufffd')):
        outputs = model.call('transcribe', samples=samples[np.newaxis], lengths=[len(samples)])
        assert outputs['transcripts'][0].decode() == text


def test_a_package_without_a_file_for_the_alphabet(config: Config) -> None:
    exported(config, zip=True)
    with zipfile.ZipFile(Path(config.export.export_dir) / 'output_graph.zip') as package:
        assert 'alphabet.txt' not in package.namelist()
        assert json.loads(package.read('info.json'))['alphabet'] is None


def test_a_scorer_in_the_flags(config: Config, tmp_path: Path) -> None:
    scorer = scorer_of_characters(['я ё'], tmp_path)
    decoder = decoder_for(DecodingConfig(beam_width=20, scorer_path=scorer), BYTES)
    with open_model(str(tmp_path)) as model:
        assert decoder.decode(model.log_probabilities(SILENCE)) == 'я'
        assert decoder.decode(model.log_probabilities(SILENCE[:3000])) in ('', 'я', 'ё')

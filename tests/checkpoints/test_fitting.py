"""What is said when the labels of a checkpoint are bytes, and here they are not, or the other way round."""

from __future__ import annotations

import pytest

from deepspeech_training.checkpoints.fitting import Geometry, check_description, missing_variables
from deepspeech_training.errors import CheckpointError
from deepspeech_training.text.alphabet import Alphabet
from deepspeech_training.text.byte_alphabet import ByteAlphabet

LETTERS = Alphabet(' abc', 'letters.txt')
LATIN = Alphabet([chr(number) for number in range(0x21, 0x120)], 'latin.txt')  # as many as there are bytes
BYTES = ByteAlphabet()


def geometry(alphabet: Alphabet) -> Geometry:
    return Geometry(4, alphabet.size, alphabet.path, alphabet.labels)


@pytest.mark.parametrize(
    ('there', 'here', 'message'),
    [
        (BYTES, LETTERS, 'it was trained with --bytes_output_mode, and here it is letters.txt'),
        (BYTES, LATIN, 'it was trained with --bytes_output_mode, and here it is latin.txt'),
        (LATIN, BYTES, 'it was trained with an alphabet of 255 characters, and here it is --bytes_output_mode'),
    ],
)
def test_bytes_and_letters(there: Alphabet, here: Alphabet, message: str) -> None:
    with pytest.raises(CheckpointError, match=f'train-1 does not fit: {message}'):
        check_description('train-1', geometry(there).to_json(), geometry(here))


@pytest.mark.parametrize('alphabet', [BYTES, LATIN, LETTERS])
def test_the_same_labels_fit(alphabet: Alphabet) -> None:
    check_description('train-1', geometry(alphabet).to_json(), geometry(alphabet))


def test_deepspeechs_checkpoints_are_known_by_their_size() -> None:
    wanted = {'layer_6/bias': [LETTERS.size + 1]}
    with pytest.raises(CheckpointError, match=r'255 characters, as with --bytes_output_mode, but letters.txt has 4'):
        missing_variables('train-1', wanted, {'layer_6/bias'}, {'layer_6/bias': [256]}, geometry(LETTERS))

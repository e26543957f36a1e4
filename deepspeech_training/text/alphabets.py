"""Which alphabet a run or a model has: the characters of a file, or the bytes of UTF-8."""

from __future__ import annotations

import struct
from collections.abc import Sequence

from deepspeech_training.config import DataConfig
from deepspeech_training.errors import DataError
from deepspeech_training.text.alphabet import NO_NORMALIZATION, Alphabet
from deepspeech_training.text.byte_alphabet import BYTE_NAMES, BYTES_OUTPUT_FLAG, ByteAlphabet


def load_alphabet(data: DataConfig) -> Alphabet:
    """The alphabet that the flags say. Raises `DataError` for a file that cannot be used."""
    if data.bytes_output_mode:
        return ByteAlphabet(normalization=data.unicode_normalization)
    return Alphabet.from_file(data.alphabet_config_path, data.unicode_normalization)


def alphabet_of_names(names: Sequence[str], path: str, normalization: str = NO_NORMALIZATION) -> Alphabet:
    """The alphabet with these `labels`, as checkpoints and ONNX models keep them. Raises `DataError`."""
    if tuple(names) == BYTE_NAMES:
        return ByteAlphabet(f'{BYTES_OUTPUT_FLAG} of {path}', normalization)
    return Alphabet(names, path, normalization)


def alphabet_of_bytes(labels: Sequence[bytes], path: str) -> Alphabet:
    """The alphabet with these `encoded_labels`. Raises `DataError` for labels that are neither text nor all bytes."""
    alphabet = ByteAlphabet(f'{BYTES_OUTPUT_FLAG} of {path}')
    if tuple(labels) == alphabet.encoded_labels:
        return alphabet
    try:
        return Alphabet([label.decode() for label in labels], path)
    except UnicodeDecodeError:
        raise DataError(
            f'the alphabet in {path} is damaged: it has labels that are no UTF-8, and is not that of '
            f'{BYTES_OUTPUT_FLAG}, which has all bytes'
        ) from None


def deserialize_alphabet(content: bytes, path: str) -> Alphabet:
    """The alphabet that `Alphabet.serialize` gave as `content`; the labels may come in any order, as from DeepSpeech.

    Raises `DataError` for bytes that are none.
    """
    labels: dict[int, bytes] = {}
    try:
        (count,) = struct.unpack_from('<H', content)
        position = 2
        for _ in range(count):
            number, length = struct.unpack_from('<HH', content, position)
            position += 4
            if position + length > len(content):
                raise DataError(f'the alphabet in {path} is cut off')
            labels[number] = content[position : position + length]
            position += length
    except struct.error:
        raise DataError(f'the alphabet in {path} is cut off') from None
    if position != len(content) or sorted(labels) != list(range(count)):
        raise DataError(f'the alphabet in {path} is damaged: its labels are not numbered from 0 to {count - 1}')
    return alphabet_of_bytes([labels[number] for number in range(count)], path)

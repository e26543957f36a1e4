"""The bytes of UTF-8 as labels, for models that write text of any language (--bytes_output_mode)."""

from __future__ import annotations

from collections.abc import Sequence

from deepspeech_training.errors import DataError
from deepspeech_training.text.alphabet import NO_NORMALIZATION, Alphabet, describe_character

BYTES_OUTPUT_FLAG = '--bytes_output_mode'

BYTE_NAMES = tuple(f'<0x{value:02X}>' for value in range(1, 256))
"""What the labels are called: label i is the byte i + 1. Text has no byte 0."""

REPLACEMENT = '\N{REPLACEMENT CHARACTER}'
"""Stands for bytes that are no UTF-8, as Unicode recommends (chapter 3.9, "U+FFFD Substitution")."""


class ByteAlphabet(Alphabet):
    """DeepSpeech's labels for bytes: 255 of them, the blank is 255, and the model has 256 outputs.

    A character takes as many labels as UTF-8 has bytes for it, one to four. A model may write bytes that are no UTF-8;
    `decode` has the replacement character (U+FFFD) for these. Transcripts can have neither that one nor U+0000.
    """

    of_bytes = True
    unit = 'bytes'
    labels_per_character = 4

    def __init__(self, path: str = BYTES_OUTPUT_FLAG, normalization: str = NO_NORMALIZATION) -> None:
        super().__init__(BYTE_NAMES, path, normalization)

    @property
    def space(self) -> int | None:
        return ord(' ') - 1

    @property
    def encoded_labels(self) -> tuple[bytes, ...]:
        return tuple(bytes([value]) for value in range(1, 256))

    def encode(self, text: str) -> list[int]:
        """The labels of the bytes of `text`. Raises `DataError` for characters that no label spells."""
        if unknown := self.unknown(text):
            names = ', '.join(describe_character(character) for character in dict.fromkeys(unknown))
            raise DataError(f'{text!r} has characters that a model of bytes cannot write: {names}')
        return [value - 1 for value in text.encode()]

    def unknown(self, text: str) -> list[str]:
        """The characters of `text` that no label spells: the replacement character, U+0000, halves of surrogates."""
        return [c for c in text if c in (REPLACEMENT, '\0') or '\ud800' <= c <= '\udfff']

    def decode(self, ids: Sequence[int]) -> str:
        """The text of the labels. Raises `ValueError` for a number that no label has."""
        for number in ids:
            if not 0 <= number < self.size:
                raise ValueError(f'{number} is no label of an alphabet of {self.size} bytes')
        return bytes(number + 1 for number in ids).decode(errors='replace')

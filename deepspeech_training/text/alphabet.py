"""The characters a model can write, and the numbers it knows them by."""

from __future__ import annotations

import re
import struct
import unicodedata
from collections.abc import Iterable, Sequence

from deepspeech_training.errors import DataError

NO_NORMALIZATION = 'none'

MAX_LABELS = 2**16 - 1  # the numbers in a serialized alphabet have 16 bits
MAX_LABEL_BYTES = 2**16 - 1


class Alphabet:
    """Labels numbered from 0 in the order of the file; CTC's blank has the number after the last.

    A label is usually one character. Longer ones (a letter with combining marks, a digraph) are allowed; where
    several labels fit a text, `encode` takes the longest.
    """

    of_bytes = False
    """Whether the labels are the bytes of UTF-8: `byte_alphabet.ByteAlphabet`."""

    unit = 'characters'
    """What messages call the labels."""

    labels_per_character = 1
    """The most that a character takes."""

    def __init__(self, labels: Iterable[str], path: str = '', normalization: str = NO_NORMALIZATION) -> None:
        """`path` is the file named in messages, `normalization` the Unicode normal form that the labels have.

        Raises `DataError` for labels that no alphabet can have.
        """
        self.labels = tuple(labels)
        self.path = path
        self.normalization = normalization
        _check(self.labels, [f'label {number}' for number in range(len(self.labels))], path)
        self._ids = {label: number for number, label in enumerate(self.labels)}
        self._characters = frozenset(label for label in self.labels if len(label) == 1)
        self._pattern: re.Pattern[str] | None = None
        if len(self._characters) < self.size:
            # A regular expression takes the first alternative that fits: the longest labels first.
            self._pattern = re.compile('|'.join(map(re.escape, sorted(self.labels, key=len, reverse=True))))

    @classmethod
    def from_file(cls, path: str, normalization: str = NO_NORMALIZATION) -> Alphabet:
        """Reads an alphabet file: UTF-8, one label a line, its number the position among the labels.

        Lines end in LF, CRLF or CR, the last one may lack it, and a byte order mark is skipped. A line that begins
        with `#` is a comment, `\\#` is the label `#`, a line of one space is the space, and an empty line is no label
        (as in DeepSpeech 0.9). Labels are brought into the Unicode normal form `normalization` (NFC, NFD or none).

        Raises `DataError` for a file that cannot be read, is not UTF-8, has no labels, has one twice, or has
        white space around a label.
        """
        labels, places = [], []
        for number, line in enumerate(re.split('\r\n|\r|\n', _read_text(path)), start=1):
            if not line or line.startswith('#'):
                continue
            labels.append('#' if line == '\\#' else line)
            places.append(f'line {number}')
        _check(labels, places, path)
        normalized = [normalize(label, normalization) for label in labels]
        if normalized != labels:
            _check(normalized, places, path, f' in the normal form of --unicode_normalization={normalization}')
        return cls(normalized, path, normalization)

    @property
    def size(self) -> int:
        """Number of labels, without the blank."""
        return len(self.labels)

    @property
    def blank(self) -> int:
        """The number of CTC's blank: the one after the last label."""
        return len(self.labels)

    @property
    def space(self) -> int | None:
        """The number of the space between words; None where there is none."""
        return self._ids.get(' ')

    @property
    def encoded_labels(self) -> tuple[bytes, ...]:
        """What the labels write, in UTF-8."""
        return tuple(label.encode() for label in self.labels)

    def normalize(self, text: str) -> str:
        """`text` in the alphabet's Unicode normal form. To be done once, where a transcript is read."""
        return normalize(text, self.normalization)

    def encode(self, text: str) -> list[int]:
        """The numbers of the labels that spell `text`.

        Raises `DataError` that names each character outside the alphabet with its code point.
        """
        try:
            return [self._ids[label] for label in self._split(text)]
        except KeyError:
            names = ', '.join(describe_character(character) for character in dict.fromkeys(self.unknown(text)))
            where = f' {self.path!r}' if self.path else ''
            raise DataError(f'{text!r} has characters that are not in the alphabet{where}: {names}') from None

    def unknown(self, text: str) -> list[str]:
        """The characters of `text` that no label spells, as often and in the order they occur."""
        if self._characters.issuperset(text):
            return []
        if self._pattern is None:
            return [character for character in text if character not in self._characters]
        return list(self._pattern.sub('', text))

    def decode(self, ids: Sequence[int]) -> str:
        """The text that the labels with these numbers spell. Raises `ValueError` for a number that no label has."""
        for number in ids:
            if not 0 <= number < self.size:
                raise ValueError(f'{number} is no label of an alphabet of {self.size}')
        return ''.join(self.labels[number] for number in ids)

    def serialize(self) -> bytes:
        """The alphabet as DeepSpeech's exported models carry it (`metadata_alphabet`), little endian.

        The count as uint16; then for each label its number and its length in bytes as uint16, and its UTF-8 bytes.
        `alphabets.deserialize_alphabet` reads it.
        """
        parts = [struct.pack('<H', self.size)]
        for number, encoded in enumerate(self.encoded_labels):
            parts.append(struct.pack('<HH', number, len(encoded)) + encoded)
        return b''.join(parts)

    def _split(self, text: str) -> Iterable[str]:
        """`text` cut into labels, and characters that are none."""
        if self._pattern is None:
            return text
        pieces: list[str] = []
        end = 0
        for match in self._pattern.finditer(text):
            pieces += text[end : match.start()]
            pieces.append(match.group())
            end = match.end()
        return [*pieces, *text[end:]]


def normalize(text: str, form: str) -> str:
    """`text` in the Unicode normal form `form`: NFC, NFD, or none to leave it as it is (Unicode Standard Annex 15)."""
    if form == NO_NORMALIZATION or text.isascii():
        return text
    return unicodedata.normalize('NFD' if form == 'NFD' else 'NFC', text)


def describe_character(character: str) -> str:
    """A character as messages name it: `'ä' (U+00E4)`, and only the code point of one that cannot be seen."""
    code_point = f'U+{ord(character):04X}'
    return f'{character!r} ({code_point})' if character.isprintable() else code_point


def _read_text(path: str) -> str:
    try:
        with open(path, 'rb') as file:
            content = file.read()
    except OSError as error:
        raise DataError(f'the alphabet {path!r} cannot be read: {error.strerror}') from error
    try:
        return content.decode('utf-8-sig')
    except UnicodeDecodeError as error:
        line = len(re.split(b'\r\n|\r|\n', content[: error.start]))
        value = content[error.start]
        raise DataError(
            f'the alphabet {path!r} is not UTF-8: line {line}, byte {error.start} is 0x{value:02X}. Save it as UTF-8'
        ) from error


def _check(labels: Sequence[str], places: Sequence[str], path: str, where: str = '') -> None:
    """Raises `DataError` that names the place of a label that no alphabet can have, and `where` it is twice."""
    name = f'the alphabet {path!r}' if path else 'the alphabet'
    if not labels:
        raise DataError(f'{name} has no labels: it needs one character a line')
    if len(labels) > MAX_LABELS:
        raise DataError(f'{name} has {len(labels)} labels; the most an exported model can carry is {MAX_LABELS}')
    first: dict[str, str] = {}
    for label, place in zip(labels, places, strict=True):
        if label in first:
            what = describe_character(label) if len(label) == 1 else repr(label)
            raise DataError(f'{name} has {what} twice{where}, at {first[label]} and {place}. Leave one of them out')
        first[label] = place
        if not label:
            raise DataError(f'{name} has an empty label at {place}')
        if len(label) > 1 and any(character.isspace() for character in label):
            raise DataError(
                f'{name} has white space in the label {label!r} at {place}: one character a line, nothing else'
            )
        if len(label.encode()) > MAX_LABEL_BYTES:
            raise DataError(
                f'{name} has a label of {len(label.encode())} bytes at {place}; the most is {MAX_LABEL_BYTES}'
            )

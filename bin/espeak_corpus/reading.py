"""Text files that a user names."""

from __future__ import annotations

from pathlib import Path

from deepspeech_training.errors import DataError


def read_text(path: str) -> str:
    """The text of a UTF-8 file, without a byte order mark. Raises `DataError`."""
    try:
        return Path(path).read_text(encoding='utf-8-sig')
    except OSError as error:
        raise DataError(f'{path}: cannot be read: {error.strerror}') from error
    except UnicodeDecodeError as error:
        raise DataError(f'{path}: not UTF-8: byte {error.start} is 0x{error.object[error.start]:02x}') from error

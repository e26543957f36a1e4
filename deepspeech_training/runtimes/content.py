"""What a file or folder is, by its content: names are the user's."""

from __future__ import annotations

import mmap
import os
import re
from collections.abc import Iterator
from enum import Enum

from deepspeech_training.errors import ModelError

CHECKPOINT_FILES = ('checkpoint', 'best_dev_checkpoint')
CHECKPOINT_SUFFIXES = ('.index', '.data-00000-of-00001', '.json')
"""Names in a folder of checkpoints. (`checkpoints` has them, too, and loads TensorFlow.)"""

SAVED_MODEL = 'saved_model.pb'

TFLITE_MAGIC = b'TFL3'  # at byte 4
ZIP_MAGIC = b'PK\x03\x04'
SCORER_MAGIC = b'mmap lm http://kheafield.com/code'

VARINT, FIXED_64, BYTES, FIXED_32 = 0, 1, 2, 5
"""How a field of a protocol buffer is written."""

GRAPH_DEF = {1: BYTES, 2: BYTES, 3: VARINT, 4: BYTES, 5: BYTES}
"""Fields of TensorFlow's `GraphDef`: nodes, functions, versions, debug information."""

ONNX_MODEL = {
    **{1: VARINT, 2: BYTES, 3: BYTES, 4: BYTES, 5: VARINT, 6: BYTES},
    **{7: BYTES, 8: BYTES, 14: BYTES, 20: BYTES, 25: BYTES, 26: BYTES},
}
"""Fields of ONNX's `ModelProto`; 7 is the graph."""


class Content(Enum):
    """Kinds of models that can be opened."""

    CHECKPOINT = 'checkpoint'
    FROZEN = 'frozen graph'
    TFLITE = 'TFLite model'
    SAVED_MODEL = 'SavedModel'
    ONNX = 'ONNX model'


def recognise(path: str) -> tuple[Content, str]:
    """What `path` is, and the path to open it by.

    Of a checkpoint it may be the folder, the path without suffix or one of the files; of a SavedModel its folder, that
    of all its versions (the newest is taken), or the file in it.

    Raises `ModelError` for what is no model, for files that are cut off, and for paths that cannot be read.
    """
    if os.path.isdir(path):
        return _recognise_folder(path)
    if not os.path.exists(path) and os.path.exists(path + CHECKPOINT_SUFFIXES[0]):
        return Content.CHECKPOINT, path
    for suffix in CHECKPOINT_SUFFIXES:
        stem = path.removesuffix(suffix)
        if stem != path and os.path.exists(stem + CHECKPOINT_SUFFIXES[0]):
            return Content.CHECKPOINT, stem
    try:
        with open(path, 'rb') as file:
            if os.fstat(file.fileno()).st_size == 0:
                raise ModelError(f'{path}: is empty (0 bytes)')
            with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
                return _recognise_file(path, content)
    except OSError as error:
        raise ModelError(f'{path}: cannot be read: {error.strerror}') from None


def _recognise_folder(path: str) -> tuple[Content, str]:
    try:
        names = sorted(os.listdir(path))
    except OSError as error:
        raise ModelError(f'{path}: cannot be read: {error.strerror}') from None
    if SAVED_MODEL in names:
        return Content.SAVED_MODEL, path
    if any(name in names for name in CHECKPOINT_FILES):
        return Content.CHECKPOINT, path
    versions = sorted((int(name) for name in names if re.fullmatch(r'\d+', name)), reverse=True)
    for version in map(str, versions):  # as TensorFlow Serving and Triton lay models out
        for inner in ('', 'model.savedmodel', 'model.onnx'):
            found = os.path.join(path, version, inner) if inner else os.path.join(path, version)
            if os.path.exists(os.path.join(found, SAVED_MODEL)):
                return Content.SAVED_MODEL, found
            if inner.endswith('.onnx') and os.path.exists(found):
                return Content.ONNX, found
    models = [name for name in names if name.endswith(('.pb', '.tflite', '.onnx'))]
    hint = f'; name the model in it: {", ".join(models)}' if models else ''
    raise ModelError(f'{path}: is a folder without a checkpoint or SavedModel{hint}')


def _recognise_file(path: str, content: mmap.mmap) -> tuple[Content, str]:
    if content[4:8] == TFLITE_MAGIC:
        return Content.TFLITE, path
    if content[:4] == ZIP_MAGIC:
        raise ModelError(f'{path}: is a ZIP archive; unpack it and name the model in it')
    if content[: len(SCORER_MAGIC)] == SCORER_MAGIC:
        raise ModelError(f'{path}: is a scorer (language model), not an acoustic model')
    try:
        fields = list(_fields(content))
    except EOFError:
        fields = list(_fields(content, to_the_end=False))
        if len(fields) > 3 and (_are(fields, GRAPH_DEF) or _are(fields, ONNX_MODEL)):
            raise ModelError(f'{path}: is cut off or damaged; copy or export it again') from None
        fields = []
    except ValueError:
        fields = []
    if (1, VARINT) in fields and os.path.basename(path) == SAVED_MODEL:
        return Content.SAVED_MODEL, os.path.dirname(path) or '.'
    if (7, BYTES) in fields and _are(fields, ONNX_MODEL):
        return Content.ONNX, path
    if (1, BYTES) in fields and _are(fields, GRAPH_DEF):
        return Content.FROZEN, path
    raise ModelError(
        f'{path}: is no model: neither a frozen TensorFlow graph (.pb) nor a TFLite or ONNX model, '
        'nor of a checkpoint or SavedModel'
    )


def _are(fields: list[tuple[int, int]], known: dict[int, int]) -> bool:
    return all(known.get(number) == kind for number, kind in fields)


def _fields(content: mmap.mmap, to_the_end: bool = True) -> Iterator[tuple[int, int]]:
    """Number and way of writing of the outermost fields of a protocol buffer.

    Raises `ValueError` for bytes that are none, and `EOFError` where one ends too early, unless not `to_the_end`.
    """
    position = 0
    while position < len(content):
        try:
            tag, position = _varint(content, position)
            number, kind = tag >> 3, tag & 7
            if kind == VARINT:
                _, position = _varint(content, position)
            elif kind == BYTES:
                length, position = _varint(content, position)
                position += length
            elif kind in (FIXED_32, FIXED_64):
                position += 4 if kind == FIXED_32 else 8
            else:
                raise ValueError(f'no protocol buffer has {kind} at byte {position}')
            if position > len(content):
                raise EOFError
        except EOFError:
            if to_the_end:
                raise
            return
        yield number, kind


def _varint(content: mmap.mmap, position: int) -> tuple[int, int]:
    """The number at `position`, and the position behind it."""
    value = 0
    for shift in range(0, 70, 7):
        if position >= len(content):
            raise EOFError
        byte = content[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if not byte & 0x80:
            return value, position
    raise ValueError('a number of more than 64 bits')

"""What a model heard in test sets, kept in a file: computed once for all trials and starts.

The file has the log-probabilities of all utterances one after the other, float32, then JSON that describes them, then
the length of the JSON in 8 bytes.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from deepspeech_training import log, storage
from deepspeech_training.data.manifest import Sample
from deepspeech_training.errors import DataError, UserError
from deepspeech_training.evaluation.running import model_outputs
from deepspeech_training.runtimes import Runtime

LENGTH = struct.Struct('<q')
BLOCK = 1 << 20  # bytes read at a time


@dataclass(frozen=True)
class Outputs:
    """The file `path`: utterances of `frames` each, with what was said. `failed`: recordings that cannot be read."""

    path: str
    frames: Sequence[int]
    transcripts: Sequence[str]
    labels: int
    failed: int = 0

    def __len__(self) -> int:
        return len(self.frames)

    def log_probabilities(self) -> list[npt.NDArray[np.float32]]:
        """`[frames, labels]` of each utterance, mapped into memory: processes share it."""
        shape = (sum(self.frames), self.labels)
        table = np.memmap(self.path, np.float32, 'r', shape=shape)
        return np.split(table, np.cumsum(self.frames)[:-1])


def key_of(model: Runtime, sets: Mapping[str, Sequence[Sample]], channel: int) -> str:
    """A digest of all that the model's output depends on: its files, the recordings' names and sizes, transcripts."""
    hashed = hashlib.sha256()
    for path in files_of(model.path):
        hashed.update(digest_of(path))
    hashed.update(json.dumps([asdict(model.info.features), channel]).encode())
    for sample in (sample for rows in sets.values() for sample in rows):
        with contextlib.suppress(OSError):
            hashed.update(f'{os.stat(sample.path).st_mtime_ns}'.encode())
        hashed.update(f'{sample.path}\0{sample.size}\0{sample.transcript}\n'.encode('utf-8', 'surrogateescape'))
    return hashed.hexdigest()


def files_of(path: str) -> list[str]:
    """Those of a model: a file, a folder, or what a checkpoint's path is the beginning of."""
    if os.path.isfile(path):
        return [path]
    if os.path.isdir(path):
        return sorted(os.path.join(folder, name) for folder, _, names in os.walk(path) for name in names)
    folder, start = os.path.split(path)
    names = sorted(name for name in os.listdir(folder or os.curdir) if name.startswith(f'{start}.'))
    return [os.path.join(folder, name) for name in names]


def digest_of(path: str, *, skip: slice = slice(0, 0)) -> bytes:
    """SHA-256 of a file, with zeros in place of the bytes `skip`."""
    hashed, place = hashlib.sha256(), 0
    with open(path, 'rb') as file:
        while block := bytearray(file.read(BLOCK)):
            for position in range(max(skip.start, place), min(skip.stop, place + len(block))):
                block[position - place] = 0
            hashed.update(block)
            place += len(block)
    return hashed.digest()


def kept_outputs(path: str, key: str) -> Outputs | None:
    """What was kept at `path` for `key`; None where there is nothing, or something else."""
    try:
        with open(path, 'rb') as file:
            file.seek(-LENGTH.size, os.SEEK_END)
            end = file.tell()
            (length,) = LENGTH.unpack(file.read())
            file.seek(end - length)
            document = json.loads(file.read(length))
        outputs = Outputs(path, *(document[name] for name in ('frames', 'transcripts', 'labels', 'failed')))
        whole = sum(outputs.frames) * outputs.labels * 4 == end - length
        return outputs if whole and document['key'] == key and outputs.frames else None
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError, struct.error):
        log.warn(f'{path}: is damaged; what the model hears is computed again')
        return None


def compute_outputs(
    path: str, key: str, model: Runtime, sets: Mapping[str, Sequence[Sample]], channel: int, advance: Callable[[], None]
) -> Outputs:
    """Computes and keeps them, all or none. Raises `UserError` where there is none, or `path` cannot be written."""
    total = sum(map(len, sets.values()))

    def outputs() -> Iterator[tuple[str, np.ndarray]]:
        for (_, sample), logits in model_outputs(model, sets, advance, channel):
            yield sample.transcript, logits
            advance()

    try:
        os.makedirs(os.path.dirname(path) or os.curdir, exist_ok=True)
        with storage.written_whole(path) as unfinished, open(unfinished, 'xb') as file:
            document = _write_all(file, outputs())
            if not document['frames']:
                raise DataError('none of the recordings can be read')
            document |= {'failed': total - len(document['frames']), 'key': key}
            content = json.dumps(document).encode()
            file.write(content + LENGTH.pack(len(content)))
    except OSError as error:
        raise UserError(f'{path}: cannot be written: {error.strerror or error}') from None
    found = kept_outputs(path, key)
    assert found is not None
    return found


def _write_all(file: IO[bytes], outputs: Iterable[tuple[str, np.ndarray]]) -> dict[str, Any]:
    frames, transcripts, labels = [], [], 0
    for transcript, logits in outputs:
        labels = logits.shape[1]
        frames.append(len(logits))
        transcripts.append(transcript)
        file.write(np.ascontiguousarray(logits, np.float32).tobytes())
    return {'frames': frames, 'transcripts': transcripts, 'labels': labels}

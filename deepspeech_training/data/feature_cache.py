"""Features kept on disk: computed once, read by every epoch, run and rank that has the same audio and settings.

    FOLDER/*.audio                 which content each audio file has (`contents`)
    FOLDER/SETTINGS/settings.json  what was computed, and how
    FOLDER/SETTINGS/*.index        where the features of which content are (`journal`)
    FOLDER/SETTINGS/*.features     MFCCs, float32 [frames, 26], one after another

Features are read into memory of the reader's own, not mapped: a damaged disk or a file that was cut off is an error
that can be dealt with then, not the end of the process, and it takes less time. Nothing is read without its checksum
being compared, so that it does not matter in which order the system brings to disk what was written.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import tempfile
import threading
import time
import zlib
from collections.abc import Mapping
from importlib import metadata
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import soundfile

from deepspeech_training import log, storage
from deepspeech_training.config import N_INPUT, DataConfig, FeatureConfig
from deepspeech_training.data.contents import HASH_SIZE, ContentMemory
from deepspeech_training.data.journal import CHECKSUM, KEY, Descriptor, Journal, RowIndex, append_whole
from deepspeech_training.data.sources import Source

FEATURE_VERSION = 2
"""To be raised when the same audio and settings give other features; `tests/data/test_feature_cache.py` tells."""
FORMAT_VERSION = 1  # of the files

ROW = np.dtype(
    [
        (KEY, f'V{HASH_SIZE}'),  # the content of the audio file
        ('offset', '<u8'),  # bytes
        ('samples', '<u8'),  # of the audio, at the model's sample rate
        ('frames', '<u4'),
        ('payload_crc', '<u4'),
        ('file', '<u4'),  # in memory only: which file
        (CHECKSUM, '<u4'),
    ]
)
SETTINGS = 'settings.json'
INDEX_SUFFIX, DATA_SUFFIX = '.index', '.features'
TITLE = b'DeepSpeech features 1\n'
TAG_FILE, TAG = 'CACHEDIR.TAG', b'Signature: 8a477f597d28d172789f06886806bc55\n'  # tells backups to leave it out
FRAME_BYTES = 4 * N_INPUT
OPEN_FILES = 32
REFRESH_SECONDS = 1.0  # at most so often is it looked for what others have computed
REHEARSAL_BYTES = 1 << 16
RESERVE_SHARE, RESERVE_BYTES = 0.05, 1 << 30
"""The cache leaves free the smaller of these on a disk: checkpoints may be on it."""


class CachedFeatures(NamedTuple):
    """What is kept of one utterance."""

    mfccs: npt.NDArray[np.float32]  # [frames, N_INPUT]
    samples: int  # of the audio, at the model's sample rate


def feature_settings(features: FeatureConfig, tensorflow: str, augmentation: str = '') -> dict[str, str]:
    """Everything beside the bytes of an audio file that its features depend on.

    `tensorflow`: its version. `augmentation`: what was done to the audio or the features, with all parameters and what
    its random numbers came from; '' for nothing.
    """
    packages = ('numpy', 'soundfile', 'soxr', 'python_speech_features')
    return {
        'format': str(FORMAT_VERSION),
        'feature_version': str(FEATURE_VERSION),
        'audio_sample_rate': str(features.sample_rate),
        'feature_win_len': str(features.window_ms),
        'feature_win_step': str(features.step_ms),
        'feature_backend': features.backend,
        'normalize_sample_rate': str(features.normalize_sample_rate).lower(),
        'audio_channel': str(features.channel),
        'augmentation': augmentation,
        'tensorflow': tensorflow,
        **{package: metadata.version(package) for package in packages},
        'libsndfile': soundfile.__libsndfile_version__,
    }


def epoch_of_random_numbers(epoch: int, data: DataConfig) -> int:
    """Which epoch's random numbers augment the features that `epoch` trains on.

    Without a cache its own; with one those of the epoch in which the features were computed, which is every
    `data.cache_for_epochs`-th one, or only the first. It does not depend on what is in the cache.
    """
    if not data.feature_cache:
        return epoch
    return epoch - epoch % data.cache_for_epochs if data.cache_for_epochs > 0 else 0


class FeatureCache:
    """The features of one group of settings in `folder`, for all threads of a process.

    A cache that cannot be written is used as far as it can be read, with a warning. Nothing raises but what is wrong
    with the audio files themselves.
    """

    def __init__(self, folder: str, settings: Mapping[str, str], contents: ContentMemory | None = None) -> None:
        """`contents`: what is known of audio files already, to be shared by several caches of one folder."""
        self.folder = folder
        self.path = os.path.join(folder, settings_folder(settings))
        self.found, self.stored = 0, 0  # utterances, since it was opened
        self.contents = contents or ContentMemory(folder)
        self._journal = Journal(self.path, INDEX_SUFFIX, ROW, TITLE)
        self._index = RowIndex(ROW)
        self._waiting: dict[str, np.ndarray] = {}  # rows by file of features, which does not have these yet
        self._files: list[str] = []  # of features, by number
        self._open: dict[str, Descriptor] = {}  # the last used at the end
        self._data: Descriptor | None = None  # of this process
        self._lock = threading.Lock()
        self._writable = True
        self._warned: set[str] = set()
        self._looked = 0.0
        try:
            self._make(settings)
        except OSError as error:
            self._give_up(error)
        self.refresh()

    def __len__(self) -> int:
        """About how many utterances it has."""
        return len(self._index)

    def _make(self, settings: Mapping[str, str]) -> None:
        """Folders, and a rehearsal of writing."""
        os.makedirs(self.folder, exist_ok=True)
        if not os.listdir(self.folder):  # in a folder with other things, the tag would keep these from backups too
            storage.write_whole(os.path.join(self.folder, TAG_FILE), TAG)
        os.makedirs(self.path, exist_ok=True)
        if not os.path.exists(os.path.join(self.path, SETTINGS)):
            storage.write_whole(os.path.join(self.path, SETTINGS), json.dumps(settings, indent=1).encode())
        os.utime(os.path.join(self.path, SETTINGS))  # when it was last used
        with tempfile.TemporaryFile(dir=self.path, buffering=0) as file:
            file.write(bytes(REHEARSAL_BYTES))
        self._check_room(REHEARSAL_BYTES)

    def refresh(self) -> None:
        """Takes up what other processes have written."""
        self.contents.refresh()
        with self._lock:
            self._read_index()

    def _read_index(self) -> None:
        """Adds the rows whose features are there; on network file systems they may come later than the rows."""
        first, self._looked = not self._looked, time.monotonic()
        for path, rows in self._journal.read_new():
            data = path.removesuffix(INDEX_SUFFIX) + DATA_SUFFIX
            self._waiting[data] = np.concatenate([self._waiting.get(data, rows[:0]), rows])
        for data, rows in list(self._waiting.items()):
            try:
                size = os.stat(data).st_size
            except OSError:
                size = 0
            there = rows['offset'] + rows['frames'].astype(np.uint64) * np.uint64(FRAME_BYTES) <= size
            whole, self._waiting[data] = rows[there], rows[~there]
            whole['file'] = self._number(data)
            self._index.add(whole)
            if not len(self._waiting[data]):
                del self._waiting[data]
            elif first:
                self._warn(data, f'is cut off: {np.sum(~there)} utterances are computed anew')

    def _number(self, data: str) -> int:
        if data not in self._files:
            self._files.append(data)
        return self._files.index(data)

    def find(self, path: str, source: Source | None = None) -> CachedFeatures | None:
        """The features of audio that did not change since it was last read. Raises `OSError`."""
        content = self.contents.recall(path, source)
        return None if content is None else self.find_content(content)

    def read(self, path: str, source: Source | None = None) -> tuple[bytes, bytes]:
        """The hash of an audio file's content and the content, to be computed from and stored.

        Raises `OSError` and `DataError` as `ContentMemory.read` does.
        """
        return self.contents.read(path, source)

    def find_content(self, content: bytes) -> CachedFeatures | None:
        """The features of an audio file with this content, of which `content` is the hash."""
        with self._lock:
            row = self._index.get(content)
            if row is None and time.monotonic() - self._looked > REFRESH_SECONDS:
                self._read_index()
                row = self._index.get(content)
        while row is not None:
            data = self._files[int(row['file'])]
            features = self._read(data, row)
            with self._lock:
                if features is not None:
                    self.found += 1
                    return features
                self._index.remove(content)
                row = self._index.get(content)
        return None

    def _read(self, data: str, row: np.ndarray) -> CachedFeatures | None:
        """What a row says is in a file; None, with a warning, where it is not."""
        try:
            mfccs = read_mfccs(self._descriptor(data), row)
        except EOFError:
            self._warn(data, 'is cut off: what is missing is computed anew')
        except ValueError:
            self._warn(data, 'is damaged: what is wrong in it is computed anew')
            self._journal.erase(data.removesuffix(DATA_SUFFIX) + INDEX_SUFFIX, row)
        except OSError as error:
            self._warn(data, f'cannot be read: {error.strerror}; what is in it is computed anew')
        else:
            return CachedFeatures(mfccs, int(row['samples']))
        return None

    def _descriptor(self, data: str) -> Descriptor:
        with self._lock:
            found = self._open.pop(data, None) or Descriptor(data, os.O_RDONLY)
            self._open[data] = found
            if len(self._open) > OPEN_FILES:
                del self._open[next(iter(self._open))]
            return found

    def store(self, content: bytes, mfccs: npt.NDArray[np.float32], samples: int) -> None:
        """Keeps the features `[frames, N_INPUT]` of the audio file that has this content."""
        with self._lock:
            if not self._writable or self._index.get(content) is not None:
                return
            try:
                self._append(content, np.ascontiguousarray(mfccs, '<f4'), samples)
            except OSError as error:
                self._give_up(error)
            else:
                self.stored += 1

    def _append(self, content: bytes, mfccs: npt.NDArray[np.float32], samples: int) -> None:
        self._check_room(mfccs.nbytes)
        path = self._journal.open().removesuffix(INDEX_SUFFIX) + DATA_SUFFIX
        if self._data is None:
            self._data = Descriptor(path, os.O_RDWR | os.O_CREAT | os.O_APPEND)
        row = np.zeros([], ROW)
        row[KEY], row['samples'], row['frames'] = content, samples, len(mfccs)
        row['payload_crc'] = _checksum(row, mfccs)
        row['offset'] = append_whole(self._data, mfccs.data.cast('B'))
        self._journal.append(row)
        row['file'] = self._number(path)
        self._index.add(row.reshape(1))

    def _check_room(self, size: int) -> None:
        """Raises `OSError` where the disk would be filled."""
        disk = os.statvfs(self.path)
        reserve = min(RESERVE_SHARE * disk.f_blocks * disk.f_frsize, RESERVE_BYTES)
        free = disk.f_bavail * disk.f_frsize - size
        if disk.f_blocks and free < reserve:
            raise OSError(errno.ENOSPC, f'the disk has less than {reserve / 1e6:.3g} MB left')

    def _give_up(self, error: OSError) -> None:
        self._writable = False
        log.warn(
            f'--feature_cache={self.folder}: cannot be written: {error.strerror}. What is in it is used, and no more '
            'is added'
        )

    def _warn(self, data: str, message: str) -> None:
        if data not in self._warned:
            self._warned.add(data)
            log.warn(f'{data}: {message}')


def settings_folder(settings: Mapping[str, str]) -> str:
    """The name of the folder for features of these settings."""
    return hashlib.blake2b(json.dumps(settings, sort_keys=True).encode(), digest_size=8).hexdigest()


def read_mfccs(file: Descriptor, row: np.ndarray) -> npt.NDArray[np.float32]:
    """The features `[frames, N_INPUT]` that a row of the index tells of.

    Raises:
      EOFError: the file ends before them.
      ValueError: their checksum is wrong.
      OSError: they cannot be read.
    """
    mfccs = np.empty([int(row['frames']), N_INPUT], '<f4')
    if os.preadv(file.fileno(), [mfccs.data], int(row['offset'])) != mfccs.nbytes:
        raise EOFError
    if _checksum(row, mfccs) != row['payload_crc']:
        raise ValueError
    return mfccs


def _checksum(row: np.ndarray, mfccs: npt.NDArray[np.float32]) -> int:
    """CRC-32 of the features, and of what they are of."""
    head = row[KEY].tobytes() + row['samples'].tobytes() + row['frames'].tobytes()
    return zlib.crc32(mfccs.data, zlib.crc32(head))

"""What an importer says about its corpus."""

from __future__ import annotations

import fnmatch
import gzip
import os
import re
import zlib
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from deepspeech_training.errors import DataError

GZIP_MAGIC = b'\x1f\x8b'


@dataclass(frozen=True, slots=True)
class Utterance:
    """One utterance of a corpus, before its transcript is cleaned and its audio is looked at."""

    name: str  # of its own, as a path without suffix: what its audio is called after the import
    audio: str  # path of the audio file
    transcript: str
    source: str  # where the transcript stands, as in 'train.tsv:12'
    split: str = ''  # the corpus's own; '' where one is to be chosen
    speaker: str = ''  # '' where it is not known
    start: float = 0.0  # seconds; where the utterance is in its file
    end: float | None = None  # seconds; None: the end of the file


@dataclass(frozen=True)
class Download:
    """An archive that can be downloaded."""

    url: str
    size: int = 0  # bytes, 0 where it is not known
    checksum: str = ''  # as in 'md5:...' or 'sha256:...'; '' where none is known

    @property
    def name(self) -> str:
        """The file's name."""
        return PurePosixPath(self.url.partition('?')[0]).name


class Tree:
    """The files of one or several folders, seen as one."""

    def __init__(self, roots: Sequence[Path], without: Sequence[Path] = ()) -> None:
        """Folders in `without` are not entered, nor are those whose names begin with a dot."""
        self.roots = tuple(roots)
        self._root_set = set(roots)
        self._without = {os.path.realpath(path) for path in without}

    def find(self, pattern: str) -> Iterator[Path]:
        """The files whose last parts match `pattern`, as in `*/etc/PROMPTS`, in the order of their names."""
        is_named = re.compile(fnmatch.translate(PurePosixPath(pattern).name)).match  # a folder may have millions
        for root in self.roots:
            for parent, folders, names in os.walk(root):
                folders[:] = sorted(name for name in folders if self._is_entered(os.path.join(parent, name)))
                for name in sorted(name for name in names if is_named(name) and name[0] != '.'):
                    path = Path(parent, name)
                    if path.match(pattern):
                        yield path

    def _is_entered(self, path: str) -> bool:
        name = os.path.basename(path)
        return not (name.startswith('.') or name == '__MACOSX' or os.path.realpath(path) in self._without)

    def inside(self, path: Path) -> str:
        """A path below its root, without suffix: a name for an utterance."""
        root = next((parent for parent in path.parents if parent in self._root_set), None)
        return (path.relative_to(root) if root else path).with_suffix('').as_posix()


def no_arguments(parser: ArgumentParser) -> None:
    """Of a corpus that needs no arguments of its own."""


def no_downloads(args: Namespace) -> Sequence[Download]:
    """Of a corpus that cannot be downloaded by a program."""
    return ()


@dataclass(frozen=True)
class Corpus:
    """Where the audio and the transcripts of a corpus are."""

    name: str
    layout: str  # what an archive of it has: said when one has not
    source: str  # where people get it; '' where it is their own
    read: Callable[[Tree, Namespace], Iterable[Utterance]]
    downloads: Callable[[Namespace], Sequence[Download]] = no_downloads
    add_arguments: Callable[[ArgumentParser], None] = no_arguments
    splits: tuple[str, ...] = ()  # imported unless --splits says otherwise; () for all
    nested: str = ''  # pattern of archives in the archive
    is_cut: bool = False  # whether utterances are pieces of longer files


def read_lines(path: Path, fallback: str = '') -> Iterator[tuple[str, str]]:
    """The lines of a text that are not blank, without white space around them, and where each is (`PATH:12`).

    Raises `DataError` for what cannot be read, and for what is not UTF-8 unless there is a `fallback` encoding.
    """
    for number, line in enumerate(re.split('\r\n|\r|\n', read_text(path, fallback)), start=1):
        if line.strip():
            yield line.strip(), f'{path}:{number}'


def read_text(path: Path, fallback: str = '') -> str:
    """A text in UTF-8, with or without byte order mark, perhaps packed by gzip. Raises `DataError` as `read_lines`."""
    try:
        content = path.read_bytes()
        if content.startswith(GZIP_MAGIC):
            content = gzip.decompress(content)
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f'{path}: cannot be read: {getattr(error, "strerror", None) or error}') from error
    try:
        return content.decode('utf-8-sig')
    except UnicodeDecodeError as error:
        if fallback:
            return content.decode(fallback)
        line = content.count(b'\n', 0, error.start) + 1
        raise DataError(f'{path}:{line}: is not UTF-8: byte {error.start} is 0x{content[error.start]:02X}') from error

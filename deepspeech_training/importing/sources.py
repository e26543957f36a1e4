"""From what the user has, or can download, to a corpus that lies open."""

from __future__ import annotations

import fcntl
import json
from argparse import Namespace
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from deepspeech_training import log
from deepspeech_training.errors import DataError
from deepspeech_training.importing.archives import is_archive, unpack
from deepspeech_training.importing.corpus import Corpus, Download, Tree
from deepspeech_training.importing.download import fetch

UNPACKED = 'unpacked'
AUDIO = 'converted'
"""Folders in that of the import: unpacked archives, each in one of its own name, and the audio that is made."""

COMPLETE = '.complete'
LOCK = '.import.lock'
SHOWN = 5  # names of what is in a folder that is not the corpus


def audio_folder(folder: Path, channel: int) -> Path:
    """Where converted audio goes. `channel`: 0 where all are mixed."""
    return folder / (f'{AUDIO}-channel-{channel}' if channel else AUDIO)


def open_corpus(corpus: Corpus, args: Namespace, folder: Path) -> Tree:
    """The files of the corpus: of `args.archive` (archives, or folders), else of `folder`, else downloaded.

    Raises `DataError` for what is not there, cannot be unpacked or downloaded, or is another corpus.
    """
    opener = _Opener(corpus, args, folder)
    tree = opener.given() if args.archive else opener.found()
    if corpus.nested and not opener.has_corpus(tree):
        inner = [opener.unpacked(path) for path in tree.find(corpus.nested)]
        tree = opener.tree([*tree.roots, *inner])
    if not opener.has_corpus(tree):
        names = [str(path) for path in args.archive] or [str(folder)]
        raise DataError(f'{", ".join(names)}: is no {corpus.name}: it has no {corpus.layout}. {_contents(tree)}')
    return tree


class _Opener:
    def __init__(self, corpus: Corpus, args: Namespace, folder: Path) -> None:
        self._corpus = corpus
        self._args = args
        self._folder = folder
        self._show = not args.noshow_progressbar

    def tree(self, roots: Sequence[Path]) -> Tree:
        return Tree(roots, without=(*self._folder.glob(f'{AUDIO}*'), self._folder / UNPACKED))

    def has_corpus(self, tree: Tree) -> bool:
        return next(iter(self._corpus.read(tree, self._args)), None) is not None

    def given(self) -> Tree:
        """What the user names: folders as they are, or with archives in them, and archives."""
        roots, folders = [], []
        for path in self._args.archive:
            if path.is_dir():
                folders.append(path)
                roots.append(path)
            elif path.exists():
                roots.append(self.unpacked(path))
            else:
                raise DataError(f'--archive={path}: is not there')
        tree = self.tree(roots)
        if folders and not self.has_corpus(tree):
            inner = [path for root in folders for path in sorted(root.iterdir()) if path.is_file()]
            tree = self.tree([*roots, *(self.unpacked(path) for path in inner if is_archive(path))])
        return tree

    def found(self) -> Tree:
        """What lies in the folder of the import, or can be downloaded."""
        tree = self.tree([self._folder])
        if self.has_corpus(tree):
            log.info(f'{self._folder} has {self._corpus.name} already; --archive imports another one')
            return tree
        downloads = self._corpus.downloads(self._args)
        if not self._corpus.source:
            raise DataError(f'{self._folder}: has no {self._corpus.layout}. --archive names what is elsewhere')
        if not downloads:
            raise DataError(
                f'{self._corpus.name} cannot be downloaded by a program. Get it from {self._corpus.source} and name '
                'the archive, or the folder it is unpacked in, with --archive'
            )
        return self.tree(list(dict.fromkeys(self._downloaded(download) for download in downloads)))

    def _downloaded(self, download: Download) -> Path:
        if (self._place(download.name) / COMPLETE).exists():
            return self._place(download.name)  # the archive may have been removed since
        try:
            path = fetch(download, self._folder, show_progress=self._show)
        except DataError as error:
            raise DataError(
                f'{error}\nWithout a network here, get it elsewhere ({self._corpus.source}) and name the archive, or '
                'the folder it is unpacked in, with --archive'
            ) from error
        return self.unpacked(path) if is_archive(path) else path.parent

    def _place(self, name: str) -> Path:
        return self._folder / UNPACKED / name

    def unpacked(self, archive: Path) -> Path:
        """The folder of what is in an archive; unpacked if it is not yet, or the archive is another one."""
        place = self._place(archive.name)
        status = archive.stat()
        version = {'size': status.st_size, 'mtime': status.st_mtime_ns}
        note = place / COMPLETE
        try:
            if json.loads(note.read_text()) == version:
                return place
        except (OSError, ValueError):
            pass
        unpack(archive, place, show_progress=self._show)
        try:
            place.mkdir(parents=True, exist_ok=True)
            note.write_text(json.dumps(version))
        except OSError as error:
            raise DataError(f'{note}: cannot be written: {error.strerror}') from error
        return place


def _contents(tree: Tree) -> str:
    names = sorted(
        {path.name for root in tree.roots if root.is_dir() for path in root.iterdir() if path.name[0] != '.'}
    )
    if not names:
        return 'It is empty'
    return f'It has {", ".join(names[:SHOWN])}{f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""}'


@contextmanager
def import_lock(folder: Path) -> Iterator[None]:
    """Makes the folder of the import, which only one program may fill at a time. Raises `DataError`."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        file = open(folder / LOCK, 'ab')  # noqa: SIM115 - closed below
    except FileExistsError:
        raise DataError(f'{folder}: is a file; name a folder') from None
    except OSError as error:
        raise DataError(f'{folder}: cannot be written: {error.strerror}') from error
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise DataError(f'{folder}: another import is writing to this folder; wait for it to end') from None
        except OSError as error:
            log.debug(f'{folder}: no locks here: {error}')
        yield

"""Folders elsewhere (gs://, s3://, hdfs://, ...) with a local copy that the program works on.

The copy is made before the work begins. What was written is uploaded when it is complete: first the files, then those
that name them, then what is gone here is removed there. Whatever interrupts that, the files that name others there name
complete ones.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import re
import tempfile
import uuid
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Any

from deepspeech_training import log, storage

NOTE = '.mirror.json'
"""What was in both folders when they were last alike: by name, the status there and the signature here."""
UNFINISHED = re.compile(r'\.[0-9a-f]{32}\.tmp$')
ATOMIC = ('memory', 's3', 's3a', 'gs', 'gcs', 'abfs', 'abfss', 'az')
"""Where an object appears as a whole or not at all; elsewhere it is renamed when it is complete."""


class Mirror:
    """The folder at `address`, and `folder`, its copy. `wanted` says which names belong to it."""

    def __init__(self, address: str, folder: str, wanted: Callable[[str], bool]) -> None:
        self.address = address.rstrip('/')
        self.folder = folder
        self._wanted = wanted
        self._note = os.path.join(folder, NOTE)
        self._alike: dict[str, list[list[int]]] = {}
        with contextlib.suppress(OSError, ValueError):
            with open(self._note, encoding='utf-8') as file:
                found = json.load(file)
            if isinstance(found, dict) and found.get('address') == self.address:
                self._alike = found['files']

    def rehearse(self) -> None:
        """Writes and removes a file there, and removes what an interrupted upload has left. Raises `OSError`."""
        name = f'{self.address}/.rehearsal-{uuid.uuid4().hex}'
        with storage.translated(self.address):
            system, inside = storage.file_system(name)
            system.makedirs(system._parent(inside), exist_ok=True)
            system.pipe_file(inside, b'')
            system.rm_file(inside)
            for path in system.find(system._parent(inside)):
                left = UNFINISHED.search(path)
                if left and self._wanted(path[: left.start()].removeprefix(system._parent(inside) + '/')):
                    system.rm_file(path)

    def pull(self) -> None:
        """Makes the copy what is there. Raises `OSError`."""
        os.makedirs(self.folder, exist_ok=True)
        there = self._list()
        for name in self._names_here():
            if name not in there:
                os.unlink(os.path.join(self.folder, name))
        for name, status in there.items():
            here = os.path.join(self.folder, name)
            if os.path.isfile(here) and self._alike.get(name) == [list(status), _signature(here)]:
                continue
            os.makedirs(os.path.dirname(here), exist_ok=True)
            with storage.written_whole(here) as unfinished:
                self._download(name, unfinished)
            self._alike[name] = [list(status), _signature(here)]
        self._alike = {name: known for name, known in self._alike.items() if name in there}
        self._remember()

    def push(self, last: Sequence[str] = ()) -> None:
        """Uploads what has changed here, the files `last` at the end in that order. Raises `OSError`."""
        names = self._names_here()
        order = {name: number for number, name in enumerate(last, start=1)}
        for name in sorted(names, key=lambda name: (order.get(name, 0), name)):
            here = os.path.join(self.folder, name)
            signature = _signature(here)
            if name in self._alike and self._alike[name][1] == signature:
                continue
            self._upload(here, f'{self.address}/{name}')
            self._alike[name] = [list(storage.status(f'{self.address}/{name}')), signature]
        for name in set(self._alike) - set(names):
            with storage.translated(self.address):
                system, inside = storage.file_system(f'{self.address}/{name}')
                with contextlib.suppress(FileNotFoundError):
                    system.rm_file(inside)
            del self._alike[name]
        self._remember()

    def _names_here(self) -> list[str]:
        found = [
            os.path.relpath(os.path.join(folder, name), self.folder)
            for folder, _, names in os.walk(self.folder)
            for name in names
        ]
        return [name for name in found if name != NOTE and not name.endswith('.tmp') and self._wanted(name)]

    def _list(self) -> dict[str, storage.Status]:
        """The files there by their names below the folder. Raises `OSError`."""
        with storage.translated(self.address):
            system, inside = storage.file_system(self.address)
            system.invalidate_cache()
            if not system.exists(inside):
                return {}
            infos: dict[str, dict[str, Any]] = system.find(inside, detail=True)
        prefix = inside.rstrip('/') + '/'
        names = {path.removeprefix(prefix): info for path, info in infos.items()}
        return {name: storage.status_of(info) for name, info in names.items() if self._wanted(name)}

    def _download(self, name: str, target: str) -> None:
        with storage.translated(f'{self.address}/{name}'):
            system, inside = storage.file_system(f'{self.address}/{name}')
            system.get_file(inside, target)

    def _upload(self, here: str, address: str) -> None:
        if address.split('://')[0] in ATOMIC:
            storage.upload(here, address)
            return
        unfinished = f'{address}.{uuid.uuid4().hex}.tmp'
        storage.upload(here, unfinished)
        with storage.translated(address):
            system, inside = storage.file_system(address)
            system.mv(storage.file_system(unfinished)[1], inside)

    def _remember(self) -> None:
        content = json.dumps({'address': self.address, 'files': self._alike})
        storage.write_whole(self._note, content.encode())


def _signature(path: str) -> list[int]:
    status = os.stat(path)
    return [status.st_size, status.st_mtime_ns]


def local_folder(kind: str, address: str, opened: ExitStack, *, shared: bool = False) -> str:
    """Where the copy of a folder elsewhere is, of files of some `kind`: in the user's folder for caches.

    One process has it at a time. Another process of the same folder gets a temporary one, which is removed with
    `opened`. `shared`: of a job of several processes on this host, the first one has the folder, and this one looks at
    it.
    """
    digest = hashlib.sha256(address.rstrip('/').encode()).hexdigest()[:16]
    folder = os.path.join(storage.cache_folder('mirrors'), f'{kind}-{digest}')
    if shared:
        return folder
    os.makedirs(folder, exist_ok=True)
    lock = opened.enter_context(open(f'{folder}.lock', 'ab'))  # noqa: SIM115 - closed with `opened`
    try:
        fcntl.flock(lock.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        log.debug(f'{folder}: another process uses it')
        return opened.enter_context(tempfile.TemporaryDirectory(prefix='deepspeech_training-'))
    except OSError:  # no locks on this file system
        pass
    return folder

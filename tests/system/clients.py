"""The programs that exports are for, installed as their users install them: old Python, package from PyPI.

They live in virtual environments in the user's cache directory, one per client, made once.
"""

from __future__ import annotations

import fcntl
import glob
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

SCRIPTS = Path(__file__).parent


@dataclass(frozen=True)
class Client:
    """One program that runs exported models."""

    requirement: str  # for pip
    python: str  # version
    script: str  # in this folder; takes a JSON object on standard input and prints one
    beside: tuple[str, ...] = ()  # requirements that its own do not say


DEEPSPEECH = Client('deepspeech==0.9.3', '3.7', 'deepspeech_client.py')
DEEPSPEECH_TFLITE = Client('deepspeech-tflite==0.9.3', '3.7', 'deepspeech_client.py')
COQUI = Client('stt==1.4.0', '3.8', 'deepspeech_client.py')
LITERT = Client('ai-edge-litert==2.3.0', f'{sys.version_info.major}.{sys.version_info.minor}', 'litert_client.py')
TENSORFLOW_1 = Client('tensorflow==1.15.5', '3.7', 'tensorflow_1_client.py', ('protobuf<3.21', 'numpy<1.19'))


@dataclass(frozen=True)
class Answer:
    """What a client said."""

    result: dict[str, Any]
    errors: str  # standard error


def require(client: Client) -> str:
    """The interpreter that has `client`, which is installed if need be; skips the test where that cannot be."""
    folder = cache('clients') / f'{client.requirement.replace("==", "-")}-python{client.python}'
    with made_once(folder) as missing:
        if missing:
            _install(client, folder)
    return str(folder / 'bin' / 'python')


def ask(client: Client, question: dict[str, Any]) -> Answer:
    """Runs the client's script on `question`."""
    done = subprocess.run(
        [require(client), str(SCRIPTS / client.script)],
        input=json.dumps(question),
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return Answer(json.loads(done.stdout.splitlines()[-1]), done.stderr)


def cache(kind: str) -> Path:
    """Where things are kept that take long to make, outside the checkout."""
    return Path(os.environ.get('XDG_CACHE_HOME') or Path.home() / '.cache') / 'deepspeech-training' / kind


@contextmanager
def made_once(folder: Path) -> Iterator[bool]:
    """Whether what belongs into `folder` is missing; the body makes it then, while other processes wait."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with (folder.parent / f'{folder.name}.lock').open('w') as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        missing = not (folder / 'complete').exists()
        if missing:
            shutil.rmtree(folder, ignore_errors=True)
        yield missing
        if missing:
            (folder / 'complete').touch()


def _install(client: Client, folder: Path) -> None:
    interpreter = find_python(client.python)
    if interpreter is None:
        pytest.skip(f'{client.requirement} needs Python {client.python}, which is neither in PATH nor in pyenv')
    for command in (
        [interpreter, '-m', 'venv', str(folder)],
        [str(folder / 'bin' / 'python'), '-m', 'pip', 'install', '--quiet', client.requirement, *client.beside],
    ):
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            reason = (done.stderr or done.stdout).strip().splitlines()[-1:]
            pytest.skip(f'{client.requirement} cannot be installed: {" ".join(reason)}')


def find_python(version: str) -> str | None:
    """The interpreter of a version, like '3.7'; None where there is none."""
    root = os.environ.get('PYENV_ROOT') or str(Path.home() / '.pyenv')
    candidates = [*sorted(glob.glob(f'{root}/versions/{version}.*/bin/python')), shutil.which(f'python{version}')]
    for candidate in candidates:
        # pyenv's shims are in PATH for versions that are not active, too, and then do not run.
        if candidate and subprocess.run([candidate, '-c', ''], capture_output=True, check=False).returncode == 0:
            return candidate
    return None

"""Jobs of several processes, by the `horovodrun` of this Python."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

needs_horovod = pytest.mark.skipif(
    importlib.util.find_spec('horovod') is None, reason='Horovod is not installed: bin/install_horovod.sh builds it'
)


def horovodrun() -> str:
    """The `horovodrun` of this Python."""
    found = shutil.which('horovodrun', path=f'{Path(sys.executable).parent}{os.pathsep}{os.environ.get("PATH", "")}')
    assert found, 'horovod can be imported, but there is no horovodrun'
    return found


def job_command(ranks: int, command: Sequence[str], *flags: str) -> list[str]:
    """`command` in `ranks` processes that talk over Gloo; `flags` are those of `horovodrun`."""
    return [horovodrun(), '--gloo', '-np', str(ranks), *flags, *command]


def run_job(
    ranks: int,
    command: Sequence[str],
    *,
    folder: Path | None = None,
    environment: Mapping[str, str] | None = None,
    timeout: float = 300,
) -> subprocess.CompletedProcess[str]:
    """Runs `command` in `ranks` processes to the end."""
    return run_alone(job_command(ranks, command), folder=folder, environment=environment, timeout=timeout)


def run_alone(
    command: Sequence[str],
    *,
    folder: Path | None = None,
    environment: Mapping[str, str] | None = None,
    timeout: float = 300,
) -> subprocess.CompletedProcess[str]:
    """Runs `command` to the end, in the environment that the processes of a job have."""
    return subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
        cwd=folder,
        env=job_environment(environment or {}),
    )


def job_environment(changes: Mapping[str, str]) -> dict[str, str]:
    """That of this process without its own wish for TensorFlow's messages, with `changes`."""
    return {name: value for name, value in os.environ.items() if name != 'TF_CPP_MIN_LOG_LEVEL'} | dict(changes)


@contextmanager
def started(command: Sequence[str], **more: Any) -> Iterator[subprocess.Popen[str]]:
    """`command` in a session of its own, as a terminal starts it; nothing of it is left afterwards."""
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True, **more
    )
    try:
        yield process
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def processes_with(variable: str, value: str) -> dict[int, dict[str, str]]:
    """The processes with this environment variable: their numbers and environments."""
    found = {}
    for path in Path('/proc').glob('[0-9]*/environ'):
        try:
            content = path.read_bytes().decode(errors='replace')
        except OSError:  # it has ended, or is not ours
            continue
        environment = dict(line.partition('=')[::2] for line in content.split('\0') if line)
        if environment.get(variable) == value:
            found[int(path.parent.name)] = environment
    return found


def lines_of(rank: int, text: str) -> list[str]:
    """What a rank wrote, from what `horovodrun` passed on."""
    return re.findall(rf'^\[{rank}\]<std(?:out|err)>:(.*)$', text, re.MULTILINE)

"""How this process was started: alone, or as one rank of a job of several, which a launcher tells by the environment.

Known before TensorFlow and Horovod are loaded, so that errors in flags already say whose they are.
"""

from __future__ import annotations

import os
import select
import signal
import socket
import sys
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass

VARIABLES = (
    # rank, size, local rank; a launcher that was started by another one counts
    ('HOROVOD_RANK', 'HOROVOD_SIZE', 'HOROVOD_LOCAL_RANK'),  # horovodrun
    ('OMPI_COMM_WORLD_RANK', 'OMPI_COMM_WORLD_SIZE', 'OMPI_COMM_WORLD_LOCAL_RANK'),  # mpirun of Open MPI
    ('PMI_RANK', 'PMI_SIZE', 'MPI_LOCALRANKID'),  # mpiexec of MPICH and Intel MPI
    ('SLURM_PROCID', 'SLURM_STEP_NUM_TASKS', 'SLURM_LOCALID'),  # srun; the batch script itself has no step
)


@dataclass(frozen=True)
class Launch:
    """Process `rank` of `size`, number `local_rank` on `host`; `variable` told so, '' where nothing did."""

    rank: int = 0
    size: int = 1
    local_rank: int = 0
    host: str = ''
    variable: str = ''

    @property
    def of_several(self) -> bool:
        return self.size > 1

    @property
    def is_chief(self) -> bool:
        return self.rank == 0

    def __str__(self) -> str:
        return f'rank {self.rank} of {self.size} on {self.host}'


def find_launch(environment: Mapping[str, str] | None = None) -> Launch:
    """What the launcher said in `environment`, by default that of this process."""
    environment = os.environ if environment is None else environment
    for rank_name, size_name, local_name in VARIABLES:
        try:
            rank, size = int(environment[rank_name]), int(environment[size_name])
            local_rank = int(environment.get(local_name, '0'))
        except (KeyError, ValueError):
            continue
        host = environment.get('HOROVOD_HOSTNAME', '')
        return Launch(rank, size, local_rank, host if host != 'localhost' and host else socket.gethostname(), size_name)
    return Launch(host=socket.gethostname())


def end_with_launcher(seconds: float = 30.0) -> None:
    """Sends SIGTERM to this process when nobody reads its standard error any more; ends it `seconds` later.

    A launcher that ends, or loses its connection, cannot end what it started on other hosts through ssh.
    """
    try:
        descriptor = sys.stderr.fileno()
    except (AttributeError, OSError, ValueError):  # there is none, or it is no file
        return
    threading.Thread(target=_end_when_closed, args=(descriptor, seconds), name='launcher', daemon=True).start()


def _end_when_closed(descriptor: int, seconds: float) -> None:
    watched = select.poll()
    watched.register(descriptor, 0)  # errors and hang-ups are always told
    watched.poll()
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(seconds)  # for a checkpoint
    os._exit(128 + signal.SIGTERM)  # it may wait for other ranks, or be far from the end of a dev set

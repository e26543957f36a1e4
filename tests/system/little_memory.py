"""DeepSpeech.py in a process that gets little more memory once the model has its weights.

little_memory.py MEGABYTES FLAG...
"""

from __future__ import annotations

import os
import resource
import sys

import tensorflow as tf

from deepspeech_training import cli
from deepspeech_training.parallel.hybrid import HybridStrategy


def allow(megabytes: int) -> None:
    """Lets the process have so much more address space than now."""
    with open('/proc/self/statm') as file:
        pages = int(file.read().split()[0])
    limit = pages * os.sysconf('SC_PAGE_SIZE') + megabytes * 2**20
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


def main() -> int:
    megabytes = int(sys.argv[1])
    ready = HybridStrategy.after_restore

    def ready_and_full(self: HybridStrategy, session: tf.compat.v1.Session) -> None:
        ready(self, session)
        allow(megabytes)

    HybridStrategy.after_restore = ready_and_full  # type: ignore[method-assign]
    return cli.main(sys.argv[2:])


if __name__ == '__main__':
    sys.exit(main())

"""How the tools in `bin/` end."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable

from deepspeech_training import log
from deepspeech_training.errors import UserError

EXIT_NOBODY_READS = 1
EXIT_SOME_FAILED = 1  # of the recordings, of which the others are done
EXIT_INTERRUPTED = 130  # what a shell reports for a program that SIGINT ended


def exit_status(work: Callable[[], int | None], interrupted: str = 'Interrupted') -> int:
    """Does the work of a program; returns its exit status.

    That is what `work` returns, or 0; that of a `UserError`, which is told in place of a traceback; 130 when
    interrupted, where `interrupted` is told; 1 where standard output is a pipe whose reader is gone.
    """
    try:
        return work() or 0
    except UserError as error:
        log.error(str(error))
        return error.exit_status
    except KeyboardInterrupt:
        log.error(interrupted)
        return EXIT_INTERRUPTED
    except BrokenPipeError:
        sys.stdout = open(os.devnull, 'w')  # noqa: SIM115 - Python flushes it at exit
        return EXIT_NOBODY_READS

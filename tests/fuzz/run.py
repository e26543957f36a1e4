"""Feeds wrong inputs of one kind: `python -m tests.fuzz.run KIND FIRST_SEED COUNT FOLDER`.

A process of its own, for libraries written in C may bring it down or not come back. Each case has a folder, which is
left behind with what is in it when the case fails; the file `seed` says which case it is at.
"""

from __future__ import annotations

import faulthandler
import os
import random
import shutil
import sys
import traceback
import warnings
from pathlib import Path

from deepspeech_training import log
from tests.fuzz.kinds import KINDS

CASE_SECONDS = 60  # of the clock, on a busy machine
FAILED = 1


def main() -> int:
    """Runs the cases; returns the exit status."""
    kind, first, count, folder = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), Path(sys.argv[4])
    log.setup(3)
    os.environ['XDG_CACHE_HOME'] = str(folder / 'caches')
    warnings.simplefilter('error')
    for seed in range(first, first + count):
        (folder / 'seed').write_text(str(seed))
        here = folder / str(seed)
        here.mkdir(parents=True)
        faulthandler.dump_traceback_later(CASE_SECONDS, exit=True)
        try:
            KINDS[kind](random.Random(f'{kind} {seed}'), here)
        except Exception:
            traceback.print_exc()
            return FAILED
        finally:
            faulthandler.cancel_dump_traceback_later()
        shutil.rmtree(here)
    return 0


if __name__ == '__main__':
    sys.exit(main())

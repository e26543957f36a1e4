#!/usr/bin/env python
"""Trains, tests, exports and uses a speech recognition model; `--help` shows all flags."""

from __future__ import annotations

import sys

from deepspeech_training.cli import main

if __name__ == '__main__':
    sys.exit(main())

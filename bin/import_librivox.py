#!/usr/bin/env python3
"""Imports LibriSpeech, under the name that the importer has in DeepSpeech: see import_librispeech.py."""

from __future__ import annotations

import sys

from import_librispeech import CORPUS, __doc__, run

if __name__ == '__main__':
    sys.exit(run(CORPUS, __doc__))

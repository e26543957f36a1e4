#!/usr/bin/env python
"""Writes `doc/flags.md` from the table of flags."""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from deepspeech_training.flags.help import markdown  # noqa: E402 - found through the line above

if __name__ == '__main__':
    (ROOT / 'doc').mkdir(exist_ok=True)
    (ROOT / 'doc' / 'flags.md').write_text(markdown(), encoding='utf-8')

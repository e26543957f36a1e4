#!/usr/bin/env python3
"""Shows what is in a feature cache: for which settings, how much, whether it is whole; removes what is obsolete.

    python bin/feature_cache_info.py my-cache
    python bin/feature_cache_info.py my-cache --check
    python bin/feature_cache_info.py my-cache --prune --unused_days 30

Ends with status 0, with 1 when `--check` finds damage, and with 2 when the folder is no feature cache.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from deepspeech_training import log
from deepspeech_training.data.feature_cache import (
    DATA_SUFFIX,
    FEATURE_VERSION,
    FORMAT_VERSION,
    INDEX_SUFFIX,
    ROW,
    SETTINGS,
    TAG_FILE,
    TITLE,
    read_mfccs,
)
from deepspeech_training.data.journal import Descriptor, Journal

DAY = 86400  # seconds


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the program; returns its exit status."""
    args = build_parser().parse_args(arguments)
    log.setup(1)
    try:
        folders = sorted(path for path in args.folder.iterdir() if path.is_dir() and is_ours(path))
    except OSError as error:
        log.error(f'{args.folder}: cannot be read: {error.strerror}')
        return 2
    if not folders and not (args.folder / TAG_FILE).is_file():
        log.error(f'{args.folder}: is no feature cache')
        return 2
    described = [describe(path, check=args.check) for path in folders]
    if args.json:
        print(json.dumps(described, ensure_ascii=False, indent=1))
    else:
        print('\n\n'.join(map(as_text, described)) or f'{args.folder}: nothing is in it yet')
    if args.prune:
        for facts in described:
            if facts['obsolete'] or (args.unused_days is not None and facts['unused_days'] >= args.unused_days):
                remove(Path(facts['path']))
                log.info(f'Removed {facts["path"]} ({facts["bytes"] / 1e6:.1f} MB)')
    return 1 if any(facts['damaged'] for facts in described) else 0


def build_parser() -> argparse.ArgumentParser:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument('folder', type=Path, help='a --feature_cache')
    parser.add_argument('--check', action='store_true', help='read everything, and compare the checksums')
    parser.add_argument('--json', action='store_true', help='as JSON, for programs')
    parser.add_argument('--prune', action='store_true', help='remove what no run of this version can use')
    parser.add_argument(
        '--unused_days', type=float, metavar='N', help='with --prune: also what no run has opened for N days'
    )
    return parser


def is_ours(folder: Path) -> bool:
    """Whether a folder has the name, and nothing but the files, that a feature cache gives."""
    names = [path.name for path in folder.iterdir()]
    known = all(name.startswith(SETTINGS) or name.endswith((INDEX_SUFFIX, DATA_SUFFIX)) for name in names)
    return known and re.fullmatch('[0-9a-f]{16}', folder.name) is not None


def describe(folder: Path, *, check: bool) -> dict[str, Any]:
    """What is known of the features of one group of settings, as JSON values; `damaged` is None without `check`."""
    try:
        settings = json.loads((folder / SETTINGS).read_text(encoding='utf-8'))
        used = (folder / SETTINGS).stat().st_mtime
    except (OSError, ValueError):
        settings, used = {}, 0.0
    versions = (settings.get('format'), settings.get('feature_version'))
    keys, frames, damaged = set(), 0, 0
    for index, rows in Journal(str(folder), INDEX_SUFFIX, ROW, TITLE).read_new():
        for number in range(len(rows)):
            row = rows[number : number + 1].reshape(())
            if row['key'].tobytes() not in keys:
                keys.add(row['key'].tobytes())
                frames += int(row['frames'])
            damaged += check and not is_whole(index.removesuffix(INDEX_SUFFIX) + DATA_SUFFIX, row)
    return {
        'path': str(folder),
        'settings': settings,
        'obsolete': versions != (str(FORMAT_VERSION), str(FEATURE_VERSION)),
        'unused_days': round(max(0.0, time.time() - used) / DAY, 2),
        'utterances': len(keys),
        'frames': frames,
        'files': len(list(folder.glob(f'*{DATA_SUFFIX}'))),
        'bytes': sum(path.stat().st_size for path in folder.iterdir()),
        'damaged': damaged if check else None,
    }


def is_whole(path: str, row: np.ndarray) -> bool:
    """Whether the features that a row tells of can be read from the file `path`."""
    try:
        read_mfccs(Descriptor(path, os.O_RDONLY), row)
    except (OSError, EOFError, ValueError):
        return False
    return True


def as_text(facts: dict[str, Any]) -> str:
    """A few lines for one group of settings."""
    lines = [f'{facts["path"]}  ({facts["bytes"] / 1e6:.1f} MB in {facts["files"]} files of features)']
    settings = facts['settings']
    step = int(settings.get('feature_win_step', 0))
    hours = f', {facts["frames"] * step / 3.6e6:.2f} hours' if step else ''
    lines.append(f'  {facts["utterances"]:,} utterances{hours}; last opened {facts["unused_days"]:.1f} days ago')
    lines.append('  ' + ', '.join(f'{name} {value}' for name, value in settings.items() if value) if settings else '')
    if facts['obsolete']:
        lines.append('  obsolete: no run of this version can use it')
    if facts['damaged'] is not None:
        lines.append(f'  {facts["damaged"]} damaged: computed anew when used' if facts['damaged'] else '  whole')
    return '\n'.join(filter(None, lines))


def remove(folder: Path) -> None:
    """Removes the features of one group of settings. A run that is using them computes them itself from then on."""
    for path in folder.iterdir():
        path.unlink(missing_ok=True)
    folder.rmdir()


if __name__ == '__main__':
    sys.exit(main())

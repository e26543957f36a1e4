"""The table as text for the terminal and as a page of the documentation."""

from __future__ import annotations

import shutil
import textwrap
from collections.abc import Iterator

from deepspeech_training.flags.spec import Flag
from deepspeech_training.flags.table import GROUPS

INTRODUCTION = """Trains, tests, exports and uses a DeepSpeech speech recognition model.

  DeepSpeech.py --train_files train.csv --dev_files dev.csv --test_files test.csv --checkpoint_dir checkpoints
  DeepSpeech.py --checkpoint_dir checkpoints --one_shot_infer file.wav
  DeepSpeech.py --checkpoint_dir checkpoints --export_dir model

It trains if there are --train_files, tests if there are --test_files, exports if there is an --export_dir and
transcribes a --one_shot_infer, in this order. --name=value and --name value are the same; boolean flags are
written --name and --noname. --flagfile FILE reads flags from a file, one a line. -h, -? and --help
show this text."""


def help_text(width: int | None = None) -> str:
    """All flags with their defaults, for a terminal of `width` columns (asked from the terminal when None)."""
    columns = min(width or shutil.get_terminal_size((100, 24)).columns, 120)
    parts = [INTRODUCTION]
    for group in GROUPS:
        lines = [f'{group.title}:']
        for flag in group.flags:
            lines.append(f'  {flag.usage()}')
            default = flag.default_text()
            text = f'{flag.description()} (default: {default})' if default else flag.description()
            lines += textwrap.wrap(text, columns, initial_indent=' ' * 6, subsequent_indent=' ' * 6)
        parts.append('\n'.join(lines))
    return '\n\n'.join(parts) + '\n'


def markdown() -> str:
    """`doc/flags.md`."""
    return '\n'.join(_markdown_lines()) + '\n'


def _markdown_lines() -> Iterator[str]:
    yield '# Flags'
    yield ''
    yield '<!-- Written by bin/make_flag_doc.py from deepspeech_training/flags: change the table there. -->'
    yield ''
    yield 'All flags of `DeepSpeech.py`, as `--help` shows them. `--name=value` and `--name value` are the same;'
    yield 'boolean flags are written `--name` and `--noname`. `--flagfile FILE` reads flags from a file: one a line,'
    yield 'lines that begin with `#` are comments, and what stands later on the command line wins.'
    for group in GROUPS:
        yield ''
        yield f'## {group.title}'
        yield ''
        yield '| flag | default | |'
        yield '| --- | --- | --- |'
        for flag in group.flags:
            yield _markdown_row(flag)


def _markdown_row(flag: Flag) -> str:
    default = f'`{flag.default_text()}`' if flag.default_text() else ''
    usage, text = (part.replace('|', '\\|') for part in (flag.usage(), flag.description()))
    return f'| `{usage}` | {default} | {text} |'

#!/usr/bin/env python3
"""Shows what the checkpoints in a folder are: where the training was, what the model is, whether the files are whole.

    python bin/checkpoint_info.py my-model/checkpoints

Ends with status 0 when the newest last and the best checkpoint are whole, 1 when one of them is damaged, and 2 when
there is none.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
os.environ.setdefault('TF_CPP_MIN_LOG_LEVEL', '3')  # its messages are not about checkpoints

from deepspeech_training import log
from deepspeech_training.checkpoints.folder import BEST, LAST, Found, named_checkpoints, read_state, what_is_wrong
from deepspeech_training.checkpoints.tensors import SUFFIXES, read_shapes
from deepspeech_training.errors import CheckpointError
from deepspeech_training.flags.table import FLAGS
from deepspeech_training.text.byte_alphabet import BYTE_NAMES, BYTES_OUTPUT_FLAG
from deepspeech_training.validation import DROPOUT_FLAGS

DROPOUT = 'model.dropout'
COMBINED = {
    'checkpoints.load_dir': 'load_checkpoint_dir',
    'checkpoints.save_dir': 'save_checkpoint_dir',
    'checkpoints.copy_to': 'save_checkpoint_dir',
    'export.copy_to': 'export_dir',
    'export.scorer': 'scorer_path',
    'model.compute_type': 'mixed_precision_type',
    'report.summary_dir': 'summary_dir',
}
"""Attributes of `Config` that several flags decide on, and the flag that says the same; beside `DROPOUT`."""

FIGURES = {
    'train_loss': 'train loss',
    'dev_loss': 'dev loss',
    'best_loss': 'best loss',
    'dev_wer': 'dev WER',
    'best_wer': 'best WER',
}
"""Of the run's state, and what they are called."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the program; returns its exit status."""
    args = build_parser().parse_args(arguments)
    log.setup(2)
    try:
        found = [each for kind in (LAST, BEST) for each in named_checkpoints(args.folder, kind)]
    except CheckpointError as error:
        log.error(str(error))
        return 2
    if not found:
        log.error(f'{args.folder}: there is no checkpoint in this folder')
        return 2
    described = [describe(each) for each in found]
    if args.json:
        print(json.dumps(described, ensure_ascii=False, indent=1))
    else:
        print('\n\n'.join(as_text(each) for each in described))
    newest = {each['series']: each for each in reversed(described)}  # the first of each series
    return 1 if any(each['problem'] for each in newest.values()) else 0


def build_parser() -> argparse.ArgumentParser:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument('folder', help='a --checkpoint_dir')
    parser.add_argument('--json', action='store_true', help='as JSON, for programs')
    return parser


def describe(found: Found) -> dict[str, Any]:
    """Everything that is known of a checkpoint, as JSON values; what is not known is None."""
    problem = what_is_wrong(found)
    facts: dict[str, Any] = {'path': found.path, 'series': found.kind.prefix, 'step': found.step, 'problem': problem}
    files = [found.path + suffix for suffix in SUFFIXES]
    facts['bytes'] = sum(os.path.getsize(path) for path in files if os.path.exists(path))
    try:
        state = read_state(found) or {}
        facts |= of_run(state)
        facts |= of_model(found.path, state)
    except CheckpointError as error:
        facts['problem'] = problem or str(error)
    return facts


def of_run(state: dict[str, Any]) -> dict[str, Any]:
    """Where the run was, and the flags that were not at their defaults."""
    run = state.get('run') or {}
    return {
        'written_by': 'this trainer' if state else 'DeepSpeech',
        **{name: run.get(name) for name in ('epoch', 'rows_done', *FIGURES)},
        'flags': flags_of(state.get('settings') or {}),
    }


def flags_of(settings: dict[str, Any]) -> dict[str, Any]:
    """The flags that give these attributes of `Config` their values."""
    flag_of = {flag.to: flag.name for flag in FLAGS.values() if flag.to} | COMBINED
    names = {name: flag_of.get(name, name.rpartition('.')[2]) for name in settings}
    flags = {names[name]: value for name, value in settings.items() if name != DROPOUT}
    return flags | dict(zip(DROPOUT_FLAGS, settings.get(DROPOUT) or (), strict=False))


def of_model(path: str, state: dict[str, Any]) -> dict[str, Any]:
    """Sizes, from the tensors themselves, and what is kept beside them."""
    shapes = read_shapes(path)
    model = state.get('model') or {}
    weights = [name for name in shapes if name.endswith(('/weights', '/kernel', '/bias', '/gamma', '/beta'))]
    return {
        'n_hidden': shapes.get('layer_1/bias', [None])[0],
        'alphabet_size': shapes['layer_6/bias'][0] - 1 if 'layer_6/bias' in shapes else None,
        'alphabet': model.get('alphabet'),
        'features': model.get('features'),
        'layer_norm': any('LayerNorm' in name for name in shapes),
        'parameters': sum(count(shapes[name]) for name in weights),
        'optimizer': any(name.endswith('/Adam') for name in shapes),
        'variables': {name: list(shape) for name, shape in sorted(shapes.items())},
    }


def count(shape: Sequence[int]) -> int:
    """Numbers in a tensor."""
    product = 1
    for size in shape:
        product *= size
    return product


def as_text(facts: dict[str, Any]) -> str:
    """A few lines a checkpoint."""
    lines = [f'{facts["path"]}  ({facts["bytes"] / 1e6:.1f} MB)']
    lines.append(f'  {facts["problem"]}' if facts['problem'] else '  whole')
    if 'written_by' not in facts:
        return '\n'.join(lines)
    where = f'step {facts["step"]}'
    if facts['epoch'] is not None:
        where += f', {facts["epoch"]} epochs done'
        where += f' and {facts["rows_done"]} samples of the next' if facts['rows_done'] else ''
    lines.append(f'  {where}; written by {facts["written_by"]}')
    lines += [f'  {name} {facts[figure]:.4f}' for figure, name in FIGURES.items() if facts[figure] is not None]
    if 'n_hidden' in facts:
        norm = ', layer norm' if facts['layer_norm'] else ''
        slots = 'with' if facts['optimizer'] else 'without'
        lines.append(
            f'  n_hidden {facts["n_hidden"]}, {facts["alphabet_size"]} characters{norm}, {facts["parameters"]:,} '
            f"parameters, {slots} Adam's moments"
        )
    if facts.get('alphabet'):
        of_bytes = tuple(facts['alphabet']) == BYTE_NAMES
        lines.append(f'  alphabet {BYTES_OUTPUT_FLAG if of_bytes else repr("".join(facts["alphabet"]))}')
    if facts.get('features'):
        lines.append('  ' + ' '.join(f'--{name}={value}' for name, value in facts['features'].items()))
    if facts['flags']:
        lines.append('  flags ' + ' '.join(shown(name, value) for name, value in facts['flags'].items()))
    return '\n'.join(lines)


def shown(name: str, value: Any) -> str:
    """A flag as on a command line."""
    if isinstance(value, bool):
        return f'--{name}' if value else f'--no{name}'
    return f'--{name}=' + (','.join(map(str, value)) if isinstance(value, list) else str(value))


if __name__ == '__main__':
    sys.exit(main())

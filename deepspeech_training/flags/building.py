"""From the values of the flags to `Config`."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Sequence
from typing import Any

from deepspeech_training import config as configs
from deepspeech_training.config import Config
from deepspeech_training.errors import FlagError
from deepspeech_training.flags.parsing import ParsedFlags
from deepspeech_training.flags.table import FLAGS
from deepspeech_training.validation import DROPOUT_FLAGS

MOST_WEIGHT = 1000
SIZE_UNITS = ('', 'k', 'm', 'g', 't')

PARTS = {
    'features': configs.FeatureConfig,
    'model': configs.ModelConfig,
    'data': configs.DataConfig,
    'optimizer': configs.OptimizerConfig,
    'schedule': configs.ScheduleConfig,
    'checkpoints': configs.CheckpointConfig,
    'parallel': configs.ParallelConfig,
    'report': configs.ReportConfig,
    'decoding': configs.DecodingConfig,
    'export': configs.ExportConfig,
}


def build_config(parsed: ParsedFlags) -> Config:
    """The run that the flags describe. Whether it makes sense is for `validation.validate` to say.

    Raises `FlagError` for values that do not become a `Config` at all.
    """
    problems: list[str] = []
    values: dict[str, dict[str, Any]] = {part: {} for part in ('', *PARTS)}
    for flag in FLAGS.values():
        value = parsed.values[flag.name]
        try:
            if flag.to:
                part, _, attribute = flag.to.rpartition('.')
                values[part][attribute] = _convert(flag.kind, value)
        except ValueError as error:
            problems.append(f'--{flag.name}={value}: {error}')
    try:
        values['data']['train_weights'] = _train_weights(
            parsed.values['train_weights'],
            values['data'].get('train_files', ()),
            parsed.values['auto_input_dataset'],
        )
        values['decoding'] |= _language_model(parsed)
    except ValueError as error:
        problems.append(str(error))
    if problems:
        raise FlagError('\n'.join(problems))
    if values['export']['zip']:
        values['export']['scorer'] = values['decoding']['scorer_path']
    values['model']['dropout'] = _dropout(parsed.values)
    values['model']['compute_type'] = _compute_type(parsed.values)
    values['checkpoints'] |= _checkpoint_dirs(parsed.values)
    values['report']['summary_dir'] = os.path.expanduser(parsed.values['summary_dir']) or user_data_dir('summaries')
    return Config(**{part: PARTS[part](**values[part]) for part in PARTS}, **values[''])


def without_effect(parsed: ParsedFlags) -> list[str]:
    """A warning for each flag that was set, but does nothing without another flag, or with it."""
    warnings = []
    if parsed.values['bytes_output_mode'] and 'alphabet_config_path' in parsed.given:
        warnings.append('--alphabet_config_path has no effect with --bytes_output_mode')
    for flag in FLAGS.values():
        if flag.name not in parsed.given or parsed.values[flag.name] == flag.default:
            continue
        if flag.tool:
            warnings.append(f'--{flag.name} has no effect here: it is a flag of {flag.tool}')
        if not flag.needs or (
            parsed.values['auto_input_dataset'] and {'train_files', 'dev_files', 'test_files'} & {*flag.needs}
        ):
            continue
        if all(parsed.values[name] == FLAGS[name].default for name in flag.needs):
            needed = ' or '.join(f'--{name}' for name in flag.needs)
            warnings.append(f'--{flag.name} has no effect without {needed}')
    return warnings


def user_data_dir(name: str) -> str:
    """Where data of the user is kept when no flag says where (XDG Base Directory Specification)."""
    home = os.environ.get('XDG_DATA_HOME') or os.path.join(os.path.expanduser('~'), '.local', 'share')
    return os.path.join(home, 'deepspeech_training', name)


def parse_size(text: str) -> int:
    """Bytes: '1MB', '512 kb', '4096'; a KB has 1024 bytes, as in DeepSpeech. Raises `ValueError`."""
    match = re.fullmatch(r'(\d+(?:\.\d+)?)\s*([kmgt]?)(?:i?b)?', text.strip().lower())
    if match is None:
        raise ValueError('must be a number of bytes, or of KB, MB, GB or TB')
    return int(float(match[1]) * 1024 ** SIZE_UNITS.index(match[2]))


def _convert(kind: str, value: Any) -> Any:
    if kind == 'path':
        return os.path.expanduser(value)
    if kind == 'paths':
        return _paths(value)
    if kind == 'multi_string':
        return tuple(value or ())
    return parse_size(value) if kind == 'size' else value


def _paths(text: str) -> tuple[str, ...]:
    if not text:
        return ()
    names = tuple(os.path.expanduser(name.strip()) for name in text.split(','))
    if '' in names:
        raise ValueError('there is an empty name between the commas')
    return names


def _train_weights(text: str, files: Sequence[str], auto_input: str) -> tuple[float, ...]:
    """The weight of each training file; none where no file has one. Raises `ValueError`."""
    weights: dict[str, float] = {}
    if text and auto_input:
        raise ValueError(f'--train_weights={text}: does not fit --auto_input_dataset, which gives one training file')
    for entry in text.split(',') if text and files else ():
        name, _, number = entry.strip().rpartition('=')
        name = os.path.expanduser(name)
        meant = [path for path in files if path == name] or [path for path in files if os.path.basename(path) == name]
        if len(set(meant)) != 1:
            raise ValueError(
                f'--train_weights={text}: {entry.strip()!r} names {"several" if meant else "none"} of the files in '
                f'--train_files: {", ".join(files)}'
            )
        try:
            weight = float(number)
        except ValueError:
            weight = math.nan
        if not 0 < weight <= MOST_WEIGHT:
            raise ValueError(
                f'--train_weights={text}: the weight of {name} is {number!r}; it must be a number above 0 and at most '
                f'{MOST_WEIGHT}'
            )
        if meant[0] in weights:
            raise ValueError(f'--train_weights={text}: {name} has two weights')
        weights[meant[0]] = weight
    return tuple(weights.get(path, 1.0) for path in files) if weights else ()


def _dropout(values: dict[str, Any]) -> tuple[float, ...]:
    rates = [values[name] for name in DROPOUT_FLAGS]
    return tuple(rates[0] if rate == -1 else rate for rate in rates)


def _language_model(parsed: ParsedFlags) -> dict[str, Any]:
    """Weights that were given, hot words. Raises `ValueError`."""
    weights = {name: parsed.values[name] if name in parsed.given else None for name in ('lm_alpha', 'lm_beta')}
    return {**weights, 'hot_words': configs.parse_hot_words(parsed.values['hot_words'])}


def _compute_type(values: dict[str, Any]) -> str:
    return str(values['mixed_precision_type']) if values['automatic_mixed_precision'] else 'float32'


def _checkpoint_dirs(values: dict[str, Any]) -> dict[str, str]:
    common = values['checkpoint_dir'] or user_data_dir('checkpoints')
    return {
        'load_dir': os.path.expanduser(values['load_checkpoint_dir'] or common),
        'save_dir': os.path.expanduser(values['save_checkpoint_dir'] or common),
    }

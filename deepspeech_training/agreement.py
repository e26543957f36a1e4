"""What the ranks of a job have to agree on before they train together: that their data are sound and the same."""

from __future__ import annotations

import hashlib
import zlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any, NoReturn

import numpy as np
import tensorflow as tf

from deepspeech_training import log
from deepspeech_training.config import Config
from deepspeech_training.data.checks import DataSets, check_data
from deepspeech_training.data.manifest import Sample
from deepspeech_training.errors import DataError, FlagError, UserError
from deepspeech_training.parallel.strategy import Strategy
from deepspeech_training.text.alphabet import Alphabet

MAY_DIFFER = frozenset(
    {
        'checkpoints.load_dir',
        'checkpoints.save_dir',
        'checkpoints.copy_to',
        'checkpoints.checkpoint_secs',
        'checkpoints.max_to_keep',
        'data.alphabet_config_path',  # what is in it is compared
        'data.auto_input_dataset',
        'data.train_files',  # so are the rows of all files
        'data.dev_files',
        'data.test_files',
        'data.metrics_files',
        'data.feature_cache',  # results do not depend on it
        'data.process_ahead',
        'data.read_buffer',
        'export',
        'one_shot_infer',
        'parallel.inter_op_threads',
        'parallel.intra_op_threads',
        'parallel.log_placement',
        'parallel.use_allow_growth',
        'report.log_level',
        'report.report_count',
        'report.show_progressbar',
        'report.summary_dir',
        'report.summary_steps',
        'report.test_output_file',
        'report.test_report_file',
    }
)
"""Settings, or groups of them, that each rank may have for itself."""


def check_data_together(strategy: Strategy, config: Config, alphabet: Alphabet, host: str) -> DataSets:
    """`check_data` on each rank, of which those on one host open each audio file once; then compares the ranks.

    Raises:
      DataError: the data of a rank cannot be used, or are not those of the others; rank 0 says what is wrong.
      FlagError: the ranks have different settings.
      JobError: another rank is gone.
    """
    _tell_who_takes_part(strategy, config, host)
    problem, data_sets = '', None
    try:
        data_sets = check_data(
            config.data,
            config.features,
            alphabet,
            save_dir=config.checkpoints.save_dir,
            show_progressbar=config.report.show_progressbar and strategy.is_chief,
        )
    except DataError as error:
        problem = str(error)
    problems = strategy.all_gather(problem)
    if any(problems):
        _end_job(strategy, DataError(_who_says_what(problems)))
    assert data_sets is not None
    _compare_settings(strategy, settings(config, alphabet))
    _compare_rows(strategy, rows_by_name(data_sets))
    return data_sets


def settings(config: Config, alphabet: Alphabet) -> dict[str, str]:
    """Everything that has to be the same on every rank, by its name in `Config`."""
    values: dict[str, str] = {}
    for group, content in asdict(config).items():
        members: Mapping[str, Any] = content if isinstance(content, dict) else {'': content}
        for name, value in members.items():
            full_name = f'{group}.{name}'.rstrip('.')
            if group not in MAY_DIFFER and full_name not in MAY_DIFFER:
                values[full_name] = str(value)
    labels = alphabet.path if alphabet.of_bytes else ' '.join(map(repr, alphabet.labels))
    values['what is in data.alphabet_config_path'] = labels
    values['the version of TensorFlow'] = tf.__version__
    return values


def rows_by_name(data_sets: DataSets) -> dict[str, Sequence[Sample]]:
    """The samples of each part of a run, by what users call it."""
    parts: dict[str, Sequence[Sample]] = {'the training data': data_sets.train}
    for kind, sets in (('dev', data_sets.dev), ('test', data_sets.test), ('metrics', data_sets.metrics)):
        for number, rows in enumerate(sets.values(), start=1):
            parts[f'{kind} file {number}'] = rows
    return parts


def _tell_who_takes_part(strategy: Strategy, config: Config, host: str) -> None:
    if strategy.world_size == 1:
        log.info('Horovod: this process is alone; horovodrun -np N python DeepSpeech.py ... starts N of them')
        return
    hosts = Counter(strategy.all_gather(host))
    named = ', '.join(f'{count} on {name}' for name, count in hosts.items())
    towers = f' of {strategy.towers} towers' if strategy.towers > 1 else ''
    scale = f', learning rate x {strategy.learning_rate_scale:g}' if config.data.train_files else ''
    log.info(f'Horovod: {strategy.world_size} processes{towers} ({named}){scale}')


def _who_says_what(problems: Sequence[str]) -> str:
    """Each problem once, with the ranks that have it where these are not all."""
    told = []
    for problem in dict.fromkeys(filter(None, problems)):
        ranks = [rank for rank, other in enumerate(problems) if other == problem]
        told.append(problem if len(ranks) == len(problems) else f'{_named(ranks)}: {problem}')
    return '\n'.join(told)


def _compare_settings(strategy: Strategy, own: Mapping[str, str]) -> None:
    everyone = strategy.all_gather(dict(own))
    told = []
    for name in own:
        values = [others.get(name, '(none)') for others in everyone]
        if len(set(values)) > 1:
            told.append(f'{name}: {_by_value(values)}')
    if told:
        message = 'the ranks have different settings; start all of them with the same flags and files:\n'
        _end_job(strategy, FlagError(message + '\n'.join(told)))


def _compare_rows(strategy: Strategy, own: Mapping[str, Sequence[Sample]]) -> None:
    checksums = {name: np.array([_checksum(row) for row in rows], np.uint32) for name, rows in own.items()}
    digests = {name: (len(array), hashlib.sha256(array.tobytes()).hexdigest()) for name, array in checksums.items()}
    everyone = strategy.all_gather(digests)
    names = list(dict.fromkeys(name for others in everyone for name in others))
    for name in names:
        found = [others.get(name) for others in everyone]
        if len(set(found)) == 1:
            continue
        counts = _by_value([f'{pair[0]} rows' if pair else 'none' for pair in found])
        message = f'the ranks have different rows in {name} ({counts}): give all hosts the same files'
        place = _first_difference(strategy.all_gather(checksums.get(name, np.empty(0, np.uint32))))
        shown = strategy.all_gather(_shown(own.get(name, ()), place))
        _end_job(strategy, DataError(f'{message}\nsorted row {place + 1}: {_by_value(shown)}'))


def _checksum(row: Sample) -> int:
    return zlib.crc32(f'{row.path}\0{row.size}\0{row.frames}\0{row.transcript}'.encode(errors='surrogateescape'))


def _first_difference(arrays: Sequence[np.ndarray]) -> int:
    """The first position at which not all `arrays` [count] have the same number."""
    shortest = min(map(len, arrays))
    differ = [array[:shortest] != arrays[0][:shortest] for array in arrays]
    places = np.flatnonzero(np.any(differ, axis=0))
    return int(places[0]) if places.size else shortest


def _shown(rows: Sequence[Sample], place: int) -> str:
    if place >= len(rows):
        return 'none'
    row = rows[place]
    return f'{row.path} ({row.size} bytes, {row.transcript!r})'


def _by_value(values: Sequence[str]) -> str:
    """'2 on ranks 0, 1; 4 on rank 2'."""
    return '; '.join(
        f'{value} on {_named([rank for rank, other in enumerate(values) if other == value])}'
        for value in dict.fromkeys(values)
    )


def _named(ranks: Sequence[int]) -> str:
    return f'rank{"s" if len(ranks) > 1 else ""} {", ".join(map(str, ranks))}'


def _end_job(strategy: Strategy, error: UserError) -> NoReturn:
    """All ranks know the `error`; one raises it, and the others a `JobError` when that one has told it and ended."""
    if not strategy.is_chief:
        strategy.all_gather(None)
    raise error

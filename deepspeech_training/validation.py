"""Whether a `Config` makes sense, as far as that can be said without TensorFlow and before any data are read.

Every problem names the flag, its value and what would be allowed; all problems are reported at once.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from operator import attrgetter

from deepspeech_training import config as configs
from deepspeech_training.augment_specs import parse_augmentations
from deepspeech_training.config import LAYERS, LM_ALPHA, LM_BETA, Config
from deepspeech_training.errors import FlagError

MAX_INT32 = 2**31 - 1
DROPOUT_FLAGS = ('dropout_rate', 'dropout_rate2', 'dropout_rate3', 'dropout_rate4', 'dropout_rate5', 'dropout_rate6')


@dataclass(frozen=True)
class Range:
    """What a number may be; `above` and `below` exclude the bound itself."""

    at_least: float | None = None
    at_most: float | None = None
    above: float | None = None
    below: float | None = None

    def allows(self, value: float) -> bool:
        """Whether `value` is finite and within the bounds."""
        return (
            math.isfinite(value)
            and (self.at_least is None or value >= self.at_least)
            and (self.at_most is None or value <= self.at_most)
            and (self.above is None or value > self.above)
            and (self.below is None or value < self.below)
        )

    def __str__(self) -> str:
        bounds = {'at least': self.at_least, 'above': self.above, 'at most': self.at_most, 'below': self.below}
        return ' and '.join(f'{words} {bound:g}' for words, bound in bounds.items() if bound is not None)


COUNT = Range(at_least=1, at_most=MAX_INT32)
COUNT_OR_NONE = Range(at_least=0, at_most=MAX_INT32)
POSITIVE = Range(at_least=1e-37, at_most=1e37)  # what float32 can tell from zero and infinity
SHARE = Range(at_least=0, below=1)

RANGES: dict[str, tuple[str, Range]] = {
    # flag: (attribute of Config, range)
    'audio_sample_rate': ('features.sample_rate', Range(at_least=4000, at_most=384000)),
    'audio_channel': ('features.channel', Range(at_least=0, at_most=255)),
    'feature_win_len': ('features.window_ms', Range(at_least=1, at_most=1000)),
    'feature_win_step': ('features.step_ms', Range(at_least=1, at_most=1000)),
    'n_hidden': ('model.n_hidden', Range(at_least=1, at_most=65536)),
    'relu_clip': ('model.relu_clip', POSITIVE),
    'train_batch_size': ('data.train_batch_size', COUNT),
    'dev_batch_size': ('data.dev_batch_size', COUNT),
    'test_batch_size': ('data.test_batch_size', COUNT),
    'limit_train': ('data.limit_train', COUNT_OR_NONE),
    'limit_dev': ('data.limit_dev', COUNT_OR_NONE),
    'limit_test': ('data.limit_test', COUNT_OR_NONE),
    'train_batch_frames': ('data.train_batch_frames', COUNT_OR_NONE),
    'shuffle_start': ('data.shuffle_start', COUNT_OR_NONE),
    'shuffle_buffer': ('data.shuffle_buffer', COUNT),
    'process_ahead': ('data.process_ahead', COUNT),
    'read_buffer': ('data.read_buffer', COUNT),
    'cache_for_epochs': ('data.cache_for_epochs', Range(at_least=-1, at_most=MAX_INT32)),
    'learning_rate': ('optimizer.learning_rate', POSITIVE),
    'beta1': ('optimizer.beta1', SHARE),
    'beta2': ('optimizer.beta2', SHARE),
    'epsilon': ('optimizer.epsilon', POSITIVE),
    'epochs': ('schedule.epochs', COUNT_OR_NONE),
    'es_epochs': ('schedule.es_epochs', COUNT),
    'es_min_delta': ('schedule.es_min_delta', Range(at_least=0)),
    'plateau_epochs': ('schedule.plateau_epochs', COUNT),
    'plateau_reduction': ('schedule.plateau_reduction', Range(above=0, below=1)),
    'dev_wer_every': ('schedule.dev_wer_every', COUNT_OR_NONE),
    'lr_warmup_steps': ('schedule.lr_warmup_steps', COUNT_OR_NONE),
    'lr_final_fraction': ('schedule.lr_final_fraction', Range(at_least=0, at_most=1)),
    'accumulate_steps': ('parallel.accumulate_steps', COUNT),
    'grad_clip_norm': ('parallel.grad_clip_norm', Range(at_least=0)),
    'max_bad_steps': ('schedule.max_bad_steps', COUNT),
    'checkpoint_secs': ('checkpoints.checkpoint_secs', COUNT_OR_NONE),
    'drop_source_layers': ('checkpoints.drop_source_layers', Range(at_least=0, at_most=5)),
    'freeze_source_layers': ('checkpoints.freeze_source_layers', Range(at_least=0, at_most=5)),
    'unfreeze_at_epoch': ('checkpoints.unfreeze_at_epoch', COUNT_OR_NONE),
    'checkpoint_steps': ('checkpoints.checkpoint_steps', COUNT_OR_NONE),
    'max_to_keep': ('checkpoints.max_to_keep', COUNT),
    'cpu_towers': ('parallel.cpu_towers', Range(at_least=0, at_most=256)),
    'inter_op_parallelism_threads': ('parallel.inter_op_threads', Range(at_least=0, at_most=4096)),
    'intra_op_parallelism_threads': ('parallel.intra_op_threads', Range(at_least=0, at_most=4096)),
    'log_level': ('report.log_level', Range(at_least=0, at_most=3)),
    'summary_steps': ('report.summary_steps', COUNT),
    'report_count': ('report.report_count', COUNT_OR_NONE),
    'beam_width': ('decoding.beam_width', COUNT),
    'cutoff_prob': ('decoding.cutoff_prob', Range(above=0, at_most=1)),
    'cutoff_top_n': ('decoding.cutoff_top_n', COUNT),
    'export_batch_size': ('export.batch_size', COUNT_OR_NONE),
    'n_steps': ('export.n_steps', COUNT),
    'export_beam_width': ('export.beam_width', COUNT),
    'random_seed': ('random_seed', COUNT_OR_NONE),
}

CHOICES: dict[str, tuple[str, tuple[str, ...]]] = {
    # flag: (attribute of Config, allowed values)
    'feature_backend': ('features.backend', configs.FEATURE_BACKENDS),
    'lstm_implementation': ('model.lstm', configs.LSTM_IMPLEMENTATIONS),
    'mixed_precision_type': ('model.compute_type', configs.COMPUTE_TYPES),
    'on_bad_sample': ('data.on_bad_sample', configs.ON_BAD_SAMPLE),
    'unicode_normalization': ('data.unicode_normalization', configs.UNICODE_NORMALIZATIONS),
    'load_train': ('checkpoints.load_train', configs.LOAD_TRAIN),
    'load_evaluate': ('checkpoints.load_evaluate', configs.LOAD_EVALUATE),
    'horovod_lr_scaling': ('parallel.horovod_lr_scaling', configs.LR_SCALINGS),
    'lr_schedule': ('schedule.lr_schedule', configs.LR_SCHEDULES),
    'best_by': ('schedule.best_by', configs.BEST_BY),
    'parallel': ('parallel.parallel', configs.STRATEGIES),
}

FILE_NAMES = {
    # flag: attribute of Config that becomes part of a file's name
    'export_file_name': 'export.file_name',
    'export_author_id': 'export.author_id',
    'export_model_name': 'export.model_name',
    'export_model_version': 'export.model_version',
}


def validate(config: Config) -> None:
    """Raises `FlagError` with everything that is wrong about the values themselves, and how they fit together."""
    problems = [
        *_bad_values(config),
        *_bad_features(config),
        *_bad_combinations(config),
        *_bad_transfer(config),
        *_bad_scorer(config),
        *_bad_report(config),
        *_bad_augmentations(config),
    ]
    if problems:
        raise FlagError('\n'.join(problems))


def validate_for_tool(config: Config) -> None:
    """Raises `FlagError` with what is wrong about values that tools have too; they need none of the files of a run."""
    problems = [*_bad_values(config), *_bad_features(config), *_bad_scorer(config)]
    if problems:
        raise FlagError('\n'.join(problems))


def _bad_values(config: Config) -> Iterator[str]:
    for flag, (attribute, allowed) in RANGES.items():
        yield from _out_of_range(flag, attrgetter(attribute)(config), allowed)
    common = config.model.dropout[0]
    for flag, rate in zip(DROPOUT_FLAGS, config.model.dropout, strict=True):
        if flag == 'dropout_rate' or rate != common:  # the layers that follow --dropout_rate are not named again
            yield from _out_of_range(flag, rate, SHARE)
    for flag, (attribute, choices) in CHOICES.items():
        value = attrgetter(attribute)(config)
        if value not in choices:
            yield f'--{flag}={value}: must be one of {", ".join(choices)}'
    for flag, attribute in FILE_NAMES.items():
        value = attrgetter(attribute)(config)
        if not value or '/' in value or '\0' in value or value in ('.', '..'):
            yield f'--{flag}={value!r}: becomes part of a file name, so it must be a word without slashes'


def _out_of_range(flag: str, value: float, allowed: Range) -> Iterator[str]:
    if not allowed.allows(value):
        yield f'--{flag}={value}: must be {allowed}'


def _bad_features(config: Config) -> Iterator[str]:
    """A window and a step have to be a whole number of audio samples."""
    features = config.features
    for flag, milliseconds in (('feature_win_len', features.window_ms), ('feature_win_step', features.step_ms)):
        if features.sample_rate * milliseconds % 1000:
            yield (
                f'--{flag}={milliseconds}: at --audio_sample_rate={features.sample_rate} that is '
                f'{features.sample_rate * milliseconds / 1000:g} samples; it must be a whole number of them'
            )


def _bad_combinations(config: Config) -> Iterator[str]:
    data, schedule, parallel = config.data, config.schedule, config.parallel
    for flag, is_set in (
        (f'--train_batch_frames={data.train_batch_frames}', data.train_batch_frames > 0),
        ('--bucket_batches', data.bucket_batches),
    ):
        if is_set and data.train_batch_size == 1:
            yield f'{flag}: needs --train_batch_size too, above 1: the most utterances in a batch'
    if data.auto_input_dataset:
        yield from _bad_auto_input(config)
    elif not (data.train_files or data.test_files or config.export.export_dir or config.one_shot_infer):
        needs = ' (--dev_files and --metrics_files need --train_files)' if data.dev_files or data.metrics_files else ''
        yield (
            'nothing to do: give --train_files to train, --test_files to test, --export_dir to export a model or '
            f'--one_shot_infer to transcribe a file{needs}; --help shows all flags'
        )
    if data.train_files and not data.dev_files and not data.auto_input_dataset:
        for flag, is_set in (
            ('early_stop', schedule.early_stop),
            ('reduce_lr_on_plateau', schedule.reduce_lr_on_plateau),
        ):
            if is_set:
                yield f'--{flag}: needs the loss on --dev_files, and there are none'
    dev = data.dev_files or data.auto_input_dataset
    trains = data.train_files or data.auto_input_dataset
    if trains and schedule.best_by == 'wer' and not (schedule.dev_wer_every and dev):
        missing = 'of --dev_wer_every, which is 0' if dev else 'on --dev_files, and there are none'
        yield f'--best_by=wer: needs the word error rate {missing}'
    if schedule.early_stop and schedule.reduce_lr_on_plateau and schedule.plateau_epochs >= schedule.es_epochs:
        yield (
            f'--plateau_epochs={schedule.plateau_epochs}: must be below --es_epochs={schedule.es_epochs}, '
            'or training stops before the learning rate is reduced'
        )
    if parallel.horovod and parallel.parallel != 'hybrid':
        yield (
            f'--parallel={parallel.parallel}: does not fit --horovod, whose processes work together as the towers of '
            'hybrid do; leave out one of them'
        )
    if parallel.train_cudnn and config.model.lstm not in ('auto', 'cudnn'):
        yield f'--train_cudnn: does not fit --lstm_implementation={config.model.lstm}; leave out one of them'
    if parallel.cpu_towers and (parallel.train_cudnn or config.model.lstm == 'cudnn'):
        flag = '--train_cudnn' if parallel.train_cudnn else '--lstm_implementation=cudnn'
        yield f'--cpu_towers={parallel.cpu_towers}: does not fit {flag}, which runs on GPUs only'
    if parallel.cpu_towers and config.model.compute_type == 'float16':
        yield (
            f'--cpu_towers={parallel.cpu_towers}: does not fit --mixed_precision_type=float16, which runs on GPUs '
            'only; --mixed_precision_type=bfloat16 runs on CPUs'
        )


def _bad_report(config: Config) -> Iterator[str]:
    path = config.report.test_report_file
    if path and not path.lower().endswith(configs.REPORT_SUFFIXES):
        yield f'--test_report_file={path}: must end in {" or ".join(configs.REPORT_SUFFIXES)}, which chooses the format'


def _bad_auto_input(config: Config) -> Iterator[str]:
    """It names all files of the run."""
    data = config.data
    for flag, files in (
        ('train_files', data.train_files),
        ('dev_files', data.dev_files),
        ('test_files', data.test_files),
    ):
        if files:
            yield (
                f'--auto_input_dataset={data.auto_input_dataset}: does not fit --{flag}={",".join(files)}: it is split '
                'into these; leave out one of them'
            )


def _bad_scorer(config: Config) -> Iterator[str]:
    """What is about a language model needs one."""
    decoding = config.decoding
    for flag, value, without in (
        ('lm_alpha', decoding.lm_alpha, LM_ALPHA),
        ('lm_beta', decoding.lm_beta, LM_BETA),
    ):
        if value is not None and not math.isfinite(value):
            yield f'--{flag}={value}: must be a number'
        elif value is not None and value != without and not decoding.scorer_path:
            yield f'--{flag}={value}: is about a language model; give --scorer_path too'
    if decoding.hot_words and not decoding.scorer_path:
        words = ','.join(f'{word}:{boost:g}' for word, boost in decoding.hot_words)
        yield f'--hot_words={words}: is about a language model; give --scorer_path too'


def _bad_augmentations(config: Config) -> Iterator[str]:
    try:
        parse_augmentations(config.data.augment)
    except FlagError as error:
        yield str(error)


def _bad_transfer(config: Config) -> Iterator[str]:
    """Layers that keep their weights have to have some that are worth it."""
    checkpoints = config.checkpoints
    frozen, dropped = checkpoints.freeze_source_layers, checkpoints.drop_source_layers
    if checkpoints.unfreeze_at_epoch and not frozen:
        yield (
            f'--unfreeze_at_epoch={checkpoints.unfreeze_at_epoch}: there is nothing to unfreeze; say how many layers '
            'are frozen with --freeze_source_layers'
        )
    if frozen and checkpoints.load_train == 'init':
        yield (
            f'--freeze_source_layers={frozen}: with --load_train=init these layers would keep random weights; '
            'leave out one of them'
        )
    if frozen + dropped > len(LAYERS) and max(frozen, dropped) < len(LAYERS):
        yield (
            f'--freeze_source_layers={frozen}: the first {frozen} of {len(LAYERS)} layers cannot keep their weights '
            f'when --drop_source_layers={dropped} lets the last {dropped} start anew; together they are at most '
            f'{len(LAYERS)}'
        )

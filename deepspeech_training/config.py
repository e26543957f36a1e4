"""What a run is told to do: frozen dataclasses, one a subject.

Each can be made from keyword arguments alone (tests, tools, notebooks) or, by `flags.building`, from flags.
The defaults are DeepSpeech 0.9's. `validation.validate` says whether the values make sense.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any

N_INPUT = 26
"""MFCC coefficients a frame."""

N_CONTEXT = 9
"""Frames of context on each side."""

LAYERS = ('layer_1', 'layer_2', 'layer_3', 'cudnn_lstm', 'layer_5', 'layer_6')
"""The layers, from the input on. The names of a layer's variables begin with its name."""

LM_ALPHA, LM_BETA = 0.931289039105002, 1.1834137581510284
"""Weight of a language model and reward for each word, where it does not bring its own: DeepSpeech's for English."""

FEATURE_BACKENDS = ('tensorflow', 'python_speech_features')
LSTM_IMPLEMENTATIONS = ('auto', 'hoisted', 'block', 'cudnn', 'unrolled')
ON_BAD_SAMPLE = ('error', 'skip')
UNICODE_NORMALIZATIONS = ('NFC', 'NFD', 'none')
LOAD_TRAIN = ('auto', 'last', 'best', 'init')
LOAD_EVALUATE = ('auto', 'last', 'best')
REPORT_SUFFIXES = ('.html', '.csv', '.json')
STRATEGIES = ('hybrid', 'sync', 'async')
LR_SCALINGS = ('linear', 'sqrt', 'none')
LR_SCHEDULES = ('constant', 'cosine')
BEST_BY = ('loss', 'wer')
MIXED_PRECISION_TYPES = ('auto', 'bfloat16', 'float16')
COMPUTE_TYPES = ('float32', *MIXED_PRECISION_TYPES)
"""What can be chosen by name."""


@dataclass(frozen=True)
class FeatureConfig:
    """How audio becomes MFCCs."""

    sample_rate: int = 16000  # Hz
    window_ms: int = 32
    step_ms: int = 20
    backend: str = 'tensorflow'  # one of FEATURE_BACKENDS
    normalize_sample_rate: bool = True  # resample files of another rate; else they are bad samples
    channel: int = 0  # of files with several, counted from 1; 0: their mean

    @property
    def window_samples(self) -> int:
        return self.sample_rate * self.window_ms // 1000

    @property
    def step_samples(self) -> int:
        return self.sample_rate * self.step_ms // 1000

    def frames(self, samples: int) -> int:
        """Number of MFCC frames of `samples` audio samples; 0 when shorter than one window."""
        if samples < self.window_samples:
            return 0
        return 1 + (samples - self.window_samples) // self.step_samples


@dataclass(frozen=True)
class ModelConfig:
    """The acoustic model. `dropout` are the six flags, with -1 already replaced."""

    n_hidden: int = 2048
    layer_norm: bool = False
    relu_clip: float = 20.0
    dropout: tuple[float, float, float, float, float, float] = (0.05, 0.05, 0.05, 0.0, 0.0, 0.05)
    lstm: str = 'auto'  # one of LSTM_IMPLEMENTATIONS; 'auto' chooses by device
    compute_type: str = 'float32'  # of the products, one of COMPUTE_TYPES; 'auto' chooses by device


@dataclass(frozen=True)
class DataConfig:
    """Which samples are used, in which order, in which batches."""

    train_files: tuple[str, ...] = ()
    auto_input_dataset: str = ''  # what to split into the files for training, dev and test
    train_weights: tuple[float, ...] = ()  # of each train file; none: all are 1
    dev_files: tuple[str, ...] = ()
    test_files: tuple[str, ...] = ()
    metrics_files: tuple[str, ...] = ()
    train_batch_size: int = 1  # per tower
    dev_batch_size: int = 1
    test_batch_size: int = 1
    limit_train: int = 0  # samples; 0: all
    limit_dev: int = 0
    limit_test: int = 0
    reverse_train: bool = False
    reverse_dev: bool = False
    reverse_test: bool = False
    shuffle_batches: bool = False
    shuffle_start: int = 1  # first epoch (from 0) with a new order of batches
    shuffle_buffer: int = 1000  # batches
    bucket_batches: bool = False  # by duration, with little padding
    train_batch_frames: int = 0  # the most in a batch, padding included; 0: any
    process_ahead: int = 16  # batches prepared in advance
    read_buffer: int = 1024 * 1024  # bytes
    feature_cache: str = ''  # folder; '': none
    cache_for_epochs: int = 0  # epochs that augmented features are kept for; 0 and below: for ever
    augment: tuple[str, ...] = ()  # augmentations of the training samples, as `augment_specs` reads them
    unicode_normalization: str = 'NFC'  # of alphabet and transcripts, one of UNICODE_NORMALIZATIONS
    alphabet_config_path: str = 'data/alphabet.txt'
    bytes_output_mode: bool = False  # the labels are the bytes of UTF-8, not those of `alphabet_config_path`
    on_bad_sample: str = 'error'  # one of ON_BAD_SAMPLE


@dataclass(frozen=True)
class OptimizerConfig:
    """Adam."""

    learning_rate: float = 0.001
    beta1: float = 0.9
    beta2: float = 0.999
    epsilon: float = 1e-8


@dataclass(frozen=True)
class ScheduleConfig:
    """When to stop, when to lower the learning rate."""

    epochs: int = 75
    early_stop: bool = False
    es_epochs: int = 25
    es_min_delta: float = 0.05
    reduce_lr_on_plateau: bool = False
    plateau_epochs: int = 10
    plateau_reduction: float = 0.1
    max_bad_steps: int = 20
    dev_wer_every: int = 0  # epochs; 0: never
    best_by: str = 'loss'  # one of BEST_BY
    probe_longest: bool = False  # one step with the largest batch, before the first
    lr_warmup_steps: int = 0  # updates
    lr_schedule: str = 'constant'  # one of LR_SCHEDULES
    lr_final_fraction: float = 0.01  # of the learning rate, at the end of a cosine schedule


@dataclass(frozen=True)
class CheckpointConfig:
    """Where checkpoints are read and written. Empty directory names: none."""

    load_dir: str = ''
    save_dir: str = ''
    copy_to: str = ''  # address of which `save_dir` is the local copy
    load_train: str = 'auto'  # one of LOAD_TRAIN
    load_evaluate: str = 'auto'  # one of LOAD_EVALUATE
    checkpoint_secs: int = 600
    checkpoint_steps: int = 0  # updates; 0: by time only
    max_to_keep: int = 5
    force_initialize_learning_rate: bool = False
    drop_source_layers: int = 0  # of the last layers, not loaded
    freeze_source_layers: int = 0  # of the first layers, not trained
    unfreeze_at_epoch: int = 0  # epoch (from 0) from which on they are; 0: never
    load_cudnn: bool = False


@dataclass(frozen=True)
class ParallelConfig:
    """Devices, towers and threads."""

    parallel: str = 'hybrid'  # one of STRATEGIES
    horovod: bool = False  # several processes
    horovod_lr_scaling: str = 'linear'  # one of LR_SCALINGS
    checkpoint_per_node: bool = False
    accumulate_steps: int = 1  # batches of each tower an update
    grad_clip_norm: float = 0.0  # 0: no clipping
    optimizer_sharding: bool = False  # each device or process has Adam's moments of a part of the parameters
    cpu_towers: int = 0  # virtual CPU devices; 0: one tower per GPU, else one on the CPU
    train_cudnn: bool = False
    inter_op_threads: int = 0  # 0: TensorFlow decides
    intra_op_threads: int = 0
    use_allow_growth: bool = False
    log_placement: bool = False


@dataclass(frozen=True)
class ReportConfig:
    """What is shown and written down."""

    summary_dir: str = ''
    summary_steps: int = 100
    show_progressbar: bool = True
    log_level: int = 1  # 0 debug, 1 info, 2 warnings, 3 errors
    report_count: int = 5
    test_output_file: str = ''
    test_report_file: str = ''  # .html, .csv or .json


@dataclass(frozen=True)
class DecodingConfig:
    """How a text is found for what the model heard."""

    beam_width: int = 1024
    cutoff_prob: float = 1.0
    cutoff_top_n: int = 300
    scorer_path: str = ''
    lm_alpha: float | None = None  # None: the scorer's own
    lm_beta: float | None = None
    hot_words: tuple[tuple[str, float], ...] = ()  # and what each adds to the log-probability


def parse_hot_words(text: str) -> tuple[tuple[str, float], ...]:
    """`computer:5,aus:-2.5` as words and boosts. Raises `ValueError` that names the flag and the part that is wrong."""
    words: dict[str, float] = {}
    for entry in text.split(',') if text else ():
        word, _, boost = entry.strip().rpartition(':')
        try:
            words[word] = float(boost)
        except ValueError:
            words[word] = math.nan
        if not word or ' ' in word or not math.isfinite(words[word]):
            raise ValueError(f'--hot_words={text}: {entry.strip()!r} is no word with a boost, such as computer:5')
    return tuple(words.items())


@dataclass(frozen=True)
class ExportConfig:
    """The exported model and what its metadata say."""

    export_dir: str = ''
    copy_to: str = ''  # address of which `export_dir` is the local copy
    remove_export: bool = False
    file_name: str = 'output_graph'
    tflite: bool = False  # without any format: a frozen graph
    quantize: bool = True  # the weights of TensorFlow Lite, to 8 bits
    savedmodel: bool = False
    onnx: bool = False
    zip: bool = False  # with TensorFlow Lite, alphabet and scorer
    scorer: str = ''  # file that goes into the ZIP
    batch_size: int = 1
    n_steps: int = 16  # frames a call of the streaming model
    beam_width: int = 500
    language: str = ''
    author_id: str = 'author'
    model_name: str = 'model'
    model_version: str = '0.0.1'
    contact_info: str = ''
    license: str = ''
    min_ds_version: str = ''
    max_ds_version: str = ''
    description: str = ''


def changed_settings(config: Config) -> dict[str, Any]:
    """The attributes, like `model.n_hidden`, that do not have their default, and their values."""
    changed: dict[str, Any] = {}
    for group in fields(Config):
        value, default = getattr(config, group.name), getattr(Config(), group.name)
        if not is_dataclass(value):
            changed |= {group.name: value} if value != default else {}
            continue
        for member in fields(value):
            name = member.name
            if getattr(value, name) != getattr(default, name):
                changed[f'{group.name}.{name}'] = getattr(value, name)
    return changed


@dataclass(frozen=True)
class Config:
    """One run of `DeepSpeech.py`."""

    features: FeatureConfig = field(default_factory=FeatureConfig)
    model: ModelConfig = field(default_factory=ModelConfig)
    data: DataConfig = field(default_factory=DataConfig)
    optimizer: OptimizerConfig = field(default_factory=OptimizerConfig)
    schedule: ScheduleConfig = field(default_factory=ScheduleConfig)
    checkpoints: CheckpointConfig = field(default_factory=CheckpointConfig)
    parallel: ParallelConfig = field(default_factory=ParallelConfig)
    report: ReportConfig = field(default_factory=ReportConfig)
    decoding: DecodingConfig = field(default_factory=DecodingConfig)
    export: ExportConfig = field(default_factory=ExportConfig)
    one_shot_infer: str = ''
    random_seed: int = 4568

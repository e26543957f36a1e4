"""The command line program: flags, checks, then training, testing, export and transcription.

Everything that can be wrong about flags and data is found before TensorFlow is imported.
"""

from __future__ import annotations

import contextlib
import errno
import os
import sys
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from deepspeech_training import log
from deepspeech_training.config import Config
from deepspeech_training.errors import DataError, ExportError, UserError
from deepspeech_training.flags.building import build_config, without_effect
from deepspeech_training.flags.help import help_text
from deepspeech_training.flags.parsing import ParsedFlags, parse
from deepspeech_training.launch import Launch, end_with_launcher, find_launch
from deepspeech_training.mirrored import EXPORT_MANIFEST, export_mirror, told, with_local_folders
from deepspeech_training.programs import EXIT_INTERRUPTED
from deepspeech_training.start_checks import check_launch, check_paths
from deepspeech_training.validation import validate

if TYPE_CHECKING:
    from deepspeech_training.data.checks import DataSets
    from deepspeech_training.decoding import Decoder
    from deepspeech_training.text.alphabet import Alphabet

EXIT_OK = 0


def main(args: Sequence[str] | None = None) -> int:
    """Runs the program on `args`, the command line without the program's name; returns its exit status.

    0: done. 1: another rank of the job is gone. 2: something the user can put right. 3: the loss was not finite for too
    long. 130: interrupted.
    Any other exception is a bug and keeps its traceback.
    """
    launch = find_launch()
    _set_up_log(launch, 1)  # for errors in the flags; --log_level is not known yet
    try:
        _run(sys.argv[1:] if args is None else args, launch)
    except UserError as error:
        log.error(str(error))
        return error.exit_status
    except KeyboardInterrupt:
        log.error('Interrupted')
        return EXIT_INTERRUPTED
    except BrokenPipeError:  # `--help | head`: nobody reads the rest
        sys.stdout = open(os.devnull, 'w')  # noqa: SIM115 - Python flushes it at exit
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            _say_who_ends(launch, error)
            raise
        log.error(f'{error.filename or "output"}: {error.strerror}; make room and start again')
        sys.stdout = open(os.devnull, 'w')  # noqa: SIM115 - what could not be written would fail again at exit
        return UserError.exit_status
    except Exception as error:
        _say_who_ends(launch, error)
        raise
    return EXIT_OK


def _say_who_ends(launch: Launch, error: Exception) -> None:
    """In a job of several: the traceback that follows does not say whose it is."""
    if launch.of_several:
        log.error(f'ended by {type(error).__name__}: {error}')


def _set_up_log(launch: Launch, level: int) -> None:
    """In a job of several, each line says which rank writes it, and only the first tells what is no warning."""
    if launch.of_several:
        log.setup(level if launch.is_chief else max(level, 2), str(launch))
    else:
        log.setup(level)


def _run(args: Sequence[str], launch: Launch) -> None:
    parsed = parse(args)
    if parsed.help:
        print(help_text(), end='', flush=True)
        return
    config = build_config(parsed)
    validate(config)
    check_launch(config, launch)
    _set_up_log(launch, config.report.log_level)
    with contextlib.ExitStack() as opened:
        config = with_local_folders(config, launch, opened)
        if config.data.auto_input_dataset:
            config = _with_auto_input(config, parsed, launch)
        check_paths(config, launch)
        if launch.is_chief:
            _say_what_goes_where(parsed, config)
        if launch.of_several:
            end_with_launcher()
        _work(config, launch)


def _with_auto_input(config: Config, parsed: ParsedFlags, launch: Launch) -> Config:
    """The run on what --auto_input_dataset is split into. Each process of a job does that, and finds the same."""
    from deepspeech_training.data.auto_input import split_input

    data = config.data
    found = split_input(
        data.auto_input_dataset,
        config.checkpoints.save_dir,
        data.unicode_normalization,
        with_alphabet=not data.bytes_output_mode and 'alphabet_config_path' not in parsed.given,
        skip_bad=data.on_bad_sample == 'skip',
        tell=launch.is_chief,
    )
    data = replace(
        data,
        auto_input_dataset='',
        train_files=(found.train,),
        dev_files=(found.dev,) if found.dev else (),
        test_files=(found.test,) if found.test else (),
        alphabet_config_path=found.alphabet or data.alphabet_config_path,
    )
    config = replace(config, data=data)
    validate(config)
    return config


def _say_what_goes_where(parsed: ParsedFlags, config: Config) -> None:
    """Warns of flags without effect and names the folders that no flag named."""
    for warning in without_effect(parsed):
        log.warn(warning)
    data = config.data
    if data.train_files and data.augment and data.feature_cache and data.cache_for_epochs <= 0:
        log.warn(
            '--feature_cache keeps augmented features for ever: every epoch has the same ones. '
            '--cache_for_epochs=N makes new ones every N epochs'
        )
    train = bool(config.data.train_files)
    if not parsed.given & {'checkpoint_dir', 'save_checkpoint_dir' if train else 'load_checkpoint_dir'}:
        folder = config.checkpoints.save_dir if train else config.checkpoints.load_dir
        log.info(f'No --checkpoint_dir given: checkpoints are in {folder}')
    if train and 'summary_dir' not in parsed.given:
        log.info(f'No --summary_dir given: TensorBoard curves are in {config.report.summary_dir}')


def _work(config: Config, launch: Launch) -> None:
    """Checks the data, then does everything that was asked for, in DeepSpeech's order."""
    from deepspeech_training.text.alphabets import load_alphabet

    alphabet = load_alphabet(config.data)
    if config.data.augment and config.data.train_files:
        from deepspeech_training.data.augmentation.augmenter import Augmenter

        Augmenter(config.data.augment, config.features, config.random_seed)  # is the noise of overlays there?
    if config.export.export_dir and launch.is_chief:
        from deepspeech_training.export.checks import check_export

        check_export(config.export, alphabet)
    decoder = None
    measures_wer = config.schedule.dev_wer_every and config.data.train_files and config.data.dev_files
    if config.data.test_files or config.one_shot_infer or measures_wer:
        from deepspeech_training.decoding import decoder_for

        # A language model that does not fit is no surprise for the end.
        decoder = decoder_for(config.decoding, alphabet)
    if config.one_shot_infer and launch.is_chief:
        _check_audio(config)
    data_sets, is_chief = _checked_data(config, alphabet, launch)
    if config.data.train_files:
        from deepspeech_training.train import train

        train(config, data_sets, alphabet, decoder)
        if config.schedule.epochs:  # what follows uses what was trained just now
            config = replace(config, checkpoints=replace(config.checkpoints, load_dir=config.checkpoints.save_dir))
    if config.data.test_files:
        from deepspeech_training.evaluate import evaluate

        evaluate(config, data_sets, alphabet, decoder)
    if is_chief:
        _use_model(config, alphabet, decoder)
    if decoder:
        decoder.close()


def _checked_data(config: Config, alphabet: Alphabet, launch: Launch) -> tuple[DataSets, bool]:
    """The data of the run, and whether this process is the one that exports and transcribes; TensorFlow is ready.

    The ranks of a job find together first: how long each of them looks at its data does not matter then.
    """
    if config.parallel.horovod:
        _prepare_tensorflow(config.report.log_level)
        from deepspeech_training.agreement import check_data_together
        from deepspeech_training.parallel.registry import create_strategy

        strategy = create_strategy(config.parallel)
        return check_data_together(strategy, config, alphabet, launch.host), strategy.is_chief
    from deepspeech_training.data.checks import check_data

    data_sets = check_data(
        config.data,
        config.features,
        alphabet,
        save_dir=config.checkpoints.save_dir,
        show_progressbar=config.report.show_progressbar,
    )
    _prepare_tensorflow(config.report.log_level)
    return data_sets, True


def _use_model(config: Config, alphabet: Alphabet, decoder: Decoder | None) -> None:
    if config.export.export_dir:
        from deepspeech_training.export.formats import export_model

        paths = export_model(config, alphabet)
        if config.export.copy_to:
            _copy_export(config)
        for path in paths:
            log.info(f'Exported {told(config, path)}')
    if config.one_shot_infer:
        from deepspeech_training.infer import one_shot_infer

        print(one_shot_infer(config, alphabet, decoder), flush=True)


def _copy_export(config: Config) -> None:
    """Uploads it, the list of its files last."""
    export = config.export
    try:
        export_mirror(export.copy_to, export.export_dir).push(last=[EXPORT_MANIFEST])
    except OSError as error:
        raise ExportError(f'--export_dir={export.copy_to}: cannot be written: {error.strerror}') from error


def _check_audio(config: Config) -> None:
    """Whether --one_shot_infer names audio, before anything else takes its time."""
    from deepspeech_training.audio.reading import audio_info, wrong_channel

    path, features = config.one_shot_infer, config.features
    try:
        info = audio_info(path)
    except DataError as error:
        raise DataError(f'--one_shot_infer: {error}') from error
    if info.sample_rate != features.sample_rate and not features.normalize_sample_rate:
        raise DataError(
            f'--one_shot_infer={path}: has {info.sample_rate} Hz, the model {features.sample_rate} Hz; '
            'leave out --nonormalize_sample_rate to have it resampled'
        )
    if features.channel > info.channels:
        raise DataError(f'--one_shot_infer={path}: {wrong_channel(info.channels, features.channel)}')
    if info.duration * 1000 < features.window_ms:
        raise DataError(
            f'--one_shot_infer={path}: {info.duration * 1000:.0f} ms of audio are shorter than one window '
            f'(--feature_win_len={features.window_ms} ms)'
        )


def _prepare_tensorflow(log_level: int) -> None:
    """Imports TensorFlow and turns it to graphs and sessions; its own messages are shown at --log_level 0 only.

    What matters in them arrives as exceptions. A user's TF_CPP_MIN_LOG_LEVEL is left as it is.
    """
    chatty = log_level == 0 or 'TF_CPP_MIN_LOG_LEVEL' in os.environ
    os.environ.setdefault('TF_CPP_MIN_LOG_LEVEL', '0' if chatty else '3')
    with contextlib.nullcontext() if chatty else log.native_messages_held():
        import tensorflow as tf
    tf.compat.v1.logging.set_verbosity(tf.compat.v1.logging.INFO if chatty else tf.compat.v1.logging.ERROR)
    tf.compat.v1.disable_v2_behavior()

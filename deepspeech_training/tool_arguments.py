"""Arguments that several of the tools in `bin/` have: which model, and how it is decoded."""

from __future__ import annotations

import argparse
from dataclasses import replace

from deepspeech_training.config import LOAD_EVALUATE, Config, DecodingConfig, FeatureConfig, parse_hot_words
from deepspeech_training.errors import FlagError
from deepspeech_training.validation import validate_for_tool


def add_model_arguments(parser: argparse.ArgumentParser) -> None:
    """What is to be known of models that do not say it themselves."""
    add = parser.add_argument
    add('--load_evaluate', choices=LOAD_EVALUATE, default='auto', help='which checkpoint of a folder')
    add('--alphabet_config_path', default='', help='for checkpoints that DeepSpeech wrote')
    add('--audio_sample_rate', type=int, default=FeatureConfig.sample_rate, help='for these, Hz')
    add('--feature_win_len', type=int, default=FeatureConfig.window_ms, help='for these, milliseconds')
    add('--feature_win_step', type=int, default=FeatureConfig.step_ms, help='for these, milliseconds')


def add_decoding_arguments(parser: argparse.ArgumentParser) -> None:
    """The search and its language model, by the names of the flags."""
    add = parser.add_argument
    add('--beam_width', type=int, help="of the search; 1: the best path; default: the model's")
    add('--scorer_path', '--scorer', default='', help='language model: .scorer, KenLM binary or ARPA file')
    add('--lm_alpha', type=float, help="its weight; default: the scorer's own")
    add('--lm_beta', type=float, help="reward for each word; default: the scorer's own")
    add('--hot_words', default='', help='words that are likelier, as word:boost,word:boost')
    add('--cutoff_prob', type=float, default=DecodingConfig.cutoff_prob, help='look at the likeliest characters only')
    add('--cutoff_top_n', type=int, default=DecodingConfig.cutoff_top_n, help='look at so many characters only')


def chosen_features(args: argparse.Namespace) -> FeatureConfig:
    """Of checkpoints that do not say it. Raises `FlagError`."""
    features = FeatureConfig(args.audio_sample_rate, args.feature_win_len, args.feature_win_step)
    validate_for_tool(Config(features=features))
    return features


def chosen_decoding(args: argparse.Namespace) -> DecodingConfig:
    """As the arguments say; the `beam_width` is 0 for the model's. Raises `FlagError`."""
    try:
        hot_words = parse_hot_words(args.hot_words)
    except ValueError as error:
        raise FlagError(str(error)) from None
    decoding = DecodingConfig(
        beam_width=1 if args.beam_width is None else args.beam_width,
        cutoff_prob=args.cutoff_prob,
        cutoff_top_n=args.cutoff_top_n,
        scorer_path=args.scorer_path,
        lm_alpha=args.lm_alpha,
        lm_beta=args.lm_beta,
        hot_words=hot_words,
    )
    validate_for_tool(Config(decoding=decoding))
    return decoding if args.beam_width is not None else replace(decoding, beam_width=0)

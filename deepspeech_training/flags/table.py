"""All flags, in the groups in which help and documentation show them."""

from __future__ import annotations

from deepspeech_training.flags.output_flags import OUTPUT_GROUPS
from deepspeech_training.flags.spec import Flag, Group
from deepspeech_training.flags.training_flags import TRAINING_GROUPS

GROUPS: tuple[Group, ...] = TRAINING_GROUPS + OUTPUT_GROUPS

FLAGS: dict[str, Flag] = {flag.name: flag for group in GROUPS for flag in group.flags}

RENAMED = {
    'epoch': 'epochs',
    'utf8': 'bytes_output_mode',
    'lm_binary_path': 'scorer_path',
    'lm_trie_path': 'scorer_path',
    'validation_step': 'dev_files',
    'decoder_library_path': 'beam_width',
    'early_stopping': 'early_stop',
    'dropout': 'dropout_rate',
    'batch_size': 'train_batch_size',
}
"""Names of earlier DeepSpeech versions, or that people try, and what they became."""

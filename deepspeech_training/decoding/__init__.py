"""From log-probabilities to text: the best path, or prefix beam search, with a language model or without."""

from deepspeech_training.decoding.beam_search import SearchOptions
from deepspeech_training.decoding.decoders import (
    BeamSearchDecoder,
    Decoder,
    GreedyDecoder,
    Hypothesis,
    decoder_for,
    decoder_with,
    make_decoder,
)
from deepspeech_training.decoding.scorer import Scorer, ScorerOptions

__all__ = [
    'BeamSearchDecoder',
    'Decoder',
    'GreedyDecoder',
    'Hypothesis',
    'Scorer',
    'ScorerOptions',
    'SearchOptions',
    'decoder_for',
    'decoder_with',
    'make_decoder',
]

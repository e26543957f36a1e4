"""Tower-based, hybrid-parallel training of DeepSpeech models."""

__version__ = '0.1.0'

"""The recurrent layer: one LSTM, several implementations with the same output and gradients."""

from __future__ import annotations

from deepspeech_training.model.lstm.registry import LSTM_IMPLEMENTATIONS, choose_lstm, lstm_layer
from deepspeech_training.model.lstm.state import LSTMState

__all__ = ['LSTM_IMPLEMENTATIONS', 'LSTMState', 'choose_lstm', 'lstm_layer']

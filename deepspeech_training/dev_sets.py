"""Validation: the losses of the dev sets after an epoch and, where asked for, how many words the model gets wrong."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from deepspeech_training import log
from deepspeech_training.config import Config
from deepspeech_training.dev_transcripts import DevTranscriber, as_markdown
from deepspeech_training.errors import UserError
from deepspeech_training.parallel.strategy import Strategy
from deepspeech_training.passes import Passes
from deepspeech_training.text.metrics import Transcription, error_rates
from deepspeech_training.totals import SampleRange


@dataclass(frozen=True)
class DevResult:
    """Over all dev sets and processes: mean loss and word error rate, NaN where that was not computed.

    `curves` and `texts` are for TensorBoard, by tag.
    """

    loss: float
    wer: float
    curves: dict[str, float]
    texts: dict[str, str]


class DevSets:
    """Measured after each epoch; all processes come to the same results."""

    def __init__(
        self,
        config: Config,
        strategy: Strategy,
        passes: Passes,
        parts: Sequence[SampleRange],
        transcriber: DevTranscriber | None = None,
    ) -> None:
        self._config = config
        self._strategy = strategy
        self._passes = passes
        self._parts = parts
        self._transcriber = transcriber

    def measure(self, epoch: int, heed_signals: Callable[[], None]) -> DevResult | None:
        """The results after `epoch` (from 0); None without dev sets. `heed_signals` may end it with an exception."""
        if not self._parts:
            return None
        every = self._config.schedule.dev_wer_every
        if not (self._transcriber and every and (epoch + 1) % every == 0):
            return self._measure(epoch, heed_signals, None)
        try:
            with self._transcriber.ready(self._parts):
                return self._measure(epoch, heed_signals, self._transcriber)
        except UserError:
            if self._strategy.world_size == 1:
                heed_signals()  # a signal to all processes has ended those that decode, too
            raise

    def _measure(self, epoch: int, heed_signals: Callable[[], None], transcriber: DevTranscriber | None) -> DevResult:
        curves: dict[str, float] = {}
        said: dict[str, list[Transcription]] = {}
        loss_sum, count, label = 0.0, 0.0, f'Epoch {epoch} | Validation'
        for part in self._parts:
            take = transcriber.take if transcriber else None
            totals, curves[f'loss/{part.name}'] = self._passes.evaluate(label, part, heed_signals, take)
            loss_sum, count = loss_sum + totals.loss_sum, count + totals.count
            if transcriber:
                # Several processes must stop at the same place.
                said[part.name] = transcriber.finish(part, heed_signals if self._strategy.world_size == 1 else None)
                curves |= self._error_rates(f'{label} | {part.name}', said[part.name], f'/{part.name}')
        curves['epoch_loss'] = loss = self._strategy.all_mean(loss_sum, count)
        wer = math.nan
        if transcriber:
            everything = [each for transcriptions in said.values() for each in transcriptions]
            overall = self._error_rates(f'{label} | all dev sets' if len(said) > 1 else '', everything)
            wer = overall['wer']
            curves |= {f'epoch_{name}': value for name, value in overall.items()}
        return DevResult(loss, wer, curves, {f'transcripts/{name}': self._texts(name, said[name]) for name in said})

    def _error_rates(self, label: str, transcriptions: Sequence[Transcription], suffix: str = '') -> dict[str, float]:
        """WER and CER; shown, if there is a `label`."""
        wer, cer, _ = error_rates(transcriptions)
        if label:
            log.info(f'{label} | WER {wer:.4f}, CER {cer:.4f}')
        return {f'wer{suffix}': wer, f'cer{suffix}': cer}

    def _texts(self, name: str, transcriptions: Sequence[Transcription]) -> str:
        return as_markdown(transcriptions, self._config.report.report_count, f'{self._config.random_seed} {name}')

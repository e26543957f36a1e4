"""Utterances decoded side by side."""

from __future__ import annotations

import multiprocessing
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from deepspeech_training.config import DecodingConfig
from deepspeech_training.decoding import decoder_for
from deepspeech_training.decoding.pool import WORTH_PROCESSES, DecodingPool, ProcessDecoder, decoding_pool
from deepspeech_training.errors import ScorerError, UserError
from deepspeech_training.text.alphabet import Alphabet

ROOT = Path(__file__).resolve().parents[2]
ALPHABET = Alphabet(' abc')
DECODING = DecodingConfig(beam_width=8)


def outputs(count: int) -> list[np.ndarray]:
    random = np.random.default_rng(1)
    return [random.normal(scale=3, size=[random.integers(1, 40), 5]).astype(np.float32) for _ in range(count)]


def test_processes_say_what_this_one_says_in_the_same_order() -> None:
    decoder = decoder_for(DECODING, ALPHABET)
    logits = outputs(WORTH_PROCESSES)
    with decoding_pool(DECODING, ALPHABET, decoder, len(logits), processes=2) as pool:
        assert len(multiprocessing.active_children()) == 2
        found = list(pool.decode_all(enumerate(logits)))
    assert found == [(number, decoder.decode(each)) for number, each in enumerate(logits)]
    assert len({text for _, text in found}) > 20
    assert multiprocessing.active_children() == []


@pytest.mark.parametrize(
    ('decoding', 'utterances', 'processes'),
    [(DECODING, WORTH_PROCESSES - 1, 2), (DECODING, 1000, 1), (DecodingConfig(beam_width=1), 1000, 2)],
)
def test_what_is_quick_needs_no_processes(decoding: DecodingConfig, utterances: int, processes: int) -> None:
    decoder = decoder_for(decoding, ALPHABET)
    logits = outputs(5)
    with decoding_pool(decoding, ALPHABET, decoder, utterances, processes) as pool:
        assert multiprocessing.active_children() == []
        assert [text for _, text in pool.decode_all(enumerate(logits))] == [decoder.decode(each) for each in logits]


class LengthDecoder:
    """Says how many frames there are."""

    def decode(self, logits: np.ndarray) -> str:
        return str(len(logits))

    def close(self) -> None:
        pass


def test_outputs_are_taken_as_they_are_decoded() -> None:
    """Of a set without end, only so many are in memory."""
    taken = 0

    def endless() -> Iterator[tuple[int, np.ndarray]]:
        nonlocal taken
        while True:
            taken += 1
            yield taken, np.zeros([taken, 5], np.float32)

    with DecodingPool([LengthDecoder(), LengthDecoder()], closing=False) as pool:
        results = pool.decode_all(endless())
        for number in range(1, 200):
            assert next(results) == (number, str(number))
            assert taken <= number + 2 * 8 + 1
        results.close()  # type: ignore[attr-defined]  # it is a generator


def test_a_process_that_is_killed_ends_the_work() -> None:
    decoder = ProcessDecoder(DECODING, ALPHABET)
    try:
        (logits,) = outputs(1)
        assert decoder.decode(logits) == decoder_for(DECODING, ALPHABET).decode(logits)
        (process,) = multiprocessing.active_children()
        process.kill()
        with pytest.raises(UserError, match='decoding process has ended with status -9; perhaps'):
            decoder.decode(logits)
    finally:
        decoder.close()


def test_what_a_process_cannot_open_is_told(tmp_path: Path) -> None:
    decoding = DecodingConfig(beam_width=8, scorer_path=str(tmp_path / 'none.scorer'))
    decoder = ProcessDecoder(decoding, ALPHABET)
    try:
        with pytest.raises(ScorerError, match=r'none\.scorer: No such file'):
            decoder.decode(np.zeros([3, 5], np.float32))
    finally:
        decoder.close()


def test_processes_end_with_the_one_that_started_them() -> None:
    """Though that one is killed: nobody else would end them."""
    program = (
        'import multiprocessing, time\n'
        'from tests.decoding.test_pool import ALPHABET, DECODING, ProcessDecoder\n'
        "if __name__ == '__main__':\n"
        '    decoder = ProcessDecoder(DECODING, ALPHABET)\n'
        '    print(multiprocessing.active_children()[0].pid, flush=True)\n'
        '    time.sleep(600)\n'
    )
    parent = subprocess.Popen([sys.executable, '-c', program], cwd=ROOT, stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    child = Path('/proc', parent.stdout.readline().strip())
    assert child.exists()
    parent.kill()
    parent.wait()
    parent.stdout.close()
    for _ in range(300):
        if not child.exists():
            break
        time.sleep(0.1)
    assert not child.exists()

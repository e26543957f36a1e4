"""From planned utterances to WAV files, in worker processes.

eSpeak NG is not thread safe, and its noise and its filters go on from one utterance to the next. So that the samples do
not depend on what a process has spoken before, utterances are spoken in blocks that the plan alone decides, each
block in a process of its own that is forked where eSpeak was never initialized.
"""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
from collections.abc import Generator, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from pathlib import Path

from deepspeech_training.errors import UserError
from espeak_corpus.library import Espeak
from espeak_corpus.plan import Utterance
from espeak_corpus.voices import PLAIN

BLOCK = 16
"""Utterances spoken by one process. Another number gives another corpus, if only in the noise."""


@dataclass(frozen=True)
class Spoken:
    """A file that was written."""

    utterance: Utterance
    size: int  # bytes
    samples: int


@dataclass(frozen=True)
class Block:
    folder: str
    sample_rate: int
    utterances: tuple[Utterance, ...]


class Speakers:
    """Some processes that speak blocks, several at a time, and answer in the order in which they were asked."""

    def __init__(self, processes: int) -> None:
        self.processes = processes
        # A fork server has no threads, whatever this process has; and eSpeak is nowhere but in its children.
        context = multiprocessing.get_context('forkserver')
        self.executor = ProcessPoolExecutor(processes, mp_context=context, initializer=start_worker)

    def __enter__(self) -> Speakers:
        return self

    def __exit__(self, *error: object) -> None:
        self.executor.shutdown(wait=True, cancel_futures=True)

    def speak(self, blocks: Iterator[Block]) -> Generator[Spoken, None, None]:
        """All utterances of all blocks, in their order; asks for few blocks in advance, for there may be no end.

        Raises what eSpeak's functions raise, and `UserError` when a process dies.
        """
        pending: list[Future[list[Spoken]]] = []
        try:
            for block in blocks:
                pending.append(self.executor.submit(speak_block, block))
                if len(pending) > 2 * self.processes:
                    yield from pending.pop(0).result()
            while pending:
                yield from pending.pop(0).result()
        except BrokenProcessPool as error:
            raise UserError('a process that spoke was ended from outside; run this again') from error
        finally:
            for future in pending:
                future.cancel()
            for future in pending:
                if not future.cancelled():
                    future.exception()  # waits: its files are written, and can be removed


def start_worker() -> None:
    """Gets a worker process ready to fork often."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the first process; it ends the others
    os.environ['OPENBLAS_NUM_THREADS'] = '1'  # before NumPy is imported: a process with threads should not fork
    import espeak_corpus.sound  # noqa: F401  once here, not in each forked process


def speak_block(block: Block) -> list[Spoken]:
    """Has a forked process speak the block. Raises its `UserError`, or one that says how it died."""
    reader, writer = os.pipe()
    process = os.fork()
    if process == 0:
        os.close(reader)
        answer_and_exit(block, writer)
    os.close(writer)
    with os.fdopen(reader, 'rb') as pipe:
        answer = pipe.read()
    _, status = os.waitpid(process, 0)
    if status != 0 or not answer:
        first, last = block.utterances[0], block.utterances[-1]
        raise UserError(f'eSpeak NG died (status {status}) between {first.path} and {last.path}')
    result: list[Spoken] | Exception = pickle.loads(answer)
    if isinstance(result, Exception):
        raise result
    return result


def answer_and_exit(block: Block, writer: int) -> None:
    """In the forked process: speaks, sends the result through the pipe and ends, without the parent's own exit work."""
    status = 1
    try:
        try:
            espeak = Espeak()
            languages = espeak.languages()
            result: list[Spoken] | Exception = [
                write_utterance(espeak, languages, block, utterance) for utterance in block.utterances
            ]
        except Exception as error:
            result = error
        with os.fdopen(writer, 'wb') as pipe:
            pickle.dump(result, pipe)
        status = 0
    finally:
        os._exit(status)


def write_utterance(espeak: Espeak, languages: dict[str, str], block: Block, utterance: Utterance) -> Spoken:
    """Speaks one utterance into its file."""
    voice = languages[utterance.voice.language]
    if utterance.voice.variant != PLAIN:
        voice += f'+{utterance.voice.variant}'
    spoken = espeak.speak(utterance.spoken, voice, utterance.rate, utterance.pitch, utterance.seed)
    path = Path(block.folder) / utterance.path
    from espeak_corpus.sound import write_wav

    samples = write_wav(path, spoken, espeak.sample_rate, block.sample_rate)
    return Spoken(utterance, path.stat().st_size, samples)


def blocks(folder: str, sample_rate: int, utterances: Iterator[Utterance]) -> Iterator[Block]:
    """The utterances in blocks, the last of which may be smaller."""
    block: list[Utterance] = []
    for utterance in utterances:
        block.append(utterance)
        if len(block) == BLOCK:
            yield Block(folder, sample_rate, tuple(block))
            block = []
    if block:
        yield Block(folder, sample_rate, tuple(block))


def seconds(spoken: Sequence[Spoken], sample_rate: int) -> float:
    return sum(entry.samples for entry in spoken) / sample_rate

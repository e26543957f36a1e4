"""Where transcripts go: standard output, one file, or a folder."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import IO

from deepspeech_training.errors import FlagError, UserError
from deepspeech_training.transcription.files import Recording, output_names
from deepspeech_training.transcription.formats import SUFFIXES, VTT_HEADER, as_format, as_srt, as_vtt
from deepspeech_training.transcription.subtitles import make_cues
from deepspeech_training.transcription.transcript import Segment, Transcript

SUBTITLES = ('srt', 'vtt')


class Output:
    """One stream for all transcripts, standard output or a file, which is there only when it is complete."""

    def __init__(self, path: str, format_name: str, *, alone: bool) -> None:
        """`alone`: there is one recording, and text needs no name before it."""
        self._format = format_name
        self._alone = alone
        self._path = path

    def write(self, transcript: Transcript) -> None:
        text = as_format(self._format, transcript)
        if self._format == 'text' and not self._alone:
            text = f'{transcript.path}: {text}'
        self._file.write(text)

    def __enter__(self) -> Output:
        """Raises `UserError` where the file cannot be written."""
        self._file = _File(self._path)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._file.close(complete=kind is None)


class FolderOutput(Output):
    """A file for each transcript."""

    def __init__(self, folder: str, format_name: str, recordings: Sequence[Recording]) -> None:
        """Raises `DataError` when two would have one name."""
        names = output_names(recordings, SUFFIXES[format_name])
        self._format = format_name
        self._paths: dict[str, str] = {
            recording.path: os.path.join(folder, name) for recording, name in zip(recordings, names, strict=True)
        }

    def write(self, transcript: Transcript) -> None:
        file = _File(self._paths[transcript.path])
        file.write(as_format(self._format, transcript))
        file.close(complete=True)

    def __enter__(self) -> Output:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        pass


def make_output(path: str, format_name: str | None, recordings: Sequence[Recording], *, alone: bool) -> Output:
    """The output that `path` asks for: '' is standard output, a folder exists or ends in `/`.

    Raises `FlagError` when subtitles of several recordings would go into one file, `DataError` when two transcripts
    would have one name.
    """
    is_folder = path.endswith('/') or os.path.isdir(path)
    chosen = format_name or ('text' if is_folder else _format_of(path))
    if is_folder:
        return FolderOutput(path, chosen, recordings)
    if chosen in SUBTITLES and len(recordings) > 1:
        raise FlagError(
            f'--format={chosen}: the subtitles of {len(recordings)} recordings cannot be in one file; '
            'name a folder with --output FOLDER/'
        )
    return Output(path, chosen, alone=alone)


def _format_of(path: str) -> str:
    suffix = os.path.splitext(path)[1].lower()
    return next((name for name, known in SUFFIXES.items() if known == suffix), 'text')


class LiveOutput:
    """Utterances as they end, each at once; on a terminal also what is being said."""

    def __init__(self, path: str, format_name: str | None, separator: str) -> None:
        self._format = format_name or _format_of(path)
        self._separator = separator
        self._cues = 0
        self._shown = ''
        self._file = _File(path)
        if self._format == 'vtt':
            self._file.write(VTT_HEADER)

    def show(self, text: str) -> None:
        """What the utterance under way seems to be; overwritten by what follows."""
        if text != self._shown and sys.stderr.isatty():
            width = max(20, _columns() - 1)
            sys.stderr.write(f'\r\x1b[K{text[-width:]}')
            sys.stderr.flush()
            self._shown = text

    def write(self, segment: Segment) -> None:
        """An utterance; one without text is left out."""
        if self._shown:
            sys.stderr.write('\r\x1b[K')
            sys.stderr.flush()
            self._shown = ''
        if segment.text:
            self._file.write(self._formatted(segment))

    def _formatted(self, segment: Segment) -> str:
        if self._format in SUBTITLES:
            cues = make_cues(segment.words, self._separator)
            text = as_srt(cues, self._cues + 1) if self._format == 'srt' else as_vtt(cues)
            self._cues += len(cues)
            return text
        return as_format(self._format, Transcript('-', segment.end, (segment,), self._separator))

    def __enter__(self) -> LiveOutput:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._file.close(complete=True)  # what was said before an interruption is worth having


class _File:
    """Standard output for '', else a file that gets its name when it is complete."""

    def __init__(self, path: str) -> None:
        """Raises `UserError`."""
        self._path = path
        self._temporary = f'{path}.{os.getpid()}.tmp'
        self._file: IO[str] = sys.stdout
        if path:
            try:
                Path(path).parent.mkdir(parents=True, exist_ok=True)
                self._file = open(self._temporary, 'w', encoding='utf-8')  # noqa: SIM115 - closed by close()
            except OSError as error:
                raise self._error(error) from None

    def write(self, text: str) -> None:
        """Raises `UserError`, and `BrokenPipeError` where nobody reads standard output any more."""
        try:
            self._file.write(text)
            self._file.flush()
        except BrokenPipeError:
            raise
        except OSError as error:
            raise self._error(error) from None

    def close(self, *, complete: bool) -> None:
        if not self._path:
            return
        try:
            self._file.close()
            if complete:
                os.replace(self._temporary, self._path)
        except OSError as error:
            raise self._error(error) from None
        finally:
            with suppress(FileNotFoundError):
                os.remove(self._temporary)

    def _error(self, error: OSError) -> UserError:
        return UserError(f'--output: cannot write {self._path or "standard output"}: {error.strerror}')


def _columns() -> int:
    try:
        return os.get_terminal_size(sys.stderr.fileno()).columns
    except OSError:
        return 80

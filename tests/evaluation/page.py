"""An HTML report, read back."""

from __future__ import annotations

import base64
import io
from dataclasses import dataclass, field
from html.parser import HTMLParser

import numpy as np
import numpy.typing as npt
import soundfile

VOID = ('meta', 'input')


@dataclass
class Row:
    """An utterance of the page."""

    data: dict[str, str]
    source: str = ''
    said: list[str] = field(default_factory=list)
    heard: list[str] = field(default_factory=list)
    kinds: list[str] = field(default_factory=list)
    text: str = ''

    def audio(self) -> tuple[npt.NDArray[np.int16], int]:
        """Samples and rate of the recording in the page."""
        kind, _, content = self.source.partition(';base64,')
        assert kind == 'data:audio/flac'
        return soundfile.read(io.BytesIO(base64.b64decode(content)), dtype='int16')


class Page(HTMLParser):
    """Raises `AssertionError` where an element is not closed in its turn."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.rows: list[Row] = []
        self.tags: list[tuple[str, dict[str, str]]] = []
        self.texts: list[str] = []
        self.script = ''
        self._open: list[str] = []
        self.feed(html)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = {name: value or '' for name, value in attrs}
        self.tags.append((tag, attributes))
        if tag not in VOID:
            self._open.append(tag)
        if tag == 'tr' and 'data-wer' in attributes:
            self.rows.append(Row({name.removeprefix('data-'): value for name, value in attributes.items()}))
        elif tag == 'audio':
            self.rows[-1].source = attributes['src']
        elif tag == 'span' and attributes.get('class', '').startswith('word '):
            self.rows[-1].kinds.append(attributes['class'].removeprefix('word '))

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        inside = self._open[-1] if self._open else ''
        if inside == 'b':
            self.rows[-1].said.append(data)
        elif inside == 'i':
            self.rows[-1].heard.append(data)
        elif inside == 'script':
            self.script += data
        self.texts.append(data)

"""What libsndfile lets pass: sound files that end too early, or whose header cannot be right.

It says in its log what a header promises; only that is read here, and of some formats a few bytes of the file.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Iterator

import numpy as np
import numpy.typing as npt
import soundfile

ReadAt = Callable[[int, int], bytes]
"""Bytes of the file: from which on, and how many."""

LOWEST_RATE, HIGHEST_RATE = 1000, 1_000_000  # Hz
MOST_CHANNELS = 255  # of Ogg, the most that a format can name in one byte
UNKNOWN_FRAMES = 2**62  # libsndfile says about 2^63 for a FLAC file without a length
UNKNOWN_BYTES = 2**31 - 2**16  # programs that write to a pipe put about 2^31 or 2^32 into the header
TOLERANCE = 0.1  # seconds; some programs count the header's bytes as audio

BLOCK_SAMPLES = 1 << 26  # read at a time: headers may promise more than there is memory

# Their headers do not tell whether the file goes on to its end, as others do.
COMPRESSED_FORMATS = ('FLAC', 'OGG', 'MP3')
BYTES = {'PCM_S8': 1, 'PCM_U8': 1, 'ULAW': 1, 'ALAW': 1, 'PCM_16': 2, 'PCM_24': 3, 'PCM_32': 4, 'FLOAT': 4, 'DOUBLE': 8}
"""Of a sample, where all samples have equally many."""

# Lines of libsndfile's log.
SHORTENED = re.compile(r'^ ?(?:data|SSND|  Data Size  ) : (\d+) \(should be (\d+)\)', re.MULTILINE)
PROMISED = {
    'W64': re.compile(r'^data : (\d+)$', re.MULTILINE),
    'RF64': re.compile(r'^  Data size : (\d+)$', re.MULTILINE),
}
SIZE_OF_W64_CHUNK_HEADER = 24  # counted in the size of the chunk
UNFINISHED = re.compile(r'^data : 0\n.*(?:Unknown chunk marker|0 marker)', re.MULTILINE)
BLOCK = re.compile(r'Block Align +: (\d+)')
FRAMES_OF_BLOCK = re.compile(r'Samples/Block : (\d+)')

NIST_HEADER_SIZE = 1024
NIST_FRAMES = re.compile(rb'^sample_count -i (\d+)$', re.MULTILINE)

OGG_PAGE = b'OggS'
OGG_HEADER_SIZE, OGG_FLAGS, OGG_SERIAL, OGG_SEGMENTS = 27, 5, 14, 26  # offsets in a page (RFC 3533)
OGG_END_OF_STREAM = 4  # a flag
SEVERAL_RECORDINGS = 'has several recordings one after another, of which one would be read. Convert it to one'

MP3_LENGTH_TAGS = (b'Xing', b'Info')
MP3_MOST_OF_FRAME = 1441  # bytes
MP3_FLAGS, MP3_SIZE = 7, 8  # offsets in such a tag
MP3_HAS_FRAMES, MP3_HAS_SIZE = 1, 2  # flags
ID3_HEADER_SIZE, ID3_AT_END_SIZE = 10, 128

OGG_MOST_OF_PAGE = OGG_HEADER_SIZE + 255 + 255 * 255


def header_problem(file: soundfile.SoundFile) -> str:
    """Why a header cannot be right, or does not say how long the audio is; '' where it is sound."""
    if not LOWEST_RATE <= file.samplerate <= HIGHEST_RATE:
        return f'is damaged: its header says {file.samplerate} samples a second'
    if file.channels > MOST_CHANNELS:
        return f'is damaged: its header says {file.channels} channels'
    if file.frames >= UNKNOWN_FRAMES:
        return 'its header does not say how long it is, as when it was written to a pipe. Convert it again, to a file'
    if not file.frames and UNFINISHED.search(file.extra_info):
        return (
            'its header says 0 bytes of audio, though more follow: the program that wrote it did not come to its end. '
            'Convert it with ffmpeg or "sox --ignore-length"'
        )
    return ''


def frames_of_audio(file: soundfile.SoundFile) -> int:
    """Samples of each channel: libsndfile counts what follows the audio in a W64 file too."""
    promised = _promised_frames(file) if file.format == 'W64' else None
    return file.frames if promised is None else min(promised, file.frames)


def blocks(file: soundfile.SoundFile, frames: int) -> Iterator[npt.NDArray[np.float32]]:
    """At most so many of the next frames, `[count, channels]`, at least one block. The last may be short."""
    most = BLOCK_SAMPLES // file.channels
    left = frames
    while True:
        block = file.read(min(left, most), dtype='float32', always_2d=True)
        yield block
        left -= len(block)
        if not left or len(block) < most:
            return


def ending_problem(file: soundfile.SoundFile, read_at: ReadAt, size: int) -> str:
    """How a file of `size` bytes ends before its header says; '' where it does not. Moves the file's position."""
    if file.format == 'OGG' and (problem := _ogg_problem(file.subtype, read_at, size)):
        return problem
    if file.format == 'MP3' and _goes_on_behind_end(read_at, size):
        return SEVERAL_RECORDINGS
    if file.format in COMPRESSED_FORMATS:
        return _last_sample_problem(file, read_at, size)
    if file.format == 'VOC' and 'truncated file' in file.extra_info:
        return 'is cut off: its header promises more audio than is there. Copy or convert it again'
    promised = _promised_frames(file)
    if file.format == 'NIST' and (match := NIST_FRAMES.search(read_at(0, NIST_HEADER_SIZE))):
        promised = int(match[1])
    if promised is None or promised - file.frames <= TOLERANCE * file.samplerate:
        return ''
    return (
        f'is cut off: its header promises {promised / file.samplerate:.2f} s of audio, '
        f'{file.frames / file.samplerate:.2f} s are there. Copy or convert it again'
    )


def _promised_frames(file: soundfile.SoundFile) -> int | None:
    """What the header promises, if it is known to promise anything else than is there."""
    log = file.extra_info
    there = 0
    if match := SHORTENED.search(log):
        promised, there = map(int, match.groups())
        if promised >= UNKNOWN_BYTES:
            return None
    elif file.format in PROMISED and (match := PROMISED[file.format].search(log)):
        promised = int(match[1]) - (SIZE_OF_W64_CHUNK_HEADER if file.format == 'W64' else 0)
    else:
        return None
    block, frames = BLOCK.search(log), FRAMES_OF_BLOCK.search(log)
    if block and frames:
        return promised // max(int(block[1]), 1) * int(frames[1])
    if file.subtype in BYTES:
        return promised // (file.channels * BYTES[file.subtype])
    return file.frames * promised // max(there, 1) if there else None


def _last_sample_problem(file: soundfile.SoundFile, read_at: ReadAt, size: int) -> str:
    if not file.frames or (_has_all(file) if file.format == 'MP3' else _has_last_sample(file)):
        return ''
    # Behind a large ID3 tag, libsndfile does not find its way in a FLAC file, but can read it.
    if file.format == 'FLAC' and _can_be_read(read_at(0, size)):
        return ''
    return (
        f'is cut off or damaged: its header promises {file.frames / file.samplerate:.2f} s of audio, whose end cannot '
        'be read. Copy or convert it again'
    )


def _has_last_sample(file: soundfile.SoundFile) -> bool:
    try:
        file.seek(file.frames - 1)
        return len(file.read(1)) == 1
    except (soundfile.LibsndfileError, ValueError):  # it went elsewhere
        return False


def _has_all(file: soundfile.SoundFile) -> bool:
    """Whether there is as much as the header says; to look for the end of an MP3 file makes its library complain."""
    try:
        return file.frames - sum(map(len, blocks(file, file.frames))) <= TOLERANCE * file.samplerate
    except (soundfile.LibsndfileError, ValueError):
        return False


def _can_be_read(content: bytes) -> bool:
    with soundfile.SoundFile(io.BytesIO(content)) as file:
        return _has_all(file)


def _ogg_problem(subtype: str, read_at: ReadAt, size: int) -> str:
    """Whether the last page says that it is one, and belongs to the first: libsndfile reads the first stream only."""
    start = max(size - OGG_MOST_OF_PAGE, 0)
    tail = read_at(start, size - start)
    last = tail[tail.rfind(OGG_PAGE) :]
    lengths = last[OGG_HEADER_SIZE : OGG_HEADER_SIZE + last[OGG_SEGMENTS]] if len(last) >= OGG_HEADER_SIZE else b''
    is_whole = lengths and len(last) >= OGG_HEADER_SIZE + len(lengths) + sum(lengths)
    if not (is_whole and last[OGG_FLAGS] & OGG_END_OF_STREAM):
        return 'is cut off: its last page is not marked as the end. Copy or convert it again'
    behind = len(last) - OGG_HEADER_SIZE - len(lengths) - sum(lengths)
    if behind and subtype == 'OPUS':  # then libsndfile reads the file or does not, by turns
        return f'has {behind} bytes behind its end, which hide where that is. Convert it again'
    first = read_at(0, OGG_HEADER_SIZE)
    if first[OGG_SERIAL : OGG_SERIAL + 4] != last[OGG_SERIAL : OGG_SERIAL + 4]:
        return SEVERAL_RECORDINGS
    return ''


def _goes_on_behind_end(read_at: ReadAt, size: int) -> bool:
    """Whether another MP3 stream follows the one whose size the first frame tells; libsndfile reads that only."""
    start = _behind_tags(read_at, 0)
    head = read_at(start, 200)
    place = max(head.find(name) for name in MP3_LENGTH_TAGS)
    tag = head[place:]
    if place < 0 or len(tag) < 16 or not tag[MP3_FLAGS] & MP3_HAS_SIZE:
        return False
    at = MP3_SIZE + (4 if tag[MP3_FLAGS] & MP3_HAS_FRAMES else 0)
    end = start + int.from_bytes(tag[at : at + 4], 'big')
    if end <= start or size - end < 2 * MP3_MOST_OF_FRAME:
        return False
    following = read_at(_behind_tags(read_at, end), 2)
    return len(following) == 2 and following[0] == 0xFF and following[1] & 0xE0 == 0xE0  # a frame's first bits


def _behind_tags(read_at: ReadAt, place: int) -> int:
    """Where the next frame begins: there may be an ID3 tag at the end of what was before, and one in front of it."""
    if read_at(place, 3) == b'TAG':
        place += ID3_AT_END_SIZE
    header = read_at(place, ID3_HEADER_SIZE)
    if header[:3] != b'ID3' or len(header) < ID3_HEADER_SIZE:
        return place
    size = 0
    for byte in header[6:]:  # 7 bits each
        size = size << 7 | byte & 0x7F
    return place + ID3_HEADER_SIZE + size

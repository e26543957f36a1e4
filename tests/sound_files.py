"""Sound files written byte by byte: what their samples are is known without a library that reads or writes them."""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Values = npt.NDArray[np.float64]

GUID_TAIL = bytes.fromhex('000000001000800000aa00389b71')
W64_GUID_TAIL = bytes.fromhex('f3acd3118cd100c04f8edb8a')
W64_RIFF = b'riff' + bytes.fromhex('2e91cf11a5d628db04c10000')


@dataclass(frozen=True)
class Encoding:
    """How one sample is written: `wav`, `au`, `caf` and `aifc` are what formats call it."""

    name: str
    bits: int
    encode: Callable[[Values, str], bytes]  # with the order of bytes, '<' or '>'
    decoded: Callable[[Values], Values]  # what is left of the values
    wav: int
    au: int
    caf: bytes
    aifc: bytes


def _integers(bits: int) -> Callable[[Values], npt.NDArray[np.int64]]:
    top = 2 ** (bits - 1)
    return lambda values: np.clip(np.rint(values * top), -top, top - 1).astype(np.int64)


def _pcm(bits: int, au: int) -> Encoding:
    quantize = _integers(bits)

    def encode(values: Values, order: str) -> bytes:
        numbers = quantize(values)
        size = bits // 8
        in_order: Any = 'little' if order == '<' else 'big'
        return b''.join(int(number).to_bytes(size, in_order, signed=True) for number in numbers.ravel())

    return Encoding(
        f'{bits} bits', bits, encode, lambda values: quantize(values) / 2 ** (bits - 1), 1, au, b'lpcm', b'NONE'
    )


def _floats(bits: int, au: int) -> Encoding:
    kind = f'f{bits // 8}'
    return Encoding(
        f'float {bits}',
        bits,
        lambda values, order: values.astype(order + kind).tobytes(),
        lambda values: values.astype(kind).astype(np.float64),
        3,
        au,
        b'lpcm',
        b'fl32' if bits == 32 else b'fl64',
    )


def mu_law(code: int) -> float:
    """What a byte means (ITU-T G.711, 14 bits, here with full scale 1)."""
    code = ~code & 0xFF
    magnitude = (((code & 15) << 3) + 0x84 << (code >> 4 & 7)) - 0x84
    return (-magnitude if code & 0x80 else magnitude) / 32768


def a_law(code: int) -> float:
    """What a byte means (ITU-T G.711, 13 bits, here with full scale 1)."""
    code ^= 0x55
    segment, magnitude = code >> 4 & 7, (code & 15) << 4
    magnitude = magnitude + 8 if not segment else magnitude + 0x108 << segment - 1
    return (magnitude if code & 0x80 else -magnitude) / 32768


def _companded(name: str, decode: Callable[[int], float], wav: int, au: int, caf: bytes) -> Encoding:
    table = np.array([decode(code) for code in range(256)])

    def nearest(values: Values) -> npt.NDArray[np.uint8]:
        return np.abs(values.reshape(-1, 1) - table).argmin(axis=1).astype(np.uint8)

    def encode(values: Values, order: str) -> bytes:
        return nearest(values).tobytes()

    return Encoding(name, 8, encode, lambda values: table[nearest(values)].reshape(values.shape), wav, au, caf, caf)


ENCODINGS = (
    *(_pcm(bits, au) for bits, au in ((8, 2), (16, 3), (24, 4), (32, 5))),
    _floats(32, 6),
    _floats(64, 7),
    _companded('mu-law', mu_law, 7, 1, b'ulaw'),
    _companded('A-law', a_law, 6, 27, b'alaw'),
)
PCM_16 = ENCODINGS[1]


def chunk(name: bytes, content: bytes, size: int | None = None, *, padded: bool = True, order: str = '<') -> bytes:
    """A chunk of RIFF, or with '>' of IFF; `size` is a false one."""
    padding = b'\0' if padded and len(content) % 2 else b''
    return name + struct.pack(order + 'I', len(content) if size is None else size) + content + padding


def wave_format(
    encoding: Encoding = PCM_16, channels: int = 1, rate: int = 16000, *, extensible: bool = False, order: str = '<'
) -> bytes:
    """The content of `fmt `."""
    width = channels * encoding.bits // 8
    tag = 0xFFFE if extensible else encoding.wav
    fields = struct.pack(order + 'HHIIHH', tag, channels, rate, rate * width, width, encoding.bits)
    if not extensible:
        return fields
    return fields + struct.pack(order + 'HHIH', 22, encoding.bits, 0, encoding.wav) + GUID_TAIL


def riff(*chunks: bytes, size: int | None = None, name: bytes = b'RIFF', order: str = '<') -> bytes:
    """A file of these chunks; `size` is a false one."""
    content = b'WAVE' + b''.join(chunks)
    return name + struct.pack(order + 'I', len(content) if size is None else size) + content


def _wave_data(values: Values, encoding: Encoding, order: str = '<') -> bytes:
    data = encoding.encode(values, order)
    if encoding.bits == 8 and encoding.wav == 1:  # WAV has these unsigned
        data = bytes(byte ^ 0x80 for byte in data)
    return data


def wav(values: Values, encoding: Encoding = PCM_16, rate: int = 16000, *, extensible: bool = False) -> bytes:
    """`values`: `[samples, channels]`, full scale 1."""
    header = wave_format(encoding, values.shape[1], rate, extensible=extensible)
    return riff(chunk(b'fmt ', header), chunk(b'data', _wave_data(values, encoding)))


def wavex(values: Values, encoding: Encoding, rate: int) -> bytes:
    return wav(values, encoding, rate, extensible=True)


def rifx(values: Values, encoding: Encoding, rate: int) -> bytes:
    header = wave_format(encoding, values.shape[1], rate, order='>')
    data = chunk(b'data', _wave_data(values, encoding, '>'), order='>')
    return riff(chunk(b'fmt ', header, order='>'), data, name=b'RIFX', order='>')


def rf64(values: Values, encoding: Encoding, rate: int) -> bytes:
    data = _wave_data(values, encoding)
    header = chunk(b'fmt ', wave_format(encoding, values.shape[1], rate))
    sizes = chunk(b'ds64', struct.pack('<QQQI', len(data) + len(header) + 48, len(data), len(values), 0))
    return riff(sizes, header, chunk(b'data', data, size=0xFFFFFFFF), size=0xFFFFFFFF, name=b'RF64')


def w64_chunk(name: bytes, content: bytes) -> bytes:
    return name + W64_GUID_TAIL + struct.pack('<Q', 24 + len(content)) + content + bytes(-len(content) % 8)


def w64(values: Values, encoding: Encoding, rate: int) -> bytes:
    content = b'wave' + W64_GUID_TAIL
    content += w64_chunk(b'fmt ', wave_format(encoding, values.shape[1], rate))
    content += w64_chunk(b'data', _wave_data(values, encoding))
    return W64_RIFF + struct.pack('<Q', 24 + len(content)) + content


def au(values: Values, encoding: Encoding, rate: int) -> bytes:
    data = encoding.encode(values, '>')
    return b'.snd' + struct.pack('>5I', 24, len(data), encoding.au, rate, values.shape[1]) + data


def _extended(number: int) -> bytes:
    """An 80-bit float of a positive integer."""
    exponent = number.bit_length() - 1
    return struct.pack('>HQ', 16383 + exponent, number << 63 - exponent)


def aiff(values: Values, encoding: Encoding, rate: int) -> bytes:
    """AIFF, or AIFF-C where only that knows the encoding."""
    bits = 16 if encoding.wav in (6, 7) else encoding.bits  # companded: of what comes out
    common = struct.pack('>HIH', values.shape[1], len(values), bits) + _extended(rate)
    compressed = encoding.aifc != b'NONE'
    if compressed:
        common += encoding.aifc + b'\0\0'
    content = b'AIFC' if compressed else b'AIFF'
    content += chunk(b'COMM', common, order='>')
    content += chunk(b'SSND', bytes(8) + encoding.encode(values, '>'), order='>')
    return chunk(b'FORM', content, order='>')


def sowt(values: Values, encoding: Encoding, rate: int) -> bytes:
    """AIFF-C with the lower bytes first, as Apple's programs write it."""
    assert encoding == PCM_16
    common = struct.pack('>HIH', values.shape[1], len(values), 16) + _extended(rate) + b'sowt\0\0'
    sound = chunk(b'SSND', bytes(8) + encoding.encode(values, '<'), order='>')
    return chunk(b'FORM', b'AIFC' + chunk(b'COMM', common, order='>') + sound, order='>')


def caf(values: Values, encoding: Encoding, rate: int) -> bytes:
    width = values.shape[1] * encoding.bits // 8
    flags = 1 if encoding.wav == 3 else 0
    description = struct.pack('>d4sIIIII', rate, encoding.caf, flags, width, 1, values.shape[1], encoding.bits)
    data = bytes(4) + encoding.encode(values, '>')
    return b'caff\0\1\0\0' + _caf_chunk(b'desc', description) + _caf_chunk(b'data', data)


def _caf_chunk(name: bytes, content: bytes) -> bytes:
    return name + struct.pack('>q', len(content)) + content


CONTAINERS: dict[str, Callable[[Values, Encoding, int], bytes]] = {
    'WAV': wav,
    'extensible WAV': wavex,
    'big-endian WAV': rifx,
    'RF64': rf64,
    'W64': w64,
    'AU': au,
    'AIFF': aiff,
    'CAF': caf,
}

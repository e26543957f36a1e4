"""Opus as DeepSpeech's sample databases pack it, to be read by libsndfile.

    packed = length of the samples in bytes (4), rate (4), channels (1), bytes a sample (1), packet, packet, ...
    packet = length (2), bytes; each holds 60 ms

All numbers are big-endian. An Ogg file around the same packets (RFC 3533, RFC 7845) is decoded to what DeepSpeech's
decoder makes of them, from the first sample on.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator

from deepspeech_training.errors import DataError

HEADER = struct.Struct('>IIBB')
RATES = (8000, 12000, 16000, 24000, 48000)  # Opus knows these
CLOCK = 48000  # ticks a second of an Ogg Opus file, whatever the rate
PACKET_MS = 60
PACKETS_A_PAGE = 10  # so that a page can name their sizes
BEGIN, END = 2, 4  # of the stream, in a page's flags
MIRRORED = bytes(int(f'{byte:08b}'[::-1], 2) for byte in range(256))


def ogg_of_packed_opus(name: str, packed: bytes) -> bytes:
    """An Ogg Opus file with the same audio. Raises `DataError` about `name` where it is not packed like that."""
    if len(packed) < HEADER.size:
        raise DataError(f'{name}: is cut off: {len(packed)} bytes are no Opus audio')
    length, rate, channels, width = HEADER.unpack_from(packed)
    if rate not in RATES or channels not in (1, 2) or width != 2:
        raise DataError(f'{name}: is no Opus audio: {rate} Hz, {channels} channels, {8 * width} bits')
    packets = list(_packets(name, packed))
    samples = length // (channels * width)
    if samples * 1000 > len(packets) * PACKET_MS * rate:
        raise DataError(f'{name}: is cut off: {len(packets)} Opus packets are less than {samples / rate:.2f} s')
    return _ogg(packets, rate, channels, samples * CLOCK // rate)


def _packets(name: str, packed: bytes) -> Iterator[bytes]:
    place = HEADER.size
    while place < len(packed):
        size = int.from_bytes(packed[place : place + 2], 'big')
        packet = packed[place + 2 : place + 2 + size]
        if not size or len(packet) < size:
            raise DataError(f'{name}: is cut off or damaged: an Opus packet at byte {place} is not whole')
        yield packet
        place += 2 + size


def _ogg(packets: list[bytes], rate: int, channels: int, ticks: int) -> bytes:
    head = b'OpusHead' + struct.pack('<BBHIhB', 1, channels, 0, rate, 0, 0)  # nothing is skipped
    vendor = b'deepspeech'
    tags = b'OpusTags' + struct.pack('<I', len(vendor)) + vendor + struct.pack('<I', 0)
    pages = [_page([head], 0, BEGIN, 0), _page([tags], 1, 0, 0)]
    for start in range(0, len(packets), PACKETS_A_PAGE):
        some = packets[start : start + PACKETS_A_PAGE]
        is_last = start + PACKETS_A_PAGE >= len(packets)
        done = (start + len(some)) * PACKET_MS * CLOCK // 1000
        pages.append(_page(some, len(pages), END * is_last, ticks if is_last else done))
    return b''.join(pages)


def _page(packets: list[bytes], number: int, flags: int, granule: int) -> bytes:
    sizes = b''.join(b'\xff' * (len(packet) // 255) + bytes([len(packet) % 255]) for packet in packets)
    head = struct.pack('<4sBBqIIIB', b'OggS', 0, flags, granule, 1, number, 0, len(sizes))
    page = bytearray(head + sizes + b''.join(packets))
    page[22:26] = struct.pack('<I', _crc(page))
    return bytes(page)


def _crc(content: bytes | bytearray) -> int:
    """Ogg's CRC-32, by that of zlib, which takes the bits of each byte and gives those of the sum in reverse."""
    mirrored = zlib.crc32(content.translate(MIRRORED), 0xFFFFFFFF) ^ 0xFFFFFFFF
    return int(f'{mirrored:032b}'[::-1], 2)

"""Which words a KenLM binary knows, without KenLM: it has their hashes."""

from __future__ import annotations

import mmap
import struct

import numpy as np
import numpy.typing as npt

PARAMETERS = 0x58  # where they are: order, multiplier, kind of model, whether there are words, version
SORTED = range(2, 6)  # the kinds of models with a sorted array of hashes (tries)


def vocabulary_hashes(content: mmap.mmap) -> npt.NDArray[np.uint64] | None:
    """The hashes of the language model's words; None where they are not in a sorted array."""
    place = hashes_place(content)
    if place is None:
        return None
    (count,) = struct.unpack_from('<Q', content, place - 8)
    return np.frombuffer(content, '<u8', count, place).copy()  # the file is closed soon


def hashes_place(content: mmap.mmap) -> int | None:
    """Where the sorted array of hashes begins, behind its length; None where there is none."""
    order, kind = struct.unpack_from('<B7xI', content, PARAMETERS)
    if kind not in SORTED:
        return None
    position = PARAMETERS + struct.calcsize('<B7xII4x') + 8 * order  # behind the counts of n-grams
    return int(-(-position // 8) * 8 + 8)


def named_words(content: mmap.mmap) -> tuple[int, tuple[str, ...]] | None:
    """Where the names of the words begin, at the end of the file, and the names; None where there are none.

    Each is followed by a zero byte, the unknown word comes first. Those in angle brackets are left out.
    """
    place = content.rfind(b'<unk>\0')
    if place < 0:
        return None
    words = content[place:].decode(errors='replace').split('\0')[1:-1]
    return place, tuple(word for word in words if word and not word.startswith('<'))


def murmur_hash(key: bytes) -> int:
    """MurmurHash64A (Appleby) with seed 0, which is KenLM's for words."""
    factor, mask = 0xC6A4A7935BD1E995, 2**64 - 1
    result = len(key) * factor & mask
    for start in range(0, len(key) - 7, 8):
        block = int.from_bytes(key[start : start + 8], 'little') * factor & mask
        block = (block ^ block >> 47) * factor & mask
        result = (result ^ block) * factor & mask
    if rest := key[len(key) // 8 * 8 :]:
        result = (result ^ int.from_bytes(rest, 'little')) * factor & mask
    result = (result ^ result >> 47) * factor & mask
    return result ^ result >> 47

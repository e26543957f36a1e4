"""Valid inputs made wrong, by random numbers from a seed."""

from __future__ import annotations

import random
from collections.abc import Sequence

INTEGERS = (0, 1, 2, 255, 256, 2**15, 2**16 - 1, 2**31 - 1, 2**31, 2**32 - 1, 2**62, 2**63 - 1, 2**64 - 1)
HEADER_SIZE = 120
"""Bytes at the beginning that are changed as often as all others."""

WORDS = (
    *('nan', 'inf', '-inf', '-1', '0', '-0.0', '1e999', '1e-320', '1e40', '2', '0.5', '99999999999999999999', '0x10'),
    *('true', 'null', '1_0', '١٢', '1,5', '', ' ', ',', '"', "'", '""', '\n', '\r', '\r\n', '\0', '\t', ';', '\\'),
    *('=', '~', ':', '[', ']', '{', '}', '%s', '{0}', '../..', '/dev/zero', '/', 'ä', 'a\u0308', '\u2028'),
    *('😀', '\ufeff'),
)  # fmt: skip


def mutated_bytes(content: bytes, others: Sequence[bytes], chance: random.Random) -> bytes:
    """`content` with one to four changes; `others` lend it parts."""
    changed = bytearray(content)
    for _ in range(chance.choice((1, 1, 1, 2, 3, 4))):
        _change_bytes(changed, others, chance)
    return bytes(changed)


def _change_bytes(content: bytearray, others: Sequence[bytes], chance: random.Random) -> None:
    near = min(len(content), HEADER_SIZE) if chance.random() < 0.6 else len(content)
    place = chance.randrange(near) if near else 0
    length = chance.choice((1, 2, 3, 4, 8, 100, 1000))
    kind = chance.randrange(8)
    if kind == 0:
        content[place : place + 1] = bytes([chance.choice((0, 0x7F, 0x80, 0xFF, chance.randrange(256)))])
    elif kind == 1 and content:
        content[place] ^= 1 << chance.randrange(8)
    elif kind == 2:
        size = chance.choice((2, 4, 8))
        number = chance.choice((*INTEGERS, len(content), len(content) + 1)) % 2 ** (8 * size)
        content[place : place + size] = number.to_bytes(size, 'little' if chance.random() < 0.5 else 'big')
    elif kind == 3:
        del content[place : place + length]
    elif kind == 4:
        content[place:place] = content[place : place + length]
    elif kind == 5:
        content[place:place] = chance.randbytes(length)
    elif kind == 6:
        del content[chance.randrange(len(content) + 1) :]
    else:
        other = chance.choice(others) if others else b''
        start = chance.randrange(len(other) + 1)
        content[place : place + length] = other[start : start + length]


def mutated_text(text: str, chance: random.Random) -> str:
    """`text` with one to four changes, of the kind that people and programs make."""
    for _ in range(chance.choice((1, 1, 2, 3, 4))):
        place, length = chance.randrange(len(text) + 1), chance.choice((1, 1, 2, 5, 20))
        kind = chance.randrange(5)
        if kind == 0:
            text = text[:place] + text[place + length :]
        elif kind == 1:
            text = text[:place] + chance.choice(WORDS) + text[place:]
        elif kind == 2:
            text = text[:place] + chance.choice(WORDS) + text[place + length :]
        elif kind == 3:
            text = text[:place] + text[place : place + length] + text[place:]
        else:
            text = _other_number(text, chance)
    return text


def _other_number(text: str, chance: random.Random) -> str:
    """One of the numbers in `text`, if there are any, replaced."""
    starts = [place for place, character in enumerate(text) if character.isdigit()]
    if not starts:
        return text
    end = start = chance.choice(starts)
    while end < len(text) and (text[end].isdigit() or text[end] == '.'):
        end += 1
    return text[:start] + chance.choice(WORDS) + text[end:]

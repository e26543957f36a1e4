"""eSpeak NG as a shared library, by ctypes. It is not thread safe, and it remembers: see `corpus` for what follows.

Constants and signatures: `speak_lib.h` and `espeak_ng.h` of eSpeak NG 1.52.
"""

from __future__ import annotations

import ctypes
import os

from deepspeech_training.errors import DataError, UserError

SYNCHRONOUS = 2  # AUDIO_OUTPUT_SYNCHRONOUS: samples go to the callback, in this thread
DO_NOT_EXIT = 0x8000  # espeakINITIALIZE_DONT_EXIT
UTF8 = 1  # espeakCHARS_UTF8
RATE, PITCH = 1, 3  # espeakRATE, espeakPITCH
RATES = (80, 450)  # words a minute
PITCHES = (0, 99)

SynthCallback = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(ctypes.c_short), ctypes.c_int, ctypes.c_void_p)


class VoiceRecord(ctypes.Structure):
    """`espeak_VOICE`. `languages` is a list of one priority byte and one zero-terminated code each, ended by a 0."""

    _fields_ = (
        ('name', ctypes.c_char_p),
        ('languages', ctypes.c_void_p),
        ('identifier', ctypes.c_char_p),
        ('gender', ctypes.c_ubyte),
        ('age', ctypes.c_ubyte),
        ('variant', ctypes.c_ubyte),
        ('reserved', ctypes.c_ubyte),
        ('score', ctypes.c_int),
        ('spare', ctypes.c_void_p),
    )


class Espeak:
    """The library, initialized. One a process: its state is the process's."""

    def __init__(self) -> None:
        """Raises `UserError` when the library or its data are not there."""
        try:
            import espeakng_loader
        except ImportError as error:
            raise UserError("eSpeak NG is missing: pip install -e '.[demo]'") from error
        data = espeakng_loader.get_data_path()
        self._variants_folder = os.path.join(data, 'voices', '!v')
        self._library = ctypes.CDLL(espeakng_loader.get_library_path())
        self._library.espeak_ListVoices.restype = ctypes.POINTER(ctypes.POINTER(VoiceRecord))
        self._library.espeak_ng_SetRandSeed.argtypes = [ctypes.c_long]
        self._chunks: list[bytes] = []
        self._callback = SynthCallback(self._receive)  # kept, for the library holds only a pointer
        self.sample_rate = self._library.espeak_Initialize(
            SYNCHRONOUS, 0, os.fsencode(os.path.dirname(data)), DO_NOT_EXIT
        )
        if self.sample_rate <= 0:
            raise UserError(f'eSpeak NG cannot read its data in {data} (it takes no path of more than 150 characters)')
        self._library.espeak_SetSynthCallback(self._callback)

    def languages(self) -> dict[str, str]:
        """For every language code the name of the voice that speaks it best, for `speak`."""
        best: dict[str, tuple[int, str]] = {}
        records = self._library.espeak_ListVoices(None)
        position = 0
        while records[position]:
            record = records[position].contents
            voice = os.path.basename(record.identifier.decode())
            for priority, code in language_codes(record.languages):
                if code not in best or priority < best[code][0]:
                    best[code] = (priority, voice)
            position += 1
        return {code: best[code][1] for code in sorted(best)}

    def variants(self) -> list[str]:
        """The names of all speakers."""
        return sorted(os.listdir(self._variants_folder))

    def speak(self, text: str, voice: str, rate: int, pitch: int, seed: int) -> bytes:
        """Samples at `sample_rate`: 16 bits, little endian.

        `voice` is a value of `languages()`, with `+variant` where a variant speaks; `rate` in words a minute (80 to
        450), `pitch` from 0 to 99; `seed` for the noise in the voice. Raises `DataError` when nothing is spoken.
        """
        self._chunks.clear()
        if self._library.espeak_SetVoiceByName(voice.encode()) != 0:
            raise DataError(f'eSpeak NG cannot speak with the voice {voice!r}')
        self._library.espeak_SetParameter(RATE, rate, 0)
        self._library.espeak_SetParameter(PITCH, pitch, 0)
        self._library.espeak_ng_SetRandSeed(seed)
        encoded = text.encode()
        self._library.espeak_Synth(encoded, len(encoded) + 1, 0, 1, 0, UTF8, None, None)
        self._library.espeak_Synchronize()
        samples = b''.join(self._chunks)
        if not samples.strip(b'\0'):
            raise DataError(f'eSpeak NG says nothing for {text!r} with the voice {voice!r}')
        return samples

    def _receive(self, samples: ctypes._Pointer[ctypes.c_short], count: int, events: int | None) -> int:
        if count > 0 and samples:
            self._chunks.append(ctypes.string_at(samples, 2 * count))
        return 0


def language_codes(address: int) -> list[tuple[int, str]]:
    """The priorities (1 is the best) and codes that lie at an address."""
    codes = []
    while priority := ctypes.string_at(address, 1)[0]:
        code = ctypes.string_at(address + 1)
        codes.append((priority, code.decode()))
        address += len(code) + 2
    return codes

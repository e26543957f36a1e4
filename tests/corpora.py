"""Tiny archives with the layouts of published corpora. Each utterance is a tone, so that none is mixed up."""

from __future__ import annotations

import io
import os
import tarfile
import zipfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import soundfile

from deepspeech_training.importing.archives import AR_MAGIC

TONE = 300.0  # Hz, of utterance 0
STEP = 50.0  # Hz from one utterance to the next


@dataclass(frozen=True)
class Expected:
    """An utterance as it must be after the import."""

    split: str
    transcript: str
    tone: int  # the number of its tone
    seconds: float
    speaker: str = ''


@dataclass(frozen=True)
class TinyCorpus:
    """A corpus for a test."""

    script: str
    archives: Callable[[Path], list[Path]]  # makes them in a folder
    expected: tuple[Expected, ...]  # with the corpus's own splits; '' where it has none
    arguments: tuple[str, ...] = ()
    rejects: int = 0


def tone(number: int, seconds: float, rate: int) -> npt.NDArray[np.float32]:
    """A tone."""
    times = np.arange(round(seconds * rate)) / rate
    return (0.3 * np.sin(2 * np.pi * (TONE + STEP * number) * times)).astype(np.float32)


def tone_of(samples: npt.NDArray[np.float32], rate: int) -> int:
    """The number of the tone."""
    spectrum = np.abs(np.fft.rfft(samples * np.hanning(len(samples)), n=16 * len(samples)))
    frequency = spectrum.argmax() * rate / (16 * len(samples))
    return round((frequency - TONE) / STEP)


def sound(path: Path, number: int, seconds: float = 0.8, rate: int = 16000, channels: int = 1) -> Path:
    """Writes a tone in the format of the suffix; .sph is NIST's."""
    path.parent.mkdir(parents=True, exist_ok=True)
    kinds = {'.sph': 'NIST', '.mp3': 'MP3', '.flac': 'FLAC', '.wav': 'WAV'}
    samples = np.stack([tone(number, seconds, rate)] * channels, axis=1)
    soundfile.write(path, samples, rate, format=kinds[path.suffix])
    return path


def text(path: Path, content: str) -> Path:
    """Writes a text."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content, encoding='utf-8')
    return path


def pack(folder: Path, archive: Path) -> Path:
    """The content of a folder as an archive of the kind that the name says, or .tar.gz."""
    if archive.suffix == '.zip':
        with zipfile.ZipFile(archive, 'w', zipfile.ZIP_DEFLATED) as zipped:
            for path in sorted(folder.rglob('*')):
                zipped.write(path, path.relative_to(folder))
    elif archive.suffix == '.deb':
        archive.write_bytes(debian_package('data.tar.xz', packed(folder, 'xz')))
    else:
        kind = {'.tar': '', '.bz2': 'bz2', '.xz': 'xz'}.get(archive.suffix, 'gz')
        archive.write_bytes(packed(folder, kind))
    return archive


def packed(folder: Path, compression: str) -> bytes:
    """The content of a folder as a tar file."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode=f'w:{compression}') as tar:  # type: ignore[call-overload]
        for path in sorted(folder.iterdir()):
            tar.add(path, f'./{path.name}')
    return buffer.getvalue()


def debian_package(name: str, data: bytes) -> bytes:
    """An ar archive as dpkg-deb makes them."""
    content = AR_MAGIC
    for member, body in (('debian-binary', b'2.0\n'), ('control.tar.xz', b'odd'), (name, data)):
        content += f'{member:<16}{0:<12}{0:<6}{0:<6}{100644:<8}{len(body):<10}`\n'.encode()
        content += body + b'\n' * (len(body) % 2)
    return content


def ldc93s1(folder: Path) -> list[Path]:
    """LDC93S1: two files, no archive."""
    sound(folder / 'LDC93S1.wav', 0, 2.9)
    text(folder / 'LDC93S1.txt', '0 46797 She had your dark suit in greasy wash water all year.\n')
    return [folder]


def common_voice(folder: Path) -> list[Path]:
    """Common Voice 17: tables in which quotation marks are nothing special, and MP3 at 32 or 48 kHz."""
    root = folder / 'tree' / 'cv-corpus-17.0-2024-03-15' / 'xx'
    columns = ['client_id', 'path', 'sentence_id', 'sentence', 'sentence_domain', 'up_votes', 'down_votes']
    columns += ['age', 'gender', 'accents', 'variant', 'locale', 'segment']
    rows = {
        'train': [('anna', 'c_0.mp3', '"So, is it.'), ('anna', 'c_1.mp3', 'Wie groß?')],
        'dev': [('bert', 'c_2.mp3', 'Ein Wort – zwei Wörter')],
        'test': [('cleo', 'c_3.mp3', 'Kein Laut'), ('cleo', 'c_4.mp3', 'Im Jahr 1984.')],
        'invalidated': [('dora', 'c_5.mp3', 'Falsch')],
    }
    rows['validated'] = [*rows['train'], *rows['dev'], *rows['test'], ('emil', 'c_6.mp3', 'Noch einer')]
    for split, lines in rows.items():
        table = [dict(zip(('client_id', 'path', 'sentence'), line, strict=True)) for line in lines]
        body = ['\t'.join(row.get(name, 'x') for name in columns) for row in table]
        text(root / f'{split}.tsv', '\n'.join(['\t'.join(columns), *body]) + '\n')
    text(root / 'clip_durations.tsv', 'clip\tduration[ms]\nc_0.mp3\t800\n')
    for number in range(7):
        sound(root / 'clips' / f'c_{number}.mp3', number, rate=48000 if number % 2 else 32000)
    return [pack(folder / 'tree', folder / 'cv-corpus-17.0-2024-03-15-xx.tar.gz')]


def librispeech(folder: Path) -> list[Path]:
    """LibriSpeech: an archive for each part."""
    number = 0
    archives = []
    for part, speaker in (('dev-clean', '84'), ('train-clean-100', '103')):
        root = folder / part / 'LibriSpeech'
        chapter = root / part / speaker / '1240'
        lines = []
        for index in range(2):
            sound(chapter / f'{speaker}-1240-{index:04}.flac', number)
            lines.append(f"{speaker}-1240-{index:04} IT'S UTTERANCE {'ABCD'[number]}\n")
            number += 1
        text(chapter / f'{speaker}-1240.trans.txt', ''.join(lines))
        text(root / 'SPEAKERS.TXT', f'{speaker} | F | {part} | 25.03 | Somebody\n')
        archives.append(pack(folder / part, folder / f'{part}.tar.gz'))
    return archives


def talk(folder: Path, name: str, first: int, lines: Iterable[str]) -> None:
    """A talk of TED-LIUM: every two seconds another tone, 16 kHz."""
    stm = [line.format(name=name) for line in lines]
    text(folder / 'stm' / f'{name}.stm', '\n'.join(stm) + '\n')
    samples = np.concatenate([tone(first + number, 2.0, 16000) for number in range(4)])
    (folder / 'sph').mkdir(parents=True, exist_ok=True)
    soundfile.write(folder / 'sph' / f'{name}.sph', samples, 16000, format='NIST', subtype='PCM_16')


LINES = (
    ';; a comment',
    "{name} 1 {name} 0.25 1.75 <o,f0,male> there {{SMACK}} it 's the(2) first",
    '{name} 1 {name} 2.5 3.5 <o,f0,male> the second word',
    '{name} 1 inter_segment_gap 3.5 4.2 <o,f0,> ignore_time_segment_in_scoring',
    '{name} 1 {name} 4.2 5.8 <o,f0,male> a word is <unk> here',
)


def tedlium_2(folder: Path) -> list[Path]:
    """TED-LIUM 2: TEDLIUM_release2/{train,dev,test}/{stm,sph}."""
    root = folder / 'tree' / 'TEDLIUM_release2'
    for number, split in enumerate(('train', 'dev', 'test')):
        talk(root / split, f'Speaker{split.title()}_2010', 4 * number, LINES)
    return [pack(folder / 'tree', folder / 'TEDLIUM_release2.tar.gz')]


def tedlium_3(folder: Path) -> list[Path]:
    """TED-LIUM 3: all of train in data/, and the older split, with links to it, in legacy/."""
    root = folder / 'tree' / 'TEDLIUM_release-3'
    talk(root / 'data', 'SpeakerTrain_2010', 0, LINES)
    for number, split in ((1, 'dev'), (2, 'test')):
        talk(root / 'legacy' / split, f'Speaker{split.title()}_2010', 4 * number, LINES)
    for kind in ('stm', 'sph'):
        (root / 'legacy/train' / kind).mkdir(parents=True)
        os.symlink(
            f'../../../data/{kind}/SpeakerTrain_2010.{kind}', root / f'legacy/train/{kind}/SpeakerTrain_2010.{kind}'
        )
    return [pack(folder / 'tree', folder / 'TEDLIUM_release-3.tgz')]


TED_EXPECTED = tuple(
    Expected(split, words, 4 * number + index, seconds, f'Speaker{split.title()}_2010')
    for number, split in enumerate(('train', 'dev', 'test'))
    for index, (words, seconds) in enumerate((("there it's the first", 1.5), ('the second word', 1.0)))
)


def vctk(folder: Path) -> list[Path]:
    """VCTK 0.92: two microphones, FLAC at 48 kHz; 12 speakers, one of which has no text."""
    root = folder / 'tree'
    for number in range(12):
        speaker = f'p{225 + number}'
        sound(root / 'wav48_silence_trimmed' / speaker / f'{speaker}_001_mic1.flac', number, rate=48000)
        sound(root / 'wav48_silence_trimmed' / speaker / f'{speaker}_001_mic2.flac', number + 20, rate=48000)
        if number < 11:
            text(root / 'txt' / speaker / f'{speaker}_001.txt', 'Please call Stella.\n')
    text(root / 'speaker-info.txt', 'ID  AGE  GENDER  ACCENTS  REGION COMMENTS\n')
    return [pack(root, folder / 'VCTK-Corpus-0.92.zip')]


def aishell(folder: Path) -> list[Path]:
    """AISHELL-1: archives in the archive, one a speaker."""
    root = folder / 'tree' / 'data_aishell'
    lines = []
    for number, (split, speaker) in enumerate((('train', 'S0002'), ('dev', 'S0724'), ('test', 'S0764'))):
        name = f'BAC009{speaker}W0122'
        sound(folder / speaker / split / speaker / f'{name}.wav', number)
        sound(folder / speaker / split / speaker / f'BAC009{speaker}W0999.wav', 30)  # without transcript
        (root / 'wav').mkdir(parents=True, exist_ok=True)
        pack(folder / speaker, root / 'wav' / f'{speaker}.tar.gz')
        lines.append(f'{name} 而 对 楼市 {"一二三"[number]}\n')
    text(root / 'transcript' / 'aishell_transcript_v0.8.txt', ''.join(lines))
    return [pack(folder / 'tree', folder / 'data_aishell.tgz')]


def m_ailabs(folder: Path) -> list[Path]:
    """M-AILABS: speakers and books, and a mix."""
    root = folder / 'tree' / 'de_DE' / 'by_book'
    for number, book in enumerate(('male/karl/buch_eins', 'female/eva/buch_zwei', 'mix/buch_drei')):
        sound(root / book / 'wavs' / 'b_01_f000001.wav', number)
        text(root / book / 'metadata.csv', 'b_01_f000001|Am 1. Mai, "früh".|Am ersten Mai, "früh".\n')
    return [pack(folder / 'tree', folder / 'de_DE.tgz')]


def voxforge(folder: Path) -> list[Path]:
    """VoxForge: a folder of archives, one a session; WAV or FLAC."""
    sessions = ('Aaron-20080318-kdl', 'Aaron-20080318-lbb', 'anonymous-20090101-abc')
    (folder / 'sessions').mkdir(parents=True)
    for number, session in enumerate(sessions):
        kind = 'flac' if number == 1 else 'wav'
        sound(folder / session / session / kind / f'a000{number}.{kind}', number)
        text(
            folder / session / session / 'etc' / 'PROMPTS',
            f'{session}/mfc/a000{number} AUTHOR NUMBER {"XYZ"[number]}\n',
        )
        pack(folder / session, folder / 'sessions' / f'{session}.tgz')
    latin = folder / sessions[0] / sessions[0] / 'etc' / 'PROMPTS'
    latin.write_bytes(latin.read_bytes() + f'{sessions[0]}/mfc/a0009 CAF\u00c9 OL\u00c9\n'.encode('latin-1'))
    sound(folder / sessions[0] / sessions[0] / 'wav' / 'a0009.wav', 9)
    pack(folder / sessions[0], folder / 'sessions' / f'{sessions[0]}.tgz')
    return [folder / 'sessions']


def digits(folder: Path) -> list[Path]:
    """The Free Spoken Digit Dataset: 8 kHz."""
    root = folder / 'tree' / 'free-spoken-digit-dataset-1.0.10'
    for number, (digit, speaker, index) in enumerate(
        ((0, 'jackson', 0), (7, 'theo', 5), (9, 'theo', 49), (1, 'lucas', 10))
    ):
        sound(root / 'recordings' / f'{digit}_{speaker}_{index}.wav', number, 0.5, 8000)
    text(root / 'README.md', '# Free Spoken Digit Dataset\n')
    return [pack(folder / 'tree', folder / 'v1.0.10.zip')]


def asterisk(folder: Path) -> list[Path]:
    """Asterisk's prompts: two Debian packages."""
    voice = folder / 'wav' / 'usr/share/asterisk/sounds/ru_RU_f_IvrvoiceRU'
    for number, name in enumerate(('activated', 'digits/1', 'digits/day-0', 'beep', 'conf-menu')):
        sound(voice / f'{name}.wav', number, rate=8000)
    lines = '; Core\n\nactivated: Активировано\ndigits/1: один\ndigits/day-0: Воскресенье.\n'
    lines += 'beep: [a tone]\nconf-menu: нажмите 1\n'
    path = folder / 'doc' / 'usr/share/doc/asterisk-core-sounds-ru' / 'core-sounds-ru.txt'
    text(path, lines)
    return [
        pack(folder / 'wav', folder / 'asterisk-core-sounds-ru-wav_1.6.1-1_all.deb'),
        pack(folder / 'doc', folder / 'asterisk-core-sounds-ru_1.6.1-1_all.deb'),
    ]


def recordings(folder: Path) -> list[Path]:
    """Somebody's own recordings beside texts, in several formats and folders."""
    root = folder / 'tree' / 'mine'
    for number, name in enumerate(('eva/a.wav', 'eva/b.mp3', 'karl/a.flac', 'karl/a-2.wav')):
        path = sound(root / name, number, rate=44100, channels=2)
        text(path.with_suffix('.txt'), f'Utterance\nof {"abcd"[number]}.\n')
    text(root / 'notes.txt', 'no audio')
    return [pack(folder / 'tree', folder / 'mine.zip')]


def with_table(folder: Path) -> list[Path]:
    """Somebody's own recordings and a table."""
    for number in range(3):
        sound(folder / 'tree' / 'audio' / f'{number}.wav', number, rate=22050)
    rows = 'who;file;said;part\neva;audio/0.wav;Null!;train\neva;audio/1.wav;eins;train\n'
    rows += 'karl;audio/2.wav;"zwei; drei";held-out\n'
    text(folder / 'tree' / 'list.csv', rows)
    return [folder / 'tree']


TABLE_ARGUMENTS = (
    *('--table', 'list.csv', '--audio_column', 'file', '--transcript_column', 'said'),
    *('--speaker_column', 'who', '--split_column', 'part'),
)

CORPORA = {
    'ldc93s1': TinyCorpus(
        'import_ldc93s1',
        ldc93s1,
        (Expected('ldc93s1', 'she had your dark suit in greasy wash water all year', 0, 2.9),),
    ),
    'common-voice': TinyCorpus(
        'import_cv2',
        common_voice,
        (
            Expected('train', 'so is it', 0, 0.8, 'anna'),
            Expected('train', 'wie groß', 1, 0.8, 'anna'),
            Expected('dev', 'ein wort zwei wörter', 2, 0.8, 'bert'),
            Expected('test', 'kein laut', 3, 0.8, 'cleo'),
        ),
        rejects=1,
    ),
    'common-voice-all': TinyCorpus(
        'import_cv2',
        common_voice,
        (
            Expected('dev', 'ein wort zwei wörter', 2, 0.8, 'bert'),
            Expected('train-all', 'so is it', 0, 0.8, 'anna'),
            Expected('train-all', 'wie groß', 1, 0.8, 'anna'),
            Expected('train-all', 'noch einer', 6, 0.8, 'emil'),
        ),
        ('--splits', 'train-all,dev'),
    ),
    'librispeech': TinyCorpus(
        'import_librispeech',
        librispeech,
        tuple(
            Expected(part, f"it's utterance {'abcd'[number]}", number, 0.8, speaker)
            for number, (part, speaker) in enumerate([('dev-clean', '84')] * 2 + [('train-clean-100', '103')] * 2)
        ),
    ),
    'ted-2': TinyCorpus('import_ted', tedlium_2, TED_EXPECTED, rejects=3),
    'ted-3': TinyCorpus('import_ted', tedlium_3, TED_EXPECTED, rejects=3),
    'vctk': TinyCorpus(
        'import_vctk',
        vctk,
        tuple(Expected('', 'please call stella', number, 0.8, f'p{225 + number}') for number in range(11)),
    ),
    'aishell': TinyCorpus(
        'import_aishell',
        aishell,
        (
            Expected('train', '而对楼市一', 0, 0.8, 'S0002'),
            Expected('dev', '而对楼市二', 1, 0.8, 'S0724'),
            Expected('test', '而对楼市三', 2, 0.8, 'S0764'),
        ),
    ),
    'm-ailabs': TinyCorpus(
        'import_m-ailabs',
        m_ailabs,
        tuple(
            Expected('', 'am ersten mai früh', number, 0.8, speaker)
            for number, speaker in enumerate(('karl', 'eva', ''))
        ),
    ),
    'voxforge': TinyCorpus(
        'import_voxforge',
        voxforge,
        (
            Expected('', 'author number x', 0, 0.8, 'Aaron'),
            Expected('', 'author number y', 1, 0.8, 'Aaron'),
            Expected('', 'author number z', 2, 0.8, 'anonymous-20090101-abc'),
            Expected('', 'café olé', 9, 0.8, 'Aaron'),
        ),
    ),
    'fsdd': TinyCorpus(
        'import_fsdd',
        digits,
        (
            Expected('test', 'zero', 0, 0.5, 'jackson'),
            Expected('dev', 'seven', 1, 0.5, 'theo'),
            Expected('train', 'nine', 2, 0.5, 'theo'),
            Expected('train', 'one', 3, 0.5, 'lucas'),
        ),
    ),
    'asterisk': TinyCorpus(
        'import_asterisk',
        asterisk,
        (
            Expected('', 'активировано', 0, 0.8),
            Expected('', 'один', 1, 0.8),
            Expected('', 'воскресенье', 2, 0.8),
        ),
        rejects=2,
    ),
    'folder': TinyCorpus(
        'import_folder',
        recordings,
        tuple(
            Expected('', f'utterance of {"abcd"[number]}', number, 0.8, speaker)
            for number, speaker in enumerate(('eva', 'eva', 'karl', 'karl'))
        ),
        ('--folders_are_speakers',),
    ),
    'table': TinyCorpus(
        'import_folder',
        with_table,
        (
            Expected('train', 'null', 0, 0.8, 'eva'),
            Expected('train', 'eins', 1, 0.8, 'eva'),
            Expected('held-out', 'zwei drei', 2, 0.8, 'karl'),
        ),
        TABLE_ARGUMENTS,
    ),
}
"""Each importer, on what it is for."""

"""From the words of the command line to values.

absl's value parsers decide what an integer or a boolean is. The walk over the words is our own, since its
errors have to say more than absl's: which word is left over and after which flag, the file and line
of a --flagfile, and all problems at once.
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from absl import flags as absl_flags

from deepspeech_training.errors import FlagError
from deepspeech_training.flags.spec import Flag
from deepspeech_training.flags.table import FLAGS, RENAMED

HELP_FLAGS = ('help', 'h', '?', 'helpfull', 'helpshort')
"""All of them show all flags."""

FLAGFILE = 'flagfile'

FALSE_WORDS = ('false', 'f', '0', 'no', 'off')
TRUE_WORDS = ('true', 't', '1', 'yes', 'on')

EXPECTED = {'integer': 'a whole number', 'float': 'a number', 'boolean': 'true or false'}


class Word(NamedTuple):
    """A word of the command line or a line of a flag file."""

    text: str
    origin: str = ''  # ' (FILE, line N)' for words from a flag file

    def flag_name(self) -> str | None:
        """The name behind the dashes, or None when the word is no flag."""
        if not self.text.startswith('-') or not self.text.strip('-'):
            return None
        return self.text.lstrip('-').partition('=')[0]


@dataclass
class ParsedFlags:
    """The value of every flag in the table, the names of those that were given, and whether help was asked for."""

    values: dict[str, Any] = field(default_factory=lambda: {name: flag.default for name, flag in FLAGS.items()})
    given: set[str] = field(default_factory=set)
    help: bool = False


def parse(args: Sequence[str]) -> ParsedFlags:
    """Parses the command line `args`, without the program's name.

    Raises `FlagError` with every word that cannot be understood: unknown flags with the nearest
    known ones, values that do not fit, values that are missing, words that belong to no flag.
    """
    parser = _Parser(list(_expand_flagfiles([Word(arg) for arg in args], ())))
    parser.run()
    if parser.problems and not parser.parsed.help:
        raise FlagError('\n'.join(parser.problems))
    return parser.parsed


class _Parser:
    def __init__(self, words: list[Word]) -> None:
        self._words = words
        self._next = 0
        self._flag_text = ''  # the last flag as it was written, with its value
        self._flag: Flag | None = None  # the last flag, where it is known
        self._value = ''
        self.problems: list[str] = []
        self.parsed = ParsedFlags()

    def run(self) -> None:
        while self._next < len(self._words):
            word = self._words[self._next]
            self._next += 1
            name = word.flag_name()
            if name is None:
                self._leftover([word, *self._take_values()])
            elif name in HELP_FLAGS:
                self.parsed.help = True
            else:
                self._take_flag(word, name)

    def _take_flag(self, word: Word, name: str) -> None:
        _, equals, self._value = word.text.partition('=')
        flag, negated = _find(name)
        self._flag_text, self._flag = word.text, flag
        if flag is None:
            self.problems.append(f'--{name}: no such flag{_suggestion(name)}{word.origin}')
            if not equals:
                self._take_values()  # its value, most likely: not worth another error
        elif negated and equals:
            self.problems.append(f'{word.text}: --no{flag.name} takes no value{word.origin}')
        elif flag.is_boolean and not equals:
            self._set(flag, 'false' if negated else 'true', word)
        elif equals:
            self._set(flag, self._value, word)
        else:
            self._take_value(flag, word)

    def _take_value(self, flag: Flag, word: Word) -> None:
        following = self._words[self._next] if self._next < len(self._words) else None
        if following is None or _is_known(following):
            behind = f'; the next word is {following.text}' if following else ''
            self.problems.append(f'--{flag.name}: its value is missing{behind}; write --{flag.name}=VALUE{word.origin}')
            return
        self._next += 1
        self._value = following.text
        self._flag_text += f' {self._value}'
        self._set(flag, self._value, word)

    def _take_values(self) -> list[Word]:
        """The words up to the next flag."""
        first = self._next
        while self._next < len(self._words) and self._words[self._next].flag_name() is None:
            self._next += 1
        return self._words[first : self._next]

    def _set(self, flag: Flag, text: str, word: Word) -> None:
        try:
            value = _value_parser(flag).parse(text)
        except ValueError:
            allowed = f'one of {", ".join(flag.values)}' if flag.kind == 'enum' else EXPECTED[flag.kind]
            self.problems.append(f'--{flag.name}={text}: must be {allowed}{word.origin}')
            return
        if flag.kind == 'multi_string':
            value = [*(self.parsed.values[flag.name] or []), value]
        self.parsed.values[flag.name] = value
        self.parsed.given.add(flag.name)

    def _leftover(self, words: list[Word]) -> None:
        """Words that belong to no flag: names them, the flag they stood behind, and what was probably meant."""
        texts = [word.text for word in words]
        named = ', '.join(map(repr, texts[:3])) + (f' and {len(texts) - 3} more' if len(texts) > 3 else '')
        place = f' after {self._flag_text}' if self._flag_text else ''
        belongs = 'words that belong' if len(texts) > 1 else 'a word that belongs'
        self.problems.append(f'{named}{place}: {belongs} to no flag{self._way_out(texts)}{words[0].origin}')

    def _way_out(self, texts: list[str]) -> str:
        flag = self._flag
        if flag is None:
            return ''
        if flag.kind == 'paths':
            joined = ','.join([self._value, *texts[:3]]) + (',...' if len(texts) > 3 else '')
            return f'; separate several files by commas: --{flag.name} {joined}'
        if not flag.is_boolean:
            return f'; put quotes around a value with spaces: --{flag.name} "{" ".join([self._value, *texts[:3]])}"'
        if texts[0].lower() in FALSE_WORDS:
            return f'; write --no{flag.name}'
        if texts[0].lower() in TRUE_WORDS:
            return f'; write --{flag.name} alone'
        return f'; --{flag.name} takes none: write --{flag.name} or --no{flag.name}'


def _find(name: str) -> tuple[Flag | None, bool]:
    """The flag called `name`, and whether `name` is its `no` form."""
    if name in FLAGS:
        return FLAGS[name], False
    for flag in FLAGS.values():
        if name in flag.aliases:
            return flag, False
    negated = FLAGS.get(name.removeprefix('no')) if name.startswith('no') else None
    return (negated, True) if negated is not None and negated.is_boolean else (None, False)


def _is_known(word: Word) -> bool:
    """Whether `word` is a flag rather than a value that begins with a dash, such as -1."""
    name = word.flag_name()
    return name is not None and (_find(name)[0] is not None or name in (*HELP_FLAGS, FLAGFILE))


def _suggestion(name: str) -> str:
    if name in RENAMED:
        return f'; it is called --{RENAMED[name]}'
    known = [form for flag in FLAGS.values() for form in (flag.name, *flag.aliases)]
    if name.startswith('no'):
        known += [f'no{flag.name}' for flag in FLAGS.values() if flag.is_boolean]
    near = difflib.get_close_matches(name.lower().replace('-', '_'), known, n=1, cutoff=0.7)
    return f'; did you mean --{near[0]}?' if near else '; --help lists all'


def _value_parser(flag: Flag) -> Any:
    parsers = {
        'integer': absl_flags.IntegerParser,
        'float': absl_flags.FloatParser,
        'boolean': absl_flags.BooleanParser,
    }
    if flag.kind == 'enum':
        return absl_flags.EnumParser(list(flag.values))
    return parsers.get(flag.kind, absl_flags.ArgumentParser)()


def _expand_flagfiles(words: list[Word], stack: tuple[str, ...]) -> Iterator[Word]:
    """Puts the words of flag files where the --flagfile stands; what stands later on the command line wins."""
    remaining = iter(words)
    for word in remaining:
        if word.flag_name() != FLAGFILE:
            yield word
            continue
        name = word.text.partition('=')[2] if '=' in word.text else next(remaining, Word('')).text
        if not name:
            raise FlagError(f'--flagfile: the name of the file is missing{word.origin}')
        path = os.path.expanduser(name)
        if os.path.realpath(path) in stack:
            raise FlagError(f'--flagfile {name}: the file includes itself{word.origin}')
        yield from _expand_flagfiles(_read_flagfile(path, word), (*stack, os.path.realpath(path)))


def _read_flagfile(path: str, word: Word) -> list[Word]:
    """One flag a line, `--epochs=3` or `--epochs 3`; lines that begin with # or // are comments."""
    try:
        with open(path, encoding='utf-8-sig') as file:
            lines = file.read().splitlines()
    except OSError as error:
        raise FlagError(f'--flagfile {path}: {error.strerror or error}{word.origin}') from error
    except ValueError as error:
        raise FlagError(f'--flagfile {path}: the file is not UTF-8 text ({error}){word.origin}') from error
    words = []
    for number, line in enumerate(lines, start=1):
        text = line.strip()
        if not text or text.startswith(('#', '//')):
            continue
        flag, *value = text.split(maxsplit=1) if text.startswith('-') and '=' not in text.split()[0] else [text]
        words += [Word(part, f' ({path}, line {number})') for part in (flag, *value)]
    return words

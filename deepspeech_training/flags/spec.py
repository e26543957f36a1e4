"""One row of the flag table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

KINDS = ('string', 'path', 'paths', 'integer', 'float', 'boolean', 'enum', 'size', 'multi_string')
"""`paths`: separated by commas. `size`: bytes, with a suffix like KB. `multi_string`: may be given several times."""


@dataclass(frozen=True)
class Flag:
    """A flag: its name and default are DeepSpeech 0.9's where that has it.

    `to`: the attribute of `Config` that takes the value, as in 'data.limit_train'; '' where `config_building` combines
    several flags or the flag is another program's.
    `needs`: the flags of which one must be set for this one to have an effect.
    `tool`: the program that has the flag, where DeepSpeech.py only knows it; else ''.
    """

    name: str
    kind: str
    default: Any
    to: str
    help: str
    values: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()
    tool: str = ''
    aliases: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ValueError(f'flag {self.name} has the unknown kind {self.kind!r}')

    @property
    def is_boolean(self) -> bool:
        return self.kind == 'boolean'

    def usage(self) -> str:
        """How the flag is written: `--[no]early_stop`, `--epochs INTEGER`, `--load_train auto|last|best|init`."""
        if self.is_boolean:
            return f'--[no]{self.name}'
        return f'--{self.name} {self.value_name()}'

    def value_name(self) -> str:
        names = {'path': 'PATH', 'paths': 'PATH,...', 'integer': 'INTEGER', 'float': 'NUMBER', 'size': 'SIZE'}
        return '|'.join(self.values) if self.kind == 'enum' else names.get(self.kind, 'TEXT')

    def default_text(self) -> str:
        """The default as one would write it on the command line; '' for an empty one."""
        if self.is_boolean:
            return str(self.default).lower()
        if self.default is None or self.default == '':
            return ''
        return str(self.default)

    def description(self) -> str:
        """The help sentence, with whose flag it is."""
        parts = [self.help]
        if self.tool:
            parts.append(f'Has no effect here: it is a flag of {self.tool}.')
        if self.aliases:
            parts.append('Also ' + ', '.join(f'--{alias}' for alias in self.aliases) + '.')
        return ' '.join(parts)


@dataclass(frozen=True)
class Group:
    """Flags that belong together in help and documentation."""

    title: str
    flags: tuple[Flag, ...]

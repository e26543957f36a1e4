"""What a grammar's rules are made of."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Word:
    text: str


@dataclass(frozen=True)
class Reference:
    rule: str
    line: int


@dataclass(frozen=True)
class Sequence:
    parts: tuple[Node, ...]


@dataclass(frozen=True)
class Choice:
    alternatives: tuple[Node, ...]
    weights: tuple[float, ...]


Node = Word | Reference | Sequence | Choice

NOTHING = Sequence(())


@dataclass(frozen=True)
class Rule:
    name: str
    body: Node
    public: bool
    line: int


def children(node: Sequence | Choice) -> tuple[Node, ...]:
    return node.parts if isinstance(node, Sequence) else node.alternatives

"""Sentences from a grammar: the part of the JSpeech Grammar Format (JSGF) that speaks of words.

    #JSGF V1.0;                                  // this line and the next may be missing
    grammar home;
    public <command> = [please] turn (on | off) <lamp>
                     | /2/ stop;                 // twice as likely as an alternative without a number
    <lamp> = the (kitchen | hall) light;

Every sentence comes from a public rule. `[ ]` is an optional part (spoken half of the time), `( )` a group, `|` stands
between alternatives, `/2.5/` before one is its weight (1 without), `//` and `/* */` are comments, a word in double
quotes may hold any character. JSGF's repetitions (`*`, `+`), tags (`{ }`) and imports are refused, as are rules that
lead to themselves: sentences are finite and not empty.
Source of the format: JSpeech Grammar Format, W3C Note, 5 June 2000.
"""

from __future__ import annotations

import difflib
import random
from dataclasses import dataclass, field

from deepspeech_training.errors import DataError
from espeak_corpus.nodes import Choice, Node, Reference, Rule, Word, children
from espeak_corpus.parsing import Parser
from espeak_corpus.reading import read_text


@dataclass
class Grammar:
    """The rules of one file."""

    path: str
    rules: dict[str, Rule] = field(default_factory=dict)

    @classmethod
    def from_file(cls, path: str) -> Grammar:
        """Raises `DataError`, with file and line, for what is no grammar."""
        return cls.from_text(read_text(path), path)

    @classmethod
    def from_text(cls, text: str, path: str = 'grammar') -> Grammar:
        """As `from_file`; `path` is the name in messages."""
        grammar = cls(path, Parser(text, path).parse())
        grammar._check()
        return grammar

    @property
    def public(self) -> list[Rule]:
        return [rule for rule in self.rules.values() if rule.public]

    def sample(self, rng: random.Random) -> str:
        """One sentence: a public rule, then every choice by its weights."""
        words: list[str] = []
        self._expand(rng.choice(self.public).body, rng, words)
        return ' '.join(words)

    def size(self) -> int:
        """In how many ways a sentence can be made: the number of sentences when all differ."""
        counts: dict[str, int] = {}
        return sum(self._count(rule.body, counts) for rule in self.public)

    def words(self) -> dict[str, int]:
        """Every word, with the line of the rule that first holds it."""
        found: dict[str, int] = {}
        for rule in self.rules.values():
            stack = [rule.body]
            while stack:
                node = stack.pop()
                if isinstance(node, Word):
                    found.setdefault(node.text, rule.line)
                elif not isinstance(node, Reference):
                    stack.extend(reversed(children(node)))
        return found

    def _expand(self, node: Node, rng: random.Random, words: list[str]) -> None:
        if isinstance(node, Word):
            words.append(node.text)
        elif isinstance(node, Reference):
            self._expand(self.rules[node.rule].body, rng, words)
        elif isinstance(node, Choice):
            self._expand(rng.choices(node.alternatives, node.weights)[0], rng, words)
        else:
            for part in node.parts:
                self._expand(part, rng, words)

    def _count(self, node: Node, counts: dict[str, int]) -> int:
        if isinstance(node, Word):
            return 1
        if isinstance(node, Reference):
            if node.rule not in counts:
                counts[node.rule] = self._count(self.rules[node.rule].body, counts)
            return counts[node.rule]
        if isinstance(node, Choice):
            return sum(self._count(alternative, counts) for alternative in node.alternatives)
        product = 1
        for part in node.parts:
            product *= self._count(part, counts)
        return product

    def _check(self) -> None:
        if not self.rules:
            raise DataError(f'{self.path}: no rules; a grammar needs at least: public <command> = yes | no;')
        if not self.public:
            first = next(iter(self.rules.values()))
            raise DataError(
                f'{self.path}, line {first.line}: no public rule, so there is no sentence to begin with; '
                f'write: public <{first.name}> = ...'
            )
        done: set[str] = set()
        for rule in self.rules.values():
            self._check_references(rule, [], done)
        for rule in self.public:
            if self._may_be_empty(rule.body):
                raise DataError(f'{self.path}, line {rule.line}: <{rule.name}> can be an empty sentence')

    def _check_references(self, rule: Rule, above: list[str], done: set[str]) -> None:
        if rule.name in done:
            return
        stack = [rule.body]
        while stack:
            node = stack.pop()
            if isinstance(node, Reference):
                self._check_reference(node, [*above, rule.name], done)
            elif not isinstance(node, Word):
                stack.extend(reversed(children(node)))
        done.add(rule.name)

    def _check_reference(self, reference: Reference, above: list[str], done: set[str]) -> None:
        where = f'{self.path}, line {reference.line}'
        if reference.rule not in self.rules:
            near = difflib.get_close_matches(reference.rule, self.rules, n=3, cutoff=0.5)
            hint = f'; near it: {", ".join(f"<{name}>" for name in near)}' if near else ''
            raise DataError(f'{where}: there is no rule <{reference.rule}>{hint}')
        if reference.rule in above:
            circle = [*above[above.index(reference.rule) :], reference.rule]
            raise DataError(f'{where}: a rule leads to itself: {" -> ".join(f"<{name}>" for name in circle)}')
        self._check_references(self.rules[reference.rule], above, done)

    def _may_be_empty(self, node: Node) -> bool:
        if isinstance(node, Word):
            return False
        if isinstance(node, Reference):
            return self._may_be_empty(self.rules[node.rule].body)
        if isinstance(node, Choice):
            return any(self._may_be_empty(alternative) for alternative in node.alternatives)
        return all(self._may_be_empty(part) for part in node.parts)

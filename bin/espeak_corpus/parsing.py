"""From the text of a grammar to its rules."""

from __future__ import annotations

import re
from dataclasses import dataclass

from deepspeech_training.errors import DataError
from espeak_corpus.nodes import NOTHING, Choice, Node, Reference, Rule, Sequence, Word

TOKEN = re.compile(
    r'(?P<space>\s+|//[^\n]*|/\*.*?\*/)'
    r'|(?P<weight>/\s*[^/\s*]+\s*/)'
    r'|(?P<rule><[^<>\n]*>)'
    r'|(?P<quoted>"(?:[^"\\\n]|\\.)*")'
    r'|(?P<sign>[=|;()\[\]])'
    r'|(?P<word>[^\s=|;()\[\]<>{}*+/"]+)',
    re.DOTALL,
)


@dataclass(frozen=True)
class Token:
    kind: str  # weight, rule, sign, word or end
    text: str
    line: int


class Parser:
    """Recursive descent over the tokens of one file."""

    def __init__(self, text: str, path: str) -> None:
        self.path = path
        self.tokens = self._tokens(text)
        self.position = 0

    def parse(self) -> dict[str, Rule]:
        rules: dict[str, Rule] = {}
        while self._next.kind != 'end':
            rule = self._rule()
            if rule.name in rules:
                raise self._error(
                    f'<{rule.name}> is defined a second time, after line {rules[rule.name].line}', rule.line
                )
            rules[rule.name] = rule
        return rules

    @property
    def _next(self) -> Token:
        return self.tokens[self.position]

    def _take(self, *texts: str) -> Token | None:
        """The next token, when it is one of these words or signs."""
        token = self._next
        if token.kind in ('word', 'sign') and token.text in texts:
            self.position += 1
            return token
        return None

    def _expect(self, sign: str, after: str) -> None:
        if not self._take(sign):
            raise self._error(f"'{sign}' expected {after}, but there is {describe(self._next)}", self._next.line)

    def _rule(self) -> Rule:
        public = self._take('public') is not None
        token = self._next
        if token.kind != 'rule':
            raise self._error(f'a rule expected, as in <name> = ...;, but there is {describe(token)}', token.line)
        self.position += 1
        self._expect('=', f'after <{token.text}>')
        body = self._alternatives()
        self._expect(';', f'at the end of <{token.text}>, which begins in line {token.line}')
        return Rule(token.text, body, public, token.line)

    def _alternatives(self) -> Node:
        alternatives, weights = [], []
        while True:
            weights.append(self._weight())
            alternatives.append(self._sequence())
            if not self._take('|'):
                break
        if len(alternatives) == 1:
            return alternatives[0]
        return Choice(tuple(alternatives), tuple(weights))

    def _weight(self) -> float:
        token = self._next
        if token.kind != 'weight':
            return 1.0
        self.position += 1
        try:
            weight = float(token.text)
        except ValueError:
            weight = -1.0
        if not 0 < weight < float('inf'):
            raise self._error(f'the weight /{token.text}/ is no positive number', token.line)
        return weight

    def _sequence(self) -> Node:
        parts = []
        while (part := self._part()) is not None:
            parts.append(part)
        if not parts:
            raise self._error(f'words, <a rule>, ( or [ expected, but there is {describe(self._next)}', self._next.line)
        return parts[0] if len(parts) == 1 else Sequence(tuple(parts))

    def _part(self) -> Node | None:
        token = self._next
        if token.kind in ('word', 'quoted'):
            self.position += 1
            return Word(token.text)
        if token.kind == 'rule':
            self.position += 1
            return Reference(token.text, token.line)
        if self._take('('):
            group = self._alternatives()
            self._expect(')', f"for the '(' in line {token.line}")
            return group
        if self._take('['):
            optional = self._alternatives()
            self._expect(']', f"for the '[' in line {token.line}")
            return Choice((optional, NOTHING), (1.0, 1.0))
        return None

    def _tokens(self, text: str) -> list[Token]:
        position, tokens = skip_header(text), []
        while position < len(text):
            line = text.count('\n', 0, position) + 1
            match = TOKEN.match(text, position)
            if not match:
                raise self._error(unexpected(text[position]), line)
            kind = str(match.lastgroup)
            if kind != 'space':
                tokens.append(self._token(kind, match.group(), line))
            position = match.end()
        return [*tokens, Token('end', '', text.count('\n') + 1)]

    def _token(self, kind: str, text: str, line: int) -> Token:
        if kind in ('weight', 'rule'):
            text = text[1:-1].strip()
            if not text:
                raise self._error('a rule needs a name between < and >', line)
        elif kind == 'quoted':
            text = ' '.join(re.sub(r'\\(.)', r'\1', text[1:-1]).split())
            if not text:
                raise self._error('there is nothing between the quotation marks', line)
        return Token(kind, text, line)

    def _error(self, message: str, line: int) -> DataError:
        return DataError(f'{self.path}, line {line}: {message}')


def describe(token: Token) -> str:
    if token.kind == 'end':
        return 'the end of the file'
    return {'rule': f'<{token.text}>', 'weight': f'/{token.text}/'}.get(token.kind, f"'{token.text}'")


def unexpected(character: str) -> str:
    """Why a character cannot stand where it stands."""
    reasons = {
        '*': "'*' is a repetition: sentences are finite here; write the alternatives out",
        '+': "'+' is a repetition: sentences are finite here; write the alternatives out",
        '{': 'tags in { } are not supported: leave them out',
        '<': "'<' without its '>'",
        '"': "'\"' without its second",
        '/': "'/' belongs to a comment (// or /* */) or a weight (/2/)",
    }
    return reasons.get(character, f'{character!r} is not expected here')


def skip_header(text: str) -> int:
    """Where the rules begin: after JSGF's own line and the grammar's name, if they are there."""
    match = re.match(r'(\s*#JSGF[^;\n]*;)?(\s|//[^\n]*|/\*.*?\*/)*(grammar\s+[^;<>=\s]+\s*;)?', text, re.DOTALL)
    return match.end() if match else 0

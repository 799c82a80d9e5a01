"""Tokens and their ids. The blank of CTC is id 0, everywhere: cuDNN's CTC accepts no other."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from pathlib import Path

from asr.base.files import read_lines, whole_file
from asr.base.pinyin import is_syllable, split_syllable
from asr.base.types import UserError, Utterance
from asr.base.units import Unit, unit_of

BLANK_ID = 0
BLANK = "<blank>"
WORD_BOUNDARY = "▁"  # a token between words, where the units are characters


class Vocabulary:
    """An ordered set of tokens: `tokens[0]` is the blank, and a token's id is its place.

    Args:
        tokens: the units without the blank, in the order of their ids from 1 on.

    Raises:
        UserError: a token is empty, holds white space or stands twice.
    """

    def __init__(self, tokens: Iterable[str]) -> None:
        self.tokens: tuple[str, ...] = (BLANK, *tokens)
        self._ids = {token: index for index, token in enumerate(self.tokens)}
        if len(self._ids) != len(self.tokens):
            repeated = next(t for i, t in enumerate(self.tokens) if self._ids[t] != i)
            raise UserError(f"vocabulary: {repeated!r} stands twice; every token needs a line of its own")
        for token in self.tokens:
            if not token or token.split() != [token]:
                raise UserError(f"vocabulary: {token!r} is empty or holds white space; remove or rename it")

    def __len__(self) -> int:
        return len(self.tokens)

    def __contains__(self, token: str) -> bool:
        return token in self._ids and token != BLANK

    def encode(self, tokens: Iterable[str]) -> list[int]:
        """Ids of tokens.

        Raises:
            UserError: a token is not in the vocabulary.
        """
        tokens = list(tokens)
        for token in tokens:
            if token not in self:
                raise UserError(f"label {token!r} is not among the {len(self) - 1} tokens of the vocabulary")
        return [self._ids[token] for token in tokens]

    def encode_known(self, tokens: Iterable[str]) -> list[int]:
        """Ids of those tokens that are in the vocabulary."""
        return [self._ids[token] for token in tokens if token in self]

    def decode(self, ids: Iterable[int]) -> tuple[str, ...]:
        """Tokens of ids, which hold no blank."""
        return tuple(self.tokens[index] for index in ids)

    def join(self, tokens: Sequence[str]) -> str:
        """Tokens as one string: characters without spaces but for those said, longer units with."""
        spaced = any(len(token) > 1 for token in self.tokens[1:])
        return (" " if spaced else "").join(tokens).replace(WORD_BOUNDARY, " ").strip()

    @property
    def unit(self) -> Unit:
        """Return what its tokens are."""
        return unit_of(self.tokens[1:])

    @property
    def is_mandarin(self) -> bool:
        """Whether its tokens are toned syllables, but for a few interjections (`ng2`)."""
        return self.unit == "syllables"

    def syllable_parts(self) -> list[list[int]]:
        """For each token the ids of four parts: its initial, its final, its tone, and itself.

        Ids count through all parts of all tokens. The blank, and whatever is no syllable, shares nothing.
        """
        parts = [
            [
                f"{kind}:{part}"
                for kind, part in zip(("initial", "final", "tone"), self._parts(token), strict=True)
            ]
            + [token]
            for token in self.tokens
        ]
        ids = {part: index for index, part in enumerate(dict.fromkeys(itertools.chain(*parts)))}
        return [[ids[part] for part in row] for row in parts]

    @staticmethod
    def _parts(token: str) -> tuple[str, str, str]:
        # the space keeps a letter that is a token from a final written the same
        return split_syllable(token) if is_syllable(token) else (f" {token}",) * 3

    def save(self, path: Path) -> None:
        """Write one token a line, the blank first."""
        with whole_file(path, "vocabulary") as file:
            file.write("".join(f"{token}\n" for token in self.tokens).encode())

    @classmethod
    def load(cls, path: Path) -> Vocabulary:
        """Read what `save` wrote.

        Raises:
            UserError: there is no such file, or its first line is not the blank.
        """
        lines = read_lines(path, "vocabulary")
        if lines[0] != BLANK:
            raise UserError(f"{path}: expected {BLANK} on the first line, received {lines[:1]}")
        try:
            return cls(lines[1:])
        except UserError as error:
            raise UserError(f"{path}: {error}") from None

    @classmethod
    def of_utterances(cls, utterances: Iterable[Utterance]) -> Vocabulary:
        """Every token of these utterances, sorted: the same set gives the same ids."""
        return cls(sorted({token for utterance in utterances for token in utterance.tokens}))

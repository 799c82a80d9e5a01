"""Map tokens to ids and back. The CTC blank is id 0 everywhere: cuDNN's CTC accepts no other."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterable, Sequence
from pathlib import Path

from asr.base.errors import UserError
from asr.base.system.files import read_lines, whole_file
from asr.base.text.mixed import begins_word, is_toned, mixed_vocabulary, mixed_words
from asr.base.text.pieces import UNITS_MODEL, Pieces
from asr.base.text.pinyin import is_syllable, split_syllable
from asr.base.text.units import (
    MANDARIN_UNITS,
    TOKEN_NAMES,
    UNITS_IN_PIECES,
    Unit,
    is_character,
    unit_of,
)
from asr.base.text.units import WORD_BOUNDARY as WORD_BOUNDARY
from asr.base.text.wording import counted
from asr.base.types import Utterance

BLANK_ID = 0
BLANK = "<blank>"


class Vocabulary:
    """Tokens by id: `tokens[0]` is the blank, and a token's id is its index.

    Args:
        tokens: the units without the blank, in the order of their ids, which start at 1.
        pieces: the model that splits text into these tokens; None for other units, or if it is missing.

    Raises:
        UserError: a token is empty, contains white space or appears twice.
    """

    def __init__(self, tokens: Iterable[str], pieces: Pieces | None = None) -> None:
        self.tokens: tuple[str, ...] = (BLANK, *tokens)
        self.pieces = pieces
        self._ids = {token: index for index, token in enumerate(self.tokens)}
        if len(self._ids) != len(self.tokens):
            repeated = next(t for i, t in enumerate(self.tokens) if self._ids[t] != i)
            raise UserError(f"vocabulary: {repeated!r} appears twice; remove the repeated line")
        for token in self.tokens:
            if not token or token.split() != [token]:
                raise UserError(f"vocabulary: {token!r} is empty or contains a space; remove or rename it")

    def __len__(self) -> int:
        return len(self.tokens)

    def __contains__(self, token: str) -> bool:
        return token in self._ids and token != BLANK

    def are_tokens(self, parts: Sequence[str]) -> bool:
        """Return whether parts of a text are tokens; pieces are if a word begins with the first of them."""
        first = "".join(parts[:1])
        is_marked = first.startswith(WORD_BOUNDARY) or (self.unit == "mixed" and begins_word(first))
        if self.is_in_pieces and not is_marked:
            return False  # letters are pieces, too, but not those of a word
        return all(part in self for part in parts)

    def encode(self, tokens: Iterable[str]) -> list[int]:
        """Return the ids of tokens.

        Raises:
            UserError: a token is not in the vocabulary.
        """
        tokens = list(tokens)
        for token in tokens:
            if token not in self:
                known = counted(len(self) - 1, "token")
                raise UserError(f"label {token!r} is not in the vocabulary of {known}")
        return [self._ids[token] for token in tokens]

    def encode_known(self, tokens: Iterable[str]) -> list[int]:
        """Return the ids of the tokens that are in the vocabulary; skip the others."""
        return [self._ids[token] for token in tokens if token in self]

    def decode(self, ids: Iterable[int]) -> tuple[str, ...]:
        """Return the tokens of ids without blanks."""
        return tuple(self.tokens[index] for index in ids)

    def join(self, tokens: Sequence[str]) -> str:
        """Join tokens as text, with spaces between units longer than a character and at word boundaries."""
        if self.unit == "mixed":
            return " ".join(word.text for word in mixed_words(tokens))
        return (" " if self.is_spaced else "").join(tokens).replace(WORD_BOUNDARY, " ").strip()

    @property
    def is_spaced(self) -> bool:
        """Return whether there are spaces between tokens in text."""
        return not self.is_in_pieces and not all(map(is_character, self.tokens[1:]))

    @property
    def is_in_pieces(self) -> bool:
        """Return whether all words, or those in Latin letters, are in pieces."""
        return self.unit in UNITS_IN_PIECES

    @functools.cached_property
    def unit(self) -> Unit:
        """Return the unit of most tokens."""
        return unit_of(self.tokens[1:])

    @property
    def token_name(self) -> str:
        """Return what one token is called, and so the error rate of a model: "syllable error rate"."""
        return TOKEN_NAMES[self.unit]

    @property
    def is_mandarin(self) -> bool:
        """Return whether hanzi are toned syllables: all tokens, except for a few (`ng2`), or some of them."""
        return self.unit in MANDARIN_UNITS

    def expect_pieces(self) -> Pieces:
        """Return the model that splits text into the pieces of this vocabulary.

        Raises:
            UserError: it is missing.
        """
        if self.pieces is None:
            raise UserError(
                f"vocabulary: {UNITS_MODEL} is missing, which splits text into these pieces; copy it from "
                "the folder of the manifests, or give the pieces themselves, separated by spaces"
            )
        return self.pieces

    def syllable_parts(self) -> list[list[int]]:
        """Return four part ids for each token: initial, final, tone, and the token itself.

        Parts are numbered across all tokens. The blank and tokens that are not syllables share no part.
        """
        parts = []
        for token in self.tokens:
            # the space distinguishes a token of one letter from a final of the same spelling
            of_token = split_syllable(token) if is_syllable(token) else (f" {token}",) * 3
            kinds = zip(("initial", "final", "tone"), of_token, strict=True)
            parts.append([*(f"{kind}:{part}" for kind, part in kinds), token])
        ids = {part: index for index, part in enumerate(dict.fromkeys(itertools.chain(*parts)))}
        return [[ids[part] for part in row] for row in parts]

    def phones(self) -> Vocabulary:
        """Return the vocabulary of the phones of all tokens, in the order in which they first appear."""
        return Vocabulary(dict.fromkeys(itertools.chain(*map(phones_of, self.tokens[1:]))))

    def phone_ids(self) -> list[list[int]]:
        """Return the ids, in `phones()`, of each token's phones; the blank has none."""
        phones = self.phones()
        return [[], *(phones.encode(phones_of(token)) for token in self.tokens[1:])]

    def save(self, path: Path) -> None:
        """Write one token a line, the blank first, and the model of pieces beside it."""
        with whole_file(path, "vocabulary") as file:
            file.write("".join(f"{token}\n" for token in self.tokens).encode())
        if self.pieces is not None:
            self.pieces.save(path.with_name(UNITS_MODEL))

    @classmethod
    def load(cls, path: Path) -> Vocabulary:
        """Read a vocabulary that `save` wrote.

        Raises:
            UserError: the file cannot be read, its first line is not the blank, or the model of pieces beside
                it has other pieces.
        """
        lines = read_lines(path, "vocabulary")
        if lines[0] != BLANK:
            raise UserError(f"{path}: expected {BLANK} on the first line, received {lines[:1]}")
        model = path.with_name(UNITS_MODEL)
        unit = unit_of(lines[1:])
        pieces = Pieces.load(model) if unit in UNITS_IN_PIECES and model.exists() else None
        syllables = filter(is_toned, lines) if unit == "mixed" else ()
        if pieces is not None and lines[1:] != _with_pieces(syllables, pieces):
            raise UserError(f"{model}: has other pieces than {path.name} beside it; restore the original")
        try:
            return cls(lines[1:], pieces)
        except UserError as error:
            raise UserError(f"{path}: {error}") from None

    @classmethod
    def of_pieces(cls, pieces: Pieces, syllables: Iterable[str] = ()) -> Vocabulary:
        """Return the vocabulary of all pieces of a model, in its order, whether a text has them or not.

        Args:
            pieces: the model; of Latin words only if there are syllables.
            syllables: of Mandarin, which come first; with them, letters that are said by their names do too.
        """
        return cls(_with_pieces(syllables, pieces), pieces)

    @classmethod
    def of_utterances(cls, utterances: Iterable[Utterance]) -> Vocabulary:
        """Return the vocabulary of all tokens of these utterances, sorted to make the ids reproducible."""
        return cls(sorted({token for utterance in utterances for token in utterance.tokens}))


def _with_pieces(syllables: Iterable[str], pieces: Pieces) -> list[str]:
    known = list(syllables)
    return list(mixed_vocabulary(known, pieces) if known else pieces.tokens)


def phones_of(token: str) -> tuple[str, ...]:
    """Return the phones of a token: `zhong1` -> (`zh-`, `ong1`); `an4` -> (`an4`,).

    A toned syllable has its initial, if there is one, and its final with the tone, which the initial hardly
    changes. Any other token is a phone.
    """
    if not is_syllable(token):
        return (token,)
    initial, final, tone = split_syllable(token)
    return (f"{initial}-", final + tone) if initial else (final + tone,)

"""Convert text to pieces of words: the text is normalized as for characters, and split by a model.

Of mixed labels, only Latin words that are spoken are split.
"""

from __future__ import annotations

from collections.abc import Sequence

from asr.base.text.pieces import Pieces, text_of_pieces
from asr.base.text.units import WORD_BOUNDARY, Unit
from data_pipeline.labels.errors import UnlabelledError
from data_pipeline.labels.from_text import label

UNKNOWN = "characters that the pieces do not have; label it with other units, or add such text to train"


def pieces_of(text: str, pieces: Pieces, unit: Unit = "pieces") -> tuple[str, ...]:
    """Return the pieces of a text, or its mixed labels.

    Raises:
        UnlabelledError: it cannot be labelled by characters, or mixed, or the pieces lack a character.
    """
    if unit == "mixed":
        return latin_in_pieces(label(text, "mixed"), pieces)
    return in_pieces(label(text, "characters"), pieces)


def in_pieces(characters: Sequence[str], pieces: Pieces) -> tuple[str, ...]:
    """Return labels of characters as pieces.

    Raises:
        UnlabelledError: the pieces lack one of the characters.
    """
    text = text_of_pieces(characters)  # a word boundary between words is that of characters, too
    if unknown := pieces.unknown_characters(text):
        raise UnlabelledError(UNKNOWN, f"{unknown} in {text!r}")
    return pieces.encode(text)


def latin_in_pieces(labels: Sequence[str], pieces: Pieces) -> tuple[str, ...]:
    """Return mixed labels with whole Latin words as such with pieces of them.

    Raises:
        UnlabelledError: the pieces lack a letter.
    """
    tokens: list[str] = []
    for token in labels:
        tokens += in_pieces(token, pieces) if token.startswith(WORD_BOUNDARY) else (token,)
    return tuple(tokens)

"""Convert text to pieces of words: the text is normalized as for characters, and split by a model."""

from __future__ import annotations

from collections.abc import Sequence

from asr.base.text.pieces import Pieces, text_of_pieces
from data_pipeline.labels.errors import UnlabelledError
from data_pipeline.labels.from_text import label

UNKNOWN = "characters that the pieces do not have; label it with other units, or add such text to train"


def pieces_of(text: str, pieces: Pieces) -> tuple[str, ...]:
    """Return the pieces of a text.

    Raises:
        UnlabelledError: it cannot be labelled by characters, or the pieces lack one of them.
    """
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

"""Decide when two utterances have the same sentence."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence


def sentence_key(text: str, tokens: Sequence[str]) -> str:
    """Return a key that ignores spacing, punctuation and case; "" if there is neither text nor tokens.

    Args:
        text: the transcript; if it is empty, the tokens are the key.
        tokens: its labels.
    """
    letters = unicodedata.normalize("NFKC", text).lower()
    return "".join(char for char in letters if char.isalnum()) or " ".join(tokens)

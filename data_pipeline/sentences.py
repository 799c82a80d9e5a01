"""When two utterances say the same."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence


def sentence_key(text: str, tokens: Sequence[str]) -> str:
    """The same for the same sentence, however it is spaced, punctuated and capitalised; "" for none.

    Args:
        text: as written; where there is none, the tokens count.
        tokens: its labels.
    """
    letters = unicodedata.normalize("NFKC", text).lower()
    return "".join(char for char in letters if char.isalnum()) or " ".join(tokens)

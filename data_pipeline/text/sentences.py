"""Decide when two utterances have the same sentence."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence

from asr.base.text.hanzi_text import HANZI
from asr.base.text.units import is_mark
from data_pipeline.labels.from_text import APOSTROPHES
from data_pipeline.labels.spoken_symbols import GENERAL_MARKS, INVISIBLE, LONE_MARKS

LETTER = rf"[^\W\d_{HANZI}]"
# an apostrophe elsewhere is a quotation mark; labels have no such marks either
NOT_READ = re.compile(
    rf"(?<!{LETTER})'|'(?!{LETTER})|{GENERAL_MARKS.pattern}|{LONE_MARKS.pattern}|{INVISIBLE.pattern}"
)


def sentence_key(text: str, tokens: Sequence[str]) -> str:
    """Return a key that ignores spacing, punctuation and case; "" if there is neither text nor tokens.

    Vowel signs and apostrophes within words are kept: दिन and दीन, we'll and well are different words.

    Args:
        text: the transcript; if it is empty, the tokens are the key.
        tokens: its labels.
    """
    letters = unicodedata.normalize("NFKC", text.translate(APOSTROPHES)).lower()
    read = (char for char in NOT_READ.sub("", letters) if char.isalnum() or is_mark(char) or char == "'")
    return "".join(read) or " ".join(tokens)

"""Text -> units of the vocabulary."""

from __future__ import annotations

import re

from pypinyin import Style, lazy_pinyin

from asr.types import UserError

HANZI = re.compile(r"[\u3400-\u4dbf\u4e00-\u9fff]+")


def pinyin_of(text: str) -> tuple[str, ...]:
    """Toned syllables of hanzi, each word with its own reading: 银行 -> (`yin2`, `hang2`).

    Neutral tone is 5, ü is v, tones are lexical: no sandhi. 儿 is a syllable of its own.

    Raises:
        UserError: the text holds anything but hanzi.
    """
    if not HANZI.fullmatch(text):
        raise UserError(f"{text!r}: expected hanzi alone; give the syllables of anything else yourself")
    return tuple(lazy_pinyin(text, style=Style.TONE3, v_to_u=False, neutral_tone_with_five=True))

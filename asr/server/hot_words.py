"""Read the words that a person favours, as the page sends them: `李雷:3 韩梅梅`."""

from __future__ import annotations

import re

HOT_WORD = re.compile(r"([^\s,，、;；:：]+)(?:[:：](\d{1,3}(?:\.\d+)?))?")


def hot_word_weights(line: str) -> dict[str, float]:
    """Return the words of a line and their weights, which are 1 unless written after a colon: `李雷:3`."""
    return {word: float(weight or 1) for word, weight in HOT_WORD.findall(line)}

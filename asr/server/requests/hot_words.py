"""Read the words that a client favours and their weights: `李雷:3 韩梅梅`, as the page sends them."""

from __future__ import annotations

import re
from collections.abc import Mapping

from asr.server.requests.limits import MAX_HOT_WORD_CHARS, Limits
from asr.server.requests.request_errors import RefusalError, invalid

HOT_WORD = re.compile(r"([^\s,，、;；:：]+)(?:[:：]([^\s,，、;；]*))?")
MAX_WEIGHT = 1e6  # beyond any use, and far below what a sum of boosts can hold


def hot_word_weights(line: str, usual: float = 1.0) -> dict[str, float]:
    """Return the words of a line and their weights, which are 1 unless written after a colon: `李雷:3`.

    Args:
        line: words between spaces, commas or semicolons.
        usual: the written weight that is 1 here.

    Raises:
        RefusalError: a weight is none.
    """
    return {word: hot_word_weight(weight or usual, usual) for word, weight in HOT_WORD.findall(line)}


def hot_word_weight(value: object, usual: float) -> float:
    """Return a weight that a client states as a number or as text; see `hot_word_weights`.

    Raises:
        RefusalError: it is not a number from 0 to the largest weight.
    """
    try:
        weight = float(value) / usual if isinstance(value, int | float | str) else -1.0
    except (ValueError, OverflowError):
        weight = -1.0
    if not 0 <= weight <= MAX_WEIGHT:
        expected = f"expected a weight from 0 to {usual * MAX_WEIGHT:.0f}"
        raise invalid(f"hot words: {expected}, received {str(value)[:40]}", "hot_words")
    return weight


def refuse_too_many(weights: Mapping[str, float], limits: Limits) -> None:
    """Raise a RefusalError for more words than the limit, or for one that is too long."""
    if len(weights) > limits.max_hot_words:
        found = f"{len(weights)} hot words"
    elif (longest := max(map(len, weights), default=0)) > MAX_HOT_WORD_CHARS:
        found = f"one of {longest}; put a space or a comma between words"
    else:
        return
    expected = f"at most {limits.max_hot_words} hot words of {MAX_HOT_WORD_CHARS} characters"
    raise RefusalError(413, "hot_words", f"expected {expected}, received {found}", param="hot_words")

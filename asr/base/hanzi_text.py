"""Hanzi: which characters are some, and finding them in a text."""

from __future__ import annotations

import re
import unicodedata

# 〇; the unified ideographs and their extensions; compatibility ideographs, twelve of which NFKC leaves.
# Written between [ and ] of a regular expression.
HANZI = "\u3007\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"

ONE_HANZI = re.compile(f"[{HANZI}]")
HANZI_RUN = re.compile(f"[{HANZI}]+")
SPACES_BETWEEN_HANZI = re.compile(f"(?<=[{HANZI}]) +(?=[{HANZI}])")


def is_hanzi(text: str) -> bool:
    """Return whether a text is hanzi throughout, and not empty."""
    return HANZI_RUN.fullmatch(text) is not None


def hanzi_in(text: str) -> list[str]:
    """Return the hanzi of a text, after NFKC: one that has two code points is one."""
    return ONE_HANZI.findall(unicodedata.normalize("NFKC", text))

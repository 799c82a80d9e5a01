"""Find hanzi (Chinese characters) in a text, and define which characters are hanzi."""

from __future__ import annotations

import re
import unicodedata

# 〇, the unified ideographs with their extensions, and compatibility ideographs (NFKC keeps twelve).
# For use between [ and ] of a regular expression.
HANZI = "\u3007\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"

ONE_HANZI = re.compile(f"[{HANZI}]")
HANZI_RUN = re.compile(f"[{HANZI}]+")
SPACES_BETWEEN_HANZI = re.compile(f"(?<=[{HANZI}]) +(?=[{HANZI}])")


def is_hanzi(text: str) -> bool:
    """Return whether a text consists of hanzi only, and is not empty."""
    return HANZI_RUN.fullmatch(text) is not None


def hanzi_in(text: str) -> list[str]:
    """Return the hanzi of a text after NFKC, which unifies code points of the same hanzi."""
    return ONE_HANZI.findall(unicodedata.normalize("NFKC", text))

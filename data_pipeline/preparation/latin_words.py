"""List the Latin words of mixed labels and how they are said, for review: a table for `--readings`.

data/mine/latin_words.txt      cctv    C C T V    # 12: 我需要看CCTV五
                               iphone  iphone     # 7: 打开iPhone的设置
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from asr.base.system.files import whole_file
from asr.base.text.latin import COMMENT, written_reading
from asr.base.text.mixed import is_letter
from data_pipeline.labels.from_text import ReadingPolicy, latin_words

LATIN_WORDS = "latin_words.txt"
TITLE = """\
# Latin words of the texts and how the labels say them: letters that are spelt are capitals, words that are
# spoken are small. Correct what is wrong, and prepare again with --readings and a copy of this file.
# After the reading is how often the texts have the word so, and one of them. A line that begins with # is one
# of several readings of its word, as of IT and it: without the # it becomes the only one.
"""


@dataclass
class ListedWord:
    """A Latin word in small letters, with one of its readings.

    Attributes:
        word: in small letters.
        reading: its tokens, before pieces are learned.
        example: the first text with it.
        count: how often the texts have it.
    """

    word: str
    reading: tuple[str, ...]
    example: str
    count: int = 0

    @property
    def is_spelt(self) -> bool:
        """Return whether it is said by the names of its letters."""
        return all(map(is_letter, self.reading))


def listed_words(texts: Iterable[str], policy: ReadingPolicy) -> list[ListedWord]:
    """Return the words of texts that have mixed labels, the most frequent first.

    Single letters are not among them: whether A is a letter or a word depends on the word that follows.
    """
    found: dict[tuple[str, tuple[str, ...]], ListedWord] = {}
    for text in texts:
        for word, reading in latin_words(text, policy):
            if len(word) > 1:
                key = (word.lower(), reading)
                found.setdefault(key, ListedWord(*key, text)).count += 1
    return sorted(found.values(), key=lambda one: (-one.count, one.word, one.reading))


def write_latin_words(path: Path, words: Iterable[ListedWord]) -> None:
    """Write words as a table of readings; no file if there is none.

    All readings of a word with several are comments, so that the table changes no label until it is edited.
    """
    path.unlink(missing_ok=True)
    words = list(words)
    num_readings = Counter(one.word for one in words)
    lines = []
    for one in words:
        mark = f"{COMMENT} " if num_readings[one.word] > 1 else ""
        example = " ".join(one.example.split())
        lines.append(f"{mark}{one.word}\t{written_reading(one.reading)}\t{COMMENT} {one.count}: {example}\n")
    if lines:
        with whole_file(path, "list") as file:
            file.write("".join([TITLE, *lines]).encode(errors="backslashreplace"))

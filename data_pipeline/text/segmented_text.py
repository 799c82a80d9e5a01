"""Segment running text into sentences of words, each word with its reading if the context determines it.

The policy, in addition to that of data_pipeline/labels/from_text.py:

- A sentence ends at a line's end, at punctuation, and at anything whose reading is ambiguous: digits, Latin
  letters, signs, other scripts. What is left out is counted. Quotation marks and brackets separate words but
  do not end a sentence.
- Words are those of jieba's dictionary, without guessing new ones: an unknown name becomes single hanzi. If
  a file already separates its words by white space, these are its words, and the tags of `充满/v 希望/n` are
  dropped; if it separates all hanzi, the white space is ignored.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from typing import Any, Literal, NamedTuple, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from asr.base.system.child_process import ChildProcess, answers_in_order
from asr.base.text.hanzi_text import HANZI, is_hanzi
from data_pipeline.labels.errors import UnlabelledError
from data_pipeline.labels.from_text import label
from data_pipeline.labels.readings.context import Draft, context_model
from data_pipeline.labels.readings.rules import SENTENCE_END, readings_by_rules
from data_pipeline.labels.spoken_symbols import kind_of
from data_pipeline.text.text_files import BLOCK_BYTES, TextBlock, read_blocks
from data_pipeline.work import available_cores

Spacing: TypeAlias = Literal["none", "words", "hanzi"]
Reading: TypeAlias = tuple[str, ...]
Item = TypeVar("Item")
Result = TypeVar("Result")
Int32 = npt.NDArray[np.int32]

WORD_END = " "
LEFT_OUT = {
    "0": "digits",
    "A": "Latin letters",
    "%": "signs that are read aloud",
    "?": "letters of other scripts",
    "H": "hanzi without a reading in the dictionary",
}
ENDS = re.compile(r"[ \n0A%?H]*[\n0A%?H][ \n0A%?H]*")
GAPS = re.compile(" +")
ENCLOSING = ("Ps", "Pe", "Pi", "Pf")  # brackets and quotation marks, as Unicode calls them
MORE_QUOTES = "\"'"
TAG = re.compile(r"\]?/[A-Za-z]{1,4}(?=\s|\])|\][A-Za-z]{1,4}(?=\s)")
TAGGED = re.compile(r"\S/[A-Za-z]{1,4}(?=\s|$)")
MIN_TAGGED_SHARE = 0.8  # of what white space separates
HANZI_PAIR = re.compile(f"(?<=[{HANZI}])( *)(?=[{HANZI}])")
SPACED_WORDS, SPACED_HANZI = 0.3, 0.95  # of all pairs of hanzi; two in five if words are separated
SAMPLE_CHARS = 100_000
SOLE_PROCESS_BYTES = 2 * BLOCK_BYTES


class SpokenWord(NamedTuple):
    """A word, and its reading in context if that differs from the dictionary's, else None."""

    word: str
    reading: Reading | None


class SegmentedBlock(NamedTuple):
    """Whole sentences of segmented text.

    Attributes:
        spoken: the distinct words; the first is `SENTENCE_END`.
        tokens: (N,) sentences as indices into `spoken`, each ended by 0.
        left_out: number of characters left out, by reason.
        num_bytes: of the file as it is on disk.
        num_text_bytes: of the text in UTF-8.
    """

    spoken: list[SpokenWord]
    tokens: Int32
    left_out: Counter[str]
    num_bytes: int
    num_text_bytes: int


class _TextPiece(NamedTuple):
    text: str
    spacing: Spacing
    is_tagged: bool
    num_bytes: int


def segment_files(sources: Sequence[str], children: Sequence[ChildProcess]) -> Iterator[SegmentedBlock]:
    """Return an iterator over the sentences of files, in order.

    Args:
        sources: see `text_files.read_blocks`.
        children: segment in parallel; none to segment in this process.

    Raises:
        UserError: a file cannot be read.
    """
    pieces = _joined(itertools.chain.from_iterable(map(_pieces, sources)))
    return map_in(children, _segment, pieces)


@contextlib.contextmanager
def processes(num_bytes: int | None) -> Iterator[Sequence[ChildProcess]]:
    """Provide two processes for `map_in`; none for a small text, done before they would start.

    Args:
        num_bytes: size of the text; None if it is unknown.
    """
    is_small = num_bytes is not None and num_bytes <= SOLE_PROCESS_BYTES
    with contextlib.ExitStack() as stack:
        num = 0 if is_small else min(2, available_cores())
        yield [stack.enter_context(ChildProcess(_serve)) for _ in range(num)]


def map_in(
    children: Sequence[ChildProcess], function: Callable[[Item], Result], items: Iterable[Item]
) -> Iterator[Result]:
    """Yield the result of a function for each item, in order; without children, this process computes it."""
    if not children:
        return map(function, items)
    return answers_in_order(children, ((function, item) for item in items))


def _serve(requests: Iterator[tuple[Callable[[Any], Any], Any]]) -> Iterator[Any]:
    for function, item in requests:
        yield function(item)


def default_readings(words: Sequence[str]) -> list[Reading]:
    """Return the reading of each word on its own."""
    return [label(word, "syllables") for word in words]


def segment_text(text: str) -> SegmentedBlock:
    """Segment a short text into sentences."""
    return _segment(_TextPiece(text, "none", False, len(text.encode())))


def _pieces(source: str) -> Iterator[_TextPiece]:
    spacing: Spacing = "none"
    is_tagged = False
    for block in read_blocks(source):
        if block.first:
            spacing, is_tagged = form_of(block)
        yield _TextPiece(block.text, spacing, is_tagged, block.num_bytes)


def _joined(pieces: Iterable[_TextPiece]) -> Iterator[_TextPiece]:
    """Join pieces to about the size of a block, so that thousands of small files need few tasks."""
    for _, alike in itertools.groupby(pieces, lambda piece: (piece.spacing, piece.is_tagged)):
        waiting: list[_TextPiece] = []
        for piece in alike:
            waiting.append(piece)
            if sum(len(one.text) for one in waiting) * 3 >= BLOCK_BYTES:
                yield _join(waiting)
                waiting = []
        if waiting:
            yield _join(waiting)


def _join(pieces: Sequence[_TextPiece]) -> _TextPiece:
    return pieces[0]._replace(
        text="\n".join(piece.text for piece in pieces), num_bytes=sum(piece.num_bytes for piece in pieces)
    )


def form_of(block: TextBlock) -> tuple[Spacing, bool]:
    """Return what white space separates in a file, and whether words have part-of-speech tags."""
    sample = unicodedata.normalize("NFKC", block.text[:SAMPLE_CHARS])
    is_tagged = len(TAGGED.findall(sample)) > MIN_TAGGED_SHARE * max(1, len(sample.split()))
    if is_tagged:
        sample = TAG.sub(" ", sample)
    gaps = HANZI_PAIR.findall(re.sub("[ \t]+", " ", sample))
    spaced = sum(map(bool, gaps)) / max(1, len(gaps))
    if spaced >= SPACED_HANZI:
        return "hanzi", is_tagged
    return ("words" if spaced > SPACED_WORDS else "none"), is_tagged


def _segment(piece: _TextPiece) -> SegmentedBlock:
    text, left_out = _cleaned(piece)
    words = _words(text, piece.spacing)
    if words and words[-1] != SENTENCE_END:
        words.append(SENTENCE_END)
    ids: dict[object, int] = {SENTENCE_END: 0}
    tokens = np.fromiter((ids.setdefault(word, len(ids)) for word in words), np.int32, len(words))
    spoken = [SpokenWord(str(word), None) for word in ids]
    for place, reading in _readings(words).items():
        found = SpokenWord(words[place], reading)
        tokens[place] = ids.setdefault(found, len(ids))
        if tokens[place] == len(spoken):
            spoken.append(found)
    return SegmentedBlock(spoken, tokens, left_out, piece.num_bytes, len(piece.text.encode()))


def _cleaned(piece: _TextPiece) -> tuple[str, Counter[str]]:
    """Return hanzi with word ends and single sentence ends, and the count of what is left out."""
    text = unicodedata.normalize("NFKC", piece.text)
    if piece.is_tagged:
        text = TAG.sub(" ", text)
    text = text.translate(_Kinds())
    left_out = Counter({reason: text.count(mark) for mark, reason in LEFT_OUT.items()})
    if piece.spacing == "hanzi":
        text = text.replace(WORD_END, "")
    return ENDS.sub(SENTENCE_END, GAPS.sub(WORD_END, text)).strip(), +left_out


class _Kinds(dict[int, str]):
    """A table from each character to itself, a word or sentence end, or the mark of why it is left out."""

    def __missing__(self, code: int) -> str:
        self[code] = kind = _kind_of(chr(code))
        return kind


@functools.cache
def _kind_of(char: str) -> str:
    if is_hanzi(char):
        try:
            label(char, "syllables")
        except UnlabelledError:
            return "H"
        return char
    if char in "\n\r\v\f\x85\u2028\u2029":
        return SENTENCE_END
    kind, category = kind_of(char), unicodedata.category(char)
    if kind == "read aloud":
        return "%"
    if kind == "pause":
        is_within = category in ENCLOSING or char in MORE_QUOTES
        return WORD_END if is_within else SENTENCE_END
    if kind == "spoken":
        is_latin = "LATIN" in unicodedata.name(char, "")
        return "0" if category[0] == "N" else "A" if is_latin else "?"
    return WORD_END


def _words(text: str, spacing: Spacing) -> list[str]:
    if spacing == "words":
        return [word for word in re.split("(\n)| ", text) if word]
    import rjieba

    return [word for word in rjieba.cut(text, False) if word != WORD_END]


def _readings(words: Sequence[str]) -> dict[int, Reading]:
    """Return the readings that the context changes, by the position of their word: a word of one hanzi.

    Inside a longer word, the dictionary is more reliable.
    """
    text = "".join(words)
    alone = {place: word for place, word in _places(words) if len(words[word]) == 1}
    found = dict(sorted(readings_by_rules(words).items()))
    found |= _by_neighbours(text, alone.keys() - found.keys())
    return {
        alone[place]: (syllable,)
        for place, syllable in found.items()
        if place in alone and (syllable,) != _usual_reading(text[place])
    }


def _places(words: Sequence[str]) -> Iterator[tuple[int, int]]:
    """Yield the place in the text of each word, and the word's position."""
    place = 0
    for position, word in enumerate(words):
        yield place, position
        place += len(word)


def _by_neighbours(text: str, is_open: Set[int]) -> dict[int, str]:
    """Return the readings that the context model changes, of hanzi at the open places."""
    model = context_model()
    places = [place for place, char in enumerate(text) if char != SENTENCE_END]  # of each hanzi
    kept = {index for index, place in enumerate(places) if place not in is_open}
    usual = [
        "" if index in kept or text[place] not in model else _usual_reading(text[place])[0]
        for index, place in enumerate(places)
    ]
    changed = model.corrections([text], [Draft(usual, [False] * len(places), kept)])
    return {places[index]: syllable for _, index, syllable in changed}


@functools.cache
def _usual_reading(hanzi: str) -> Reading:
    return label(hanzi, "syllables")

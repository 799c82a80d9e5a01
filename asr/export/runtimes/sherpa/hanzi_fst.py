"""Write hanzi conversion as a transducer that sherpa-onnx applies to its text: `rule_fsts` of a recognizer.

The text is the tokens joined by spaces, with or without one before the first: ` ni3 hao3` becomes 你好. The
transducer reads and writes bytes. It holds words with their probabilities and those of word pairs, so that
its best path is what a converter with these finds. Any other text passes through unchanged, at a high cost:
what a transducer cannot read, sherpa-onnx would turn into an empty text. Of mixed labels, spaces between
capital letters are removed: ` kan4 C C T V` becomes 看CCTV.
"""

from __future__ import annotations

import functools
from collections.abc import Collection
from pathlib import Path
from typing import TypeAlias

from asr.base.text.mixed import LETTERS
from asr.export.runtimes.sherpa.hanzi_words import Spoken, Words, choose_words
from asr.export.runtimes.sherpa.transducer import EPSILON, Transducer

Labels: TypeAlias = list[tuple[int, int]]

SPACE = ord(" ")
AS_IS, PER_BYTE = 20.0, 10.0  # costs of text that is no token, more than those of any word
LETTER, NEXT_LETTER = 20.0, 5.0  # costs of letters that are spelt, less than those of other text
LATIN_SPACE = 10.0  # cost of other text after letters, less than that of other text after a syllable


def write_hanzi_fst(path: Path, tokens: Collection[str]) -> Transducer:
    """Write the transducer for a recognizer's tokens, and return it.

    Raises:
        OSError: the file cannot be written.
    """
    transducer = _Builder(choose_words(tokens)).transducer
    transducer.write(path)
    return transducer


class _Builder:
    """A transducer to which the states and arcs of all words are added.

    Between words, the state is `_ends[word]` where pairs begin with the word, else `_end`. From there, a
    space leads to `_afters[word]` or `_after`, where the next word begins.
    """

    def __init__(self, words: Words) -> None:
        self._words = words
        self.transducer = Transducer()
        self.transducer.start = start = self.transducer.state(final=0.0)
        self._after = self.transducer.state()
        self._end = self._add_end(self._after, float(words.costs[words.end]))
        self._ends: dict[int, int] = {}
        self._afters: dict[int, int] = {}
        for word, backoff in words.backoffs.items():
            self._afters[word] = self.transducer.state()
            self.transducer.arc(self._afters[word], self._after, cost=backoff)
            self._ends[word] = self._add_end(self._afters[word], backoff + float(words.costs[words.end]))
        begin = self._afters.get(words.begin, self._after)
        self.transducer.arc(start, begin)
        self.transducer.arc(start, begin, SPACE)
        self._add_words()
        self._add_pairs()
        self._add_other_text()

    def _add_end(self, after: int, cost: float) -> int:
        end = self.transducer.state(final=cost)
        self.transducer.arc(end, after, SPACE)
        return end

    def _add_words(self) -> None:
        """Let every word begin at `_after`: its first syllable is read, a character written, then the rest.

        Words with the same first syllable and character share these, and words with the same rest that.
        """
        for word in self._words.spoken:
            cost = float(self._words.costs[word.word]) + word.cost
            end = self._ends.get(word.word, self._end)
            text = word.text if len(word.syllables) == 1 else word.text[0]
            first = self._state_of_first(word.syllables[0], text)
            if len(word.syllables) == 1:
                self.transducer.arc(first, end, cost=cost)
            else:
                rest = Spoken(word.syllables[1:], word.text[1:], word.word, word.cost)
                self._add_beginning(self._state_behind_space(first), _labels(rest), end, cost)

    def _add_pairs(self) -> None:
        """Let the second word of each pair begin where the first has ended."""
        by_word: dict[int, list[Spoken]] = {}
        for word in self._words.spoken:
            by_word.setdefault(word.word, []).append(word)
        for pair in self._words.pairs:
            if pair.second == self._words.end:
                self.transducer.set_final(self._ends[pair.first], pair.cost)
            for word in by_word.get(pair.second, ()):
                end = self._ends.get(word.word, self._end)
                self._add_beginning(self._afters[pair.first], _labels(word), end, pair.cost + word.cost)

    def _add_other_text(self) -> None:
        """Let any bytes pass unchanged between words."""
        other = self.transducer.state()
        self.transducer.arc(self._after, other, cost=AS_IS)
        self.transducer.arc(other, self._end)
        for byte in range(1, 256):
            self.transducer.arc(other, other, byte, byte, PER_BYTE)
        self._add_letters(other)

    def _add_letters(self, other: int) -> None:
        """Join capital letters in a row; the space between them and other text stays."""
        letters, following = self.transducer.state(), self.transducer.state()
        for letter in LETTERS:
            self.transducer.arc(self._after, letters, ord(letter), ord(letter), LETTER)
            self.transducer.arc(following, letters, ord(letter), ord(letter), NEXT_LETTER)
        self.transducer.arc(letters, self._end)
        self.transducer.arc(letters, following, SPACE)
        self.transducer.arc(letters, other, SPACE, SPACE, LATIN_SPACE)
        self.transducer.arc(other, following, SPACE, SPACE)

    def _add_beginning(self, source: int, labels: Labels, end: int, cost: float) -> None:
        """Add a chain whose first arc, which is not shared, has the cost."""
        (read, write), *others = labels
        self.transducer.arc(source, self.transducer.chain(others, end), read, write, cost)

    @functools.cache  # noqa: B019 (a builder lives as long as its caches)
    def _state_of_first(self, syllable: str, text: str) -> int:
        """Return the state in which a syllable has been read and its text been written."""
        state = self.transducer.state()
        first, *others = text.encode()
        behind = self.transducer.chain([(EPSILON, byte) for byte in others], state)
        self.transducer.arc(self._state_behind(syllable.encode()), behind, write=first)
        return state

    @functools.cache  # noqa: B019
    def _state_behind(self, letters: bytes) -> int:
        """Return the state in which the first letters of a syllable have been read."""
        if not letters:
            return self._after
        state = self.transducer.state()
        self.transducer.arc(self._state_behind(letters[:-1]), state, letters[-1])
        return state

    @functools.cache  # noqa: B019
    def _state_behind_space(self, state: int) -> int:
        """Return the state that a space leads to."""
        behind = self.transducer.state()
        self.transducer.arc(state, behind, SPACE)
        return behind


def _labels(word: Spoken) -> Labels:
    """Return what the arcs of a word read and write; each character is written as late as possible.

    The first arc writes nothing, so that words can share the others.
    """
    texts = [word.text] if len(word.syllables) == 1 else list(word.text)
    labels: Labels = []
    for index, (syllable, text) in enumerate(zip(word.syllables, texts, strict=True)):
        read = (b" " if index else b"") + syllable.encode()
        write = text.encode()
        length = max(len(read), len(write) + 1)
        padding = bytes([EPSILON])
        labels += zip(read.ljust(length, padding), write.rjust(length, padding), strict=True)
    return labels

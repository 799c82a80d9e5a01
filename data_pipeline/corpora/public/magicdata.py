"""Read MagicData Read Speech (Magic Data, 2019; OpenSLR 68): Mandarin by 1,080 speakers, on telephones.

    train/TRANS.txt                                   UtteranceID, SpeakerID, Transcription, tab-separated
    train/38_5716/38_5716_20170914202211.wav
    dev/, test/                                       the same

Each split is an archive of its own and may be missing. The transcribers' noise marks, [FIL] for a filled
pause and [SPK] for a sound of the speaker, are removed from the text: the recording keeps the noises, and a
model learns to ignore them. A line with nothing else is left out as empty. Punctuation stays.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from asr.base.work import OnProgress, ignore_progress
from data_pipeline.corpora.layout import corpus_folder, files_below, plain_spaces, text_lines
from data_pipeline.corpora.matching import ClipFile, TextLine, match, require_recordings
from data_pipeline.types import SPLITS, Archive, Corpus, CorpusReading, LeftOut

TABLE = "TRANS.txt"
LAYOUT = f"train/{TABLE}, dev/{TABLE}, test/{TABLE} and beside each a folder for every speaker"
HEADER = "UtteranceID"
NOISE = re.compile(r"[\[【]\s*[A-Za-z]+\s*[\]】]|(?<![A-Za-z])(?:FIL|SPK)(?![A-Za-z])")
KNOWN_BROKEN = {"16_4013_20170819121429", "18_1565_20170712000170"}  # according to lhotse's recipe


def read(source: Path, target: Path, on_progress: OnProgress = ignore_progress) -> CorpusReading:
    """Match recordings with transcripts in the splits that exist.

    Raises:
        UserError: no split exists.
    """
    tables = [f"{split}/{TABLE}" for split in SPLITS]
    folder = corpus_folder(source, tables, LAYOUT, at_least=1)
    clips: list[ClipFile] = []
    lines: list[TextLine] = []
    left_out: list[LeftOut] = []
    for split, table in zip(SPLITS, tables, strict=True):
        if not (folder / table).exists():
            left_out.append(LeftOut(str(folder / split), "missing split, or split without TRANS.txt"))
            continue
        clips += [ClipFile(path, split, path.parent.name) for path in files_below(folder / split, (".wav",))]
        lines += _lines(folder / table)
    broken = [clip for clip in clips if clip.path.stem in KNOWN_BROKEN]
    left_out += [LeftOut(str(clip.path), "known to be damaged") for clip in broken]
    reading = match(
        [clip for clip in clips if clip.path.stem not in KNOWN_BROKEN],
        [line for line in lines if line.id not in KNOWN_BROKEN],
        left_out,
    )
    return require_recordings(reading, source, LAYOUT)


def _lines(table: Path) -> Iterator[TextLine]:
    for number, line in text_lines(table):
        fields = line.split("\t", 2) if "\t" in line else line.split(None, 2)
        name, speaker, text = (field.strip() for field in [*fields, "", ""][:3])
        if name != HEADER:
            yield TextLine(Path(name).stem, without_noises(text), f"{table}:{number}", speaker)


def without_noises(text: str) -> str:
    """Remove the noise marks from a text; return "" if no letter or digit is left."""
    kept = plain_spaces(NOISE.sub(" ", text))
    return kept if any(char.isalnum() for char in kept) else ""


CORPUS = Corpus(
    read=read,
    about="1,080 speakers, sentences from messages, searches and commands, on telephones",
    language="zh",
    hours=755,
    size_gb=55.2,
    licence="CC-BY-NC-ND-4.0",
    address="https://www.openslr.org/68/",
    archives=tuple(Archive(f"https://www.openslr.org/resources/68/{split}_set.tar.gz") for split in SPLITS),
    layout=LAYOUT,
)

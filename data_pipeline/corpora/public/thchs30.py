"""Read THCHS-30 (Wang and Zhang, 2015, arXiv:1512.01882; OpenSLR 18): Mandarin news read by students.

    data_thchs30/data/A11_0.wav, A11_0.wav.trn    words, toned pinyin, and phonemes, one line each
    data_thchs30/train/A11_0.wav, A11_0.wav.trn   the .trn holds a path: ../data/A11_0.wav.trn
    data_thchs30/dev/, test/                      the same; these folders are the splits

It has 13,388 recordings of 60 speakers: 10,000, 893 and 2,495. The labels are the corpus's own pinyin, which,
unlike labels made from hanzi, follows the tone sandhi of 一 and 不 (yi2 ge4, bu2 hui4) and some third tones.
"""

from __future__ import annotations

import functools
import os
import re
from pathlib import Path

from asr.base.errors import UserError
from asr.base.work import OnProgress, ignore_progress
from data_pipeline.corpora.layout import corpus_folder, files_below, plain_spaces, text_lines
from data_pipeline.corpora.matching import (
    EMPTY,
    NO_AUDIO,
    NO_TRANSCRIPT,
    UNREADABLE_TRANSCRIPT,
    require_recordings,
)
from data_pipeline.labels.syllable_spelling import syllables_of
from data_pipeline.types import SPLITS, Archive, Corpus, CorpusReading, LeftOut, Recording

AUDIO, TRANSCRIPT = ".wav", ".wav.trn"
LAYOUT = "data_thchs30/{data,train,dev,test} with *.wav and *.wav.trn"
MAX_LINKS = 3
STRAY = re.compile(r"(?:^|(?<= ))l =(?: |$)")  # stray text in a few transcripts


class DeadLinkError(UserError):
    """A link file, or a chain of them, that does not lead to a transcript."""


def read(source: Path, target: Path, on_progress: OnProgress = ignore_progress) -> CorpusReading:
    """Return the recordings of each split, with text and syllables from the transcripts they link to.

    Raises:
        UserError: the folder does not hold the corpus.
    """
    folder = corpus_folder(source, ("data", *SPLITS), LAYOUT)
    originals = _files(folder / "data")
    splits: dict[str, list[Recording]] = {}
    left_out: list[LeftOut] = []
    used: set[str] = set()
    for split in SPLITS:
        found = _files(folder / split)
        for name in sorted({_name(file) for file in found}):
            used.add(name)
            # in data/ it is a real file; in the splits it may be a link that this system cannot follow
            audio = originals.get(name + AUDIO) or found.get(name + AUDIO)
            transcript = found.get(name + TRANSCRIPT) or originals.get(name + TRANSCRIPT)
            result = _recording(name, audio, transcript)
            if isinstance(result, Recording):
                splits.setdefault(split, []).append(result)
            else:
                left_out.append(result)
    unused = sorted({_name(file) for file in originals} - used)
    left_out += [LeftOut(str(folder / "data" / name), "in none of the splits") for name in unused]
    return require_recordings(CorpusReading(splits, left_out), source, LAYOUT)


def _files(folder: Path) -> dict[str, Path]:
    """Return the audio and transcripts in a folder by name, with the suffix in lower case."""
    paths = files_below(folder, (AUDIO, TRANSCRIPT))
    return {_name(path.name) + path.name[len(_name(path.name)) :].lower(): path for path in paths}


def _name(file: str) -> str:
    return file.split(".", 1)[0]


def _recording(name: str, audio: Path | None, transcript: Path | None) -> Recording | LeftOut:
    if transcript is None:
        return LeftOut(str(audio), NO_TRANSCRIPT)
    if audio is None:
        return LeftOut(str(transcript), NO_AUDIO)
    left_out = functools.partial(LeftOut, str(transcript))
    try:
        lines = _follow(transcript)
    except DeadLinkError as error:
        return left_out("broken link file", str(error))
    except UserError as error:
        return left_out(UNREADABLE_TRANSCRIPT, str(error))
    text, pinyin = (plain_spaces(STRAY.sub("", lines.get(number, ""))) for number in (1, 2))
    if not text:
        return left_out(EMPTY)
    if not pinyin:
        return left_out("transcript without a pinyin line")
    try:
        return Recording(name, str(audio), text, name.split("_")[0], syllables_of(pinyin))
    except UserError as error:
        return left_out("invalid pinyin", str(error))


def _follow(transcript: Path) -> dict[int, str]:
    """Return the lines of a transcript by number, or of the one that a link file names."""
    for _ in range(MAX_LINKS):
        if not transcript.exists():
            raise DeadLinkError(f"{transcript} not found")
        lines = dict(text_lines(transcript))
        if len(lines) != 1 or not lines.get(1, "").lower().endswith(TRANSCRIPT):
            return lines
        transcript = Path(os.path.normpath(transcript.parent / lines[1].replace("\\", "/")))
    raise DeadLinkError(f"{transcript}: more than {MAX_LINKS} links in a row")


CORPUS = Corpus(
    read=read,
    about="60 students read news in a quiet office; with the corpus authors' pinyin",
    language="zh",
    hours=33.5,
    size_gb=6.5,
    licence="Apache-2.0",
    address="https://www.openslr.org/18/",
    archives=(
        Archive(
            "https://www.openslr.org/resources/18/data_thchs30.tgz",
            "2d2252bde5c8429929e1841d4cb95e90",
        ),
    ),
    layout=LAYOUT,
)

"""Read ST-CMDS (Surfingtech, 2017; OpenSLR 38): Mandarin sentences, recorded on telephones.

    ST-CMDS-20170001_1-OS/20170001P00001A0001.wav, .txt, .metadata

There are 102,600 of each in one folder; subfolders work as well. A name consists of the corpus (20170001),
the speaker and the sentence: P00001A and P00001I are two sets of 120 sentences by one person. No splits.
"""

from __future__ import annotations

import re
from pathlib import Path

from asr.base.errors import UserError
from asr.base.work import OnProgress, ignore_progress, reported
from data_pipeline.corpora.layout import files_below, plain_spaces, text_lines
from data_pipeline.corpora.matching import (
    UNREADABLE_TRANSCRIPT,
    ClipFile,
    TextLine,
    match,
    require_recordings,
)
from data_pipeline.manifests.left_out import partition
from data_pipeline.types import Archive, Corpus, CorpusReading, LeftOut

FOLDER = "ST-CMDS-20170001_1-OS"
LAYOUT = f"{FOLDER}/*.wav and *.txt"
NAME = re.compile(r"20170001(P[0-9]{5})[A-Z][0-9]{4}")


def read(source: Path, target: Path, on_progress: OnProgress = ignore_progress) -> CorpusReading:
    """Match recordings with the text files of the same names.

    Raises:
        UserError: no recording has a text.
    """
    folder = source / FOLDER if (source / FOLDER).is_dir() else source
    clips: list[ClipFile] = []
    texts: list[Path] = []
    left_out: list[LeftOut] = []
    for path in files_below(folder, (".wav", ".txt")):
        name = NAME.fullmatch(path.stem)
        if path.suffix.lower() == ".txt":
            texts += [path] if name else []  # a README is not a transcript
        elif name:
            clips.append(ClipFile(path, speaker=name[1]))
        else:
            left_out.append(LeftOut(str(path), "file name not of this corpus"))
    lines = partition(map(_line, reported(texts, "reading transcripts", "files", on_progress)))
    return require_recordings(match(clips, lines.kept, left_out + lines.left_out), source, LAYOUT)


def _line(path: Path) -> TextLine | LeftOut:
    try:
        text = plain_spaces(" ".join(line for _, line in text_lines(path)))
    except UserError as error:
        return LeftOut(str(path), UNREADABLE_TRANSCRIPT, str(error))
    return TextLine(path.stem, text, str(path))


CORPUS = Corpus(
    read=read,
    about="855 sets of 120 sentences, a few by the same person: small talk and commands, on telephones",
    language="zh",
    hours=110,
    size_gb=8.2,
    licence="CC-BY-NC-ND-4.0",
    address="https://www.openslr.org/38/",
    archives=(
        Archive(
            "https://www.openslr.org/resources/38/ST-CMDS-20170001_1-OS.tar.gz",
            "c28ddfc8e4ebe48949bc79a0c23c5545",
        ),
    ),
    layout=LAYOUT,
)

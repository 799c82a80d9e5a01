"""Read LibriSpeech: English audio books (Panayotov et al., 2015; openslr.org/12, CC BY 4.0).

Layout: `<part>/<speaker>/<chapter>/<speaker>-<chapter>-<number>.flac`, and in each chapter's folder a
`<speaker>-<chapter>.trans.txt` with an id and its text in capitals on each line. One part is enough. The
training parts are one split; "clean" and "other" stay separate in dev and test.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

from asr.audio.formats import AUDIO_SUFFIXES
from asr.base.errors import UserError
from asr.base.text.wording import counted
from asr.base.work import OnProgress, ignore_progress, reported
from data_pipeline.corpora.clip_lists import contents, folders_in, refuse_missing
from data_pipeline.corpora.layout import files_below, plain_spaces, text_lines
from data_pipeline.corpora.matching import DUPLICATE_ID, NO_AUDIO, NO_TRANSCRIPT
from data_pipeline.manifests.left_out import partition
from data_pipeline.types import Archive, Corpus, CorpusReading, LeftOut, Recording

MD5 = {  # https://www.openslr.org/resources/12/md5sum.txt
    "train-clean-100": "2a93770f6d5c6c964bc36631d331a522",
    "train-clean-360": "c0e676e450a7ff2f54aeade5171606fa",
    "train-other-500": "d1a0fd59409feb2c614ce4d30c387708",
    "dev-clean": "42e2234ba48799c1f50f24a7926300a1",
    "dev-other": "c8d0bcc9cca99d4f8b62fcc847357931",
    "test-clean": "32fa31d27d2e1cad72775fee3f4849a9",
    "test-other": "fb5a50374b501bb3bac4815ee91d3135",
}
PART = re.compile(r"(train|dev|test)-(clean|other)(-[0-9]+)?")  # Mini LibriSpeech's too: dev-clean-2
TRANSCRIPT = ".trans.txt"
LAYOUT = "LibriSpeech/{train,dev,test}-{clean,other}*/<speaker>/<chapter>/*.flac and *.trans.txt"


def read(source: Path, target: Path, on_progress: OnProgress = ignore_progress) -> CorpusReading:
    """Return the recordings of the parts found; the other parameters are not used.

    Raises:
        UserError: no part is below the folder, or no part has a recording with its text.
    """
    refuse_missing(source)
    splits: dict[str, list[Recording]] = {}
    left_out: list[LeftOut] = []
    seen: set[str] = set()
    for part in reported(_parts(source), "reading LibriSpeech", "parts", on_progress):
        found = partition(_recordings(part))
        left_out += found.left_out
        for recording in found.kept:
            if recording.id in seen:  # a part that is there twice
                left_out.append(LeftOut(recording.audio_path, DUPLICATE_ID, recording.id))
            else:
                seen.add(recording.id)
                splits.setdefault(split_of_part(part.name), []).append(recording)
    if not splits:
        raise UserError(
            f"{source}: no recording with its text below this folder; expected {LAYOUT}; "
            f"left out {counted(len(left_out), 'file')}; unpack the archives again"
        )
    return CorpusReading(splits, left_out)


def split_of_part(part: str) -> str:
    """Return the split of a part: "train-clean-100" -> "train", "dev-other" -> "dev_other"."""
    match = PART.fullmatch(part)
    assert match
    return f"{match[1]}_other" if match[2] == "other" and match[1] != "train" else match[1]


def _parts(source: Path) -> list[Path]:
    parts = list(_parts_below(Path(os.path.abspath(source)), depth=3))  # noqa: PTH100 (keeps links)
    if not parts:
        raise UserError(
            f"{source}: no part of LibriSpeech below this folder; expected {LAYOUT}; {contents(source)}"
        )
    return sorted(parts, key=lambda part: list(MD5).index(part.name) if part.name in MD5 else -1)


def _parts_below(folder: Path, depth: int) -> Iterator[Path]:
    if PART.fullmatch(folder.name):
        yield folder
    elif depth:
        for below in folders_in(folder):
            yield from _parts_below(below, depth - 1)


def _recordings(part: Path) -> Iterator[Recording | LeftOut]:
    """Match the audio of a part with its transcripts."""
    audio: dict[str, str] = {}
    transcripts: list[Path] = []
    for path in files_below(part, (TRANSCRIPT, *AUDIO_SUFFIXES)):
        if path.name.lower().endswith(TRANSCRIPT):
            transcripts.append(path)
        elif path.stem in audio:
            yield LeftOut(str(path), DUPLICATE_ID, path.stem)
        else:
            audio[path.stem] = str(path)
    for path in transcripts:
        for number, line in text_lines(path):
            name, _, text = line.partition(" ")
            if name not in audio:
                yield LeftOut(f"{path}:{number}", NO_AUDIO, name)
            elif text:
                speaker = name.split("-")[0]
                yield Recording(name, audio.pop(name), plain_spaces(text), speaker)
    for unmatched in audio.values():
        yield LeftOut(unmatched, NO_TRANSCRIPT)


CORPUS = Corpus(
    read=read,
    about="English audio books, 2,484 speakers; unpack the parts you need into one folder",
    language="en",
    units="characters",
    hours=982.1,
    size_gb=61.4,
    licence="CC-BY-4.0",
    address="https://www.openslr.org/12",
    archives=tuple(
        Archive(f"https://www.openslr.org/resources/12/{part}.tar.gz", md5) for part, md5 in MD5.items()
    ),
    layout=LAYOUT,
    is_flac=True,
)

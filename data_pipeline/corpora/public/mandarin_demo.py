"""Read the demo corpus bundled with the project: 62 minutes of Mandarin sentences by synthetic voices.

Train, dev and test share no voice and no sentence; the README in the archive explains how it was made.
"""

from __future__ import annotations

import json
import tempfile
import zipfile
from pathlib import Path

from asr.base.work import OnProgress, ignore_progress
from data_pipeline.recordings.conversion import convert_to_wav
from data_pipeline.types import SPLITS, Corpus, CorpusReading, Recording

ARCHIVE = Path(__file__).with_name("mandarin_demo.zip")


def read(source: Path, target: Path, on_progress: OnProgress = ignore_progress) -> CorpusReading:
    """Unpack the archive into 16 kHz WAV files below `target`; `source` is not used."""
    (target / "audio").mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target) as folder, zipfile.ZipFile(ARCHIVE) as archive:
        archive.extractall(folder)
        lines = (Path(folder) / "manifest.jsonl").read_text(encoding="utf-8").splitlines()
        records = [json.loads(line) for line in lines]
        pairs = [
            (Path(folder) / record["audio"], target / "audio" / f"{record['id']}.wav") for record in records
        ]
        durations = convert_to_wav(pairs, "unpacking the demo corpus", on_progress)
    splits: dict[str, list[Recording]] = {split: [] for split in SPLITS}
    for record, (_, wav), duration_s in zip(records, pairs, durations, strict=True):
        assert isinstance(duration_s, float), duration_s  # the archive is part of the project
        splits[record["split"]].append(
            Recording(
                id=record["id"],
                audio_path=str(wav),
                text=record["text"],
                tokens=tuple(record["pinyin"].split()),
                speaker=record["speaker"],
            )
        )
    return CorpusReading(splits)


CORPUS = Corpus(
    read=read,
    about="2,000 everyday Mandarin sentences, 321 toned syllables, synthetic voices; bundled",
    language="zh",
    hours=1.04,
    licence="Apache-2.0",
    needs_source=False,
)

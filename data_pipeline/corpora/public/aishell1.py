"""Read AISHELL-1 (Bu et al., 2017, arXiv:1709.05522; OpenSLR 33): Mandarin sentences by 400 speakers.

    data_aishell/transcript/aishell_transcript_v0.8.txt    BAC009S0002W0122 而 对 楼市 ...
    data_aishell/wav/S0002.tar.gz                          as downloaded: train/S0002/BAC009S0002W0122.wav
    data_aishell/wav/train/S0002/BAC009S0002W0122.wav      where these archives are unpacked

It has 141,925 recordings and 141,600 transcripts. The splits are the corpus's own: 340, 40 and 20 speakers.
"""

from __future__ import annotations

from pathlib import Path

from asr.base.work import OnProgress, ignore_progress
from data_pipeline.corpora.speaker_archives import read_speakers
from data_pipeline.types import Archive, Corpus, CorpusReading

TABLE = "transcript/aishell_transcript_v0.8.txt"
LAYOUT = f"data_aishell/wav and data_aishell/{TABLE}"


def read(source: Path, target: Path, on_progress: OnProgress = ignore_progress) -> CorpusReading:
    """Match recordings with transcripts, after unpacking packed speakers below `target / "unpacked"`.

    Raises:
        UserError: the folder does not hold the corpus.
    """
    return read_speakers(source, target, "wav", TABLE, LAYOUT, on_progress)


CORPUS = Corpus(
    read=read,
    about="400 speakers from all over China read news, in a quiet room, at 16 kHz",
    language="zh",
    hours=178,
    size_gb=15.6,
    licence="Apache-2.0",
    address="https://www.openslr.org/33/",
    archives=(
        Archive(
            "https://www.openslr.org/resources/33/data_aishell.tgz",
            "2f494334227864a8a8fec932999db9d8",
        ),
    ),
    layout=LAYOUT,
    packed_twice=True,
)

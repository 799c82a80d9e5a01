"""Read aidatatang_200zh (Beijing DataTang, 2019; OpenSLR 62): Mandarin by 600 speakers, on telephones.

    aidatatang_200zh/transcript/aidatatang_200_zh_transcript.txt    T0055G0013S0001 以后 你 是 ...
    aidatatang_200zh/corpus/train/G0013.tar.gz                      as downloaded: G0013/T0055G0013S0001.wav
    aidatatang_200zh/corpus/train/G0013/T0055G0013S0001.wav         where these archives are unpacked

It has 237,265 recordings, each with a .txt, .trn and .metadata that add nothing to the table. The splits are
the corpus's own, 7 : 1 : 2. OpenSLR withdrew it at the owner's request, so it cannot be downloaded.
"""

from __future__ import annotations

from pathlib import Path

from asr.base.work import OnProgress, ignore_progress
from data_pipeline.corpora.speaker_archives import read_speakers
from data_pipeline.types import Corpus, CorpusReading

TABLE = "transcript/aidatatang_200_zh_transcript.txt"
LAYOUT = f"aidatatang_200zh/corpus/{{train,dev,test}} and aidatatang_200zh/{TABLE}"


def read(source: Path, target: Path, on_progress: OnProgress = ignore_progress) -> CorpusReading:
    """Match recordings with transcripts, after unpacking packed speakers below `target / "unpacked"`.

    Raises:
        UserError: the folder does not hold the corpus.
    """
    return read_speakers(source, target, "corpus", TABLE, LAYOUT, on_progress)


CORPUS = Corpus(
    read=read,
    about="600 speakers, sentences on telephones; withdrawn by its owner, so usable only if you have a copy",
    language="zh",
    hours=200,
    size_gb=18.8,
    licence="CC-BY-NC-ND-4.0",
    address="https://www.openslr.org/62/",
    layout=LAYOUT,
    packed_twice=True,
)

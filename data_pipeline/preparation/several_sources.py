"""Read the sources of a corpus, such as several folders of your own recordings, as one."""

from __future__ import annotations

import bisect
import dataclasses
import itertools
import math
import os
from collections.abc import Iterable, Sequence
from pathlib import Path

from asr.base.work import OnProgress
from data_pipeline.corpora.clip_lists import unique_name
from data_pipeline.corpora.matching import NO_TRANSCRIPT
from data_pipeline.types import Corpus, CorpusReading, LeftOut, Recording

IN_TWO_SOURCES = "recording of two sources"


class Spans:
    """Spans of a recording, in seconds, in any order; they may overlap."""

    def __init__(self, spans: Iterable[tuple[float, float]]) -> None:
        self._begins, ends = zip(*sorted(spans), strict=True)
        self._latest_ends = list(itertools.accumulate(ends, max))

    def overlap(self, begin_s: float, end_s: float) -> bool:
        """Return whether one of them has a stretch in common with another span."""
        num_before = bisect.bisect_left(self._begins, end_s)
        return bool(num_before) and self._latest_ends[num_before - 1] > begin_s


def read_sources(
    corpus: Corpus, sources: Sequence[Path], target: Path, on_progress: OnProgress
) -> CorpusReading:
    """Return what a corpus reads of its sources, together.

    An id of two sources gets the later source's name in front. A recording of two sources, or a part of one,
    is used once, with the text of the first; lists come before folders, where a name may be all that a
    recording has.

    Args:
        corpus: that reads them.
        sources: folders and lists.
        target: the folder of prepared files.
        on_progress: receives the progress of reading.

    Raises:
        UserError: a source has nothing usable.
    """
    sources = sorted(sources, key=Path.is_dir)
    readings = [corpus.read(source, target, on_progress) for source in sources]
    if len(readings) == 1:
        return readings[0]
    splits: dict[str, list[Recording]] = {}
    left_out: list[LeftOut] = []
    notes: list[str] = []
    used_before: list[tuple[Path, dict[str, Spans]]] = []
    ids: set[str] = set()
    for source, reading in zip(sources, readings, strict=True):
        left_out += reading.left_out
        notes += [note if note.startswith(source.name) else f"{source}: {note}" for note in reading.notes]
        own_ids: set[str] = set()
        own_spans: dict[str, list[tuple[float, float]]] = {}
        for split, recordings in reading.splits.items():
            for recording in recordings:
                path = os.path.realpath(recording.audio_path)
                span = recording.begin_s, math.inf if recording.end_s is None else recording.end_s
                firsts = (first for first, of in used_before if path in of and of[path].overlap(*span))
                if first := next(firsts, None):
                    left_out.append(LeftOut(recording.where, IN_TWO_SOURCES, f"in {source}; {first} is used"))
                    continue
                own_spans.setdefault(path, []).append(span)
                if recording.id in ids:
                    name = unique_name(f"{source.stem}-{recording.id}", ids | own_ids)
                    recording = dataclasses.replace(recording, id=name)
                own_ids.add(recording.id)
                splits.setdefault(split, []).append(recording)
        ids |= own_ids
        used_before.append((source, {path: Spans(spans) for path, spans in own_spans.items()}))
    used = {recording.audio_path for recordings in splits.values() for recording in recordings}
    left_out = [row for row in left_out if not (row.reason == NO_TRANSCRIPT and row.what in used)]
    language = next((reading.language for reading in readings if reading.language), "")
    return CorpusReading(splits, left_out, language, notes)

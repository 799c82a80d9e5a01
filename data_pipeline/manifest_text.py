"""A manifest as running text whose words are read as its labels say."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from asr.base.pinyin import is_syllable
from asr.base.types import Utterance
from data_pipeline.manifest import read_manifest
from data_pipeline.running_text import SENTENCE_END, SegmentedBlock, SpokenWord, segment_text

SUFFIX = ".jsonl"
UTTERANCES_AT_ONCE = 10_000


def segment_manifest(path: Path) -> Iterator[SegmentedBlock]:
    """Sentences of a manifest's texts; a word has the reading that the labels give it there.

    Labels that are no syllables, or not as many as the text has hanzi, tell no readings, and none do where
    a part of the text cannot be read.

    Raises:
        UserError: it cannot be read.
    """
    utterances = read_manifest(path)
    bytes_each = path.stat().st_size // len(utterances)
    for begin in range(0, len(utterances), UTTERANCES_AT_ONCE):
        yield _block(utterances[begin : begin + UTTERANCES_AT_ONCE], bytes_each)


def _block(utterances: Sequence[Utterance], bytes_each: int) -> SegmentedBlock:
    places = {SpokenWord(SENTENCE_END, None): 0}
    tokens: list[int] = []
    left_out: Counter[str] = Counter()
    num_text_bytes = 0
    for utterance in utterances:
        block = segment_text(utterance.text)
        words = [block.spoken[token] for token in block.tokens]
        if not block.left_out:  # labels of digits or letters may make up for an r that is no label of its own
            words = _as_labelled(words, utterance.tokens)
        tokens += [places.setdefault(word, len(places)) for word in words]
        left_out += block.left_out
        num_text_bytes += block.num_text_bytes
    return SegmentedBlock(
        list(places), np.array(tokens, np.int32), left_out, bytes_each * len(utterances), num_text_bytes
    )


def _as_labelled(words: Sequence[SpokenWord], labels: Sequence[str]) -> list[SpokenWord]:
    num_hanzi = sum(len(one.word) for one in words if one.word != SENTENCE_END)
    if num_hanzi != len(labels) or not all(map(is_syllable, labels)):
        return list(words)
    labelled, place = [], 0
    for one in words:
        if one.word == SENTENCE_END:
            labelled.append(one)
            continue
        labelled.append(SpokenWord(one.word, tuple(labels[place : place + len(one.word)])))
        place += len(one.word)
    return labelled

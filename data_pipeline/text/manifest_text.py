"""Turn a manifest into running text, with the readings of its words taken from its labels."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from asr.base.system.shards import shards_of
from asr.base.text.pinyin import is_syllable
from asr.base.types import Utterance
from data_pipeline.labels.readings.rules import SENTENCE_END
from data_pipeline.manifests.manifest import read_manifest
from data_pipeline.text.segmented_text import SegmentedBlock, SpokenWord, segment_text

UTTERANCES_PER_BLOCK = 10_000


def segment_manifest(path: Path) -> Iterator[SegmentedBlock]:
    """Yield the sentences of a manifest's texts, each word with the reading that the labels give it there.

    Labels are ignored if they are not syllables, are not as many as the text's hanzi, or if a part of the
    text is left out.

    Raises:
        UserError: the manifest cannot be read.
    """
    utterances = read_manifest(path)
    bytes_each = sum(shard.stat().st_size for shard in shards_of(path)) // len(utterances)
    for begin in range(0, len(utterances), UTTERANCES_PER_BLOCK):
        yield _block(utterances[begin : begin + UTTERANCES_PER_BLOCK], bytes_each)


def _block(utterances: Sequence[Utterance], bytes_each: int) -> SegmentedBlock:
    indices = {SpokenWord(SENTENCE_END, None): 0}
    tokens: list[int] = []
    left_out: Counter[str] = Counter()
    num_text_bytes = 0
    for utterance in utterances:
        block = segment_text(utterance.text)
        words = [block.spoken[token] for token in block.tokens]
        if not block.left_out:  # else the labels of digits could make up for a 儿 without a label
            words = _as_labelled(words, utterance.tokens)
        tokens += [indices.setdefault(word, len(indices)) for word in words]
        left_out += block.left_out
        num_text_bytes += block.num_text_bytes
    return SegmentedBlock(
        list(indices), np.array(tokens, np.int32), left_out, bytes_each * len(utterances), num_text_bytes
    )


def _as_labelled(words: Sequence[SpokenWord], labels: Sequence[str]) -> list[SpokenWord]:
    num_hanzi = sum(len(one.word) for one in words if one.word != SENTENCE_END)
    if num_hanzi != len(labels) or not all(map(is_syllable, labels)):
        return list(words)
    labelled, index = [], 0
    for one in words:
        if one.word == SENTENCE_END:
            labelled.append(one)
            continue
        labelled.append(SpokenWord(one.word, tuple(labels[index : index + len(one.word)])))
        index += len(one.word)
    return labelled

"""Dataset -> hypotheses and error rates."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import tensorflow as tf

from asr.acoustic import AcousticModel
from asr.audio import SAMPLE_RATE_HZ
from asr.decoding.greedy import greedy_hypotheses
from asr.features import HOP
from asr.loss import ctc_loss
from asr.metrics import AlignedPair, PartErrors, align, count_edits, part_errors, total_edits, without_tones
from asr.types import Batch, EditCounts, Hypothesis, Tensor, Utterance
from asr.vocabulary import Vocabulary, is_syllable


class EvaluationData(Protocol):
    """What evaluation needs of a set; `data_pipeline.dataset.Dataset` is one."""

    @property
    def utterances(self) -> Sequence[Utterance]:
        """The rows."""

    def in_order(self) -> tuple[list[list[int]], Iterator[Batch]]:
        """The rows of each batch, and the batches."""


@dataclass(frozen=True)
class Evaluation:
    """What a model made of a set.

    Attributes:
        utterances: the set.
        hypotheses: what was heard, in the set's order.
        loss: mean CTC loss of an utterance.
        edits: over all tokens.
    """

    utterances: Sequence[Utterance]
    hypotheses: Sequence[Hypothesis]
    loss: float
    edits: EditCounts

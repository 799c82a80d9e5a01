"""What flows between the parts: corpus -> Utterance -> Batch -> Logits -> Hypothesis -> EditCounts.

Every type is immutable. No TensorFlow here: a tensor's type is `Tensor`, its shape stands beside it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

Tensor: TypeAlias = Any  # a tf.Tensor or numpy.ndarray; neither Keras nor TensorFlow ships types


class UserError(Exception):
    """A mistake its reader can mend: the message names the record, what is wrong and the remedy.

    Commands print it as one line and leave with exit status 2; any other exception is a bug.
    """


@dataclass(frozen=True, slots=True)
class Utterance:
    """One labelled recording.

    Attributes:
        id: unique within its manifest.
        audio_path: any file that libsndfile reads.
        duration_s: seconds, as the file's header tells it.
        text: what is said, as a person writes it.
        tokens: what is said, in units of the vocabulary (syllables, characters, words).
        speaker: who says it; empty when unknown.
    """

    id: str
    audio_path: str
    duration_s: float
    text: str
    tokens: tuple[str, ...]
    speaker: str = ""


class Batch(NamedTuple):
    """Utterances of similar length, padded with zeros to the longest."""

    audio: Tensor  # (B, S) int16
    num_samples: Tensor  # (B,) int32
    labels: Tensor  # (B, U) int32, padded with the blank, 0
    num_labels: Tensor  # (B,) int32


class Logits(NamedTuple):
    """What a model says of every frame, before the softmax. Frames from `num_frames` on are padding."""

    values: Tensor  # (B, T, V) float32
    num_frames: Tensor  # (B,) int32


@dataclass(frozen=True, slots=True)
class Hypothesis:
    """What a decoder heard.

    Attributes:
        utterance_id: the id of the utterance, or the path of the file.
        tokens: units of the vocabulary.
        text: what a person reads: the tokens as one string, or the hanzi they were converted to.
        score: natural logarithm; of the best alignment's probability in greedy decoding, of the tokens'
            probability and what language model, hot words and length added in beam search.
        times_s: when each token was first emitted, in seconds from the start.
        acoustic_score: natural logarithm of what CTC alone gives the tokens: of their best alignment in
            greedy decoding, of all of them in beam search.
        confidences: how probable each token is to be right; empty where the decoder does not tell.
        alternatives: what else it may have been, best first; empty where only the best was asked for.
    """

    utterance_id: str
    tokens: tuple[str, ...]
    text: str
    score: float
    times_s: tuple[float, ...]
    acoustic_score: float = 0.0
    confidences: tuple[float, ...] = ()
    alternatives: tuple[Hypothesis, ...] = ()


@dataclass(frozen=True, slots=True)
class EditCounts:
    """Edits that turn hypotheses into references; add them up for a corpus-wide (micro-averaged) rate."""

    substitutions: int = 0
    insertions: int = 0
    deletions: int = 0
    reference_length: int = 0

    def __add__(self, other: EditCounts) -> EditCounts:
        return EditCounts(
            self.substitutions + other.substitutions,
            self.insertions + other.insertions,
            self.deletions + other.deletions,
            self.reference_length + other.reference_length,
        )

    @property
    def errors(self) -> int:
        """Number of edits."""
        return self.substitutions + self.insertions + self.deletions

    @property
    def rate(self) -> float:
        """Errors per reference token; above 1 where insertions abound, and 0 for two empty sides."""
        if self.reference_length:
            return self.errors / self.reference_length
        return float("inf") if self.errors else 0.0

    @property
    def standard_error(self) -> float:
        """How far `rate` may be off by chance, were each token right or wrong on its own."""
        rate = min(self.rate, 1.0)
        return math.sqrt(rate * (1 - rate) / self.reference_length) if self.reference_length else 0.0

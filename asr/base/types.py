"""Each type here flows between packages: corpus -> Utterance -> Batch -> Logits -> Hypothesis -> EditCounts.

Every type is immutable. This module does not import TensorFlow: tensors are typed as `Tensor`, with their
shapes in comments.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

Tensor: TypeAlias = Any  # a tf.Tensor or numpy.ndarray; Keras and TensorFlow have no usable types


@dataclass(frozen=True, slots=True)
class MachineLabel:
    """Who labelled a recording, where that was a model.

    Attributes:
        run: directory of the run.
        model: name of its checkpoint.
        version: of this program.
        date: of labelling, as "2026-11-26".
        confidence: estimated share of the label's tokens that are right, from 0 to 1.
        source: absolute path of the recording that the clip is from.
        begin_s: where in the source the clip begins.
    """

    run: str
    model: str
    version: str
    date: str
    confidence: float
    source: str
    begin_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Utterance:
    """One labelled recording.

    Attributes:
        id: unique within its manifest.
        audio_path: path of a recording, see `asr.audio.recording.read_audio`.
        duration_s: seconds, from the file's header.
        text: the transcript in ordinary spelling.
        tokens: the transcript in units of the vocabulary (syllables, characters, words).
        speaker: id of the speaker; empty when unknown.
        corpus: name of the corpus among those that are trained on together; empty for a single one.
        labelled_by: the model that made text and tokens; None where people did.
    """

    id: str
    audio_path: str
    duration_s: float
    text: str
    tokens: tuple[str, ...]
    speaker: str = ""
    corpus: str = ""
    labelled_by: MachineLabel | None = None


class Batch(NamedTuple):
    """Utterances of similar length, padded with zeros to the longest."""

    audio: Tensor  # (B, S) int16
    num_samples: Tensor  # (B,) int32
    labels: Tensor  # (B, U) int32, padded with the blank, 0
    num_labels: Tensor  # (B,) int32


class WeightedBatch(NamedTuple):
    """A batch of training whose rows count differently."""

    audio: Tensor  # (B, S) int16
    num_samples: Tensor  # (B,) int32
    labels: Tensor  # (B, U) int32, padded with the blank, 0
    num_labels: Tensor  # (B,) int32
    weights: Tensor  # (B,) float32, of the rows' losses


TrainingBatch: TypeAlias = Batch | WeightedBatch


class Logits(NamedTuple):
    """A model's outputs before the softmax; frames from `num_frames` on are padding."""

    values: Tensor  # (B, T, V) float32
    num_frames: Tensor  # (B,) int32


class DeepLogits(NamedTuple):
    """A model's outputs in training, with those of layers in the middle of its network."""

    values: Tensor  # (B, T, V) float32
    num_frames: Tensor  # (B,) int32
    intermediate: tuple[Logits, ...]  # in the order of their layers; they may have more frames


@dataclass(frozen=True, slots=True)
class Hypothesis:
    """A token sequence that a search found in a clip.

    Attributes:
        tokens: units of the vocabulary.
        times_s: when each token was first emitted, in seconds from the start of the clip.
        score: natural logarithm of the best alignment's probability in greedy decoding; in beam search, of
            the tokens' probability, plus what the language model, hot words and length add.
        acoustic_score: natural logarithm of the CTC probability of the tokens alone: of their best alignment
            in greedy decoding, of all alignments in beam search.
        confidences: estimated probability that each token is correct; empty if the decoder gives none.
    """

    tokens: tuple[str, ...]
    times_s: tuple[float, ...]
    score: float
    acoustic_score: float = 0.0
    confidences: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class EditCounts:
    """Edits between hypotheses and references; sums give corpus-wide (micro-averaged) rates."""

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
        """Return the number of edits."""
        return self.substitutions + self.insertions + self.deletions

    @property
    def rate(self) -> float:
        """Return errors per reference token; it can exceed 1, and is 0 if both sides are empty."""
        if self.reference_length:
            return self.errors / self.reference_length
        return float("inf") if self.errors else 0.0

    @property
    def standard_error(self) -> float:
        """Return the standard error of `rate`, assuming that tokens are wrong independently."""
        rate = min(self.rate, 1.0)
        return math.sqrt(rate * (1 - rate) / self.reference_length) if self.reference_length else 0.0

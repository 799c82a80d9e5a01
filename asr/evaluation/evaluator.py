"""Runs a model and a decoder on a dataset: hypotheses, edits and losses."""

from __future__ import annotations

import contextlib
import functools
import math
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from asr.base.system.interrupt import StopRequest
from asr.base.types import Batch, EditCounts, Logits, Tensor, Utterance
from asr.base.vocabulary import Vocabulary
from asr.ctc.forced_alignment import frames_needed, label_losses
from asr.ctc.search import Reduced
from asr.evaluation.errors.metrics import mean_loss, total_edits
from asr.model.runner import ModelRunner
from asr.transcription.decoder import Decoder
from asr.transcription.transcript import Segment


class EvaluationData(Protocol):
    """The data that evaluation needs; `data_pipeline.batches.dataset.Dataset` satisfies it."""

    @property
    def utterances(self) -> Sequence[Utterance]:
        """Return the utterances of the set."""

    def in_order(self) -> tuple[Sequence[list[int]], Generator[Batch, None, None]]:
        """Return the indices of the utterances of each batch, and the batches."""


@dataclass(frozen=True)
class Evaluation:
    """The results of a model on a set.

    Attributes:
        utterances: the set.
        hypotheses: of the utterances, in the set's order.
        reference_log_probs: natural logarithm of the CTC probability of each reference, without tokens
            outside the vocabulary; minus infinity for a reference that does not fit the clip's frames.
        token: what a token of the model is called, see `Vocabulary.token_name`; "" for what most labels are.
    """

    utterances: Sequence[Utterance]
    hypotheses: Sequence[Segment]
    reference_log_probs: Sequence[float]
    token: str = ""

    @property
    def loss(self) -> float:
        """Return the mean CTC loss of the utterances whose reference fits."""
        return mean_loss(self.reference_log_probs)

    @property
    def hypothesis_log_probs(self) -> list[float]:
        """Return the CTC log probability (natural) of each hypothesis; in greedy decoding, of its path."""
        return [hypothesis.acoustic_score for hypothesis in self.hypotheses]

    @functools.cached_property
    def edits(self) -> EditCounts:
        """Return the edits over all tokens of the set."""
        return total_edits(self.token_pairs)

    @property
    def rates_by_corpus(self) -> dict[str, float]:
        """Return the error rate of each corpus by its name; nothing where the set is of a single one."""
        pairs: dict[str, list[tuple[tuple[str, ...], tuple[str, ...]]]] = {}
        for utterance, pair in zip(self.utterances, self.token_pairs, strict=True):
            pairs.setdefault(utterance.corpus, []).append(pair)
        return {name: total_edits(pairs[name]).rate for name in sorted(pairs)} if len(pairs) > 1 else {}

    @property
    def token_pairs(self) -> list[tuple[tuple[str, ...], tuple[str, ...]]]:
        """Return the (reference, hypothesis) tokens of each utterance."""
        return [(u.tokens, h.tokens) for u, h in zip(self.utterances, self.hypotheses, strict=True)]


class Evaluator:
    """The evaluation of one model, any number of times; a graph of TensorFlow is traced once.

    Args:
        runner: the model on its devices.
        vocabulary: of its outputs.
        decoder: of its logits; None for greedy decoding.
    """

    def __init__(self, runner: ModelRunner, vocabulary: Vocabulary, decoder: Decoder | None = None) -> None:
        self.runner, self._token = runner, vocabulary.token_name
        self.decoder = decoder or Decoder.greedy(vocabulary, runner.model.frame_s)

    def evaluate(self, data: EvaluationData, stop: StopRequest | None = None) -> Evaluation:
        """Recognize every utterance of a set, and compute the loss of its reference.

        Args:
            data: the set.
            stop: ends the evaluation after a batch.

        Raises:
            Interrupted: a signal was received.
        """
        plan, batches = data.in_order()
        hypotheses: dict[int, Segment] = {}
        log_probs: dict[int, float] = {}
        with contextlib.closing(batches):
            for indices, batch in zip(plan, batches, strict=True):
                if stop is not None:
                    stop.raise_if_requested()
                losses, num_frames, reduced = self._compiled_step(*batch)
                log_probs.update(zip(indices, _reference_log_probs(batch, num_frames, losses), strict=True))
                durations_s = [data.utterances[index].duration_s for index in indices]
                hypotheses.update(zip(indices, self.decoder.segments(reduced, durations_s), strict=True))
        in_order = range(len(data.utterances))
        return Evaluation(
            data.utterances,
            [hypotheses[index] for index in in_order],
            [log_probs[index] for index in in_order],
            self._token,
        )

    @functools.cached_property
    def _compiled_step(self) -> Any:
        return self.runner.compiled_with_labels(self._reduced)

    def _reduced(self, logits: Logits, labels: Tensor, num_labels: Tensor) -> tuple[Tensor, Tensor, Reduced]:
        """Return the losses, the numbers of frames, and what the search needs, of a batch."""
        losses = _losses(logits, labels, num_labels)
        return losses, logits.num_frames, self.decoder.search.reduce(logits)


def _losses(logits: Logits, labels: Tensor, num_labels: Tensor) -> Tensor:
    if isinstance(logits.values, np.ndarray):  # of a runner without TensorFlow
        return label_losses(logits, labels, num_labels)
    from asr.ctc.loss import ctc_loss

    return ctc_loss(logits, labels, num_labels)


def _reference_log_probs(batch: Batch, num_frames: Tensor, losses: Tensor) -> list[float]:
    rows = zip(*map(np.asarray, (num_frames, batch.labels, batch.num_labels, losses)), strict=True)
    return [
        -float(loss) if frames_needed(labels[:num].tolist()) <= frames else -math.inf
        for frames, labels, num, loss in rows
    ]

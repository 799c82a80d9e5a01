"""How far a run has come: what its epochs brought, and the one that is being trained so far.

All of it stands in every checkpoint, and what is not the time of day is the same in a run that was stopped
and resumed as in one that was not.
"""

from __future__ import annotations

import dataclasses
import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from asr.base.types import EditCounts

TIMES = ("audio_s_per_s", "train_s", "waiting_share", "dev_s")  # of EpochMetrics: never the same twice


@dataclass(frozen=True)
class EpochMetrics:
    """One line of metrics.jsonl.

    Attributes:
        epoch: from 1.
        loss: mean CTC loss of a training utterance, as met in training.
        train_error: greedy token error rate met in training, augmentation and dropout on; where several
            processes train together, on the chief's rows.
        dev_loss: mean CTC loss of a dev utterance.
        dev_error: greedy token error rate on dev.
        learning_rate: at the epoch's end.
        audio_s_per_s: seconds of recordings trained on, per second.
        train_s: seconds of training so far.
        best: whether its weights became those to decode with.
        step: batches trained on so far.
        gradient_norm: mean over the epoch's batches, before clipping.
        skipped: batches left out because their loss or gradients were infinite.
        waiting_share: of the training time, what was spent waiting for batches.
        dev_s: seconds of evaluation on dev.
    """

    epoch: int
    loss: float
    train_error: float
    dev_loss: float
    dev_error: float
    learning_rate: float
    audio_s_per_s: float
    train_s: float
    best: bool
    step: int = 0
    gradient_norm: float = 0.0
    skipped: int = 0
    waiting_share: float = 0.0
    dev_s: float = 0.0


@dataclass(frozen=True)
class EpochSoFar:
    """Sums over the batches of an epoch that are done.

    Attributes:
        batches: how many, those that were skipped included.
        skipped: how many of them.
        utterances: of the batches that were not.
        loss: summed over these utterances.
        gradient_norm: summed over the batches where it is finite.
        finite_norms: how many these are.
        edits: greedy errors on the way.
        train_s: seconds, waiting included.
        waiting_s: seconds of waiting for batches.
    """

    batches: int = 0
    skipped: int = 0
    utterances: int = 0
    loss: float = 0.0
    gradient_norm: float = 0.0
    finite_norms: int = 0
    edits: EditCounts = field(default_factory=EditCounts)
    train_s: float = 0.0
    waiting_s: float = 0.0

    def with_batch(self, size: int, loss: float, gradient_norm: float, edits: EditCounts) -> EpochSoFar:
        """After a batch of so many utterances and this mean loss."""
        is_finite = math.isfinite(gradient_norm)
        return dataclasses.replace(
            self,
            batches=self.batches + 1,
            utterances=self.utterances + size,
            loss=self.loss + loss * size,
            gradient_norm=self.gradient_norm + (gradient_norm if is_finite else 0.0),
            finite_norms=self.finite_norms + is_finite,
            edits=self.edits + edits,
        )

    def with_skipped(self) -> EpochSoFar:
        """After a batch that changed nothing."""
        return dataclasses.replace(self, batches=self.batches + 1, skipped=self.skipped + 1)

    def with_time(self, train_s: float, waiting_s: float) -> EpochSoFar:
        """After so many more seconds."""
        return dataclasses.replace(self, train_s=self.train_s + train_s, waiting_s=self.waiting_s + waiting_s)

    @property
    def mean_loss(self) -> float:
        """Of an utterance."""
        return self.loss / self.utterances if self.utterances else float("nan")

    @property
    def mean_gradient_norm(self) -> float:
        """Of a batch."""
        return self.gradient_norm / self.finite_norms if self.finite_norms else float("nan")


@dataclass(frozen=True)
class Progress:
    """How far a run has come.

    Attributes:
        history: the epochs that are done.
        epoch: the one after them.
        data_checksum: of the training set; another set has other batches.
        reported: signs of trouble that were reported, see `asr.training.trouble`; "told" in checkpoints.
    """

    history: tuple[EpochMetrics, ...] = ()
    epoch: EpochSoFar = field(default_factory=EpochSoFar)
    data_checksum: int = 0
    reported: tuple[str, ...] = ()

    @property
    def epochs_done(self) -> int:
        """Whole epochs."""
        return len(self.history)

    @property
    def step(self) -> int:
        """Batches trained on so far."""
        return (self.history[-1].step if self.history else 0) + self.epoch.batches

    @property
    def skipped(self) -> int:
        """Batches left out so far."""
        return sum(metrics.skipped for metrics in self.history) + self.epoch.skipped

    @property
    def train_s(self) -> float:
        """Seconds of training so far, over all its sessions."""
        return (self.history[-1].train_s if self.history else 0.0) + self.epoch.train_s

    @property
    def best_dev_error(self) -> float:
        """The lowest dev error rate so far; infinite before the first."""
        return min((metrics.dev_error for metrics in self.history), default=float("inf"))

    @property
    def best_epoch(self) -> int:
        """The epoch whose weights are those to decode with, counted from 1; 0 before the first."""
        return best_epoch(self.history)

    def place(self) -> str:
        """In words."""
        if self.epoch.batches:
            return f"epoch {self.epochs_done + 1}, batch {self.epoch.batches}"
        return f"the end of epoch {self.epochs_done}" if self.history else "the beginning"

    def to_json(self) -> dict[str, Any]:
        """Return the values that a checkpoint keeps."""
        values = dataclasses.asdict(self)
        values["told"] = values.pop("reported")
        return values

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Progress:
        """What `to_json` made.

        Raises:
            TypeError: a field is not known.
        """
        history = tuple(EpochMetrics(**metrics) for metrics in values["history"])
        epoch = {**values["epoch"], "edits": EditCounts(**values["epoch"]["edits"])}
        rest = {key: value for key, value in values.items() if key != "told"}
        return cls(
            **{**rest, "history": history, "epoch": EpochSoFar(**epoch), "reported": tuple(values["told"])}
        )


def best_first(history: Iterable[EpochMetrics]) -> list[EpochMetrics]:
    """Epochs in the order of their dev errors, the lowest first; of equals the latest."""
    return sorted(history, key=lambda metrics: (metrics.dev_error, -metrics.epoch))


def throughput(history: Sequence[EpochMetrics]) -> float:
    """Seconds of recordings trained on per second, over all epochs."""
    return statistics.harmonic_mean([metrics.audio_s_per_s for metrics in history])


def is_best(dev: EditCounts, lowest_rate: float) -> bool:
    """Whether an epoch's weights are kept as the best: the latest no worse than the best but by chance.

    The one-standard-error rule (Breiman et al., 1984). Of epochs that a small dev set cannot tell apart the
    last is the best guess: its weights moved the least.
    """
    return dev.rate <= lowest_rate + dev.standard_error


def best_epoch(history: Sequence[EpochMetrics]) -> int:
    """The epoch whose weights are those to decode with, counted from 1; 0 before the first."""
    return max((metrics.epoch for metrics in history if metrics.best), default=0)

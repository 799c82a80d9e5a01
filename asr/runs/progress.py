"""Record the progress of a run: the metrics of its epochs, and the sums of the epoch in training.

Every checkpoint holds all of it. Apart from times, it is the same in a run that was stopped and resumed as in
one that was not.
"""

from __future__ import annotations

import dataclasses
import math
import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from asr.base.text.wording import percent
from asr.base.types import EditCounts

TIMES = ("audio_s_per_s", "train_s", "waiting_share", "dev_s")  # fields of EpochMetrics that vary by run


@dataclass(frozen=True)
class EpochMetrics:
    """One line of metrics.jsonl.

    Attributes:
        epoch: number of the epoch, from 1.
        loss: what training minimizes, the mean of the training utterances: their CTC loss, with the weights
            and the further losses that the configuration asks for.
        train_error: greedy token error rate measured during training, with augmentation and dropout; where
            several processes train together, on the chief's rows.
        dev_loss: mean CTC loss of a dev utterance.
        dev_error: greedy token error rate on dev.
        learning_rate: learning rate at the epoch's end.
        audio_s_per_s: seconds of recordings trained on per second.
        train_s: seconds of training so far.
        best: whether its dev error was the lowest so far; of equal ones the latest counts.
        chosen: whether its weights became the ones to decode with, see `is_chosen`.
        step: number of batches trained on so far.
        gradient_norm: mean of the epoch's batches, before clipping.
        skipped: number of batches skipped because their loss or gradients were infinite.
        waiting_share: share of the training time spent waiting for batches.
        dev_s: seconds of evaluation on dev.
        corpora: dev error of each corpus by its name, where several are trained on together.
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
    chosen: bool
    step: int = 0
    gradient_norm: float = 0.0
    skipped: int = 0
    waiting_share: float = 0.0
    dev_s: float = 0.0
    corpora: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class EpochSoFar:
    """The finished batches of the current epoch, summed up.

    Attributes:
        batches: number of batches, including skipped ones.
        skipped: number of skipped batches.
        utterances: number of utterances in the other batches.
        loss: sum over these utterances.
        gradient_norm: sum over the batches where it is finite.
        finite_norms: number of these batches.
        edits: errors of greedy decoding during training.
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
        """Return the sums after a batch of `size` utterances with this mean loss."""
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
        """Return the sums after a skipped batch."""
        return dataclasses.replace(self, batches=self.batches + 1, skipped=self.skipped + 1)

    def with_time(self, train_s: float, waiting_s: float) -> EpochSoFar:
        """Return the sums after more seconds of training and of waiting."""
        return dataclasses.replace(self, train_s=self.train_s + train_s, waiting_s=self.waiting_s + waiting_s)

    @property
    def mean_loss(self) -> float:
        """Return the mean loss of an utterance."""
        return self.loss / self.utterances if self.utterances else float("nan")

    @property
    def mean_gradient_norm(self) -> float:
        """Return the mean gradient norm of a batch."""
        return self.gradient_norm / self.finite_norms if self.finite_norms else float("nan")


@dataclass(frozen=True)
class Progress:
    """How far a run has come.

    Attributes:
        history: metrics of the finished epochs.
        epoch: sums of the current epoch.
        data_checksum: checksum of the training set, which determines the batches.
        reported: warning signs that were reported, see `asr.training.monitoring.diagnostics`; its key in
            checkpoints is "told".
        start_error: dev error before the first step, of a run that starts from the weights of another: no
            epoch with more errors is chosen. None for any other run.
        dev_checksum: checksum of the dev set; None in the checkpoints of earlier versions.
    """

    history: tuple[EpochMetrics, ...] = ()
    epoch: EpochSoFar = field(default_factory=EpochSoFar)
    data_checksum: int = 0
    reported: tuple[str, ...] = ()
    start_error: float | None = None
    dev_checksum: int | None = None

    @property
    def epochs_done(self) -> int:
        """Return the number of finished epochs."""
        return len(self.history)

    @property
    def step(self) -> int:
        """Return the number of batches trained on so far."""
        return (self.history[-1].step if self.history else 0) + self.epoch.batches

    @property
    def skipped(self) -> int:
        """Return the number of batches skipped so far."""
        return sum(metrics.skipped for metrics in self.history) + self.epoch.skipped

    @property
    def train_s(self) -> float:
        """Return the seconds of training so far, over all sessions."""
        return (self.history[-1].train_s if self.history else 0.0) + self.epoch.train_s

    @property
    def best_dev_error(self) -> float:
        """Return the lowest dev error rate so far, also of the start; infinity if there is none yet."""
        lowest = lowest_error(self.history, self.start_error)
        return math.inf if lowest is None else lowest.dev_error

    @property
    def chosen_epoch(self) -> int:
        """Return the epoch whose weights to decode with, counted from 1; 0 before the first."""
        return chosen_epoch(self.history)

    def place(self) -> str:
        """Describe the current position, such as "epoch 3, batch 40"."""
        if self.epoch.batches:
            return f"epoch {self.epochs_done + 1}, batch {self.epoch.batches}"
        return f"the end of epoch {self.epochs_done}" if self.history else "the beginning"

    def to_json(self) -> dict[str, Any]:
        """Return the values that a checkpoint stores."""
        values = dataclasses.asdict(self)
        values["told"] = values.pop("reported")
        return values

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Progress:
        """Return the progress of values that `to_json` made.

        Raises:
            TypeError: a field is unknown.
        """
        history = tuple(history_of(values["history"]))
        epoch = {**values["epoch"], "edits": EditCounts(**values["epoch"]["edits"])}
        rest = {key: value for key, value in values.items() if key != "told"}
        return cls(
            **{**rest, "history": history, "epoch": EpochSoFar(**epoch), "reported": tuple(values["told"])}
        )


def best_first(history: Iterable[EpochMetrics]) -> list[EpochMetrics]:
    """Sort epochs by their dev errors, the lowest first; of equal ones the latest first."""
    return sorted(history, key=lambda metrics: (metrics.dev_error, -metrics.epoch))


class EpochError(NamedTuple):
    """The dev error of an epoch; epoch 0 is the start, the weights of another run."""

    epoch: int
    dev_error: float


def lowest_error(history: Iterable[EpochMetrics], start_error: float | None = None) -> EpochError | None:
    """Return the lowest dev error, the latest of equal ones; None before the first epoch.

    Args:
        history: metrics of the finished epochs.
        start_error: see `Progress`.
    """
    errors = [EpochError(0, start_error)] if start_error is not None else []
    errors += [EpochError(metrics.epoch, metrics.dev_error) for metrics in history]
    return min(errors, key=lambda one: (one.dev_error, -one.epoch), default=None)


def chosen_error(history: Sequence[EpochMetrics], start_error: float | None = None) -> EpochError | None:
    """Return the dev error of the weights to decode with; arguments are those of `lowest_error`."""
    errors = {metrics.epoch: metrics.dev_error for metrics in history}
    if epoch := chosen_epoch(history):
        return EpochError(epoch, errors[epoch])
    return None if start_error is None else EpochError(0, start_error)


def throughput(history: Sequence[EpochMetrics]) -> float:
    """Return the seconds of recordings trained on per second, over all epochs."""
    return statistics.harmonic_mean([metrics.audio_s_per_s for metrics in history])


def is_chosen(dev: EditCounts, lowest_rate: float, start_error: float | None = None) -> bool:
    """Return whether an epoch is chosen to decode with: within a standard error of the lowest dev error.

    This is the one-standard-error rule (Breiman et al., 1984). Among epochs that a small dev set cannot
    distinguish, the last is the best guess: its weights moved the least. The start is no such guess: an
    epoch with more errors than the model that training began from is never chosen.

    Args:
        dev: the epoch's errors on dev.
        lowest_rate: the lowest error rate before it.
        start_error: see `Progress`.
    """
    if start_error is not None and dev.rate > start_error:
        return False
    return dev.rate <= lowest_rate + dev.standard_error


def chosen_epoch(history: Sequence[EpochMetrics]) -> int:
    """Return the epoch whose weights to decode with, counted from 1; 0 before the first."""
    return max((metrics.epoch for metrics in history if metrics.chosen), default=0)


def describe_choice(history: Sequence[EpochMetrics], start_error: float | None = None) -> str:
    """Describe the choice, such as "epoch 50 (2.38% on dev); best: 46 (2.15%)".

    Args:
        history: metrics of the finished epochs.
        start_error: see `Progress`.
    """
    chosen, best = chosen_error(history), lowest_error(history)
    start = "" if start_error is None else f"{percent(start_error)} on dev"
    if chosen is None or best is None:
        return f"the model before training ({start}), as every epoch has more errors" if start else "none"
    described = f"epoch {chosen.epoch} ({percent(chosen.dev_error)} on dev)"
    if best != chosen:
        described += f"; best: {best.epoch} ({percent(best.dev_error)})"
    return f"{described}; before training: {start}" if start else described


def history_of(records: Iterable[Mapping[str, Any]]) -> Iterator[EpochMetrics]:
    """Yield the metrics of stored records, which are those of all epochs from the first.

    Raises:
        TypeError: a field is unknown or missing.
    """
    lowest = math.inf
    for record in records:
        if "chosen" not in record:  # a record from before this key, when "best" had its meaning
            best, lowest = record["dev_error"] <= lowest, min(lowest, record["dev_error"])
            record = {**record, "best": best, "chosen": record["best"]}
        yield EpochMetrics(**record)

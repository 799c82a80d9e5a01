"""Utterances -> batches, read ahead in parallel by tf.data."""

from __future__ import annotations

import os
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from asr.audio import SAMPLE_RATE_HZ, Waveform, pad_waveforms, read_audio
from asr.config import AugmentConfig
from asr.types import Batch, UserError, Utterance
from asr.vocabulary import Vocabulary
from data_pipeline.augment import change_speed, num_samples_at, speed_factor
from data_pipeline.batching import plan_epoch, plan_in_order

READ_AHEAD = 4  # batches


@dataclass(frozen=True)
class Dataset:
    """Utterances that are known to be sound, as batches.

    Args:
        utterances: read-only; a batch's rows are places in it.
        vocabulary: turns tokens into ids; those it does not have are left out of the labels.
        batch_s: seconds of audio in a batch, padding counted.
    """

    utterances: Sequence[Utterance]
    vocabulary: Vocabulary
    batch_s: float
    labels: list[list[int]] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        labels = [self.vocabulary.encode_known(utterance.tokens) for utterance in self.utterances]
        object.__setattr__(self, "labels", labels)

    @property
    def duration_s(self) -> float:
        """Seconds of audio in all."""
        return sum(utterance.duration_s for utterance in self.utterances)

    @property
    def checksum(self) -> int:
        """Differs where ids, lengths or labels do, or their order."""
        rows = ((u.id, u.duration_s, u.tokens) for u in self.utterances)
        return zlib.crc32("\n".join(map(repr, rows)).encode(errors="backslashreplace"))

    def in_order(self) -> tuple[list[list[int]], Iterator[Batch]]:
        """Every utterance once, unchanged: the rows of each batch, and the batches."""
        plan = plan_in_order(self._num_samples, round(self.batch_s * SAMPLE_RATE_HZ))
        return plan, self._batches(plan, [1.0] * len(self.utterances))

    def epoch(
        self,
        epoch: int,
        seed: int,
        augment: AugmentConfig,
        fits: Callable[[int, list[int]], bool],
        own_rows: Callable[[Sequence[int]], list[int]] = list,
    ) -> tuple[list[list[int]], Iterator[Batch]]:
        """One epoch of training: the rows of each batch, and the batches.

        Args:
            epoch: from 0.
            seed: of the run.
            augment: how fast clips are played.
            fits: whether a clip of so many samples has frames enough for these labels; one that would
                not, played fast, keeps its own speed.
            own_rows: which rows of a batch are read, where several processes share them.
        """
        factors, lengths = [], []
        for utterance, labels, own in zip(self.utterances, self.labels, self._num_samples, strict=True):
            factor = speed_factor(seed, epoch, utterance.id, augment.speed_min, augment.speed_max)
            if factor > 1 and not fits(num_samples_at(own, factor), labels):
                factor = 1.0
            factors.append(factor)
            lengths.append(num_samples_at(own, factor))
        plan = plan_epoch(lengths, round(self.batch_s * SAMPLE_RATE_HZ), seed, epoch)
        return plan, self._batches([own_rows(places) for places in plan], factors)

    @property
    def _num_samples(self) -> list[int]:
        return [round(utterance.duration_s * SAMPLE_RATE_HZ) for utterance in self.utterances]

    def _batches(self, plan: list[list[int]], factors: Sequence[float]) -> Iterator[Batch]:
        failures: list[UserError] = []

        def load(number: npt.NDArray[np.int64]) -> tuple[npt.NDArray[Any], ...]:
            places = plan[int(number)]
            try:
                waveforms = [
                    change_speed(read_audio(self.utterances[place].audio_path), factors[place])
                    for place in places
                ]
            except UserError as error:
                failures.append(error)
                raise
            return pad_batch(waveforms, [self.labels[place] for place in places])

        def load_batch(number: Any) -> Any:
            return tf.numpy_function(load, [number], (tf.int16, tf.int32, tf.int32, tf.int32), stateful=False)

        dataset = tf.data.Dataset.range(len(plan)).map(
            load_batch, num_parallel_calls=os.cpu_count() or 1, deterministic=True
        )
        options = tf.data.Options()
        options.autotune.enabled = False  # its thread holds the end of every epoch up, for seconds
        try:
            for batch in dataset.prefetch(READ_AHEAD).with_options(options):
                yield Batch(*batch)
        except tf.errors.OpError:
            if failures:  # what the reader said, without TensorFlow's stack around it
                raise failures[0] from None
            raise


def pad_batch(waveforms: Sequence[Waveform], labels: Sequence[Sequence[int]]) -> Batch:
    """Rows of different lengths as one batch, with zeros behind them."""
    audio, num_samples = pad_waveforms(waveforms)
    num_labels = np.array([len(row) for row in labels], np.int32)
    ids = np.zeros((len(labels), max(1, num_labels.max())), np.int32)
    for padded, row in zip(ids, labels, strict=True):
        padded[: len(row)] = row
    return Batch(audio, num_samples, ids, num_labels)

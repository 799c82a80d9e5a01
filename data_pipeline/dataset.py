"""Read utterances as batches, ahead and in parallel, with tf.data."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from asr.audio.recording import SAMPLE_RATE_HZ, Waveform, read_audio
from asr.base.config import AugmentConfig
from asr.base.types import Batch, UserError, Utterance
from asr.base.vocabulary import Vocabulary
from data_pipeline.augment.augmenter import Augmenter, num_samples_at, speed_factors, utterance_keys
from data_pipeline.batching import padded_length, plan_epoch, plan_in_order
from data_pipeline.work import available_cores, one_ahead

READ_AHEAD = 4  # batches


@dataclass(frozen=True)
class Dataset:
    """Yields batches of utterances that have been checked.

    Args:
        utterances: read-only; the rows of a batch are indices into it.
        vocabulary: turns tokens into ids; unknown tokens are left out of the labels.
        batch_s: seconds of audio in a batch, padding included.
        augmenter: changes clips in training; the default leaves them unchanged.
    """

    utterances: Sequence[Utterance]
    vocabulary: Vocabulary
    batch_s: float
    augmenter: Augmenter = field(default_factory=lambda: Augmenter.load(AugmentConfig(), seed=0))

    @cached_property
    def labels(self) -> list[list[int]]:
        """Return the ids of each utterance's tokens."""
        return [self.vocabulary.encode_known(utterance.tokens) for utterance in self.utterances]

    @cached_property
    def num_samples(self) -> npt.NDArray[np.int64]:
        """Return the length of each utterance, (N,)."""
        durations_s = np.array([utterance.duration_s for utterance in self.utterances])
        num_samples: npt.NDArray[np.int64] = np.rint(durations_s * SAMPLE_RATE_HZ).astype(np.int64)
        return num_samples

    @cached_property
    def keys(self) -> npt.NDArray[np.uint64]:
        """Return the key of each utterance's random numbers, (N,)."""
        return utterance_keys([utterance.id for utterance in self.utterances])

    @property
    def duration_s(self) -> float:
        """Return the total seconds of audio."""
        return sum(utterance.duration_s for utterance in self.utterances)

    @property
    def checksum(self) -> int:
        """Return a checksum of the ids, durations and labels, and of their order."""
        checksum = 0
        for place, utterance in enumerate(self.utterances):
            row = repr((utterance.id, utterance.duration_s, utterance.tokens))
            line = f"\n{row}" if place else row
            checksum = zlib.crc32(line.encode(errors="backslashreplace"), checksum)
        return checksum

    def in_order(self) -> tuple[list[list[int]], Iterator[Batch]]:
        """Return the rows of each batch, and the batches: every utterance once, not augmented."""
        plan = plan_in_order(self.num_samples, round(self.batch_s * SAMPLE_RATE_HZ))
        return plan, self._batches(plan, self._read)

    def epoch(
        self,
        epoch: int,
        seed: int,
        fits: Callable[[int, list[int]], bool],
        own_rows: Callable[[Sequence[int]], list[int]] = list,
        first_batch: int = 0,
    ) -> tuple[list[list[int]], Iterator[Batch]]:
        """Return the rows of each batch, and the batches, of one epoch of training.

        Args:
            epoch: from 0.
            seed: of the run.
            fits: (num_samples, labels) -> whether a clip of this length has enough frames for these labels;
                a clip that would be too short when sped up keeps its own speed.
            own_rows: selects the rows of a batch to read, if several processes share them.
            first_batch: where to resume an interrupted epoch; nothing before it is read.
        """
        speeds, lengths = self._speeds_and_lengths(epoch, fits)
        plan = plan_epoch(lengths, round(self.batch_s * SAMPLE_RATE_HZ), seed, epoch)[first_batch:]

        def read(place: int) -> Waveform:
            key = int(self.keys[place])
            return self.augmenter.apply(self._read(place), epoch, key, speeds[place])

        return plan, self._batches([own_rows(places) for places in plan], read)

    def _speeds_and_lengths(
        self, epoch: int, fits: Callable[[int, list[int]], bool]
    ) -> tuple[list[float], list[int]]:
        """Return the speed factor of each clip in an epoch, and its resulting number of samples."""
        speeds = speed_factors(self.augmenter.config, self.augmenter.seed, epoch, self.keys).tolist()
        lengths = []
        for place, own in enumerate(self.num_samples.tolist()):
            length = num_samples_at(own, speeds[place])
            if speeds[place] > 1 and not fits(length, self.labels[place]):
                speeds[place], length = 1.0, own
            lengths.append(length)
        return speeds, lengths

    def _read(self, place: int) -> Waveform:
        return read_audio(self.utterances[place].audio_path)

    def _batches(self, plan: list[list[int]], read: Callable[[int], Waveform]) -> Iterator[Batch]:
        failures: list[UserError] = []
        labels = self.labels  # computed before threads use them

        def load(number: npt.NDArray[np.int64]) -> tuple[npt.NDArray[Any], ...]:
            places = plan[int(number)]
            try:
                waveforms = [read(place) for place in places]
            except UserError as error:
                failures.append(error)
                raise
            return pad_batch(waveforms, [labels[place] for place in places])

        def load_batch(number: Any) -> Any:
            return tf.numpy_function(load, [number], (tf.int16, tf.int32, tf.int32, tf.int32), stateful=False)

        dataset = tf.data.Dataset.range(len(plan)).map(
            load_batch, num_parallel_calls=available_cores(), deterministic=True
        )
        options = tf.data.Options()
        options.autotune.enabled = False  # its thread delays the end of every epoch by seconds
        try:
            # with all cores busy, TensorFlow takes a while to hand over even a finished batch
            yield from one_ahead(
                Batch(*batch) for batch in dataset.prefetch(READ_AHEAD).with_options(options)
            )
        except tf.errors.OpError:
            if failures:  # the reader's own error, without TensorFlow's stack around it
                raise failures[0] from None
            raise


def pad_batch(waveforms: Sequence[Waveform], labels: Sequence[Sequence[int]]) -> Batch:
    """Pad rows of different lengths with trailing zeros to one batch."""
    return Batch(*_pad(waveforms, np.int16), *_pad(labels, np.int32))


def _pad(rows: Sequence[Any], dtype: npt.DTypeLike) -> tuple[npt.NDArray[Any], npt.NDArray[np.int32]]:
    lengths = np.array([len(row) for row in rows], np.int32)
    padded = np.zeros((len(rows), max(1, padded_length(int(lengths.max())))), dtype)
    for target, row in zip(padded, rows, strict=True):
        target[: len(row)] = row
    return padded, lengths

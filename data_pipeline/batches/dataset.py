"""Read utterances as batches, ahead and in parallel."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, BinaryIO, NamedTuple

import numpy as np
import numpy.typing as npt

from asr.audio.recording import SAMPLE_RATE_HZ, Waveform, read_audio
from asr.base.config import AugmentConfig
from asr.base.system.storage.address import is_address
from asr.base.types import Batch, TrainingBatch, Utterance, WeightedBatch
from asr.base.vocabulary import Vocabulary
from data_pipeline.augment.augmenter import (
    PIECES,
    Augmenter,
    num_samples_at,
    nums_samples_at,
    pause_samples,
    speed_factors,
    uniform_numbers,
)
from data_pipeline.augment.piece_sampling import PieceSampler
from data_pipeline.batches.batching import padded_length, plan_epoch, plan_in_order
from data_pipeline.batches.decoded_recordings import DecodedRecordings
from data_pipeline.batches.read_ahead import ReadAhead
from data_pipeline.manifests.columns import Columns, added_in_order
from data_pipeline.manifests.rows import Rows, looked_up, narrow
from data_pipeline.manifests.utterances import Utterances, checksum_of, columns_of, is_remote
from data_pipeline.work import available_cores, computed_ahead

READ_AHEAD = 4  # batches that are ready, besides those that are being read
DRAWN_AT_ONCE = 1 << 20  # utterances, which bounds the memory of what is drawn for their pauses
# apart in what is drawn by the number of an epoch: an utterance's second copy, and how many copies it has
COPY_STRIDE, DRAW_STRIDE = 1 << 32, 1 << 48
# the step is compiled for each shape: with this, drawn labels have no more shapes than usual ones
DRAWN_STEP = 8


class _Clips(NamedTuple):
    """The clips of an epoch, (C,) each.

    Attributes:
        indices: of their utterances.
        draws: stand for the epoch's number in what is drawn for a clip; a second copy has another one.
        speeds: speed factors.
        num_samples: lengths at these speeds, with their pauses.
    """

    indices: npt.NDArray[np.int64]
    draws: npt.NDArray[np.int64]
    speeds: npt.NDArray[np.float64]
    num_samples: npt.NDArray[np.int64]


@dataclass(frozen=True)
class Dataset:
    """Utterances that have been checked, in batches.

    Args:
        utterances: read-only; the rows of a batch are indices into it.
        vocabulary: turns tokens into ids; unknown tokens are left out of the labels.
        batch_s: seconds of audio in a batch, padding included.
        augmenter: changes clips in training; the default leaves them unchanged.
        weights: how often an epoch has each utterance of a corpus, by its name; 1 where it is not named.
        label_weight: of the loss of an utterance that a model has labelled; 1 for batches without weights.
        piece_sampler: splits words into other pieces in training; None where they keep theirs.
        recordings: reads the recordings of an epoch.
    """

    utterances: Sequence[Utterance]
    vocabulary: Vocabulary
    batch_s: float
    augmenter: Augmenter = field(default_factory=lambda: Augmenter.load(AugmentConfig(pauses=0.0), seed=0))
    weights: Mapping[str, float] = field(default_factory=dict)
    label_weight: float = 1.0
    piece_sampler: PieceSampler | None = None
    recordings: DecodedRecordings = field(default_factory=DecodedRecordings, repr=False, compare=False)

    @cached_property
    def _columns(self) -> Columns:
        return columns_of(self.utterances)

    @cached_property
    def labels(self) -> Rows:
        """Return the ids of each utterance's tokens."""
        columns, unknown = self._columns, len(self.vocabulary)
        ids = [(*self.vocabulary.encode_known([name]), unknown)[0] for name in columns.token_names]
        values = looked_up(narrow(np.array(ids, np.int32), unknown + 1), columns.tokens.values)
        labels, is_known = columns.tokens.with_values(values), values != unknown
        return labels if is_known.all() else labels.where(is_known)

    @cached_property
    def num_samples(self) -> npt.NDArray[np.int64]:
        """Return the length of each utterance, (N,)."""
        return np.rint(self._columns.durations_s * SAMPLE_RATE_HZ).astype(np.int64)

    @property
    def keys(self) -> npt.NDArray[np.uint64]:
        """Return the key of each utterance's random numbers, (N,)."""
        return self._columns.keys

    @property
    def duration_s(self) -> float:
        """Return the seconds of audio of an epoch; with fractional weights, of an epoch on average."""
        return added_in_order(self._weights * self._columns.durations_s)

    def duration_of(self, plan: Sequence[list[int]]) -> float:
        """Return the seconds of audio of the rows of batches, not augmented."""
        return float(sum(self._columns.durations_s[rows].sum() for rows in plan))

    @property
    def checksum(self) -> int:
        """Return a checksum of the ids, durations and labels, and of their order."""
        if isinstance(self.utterances, Utterances):
            return self.utterances.checksum()
        return checksum_of((one.id, one.duration_s, one.tokens) for one in self.utterances)

    def in_order(self) -> tuple[Rows, Generator[Batch, None, None]]:
        """Return the rows of each batch, and the batches: every utterance once, not augmented."""
        plan = plan_in_order(self.num_samples, round(self.batch_s * SAMPLE_RATE_HZ))

        def read(index: int, path: str, fetched: BinaryIO | None) -> Waveform:
            return read_audio(path if fetched is None else fetched)

        rows = plan.__getitem__
        return plan, self._batches(len(plan), rows, rows, read, self.labels.__getitem__)

    def epoch(
        self,
        epoch: int,
        seed: int,
        fits: Callable[[int, list[int]], bool],
        local_rows: Callable[[Sequence[int]], list[int]] = list,
        first_batch: int = 0,
    ) -> tuple[Rows, Generator[TrainingBatch, None, None]]:
        """Return the rows of each batch, and the batches, of one epoch of training.

        Args:
            epoch: from 0.
            seed: of the run.
            fits: (num_samples, labels) -> whether a clip of this length has enough frames for these labels;
                a clip that would be too short when sped up keeps its own speed.
            local_rows: selects the rows of a batch to read, if several processes share them.
            first_batch: where to resume an interrupted epoch; nothing before it is read.
        """
        clips = self._clips(epoch, fits)
        budget = round(self.batch_s * SAMPLE_RATE_HZ)
        plan = plan_epoch(clips.num_samples, budget, seed, epoch)[first_batch:]

        def read(number: int, path: str, fetched: BinaryIO | None) -> Waveform:
            index, speed = clips.indices[number], float(clips.speeds[number])
            draw, key = int(clips.draws[number]), int(self.keys[index])
            return self.augmenter.apply(self.recordings.read(path, fetched), draw, key, speed)

        def labels_of(number: int) -> Sequence[int]:
            index, speed = int(clips.indices[number]), float(clips.speeds[number])
            return self.drawn_labels(index, int(clips.draws[number]), speed, fits)

        def own_clips(batch: int) -> list[int]:
            return local_rows(plan[batch])

        def own_indices(batch: int) -> npt.NDArray[np.int64]:
            return clips.indices[own_clips(batch)]

        indices = plan.with_values(clips.indices[plan.values])
        batches = self._batches(len(plan), own_clips, own_indices, read, labels_of)
        if self.label_weight == 1.0:
            return indices, batches
        return indices, (self.weighted(batch, own_indices(number)) for number, batch in enumerate(batches))

    def drawn_labels(
        self, index: int, draw: int, speed: float, fits: Callable[[int, list[int]], bool]
    ) -> list[int]:
        """Return the labels of a clip in training: its own ones where other pieces do not fit its frames.

        Args:
            index: of its utterance.
            draw: number of the epoch, or what stands for it.
            speed: its speed factor; whatever pauses it gets hold no label.
            fits: see `epoch`.
        """
        own = self.labels[index]
        if self.piece_sampler is None:
            return own
        rng = np.random.default_rng((self.augmenter.seed, draw, int(self.keys[index]), PIECES))
        tokens = self.piece_sampler.draw(self.utterances[index].tokens, rng)
        drawn = self.vocabulary.encode_known(tokens)
        return drawn if fits(num_samples_at(int(self.num_samples[index]), speed), drawn) else own

    def padded(self, waveforms: Sequence[Waveform], labels: Sequence[Sequence[int]]) -> Batch:
        """Return a batch of clips; drawn labels have many lengths, which are padded to fewer."""
        return pad_batch(waveforms, labels, DRAWN_STEP if self.piece_sampler else 1)

    def weighted(self, batch: Batch, rows: Sequence[int] | npt.NDArray[np.int64]) -> WeightedBatch:
        """Return a batch of these rows with the weights of their losses."""
        labelled = self._columns.by_machine[rows]
        return WeightedBatch(*batch, np.where(labelled, self.label_weight, 1.0).astype(np.float32))

    def _clips(self, epoch: int, fits: Callable[[int, list[int]], bool]) -> _Clips:
        """Return the clips of an epoch; one that would be too short when sped up keeps its own speed."""
        copies = list(self._copies(epoch))
        draws = [epoch + copy * COPY_STRIDE for copy in range(len(copies))]
        indices = np.concatenate(copies)
        speeds, pauses = (
            np.concatenate(drawn)
            for drawn in zip(*itertools.starmap(self._drawn, zip(draws, copies, strict=True)), strict=True)
        )
        own, labels = self.num_samples[indices], self.labels  # computed before threads use them
        lengths = nums_samples_at(own, speeds)
        for clip in map(int, np.flatnonzero(speeds > 1)):
            if not fits(int(lengths[clip]), labels[int(indices[clip])]):
                lengths[clip], speeds[clip] = own[clip], 1.0
        lengths += pauses
        return _Clips(indices, np.repeat(draws, list(map(len, copies))), speeds, lengths)

    def _drawn(
        self, draw: int, indices: npt.NDArray[np.int64]
    ) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.int64]]:
        """Return the speed factors of these utterances, and the samples of their pauses, (N,) each."""
        config, seed = self.augmenter.config, self.augmenter.seed
        speeds, pauses = np.empty(len(indices)), np.empty(len(indices), np.int64)
        for begin in range(0, len(indices), DRAWN_AT_ONCE):
            some = slice(begin, begin + DRAWN_AT_ONCE)
            keys = self.keys[indices[some]]
            speeds[some] = speed_factors(config, seed, draw, keys)
            pauses[some] = pause_samples(config, seed, draw, keys).sum(axis=1)
        return speeds, pauses

    def _copies(self, epoch: int) -> Iterator[npt.NDArray[np.int64]]:
        """Yield the indices of the utterances that an epoch has at least once, at least twice, and so on."""
        if not self.weights:
            yield np.arange(len(self.utterances))
            return
        drawn = uniform_numbers(self.augmenter.seed, epoch + DRAW_STRIDE, self.keys)
        expected = self._weights + drawn
        num_copies = np.floor(expected).astype(np.int64)
        num_copies[expected.argmax()] = max(1, num_copies.max())  # no epoch is empty, however low the weights
        for copy in range(int(num_copies.max())):
            yield np.flatnonzero(num_copies > copy)

    @property
    def _weights(self) -> npt.NDArray[np.float64]:
        """Return how often an epoch has each utterance, (N,)."""
        weights = [self.weights.get(name, 1.0) for name in self._columns.corpus_names]
        return np.array(weights)[self._columns.corpora]

    def _batches(
        self,
        num_batches: int,
        clips_of: Callable[[int], Sequence[int]],
        indices_of: Callable[[int], Sequence[int] | npt.NDArray[np.int64]],
        read: Callable[[int, str, BinaryIO | None], Waveform],
        labels_of: Callable[[int], Sequence[int]],
    ) -> Generator[Batch, None, None]:
        """Yield batches of clips and labels; whoever takes some of them closes the generator.

        Else it may be collected while a thread starts, and would wait for its own threads in it for ever.

        Args:
            num_batches: how many there are.
            clips_of: returns the numbers of a batch's clips.
            indices_of: returns the indices of their utterances.
            read: (number of a clip, path, contents if they are in memory) -> samples.
            labels_of: returns the labels of a clip.
        """

        def paths_of(number: int) -> list[str]:
            return [self.utterances[int(index)].audio_path for index in indices_of(number)]

        ahead = self._read_ahead(num_batches, paths_of)

        def load(number: int) -> Batch:
            clips, paths = clips_of(number), paths_of(number)
            fetched = ahead.take(number) if ahead else {}
            waveforms = [read(clip, path, fetched.get(path)) for clip, path in zip(clips, paths, strict=True)]
            return self.padded(waveforms, [labels_of(clip) for clip in clips])

        num_threads = available_cores()
        batches = computed_ahead(load, range(num_batches), num_threads, num_threads + READ_AHEAD)
        try:
            for batch in batches:  # noqa: UP028 (they would be closed before what their threads wait for)
                yield batch
        finally:
            if ahead:
                ahead.close()
            batches.close()

    def _read_ahead(self, num_batches: int, paths_of: Callable[[int], list[str]]) -> ReadAhead | None:
        """Return what reads recordings from object storage; None where all are on a disk."""
        if not is_remote(self.utterances):
            return None

        def missing(number: int) -> list[str]:
            return [path for path in paths_of(number) if is_address(path) and path not in self.recordings]

        return ReadAhead(num_batches, missing)


def pad_batch(waveforms: Sequence[Waveform], labels: Sequence[Sequence[int]], label_step: int = 1) -> Batch:
    """Pad rows of different lengths with trailing zeros, and labels to a multiple of `label_step`."""
    return Batch(*_pad(waveforms, np.int16), *_pad(labels, np.int32, label_step))


def _pad(
    rows: Sequence[Any], dtype: npt.DTypeLike, step: int = 1
) -> tuple[npt.NDArray[Any], npt.NDArray[np.int32]]:
    lengths = np.array([len(row) for row in rows], np.int32)
    longest = max(1, padded_length(int(lengths.max())))
    padded = np.zeros((len(rows), -(-longest // step) * step), dtype)
    for target, row in zip(padded, rows, strict=True):
        target[: len(row)] = row
    return padded, lengths

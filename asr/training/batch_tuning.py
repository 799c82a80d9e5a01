"""Find the largest and the fastest batch size that fits the devices: `asr tune-batch` prints the result.

trials = tune_batch(load_config("demo"), Devices("0,1"), on_trial=print)
print(max(trial.batch_s for trial in trials if not trial.failure))
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import math
import re
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from asr.base.config import Config
from asr.base.errors import UserError
from asr.base.system.child_process import ChildEndedError, ChildProcess, peak_memory_bytes
from asr.base.types import TrainingBatch
from asr.base.work import OnProgress, ignore_progress
from asr.model.devices import ONE_DEVICE, Devices
from asr.training.data import with_manifests
from asr.training.engine import make_model, start_engine

if TYPE_CHECKING:
    from asr.model.acoustic_model import AcousticModel
    from asr.training.trainer import Trainer
    from data_pipeline.batches.dataset import Dataset
    from data_pipeline.manifests.utterances import Utterances

FIRST_S = 60.0  # the first size is at most this, and the configured size divided by a power of two
PRECISION = 1.12  # the search ends when the smallest size that fails is this many times one that fits
FEW_BATCHES = 4  # in an epoch: larger ones make too few steps to learn from
USABLE_SHARE = 0.8  # of the machine's free memory; with all of it, the machine would swap
TIMED_S = 1.0  # each size is timed for at least this long
NUM_TYPICAL = 3  # batches that are timed in addition to the worst


@dataclass(frozen=True)
class Trial:
    """The result of trying one batch size.

    Attributes:
        batch_s: seconds of audio in a batch, including padding.
        num_batches: in an epoch.
        num_rows: clips in the batch with the most of them; 0 if unknown.
        audio_s_per_s: seconds of audio trained on per second; 0 if not measured.
        peak_bytes: peak memory of the device, or of the process if the device is the CPU.
        failure: why the size does not fit; empty if it fits.
    """

    batch_s: float
    num_batches: int = 0
    num_rows: int = 0
    audio_s_per_s: float = 0.0
    peak_bytes: int = 0
    failure: str = ""


def tune_batch(
    config: Config,
    devices: Devices = ONE_DEVICE,
    on_trial: Callable[[Trial], None] = lambda _: None,
    on_progress: OnProgress = ignore_progress,
) -> list[Trial]:
    """Try batch sizes, each in a process that may run out of memory, and return the trials.

    Args:
        config: to be trained.
        devices: the devices, and how they share the work; all engines but multi-worker.
        on_trial: receives each trial when it is done.
        on_progress: receives how far the preparation of a corpus has come.

    Raises:
        UserError: the configuration or a device cannot be used, or no size fits.
    """
    if devices.engine == "multi-worker":
        raise UserError("`engine=multi-worker`: tune one machine's share with `engine=mirrored` instead")
    config = with_manifests(config, on_progress)
    trials = []
    with tempfile.TemporaryDirectory() as folder, Attempts(serve, config, devices, Path(folder)) as attempts:
        for trial in search(attempts.try_size, config.train.batch_s):
            on_trial(trial)
            trials.append(trial)
    if all(trial.failure for trial in trials):
        utterances = _trainable_utterances(config)
        longest = utterances[int(np.argmax(utterances.columns.durations_s))]
        raise UserError(
            f"no batch size fits; the longest clip alone is {longest.duration_s:.1f} s ({longest.id}, "
            f"{longest.audio_path}): leave out clips of this length, or choose a smaller model.size"
        )
    return trials


def search(attempt: Callable[[float], Trial], configured_s: float) -> Iterator[Trial]:
    """Try sizes: double the size while it fits, then bisect between the last that fits and the first failure.

    Args:
        attempt: tries a size.
        configured_s: the configured size, which is one of those tried.
    """
    size = configured_s / 2.0 ** max(0, math.ceil(math.log2(configured_s / FIRST_S)))
    fits = 0.0
    while not (trial := attempt(size)).failure:
        yield trial
        if trial.num_batches <= FEW_BATCHES:
            return
        fits, size = size, 2 * size
    yield trial
    fails = size
    while fails > PRECISION * fits:
        if not fits and (trial.num_rows == 1 or fails <= 1):  # no batch is smaller than a single clip
            return
        size = float(f"{math.sqrt(fits * fails):.2g}") if fits else fails / 2
        if not fits < size < fails:
            return
        yield (trial := attempt(size))
        fits, fails = (fits, size) if trial.failure else (size, fails)


class Attempts:
    """Attempts in a process, and in another one after each failure, since a failed one keeps its memory.

    Args:
        serve: see `ChildProcess`; answers each size with a `Trial`.
        arguments: for `serve`.
    """

    def __init__(self, serve: Callable[..., Iterator[Trial]], *arguments: Any) -> None:
        self._start = functools.partial(ChildProcess, serve, *arguments)
        self._child: ChildProcess | None = None

    def __enter__(self) -> Attempts:
        return self

    def __exit__(self, *exception: object) -> None:
        if self._child:
            self._child.kill()

    def try_size(self, batch_s: float) -> Trial:
        """Try a batch size in the process."""
        child = self._child = self._child or self._start()
        child.send(batch_s)
        try:
            trial: Trial = child.receive()
        except ChildEndedError as end:
            if not end.signal:
                raise UserError(
                    "the process that tries batches has failed; its own error message is above"
                ) from None
            cause = f"its process was killed by {end}, which usually means too little memory"
            trial = Trial(batch_s, failure=cause)
        if trial.failure:
            child.kill()
            self._child = None
        return trial


def serve(requests: Iterator[float], config: Config, devices: Devices, folder: Path) -> Iterator[Trial]:
    """Yield a trial of each batch size; runs in a process of its own."""
    trainer, data = _make_trainer(config, devices, folder)
    if not _gpus(trainer):
        limit_memory()
    for batch_s in requests:
        yield _attempt(trainer, data, batch_s)


def limit_memory(usable_share: float = USABLE_SHARE) -> None:
    """Let this process allocate only a share of the memory that is free, where the system states it."""
    with contextlib.suppress(ImportError, OSError):
        import resource

        free = re.search(r"MemAvailable:\s*(\d+) kB", Path("/proc/meminfo").read_text())
        used = re.search(r"VmData:\s*(\d+) kB", Path("/proc/self/status").read_text())
        if free and used:
            limits = resource.getrlimit(resource.RLIMIT_DATA)
            wanted = 1024 * round(int(used[1]) + usable_share * int(free[1]))
            lowest = min(limit for limit in (wanted, *limits) if limit != resource.RLIM_INFINITY)
            resource.setrlimit(resource.RLIMIT_DATA, (lowest, limits[1]))


def _make_trainer(config: Config, devices: Devices, folder: Path) -> tuple[Trainer, Dataset]:
    """Make the trainer that `asr train` would make, without checking every recording."""
    engine = start_engine(devices, config.train.cpu_towers)
    from asr.runs.run import Run
    from asr.training.data import corpus_weights, make_vocabulary
    from asr.training.stages import place_model
    from asr.training.trainer import Trainer, TrainingSetup
    from data_pipeline.augment.augmenter import Augmenter
    from data_pipeline.augment.piece_sampling import PieceSampler
    from data_pipeline.batches.dataset import Dataset

    vocabulary = make_vocabulary(config)
    model = make_model(config, vocabulary, engine)
    augmenter = Augmenter.load(config.augment, config.train.seed)
    utterances = _trainable_utterances(config)
    data = Dataset(
        utterances,
        vocabulary,
        config.train.batch_clips_s,
        augmenter,
        corpus_weights(config, utterances),
        label_weight=config.train.label_weight,
        piece_sampler=PieceSampler.of(config.augment, vocabulary),
    )
    run = Run(folder)
    placed = place_model(engine, model, data.utterances, config.train.batch_clips_s, run)
    return Trainer(engine, TrainingSetup(config, vocabulary, model, data, data, placed=placed), run), data


def _trainable_utterances(config: Config) -> Utterances:
    """Return the utterances of the training manifests, without those that are too long to be trained on."""
    from asr.training.machine_labelled import training_utterances
    from data_pipeline.doctor.quick import LONGEST_S

    utterances = training_utterances(config)
    return utterances.take(np.flatnonzero(utterances.columns.durations_s <= LONGEST_S))


def _attempt(trainer: Trainer, data: Dataset, batch_s: float) -> Trial:
    """Train on the worst batches of an epoch at this size, then time them with typical ones."""
    import tensorflow as tf

    from asr.training.optimization.out_of_memory import device_of, is_out_of_memory
    from data_pipeline.batches.batching import padded_length

    data = dataclasses.replace(data, batch_s=batch_s / trainer.config.train.num_views)
    lengths, labels = _first_epoch(data, trainer.model)
    plan, _ = data.epoch(0, trainer.config.train.seed, trainer.model.fits)
    padded = [padded_length(length) for length in lengths]
    worst = worst_batches(plan, padded, list(map(len, labels)))
    tried = [*worst, *range(0, len(plan), max(1, len(plan) // NUM_TYPICAL))]
    trial = Trial(batch_s, len(plan), max(map(len, plan)))
    for gpu in _gpus(trainer):
        tf.config.experimental.reset_memory_stats(gpu)
    try:
        batches = [_noise_batch(data, plan[number], lengths, labels) for number in dict.fromkeys(tried)]
        for batch in batches:
            _step(trainer, batch)
        audio_s, elapsed_s = 0.0, 0.0
        while elapsed_s < TIMED_S:
            started_s = time.monotonic()
            audio_s += sum(_step(trainer, batch) for batch in batches)
            elapsed_s += time.monotonic() - started_s
    except (tf.errors.OpError, MemoryError) as error:
        if not is_out_of_memory(error):
            raise
        device = device_of(str(error))
        return dataclasses.replace(trial, failure=f"out of memory{f' on {device}' if device else ''}")
    return dataclasses.replace(trial, audio_s_per_s=audio_s / elapsed_s, peak_bytes=_peak_bytes(trainer))


def worst_batches(
    plan: Sequence[Sequence[int]], num_samples: Sequence[int], num_labels: Sequence[int]
) -> list[int]:
    """Return which batches have the most samples, the longest clip, and the most labels, each with padding.

    Args:
        plan: indices of the clips in each batch.
        num_samples: that each clip is padded to.
        num_labels: of each clip.
    """
    longest = [max(num_samples[index] for index in rows) for rows in plan]
    samples = [length * len(rows) for length, rows in zip(longest, plan, strict=True)]
    labels = [max(num_labels[index] for index in rows) * len(rows) for rows in plan]
    return list(dict.fromkeys(sizes.index(max(sizes)) for sizes in (samples, longest, labels)))


def _first_epoch(data: Dataset, model: AcousticModel) -> tuple[list[int], list[list[int]]]:
    """Return each clip's samples in the first epoch, at its speed and with its pauses, and its labels."""
    from data_pipeline.augment.augmenter import nums_samples_at, pause_samples, speed_factors

    drawn = data.augmenter.config, data.augmenter.seed, 0, data.keys
    speeds = speed_factors(*drawn)
    lengths = nums_samples_at(data.num_samples, speeds) + pause_samples(*drawn).sum(axis=1)
    labels = [data.drawn_labels(index, 0, speed, model.fits) for index, speed in enumerate(speeds.tolist())]
    return lengths.tolist(), labels


def _noise_batch(
    data: Dataset, rows: list[int], lengths: list[int], labels: list[list[int]]
) -> TrainingBatch:
    """Return a batch of noise with the clips' lengths and labels; no recording is read."""
    rng = np.random.default_rng(len(rows))
    audio = [rng.integers(-3000, 3000, lengths[index], dtype=np.int16) for index in rows]
    batch = data.padded(audio, [labels[index] for index in rows])
    return batch if data.label_weight == 1.0 else data.weighted(batch, rows)


def _step(trainer: Trainer, batch: TrainingBatch) -> float:
    """Train on a batch and return its seconds of audio."""
    from asr.audio.recording import SAMPLE_RATE_HZ

    float(trainer.train_step(batch, num_rows=len(batch.audio)).loss)  # waits for the device
    return float(batch.num_samples.sum()) / SAMPLE_RATE_HZ


def _gpus(trainer: Trainer) -> list[str]:
    return [device.strip("/") for device in trainer.engine.devices if "GPU" in device.upper()]


def _peak_bytes(trainer: Trainer) -> int:
    """Return the peak memory of the fullest GPU, or of this process if it trains on the CPU."""
    import tensorflow as tf

    peaks = [int(tf.config.experimental.get_memory_info(gpu)["peak"]) for gpu in _gpus(trainer)]
    return max(peaks, default=0) or peak_memory_bytes()

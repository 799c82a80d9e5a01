"""Find the largest and the fastest batch size that fits the devices: `asr tune-batch` prints the result.

sizes = tune_batch(load_config("demo"), devices="0,1", on_trial=print)
print(sizes.largest.batch_s, sizes.fastest.batch_s)
"""

from __future__ import annotations

import contextlib
import dataclasses
import math
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TYPE_CHECKING

from asr.base.config import Config
from asr.base.errors import UserError
from asr.base.types import Utterance
from asr.base.work import OnProgress, ignore_progress
from asr.model.devices import ONE_DEVICE, Devices
from asr.training.batch_search import (
    USABLE_SHARE,
    Started,
    Trial,
    Worker,
    available_bytes,
    reason_to_stop,
    search,
    worst_batches,
)
from asr.training.data import with_manifests
from asr.training.engine import start_engine

if TYPE_CHECKING:
    from asr.base.types import Batch
    from asr.training.trainer import Trainer
    from data_pipeline.batches.dataset import Dataset

TIMED_S = 1.0  # each size is timed for at least this long
NUM_TYPICAL = 3  # batches that are timed in addition to the worst


@dataclass(frozen=True)
class BatchSizes:
    """The results of all trials.

    Attributes:
        config: the configuration that was tried, with its manifests.
        trials: in the order in which they were made.
        longest: the longest clip of the training set.
        total_s: seconds of audio in the training set.
    """

    config: Config
    trials: Sequence[Trial]
    longest: Utterance
    total_s: float

    @property
    def fitting(self) -> list[Trial]:
        """Return the trials that fit, the smallest batch first."""
        return sorted((trial for trial in self.trials if not trial.failure), key=lambda trial: trial.batch_s)

    @property
    def largest(self) -> Trial:
        """Return the trial of the largest batch that fits."""
        return self.fitting[-1]

    @property
    def fastest(self) -> Trial:
        """Return the trial with the highest throughput."""
        return max(self.fitting, key=lambda trial: trial.audio_s_per_s)

    @property
    def why_no_larger(self) -> str:
        """Return why larger batches were not tried if all that were tried fit; else an empty string."""
        return reason_to_stop(self.fitting, self.total_s) if len(self.fitting) == len(self.trials) else ""

    @property
    def learning_rates(self) -> tuple[float, float]:
        """Return the learning rates for the fastest size: scaled by the square root, and linearly.

        The square root suits Adam (Malladi et al., 2022), linear scaling SGD (Goyal et al., 2017).
        """
        times = self.fastest.batch_s / self.config.train.batch_s
        rate = self.config.train.learning_rate
        return rate * math.sqrt(times), rate * times


def tune_batch(
    config: Config,
    devices: Devices = ONE_DEVICE,
    *,
    limit_bytes: float | None = None,
    on_data: Callable[[str, int, float], None] = lambda *_: None,
    on_trial: Callable[[Trial], None] = lambda _: None,
    on_progress: OnProgress = ignore_progress,
) -> BatchSizes:
    """Try batch sizes, each in a process that may run out of memory.

    Args:
        config: to be trained.
        devices: on which to train; any engine but multi-worker.
        limit_bytes: memory that may be used if the device is the CPU; None for most of the free memory.
        on_data: receives the training manifest, its number of utterances and its seconds of audio.
        on_trial: receives each trial when it is done.
        on_progress: receives how far the preparation of a corpus has come.

    Raises:
        UserError: the configuration or a device cannot be used.
    """
    if devices.engine == "multi-worker":
        raise UserError("`engine=multi-worker`: tune one machine's share with `engine=mirrored` instead")
    config = with_manifests(config, on_progress)
    utterances = _trainable_utterances(config)
    total_s = sum(utterance.duration_s for utterance in utterances)
    on_data(config.data.train, len(utterances), total_s)
    limit_bytes = USABLE_SHARE * available_bytes() if limit_bytes is None else limit_bytes
    trials = []
    with (
        tempfile.TemporaryDirectory() as folder,
        Worker(serve, config, devices, folder, limit_bytes=limit_bytes) as worker,
    ):
        for trial in search(worker.try_size, config.train.batch_s, total_s):
            on_trial(trial)
            trials.append(trial)
    longest = max(utterances, key=lambda utterance: utterance.duration_s)
    return BatchSizes(config, trials, longest, total_s)


def serve(connection: Connection, config: Config, devices: Devices, folder: str) -> None:
    """Try the sizes that the connection sends, until one fails; runs in a process of its own."""
    with contextlib.suppress(BrokenPipeError, EOFError):  # the parent has ended
        _serve(connection, config, devices, Path(folder))


def _serve(connection: Connection, config: Config, devices: Devices, folder: Path) -> None:
    try:
        trainer, data = _make_trainer(config, devices, folder)
    except UserError as error:
        connection.send(error)
        return
    connection.send(Started(on_cpu=not _gpus(trainer), base_bytes=_peak_bytes(trainer)))
    failed = False
    while not failed:
        trial = _attempt(trainer, data, connection.recv())
        connection.send(trial)
        failed = bool(trial.failure)


def _make_trainer(config: Config, devices: Devices, folder: Path) -> tuple[Trainer, Dataset]:
    """Make the trainer that `asr train` would make, without checking every recording."""
    engine = start_engine(devices, config.train.cpu_towers)
    from asr.model.acoustic_model import make_acoustic_model
    from asr.runs.run import Run
    from asr.training.data import make_vocabulary
    from asr.training.stages import place_model
    from asr.training.trainer import Trainer, TrainingSetup
    from data_pipeline.augment.augmenter import Augmenter
    from data_pipeline.batches.dataset import Dataset

    vocabulary = make_vocabulary(config)
    with engine.scope():
        model = make_acoustic_model(config, vocabulary, for_training=True)
    augmenter = Augmenter.load(config.augment, config.train.seed)
    data = Dataset(_trainable_utterances(config), vocabulary, config.train.batch_clips_s, augmenter)
    run = Run(folder)
    placed = place_model(engine, model, data.utterances, config.train.batch_clips_s, run)
    setup = TrainingSetup(config, vocabulary, model, data, data, placed=placed)
    return Trainer(engine, setup, run), data


def _trainable_utterances(config: Config) -> list[Utterance]:
    """Return the utterances of the training manifest, without those that are too long to be trained on."""
    from data_pipeline.doctor.quick import LONGEST_S
    from data_pipeline.manifests.manifest import read_manifest

    return [u for u in read_manifest(Path(config.data.train)) if u.duration_s <= LONGEST_S]


def _attempt(trainer: Trainer, data: Dataset, batch_s: float) -> Trial:
    """Train on the worst batches of an epoch at this size, then time them with typical ones."""
    import tensorflow as tf

    from asr.training.out_of_memory import device_of, is_out_of_memory
    from data_pipeline.batches.batching import padded_length

    data = dataclasses.replace(data, batch_s=batch_s / trainer.config.train.num_views)
    lengths = _lengths(data)
    plan, _ = data.epoch(0, trainer.config.train.seed, trainer.model.fits)
    padded = [padded_length(length) for length in lengths]
    worst = worst_batches(plan, padded, [len(labels) for labels in data.labels])
    numbers = [*worst, *range(0, len(plan), max(1, len(plan) // NUM_TYPICAL))]
    trial = Trial(batch_s, len(plan), max(map(len, plan)))
    for device in _gpus(trainer):
        tf.config.experimental.reset_memory_stats(device.strip("/"))
    try:
        batches = [_noise_batch(data, plan[number], lengths) for number in dict.fromkeys(numbers)]
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


def _lengths(data: Dataset) -> list[int]:
    """Return the number of samples of each clip in the first epoch, at its speed and with its pauses."""
    from data_pipeline.augment.augmenter import num_samples_at, pause_samples, speed_factors

    drawn = data.augmenter.config, data.augmenter.seed, 0, data.keys
    speeds, pauses = speed_factors(*drawn).tolist(), pause_samples(*drawn).sum(axis=1).tolist()
    own = data.num_samples.tolist()
    return [num_samples_at(n, speed) + pause for n, speed, pause in zip(own, speeds, pauses, strict=True)]


def _noise_batch(data: Dataset, places: list[int], lengths: list[int]) -> Batch:
    """Return a batch of noise with the clips' lengths and labels; no recording is read."""
    import numpy as np

    from data_pipeline.batches.dataset import pad_batch

    rng = np.random.default_rng(len(places))
    audio = [rng.integers(-3000, 3000, lengths[place], dtype=np.int16) for place in places]
    return pad_batch(audio, [data.labels[place] for place in places])


def _step(trainer: Trainer, batch: Batch) -> float:
    """Train on a batch and return its seconds of audio."""
    from asr.audio.recording import SAMPLE_RATE_HZ

    float(trainer.train_step(batch, num_rows=len(batch.audio)).loss)  # waits for the device
    return float(batch.num_samples.sum()) / SAMPLE_RATE_HZ


def _gpus(trainer: Trainer) -> list[str]:
    return [device for device in trainer.engine.devices if "GPU" in device.upper()]


def _peak_bytes(trainer: Trainer) -> int:
    """Return the peak memory of the fullest GPU, or of this process if it trains on the CPU."""
    import resource
    import sys

    import tensorflow as tf

    if gpus := _gpus(trainer):
        return max(int(tf.config.experimental.get_memory_info(gpu.strip("/"))["peak"]) for gpu in gpus)
    peak = int(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
    return peak if sys.platform == "darwin" else peak * 1024

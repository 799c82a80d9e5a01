"""`asr tune-batch`: the largest batch that the devices hold."""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import math
import tempfile
import time
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TYPE_CHECKING

from asr.base.types import UserError
from asr.cli.commands import EXIT_MISTAKE, add_override_argument
from asr.cli.options.devices import add_device_arguments, add_engine_argument, start_engine

if TYPE_CHECKING:
    from asr.base.config import Config
    from asr.base.types import Batch, Utterance
    from asr.training.batch_tuning import Trial
    from asr.training.trainer import Trainer
    from data_pipeline.dataset import Dataset

TIMED_S = 1.0  # at least, of each size
NUM_TYPICAL = 3  # batches that are timed beside the worst


def add_tune_batch_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what the command takes."""
    parser.add_argument("config", help="a TOML file, or the name of one in configs/")
    add_override_argument(parser, "model.size=s")
    add_device_arguments(parser)
    add_engine_argument(parser)


def tune_batch_command(arguments: argparse.Namespace) -> int:
    """Try sizes and tell of each; returns the exit status."""
    from asr.base.config import load_config
    from asr.cli.commands.train import with_manifests
    from asr.training.batch_tuning import USABLE_SHARE, available_bytes

    if arguments.engine == "multi-worker":
        raise UserError("--engine multi-worker: tune one machine's share with --engine mirrored instead")
    config = with_manifests(load_config(arguments.config, arguments.overrides))
    limit_bytes = USABLE_SHARE * available_bytes()
    return tune(config, arguments, limit_bytes)


def tune(config: Config, arguments: argparse.Namespace, limit_bytes: float) -> int:
    """Try sizes for a configuration with manifests, and tell which is the largest that fits.

    Args:
        config: of the training.
        arguments: those that choose the devices.
        limit_bytes: memory to be used where the device is the CPU.
    """
    from asr.training.batch_tuning import Worker, search

    utterances = _trained_on(config)
    total_s = sum(utterance.duration_s for utterance in utterances)
    print(f"{config.data.train}: {len(utterances):,} utterances, {total_s / 60:.1f} minutes")
    print(HEADER, flush=True)
    trials = []
    with (
        tempfile.TemporaryDirectory() as folder,
        Worker(serve, config, arguments, folder, limit_bytes=limit_bytes) as worker,
    ):
        for trial in search(worker.ask, config.train.batch_s, total_s):
            print(_row(trial), flush=True)
            trials.append(trial)
    return _conclude(trials, config, total_s)


HEADER = f"{'train.batch_s':>13}  {'batches':>8}  {'most clips':>10}  {'audio s/s':>9}  {'memory':>8}"


def _row(trial: Trial) -> str:
    if trial.failure:
        return f"{trial.batch_s:13g}  {trial.failure}"
    return (
        f"{trial.batch_s:13g}  {trial.num_batches:8,}  {trial.num_rows:10,}  {trial.audio_s_per_s:9,.0f}  "
        f"{trial.peak_bytes / 1e9:5.2f} GB"
    )


def _conclude(trials: list[Trial], config: Config, total_s: float) -> int:
    from asr.training.batch_tuning import stops_growing

    fitting = sorted((trial for trial in trials if not trial.failure), key=lambda trial: trial.batch_s)
    if not fitting:
        longest = max(_trained_on(config), key=lambda utterance: utterance.duration_s)
        print(
            f"\nNo size fits; the longest clip alone is {longest.duration_s:.1f} s ({longest.id}, "
            f"{longest.audio_path}): leave out clips of this length, or take a smaller model.size"
        )
        return EXIT_MISTAKE
    largest, fastest = fitting[-1], max(fitting, key=lambda trial: trial.audio_s_per_s)
    all_fit = len(fitting) == len(trials)
    print(f"\nLarger ones were not tried: {stops_growing(fitting, total_s)}." if all_fit else "")
    print(
        f"The largest that {'was tried' if all_fit else 'fits'} is {largest.batch_s:g} s, the fastest "
        f"{fastest.batch_s:g} s, with {fastest.audio_s_per_s:,.0f} seconds of audio per second:\n\n"
        f"    [train]\n    batch_s = {float(fastest.batch_s)}"
    )
    if fastest.batch_s != config.train.batch_s:
        print(f"\n{_about_learning_rate(fastest, config)}")
    return 0


def _about_learning_rate(trial: Trial, config: Config) -> str:
    """Linear scaling (Goyal et al., 2017); for Adam, the square root (Malladi et al., 2022)."""
    rate, times = config.train.learning_rate, trial.batch_s / config.train.batch_s
    return (
        f"That is {times:.3g} times the {config.train.batch_s:g} s of now, {trial.num_batches:,} steps an "
        f"epoch. train.learning_rate goes with it: from {rate:g} to {rate * math.sqrt(times):.2g} by the "
        f"square root, as suits Adam, or to {rate * times:.2g} in proportion, as suits sgd."
    )


def serve(connection: Connection, config: Config, arguments: argparse.Namespace, folder: str) -> None:
    """Try the sizes that are asked for, until one fails; runs in a process of its own."""
    with contextlib.suppress(BrokenPipeError, EOFError):  # who asked is gone
        _serve(connection, config, arguments, Path(folder))


def _serve(connection: Connection, config: Config, arguments: argparse.Namespace, folder: Path) -> None:
    from asr.training.batch_tuning import Started

    try:
        trainer, data = _make_trainer(config, arguments, folder)
    except UserError as error:
        connection.send(error)
        return
    connection.send(Started(on_cpu=not _gpus(trainer), base_bytes=_peak_bytes(trainer)))
    failed = False
    while not failed:
        trial = _attempt(trainer, data, connection.recv())
        connection.send(trial)
        failed = bool(trial.failure)


def _make_trainer(config: Config, arguments: argparse.Namespace, folder: Path) -> tuple[Trainer, Dataset]:
    """As `asr train` makes it, but for the check of every recording."""
    engine = start_engine(arguments)
    from asr.cli.commands.train import make_vocabulary
    from asr.model.acoustic_model import make_acoustic_model
    from asr.runs.run import Run
    from asr.training.trainer import Trainer
    from data_pipeline.augment.augmenter import Augmenter
    from data_pipeline.dataset import Dataset

    vocabulary = make_vocabulary(config)
    with engine.scope():
        model = make_acoustic_model(config, vocabulary)
    augmenter = Augmenter.load(config.augment, config.train.seed)
    data = Dataset(_trained_on(config), vocabulary, config.train.batch_s, augmenter)
    return Trainer(engine, model, config, vocabulary, data, data, Run(folder)), data


def _trained_on(config: Config) -> list[Utterance]:
    """The training manifest, without what training leaves out for its length."""
    from data_pipeline.doctor.quick import LONGEST_S
    from data_pipeline.manifest import read_manifest

    return [u for u in read_manifest(Path(config.data.train)) if u.duration_s <= LONGEST_S]


def _attempt(trainer: Trainer, data: Dataset, batch_s: float) -> Trial:
    """Train on the worst batches that an epoch has at this size, then on typical ones against the clock."""
    import tensorflow as tf

    from asr.training.batch_tuning import Trial, worst_batches
    from asr.training.out_of_memory import device_of, is_out_of_memory
    from data_pipeline.batching import padded_length

    data = dataclasses.replace(data, batch_s=batch_s)
    lengths = _lengths(data)
    plan, _ = data.epoch(0, trainer.config.train.seed, trainer.model.fits)
    padded = [padded_length(length) for length in lengths]
    worst = worst_batches(plan, padded, [len(labels) for labels in data.labels])
    numbers = [*worst, *range(0, len(plan), max(1, len(plan) // NUM_TYPICAL))]
    trial = Trial(batch_s, len(plan), max(map(len, plan)))
    for device in _gpus(trainer):
        tf.config.experimental.reset_memory_stats(device.strip("/"))
    try:
        batches = [_noise(data, plan[number], lengths) for number in dict.fromkeys(numbers)]
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
    """Samples of each clip as the first epoch plays it."""
    from data_pipeline.augment.augmenter import num_samples_at, speed_factors

    speeds = speed_factors(data.augmenter.config, data.augmenter.seed, 0, data.keys).tolist()
    return [num_samples_at(own, speed) for own, speed in zip(data.num_samples.tolist(), speeds, strict=True)]


def _noise(data: Dataset, places: list[int], lengths: list[int]) -> Batch:
    """A batch of those lengths and labels; no recording is read."""
    import numpy as np

    from data_pipeline.dataset import pad_batch

    rng = np.random.default_rng(len(places))
    audio = [rng.integers(-3000, 3000, lengths[place], dtype=np.int16) for place in places]
    return pad_batch(audio, [data.labels[place] for place in places])


def _step(trainer: Trainer, batch: Batch) -> float:
    """Train on a batch; returns its seconds of audio."""
    from asr.audio.recording import SAMPLE_RATE_HZ

    float(trainer.train_step(batch, num_rows=len(batch.audio)).loss)  # waits for the device
    return float(batch.num_samples.sum()) / SAMPLE_RATE_HZ


def _gpus(trainer: Trainer) -> list[str]:
    return [device for device in trainer.engine.devices if "GPU" in device.upper()]


def _peak_bytes(trainer: Trainer) -> int:
    """Of the fullest GPU, or of this process where it works on the CPU."""
    import resource
    import sys

    import tensorflow as tf

    if gpus := _gpus(trainer):
        return max(int(tf.config.experimental.get_memory_info(gpu.strip("/"))["peak"]) for gpu in gpus)
    peak = int(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
    return peak if sys.platform == "darwin" else peak * 1024

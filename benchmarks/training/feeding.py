"""Measures the data pipeline: batches per second, the time that training waits for them, and memory.

    python -m benchmarks.training.feeding

Peers: the same batches by TensorFlow's own operations (`tf.audio.decode_wav`); the same training with each
batch read only when it is needed. Memory has no peer: it must stay flat over 100,000 utterances.
"""

from __future__ import annotations

import os

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"

import dataclasses
import statistics
import tempfile
import time
from pathlib import Path

import numpy as np
import soundfile
import tensorflow as tf

from asr.audio.recording import SAMPLE_RATE_HZ, read_audio
from asr.base.config import AugmentConfig, load_config
from asr.base.vocabulary import Vocabulary
from asr.model.acoustic_model import make_acoustic_model
from asr.model.devices import ONE_DEVICE
from asr.runs.progress import Progress
from asr.runs.run import Run
from asr.training.engine import start_engine
from asr.training.trainer import Trainer, TrainingSetup
from benchmarks.common import compare, show
from data_pipeline.augment.augmenter import Augmenter
from data_pipeline.batches import dataset
from data_pipeline.batches.decoded_recordings import KEPT_BYTES, DecodedRecordings
from data_pipeline.manifests.manifest import read_manifest
from data_pipeline.preparation.prepare import prepare_corpus

RUNS = 7
NUM_MANY = 100_000


def main() -> None:
    config = load_config("demo")
    utterances = read_manifest(
        prepare_corpus("mandarin_demo", "", Path("data/mandarin_demo")).manifests["train"]
    )
    vocabulary = Vocabulary.of_utterances(utterances)
    plain = dataset.Dataset(utterances, vocabulary, config.train.batch_s)
    show("batches of 16 kHz WAV files in the page cache", throughput(plain))
    show("the same, augmented", augmented_throughput(plain, config.augment))
    show("Ogg Opus, speed perturbation as in the demo", compressed_throughput(plain, config.augment))
    show("waiting for data while the demo model trains", waiting(plain, config))
    show(f"memory over an epoch of {NUM_MANY:,} utterances", memory(utterances, vocabulary))


def throughput(data: dataset.Dataset) -> dict[str, str]:
    plan, _ = data.in_order()
    ours_s, peer_s, ratio = compare(
        lambda: drain(data.in_order()[1]), lambda: drain(by_tensorflow(data, plan)), RUNS
    )
    return {
        "ours": f"{data.duration_s / ours_s:8,.0f} s of audio per second",
        "tf.audio.decode_wav": f"{data.duration_s / peer_s:8,.0f} s of audio per second",
        "ratio": f"{ratio:.2f}",
    }


def augmented_throughput(data: dataset.Dataset, demo: AugmentConfig) -> dict[str, str]:
    all_on = dataclasses.replace(demo, noise="coloured", reverb="rooms", gain_db_min=-10.0, gain_db_max=5.0)
    rows = {}
    for name, config in (("speed, as in the demo", demo), ("speed, rooms, noise, gain", all_on)):
        changed = dataclasses.replace(data, augmenter=Augmenter.load(config, 1))
        drain(epoch(changed, 0))
        seconds = []
        for number in range(1, 4):
            started = time.perf_counter()
            drain(epoch(changed, number))
            seconds.append(time.perf_counter() - started)
        rows[name] = f"{data.duration_s / statistics.median(seconds):8,.0f} s of audio per second"
    return rows


def compressed_throughput(data: dataset.Dataset, demo: AugmentConfig) -> dict[str, str]:
    with tempfile.TemporaryDirectory() as folder:
        utterances = []
        for utterance in data.utterances:
            path = Path(folder) / f"{utterance.id}.ogg"
            waveform = read_audio(utterance.audio_path)
            soundfile.write(path, waveform, SAMPLE_RATE_HZ, format="OGG", subtype="OPUS")
            utterances.append(dataclasses.replace(utterance, audio_path=str(path)))
        kept, decoded = (
            dataclasses.replace(
                data,
                utterances=utterances,
                augmenter=Augmenter.load(demo, 1),
                recordings=DecodedRecordings(limit),
            )
            for limit in (KEPT_BYTES, 0)
        )
        drain(epoch(kept, 0))
        kept_s, decoded_s, ratio = compare(
            lambda: drain(epoch(kept, 1)), lambda: drain(epoch(decoded, 1)), RUNS
        )
    return {
        "kept in memory": f"{data.duration_s / kept_s:8,.0f} s of audio per second",
        "decoded again": f"{data.duration_s / decoded_s:8,.0f} s of audio per second",
        "ratio": f"{ratio:.2f}",
    }


def epoch(data: dataset.Dataset, number: int):
    return data.epoch(number, 1, lambda num_samples, labels: True)[1]


def drain(batches) -> None:
    for batch in batches:
        np.asarray(batch[0])


def by_tensorflow(data: dataset.Dataset, plan: list[list[int]]):
    """Return the same batches, decoded and padded by TensorFlow's operations on all cores."""

    def decode(path):
        samples, _ = tf.audio.decode_wav(tf.io.read_file(path), 1)
        return tf.cast(samples[:, 0] * 32768.0, tf.int16)

    paths = tf.constant([data.utterances[place].audio_path for places in plan for place in places])
    sizes = tf.constant([len(places) for places in plan], tf.int64)
    bounds = tf.concat([[0], tf.cumsum(sizes)], 0)

    def load(number):
        rows = tf.map_fn(
            decode,
            paths[bounds[number] : bounds[number + 1]],
            fn_output_signature=tf.RaggedTensorSpec([None], tf.int16, 0),
        )
        return rows.to_tensor(), rows.row_lengths()

    return tf.data.Dataset.range(len(plan)).map(load, num_parallel_calls=os.cpu_count()).prefetch(4)


def waiting(data: dataset.Dataset, config) -> dict[str, str]:
    data = dataclasses.replace(data, augmenter=Augmenter.load(config.augment, config.train.seed))
    engine = start_engine(ONE_DEVICE, config.train.cpu_towers)
    with engine.scope():
        model = make_acoustic_model(config, data.vocabulary)
    with tempfile.TemporaryDirectory() as folder:
        run = Run.create(Path(folder) / "run", config, data.vocabulary)
        trainer = Trainer(engine, TrainingSetup(config, data.vocabulary, model, data, data), run)
        original = trainer._epoch
        shares: dict[str, list[float]] = {"ahead": [], "on demand": []}

        def train(how: str, read_ahead: bool) -> None:
            waited = [0.0]

            def timed(number: int, first_batch: int):
                plan, batches = original(number, first_batch)
                if not read_ahead:
                    batches = one_at_a_time(data, plan, number)
                return plan, timing(batches, waited)

            trainer._epoch = timed  # type: ignore[method-assign]
            trainer.progress = Progress()
            started = time.perf_counter()
            trainer.train_epoch()
            shares[how].append(waited[0] / (time.perf_counter() - started))

        trainer.train_epoch()
        for _ in range(3):
            train("ahead", True)
            train("on demand", False)
    ahead, asked = (statistics.median(values) for values in shares.values())
    return {
        "read ahead": f"{ahead:.2%} of the time",
        "read on demand": f"{asked:.2%} of the time",
        "ratio": f"{asked / ahead:.1f}",
    }


def one_at_a_time(data: dataset.Dataset, plan, number: int):
    clips = data._clips(number, lambda num_samples, labels: True)
    speeds = dict(zip(clips.indices.tolist(), clips.speeds.tolist(), strict=True))
    for places in plan:
        yield tf.nest.map_structure(
            tf.constant,
            dataset.pad_batch(
                [
                    data.augmenter.apply(
                        read_audio(data.utterances[p].audio_path), number, int(data.keys[p]), speeds[p]
                    )
                    for p in places
                ],
                [data.labels[p] for p in places],
            ),
        )


def timing(batches, waited: list[float]):
    iterator = iter(batches)
    while True:
        started = time.perf_counter()
        batch = next(iterator, None)
        waited[0] += time.perf_counter() - started
        if batch is None:
            return
        yield batch


def memory(utterances, vocabulary: Vocabulary) -> dict[str, str]:
    shortest = sorted(utterances, key=lambda utterance: utterance.duration_s)[:100]
    many = [dataclasses.replace(shortest[number % 100], id=f"many-{number}") for number in range(NUM_MANY)]
    data = dataset.Dataset(many, vocabulary, 30.0, Augmenter.load(AugmentConfig(0.9, 1.1), 1))
    before_mb = resident_mb()
    started = time.perf_counter()
    plan, batches = data.epoch(0, 1, lambda num_samples, labels: True)
    planned_s = time.perf_counter() - started
    readings = []
    for number, _ in enumerate(batches):
        if number % (len(plan) // 20) == 0:
            readings.append(resident_mb())
    return {
        "plan": f"{planned_s:.2f} s",
        "before": f"{before_mb:.0f} MB",
        "after a tenth of the epoch": f"{readings[2]:.0f} MB",
        "at the end of the epoch": f"{readings[-1]:.0f} MB",
    }


def resident_mb() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


if __name__ == "__main__":
    main()

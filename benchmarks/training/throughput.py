"""Measures the throughput of training the demo, with its data pipeline and augmentation.

    python -m benchmarks.training.throughput [model.size=xs]

Arguments change the demo's configuration, as `--set` of `train.py` does. The peer is the same loop with clips
of the same set in random order, padded to the longest of their batch.
"""

from __future__ import annotations

import os

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"

import statistics
import sys
import tempfile
from pathlib import Path

import numpy as np

from asr.base.config import load_config
from asr.base.vocabulary import Vocabulary
from asr.model.acoustic_model import make_acoustic_model
from asr.model.devices import ONE_DEVICE
from asr.runs.progress import Progress
from asr.runs.run import Run
from asr.training.engine import start_engine
from asr.training.trainer import Trainer, TrainingSetup
from benchmarks.common import seconds, show
from data_pipeline.augment.augmenter import Augmenter
from data_pipeline.batches import dataset
from data_pipeline.manifests.manifest import read_manifest
from data_pipeline.manifests.rows import Rows
from data_pipeline.preparation.prepare import prepare_corpus

RUNS = 5


def main() -> None:
    config = load_config("demo", sys.argv[1:])
    utterances = read_manifest(
        prepare_corpus("mandarin_demo", "", Path("data/mandarin_demo")).manifests["train"]
    )
    vocabulary = Vocabulary.of_utterances(utterances)
    data = dataset.Dataset(
        utterances, vocabulary, config.train.batch_s, Augmenter.load(config.augment, config.train.seed)
    )
    engine = start_engine(ONE_DEVICE, config.train.cpu_towers)
    with engine.scope():
        model = make_acoustic_model(config, vocabulary)
    with tempfile.TemporaryDirectory() as folder:
        run = Run.create(Path(folder) / "run", config, vocabulary)
        trainer = Trainer(engine, TrainingSetup(config, vocabulary, model, data, data), run)
        bucketed = dataset.plan_epoch

        def epoch(plan) -> float:
            dataset.plan_epoch = plan
            trainer.progress = Progress()
            return seconds(lambda: trainer.train_epoch())

        epoch(bucketed)
        epoch(unsorted)
        pairs = [(epoch(bucketed), epoch(unsorted)) for _ in range(RUNS)]
    by_length, at_random = (
        data.duration_s / statistics.median(column) for column in zip(*pairs, strict=True)
    )
    show(
        f"training the demo, {config.model.title}",
        {
            "by length": f"{by_length:6.0f} s of audio per second",
            "in random order": f"{at_random:6.0f} s of audio per second",
            "ratio": f"{statistics.median(b / a for a, b in pairs):.2f}",
        },
    )


def unsorted(num_samples, budget_samples, seed, epoch):
    """Plan batches of the same number of clips each, whatever their lengths."""
    size = int(budget_samples / np.mean(num_samples))
    order = np.random.default_rng((seed, epoch)).permutation(len(num_samples)).tolist()
    return Rows.of(order[first : first + size] for first in range(0, len(order), size))


if __name__ == "__main__":
    main()

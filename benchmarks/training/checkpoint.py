"""Measures how long a checkpoint blocks training, and how long it takes until it is on disk.

    python -m benchmarks.training.checkpoint

The model is the largest of the separable family, 41 million parameters, with AdamW's state. The peer is
`tf.train.Checkpoint`, which returns when the files are written, but not yet flushed to disk.
"""

from __future__ import annotations

import os

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"

import statistics
import tempfile
from pathlib import Path

import numpy as np
import tensorflow as tf

from asr.base.config import Config, ModelConfig
from asr.base.vocabulary import Vocabulary
from asr.model.acoustic_model import make_acoustic_model
from asr.runs.checkpoint import state_of
from asr.runs.checkpoint_store import CheckpointStore
from asr.runs.progress import EpochSoFar, Progress
from asr.runs.run import Run
from asr.training.optimization.optimizer import make_optimizer
from benchmarks.common import seconds, show

RUNS = 7
VOCABULARY = Vocabulary(f"t{index}" for index in range(1427))


def main() -> None:
    config = Config(model=ModelConfig(size="xl"))
    model = make_acoustic_model(config, VOCABULARY)
    optimizer = make_optimizer(config.train, num_steps=1000)
    optimizer.build(model.trainable_variables)
    peer = tf.train.Checkpoint(model=model, optimizer=optimizer)
    blocking, written, peer_written = [], [], []
    with tempfile.TemporaryDirectory() as folder:
        run = Run.create(Path(folder) / "run", config, VOCABULARY)
        store = CheckpointStore(run, keep_last=2, keep_best=5)
        for number in range(RUNS + 1):
            progress = Progress(epoch=EpochSoFar(batches=number + 1))
            blocked = seconds(lambda: store.save(state_of(model, optimizer), progress))  # noqa: B023
            blocking.append(blocked)
            written.append(blocked + seconds(store.finish))
            peer_written.append(seconds(lambda: peer.write(f"{folder}/peer")))
            for variable in model.trainable_variables[:50]:  # as training steps do in between
                variable.assign_add(np.ones(variable.shape, np.float32))
        size_mb = run.checkpoints()[-1].stat().st_size / 1e6
    ours, whole, theirs = (column[1:] for column in (blocking, written, peer_written))
    show(
        f"a checkpoint of {model.count_params() / 1e6:.0f} million parameters, {size_mb:.0f} MB",
        {
            "training is blocked for": f"{statistics.median(ours):.3f} s, {max(ours):.3f} s at most",
            "on disk after": f"{statistics.median(whole):.2f} s",
            "tf.train.Checkpoint": f"{statistics.median(theirs):.2f} s, all of which blocks training",
            "ratio": f"{statistics.median(b / a for a, b in zip(ours, theirs, strict=True)):.1f}",
        },
    )


if __name__ == "__main__":
    main()

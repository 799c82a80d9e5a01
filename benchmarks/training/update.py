"""Compares training steps by how the update of the weights is traced, and compiled by XLA.

    python -m benchmarks.training.update [xs s m]

Training traces one update for each shape of weights. Its peers trace one for each weight, as Keras does; XLA
then compiles all of them as one function, or does not. All are whole steps: features, SpecAugment, forward,
CTC, backward, clipping, AdamW. A first step does not include compiling CTC, which another step did before.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Sequence
from typing import Any

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"

import keras
import numpy as np
import tensorflow as tf

from asr.audio.recording import SAMPLE_RATE_HZ
from asr.base.config import TrainConfig, load_config
from asr.base.types import Batch
from asr.base.vocabulary import Vocabulary
from asr.model.acoustic_model import make_acoustic_model
from asr.training.optimization.objective import make_objective
from asr.training.optimization.optimizer import make_optimizer
from asr.training.optimization.step import make_step
from benchmarks.common import compare, seconds, show
from multigpu.devices import share_cpu
from multigpu.engines import make_engine

# size of the network: clips of a batch, seconds of each, outputs, labels of each
SHAPES = {"xs": (12, 2.5, 322, 11), "s": (12, 2.5, 322, 11), "m": (8, 5.0, 1428, 18)}


# kind of update: shared by the weights of a shape, compiled
KINDS = {
    "compiled, by shape": (True, True),
    "compiled, by weight": (False, True),
    "by shape": (True, False),
    "by weight": (False, False),
}


def main() -> None:
    sizes, num_towers = sizes_and_towers(__doc__)
    for size in sizes:
        num_clips, clip_s, num_outputs, num_labels = SHAPES[size]
        batch = make_batch(num_clips, clip_s, num_outputs, num_labels)
        training_step(size, num_outputs, batch, False, num_towers)()
        steps = {
            kind: training_step(size, num_outputs, batch, compiled, num_towers, shared)
            for kind, (shared, compiled) in KINDS.items()
        }
        first_s = {kind: seconds(step) for kind, step in steps.items()}
        rows = {}
        for shape, weight in (("compiled, by shape", "compiled, by weight"), ("by shape", "by weight")):
            shape_s, weight_s, ratio = compare(steps[shape], steps[weight], runs=12 if size == "m" else 60)
            rows[shape] = f"{shape_s * 1000:.1f} ms, the first step {first_s[shape]:.1f} s"
            rows[weight] = f"{weight_s * 1000:.1f} ms, the first step {first_s[weight]:.1f} s"
            rows[f"ratio, {shape}"] = f"{ratio:.3f}, of first steps {first_s[weight] / first_s[shape]:.2f}"
        show(title_of(size, num_towers), rows)


def make_batch(num_clips: int, clip_s: float, num_outputs: int, num_labels: int) -> Batch:
    rng = np.random.default_rng(0)
    num_samples = round(clip_s * SAMPLE_RATE_HZ)
    return Batch(
        rng.normal(0, 3000, (num_clips, num_samples)).astype(np.int16),
        np.full(num_clips, num_samples, np.int32),
        rng.integers(1, num_outputs, (num_clips, num_labels)).astype(np.int32),
        np.full(num_clips, num_labels, np.int32),
    )


def title_of(size: str, num_towers: int) -> str:
    num_clips, clip_s, num_outputs, _ = SHAPES[size]
    network = f"separable {size}, {num_clips} clips of {clip_s} s, {num_outputs} outputs"
    return f"a training step, {network}, {num_towers} tower{'s' * (num_towers > 1)}"


def sizes_and_towers(description: str) -> tuple[list[str], int]:
    """Return what a benchmark of steps is to measure: sizes of networks, and towers that share the CPU."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("sizes", nargs="*", default=list(SHAPES), help="(default: %(default)s)")
    parser.add_argument("--towers", type=int, default=TrainConfig().cpu_towers, help="(default: %(default)s)")
    arguments = parser.parse_args()
    return arguments.sizes, arguments.towers


def training_step(
    size: str, num_outputs: int, batch: Batch, compiled: bool, num_towers: int = 1, shared: bool = True
) -> Callable[[], float]:
    config = load_config("demo", [f"model.size={size}", "model.factored_output=false"])
    engine = make_engine("", share_cpu(num_towers))
    with engine.scope():
        keras.utils.set_random_seed(1)
        vocabulary = Vocabulary(f"t{index}" for index in range(num_outputs - 1))
        model = make_acoustic_model(config, vocabulary, for_training=True)
        optimizer = make_optimizer(config.train, 1000, shared, compiled and shared)
        optimizer.build(model.trainable_variables)
    if compiled and not shared:
        compile_in_one_function(optimizer)
    step = make_step(engine, model, optimizer, config.train, make_objective(config.train, optimizer))
    return lambda: float(step(batch, len(batch.audio)).loss)


def compile_in_one_function(optimizer: Any) -> None:
    apply = optimizer.apply

    def apply_all(gradients: Sequence[Any], weights: Sequence[Any]) -> None:
        tf.function(lambda *each: apply(each, weights), jit_compile=True, autograph=False)(*gradients)

    optimizer.apply = apply_all


if __name__ == "__main__":
    main()

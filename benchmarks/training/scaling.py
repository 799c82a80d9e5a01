"""Measures the speedup of two devices, and of two towers on a CPU, on training steps without data pipeline.

    python -m benchmarks.training.scaling                # the demo model on two devices
    python -m benchmarks.training.scaling --only towers  # two towers that share a CPU, three sizes

The first compares two simulated devices (on a CPU one core each, on a machine with a GPU two halves of it)
with one; on a CPU, the one is pinned to a core. The second compares `train.cpu_towers` = 2, the default
without a GPU, with 1, by which each operation uses all cores. Every engine runs in a process of its own, on
the same clips; they run in turn, so that each pair sees the same load of the machine.
"""

from __future__ import annotations

import os

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks.common import seconds, show

RUNS, NUM_BATCHES = 9, 24
BATCH_S = 30.0  # the demo's
ENGINES = ("single", "parallel-model", "mirrored")
CASES = {
    "strong scaling, the demo's batch shared": BATCH_S,
    "weak scaling, the demo's batch on each": 2 * BATCH_S,
}
SIZES = ("xs", "s", "m")


def main() -> None:
    parser = argparse.ArgumentParser(description="Speedup of several devices, and of towers on a CPU.")
    parser.add_argument("--only", choices=("devices", "towers"), help="the part to measure (default: both)")
    only = parser.parse_args().only
    if only != "towers":
        compare_devices()
    if only != "devices":
        compare_towers()


def compare_devices() -> None:
    """Compare two devices with one, and with another engine on the same two."""
    for case, batch_s in CASES.items():
        workers = {engine: Worker(engine, BATCH_S if engine == "single" else batch_s) for engine in ENGINES}
        rounds = measured(workers)
        rows = {engine: f"{median_of(engine, rounds):6.0f} s of audio per second" for engine in ENGINES}
        rows["parallel-model to single"] = ratio("parallel-model", "single", rounds)
        rows["parallel-model to mirrored"] = ratio("parallel-model", "mirrored", rounds)
        show(f"two devices, {case}", rows)


def compare_towers() -> None:
    """Compare two towers that share the CPU with one that has all cores."""
    for size in SIZES:
        rounds = measured({name: Worker(name, BATCH_S, size) for name in ("towers", "all-cores")})
        rows = {name: f"{median_of(name, rounds):6.0f} s of audio per second" for name in rounds[0]}
        rows["towers to all-cores"] = ratio("towers", "all-cores", rounds)
        show(f"two towers on a CPU, model.size={size}", rows)


def measured(workers: dict[str, Worker]) -> list[dict[str, float]]:
    """Return the seconds of audio per second of all workers, for each round in which they ran in turn."""
    for worker in workers.values():
        worker.run()
    rounds = [{name: worker.run() for name, worker in workers.items()} for _ in range(RUNS)]
    for worker in workers.values():
        worker.close()
    return rounds


def median_of(engine, rounds):
    return statistics.median(each[engine] for each in rounds)


def ratio(one, other, rounds):
    ratios = sorted(each[one] / each[other] for each in rounds)
    return f"{statistics.median(ratios):.2f} ({ratios[0]:.2f} to {ratios[-1]:.2f})"


class Worker:
    """A process that trains an epoch on request, and returns its seconds of audio per second."""

    def __init__(self, engine_name: str, batch_s: float, size: str = "xs") -> None:
        command = [sys.executable, "-m", __spec__.name, "work", engine_name, str(batch_s), size]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )

    def run(self) -> float:
        self._process.stdin.write("go\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())

    def close(self) -> None:
        self._process.stdin.close()
        self._process.wait()


def work(engine_name: str, batch_s: float, size: str) -> None:
    """Train an epoch for each line of standard input; runs in the worker's process."""
    import tensorflow as tf

    trainer, plan, batches = trainer_and_batches(start_engine(engine_name), batch_s, size)
    audio_s = sum(float(tf.reduce_sum(batch.num_samples)) for batch in batches) / 16000

    def epoch() -> None:
        for places, batch in zip(plan, batches, strict=True):
            float(trainer.train_step(batch, len(places)).loss)

    for _ in sys.stdin:
        print(json.dumps(audio_s / seconds(epoch)), flush=True)


def start_engine(name: str):
    """Return the engine of a name, or one on a CPU for `towers` and `all-cores`."""
    import tensorflow as tf

    from multigpu.devices import parse_devices, share_cpu, simulate_devices
    from multigpu.engines import make_engine

    if name in ("towers", "all-cores"):
        return make_engine("", share_cpu(2) if name == "towers" else ("/CPU:0",))
    if name != "single":
        simulate_devices(2)
    elif not tf.config.list_physical_devices("GPU"):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
        tf.config.threading.set_intra_op_parallelism_threads(1)
        tf.config.threading.set_inter_op_parallelism_threads(1)
    return make_engine(name, parse_devices(1 if name == "single" else 2))


def trainer_and_batches(engine, batch_s, size):
    from asr.base.config import load_config
    from asr.base.vocabulary import Vocabulary
    from asr.model.acoustic_model import make_acoustic_model
    from asr.runs.run import Run
    from asr.training.trainer import Trainer, TrainingSetup
    from data_pipeline.augment.augmenter import Augmenter
    from data_pipeline.batches.dataset import Dataset
    from data_pipeline.manifests.manifest import read_manifest
    from data_pipeline.preparation.prepare import prepare_corpus

    config = load_config("demo", [f"train.batch_s={batch_s}", f"model.size={size}"])
    utterances = read_manifest(
        prepare_corpus("mandarin_demo", "", Path("data/mandarin_demo")).manifests["train"]
    )
    vocabulary = Vocabulary.of_utterances(utterances)
    data = Dataset(utterances, vocabulary, batch_s, Augmenter.load(config.augment, config.train.seed))
    with engine.scope():
        model = make_acoustic_model(config, vocabulary)
    trainer = Trainer(
        engine, TrainingSetup(config, vocabulary, model, data, data), Run(Path(tempfile.mkdtemp()))
    )
    plan, batches = data.epoch(0, 1, model.fits)
    batches = [batch for batch, _ in zip(batches, range(NUM_BATCHES), strict=False)]
    return trainer, plan[:NUM_BATCHES], batches


if __name__ == "__main__":
    if sys.argv[1:2] == ["work"]:
        work(sys.argv[2], float(sys.argv[3]), sys.argv[4])
    else:
        main()

"""What two devices win over one: training steps of the demo model, without its data pipeline.

    python benchmarks/scaling.py

Two simulated devices (on a CPU, one core each; on a machine with a GPU, two halves of its card) against one:
on a CPU that one is pinned to one core. Every way runs in a process of its own, with the same batches; they
take turns, so that each pair sees the same machine. Strong scaling keeps the batch, weak scaling the batch
of each device.
"""

from __future__ import annotations

import os

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"

import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from common import seconds, show

RUNS, NUM_BATCHES = 3, 24
WAYS = ("single", "parallel-model", "mirrored")


def main() -> None:
    for title, factor in (
        ("strong scaling: the demo's batch", 1),
        ("weak scaling: a batch on each device", 2),
    ):
        batch_s = {way: 30.0 * (factor if way != "single" else 1) for way in WAYS}
        workers = {way: Worker(way, batch_s[way]) for way in WAYS}
        for worker in workers.values():
            worker.run()
        rounds = [{way: worker.run() for way, worker in workers.items()} for _ in range(RUNS)]
        for worker in workers.values():
            worker.close()

        def ratio(one: str, other: str, rounds=rounds) -> str:
            return f"{statistics.median(r[one] / r[other] for r in rounds):.2f}"

        rows = {
            way: f"{statistics.median(r[way] for r in rounds):6.0f} s of audio per second" for way in WAYS
        }
        show(
            f"two devices, {title}",
            {
                **rows,
                "parallel-model to single": ratio("parallel-model", "single"),
                "parallel-model to mirrored": ratio("parallel-model", "mirrored"),
            },
        )


class Worker:
    """A process that trains when told, and tells its seconds of audio per second."""

    def __init__(self, way: str, batch_s: float) -> None:
        command = [sys.executable, __file__, way, str(batch_s)]
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


def work(way: str, batch_s: float) -> None:
    """What a worker does."""
    import tensorflow as tf

    from multigpu.devices import parse_devices, simulate_devices
    from multigpu.engines import make_engine

    if way != "single":
        simulate_devices(2)
    elif not tf.config.list_physical_devices("GPU"):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
        tf.config.threading.set_intra_op_parallelism_threads(1)
        tf.config.threading.set_inter_op_parallelism_threads(1)
    trainer, plan, batches = trainer_and_batches(
        make_engine(way, parse_devices(1 if way == "single" else 2)), batch_s
    )
    audio_s = sum(float(tf.reduce_sum(batch.num_samples)) for batch in batches) / 16000

    def epoch() -> None:
        for places, batch in zip(plan, batches, strict=True):
            float(trainer.train_step(batch, len(places)).loss)

    for _ in sys.stdin:
        print(json.dumps(audio_s / seconds(epoch)), flush=True)


def trainer_and_batches(engine, batch_s):
    from asr.acoustic import make_acoustic_model
    from asr.config import find_config, load_config
    from asr.run import Run
    from asr.trainer import Trainer
    from asr.vocabulary import Vocabulary
    from data_pipeline.corpora import prepare_corpus
    from data_pipeline.dataset import Dataset
    from data_pipeline.manifest import read_manifest

    config = load_config(find_config("demo"), [f"train.batch_s={batch_s}"])
    utterances = read_manifest(prepare_corpus("mandarin_demo", "", Path("data/mandarin_demo"))["train"])
    vocabulary = Vocabulary.of_utterances(utterances)
    data = Dataset(utterances, vocabulary, batch_s)
    with engine.scope():
        model = make_acoustic_model(config, vocabulary)
    run = Run(Path(tempfile.mkdtemp()))
    trainer = Trainer(engine, model, config, vocabulary, data, data, run)
    plan, batches = data.epoch(0, 1, config.augment, model.fits)
    batches = [batch for batch, _ in zip(batches, range(NUM_BATCHES), strict=False)]
    return trainer, plan[:NUM_BATCHES], batches


if __name__ == "__main__":
    if len(sys.argv) == 3:
        work(sys.argv[1], float(sys.argv[2]))
    else:
        main()

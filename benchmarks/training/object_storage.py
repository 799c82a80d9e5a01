"""Measures training from packs in object storage: the share of the time that training waits for batches.

    python -m benchmarks.training.object_storage [--latency-ms 50] [--config demo] [--epochs 3] [--copies 5]

A server in a process of its own answers as S3 does, each request after the latency. The peer is the same
training on the same packs on the disk, in turn; nothing is kept in memory from one epoch to the next. The
requests that the server has counted are those of an epoch. The demo's training set, 54 minutes, is packed
several times: each epoch waits for its first batch, which in an epoch of ten seconds is some per cent.
"""

from __future__ import annotations

import os

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"

import argparse
import contextlib
import dataclasses
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Sequence
from pathlib import Path

from asr.base.config import Config, load_config
from asr.base.system.storage.address import path_of
from asr.base.types import Utterance
from asr.base.vocabulary import Vocabulary
from asr.model.acoustic_model import make_acoustic_model
from asr.model.devices import ONE_DEVICE
from asr.runs.progress import Progress
from asr.runs.run import Run
from asr.training.engine import start_engine
from asr.training.trainer import Trainer, TrainingSetup
from benchmarks.common import show
from data_pipeline.augment.augmenter import Augmenter
from data_pipeline.batches.dataset import Dataset
from data_pipeline.batches.decoded_recordings import DecodedRecordings
from data_pipeline.batches.pack import pack_manifest
from data_pipeline.manifests.manifest import read_manifest, write_manifest
from data_pipeline.preparation.prepare import prepare_corpus

BUCKET = "packs"
SHARD_BYTES = 16 << 20


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--latency-ms", type=float, default=50.0)
    parser.add_argument("--config", default="demo")
    parser.add_argument("--epochs", type=int, default=3, help="from each place, after one that compiles")
    parser.add_argument("--copies", type=int, default=5, help="of the training set")
    arguments = parser.parse_args()
    corpus = prepare_corpus("mandarin_demo", "", Path("data/mandarin_demo"))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        manifest = folder / "train.jsonl"
        write_manifest(manifest, copied(read_manifest(corpus.manifests["train"]), arguments.copies))
        packed = pack_manifest(manifest, folder / BUCKET, SHARD_BYTES)
        with served(folder, arguments.latency_ms) as server:
            manifests = {
                "disk": packed.manifest,
                "object storage": path_of(f"s3://{BUCKET}/{packed.manifest.name}"),
            }
            late = f"{arguments.latency_ms:g} ms before each answer"
            show(f"reading packs, {late}", read_in_turn(manifests, arguments.config, arguments.epochs))
            rows = compared(manifests, arguments.config, arguments.epochs, folder, server)
            show(f"training {arguments.config} from packs, {late}", rows)


def copied(utterances: Sequence[Utterance], copies: int) -> Iterator[Utterance]:
    """Yield utterances several times, with ids of their own."""
    for copy in range(copies):
        for one in utterances:
            yield dataclasses.replace(
                one, id=f"{one.id}-{copy}", audio_path=str(Path(one.audio_path).resolve())
            )


def compared(manifests: dict[str, Path], name: str, epochs: int, folder: Path, server: str) -> dict[str, str]:
    """Train epochs from each place in turn; return each one's share of waiting, and its speed."""
    trainers = {
        where: trainer_on(path, name, folder / f"run-{len(where)}") for where, path in manifests.items()
    }
    shares: dict[str, list[float]] = {where: [] for where in trainers}
    seconds: dict[str, list[float]] = {where: [] for where in trainers}
    asked: list[int] = []
    for number in range(epochs + 1):  # the first one compiles
        for where, trainer in trainers.items():
            trainer.progress = Progress()
            before, began_s = num_requests(server), time.perf_counter()
            trainer.train_epoch()
            took_s, epoch = time.perf_counter() - began_s, trainer.progress.epoch
            if number:
                shares[where].append(epoch.waiting_s / epoch.train_s)
                seconds[where].append(took_s)
                asked += [num_requests(server) - before] * (where != "disk")
    duration_s = next(iter(trainers.values())).train_data.duration_s
    rows = {
        where: f"{statistics.median(shares[where]):.2%} of the time waiting, "
        f"{duration_s / statistics.median(seconds[where]):,.0f} s of audio per second"
        for where in trainers
    }
    clips = len(next(iter(trainers.values())).train_data.utterances)
    return rows | {"requests": f"{statistics.median(asked):,.0f} for {clips:,} clips of an epoch"}


def read_in_turn(manifests: dict[str, Path], name: str, epochs: int) -> dict[str, str]:
    """Read epochs without training on them, from each place in turn; return the speed of each."""
    seconds: dict[str, list[float]] = {where: [] for where in manifests}
    duration_s = 0.0
    for number in range(epochs):
        for where, manifest in manifests.items():
            data = dataset_of(manifest, load_config(name))
            duration_s, began_s = data.duration_s, time.perf_counter()
            for _ in data.epoch(number, 1, lambda num_samples, labels: True)[1]:
                pass
            seconds[where].append(time.perf_counter() - began_s)
    return {
        where: f"{duration_s / statistics.median(taken):,.0f} s of audio per second"
        for where, taken in seconds.items()
    }


def dataset_of(manifest: Path, config: Config) -> Dataset:
    utterances = read_manifest(manifest)
    vocabulary = Vocabulary.of_utterances(utterances)
    augmenter = Augmenter.load(config.augment, config.train.seed)
    kept = DecodedRecordings(limit=0)
    return Dataset(utterances, vocabulary, config.train.batch_s, augmenter, recordings=kept)


def trainer_on(manifest: Path, name: str, run: Path) -> Trainer:
    config = load_config(name)
    data = dataset_of(manifest, config)
    vocabulary = data.vocabulary
    engine = start_engine(ONE_DEVICE, config.train.cpu_towers)
    with engine.scope():
        model = make_acoustic_model(config, vocabulary)
    setup = TrainingSetup(config, vocabulary, model, data, dataclasses.replace(data))
    return Trainer(engine, setup, Run.create(run, config, vocabulary))


@contextlib.contextmanager
def served(folder: Path, latency_ms: float) -> Iterator[str]:
    """Serve the folders below a folder as buckets, and set the environment for it."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "benchmarks.training.object_server", str(folder), str(port)]
    process = subprocess.Popen([*command, str(latency_ms)])
    address = f"http://127.0.0.1:{port}"
    try:
        while True:
            with contextlib.suppress(OSError):
                num_requests(address)
                break
            assert process.poll() is None
            time.sleep(0.2)
        keys = {"AWS_ACCESS_KEY_ID": "x", "AWS_SECRET_ACCESS_KEY": "x", "AWS_DEFAULT_REGION": "us-east-1"}
        os.environ.update(keys, AWS_ENDPOINT_URL=address)
        yield address
    finally:
        process.kill()


def num_requests(server: str) -> int:
    with urllib.request.urlopen(f"{server}/requests") as answer:
        return int(answer.read())


if __name__ == "__main__":
    main()

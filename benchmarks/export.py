"""Measure an exported model against the trained one: `python benchmarks/export.py RUN`.

Each is run in turn on the same clips of the run's test set, one by one and in batches, on all cores:
TensorFlow by the graph that `asr transcribe` runs, and ONNX Runtime by the exported one. Then it measures
the time from the start of `recognize.py` to the first transcript, and the logits of every network family.
"""

from __future__ import annotations

import argparse
import functools
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from asr.audio.recording import pad_waveforms, read_audio
from asr.base.config import load_config
from asr.base.registry import NETWORKS
from asr.evaluation.data import evaluation_data
from asr.export import export
from asr.export.comparison import largest_difference
from asr.export.onnx.model import onnx_model
from asr.export.onnx.runtime import OnnxRuntime
from asr.model.acoustic_model import AcousticModel, make_acoustic_model
from asr.recognition.recognizer import Recognizer
from asr.runs.run import Run

ROUNDS, BATCH, STARTS = 5, 32, 5
FAMILY_CLIPS = 200


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run", type=Path)
    parser.add_argument("--family-clips", type=int, default=FAMILY_CLIPS)
    arguments = parser.parse_args()
    run = Run.open(arguments.run)
    manifest = Path(run.config().data.test)
    data, _ = evaluation_data(manifest, run.vocabulary())
    paths = [utterance.audio_path for utterance in data.utterances]
    waveforms = [read_audio(path) for path in paths]
    with tempfile.TemporaryDirectory() as temporary:
        folder, small = Path(temporary) / "out", Path(temporary) / "small"
        exported = export(run.directory, folder)
        quantized = export(run.directory, small, quantize="int8")
        for name, made in (("float32", exported), ("int8", quantized)):
            parity = made.parity
            print(
                f"{name}: {parity.size_bytes:,} bytes, errors {parity.exported.rate:.2%} (trained "
                f"{parity.trained.rate:.2%}), largest logit difference {parity.max_logit_difference:.2g}, "
                f"same tokens in {parity.num_same_tokens} of {parity.num_clips} clips"
            )
        compare_speed(run.directory, folder, waveforms)
        compare_speed(run.directory, small, waveforms, "int8")
        start_script(folder, paths[0])
    compare_families(waveforms[: arguments.family_clips], run)


def compare_speed(run: Path, folder: Path, waveforms: list[Any], name: str = "float32") -> None:
    """Print the times of both runtimes, one clip at a time and in batches."""
    recognizer, runtime = Recognizer.load(run, write_hanzi=False), OnnxRuntime(folder)
    logits_of = recognizer.listener.compiled(lambda logits: logits)

    def by_tensorflow(clips: list[Any]) -> None:
        logits_of(*pad_waveforms(clips))[0].numpy()

    for size in (1, BATCH):
        by_length = sorted(waveforms, key=len)
        batches = [by_length[begin : begin + size] for begin in range(0, len(by_length), size)]
        audio_s = sum(map(len, waveforms)) / 16000
        times: dict[str, list[float]] = {"TensorFlow": [], "ONNX Runtime": []}
        for _ in range(ROUNDS):
            for who, run_batch in (("TensorFlow", by_tensorflow), ("ONNX Runtime", runtime.run)):
                times[who].append(seconds(functools.partial(run_all, run_batch, batches)))
        ratio = statistics.median(
            a / b for a, b in zip(times["TensorFlow"], times["ONNX Runtime"], strict=True)
        )
        speeds = ", ".join(f"{who} {audio_s / statistics.median(s):,.0f}" for who, s in times.items())
        print(f"{name}, clips at a time {size}: times real time: {speeds}; ratio {ratio:.2f}", flush=True)


def run_all(run_batch: Callable[[list[Any]], object], batches: list[list[Any]]) -> None:
    for batch in batches:
        run_batch(batch)


def start_script(folder: Path, path: str) -> None:
    """Print how long recognize.py takes for one short clip, the start of Python included."""
    command = [sys.executable, str(folder / "recognize.py"), path]
    times = [seconds(lambda: subprocess.run(command, check=True, capture_output=True)) for _ in range(STARTS)]
    print(f"recognize.py, from start to transcript: {statistics.median(times):.2f} s (of {STARTS} runs)")


def compare_families(waveforms: list[Any], run: Run) -> None:
    """Print how the logits of every family compare, with random weights and batch statistics."""
    vocabulary = run.vocabulary()
    for family in NETWORKS:
        kind = "log_mel" if family == "separable" else "spectrogram"
        overrides = [f'model.family="{family}"', f'features.kind="{kind}"']
        model = with_random_statistics(
            make_acoustic_model(load_config("base", overrides=overrides), vocabulary)
        )
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "model.onnx"
            path.write_bytes(onnx_model(model, len(vocabulary)).SerializeToString())
            runtime = OnnxRuntime(Path(folder))
            pairs = [
                (np.asarray(model(*pad_waveforms([clip]))[0])[0], runtime.run([clip])[0].logits)
                for clip in waveforms
            ]
        difference = max(largest_difference(a, b) for a, b in pairs if b is not None)
        same = sum(np.array_equal(a.argmax(1), b.argmax(1)) for a, b in pairs if b is not None)
        print(f"{family}: largest logit difference {difference:.2g}, same frames in {same} of {len(pairs)}")


def with_random_statistics(model: AcousticModel) -> AcousticModel:
    """Return a model whose batch normalisation does not leave its inputs as they are."""
    rng = np.random.default_rng(0)
    for weight in model.weights:
        name = weight.path.rpartition("/")[2]
        if name in ("gamma", "moving_variance"):
            weight.assign(rng.uniform(0.5, 1.5, weight.shape))
        elif name in ("beta", "moving_mean"):
            weight.assign(rng.normal(size=weight.shape) * 0.3)
    return model


def seconds(function: Callable[[], object]) -> float:
    began = time.perf_counter()
    function()
    return time.perf_counter() - began


if __name__ == "__main__":
    main()

"""Measure exported models against the trained one: `python -m benchmarks.speed.export RUN`.

First the run is exported in each format, and compared with the trained model on its whole test set. Then
TensorFlow, by the graph that `asr transcribe` runs, and ONNX Runtime, by the exported one, transcribe the
same clips in turn, one by one and in batches, on all cores. At last, the logits of every network family and
every kind of features are compared in each format. `--only` chooses among the three.
"""

from __future__ import annotations

import argparse
import functools
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from asr.audio.recording import pad_waveforms, read_audio
from asr.base.config import load_config
from asr.base.registry import FEATURE_KINDS, NETWORKS
from asr.base.vocabulary import Vocabulary
from asr.ctc.greedy import collapse
from asr.evaluation.data import evaluation_data
from asr.export import export
from asr.export.comparison import largest_difference
from asr.export.format import Runtime
from asr.export.runtimes.litert.model import litert_model
from asr.export.runtimes.litert.runtime import LiteRtRuntime
from asr.export.runtimes.onnx.runtime import OnnxRuntime
from asr.export.runtimes.saved_model.runtime import VERSION, SavedModelRuntime
from asr.export.runtimes.saved_model.signatures import ServedModel
from asr.export.serving_graph import save_with_signatures
from asr.model.acoustic_model import AcousticModel, make_acoustic_model
from asr.model.onnx.model import onnx_model
from asr.runs.run import Run
from asr.transcription.recognizer import Recognizer

ROUNDS, BATCH = 5, 32
FAMILY_CLIPS = 200
EXPORTS = (("onnx", ""), ("onnx", "int8"), ("litert", ""), ("litert", "int8"), ("saved_model", ""))


class Model(NamedTuple):
    """A model whose logits are compared; settings left out are those of the project."""

    family: str
    kind: str
    size: str = ""
    chunk_s: float = 0.0

    @property
    def overrides(self) -> list[str]:
        size = [f'model.size="{self.size}"'] if self.size else []
        chunks = [f"model.chunk_s={self.chunk_s}", "features.normalize=false"] if self.chunk_s else []
        return [f'model.family="{self.family}"', f'features.kind="{self.kind}"', *size, *chunks]

    def __str__(self) -> str:
        chunks = f" in chunks of {self.chunk_s} s" if self.chunk_s else ""
        return f"{self.family}{self.size and '-'}{self.size}{chunks}, {self.kind}"


# every family with every kind of features
MODELS = [
    *(
        Model(family, kind, "xs" if family == "conformer" else "")
        for family in NETWORKS
        for kind in FEATURE_KINDS
    ),
    Model("separable", "log_mel", "m"),
    Model("conformer", "log_mel", "m"),
    Model("conformer", "log_mel", "l"),
    Model("conformer", "fbank", "xs", chunk_s=0.64),
]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run", type=Path)
    parser.add_argument("--only", choices=["formats", "speed", "families"])
    parser.add_argument("--family-clips", type=int, default=FAMILY_CLIPS)
    parser.add_argument("--family", choices=list(NETWORKS), help="with --only families, this one alone")
    arguments = parser.parse_args()
    run = Run.open(arguments.run)
    data, _ = evaluation_data(Path(run.config().data.test), run.vocabulary())
    waveforms = [read_audio(utterance.audio_path) for utterance in data.utterances]
    if arguments.only in (None, "formats"):
        compare_formats(run.directory)
    if arguments.only in (None, "speed"):
        compare_speed(run.directory, waveforms)
        compare_speed(run.directory, waveforms, "int8")
    if arguments.only in (None, "families"):
        models = [model for model in MODELS if arguments.family in (None, model.family)]
        compare_families(models, waveforms[: arguments.family_clips], run.vocabulary())


def compare_formats(run: Path) -> None:
    """Print how the run's model compares with what was exported of it."""
    sizes: dict[str, int] = {}
    for name, quantize in EXPORTS:
        with tempfile.TemporaryDirectory() as temporary:
            parity = export(run, Path(temporary) / "out", name, quantize=quantize).parity
        smaller = f" ({sizes[name] / parity.size_bytes:.2f} times smaller)" if quantize else ""
        sizes.setdefault(name, parity.size_bytes)
        print(
            f"{name} {quantize or 'float32'}: {parity.size_bytes:,} bytes{smaller}, errors "
            f"{parity.exported.rate:.2%} (trained {parity.trained.rate:.2%}), largest logit difference "
            f"{parity.max_logit_difference:.2g}, same tokens in {parity.num_same_tokens} of "
            f"{parity.num_clips} clips, {1000 * parity.real_time_factor:.2f} ms for a second of audio",
            flush=True,
        )


def compare_speed(run: Path, waveforms: list[Any], quantize: str = "") -> None:
    """Print the times of both runtimes, one clip at a time and in batches."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary) / "out"
        export(run, folder, quantize=quantize, clips=1)
        runtime = OnnxRuntime(folder)
    recognizer = Recognizer.trained(Run.open(run))
    logits_of = recognizer.runner.compiled(lambda logits: logits)
    name = quantize or "float32"

    def by_graph(clips: list[Any]) -> None:
        logits_of(*pad_waveforms(clips))[0].numpy()

    for size in (1, BATCH):
        by_length = sorted(waveforms, key=len)
        batches = [by_length[begin : begin + size] for begin in range(0, len(by_length), size)]
        audio_s = sum(map(len, waveforms)) / 16000
        times: dict[str, list[float]] = {"TensorFlow": [], "ONNX Runtime": []}
        for _ in range(ROUNDS):
            for who, run_batch in (("TensorFlow", by_graph), ("ONNX Runtime", runtime.run)):
                times[who].append(seconds(functools.partial(run_all, run_batch, batches)))
        ratio = statistics.median(
            a / b for a, b in zip(times["TensorFlow"], times["ONNX Runtime"], strict=True)
        )
        speeds = ", ".join(f"{who} {audio_s / statistics.median(s):,.0f}" for who, s in times.items())
        print(f"{name}, clips at a time {size}: times real time: {speeds}; ratio {ratio:.2f}", flush=True)


def run_all(run_batch: Callable[[list[Any]], object], batches: list[list[Any]]) -> None:
    for batch in batches:
        run_batch(batch)


def compare_families(models: list[Model], waveforms: list[Any], vocabulary: Vocabulary) -> None:
    """Print how logits compare, with random weights and batch statistics, clip by clip and in batches."""
    batches = [waveforms[begin : begin + BATCH] for begin in range(0, len(waveforms), BATCH)]
    for described in models:
        model = with_random_statistics(
            make_acoustic_model(load_config("base", overrides=described.overrides), vocabulary)
        )
        expected = [np.asarray(model(*pad_waveforms([clip]))[0])[0] for clip in waveforms]
        deviation = np.concatenate(expected).std()
        for name, open_runtime in RUNTIMES.items():
            with tempfile.TemporaryDirectory() as folder:
                runtime = open_runtime(model, vocabulary, Path(folder))
                alone = [runtime.run([clip])[0].logits for clip in waveforms]
                together = [outputs.logits for batch in batches for outputs in runtime.run(batch)]
            received = list(zip(alone, together, strict=True))
            clips = list(zip(expected, received, strict=True))
            difference = max(largest_difference(a, b) for a, both in clips for b in both)
            same = sum(all(greedy(a) == greedy(b) for b in both) for a, both in clips)
            print(
                f"{described}, {name}: largest logit difference {difference:.2g} "
                f"(standard deviation {deviation:.2g}), same tokens in {same} of {len(waveforms)} clips",
                flush=True,
            )


def greedy(logits: Any) -> list[int]:
    return list(collapse(np.argmax(logits, axis=-1))[0])


def by_onnx(model: AcousticModel, vocabulary: Vocabulary, folder: Path) -> Runtime:
    (folder / "model.onnx").write_bytes(onnx_model(model, len(vocabulary)).SerializeToString())
    return OnnxRuntime(folder)


def by_litert(model: AcousticModel, vocabulary: Vocabulary, folder: Path) -> Runtime:
    (folder / "model.tflite").write_bytes(litert_model(model))
    return LiteRtRuntime(folder)


def by_tensorflow(model: AcousticModel, vocabulary: Vocabulary, folder: Path) -> Runtime:
    served = ServedModel(model, vocabulary)
    save_with_signatures(served, folder / VERSION, served.signatures())
    return SavedModelRuntime(folder)


RUNTIMES = {"onnx": by_onnx, "litert": by_litert, "saved_model": by_tensorflow}


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

"""Measures what silence around speech, and pauses within it, do to the error rate of a run and its exports.

    python -m benchmarks.accuracy.silence runs/demo data/mandarin_demo/test.jsonl
    python -m benchmarks.accuracy.silence runs/demo data/mandarin_demo/test.jsonl \
        --exported demo-onnx demo-sherpa

Columns: `asr transcribe`, which cuts long recordings at their pauses; clips as they are, as in batches of the
server; streams; and each exported folder by its own runtime. Rows: silence before and after each clip, in
seconds, of zeros or coloured noise at a level below full scale; and neighbours joined by a pause.
"""

from __future__ import annotations

import argparse
import io
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple, TypeAlias

import numpy as np
import soundfile
from rapidfuzz.distance import Levenshtein

from asr import Recognizer
from asr.audio.recording import SAMPLE_RATE_HZ, Waveform, read_audio, to_int16
from asr.base.decoder_settings import DecoderSettings
from asr.base.registry import EXPORT_FORMATS, load_part
from asr.base.vocabulary import Vocabulary
from asr.runs.run import Run
from asr.transcription.clips import ClipRecognizer
from benchmarks.common import show
from data_pipeline.augment.noise import ColouredNoises
from data_pipeline.manifests.manifest import read_manifest

Tokens: TypeAlias = "tuple[str, ...]"
Recognize: TypeAlias = Callable[[Waveform], Tokens]


class Case(NamedTuple):
    """Silence around a clip, or between two clips; a level of None stands for zeros."""

    before_s: float
    after_s: float
    level_dbfs: float | None = None
    between: bool = False

    def __str__(self) -> str:
        level = "zeros" if self.level_dbfs is None else f"noise of {self.level_dbfs:g} dBFS"
        if self.between:
            return f"two clips, {self.before_s:g} s of {level} between"
        if not (self.before_s or self.after_s):
            return "none"
        return f"{self.before_s:g} s before, {self.after_s:g} s after, {level}"


CASES = (
    Case(0, 0),
    *(Case(0, after_s) for after_s in (0.3, 0.8, 3, 10)),
    *(Case(10, 0), Case(0.8, 0.8), Case(3, 3)),
    *(Case(1, 1, level) for level in (-90, -75, -60, -50)),
    *(Case(3, 3, -60), Case(3, 3, -50), Case(10, 0, -50), Case(0, 10, -50)),
    *(Case(pause_s, 0, level, True) for pause_s in (0.3, 0.8, 1.5, 3) for level in (None, -60)),
)


def main() -> None:
    arguments = parse_arguments()
    utterances = list(read_manifest(arguments.manifest))[: arguments.clips]
    clips = [read_audio(utterance.audio_path) for utterance in utterances]
    references = [utterance.tokens for utterance in utterances]
    vocabulary = Run(arguments.run).vocabulary()
    paths = recognizers(arguments.run) | dict(exported(path, vocabulary) for path in arguments.exported)
    rows = {"silence": "  ".join(f"{name:>12}" for name in paths)}
    for case in CASES:
        waveforms, expected = made(case, clips, references)
        rates = [error_rate(expected, list(map(recognize, waveforms))) for recognize in paths.values()]
        rows[str(case)] = "  ".join(f"{rate:12.2%}" for rate in rates)
        print(f"{case}: {rows[str(case)]}", flush=True)
    show(f"errors of {arguments.run} in {len(clips)} clips of {arguments.manifest}", rows)


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="What silence around speech does to the error rate.")
    parser.add_argument("run", type=Path)
    parser.add_argument("manifest", type=Path)
    parser.add_argument("--exported", type=Path, nargs="+", default=[], metavar="FOLDER")
    parser.add_argument("--clips", type=int, help="use this many of the clips")
    return parser.parse_args()


def made(
    case: Case, clips: Sequence[Waveform], references: Sequence[Tokens]
) -> tuple[list[Waveform], list[Tokens]]:
    """Return the recordings of a case and what is said in them; the noise is the same in every call."""
    rng = np.random.default_rng(1)
    if case.between:
        pairs = range(0, len(clips) - 1, 2)
        pauses = (silence(case.before_s, case.level_dbfs, rng) for _ in pairs)
        joined = [
            np.concatenate([clips[i], pause, clips[i + 1]]) for i, pause in zip(pairs, pauses, strict=True)
        ]
        return joined, [(*references[i], *references[i + 1]) for i in pairs]
    ends = ([silence(s, case.level_dbfs, rng) for s in (case.before_s, case.after_s)] for _ in clips)
    around = [np.concatenate([a, clip, b]) for clip, (a, b) in zip(clips, ends, strict=True)]
    return around, list(references)


def silence(duration_s: float, level_dbfs: float | None, rng: np.random.Generator) -> Waveform:
    num_samples = round(duration_s * SAMPLE_RATE_HZ)
    if level_dbfs is None or not num_samples:
        return np.zeros(num_samples, np.int16)
    noise, _ = ColouredNoises().draw(rng, num_samples)
    return to_int16(noise / np.sqrt(np.mean(np.square(noise))) * (32768 * 10 ** (level_dbfs / 20)))


def recognizers(run: Path) -> dict[str, Recognize]:
    """Return the ways in which a run recognizes, each greedily."""
    recognizer = Recognizer.load(run, settings=DecoderSettings(), write_hanzi=False)
    clips = ClipRecognizer(recognizer.runner, recognizer.decoder)

    def transcribe(waveform: Waveform) -> Tokens:
        file = io.BytesIO()
        soundfile.write(file, waveform, SAMPLE_RATE_HZ, format="WAV", subtype="PCM_16")
        file.seek(0)
        return recognizer.transcribe(file).tokens

    def whole(waveform: Waveform) -> Tokens:
        return clips.segments([waveform])[0].tokens

    def stream(waveform: Waveform) -> Tokens:
        stream = recognizer.stream()
        segments = [
            segment
            for begin in range(0, len(waveform), 3200)
            for segment in stream.feed(waveform[begin : begin + 3200]).segments
        ]
        return tuple(token for s in (*segments, *stream.finish()) for token in s.tokens)

    return {"transcribe": transcribe, "whole": whole, "stream": stream}


def exported(folder: Path, vocabulary: Vocabulary) -> tuple[str, Recognize]:
    """Return the name of an exported folder's format, and how it recognizes a whole clip."""
    about = json.loads((folder / "model.json").read_text("utf-8"))
    runtime = load_part({"runtime": load_part(EXPORT_FORMATS, about["format"]).runtime}, "runtime")(folder)

    def recognize(waveform: Waveform) -> Tokens:
        (outputs,) = runtime.run([waveform])
        if outputs.tokens is not None:
            return tuple(outputs.tokens)
        ids = outputs.logits.argmax(axis=1)
        starts = ids[np.flatnonzero(np.diff(ids, prepend=0))]
        return vocabulary.decode([int(token) for token in starts if token])

    return about["format"], recognize


def error_rate(expected: Sequence[Tokens], found: Sequence[Tokens]) -> float:
    errors = sum(Levenshtein.distance(e, f) for e, f in zip(expected, found, strict=True))
    return errors / sum(map(len, expected))


if __name__ == "__main__":
    main()

"""Measures transcription of the demo's test set in batches and one file after the other, without start-up.

python train.py && python -m benchmarks.speed.transcribe [runs/demo]
"""

from __future__ import annotations

import os

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"

import sys
from pathlib import Path

from asr.transcription.recognizer import Recognizer
from benchmarks.common import compare, show
from data_pipeline.manifests.manifest import read_manifest


def main() -> None:
    recognizer = Recognizer.load(sys.argv[1] if len(sys.argv) > 1 else "runs/demo")
    utterances = read_manifest(Path("data/mandarin_demo/test.jsonl"))
    audio_s = sum(utterance.duration_s for utterance in utterances)
    paths = [Path(utterance.audio_path) for utterance in utterances]

    batched_s, single_s, ratio = compare(
        lambda: list(recognizer.transcribe_files(paths)),
        lambda: [recognizer.transcribe(path) for path in paths],
        runs=7,
    )
    show(
        f"transcribing {len(paths)} files, {audio_s / 60:.1f} minutes",
        {
            "transcribe_files": f"{audio_s / batched_s:6.0f} times real time",
            "transcribe, one by one": f"{audio_s / single_s:6.0f} times real time",
            "ratio": f"{ratio:.2f}",
        },
    )


if __name__ == "__main__":
    main()

"""Measures the preparation of a corpus of 100,000 recordings: transcripts, labels, headers, manifests.

    python -m benchmarks.speed.prepare

The corpus has AISHELL-1's layout, with hard links to a hundred of the demo's recordings. The peer only reads
the same headers with soundfile and calls pypinyin for each sentence, one by one.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

import soundfile
from pypinyin import Style, lazy_pinyin

from benchmarks.common import seconds, show
from data_pipeline.manifests.manifest import read_manifest
from data_pipeline.preparation.prepare import prepare_corpus

NUM = 100_000
NUM_SPEAKERS = 400


def main() -> None:
    demo = read_manifest(prepare_corpus("mandarin_demo", "", Path("data/mandarin_demo")).manifests["train"])[
        :100
    ]
    with tempfile.TemporaryDirectory(dir=Path("data")) as folder:
        source = Path(folder) / "data_aishell"
        files = build(source, demo)
        print(f"{NUM:,} recordings created")
        command = [sys.executable, "-m", __spec__.name, str(source), str(Path(folder) / "out")]
        ours_s = seconds(lambda: subprocess.run(command, check=True, stdout=subprocess.DEVNULL))
        peak_mb = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
        texts = [demo[number % len(demo)].text for number in range(NUM)]
        peer_s = seconds(lambda: by_libraries(files, texts))
    show(
        f"preparing {NUM:,} recordings",
        {
            "asr prepare": f"{ours_s:6.1f} s, {peak_mb:.0f} MB at most",
            "soundfile and pypinyin": f"{peer_s:6.1f} s",
            "ratio": f"{peer_s / ours_s:.2f}",
        },
    )


def build(source: Path, clips) -> list[Path]:
    """Write a corpus in the layout of AISHELL-1, and return its audio files."""
    files = []
    lines = []
    for number in range(NUM):
        speaker = f"S{number % NUM_SPEAKERS:04d}"
        split = "test" if number % NUM_SPEAKERS < 20 else "dev" if number % NUM_SPEAKERS < 40 else "train"
        folder = source / "wav" / split / speaker
        if number < NUM_SPEAKERS:
            folder.mkdir(parents=True)
        name = f"BAC009{speaker}W{number:06d}"
        os.link(clips[number % len(clips)].audio_path, folder / f"{name}.wav")
        files.append(folder / f"{name}.wav")
        lines.append(f"{name} {clips[number % len(clips)].text}\n")
    (source / "transcript").mkdir()
    (source / "transcript" / "aishell_transcript_v0.8.txt").write_text("".join(lines), encoding="utf-8")
    return files


def by_libraries(files: list[Path], texts: list[str]) -> list[tuple[float, list[str]]]:
    return [
        (
            soundfile.info(str(path)).duration,
            lazy_pinyin(text, style=Style.TONE3, neutral_tone_with_five=True),
        )
        for path, text in zip(files, texts, strict=True)
    ]


if __name__ == "__main__":
    if len(sys.argv) == 3:
        prepare_corpus("aishell1", sys.argv[1], Path(sys.argv[2]))
    else:
        main()

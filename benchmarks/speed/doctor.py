"""Measures `asr doctor` on 10,000 short WAV files: the whole command with start-up, page and summary.

    python -m benchmarks.speed.doctor

The peer is a loop over soundfile in one thread that takes the same measurements of the same audio, without
comparisons. Both read from the page cache.
"""

from __future__ import annotations

import dataclasses
import json
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

import soundfile

from asr.audio.recording import SAMPLE_RATE_HZ, AudioHeader, read_audio, write_wav
from benchmarks.common import seconds, show
from data_pipeline.doctor.checkup import measure
from data_pipeline.manifests.manifest import read_manifest, write_manifest
from data_pipeline.preparation.prepare import prepare_corpus

NUM_FILES = 10_000
NUM_UTTERANCES = 100_000  # shows how memory grows
CUT_SAMPLES = 160  # cut from the start of a clip each time it is reused, so that no two files are equal


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        manifest, large = make_files(folder)
        utterances = read_manifest(manifest)
        paths = [utterance.audio_path for utterance in utterances]
        loop(paths)  # fills the page cache
        pairs = [(seconds(lambda: doctor(manifest, folder)), seconds(lambda: loop(paths))) for _ in range(3)]
        ours_s, peer_s = (sorted(column)[1] for column in zip(*pairs, strict=True))
        small_mb = peak_mb()
        large_s = seconds(lambda: doctor(large, folder))
        show(
            f"asr doctor on {NUM_FILES:,} WAV files, {sum(u.duration_s for u in utterances) / 3600:.1f} h",
            {
                "asr doctor": f"{ours_s:6.1f} s, at most {small_mb:.0f} MB in a process",
                "loop over soundfile": f"{peer_s:6.1f} s",
                "ratio": f"{sorted(b / a for a, b in pairs)[1]:.2f}",
                f"{NUM_UTTERANCES:,} entries": f"{large_s:6.1f} s, at most {peak_mb():.0f} MB in a process",
            },
        )


def make_files(folder: Path) -> tuple[Path, Path]:
    """Write the files, a manifest of them, and a larger manifest that names each of them several times."""
    corpus = prepare_corpus("mandarin_demo", "", Path("data/mandarin_demo")).manifests
    clips = [clip for split in ("train", "dev", "test") for clip in read_manifest(corpus[split])]
    utterances = []
    for number in range(NUM_FILES):
        clip = clips[number % len(clips)]
        path = folder / "audio" / f"{number}.wav"
        path.parent.mkdir(exist_ok=True)
        waveform = read_audio(clip.audio_path)[number // len(clips) * CUT_SAMPLES :]
        write_wav(path, waveform)
        duration_s = len(waveform) / SAMPLE_RATE_HZ
        utterances.append(
            dataclasses.replace(clip, id=str(number), audio_path=str(path), duration_s=duration_s)
        )
    write_manifest(folder / "train.jsonl", utterances)
    again = (
        dataclasses.replace(utterances[number % NUM_FILES], id=str(number))
        for number in range(NUM_UTTERANCES)
    )
    write_manifest(folder / "large-train.jsonl", again)
    return folder / "train.jsonl", folder / "large-train.jsonl"


def doctor(manifest: Path, folder: Path) -> None:
    """Run the command in a process of its own."""
    command = [sys.executable, "-m", "asr", "doctor", str(manifest), "--html", str(folder / "doctor.html")]
    subprocess.run(
        [*command, "--json", str(folder / "doctor.json")],
        check=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    report = json.loads((folder / "doctor.json").read_text(encoding="utf-8"))
    assert report["sound"]


def loop(paths: list[str]) -> None:
    """Take the same measurements of one file after the other."""
    for path in paths:
        info = soundfile.info(path)
        samples, rate_hz = soundfile.read(path, dtype="int16")
        measure(samples, AudioHeader(rate_hz, info.channels, info.duration, info.format))


def peak_mb() -> float:
    """Return the peak memory of the processes started from here, in MB."""
    return resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024


if __name__ == "__main__":
    main()

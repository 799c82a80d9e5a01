"""Corpora of noise: the audio does not matter, the texts do."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from asr.audio.recording import write_wav


def noise_table(folder: Path, splits: Mapping[str, Sequence[str]]) -> Path:
    """Write recordings of noise and the table of their texts, and return its path."""
    folder.mkdir()
    rows = ["path,text,split"]
    rng = np.random.default_rng(0)
    for split, texts in splits.items():
        for number, text in enumerate(texts):
            write_wav(folder / f"{split}{number}.wav", rng.normal(0, 1000, 16000).astype(np.int16))
            rows.append(f"{split}{number}.wav,{text},{split}")
    table = folder / "list.csv"
    table.write_text("\n".join(rows), encoding="utf-8")
    return table

"""Run an exported model by ONNX Runtime."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnxruntime
from typing_extensions import override

from asr.export.format import Outputs, Runtime, Waveform

FILE = "model.onnx"


class OnnxRuntime(Runtime):
    """Runs `model.onnx`, whose inputs and outputs `asr.export.onnx.model.onnx_model` describes.

    Args:
        folder: that holds it.
    """

    takes_batches = True

    def __init__(self, folder: Path) -> None:
        self._session = onnxruntime.InferenceSession(folder / FILE, providers=["CPUExecutionProvider"])

    @override
    def run(self, waveforms: Sequence[Waveform]) -> list[Outputs]:
        num_samples = np.array([len(waveform) for waveform in waveforms], np.int64)
        audio = np.zeros((len(waveforms), num_samples.max()), np.float32)
        for row, waveform in zip(audio, waveforms, strict=True):
            row[: len(waveform)] = waveform / np.float32(32768)
        logits, num_frames = self._session.run(None, {"audio": audio, "num_samples": num_samples})
        return [Outputs(row[:length]) for row, length in zip(logits, num_frames, strict=True)]

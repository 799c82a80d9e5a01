"""Run an exported model by ONNX Runtime."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import onnxruntime
from typing_extensions import override

from asr.audio.recording import pad_waveforms
from asr.base.types import Logits
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
        logits, num_frames = self.run_batch(*pad_waveforms(waveforms))
        return [Outputs(row[:length]) for row, length in zip(logits, num_frames, strict=True)]

    def run_batch(self, audio: Waveform, num_samples: npt.NDArray[np.int32]) -> Logits:
        """Return the logits of a batch.

        Args:
            audio: (B, S) int16 at 16 kHz, padded with zeros.
            num_samples: (B,) the length of each clip.
        """
        scaled = audio * np.float32(1 / 32768)
        inputs = {"audio": scaled, "num_samples": num_samples.astype(np.int64)}
        return Logits(*self._session.run(None, inputs))

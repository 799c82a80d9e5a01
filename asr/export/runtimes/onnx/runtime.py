"""Run an exported model by ONNX Runtime."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from typing_extensions import override

from asr.audio.recording import pad_waveforms
from asr.export.format import Outputs, Runtime, Waveform
from asr.model.onnx_runner import OnnxSession

FILE = "model.onnx"


class OnnxRuntime(Runtime):
    """ONNX Runtime with `model.onnx`.

    Args:
        folder: that holds it.
    """

    takes_batches = True

    def __init__(self, folder: Path) -> None:
        self._session = OnnxSession((folder / FILE).read_bytes())

    @override
    def run(self, waveforms: Sequence[Waveform]) -> list[Outputs]:
        logits, num_frames = self._session.run(*pad_waveforms(waveforms))
        return [Outputs(row[:length]) for row, length in zip(logits, num_frames, strict=True)]

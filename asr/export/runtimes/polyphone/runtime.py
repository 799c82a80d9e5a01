"""Run the contents of a model file as recognition does, by the graph that was made of them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from typing_extensions import override

from asr.audio.recording import pad_waveforms
from asr.export.format import Outputs, Runtime, Waveform
from asr.runs.chosen_model import cpu_runner
from asr.runs.run import Run


class ModelFileRuntime(Runtime):
    """The unpacked model.

    Args:
        folder: that holds it.
    """

    takes_batches = True

    def __init__(self, folder: Path) -> None:
        run = Run(folder)
        runner, _ = cpu_runner(run, run.vocabulary())
        self._logits_of = runner.compiled(lambda logits: logits)

    @override
    def run(self, waveforms: Sequence[Waveform]) -> list[Outputs]:
        values, num_frames = (np.asarray(part) for part in self._logits_of(*pad_waveforms(waveforms)))
        return [Outputs(row[:length]) for row, length in zip(values, num_frames, strict=True)]

"""Run an exported model by LiteRT's interpreter."""

from __future__ import annotations

import itertools
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from ai_edge_litert.interpreter import Interpreter
from typing_extensions import override

from asr.audio.recording import INT16_SCALE
from asr.base.errors import UserError
from asr.export.format import Outputs, Runtime, Waveform
from asr.export.quiet import silent_stderr

FILE = "model.tflite"


class LiteRtRuntime(Runtime):
    """LiteRT with `model.tflite`, whose signatures `asr.export.runtimes.litert.model.litert_model` describes.

    A clip alone is run by the signature for any length. In a batch, the clips are padded to the fixed lengths
    that hold the longest clip, in turn, and run by the signatures for these lengths, or else for any length.

    Args:
        folder: that holds it.

    Raises:
        UserError: LiteRT cannot load the file.
    """

    takes_batches = True

    def __init__(self, folder: Path) -> None:
        path = folder / FILE
        try:
            with silent_stderr():
                interpreter = Interpreter(model_path=str(path), num_threads=os.cpu_count())
                names = interpreter.get_signature_list()
                self._signatures = {name: interpreter.get_signature_runner(name) for name in names}
        except (ValueError, RuntimeError) as error:
            raise UserError(f"{path}: LiteRT cannot load it ({error})") from None
        inputs = {name: runner.get_input_details() for name, runner in self._signatures.items()}
        # the samples that each signature takes, -1 for any number
        sizes = {name: int(of["audio"]["shape_signature"][1]) for name, of in inputs.items()}
        (self._any_length,) = (name for name, size in sizes.items() if size == -1)
        self._fixed = sorted((size, name) for name, size in sizes.items() if size != -1)

    @override
    def run(self, waveforms: Sequence[Waveform]) -> list[Outputs]:
        longest = max(map(len, waveforms))
        holding = [fixed for fixed in self._fixed if fixed[0] >= longest] if len(waveforms) > 1 else []
        in_turn = itertools.cycle(holding or [(longest, self._any_length)])
        return [self._outputs(name, size, waveform) for waveform, (size, name) in zip(waveforms, in_turn)]  # noqa: B905 (endless)

    def _outputs(self, name: str, size: int, waveform: Waveform) -> Outputs:
        audio = np.zeros((1, size), np.float32)
        audio[0, : len(waveform)] = waveform / np.float32(INT16_SCALE)
        outputs: dict[str, Any] = self._signatures[name](
            audio=audio, num_samples=np.array([len(waveform)], np.int32)
        )
        return Outputs(outputs["logits"][0, : outputs["num_frames"][0]])

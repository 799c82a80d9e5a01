"""Run a SavedModel by TensorFlow, on the CPU."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from typing_extensions import override

from asr.audio.recording import pad_waveforms
from asr.base.errors import UserError
from asr.export.format import Outputs, Runtime, Waveform
from asr.model.devices import start_devices

VERSION = "1"  # folder of the model, as TensorFlow Serving counts versions


class SavedModelRuntime(Runtime):
    """TensorFlow with the signature `logits`, see `asr.export.runtimes.saved_model.signatures`.

    Args:
        folder: that holds the version.

    Raises:
        UserError: TensorFlow cannot load it.
    """

    takes_batches = True

    def __init__(self, folder: Path) -> None:
        os.environ["CUDA_VISIBLE_DEVICES"] = "-1"
        start_devices()  # before the import of TensorFlow, to silence its logs
        import tensorflow as tf

        try:
            self._model = tf.saved_model.load(str(folder / VERSION))  # holds the variables
            self._logits = self._model.signatures["logits"]
        except (OSError, ValueError, tf.errors.OpError) as error:
            raise UserError(f"{folder / VERSION}: TensorFlow cannot load it ({error})") from None

    @override
    def run(self, waveforms: Sequence[Waveform]) -> list[Outputs]:
        audio, num_samples = pad_waveforms(waveforms)
        outputs = self._logits(audio=audio, num_samples=num_samples)
        logits, tokens = outputs["logits"].numpy(), outputs["tokens"].numpy()
        return [
            Outputs(
                logits[row, : outputs["num_frames"][row]],
                tuple(token.decode() for token in tokens[row, : outputs["num_tokens"][row]]),
            )
            for row in range(len(waveforms))
        ]

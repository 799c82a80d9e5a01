"""Run a SavedModel by TensorFlow, on the CPU."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import tensorflow as tf
from typing_extensions import override

from asr.audio.recording import pad_waveforms
from asr.base.types import UserError
from asr.export.format import Outputs, Runtime, Waveform

VERSION = "1"  # folder of the model, as TensorFlow Serving counts versions


class SavedModelRuntime(Runtime):
    """Runs the signature `logits`, which `asr.export.saved_model.signatures` describes.

    Args:
        folder: that holds the version.

    Raises:
        UserError: TensorFlow cannot load it.
    """

    takes_batches = True

    def __init__(self, folder: Path) -> None:
        tf.config.set_visible_devices([], "GPU")
        try:
            self._model = tf.saved_model.load(str(folder / VERSION))
        except (OSError, ValueError, tf.errors.OpError) as error:
            raise UserError(f"{folder / VERSION}: TensorFlow cannot load it ({error})") from None

    @override
    def run(self, waveforms: Sequence[Waveform]) -> list[Outputs]:
        audio, num_samples = pad_waveforms(waveforms)
        outputs = self._model.signatures["logits"](
            audio=tf.constant(audio), num_samples=tf.constant(num_samples)
        )
        logits, tokens = outputs["logits"].numpy(), outputs["tokens"].numpy()
        return [
            Outputs(
                logits[row, : outputs["num_frames"][row]],
                tuple(token.decode() for token in tokens[row, : outputs["num_tokens"][row]]),
            )
            for row in range(len(waveforms))
        ]

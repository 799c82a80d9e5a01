"""Run an acoustic model on its devices: audio -> logits.

runner = TensorFlowRunner(model)                                        # on one device
runner = TensorFlowRunner(model, spread_over(devices), len(devices))    # each gets its share of the rows
best_paths = runner.compiled(best_path)                                 # a function of a batch, traced once
path = best_paths(audio, num_samples)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np
import tensorflow as tf
from typing_extensions import override

from asr.audio.recording import Waveform
from asr.base.types import Logits, Tensor
from asr.ctc.posteriors import log_posteriors
from asr.ctc.search import LogProbs
from asr.model.acoustic_model import AcousticModel
from asr.model.devices import Spread, on_one_device
from asr.model.runner import ModelRunner, Reduce, RunClip

AUDIO_SIGNATURE = (tf.TensorSpec((None, None), tf.int16), tf.TensorSpec((None,), tf.int32))
BATCH_SIGNATURE = (*AUDIO_SIGNATURE, tf.TensorSpec((None, None), tf.int32), tf.TensorSpec((None,), tf.int32))
CLIP_SIGNATURE = (tf.TensorSpec((1, None), tf.int16), tf.TensorSpec((1,), tf.int32))

Placed: TypeAlias = Callable[..., Logits]
"""Maps audio and num_samples to logits; see `asr.model.devices.ModelDevices.place`."""


class TensorFlowRunner(ModelRunner):
    """An acoustic model on devices, each of which runs a share of the rows of a batch of audio.

    Args:
        model: maps audio to logits.
        spread: runs a function of a batch on several devices.
        num_devices: number of these devices.
        placed: what is called in place of the model where its layers are on several devices; None for the
            model itself.
    """

    def __init__(
        self,
        model: AcousticModel,
        spread: Spread = on_one_device,
        num_devices: int = 1,
        placed: Placed | None = None,
    ) -> None:
        self._model, self.num_devices, self._spread = model, num_devices, spread
        self._placed = placed or model

    @property
    @override
    def model(self) -> AcousticModel:
        return self._model

    @override
    def compiled(
        self, reduce: Reduce, signature: Sequence[tf.TensorSpec] = AUDIO_SIGNATURE
    ) -> Callable[..., Any]:
        """Return a function (audio, num_samples, ...) -> reduce(logits, ...), traced once for all batches.

        Args:
            reduce: is applied to the logits and the arguments after `num_samples`, in the graph, so that
                (B, T, V) stays on the device.
            signature: signature of the function: `AUDIO_SIGNATURE`, or `BATCH_SIGNATURE` with labels.
        """

        def step(audio: Tensor, num_samples: Tensor, *others: Tensor) -> Any:
            return reduce(self._placed(audio, num_samples), *others)

        # training does without autograph as well, which would convert every function first
        traced: Callable[..., Any] = tf.function(
            self._spread(step), input_signature=tuple(signature), autograph=False
        )
        return traced

    @override
    def compiled_with_labels(self, reduce: Reduce) -> Callable[..., Any]:
        return self.compiled(reduce, BATCH_SIGNATURE)

    @override
    def clip_runner(self) -> RunClip:
        compiled = TensorFlowRunner(self.model).compiled(log_posteriors, CLIP_SIGNATURE)

        def run(padded: Waveform, num_samples: int) -> LogProbs:
            values, num_frames = compiled(padded[None], np.array([num_samples], np.int32))
            log_probs: LogProbs = values.numpy()[0, : int(num_frames[0])]
            return log_probs

        return run
